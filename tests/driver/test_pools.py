"""Memory in stream order: pools, their attributes, and who may reach them."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint64, c_void_p

import pytest

from .cuda import AccessDescription, Location, PoolProperties, check, cu
from .resources import DEVICE, JUNK, LEGACY, PER_THREAD, Resources, allocate, download, value

# CUmemPool_attribute
FOLLOW_EVENTS, OPPORTUNISTIC, INTERNAL, THRESHOLD = 1, 2, 3, 4
RESERVED, RESERVED_HIGH, USED, USED_HIGH = 5, 6, 7, 8
READ_WRITE = 3
MIB = 1 << 20


def _get(pool: int, attribute: int) -> int:
    kind = c_int if attribute <= INTERNAL else c_uint64
    out = kind()
    check(cu.cuMemPoolGetAttribute(pool, attribute, byref(out)))
    return out.value


def _set(pool: int, attribute: int, number: int) -> int:
    kind = c_int if attribute <= INTERNAL else c_uint64
    return cu.cuMemPoolSetAttribute(pool, attribute, byref(kind(number)))


def _default() -> int:
    return value(c_void_p, cu.cuDeviceGetDefaultMemPool, 0)


def test_a_new_pool_is_empty_and_reuses_freely(gpu: Resources) -> None:
    """All reuse allowed, nothing kept, nothing reserved, nothing used."""
    pool = gpu.pool()
    assert [_get(pool, n) for n in range(1, 9)] == [1, 1, 1, 0, 0, 0, 0, 0]


def test_reuse_rules_are_switches(gpu: Resources) -> None:
    """Any number but zero is on."""
    pool = gpu.pool()
    for attribute in (FOLLOW_EVENTS, OPPORTUNISTIC, INTERNAL):
        for number, seen in [(0, 0), (1, 1), (0, 0), (2, 1)]:
            check(_set(pool, attribute, number))
            assert _get(pool, attribute) == seen


def test_use_is_counted_in_bytes_asked_for(gpu: Resources) -> None:
    """Exactly; what is reserved covers it, and marks remember the highest."""
    pool, stream = gpu.pool(), gpu.stream()
    first = gpu.alloc_async(1000, stream, pool)
    second = gpu.alloc_async(3 * MIB, stream, pool)
    assert _get(pool, USED) == _get(pool, USED_HIGH) == 1000 + 3 * MIB
    assert _get(pool, RESERVED) >= _get(pool, USED)
    assert _get(pool, RESERVED_HIGH) == _get(pool, RESERVED)
    check(cu.cuMemFreeAsync(second, stream))
    check(cu.cuStreamSynchronize(stream))
    assert _get(pool, USED) == 1000
    assert _get(pool, USED_HIGH) == 1000 + 3 * MIB
    check(cu.cuMemFreeAsync(first, stream))
    check(cu.cuStreamSynchronize(stream))
    assert _get(pool, USED) == 0


def test_marks_can_be_reset_to_zero_only(gpu: Resources) -> None:
    """They then start from what is in use now; the current numbers cannot be set."""
    pool, stream = gpu.pool(), gpu.stream()
    kept = gpu.alloc_async(1000, stream, pool)
    gone = gpu.alloc_async(64 * MIB, stream, pool)
    check(cu.cuMemFreeAsync(gone, stream))
    check(cu.cuStreamSynchronize(stream))
    for high, now in [(USED_HIGH, USED), (RESERVED_HIGH, RESERVED)]:
        assert _get(pool, high) > _get(pool, now)
        assert _set(pool, high, 1) == 1
        assert _set(pool, high, 0) == 0
        assert _get(pool, high) == _get(pool, now)
        assert _set(pool, now, 0) == 1
    check(cu.cuMemFreeAsync(kept, stream))


def test_unknown_attributes_are_refused(gpu: Resources) -> None:
    """On both sides."""
    pool, out = gpu.pool(), c_uint64()
    for attribute in (0, -1, 99):
        assert cu.cuMemPoolGetAttribute(pool, attribute, byref(out)) == 1
        assert cu.cuMemPoolSetAttribute(pool, attribute, byref(out)) == 1
    assert cu.cuMemPoolGetAttribute(None, USED, byref(out)) == 1
    assert cu.cuMemPoolTrimTo(None, 0) == 1


def test_free_memory_goes_back_at_a_synchronise(gpu: Resources) -> None:
    """With no threshold the pool keeps nothing that is unused."""
    pool, stream = gpu.pool(), gpu.stream()
    address = gpu.alloc_async(64 * MIB, stream, pool)
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))
    assert _get(pool, RESERVED) == 0


def test_a_threshold_keeps_free_memory_until_it_is_trimmed(gpu: Resources) -> None:
    """The same block serves the next allocation; trimming to zero gives it back."""
    pool, stream = gpu.pool(), gpu.stream()
    check(_set(pool, THRESHOLD, 1 << 40))
    assert _get(pool, THRESHOLD) == 1 << 40
    address = gpu.alloc_async(64 * MIB, stream, pool)
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))
    assert _get(pool, RESERVED) >= 64 * MIB
    assert _get(pool, USED) == 0
    assert cu.cuMemPoolTrimTo(pool, 1 << 40) == 0
    assert _get(pool, RESERVED) >= 64 * MIB
    assert cu.cuMemPoolTrimTo(pool, 0) == 0
    assert _get(pool, RESERVED) == 0


def test_trimming_keeps_what_is_in_use(gpu: Resources) -> None:
    """And its bytes."""
    pool, stream = gpu.pool(), gpu.stream()
    address = gpu.alloc_async(1000, stream, pool)
    check(cu.cuMemsetD8Async(address, 4, 1000, stream))
    check(cu.cuStreamSynchronize(stream))
    check(cu.cuMemPoolTrimTo(pool, 0))
    assert _get(pool, RESERVED) >= 1000
    assert download(address, 1000) == b"\x04" * 1000
    check(cu.cuMemFreeAsync(address, stream))


@pytest.mark.parametrize("stream", [None, LEGACY, PER_THREAD])
def test_the_special_streams_allocate_too(gpu: Resources, stream: int | None) -> None:
    """As any stream does."""
    address = gpu.alloc_async(100, stream)
    check(cu.cuMemsetD8Async(address, 1, 100, stream))
    assert cu.cuMemFreeAsync(address, stream) == 0
    assert cu.cuStreamSynchronize(stream) == 0


def test_memory_lives_in_stream_order(gpu: Resources) -> None:
    """Allocated, written, read and freed without one wait of the host."""
    stream, gate, out = gpu.stream(), gpu.gate(), gpu.pinned(1000)
    gate.hold(stream)
    address = gpu.alloc_async(1000, stream)
    assert address % 512 == 0
    check(cu.cuMemsetD8Async(address, 8, 1000, stream))
    check(cu.cuMemcpyDtoHAsync_v2(out, address, 1000, stream))
    check(cu.cuMemFreeAsync(address, stream))
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(out, 1000) == b"\x08" * 1000


def test_a_stream_may_free_and_allocate_again_without_a_wait(gpu: Resources) -> None:
    """Whether the block is the same or not: each life of it is written and read in order."""
    stream, gate, out = gpu.stream(), gpu.gate(), gpu.pinned(4000)
    gate.hold(stream)
    for number in range(4):
        address = gpu.alloc_async(1000, stream)
        check(cu.cuMemsetD8Async(address, number, 1000, stream))
        check(cu.cuMemcpyDtoHAsync_v2(out + 1000 * number, address, 1000, stream))
        check(cu.cuMemFreeAsync(address, stream))
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(out, 4000) == b"".join(bytes([n]) * 1000 for n in range(4))


def test_memory_freed_in_stream_order_is_gone_for_the_host_at_once(gpu: Resources) -> None:
    """Used on that stream or another, before or after it ran: INVALID_VALUE."""
    first, second, host = gpu.stream(), gpu.stream(), gpu.pinned(64)
    address = gpu.alloc_async(MIB, first)
    check(cu.cuStreamSynchronize(first))
    check(cu.cuMemFreeAsync(address, first))
    for _ in range(2):
        for stream in (first, second):
            assert cu.cuMemcpyHtoDAsync_v2(address, host, 64, stream) == 1
            assert cu.cuMemsetD8Async(address, 1, 64, stream) == 1
        assert cu.cuMemFreeAsync(address, first) == 1
        assert cu.cuMemFree_v2(address) == 1
        check(cu.cuStreamSynchronize(first))


def test_memory_may_be_freed_on_another_stream(gpu: Resources) -> None:
    """After what that stream waited for."""
    first, second, event, pool = gpu.stream(), gpu.stream(), gpu.event(), gpu.pool()
    address = gpu.alloc_async(1000, first, pool)
    check(cu.cuEventRecord(event, first))
    check(cu.cuStreamWaitEvent(second, event, 0))
    assert cu.cuMemFreeAsync(address, second) == 0
    check(cu.cuStreamSynchronize(second))
    assert _get(pool, USED) == 0


def test_pool_memory_can_be_freed_without_a_stream(gpu: Resources) -> None:
    """cuMemFree takes it, once. (Hardware goes on counting it as used: not asked here.)"""
    stream = gpu.stream()
    address = gpu.alloc_async(1000, stream)
    check(cu.cuStreamSynchronize(stream))
    assert cu.cuMemFree_v2(address) == 0
    assert cu.cuMemFree_v2(address) == 1
    assert cu.cuMemFreeAsync(address, stream) == 1


def test_plain_memory_can_be_freed_in_stream_order(gpu: Resources) -> None:
    """cuMemFreeAsync takes what cuMemAlloc gave."""
    stream, address = gpu.stream(), allocate(100)
    assert cu.cuMemFreeAsync(address, stream) == 0
    check(cu.cuStreamSynchronize(stream))
    assert cu.cuMemFree_v2(address) == 1


def test_what_cannot_be_freed_in_stream_order(gpu: Resources) -> None:
    """Interior, junk and host addresses; zero is fine."""
    stream = gpu.stream()
    address = gpu.alloc_async(1000, stream)
    for wrong in (address + 256, JUNK, gpu.pinned(64)):
        assert cu.cuMemFreeAsync(wrong, stream) == 1
    assert cu.cuMemFreeAsync(0, stream) == 0
    assert cu.cuMemFreeAsync(address, stream) == 0


def test_no_bytes_are_no_error_in_stream_order(gpu: Resources) -> None:
    """Zero bytes give zero; too many OUT_OF_MEMORY; a NULL result is refused."""
    stream, out = gpu.stream(), c_uint64(99)
    assert cu.cuMemAllocAsync(byref(out), 0, stream) == 0
    assert out.value == 0
    assert cu.cuMemAllocAsync(byref(out), 1 << 45, stream) == 2
    assert out.value == 0
    assert cu.cuMemAllocAsync(None, 10, stream) == 1
    assert cu.cuMemAllocFromPoolAsync(byref(out), 100, None, stream) == 1


def test_what_a_pool_can_be_made_of(gpu: Resources) -> None:
    """Pinned memory of a device that exists; NULLs are refused; the default pool stays."""
    out = c_void_p()
    for kind, where, code in [(1, (DEVICE, 0), 0), (0, (DEVICE, 0), 1), (1, (0, 0), 1)]:
        wanted = PoolProperties(allocType=kind, location=Location(*where))
        assert cu.cuMemPoolCreate(byref(out), byref(wanted)) == code
        if code == 0:
            assert cu.cuMemPoolDestroy(out) == 0
    absent = PoolProperties(allocType=1, location=Location(DEVICE, 1000))
    assert cu.cuMemPoolCreate(byref(out), byref(absent)) == 1
    assert cu.cuMemPoolCreate(None, byref(absent)) == 1
    assert cu.cuMemPoolCreate(byref(out), None) == 1
    assert cu.cuMemPoolDestroy(_default()) == 1
    assert cu.cuMemPoolDestroy(None) == 1


def test_a_pool_may_have_a_limit(gpu: Resources) -> None:
    """Rounded up, but not without end: then OUT_OF_MEMORY, and smaller ones still fit."""
    pool, stream, out = gpu.pool(maxSize=MIB), gpu.stream(), c_uint64()
    assert cu.cuMemAllocFromPoolAsync(byref(out), 1 << 30, pool, stream) == 2
    address = gpu.alloc_async(1000, stream, pool)
    check(cu.cuMemFreeAsync(address, stream))


def test_a_pool_destroyed_early_lives_on_for_its_memory(gpu: Resources) -> None:
    """What was allocated stays valid until it is freed."""
    wanted = PoolProperties(allocType=1, location=Location(DEVICE, 0))
    pool, stream = value(c_void_p, cu.cuMemPoolCreate, byref(wanted)), gpu.stream()
    address = gpu.alloc_async(1000, stream, pool)
    assert cu.cuMemPoolDestroy(pool) == 0
    check(cu.cuMemsetD8Async(address, 2, 1000, stream))
    check(cu.cuStreamSynchronize(stream))
    assert download(address, 1000) == b"\x02" * 1000
    assert cu.cuMemFreeAsync(address, stream) == 0
    assert cu.cuStreamSynchronize(stream) == 0


def test_another_pool_can_be_the_current_one(gpu: Resources) -> None:
    """cuMemAllocAsync then takes from it; the default pool stays the default."""
    pool, stream, default = gpu.pool(), gpu.stream(), _default()
    check(cu.cuDeviceSetMemPool(0, pool))
    try:
        assert value(c_void_p, cu.cuDeviceGetMemPool, 0) == pool
        assert _default() == default
        address = gpu.alloc_async(100, stream)
        assert _get(pool, USED) == 100
        check(cu.cuMemFreeAsync(address, stream))
        check(cu.cuStreamSynchronize(stream))
    finally:
        check(cu.cuDeviceSetMemPool(0, default))
    assert cu.cuDeviceSetMemPool(0, None) == 1


def test_a_pool_is_open_to_its_own_device(gpu: Resources) -> None:
    """Reading and writing, which cannot be taken away."""
    pool, flags, here = gpu.pool(), c_int(-1), Location(DEVICE, 0)
    assert cu.cuMemPoolGetAccess(byref(flags), pool, byref(here)) == 0
    assert flags.value == READ_WRITE
    mine = AccessDescription(here, READ_WRITE)
    assert cu.cuMemPoolSetAccess(pool, byref(mine), 1) == 0
    for wrong, code in [(0, 101), (2, 1)]:
        mine = AccessDescription(here, wrong)
        assert cu.cuMemPoolSetAccess(pool, byref(mine), 1) == code
    assert cu.cuMemPoolGetAccess(byref(flags), pool, byref(here)) == 0
    assert flags.value == READ_WRITE


def test_wrong_questions_about_access_are_refused(gpu: Resources) -> None:
    """An absent device, NULLs, no descriptions."""
    pool, flags = gpu.pool(), c_int()
    here, absent = Location(DEVICE, 0), Location(DEVICE, 1000)
    assert cu.cuMemPoolGetAccess(byref(flags), pool, byref(absent)) == 1
    assert cu.cuMemPoolGetAccess(None, pool, byref(here)) == 1
    assert cu.cuMemPoolGetAccess(byref(flags), pool, None) == 1
    absent_access = AccessDescription(absent, READ_WRITE)
    assert cu.cuMemPoolSetAccess(pool, byref(absent_access), 1) == 101
    assert cu.cuMemPoolSetAccess(pool, None, 1) == 1
    assert cu.cuMemPoolSetAccess(pool, None, 0) == 1
