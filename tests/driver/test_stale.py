"""Handles and pointers that are no longer, or never were, valid.

The real driver follows them: most of these calls end the process there. Ours answers.
"""

from __future__ import annotations

from ctypes import byref, c_int, c_uint64, c_void_p

import pytest

from .cuda import Location, PoolProperties, check, cu
from .resources import DEVICE, Resources, allocate, end_capture, undefined_on_hardware, value

JUNK_HANDLE = 0x123450


def _destroyed_stream() -> int:
    stream = value(c_void_p, cu.cuStreamCreate, 1)
    check(cu.cuStreamDestroy_v2(stream))
    return stream


def _destroyed_event() -> int:
    event = value(c_void_p, cu.cuEventCreate, 0)
    check(cu.cuEventDestroy_v2(event))
    return event


@undefined_on_hardware("a destroyed or invented stream is a wild pointer; seen: a crash")
@pytest.mark.parametrize("junk", [False, True])
def test_a_stream_that_is_none_is_an_invalid_handle(gpu: Resources, junk: bool) -> None:
    """Destroyed or invented, in every call."""
    device, stream = gpu.alloc(8), JUNK_HANDLE if junk else _destroyed_stream()
    assert cu.cuStreamQuery(stream) == 400
    assert cu.cuStreamSynchronize(stream) == 400
    assert cu.cuStreamGetFlags(stream, byref(c_int())) == 400
    assert cu.cuStreamDestroy_v2(stream) == 400
    assert cu.cuMemsetD8Async(device, 1, 8, stream) == 400
    assert cu.cuEventRecord(gpu.event(), stream) == 400
    assert cu.cuStreamBeginCapture_v2(stream, 2) == 400
    assert cu.cuMemAllocAsync(byref(c_uint64()), 8, stream) == 400
    assert cu.cuCtxSynchronize() == 0


@undefined_on_hardware("a destroyed event is a wild pointer; seen: 709, or a crash if invented")
@pytest.mark.parametrize("junk", [False, True])
def test_an_event_that_is_none_is_an_invalid_handle(gpu: Resources, junk: bool) -> None:
    """Destroyed or invented, in every call."""
    stream, event = gpu.stream(), JUNK_HANDLE if junk else _destroyed_event()
    assert cu.cuEventQuery(event) == 400
    assert cu.cuEventSynchronize(event) == 400
    assert cu.cuEventRecord(event, stream) == 400
    assert cu.cuEventDestroy_v2(event) == 400
    assert cu.cuStreamWaitEvent(stream, event, 0) == 400
    assert cu.cuCtxSynchronize() == 0


@undefined_on_hardware("an invented context is a wild pointer; seen: a crash")
def test_a_context_that_is_none_is_invalid(gpu: Resources) -> None:
    """An invented one everywhere; a destroyed one cannot be destroyed again."""
    assert cu.cuCtxSetCurrent(JUNK_HANDLE) == 201
    assert cu.cuCtxPushCurrent_v2(JUNK_HANDLE) == 201
    assert cu.cuCtxDestroy_v2(JUNK_HANDLE) == 201
    context = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    check(cu.cuCtxDestroy_v2(context))
    assert cu.cuCtxDestroy_v2(context) == 201


@undefined_on_hardware("an invented pool is a wild pointer; seen: a crash")
@pytest.mark.parametrize("junk", [False, True])
def test_a_pool_that_is_none_is_refused(gpu: Resources, junk: bool) -> None:
    """As NULL is."""
    pool = JUNK_HANDLE
    if not junk:
        wanted = PoolProperties(allocType=1, location=Location(DEVICE, 0))
        pool = value(c_void_p, cu.cuMemPoolCreate, byref(wanted))
        check(cu.cuMemPoolDestroy(pool))
    assert cu.cuMemPoolDestroy(pool) == 1
    assert cu.cuMemPoolTrimTo(pool, 0) == 1
    assert cu.cuMemPoolGetAttribute(pool, 4, byref(c_uint64())) == 1
    assert cu.cuMemAllocFromPoolAsync(byref(c_uint64()), 8, pool, None) == 1


@undefined_on_hardware("a destroyed graph is a wild pointer; seen: 1, or a crash if invented")
@pytest.mark.parametrize("junk", [False, True])
def test_a_graph_that_is_none_is_refused(gpu: Resources, junk: bool) -> None:
    """As NULL is; so are executables."""
    graph = executable = JUNK_HANDLE
    stream = gpu.stream()
    if not junk:
        check(cu.cuStreamBeginCapture_v2(stream, 2))
        made = end_capture(stream)[1]
        assert made is not None
        graph = made
        executable = value(c_void_p, cu.cuGraphInstantiateWithFlags, graph, 0)
        check(cu.cuGraphExecDestroy(executable))
        check(cu.cuGraphDestroy(graph))
    assert cu.cuGraphDestroy(graph) == 1
    assert cu.cuGraphInstantiateWithFlags(byref(c_void_p()), graph, 0) == 1
    assert cu.cuGraphExecDestroy(executable) == 1
    assert cu.cuGraphLaunch(executable, stream) == 1


@undefined_on_hardware("an address it no longer knows is read as a host address; seen: a crash")
def test_a_graph_whose_copy_lost_its_memory_cannot_be_instantiated(gpu: Resources) -> None:
    """As one whose memset did, which hardware notices."""
    stream, freed, host = gpu.stream(), allocate(4000), gpu.pinned(64)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemcpyHtoDAsync_v2(freed, host, 64, stream))
    code, graph = end_capture(stream)
    check(code)
    check(cu.cuMemFree_v2(freed))
    assert cu.cuGraphInstantiateWithFlags(byref(c_void_p()), graph, 0) == 1
    check(cu.cuGraphDestroy(graph))


@undefined_on_hardware("an invented module is a wild pointer; seen: a crash")
def test_a_module_that_is_none_is_an_invalid_handle(gpu: Resources) -> None:
    """As NULL is."""
    assert cu.cuModuleUnload(JUNK_HANDLE) == 400


@undefined_on_hardware("these NULLs are written to; seen: a crash")
def test_null_results_that_hardware_follows_are_refused(gpu: Resources) -> None:
    """INVALID_VALUE, as for every other NULL."""
    assert cu.cuGetErrorName(0, None) == 1
    assert cu.cuGetErrorString(0, None) == 1
    assert cu.cuGetProcAddress_v2(None, byref(c_void_p()), 12000, 0, None) == 1
    assert cu.cuGetProcAddress_v2(b"cuInit", None, 12000, 0, None) == 1
    assert cu.cuThreadExchangeStreamCaptureMode(None) == 1
    assert cu.cuMemPoolGetAttribute(gpu.pool(), 4, None) == 1
    assert cu.cuMemPoolSetAttribute(gpu.pool(), 4, None) == 1
    assert cu.cuStreamBatchMemOp_v2(gpu.stream(), 1, None, 0) == 1
