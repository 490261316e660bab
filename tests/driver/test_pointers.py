"""What the driver knows about an address: every pointer attribute, of every kind of memory."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import pytest

from .cuda import check, cu
from .resources import JUNK, Resources, allocate, in_thread, value

# CUpointer_attribute
CONTEXT, MEMORY_TYPE, DEVICE_POINTER, HOST_POINTER, SYNC_MEMOPS = 1, 2, 3, 4, 6
BUFFER_ID, IS_MANAGED, DEVICE_ORDINAL, IPC_CAPABLE = 7, 8, 9, 10
RANGE_START, RANGE_SIZE, MAPPED, HANDLE_TYPES = 11, 12, 13, 14
RDMA_CAPABLE, ACCESS_FLAGS, POOL = 15, 16, 17
MAPPING_SIZE, MAPPING_BASE, BLOCK_ID = 18, 19, 20

KINDS: dict[int, type] = {
    CONTEXT: c_void_p,
    MEMORY_TYPE: c_uint,
    DEVICE_POINTER: c_void_p,
    HOST_POINTER: c_void_p,
    SYNC_MEMOPS: c_uint,
    BUFFER_ID: c_uint64,
    IS_MANAGED: c_uint,
    DEVICE_ORDINAL: c_int,
    IPC_CAPABLE: c_uint,
    RANGE_START: c_void_p,
    RANGE_SIZE: c_size_t,
    MAPPED: c_uint,
    HANDLE_TYPES: c_uint64,
    RDMA_CAPABLE: c_uint,
    ACCESS_FLAGS: c_uint,
    POOL: c_void_p,
    MAPPING_SIZE: c_size_t,
    MAPPING_BASE: c_void_p,
    BLOCK_ID: c_uint64,
}
VARYING = {BUFFER_ID, IPC_CAPABLE, RDMA_CAPABLE, MAPPING_SIZE, MAPPING_BASE, BLOCK_ID}
UNTOUCHED = 99


def attribute(number: int, address: int) -> Any:
    """Ask for one attribute; an error raises."""
    return value(KINDS[number], cu.cuPointerGetAttribute, number, address)


def _code(number: int, address: int) -> int:
    return cu.cuPointerGetAttribute((c_uint64 * 4)(), number, address)


def _fixed(address: int) -> dict[int, Any]:
    """Return all attributes that must be equal everywhere; a refused one is its code, negative."""
    found = {}
    for number in KINDS.keys() - VARYING:
        code = _code(number, address)
        found[number] = -code if code else attribute(number, address)
    return found


def _many(numbers: list[int], address: int) -> tuple[int, dict[int, Any]]:
    """Ask for several attributes at once; each out holds UNTOUCHED before."""
    outs = {number: KINDS[number](UNTOUCHED) for number in numbers}
    places = (c_void_p * len(numbers))(*[ctypes.addressof(out) for out in outs.values()])
    code = cu.cuPointerGetAttributes(
        len(numbers), (c_int * len(numbers))(*numbers), places, address
    )
    return code, {number: out.value for number, out in outs.items()}


def _expected(
    address: int,
    base: int,
    size: int,
    context: int | None = None,
    pool: int | None = None,
    handles: int = 0,
) -> dict[int, Any]:
    """Return what plain device memory answers, with what the other kinds change."""
    return {
        CONTEXT: context,
        MEMORY_TYPE: 2,
        DEVICE_POINTER: address,
        HOST_POINTER: -1,
        SYNC_MEMOPS: 0,
        IS_MANAGED: 0,
        DEVICE_ORDINAL: 0,
        RANGE_START: base,
        RANGE_SIZE: size,
        MAPPED: 1,
        HANDLE_TYPES: handles,
        ACCESS_FLAGS: 3,
        POOL: pool,
    }


def _check_varying(address: int, base: int, size: int) -> None:
    start, length = attribute(MAPPING_BASE, address), attribute(MAPPING_SIZE, address)
    assert start <= base
    assert base + size <= start + length
    assert attribute(BUFFER_ID, address) > 0
    assert attribute(BLOCK_ID, address) > 0
    assert attribute(IPC_CAPABLE, address) in (0, 1)
    assert attribute(RDMA_CAPABLE, address) in (0, 1)


@pytest.mark.parametrize("offset", [0, 1, 500, 999])
def test_device_memory(gpu: Resources, offset: int) -> None:
    """DEVICE, no host pointer, its context, its exact range, from any byte of it."""
    base = gpu.alloc(1000)
    address = base + offset
    assert _fixed(address) == _expected(address, base, 1000, context=gpu.context)
    _check_varying(address, base, 1000)


@pytest.mark.parametrize("offset", [0, 10])
def test_pinned_memory(gpu: Resources, offset: int) -> None:
    """HOST, with the same address on both sides."""
    base = gpu.pinned(1000)
    address = base + offset
    expected = _expected(address, base, 1000, context=gpu.context)
    assert _fixed(address) == {**expected, MEMORY_TYPE: 1, HOST_POINTER: address}
    _check_varying(address, base, 1000)


@pytest.mark.parametrize("offset", [0, 10])
def test_managed_memory(gpu: Resources, offset: int) -> None:
    """DEVICE, with a host pointer, and synchronous operations stay synchronous."""
    base = gpu.managed(1000)
    address = base + offset
    expected = _expected(address, base, 1000, context=gpu.context)
    changes = {HOST_POINTER: address, IS_MANAGED: 1, SYNC_MEMOPS: 1}
    assert _fixed(address) == {**expected, **changes}
    _check_varying(address, base, 1000)


def test_registered_memory(gpu: Resources) -> None:
    """As pinned; the range is the bytes as registered, not their pages."""
    memory = mmap.mmap(-1, 16384)
    view = ctypes.c_char.from_buffer(memory)
    start = ctypes.addressof(view)
    base = start + 100
    check(cu.cuMemHostRegister_v2(base, 5000, 0))
    try:
        for address in (base, base + 1000, base + 4999):
            expected = _expected(address, base, 5000, context=gpu.context)
            assert _fixed(address) == {**expected, MEMORY_TYPE: 1, HOST_POINTER: address}
        _check_varying(base, base, 5000)
        assert _code(MEMORY_TYPE, base - 1) == 1
        assert _code(MEMORY_TYPE, base + 5000) == 1
    finally:
        check(cu.cuMemHostUnregister(base))
    assert _code(MEMORY_TYPE, base) == 1
    del view
    memory.close()


@pytest.mark.parametrize("offset", [0, 600])
def test_memory_of_the_default_pool(gpu: Resources, offset: int) -> None:
    """Belongs to a pool and to no context."""
    stream = gpu.stream()
    base = gpu.alloc_async(1000, stream)
    address = base + offset
    pool = value(c_void_p, cu.cuDeviceGetDefaultMemPool, 0)
    assert _fixed(address) == _expected(address, base, 1000, pool=pool)
    assert attribute(IPC_CAPABLE, address) == 0
    _check_varying(address, base, 1000)
    assert _code(MEMORY_TYPE, base + 1000) == 1
    check(cu.cuMemFreeAsync(base, stream))
    assert _code(MEMORY_TYPE, base) == 1


def test_memory_of_a_pool_that_shares_by_file_descriptor(gpu: Resources) -> None:
    """Names its pool, and the handle type the pool was made with."""
    stream, pool = gpu.stream(), gpu.pool(handleTypes=1)
    address = gpu.alloc_async(1000, stream, pool)
    assert _fixed(address) == _expected(address, address, 1000, pool=pool, handles=1)
    check(cu.cuMemFreeAsync(address, stream))


def _unknown(gpu: Resources) -> list[int]:
    """Return addresses of no memory: NULL, junk, one past an end, freed, freed pinned."""
    end = gpu.alloc(1000) + 1000
    freed = allocate(3000)
    check(cu.cuMemFree_v2(freed))
    pinned = value(c_void_p, cu.cuMemAllocHost_v2, 3000)
    check(cu.cuMemFreeHost(pinned))
    return [0, JUNK, end, freed, pinned]


def test_one_attribute_of_unknown_memory_is_refused(gpu: Resources) -> None:
    """INVALID_VALUE, and nothing is written."""
    plain = ctypes.create_string_buffer(64)
    for address in [*_unknown(gpu), ctypes.addressof(plain)]:
        for number, kind in KINDS.items():
            out = kind(UNTOUCHED)
            assert cu.cuPointerGetAttribute(byref(out), number, address) == 1
            assert out.value == UNTOUCHED


def test_many_attributes_of_unknown_memory_are_empty(gpu: Resources) -> None:
    """Success: all zero, the host pointer the address itself, the device -2, no range at all."""
    plain = ctypes.create_string_buffer(64)
    for address in [*_unknown(gpu), ctypes.addressof(plain)]:
        code, found = _many(list(KINDS), address)
        assert code == 0
        empty = {number: kind().value for number, kind in KINDS.items()}
        empty.update({HOST_POINTER: address or None, DEVICE_ORDINAL: -2})
        assert found == {**empty, RANGE_START: UNTOUCHED, RANGE_SIZE: UNTOUCHED}


def test_many_attributes_agree_with_single_ones(gpu: Resources) -> None:
    """Where a single one is refused (no host pointer), the value is NULL."""
    for address in (gpu.alloc(100) + 3, gpu.pinned(100) + 3, gpu.managed(100) + 3):
        code, found = _many(list(KINDS), address)
        assert code == 0
        for number, seen in found.items():
            single = None if _code(number, address) else attribute(number, address)
            assert seen == single, number


def test_wrong_questions_are_refused(gpu: Resources) -> None:
    """Unknown attributes, NULL results, and no attributes at all."""
    address, out = gpu.alloc(100), (c_uint64 * 4)()
    assert [_code(number, address) for number in (0, -1, 99)] == [1, 1, 1]
    assert cu.cuPointerGetAttribute(None, MEMORY_TYPE, address) == 1
    places = (c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(out) + 16)
    wrong, right = (c_int * 2)(MEMORY_TYPE, 99), (c_int * 2)(MEMORY_TYPE, IS_MANAGED)
    assert cu.cuPointerGetAttributes(2, wrong, places, address) == 1
    assert cu.cuPointerGetAttributes(0, right, places, address) == 1
    assert cu.cuPointerGetAttributes(2, None, places, address) == 1
    assert cu.cuPointerGetAttributes(2, right, None, address) == 1
    assert cu.cuPointerGetAttributes(2, right, places, address) == 0


def test_a_buffer_id_never_comes_back(gpu: Resources) -> None:
    """Live memory of all kinds has its own; a new allocation at an old address has a new one."""
    kinds = [gpu.alloc(1000), gpu.alloc(1000), gpu.pinned(1000), gpu.managed(1000)]
    ids = [attribute(BUFFER_ID, address) for address in kinds]
    for _ in range(5):
        address = allocate(1000)
        ids.append(attribute(BUFFER_ID, address))
        assert attribute(BUFFER_ID, address + 999) == ids[-1]
        check(cu.cuMemFree_v2(address))
    assert len(set(ids)) == len(ids)


def test_synchronous_operations_can_be_asked_for(gpu: Resources) -> None:
    """SYNC_MEMOPS is the one attribute that can be set, on any memory of the driver's."""
    stream = gpu.stream()
    pooled = gpu.alloc_async(100, stream)
    on, off = c_uint(1), c_uint(0)
    device, managed = gpu.alloc(100), gpu.managed(100)
    for address in (device, device + 8, gpu.pinned(100), managed, pooled):
        assert cu.cuPointerSetAttribute(byref(on), SYNC_MEMOPS, address) == 0
        assert attribute(SYNC_MEMOPS, address) == 1
    check(cu.cuPointerSetAttribute(byref(off), SYNC_MEMOPS, device))
    assert attribute(SYNC_MEMOPS, device) == 0
    check(cu.cuMemFreeAsync(pooled, stream))


def test_nothing_else_can_be_set(gpu: Resources) -> None:
    """Another attribute, unknown memory and a NULL value are INVALID_VALUE."""
    on, device, plain = c_uint(1), gpu.alloc(100), ctypes.create_string_buffer(16)
    assert cu.cuPointerSetAttribute(byref(on), MEMORY_TYPE, device) == 1
    assert cu.cuPointerSetAttribute(byref(on), SYNC_MEMOPS, ctypes.addressof(plain)) == 1
    assert cu.cuPointerSetAttribute(byref(on), SYNC_MEMOPS, 0) == 1
    assert cu.cuPointerSetAttribute(None, SYNC_MEMOPS, device) == 1


def test_attributes_need_no_context_but_the_device_pointer_does(gpu: Resources) -> None:
    """It is the address as the current context sees it."""
    address = gpu.alloc(1000)

    def ask() -> list[int]:
        return [_code(number, address) for number in (CONTEXT, MEMORY_TYPE, DEVICE_POINTER)]

    assert in_thread(ask) == [0, 0, 201]


def test_memory_of_another_context_names_that_context(gpu: Resources) -> None:
    """Asked from any context."""
    other = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    address = allocate(100)
    assert attribute(CONTEXT, address) == other
    check(cu.cuCtxPopCurrent_v2(None))
    assert attribute(CONTEXT, address) == other
    check(cu.cuCtxDestroy_v2(other))
    assert _code(CONTEXT, address) == 1
