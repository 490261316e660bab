"""Memory as an adversary: what hardware lets pass is seen here, and told."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import byref, c_uint64
from typing import Any

import pytest

from .control import only_simulated, report
from .cuda import check, cu
from .resources import Resources, allocate, download, upload, value

pytestmark = only_simulated

REDZONE, POISON, FRESH = 0xFB, 0xDD, 0xCB
INVALID_VALUE = 1


def _seen(address: int) -> list[dict[str, Any]]:
    """Return what the report holds about an address."""
    return [fault for fault in report()["faults"] if fault["address"] == hex(address)]


def test_new_memory_is_not_zero(gpu: Resources) -> None:
    """Whoever relies on zeros finds out."""
    assert download(gpu.alloc(100), 100) == bytes([FRESH]) * 100


def test_freed_memory_is_poisoned_and_its_address_rests(gpu: Resources) -> None:
    """A pointer that was kept reads poison, not its old bytes or somebody's new ones."""
    address = allocate(1000)
    upload(address, b"secret" * 100)
    check(cu.cuMemFree_v2(address))
    assert ctypes.string_at(address, 1000) == bytes([POISON]) * 1000
    others = [gpu.alloc(1000) for _ in range(100)]
    assert address not in others


def test_memory_of_a_pool_is_poisoned_when_its_stream_gets_there(gpu: Resources) -> None:
    """Not when cuMemFreeAsync is called."""
    stream = gpu.stream()
    address = gpu.alloc_async(100, stream)
    check(cu.cuMemsetD8Async(address, 7, 100, stream))
    check(cu.cuStreamSynchronize(stream))
    check(cu.cuMemFreeAsync(address, stream))
    assert ctypes.string_at(address, 100) == bytes([7]) * 100
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(address, 100) == bytes([POISON]) * 100


@pytest.mark.parametrize("where", [-1, 1000, 1511])
def test_a_write_around_an_allocation_is_told_when_it_is_freed(gpu: Resources, where: int) -> None:
    """A host that holds the address can write anywhere; the redzones tell."""
    address = allocate(1000)
    assert ctypes.string_at(address + where, 1) == bytes([REDZONE])
    ctypes.memset(address + where, 1, 1)
    check(cu.cuMemFree_v2(address))
    (fault,) = _seen(address)
    assert "overwritten" in fault["what"]
    assert fault["function"] == "cuMemFree_v2"


def test_a_double_free_is_told_with_what_the_memory_was(gpu: Resources) -> None:
    """The driver's code for the program, the story for its author."""
    address = allocate(1000)
    check(cu.cuMemFree_v2(address))
    assert cu.cuMemFree_v2(address) == INVALID_VALUE
    (fault,) = _seen(address)
    assert (fault["what"], fault["status"]) == ("double free", INVALID_VALUE)
    assert "1000 bytes" in fault["nearest"]
    assert "freed by cuMemFree_v2" in fault["nearest"]


def test_a_copy_out_of_range_is_told_with_how_far(gpu: Resources) -> None:
    """Nothing was written, and the nearest allocation is named."""
    address = gpu.alloc(100)
    assert cu.cuMemcpyHtoD_v2(address + 90, b"x" * 20, 20) == INVALID_VALUE
    (fault,) = _seen(address + 90)
    assert fault["what"] == "copy writes: 10 of 20 bytes lie past the end"
    assert "90 bytes into buffer" in fault["nearest"]


def test_a_free_inside_an_allocation_is_told_apart(gpu: Resources) -> None:
    """From a double free, and from an address that never was."""
    address = gpu.alloc(100)
    assert cu.cuMemFree_v2(address + 8) == INVALID_VALUE
    assert [fault["what"] for fault in _seen(address + 8)] == [
        "free of an address inside an allocation"
    ]
    assert cu.cuMemFree_v2(0x4242) == INVALID_VALUE
    assert "never allocated" in _seen(0x4242)[-1]["what"]


def test_use_after_a_free_in_stream_order_is_told(gpu: Resources) -> None:
    """The memory is still there, but it is not the caller's."""
    stream = gpu.stream()
    address = gpu.alloc_async(100, stream)
    check(cu.cuMemFreeAsync(address, stream))
    assert cu.cuMemsetD8Async(address, 1, 8, stream) == INVALID_VALUE
    (fault,) = _seen(address)
    assert fault["what"] == "fill writes after cuMemFreeAsync"
    check(cu.cuStreamSynchronize(stream))


def test_memory_that_a_queued_copy_uses_is_freed_behind_it(gpu: Resources) -> None:
    """cuMemFree waits for the work that uses the memory, so that the copy gets the bytes."""
    stream, source, target = gpu.stream(), allocate(64), gpu.alloc(64)
    check(cu.cuMemsetD8Async(source, 5, 64, stream))
    check(cu.cuMemcpyDtoDAsync_v2(target, source, 64, stream))
    check(cu.cuMemFree_v2(source))
    check(cu.cuStreamSynchronize(stream))
    assert download(target, 64) == bytes([5]) * 64


def test_a_buffer_id_is_never_used_twice(gpu: Resources) -> None:
    """Over kinds of memory, and over addresses that come back."""
    seen = set()
    for _ in range(200):
        address = allocate(512)
        number = value(c_uint64, cu.cuPointerGetAttribute, 7, address)
        assert number not in seen
        seen.add(number)
        check(cu.cuMemFree_v2(address))


def test_a_host_pointer_that_leads_nowhere_is_refused(gpu: Resources) -> None:
    """Where a real driver follows it and the process ends."""
    device, junk = gpu.alloc(64), 0x12345000
    assert cu.cuMemcpyHtoD_v2(device, junk, 64) == INVALID_VALUE
    assert cu.cuMemcpyDtoH_v2(junk, device, 64) == INVALID_VALUE
    assert "nothing is mapped here" in _seen(junk)[-1]["what"]
    out = c_uint64()
    assert cu.cuMemAlloc_v2(byref(out), 64) == 0
    check(cu.cuMemFree_v2(out.value))


def test_a_copy_to_read_only_memory_is_refused(gpu: Resources) -> None:
    """Where a real driver ends the process."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    page = libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, flags, -1, 0)
    assert cu.cuMemcpyDtoH_v2(page, gpu.alloc(64), 64) == INVALID_VALUE
    assert _seen(page)[-1]["what"] == "copy writes: the memory is read-only"
    libc.munmap(ctypes.c_void_p(page), mmap.PAGESIZE)
