"""One valid use of each function that behaves: what it needs, its arguments, how it is undone."""

from __future__ import annotations

import ctypes
from ctypes import addressof, c_char, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from .bench import SIZE, Bench, Call, Out, Table, then
from .calls_arrays import ARRAYS
from .calls_graphs import GRAPHS
from .calls_kernels import KERNELS
from .calls_ordered import ORDERED
from .calls_shared import SHARED
from .cuda import AccessDescription, Location, PoolProperties, check
from .resources import DEVICE, value
from .variants import base, cu

MODULE = Path(__file__).parent / "empty.ptx"
IMAGE = MODULE.read_bytes() + b"\0"
HERE = Location(DEVICE, 0)
SYNC_MEMOPS = 6  # CUpointer_attribute
THRESHOLD = 4  # CUmemPool_attribute

# What needs a second device, or ends the primary context that all other tests use.
TWO_DEVICES = {"cuDeviceGetP2PAttribute", "cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess"}
APART = TWO_DEVICES | {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"}

USES = Table({**ORDERED, **GRAPHS, **KERNELS, **SHARED, **ARRAYS})


def prepare(symbol: str, bench: Bench) -> Call:
    """Make a call of `symbol` ready; one that is in no table is a KeyError."""
    return Call(symbol, USES[base(symbol)], bench)


# Starting.
USES.add("cuInit", lambda b: (0,))
USES.add("cuDriverGetVersion", lambda b: (Out(c_int),))
USES.add("cuGetErrorName cuGetErrorString", lambda b: (2, Out()))
USES.add("cuGetProcAddress", lambda b: (b"cuMemcpy", Out(), 12000, 0))
USES.add("cuGetProcAddress_v2", lambda b: (b"cuMemcpy", Out(), 12000, 0, Out(c_int)))
USES.add("cuGetExportTable", lambda b: (Out(), bytes(16)), answer=500)
USES.add("cuProfilerStart cuProfilerStop", lambda b: ())

# Devices.
USES.add("cuDeviceGet", lambda b: (Out(c_int), 0))
USES.add("cuDeviceGetCount", lambda b: (Out(c_int),))
USES.add("cuDeviceGetName cuDeviceGetPCIBusId", lambda b: (Out(c_char * 64), 64, 0))
USES.add("cuDeviceGetUuid cuDeviceGetUuid_v2", lambda b: (Out(c_ubyte * 16), 0))
USES.add("cuDeviceTotalMem_v2", lambda b: (Out(c_size_t), 0))
USES.add("cuDeviceGetAttribute", lambda b: (Out(c_int), 1, 0))
USES.add("cuDeviceGetProperties", lambda b: (Out(c_int * 16), 0))
USES.add("cuDeviceComputeCapability", lambda b: (Out(c_int), Out(c_int), 0))
USES.add("cuDeviceGetByPCIBusId", lambda b: (Out(c_int), _bus_id()))
USES.add("cuDeviceCanAccessPeer", lambda b: (Out(c_int), 0, 0))
USES.add("cuDeviceGetP2PAttribute", lambda b: (Out(c_int), 2, 0, 1))


def _bus_id() -> bytes:
    text = ctypes.create_string_buffer(64)
    check(cu.cuDeviceGetPCIBusId(text, 64, 0))
    return text.value


# Contexts.
def _created(b: Bench) -> int:
    return value(c_void_p, cu.cuCtxCreate_v2, 0, 0)


def _retained(b: Bench) -> int:
    check(cu.cuDevicePrimaryCtxRetain(ctypes.byref(c_void_p()), 0))
    return 0


def _pushed(b: Bench) -> Out:
    check(cu.cuCtxPushCurrent_v2(b.context))
    return Out()


def _enabled(b: Bench) -> int:
    check(cu.cuCtxEnablePeerAccess(b.peer, 0))
    return b.peer


USES.add(
    "cuDevicePrimaryCtxRetain",
    lambda b: (Out(), 0),
    lambda b, *_: check(cu.cuDevicePrimaryCtxRelease_v2(0)),
)
USES.add("cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2", lambda b: (_retained(b),))
USES.add(
    "cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2",
    lambda b: (_retained(b),),
    lambda b, *_: check(cu.cuDevicePrimaryCtxRelease_v2(0)),
)
USES.add("cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2", lambda b: (0, 0))
USES.add("cuDevicePrimaryCtxGetState", lambda b: (0, Out(c_uint), Out(c_int)))
USES.add("cuCtxCreate_v2", lambda b: (Out(), 0, 0), then(cu.cuCtxDestroy_v2))
USES.add("cuCtxCreate_v3", lambda b: (Out(), None, 0, 0, 0), then(cu.cuCtxDestroy_v2))
USES.add("cuCtxCreate_v4", lambda b: (Out(), None, 0, 0), then(cu.cuCtxDestroy_v2))
USES.add("cuCtxDestroy cuCtxDestroy_v2 cuCtxDetach", lambda b: (_created(b),))
USES.add(
    "cuCtxPushCurrent cuCtxPushCurrent_v2",
    lambda b: (b.context,),
    lambda b, *_: check(cu.cuCtxPopCurrent_v2(None)),
)
USES.add("cuCtxPopCurrent cuCtxPopCurrent_v2", lambda b: (_pushed(b),))
USES.add("cuCtxSetCurrent", lambda b: (b.context,))
USES.add("cuCtxGetCurrent", lambda b: (Out(),))
USES.add("cuCtxGetDevice cuCtxGetCacheConfig cuCtxGetFlags", lambda b: (Out(c_int),))
USES.add("cuCtxGetDevice_v2", lambda b: (Out(c_int), b.context))
USES.add("cuCtxGetId", lambda b: (b.context, Out(c_uint64)))
USES.add("cuCtxGetApiVersion", lambda b: (b.context, Out(c_uint)))
USES.add("cuCtxSetFlags cuCtxSetCacheConfig", lambda b: (0,))
USES.add("cuCtxGetLimit", lambda b: (Out(c_size_t), 0))
USES.add("cuCtxSetLimit", lambda b: (0, value(c_size_t, cu.cuCtxGetLimit, 0)))
USES.add("cuCtxGetStreamPriorityRange", lambda b: (Out(c_int), Out(c_int)))
USES.add("cuCtxSynchronize", lambda b: ())
USES.add("cuCtxSynchronize_v2", lambda b: (b.context,))
USES.add(
    "cuCtxAttach",
    lambda b: (Out(), 0 * _created(b)),
    lambda b, made, *_: (check(cu.cuCtxDetach(made.value)), check(cu.cuCtxDestroy_v2(made.value))),
)
USES.add(
    "cuCtxEnablePeerAccess",
    lambda b: (b.peer, 0),
    lambda b, *_: check(cu.cuCtxDisablePeerAccess(b.peer)),
)
USES.add("cuCtxDisablePeerAccess", lambda b: (_enabled(b),))

# Memory.
USES.add("cuMemGetInfo_v2", lambda b: (Out(c_size_t), Out(c_size_t)))
USES.add("cuMemAlloc_v2", lambda b: (Out(c_uint64), SIZE), then(cu.cuMemFree_v2))
USES.add(
    "cuMemAllocPitch_v2", lambda b: (Out(c_uint64), Out(c_size_t), 9, 3, 4), then(cu.cuMemFree_v2)
)
USES.add("cuMemAllocManaged", lambda b: (Out(c_uint64), SIZE, 1), then(cu.cuMemFree_v2))
USES.add("cuMemFree_v2", lambda b: (value(c_uint64, cu.cuMemAlloc_v2, SIZE),))
USES.add("cuMemGetAddressRange_v2", lambda b: (Out(c_uint64), Out(c_size_t), b.device))
USES.add("cuMemAllocHost_v2", lambda b: (Out(), SIZE), then(cu.cuMemFreeHost))
USES.add("cuMemHostAlloc", lambda b: (Out(), SIZE, 0), then(cu.cuMemFreeHost))
USES.add("cuMemFreeHost", lambda b: (value(c_void_p, cu.cuMemAllocHost_v2, SIZE),))
USES.add("cuMemHostGetDevicePointer_v2", lambda b: (Out(c_uint64), b.pinned, 0))
USES.add("cuMemHostGetFlags", lambda b: (Out(c_uint), b.pinned))
USES.add(
    "cuMemHostRegister cuMemHostRegister_v2",
    lambda b: (b.pages, SIZE, 0),
    lambda b, *_: check(cu.cuMemHostUnregister(b.pages)),
)
USES.add(
    "cuMemHostUnregister", lambda b: (check(cu.cuMemHostRegister_v2(b.pages, SIZE, 0)) or b.pages,)
)
USES.add("cuMemPrefetchAsync", lambda b: (b.managed, SIZE, 0, b.stream))
USES.add("cuMemPrefetchAsync_v2", lambda b: (b.managed, SIZE, HERE, 0, b.stream))
USES.add("cuMemAdvise", lambda b: (b.managed, SIZE, 1, 0))
USES.add("cuMemAdvise_v2", lambda b: (b.managed, SIZE, 1, HERE))

# What is known of pointers.
USES.add("cuPointerGetAttribute", lambda b: (Out(c_uint), SYNC_MEMOPS, b.device))
USES.add("cuPointerSetAttribute", lambda b: (Out(c_uint(1)), SYNC_MEMOPS, b.device))
USES.add("cuPointerGetAttributes", lambda b: (1, Out(c_uint(SYNC_MEMOPS)), _places(b), b.device))


def _places(b: Bench) -> Any:
    return (c_void_p * 1)(addressof(b.keep(c_uint())))


# Pools.
def _default() -> int:
    return value(c_void_p, cu.cuDeviceGetDefaultMemPool, 0)


def _free_async(b: Bench, made: Out, *_: Any) -> None:
    check(cu.cuMemFreeAsync(made.value, b.handle))


USES.add("cuDeviceGetMemPool cuDeviceGetDefaultMemPool", lambda b: (Out(), 0))
USES.add("cuDeviceSetMemPool", lambda b: (0, _default()))
USES.add("cuMemAllocAsync", lambda b: (Out(c_uint64), SIZE, b.stream), _free_async)
USES.add("cuMemAllocFromPoolAsync", lambda b: (Out(c_uint64), SIZE, b.pool, b.stream), _free_async)
USES.add("cuMemFreeAsync", lambda b: (b.resources.alloc_async(SIZE, b.handle), b.stream))
USES.add(
    "cuMemPoolCreate",
    lambda b: (Out(), Out(PoolProperties(allocType=1, location=HERE))),
    then(cu.cuMemPoolDestroy),
)
USES.add(
    "cuMemPoolDestroy",
    lambda b: (_pool(),),
)
USES.add("cuMemGetDefaultMemPool cuMemGetMemPool", lambda b: (Out(), Out(HERE), 1))
USES.add(
    "cuMemSetMemPool",
    lambda b: (Out(HERE), 1, value(c_void_p, cu.cuDeviceGetMemPool, 0)),
)
USES.add("cuMemPoolTrimTo", lambda b: (b.pool, 0))
USES.add("cuMemPoolGetAttribute", lambda b: (b.pool, THRESHOLD, Out(c_uint64)))
USES.add("cuMemPoolSetAttribute", lambda b: (b.pool, THRESHOLD, Out(c_uint64(SIZE))))
USES.add("cuMemPoolGetAccess", lambda b: (Out(c_int), b.pool, Out(HERE)))
USES.add("cuMemPoolSetAccess", lambda b: (b.pool, Out(AccessDescription(HERE, 3)), 1))


def _pool() -> int:
    wanted = PoolProperties(allocType=1, location=HERE)
    return value(c_void_p, cu.cuMemPoolCreate, ctypes.byref(wanted))


# Modules.
USES.add("cuModuleLoad", lambda b: (Out(), str(MODULE).encode()), then(cu.cuModuleUnload))
USES.add("cuModuleLoadData", lambda b: (Out(), IMAGE), then(cu.cuModuleUnload))
USES.add("cuModuleLoadDataEx", lambda b: (Out(), IMAGE, 0, None, None), then(cu.cuModuleUnload))
USES.add("cuModuleUnload", lambda b: (value(c_void_p, cu.cuModuleLoadData, IMAGE),))
USES.add("cuModuleGetLoadingMode", lambda b: (Out(c_int),))
