"""One valid use of each function that works in the order of a stream: part of `calls.py`."""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from .bench import SIZE, Bench, Out, Table, then
from .cuda import HOST_FUNCTION, STREAM_CALLBACK, BatchOperation, Copy2D, Copy3D, check
from .resources import end_capture, value
from .variants import InstantiateParameters, cu

SIDE = 16  # a square of SIDE rows of SIDE bytes is SIZE bytes
FUNCTION = HOST_FUNCTION(lambda _: None)
CALLBACK = STREAM_CALLBACK(lambda *_: None)

ORDERED = Table()


# Copies.
def _flat(b: Bench) -> Out:
    return Out(Copy2D(0, 0, 2, 0, b.other, 0, SIDE, 0, 0, 2, 0, b.device, 0, SIDE, SIDE, SIDE))


def _solid(b: Bench) -> Out:
    rows = {"srcPitch": 4, "srcHeight": 8, "dstPitch": 4, "dstHeight": 8}
    ends = {"srcMemoryType": 2, "srcDevice": b.other, "dstMemoryType": 2, "dstDevice": b.device}
    return Out(Copy3D(**rows, **ends, WidthInBytes=4, Height=8, Depth=8))


ORDERED.add("cuMemcpy cuMemcpyDtoD_v2", lambda b: (b.device, b.other, SIZE))
ORDERED.add("cuMemcpyAsync cuMemcpyDtoDAsync_v2", lambda b: (b.device, b.other, SIZE, b.stream))
ORDERED.add("cuMemcpyPeer", lambda b: (b.device, b.context, b.other, b.context, SIZE))
ORDERED.add(
    "cuMemcpyPeerAsync", lambda b: (b.device, b.context, b.other, b.context, SIZE, b.stream)
)
ORDERED.add("cuMemcpyHtoD_v2", lambda b: (b.device, b.pages, SIZE))
ORDERED.add("cuMemcpyDtoH_v2", lambda b: (b.pages, b.other, SIZE))
ORDERED.add("cuMemcpyHtoDAsync_v2", lambda b: (b.device, b.pinned, SIZE, b.stream))
ORDERED.add("cuMemcpyDtoHAsync_v2", lambda b: (b.pinned, b.other, SIZE, b.stream))
ORDERED.add("cuMemcpy2D_v2 cuMemcpy2DUnaligned_v2", lambda b: (_flat(b),))
ORDERED.add("cuMemcpy2DAsync_v2", lambda b: (_flat(b), b.stream))
ORDERED.add("cuMemcpy3D_v2", lambda b: (_solid(b),))
ORDERED.add("cuMemcpy3DAsync_v2", lambda b: (_solid(b), b.stream))
for _bits in (8, 16, 32):
    _number = SIZE * 8 // _bits
    _row = SIDE * 8 // _bits
    ORDERED.add(f"cuMemsetD{_bits}_v2", lambda b, n=_number: (b.device, 9, n))
    ORDERED.add(f"cuMemsetD{_bits}Async", lambda b, n=_number: (b.device, 9, n, b.stream))
    ORDERED.add(f"cuMemsetD2D{_bits}_v2", lambda b, n=_row: (b.device, SIDE, 9, n, SIDE))
    ORDERED.add(
        f"cuMemsetD2D{_bits}Async", lambda b, n=_row: (b.device, SIDE, 9, n, SIDE, b.stream)
    )


# Streams.
ORDERED.add("cuStreamCreate", lambda b: (Out(), 1), then(cu.cuStreamDestroy_v2))
ORDERED.add("cuStreamCreateWithPriority", lambda b: (Out(), 1, 0), then(cu.cuStreamDestroy_v2))
ORDERED.add(
    "cuStreamDestroy cuStreamDestroy_v2", lambda b: (value(c_void_p, cu.cuStreamCreate, 1),)
)
ORDERED.add("cuStreamGetId", lambda b: (b.stream, Out(c_uint64)))
ORDERED.add(
    "cuStreamGetPriority cuStreamGetFlags cuStreamGetDevice", lambda b: (b.stream, Out(c_int))
)
ORDERED.add("cuStreamGetCtx", lambda b: (b.stream, Out()))
ORDERED.add("cuStreamGetCtx_v2", lambda b: (b.stream, Out(), Out()))
ORDERED.add("cuStreamWaitEvent", lambda b: (b.stream, b.event(), 0))
ORDERED.add("cuStreamAddCallback", lambda b: (b.stream, CALLBACK, None, 0))
ORDERED.add("cuLaunchHostFunc", lambda b: (b.stream, FUNCTION, None))
ORDERED.add("cuLaunchHostFunc_v2", lambda b: (b.stream, FUNCTION, None, 0))
ORDERED.add("cuStreamQuery cuStreamSynchronize", lambda b: (b.stream,))
for _bits in (32, 64):
    ORDERED.add(
        f"cuStreamWaitValue{_bits} cuStreamWaitValue{_bits}_v2 "
        f"cuStreamWriteValue{_bits} cuStreamWriteValue{_bits}_v2",
        lambda b: (b.stream, b.word, 0, 0),
    )
ORDERED.add(
    "cuStreamBatchMemOp cuStreamBatchMemOp_v2",
    lambda b: (b.stream, 1, Out(BatchOperation(2, b.word, 1, 0)), 0),
)

# Events.
ORDERED.add("cuEventCreate", lambda b: (Out(), 0), then(cu.cuEventDestroy_v2))
ORDERED.add("cuEventDestroy cuEventDestroy_v2", lambda b: (value(c_void_p, cu.cuEventCreate, 0),))
ORDERED.add("cuEventRecord", lambda b: (b.event(), b.stream))
ORDERED.add("cuEventRecordWithFlags", lambda b: (b.event(), b.stream, 0))
ORDERED.add("cuEventQuery cuEventSynchronize", lambda b: (b.event(),))
ORDERED.add(
    "cuEventElapsedTime cuEventElapsedTime_v2", lambda b: (Out(c_float), b.event(), b.event())
)
ORDERED.add("cuCtxRecordEvent cuCtxWaitEvent", lambda b: (b.context, b.event()))


# Capture.
def _end(b: Bench, *_: Any) -> None:
    code, graph = end_capture(b.handle)
    check(code)
    check(cu.cuGraphDestroy(graph))


def _last_destroyed(b: Bench, *given: Any) -> None:
    check(cu.cuGraphDestroy(given[-1].value))


ORDERED.add("cuStreamBeginCapture", lambda b: (b.stream,), _end)
ORDERED.add("cuStreamBeginCapture_v2", lambda b: (b.stream, 2), _end)
ORDERED.add("cuStreamEndCapture", lambda b: (b.begin(), Out()), _last_destroyed)
ORDERED.add("cuStreamIsCapturing", lambda b: (b.begin(), Out(c_int)), _end)
ORDERED.add("cuStreamGetCaptureInfo", lambda b: (b.begin(), Out(c_int), Out(c_uint64)), _end)
_info = [c_int, c_uint64, c_void_p, c_void_p, c_size_t]
ORDERED.add("cuStreamGetCaptureInfo_v2", lambda b: (b.begin(), *map(Out, _info)), _end)
ORDERED.add("cuStreamGetCaptureInfo_v3", lambda b: (b.begin(), *map(Out, [*_info, c_size_t])), _end)
ORDERED.add("cuThreadExchangeStreamCaptureMode", lambda b: (Out(c_int(0)),))
ORDERED.add("cuGraphNodeGetType", lambda b: (_node(b), Out(c_int)))
ORDERED.add("cuGraphGetNodes", lambda b: (b.kept_graph, None, Out(c_size_t)))
ORDERED.add("cuGraphUpload cuGraphLaunch", lambda b: (b.executable, b.stream))
ORDERED.add("cuGraphDestroy", lambda b: (b.graph(),))
ORDERED.add("cuGraphExecDestroy", lambda b: (_instantiate(b),))
_gone = then(cu.cuGraphExecDestroy)
ORDERED.add("cuGraphInstantiateWithFlags", lambda b: (Out(), b.kept_graph, 0), _gone)
ORDERED.add(
    "cuGraphInstantiateWithParams",
    lambda b: (Out(), b.kept_graph, Out(InstantiateParameters())),
    _gone,
)
ORDERED.add(
    "cuGraphInstantiate cuGraphInstantiate_v2",
    lambda b: (Out(), b.kept_graph, Out(), Out(c_char * 64), 64),
    _gone,
)


# Objects that graphs keep.
def _released(b: Bench, handle: int, *_: Any) -> int:
    return cu.cuUserObjectRelease(handle, 1)


def _object(b: Bench) -> int:
    return value(c_void_p, cu.cuUserObjectCreate, None, FUNCTION, 1, 1)


def _lasting(b: Bench) -> int:
    return b._later(lambda handle: _released(b, handle), _object(b))


def _kept(b: Bench) -> int:
    handle = _object(b)
    check(cu.cuGraphRetainUserObject(b.kept_graph, handle, 1, 1))
    return handle


ORDERED.add(
    "cuUserObjectCreate",
    lambda b: (Out(), None, FUNCTION, 1, 1),
    then(lambda handle: cu.cuUserObjectRelease(handle, 1)),
)
ORDERED.add("cuUserObjectRetain", lambda b: (_lasting(b), 1), _released)
ORDERED.add("cuUserObjectRelease", lambda b: (_object(b), 1))
ORDERED.add("cuGraphRetainUserObject", lambda b: (b.kept_graph, _lasting(b), 1, 0))
ORDERED.add("cuGraphReleaseUserObject", lambda b: (b.kept_graph, _kept(b), 1))


def _node(b: Bench) -> int:
    nodes, length = (c_void_p * 1)(), c_size_t(1)
    check(cu.cuGraphGetNodes(b.kept_graph, nodes, ctypes.byref(length)))
    return nodes[0]


def _instantiate(b: Bench) -> int:
    return value(c_void_p, cu.cuGraphInstantiateWithFlags, b.kept_graph, 0)
