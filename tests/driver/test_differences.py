"""Answers that differ between the drivers and belong to no other test."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import byref, c_int, c_uint64

from .cuda import HOST_FUNCTION, check, cu
from .differences import DIFFERENCES, answer
from .resources import Resources, allocate

USED_MEM_CURRENT, MEMORY_TYPE = 7, 2


def test_each_difference_has_a_name_of_its_own_and_a_reason() -> None:
    """And is one: equal answers are no difference."""
    assert len({difference.name for difference in DIFFERENCES}) == len(DIFFERENCES)
    for difference in DIFFERENCES:
        assert difference.why
        assert difference.real != difference.simulated


def _used(pool: int) -> int:
    used = c_uint64()
    check(cu.cuMemPoolGetAttribute(pool, USED_MEM_CURRENT, byref(used)))
    return used.value


def test_what_a_pool_uses(gpu: Resources) -> None:
    """Falls when cuMemFreeAsync is called, and after cuMemFree only here."""
    stream, pool = gpu.stream(), gpu.pool()
    gate = gpu.gate()
    first = gpu.alloc_async(1000, stream, pool)
    gate.hold(stream)
    check(cu.cuMemFreeAsync(first, stream))
    assert _used(pool) == 0
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    second = gpu.alloc_async(1000, stream, pool)
    check(cu.cuStreamSynchronize(stream))
    check(cu.cuMemFree_v2(second))
    assert _used(pool) == answer("bytes that a pool uses after cuMemFree of its memory")


def test_plain_memory_after_a_free_in_stream_order(gpu: Resources) -> None:
    """Whether its attributes are told until the stream gets there."""
    stream, address, out = gpu.stream(), allocate(64), c_int()
    gate = gpu.gate()
    gate.hold(stream)
    check(cu.cuMemFreeAsync(address, stream))
    code = cu.cuPointerGetAttribute(byref(out), MEMORY_TYPE, address)
    assert code == answer("an attribute of plain memory after cuMemFreeAsync")
    gate.open()
    check(cu.cuStreamSynchronize(stream))


def test_registering_far_past_a_mapping(gpu: Resources) -> None:
    """Refused by both, with another code."""
    pages = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    code = cu.cuMemHostRegister_v2(address, 1 << 40, 0)
    assert code == answer("registering far past a mapping")


def test_a_query_in_a_host_function(gpu: Resources) -> None:
    """Of the stream that called it."""
    stream, codes = gpu.stream(), []
    ask = HOST_FUNCTION(lambda _: codes.append(cu.cuStreamQuery(stream)))
    check(cu.cuLaunchHostFunc(stream, ask, None))
    check(cu.cuStreamSynchronize(stream))
    assert codes == [answer("a query in a host function")]
