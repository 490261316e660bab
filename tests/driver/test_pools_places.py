"""Pools of host and of managed memory, and the pools of each place."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p

import pytest

from .cuda import SIMULATED, AccessDescription, Location, PoolProperties, check, cu
from .resources import DEVICE, HOST, Resources, download, value

NONE = 0  # CU_MEM_LOCATION_TYPE_NONE
PINNED, MANAGED = 1, 2  # CUmemAllocationType
HOST_POOLS, CONCURRENT_MANAGED = 144, 89  # CUdevice_attribute
MEMORY_TYPE, HOST_POINTER, IS_MANAGED, MEMPOOL = 2, 4, 8, 17  # CUpointer_attribute
SIZE = 64


def _has(attribute: int) -> bool:
    return value(c_int, cu.cuDeviceGetAttribute, attribute, 0) != 0


def _pool(gpu: Resources, kind: int, location: Location) -> int:
    wanted = PoolProperties(allocType=kind, location=location)
    return gpu._keep(cu.cuMemPoolDestroy, value(c_void_p, cu.cuMemPoolCreate, byref(wanted)))


def _open(pool: int) -> None:
    check(cu.cuMemPoolSetAccess(pool, byref(AccessDescription(Location(DEVICE, 0), 3)), 1))


def _ask(attribute: int, address: int, kind: type = c_uint) -> int:
    return value(kind, cu.cuPointerGetAttribute, attribute, address)


def test_a_pool_of_the_host_gives_memory_that_host_and_device_use(gpu: Resources) -> None:
    """In stream order, like any other pool."""
    if not _has(HOST_POOLS):
        pytest.skip("the device has no pools of host memory")
    stream, pool, device = gpu.stream(), _pool(gpu, PINNED, Location(HOST, 0)), gpu.alloc(SIZE)
    _open(pool)
    address = gpu.alloc_async(SIZE, stream, pool)
    check(cu.cuStreamSynchronize(stream))
    ctypes.memset(address, 3, SIZE)
    check(cu.cuMemcpyAsync(device, address, SIZE, stream))
    check(cu.cuMemsetD8Async(address, 4, SIZE, stream))
    check(cu.cuStreamSynchronize(stream))
    assert download(device, SIZE) == b"\3" * SIZE
    assert ctypes.string_at(address, SIZE) == b"\4" * SIZE
    assert _ask(MEMORY_TYPE, address) == HOST - 1
    assert _ask(HOST_POINTER, address, c_uint64) == address
    assert _ask(MEMPOOL, address, c_uint64) == pool
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))


def test_a_pool_of_managed_memory_gives_managed_memory(gpu: Resources) -> None:
    """Which the host reads and writes, too."""
    if not _has(CONCURRENT_MANAGED):
        pytest.skip("host and device do not share managed memory at once")
    stream, pool = gpu.stream(), _pool(gpu, MANAGED, Location(NONE, 0))
    address = gpu.alloc_async(SIZE, stream, pool)
    check(cu.cuMemsetD8Async(address, 5, SIZE, stream))
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(address, SIZE) == b"\5" * SIZE
    assert _ask(IS_MANAGED, address) == 1
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))


def _found(function: object, location: Location, kind: int) -> int:
    assert callable(function)
    return value(c_void_p, function, byref(location), kind)


def test_each_place_has_a_default_and_a_current_pool(gpu: Resources) -> None:
    """Those of a device are the ones that it names itself."""
    here = Location(DEVICE, 0)
    default, current = cu.cuMemGetDefaultMemPool, cu.cuMemGetMemPool
    assert _found(default, here, PINNED) == value(c_void_p, cu.cuDeviceGetDefaultMemPool, 0)
    assert _found(current, here, PINNED) == value(c_void_p, cu.cuDeviceGetMemPool, 0)
    if _has(HOST_POOLS):
        host = Location(HOST, 0)
        assert _found(default, host, PINNED) == _found(current, host, PINNED)
        assert _found(default, host, PINNED) != _found(default, here, PINNED)
    assert default(byref(c_void_p()), byref(here), 99) == 1
    for kind in (PINNED, MANAGED):
        assert default(byref(c_void_p()), byref(Location(DEVICE, 99)), kind) != 0
    assert default(None, byref(here), PINNED) == 1


def test_the_current_pool_of_a_place_can_be_set(gpu: Resources) -> None:
    """To a pool of that place; the default one cannot be destroyed."""
    here, own = Location(DEVICE, 0), gpu.pool()
    before = _found(cu.cuMemGetMemPool, here, PINNED)
    check(cu.cuMemSetMemPool(byref(here), PINNED, own))
    assert value(c_void_p, cu.cuDeviceGetMemPool, 0) == own
    check(cu.cuMemSetMemPool(byref(here), PINNED, before))
    assert cu.cuMemSetMemPool(byref(here), PINNED, None) == 1
    assert cu.cuMemPoolDestroy(_found(cu.cuMemGetDefaultMemPool, here, PINNED)) == 1


def test_a_pool_of_another_device_is_closed_until_it_is_opened(gpu: Resources) -> None:
    """To copies of the device that has no access; what runs on its own device may use it."""
    if value(c_int, cu.cuDeviceGetCount) < 2:
        assert not SIMULATED, "the simulated driver shows one device"
        pytest.skip("there is one device")
    check(cu.cuDevicePrimaryCtxRetain(byref(other := c_void_p()), 1))
    check(cu.cuCtxSetCurrent(other))
    stream = value(c_void_p, cu.cuStreamCreate, 1)
    pool = _pool(gpu, PINNED, Location(DEVICE, 1))
    address = gpu.alloc_async(SIZE, stream, pool)
    check(cu.cuMemsetD8Async(address, 7, SIZE, stream))
    check(cu.cuStreamSynchronize(stream))
    check(cu.cuCtxSetCurrent(gpu.context))
    here, own = gpu.alloc(SIZE), gpu.stream()
    assert cu.cuMemcpyAsync(here, address, SIZE, own) == 1
    _open(pool)
    check(cu.cuMemcpyAsync(here, address, SIZE, own))
    check(cu.cuStreamSynchronize(own))
    assert download(here, SIZE) == b"\7" * SIZE
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))
    check(cu.cuStreamDestroy_v2(stream))
    check(cu.cuDevicePrimaryCtxRelease_v2(1))
