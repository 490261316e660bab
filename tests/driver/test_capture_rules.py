"""Which calls are illegal while a stream captures: call x mode x who calls, as one table.

Seen on an H200. A call belongs to one of few classes, whatever its name suggests:
asking for a capturing stream's flags or id, of all things, ends its capture.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any

import pytest

from .cuda import HOST_FUNCTION, STREAM_CALLBACK, Location, PoolProperties, check, cu
from .differences import answer
from .resources import (
    DEVICE,
    PER_THREAD,
    Resources,
    allocate,
    end_capture,
    in_thread,
    status,
    value,
)
from .test_modules import PTX

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
ACTIVE, INVALIDATED = 1, 2
WHO = ("same thread", "other thread", "other thread, relaxed")
Answer = tuple[int, int]  # the call's code, the capture's status after it
Verdict = Callable[[bool, int, str], Answer]


def always(code: int, after: int) -> Verdict:
    """Give the same answer in every mode and from every thread."""
    return lambda blocking, mode, who: (code, after)


def unsafe(legal: int = 0) -> Verdict:
    """Refuse where a mode forbids what a capture cannot see; else answer `legal`."""

    def verdict(blocking: bool, mode: int, who: str) -> Answer:
        mine = who == "same thread" and mode != RELAXED
        theirs = who == "other thread" and mode == GLOBAL
        return (900, INVALIDATED) if mine or theirs else (legal, ACTIVE)

    return verdict


def legacy(free: Verdict, held: Verdict | None = None) -> Verdict:
    """Answer for the legacy stream: it is unusable while a blocking stream captures."""
    implicit = held or always(906, INVALIDATED)
    return lambda blocking, mode, who: (implicit if blocking else free)(blocking, mode, who)


SAFE, CONFLICT, UNSAFE = always(0, ACTIVE), always(900, INVALIDATED), unsafe()
NODES = always(0, ACTIVE)
QUESTION = always(906, ACTIVE)  # the legacy stream may be asked, without harm


@dataclass
class Scene:
    """All that a call may need, made before the capture begins."""

    gpu: Resources
    blocking: bool
    mode: int
    out: Any = field(default_factory=lambda: (c_uint64 * 16)())
    extra: Any = None

    def __post_init__(self) -> None:
        gpu = self.gpu
        self.stream, self.other = gpu.stream(0 if self.blocking else 1), gpu.stream()
        self.fresh, self.event, self.later = gpu.event(), gpu.event(), gpu.event()
        self.device, self.pinned = gpu.alloc(64), gpu.pinned(64)
        self.plain = ctypes.create_string_buffer(64)
        check(cu.cuEventRecord(self.event, self.other))
        check(cu.cuEventRecord(self.later, self.other))
        check(cu.cuStreamSynchronize(self.other))


# What some calls need beyond that: each gives a handle and the function that releases it.
Need = Callable[[Scene], tuple[Any, Callable[[Any], int]]]


def _memory(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    return allocate(16), cu.cuMemFree_v2


def _pooled(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    address = scene.gpu.alloc_async(64, scene.other)
    check(cu.cuStreamSynchronize(scene.other))
    return address, cu.cuMemFree_v2


def _host(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    return value(c_void_p, cu.cuMemAllocHost_v2, 16), cu.cuMemFreeHost


def _registered(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    check(cu.cuMemHostRegister_v2(ctypes.addressof(PAGES), mmap.PAGESIZE, 0))
    return ctypes.addressof(PAGES), cu.cuMemHostUnregister


def _event(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    return value(c_void_p, cu.cuEventCreate, 0), cu.cuEventDestroy_v2


def _stream(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    return value(c_void_p, cu.cuStreamCreate, 1), cu.cuStreamDestroy_v2


def _module(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    return value(c_void_p, cu.cuModuleLoadData, PTX), cu.cuModuleUnload


def _pool(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    return value(c_void_p, cu.cuMemPoolCreate, byref(PROPERTIES)), cu.cuMemPoolDestroy


def _graph(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    check(cu.cuStreamBeginCapture_v2(scene.other, RELAXED))
    check(cu.cuMemsetD8Async(scene.device, 1, 8, scene.other))
    code, graph = end_capture(scene.other)
    check(code)
    return graph, cu.cuGraphDestroy


def _executable(scene: Scene) -> tuple[Any, Callable[[Any], int]]:
    graph, destroy = _graph(scene)
    executable = value(c_void_p, cu.cuGraphInstantiateWithFlags, graph, 0)
    check(destroy(graph))
    return executable, cu.cuGraphExecDestroy


PROPERTIES = PoolProperties(allocType=1, location=Location(DEVICE, 0))
PAGES = ctypes.c_char.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))
NOTHING = HOST_FUNCTION(lambda argument: None)
NOTED = STREAM_CALLBACK(lambda stream, code, argument: None)


@dataclass
class Call:
    """One row: the function, its class, its arguments, what they need, what undoes the call."""

    name: str
    verdict: Verdict
    arguments: Callable[[Scene], tuple[Any, ...]]
    needs: Need | None = None
    undo: Callable[[Scene], int] | None = None

    def __post_init__(self) -> None:
        self.function = self.name.partition(" ")[0]

    def make(self, scene: Scene) -> int:
        """Call it; a capture of another stream that it begins is ended at once."""
        code = getattr(cu, self.function)(*self.arguments(scene))
        if self.function == "cuStreamBeginCapture_v2" and status(scene.other):
            check(cu.cuStreamEndCapture(scene.other, None))
        return code

    def tidy(self, scene: Scene, release: Callable[[Any], int] | None, code: int) -> None:
        """Release what the call made, and what it needed unless the call itself did."""
        if code == 0 and self.undo:
            check(self.undo(scene))
        if release and not (code == 0 and self.function in RELEASING):
            check(release(scene.extra))


RELEASING = {
    *["cuMemFree_v2", "cuMemFreeHost", "cuMemHostUnregister", "cuMemFreeAsync"],
    *["cuMemPoolDestroy", "cuEventDestroy_v2", "cuStreamDestroy_v2", "cuModuleUnload"],
    *["cuGraphDestroy", "cuGraphExecDestroy"],
}


def _free(s: Scene) -> int:
    return cu.cuMemFree_v2(s.out[0])


def _free_host(s: Scene) -> int:
    return cu.cuMemFreeHost(s.out[0])


# fmt: off
CALLS = [
    # Memory: what allocates or frees outside of stream order is unsafe.
    Call("cuMemAlloc_v2", UNSAFE, lambda s: (s.out, 16), undo=_free),
    Call("cuMemAlloc_v2 (0)", unsafe(1), lambda s: (s.out, 0)),
    Call("cuMemFree_v2", UNSAFE, lambda s: (s.extra,), _memory),
    Call("cuMemFree_v2 (0)", UNSAFE, lambda s: (0,)),
    Call("cuMemFree_v2 (pool)", UNSAFE, lambda s: (s.extra,), _pooled),
    Call("cuMemAllocPitch_v2", UNSAFE, lambda s: (s.out, byref(s.out, 8), 9, 9, 4), undo=_free),
    Call("cuMemAllocManaged", UNSAFE, lambda s: (s.out, 16, 1), undo=_free),
    Call("cuMemAllocHost_v2", UNSAFE, lambda s: (s.out, 16), undo=_free_host),
    Call("cuMemHostAlloc", UNSAFE, lambda s: (s.out, 16, 0), undo=_free_host),
    Call("cuMemFreeHost", UNSAFE, lambda s: (s.extra,), _host),
    Call("cuMemHostRegister_v2", UNSAFE,
         lambda s: (byref(PAGES), mmap.PAGESIZE, 0),
         undo=lambda s: cu.cuMemHostUnregister(byref(PAGES))),
    Call("cuMemHostUnregister", UNSAFE, lambda s: (s.extra,), _registered),
    Call("cuMemAllocAsync (other)", UNSAFE, lambda s: (s.out, 16, s.other), undo=_free),
    Call("cuMemFreeAsync (other)", UNSAFE, lambda s: (s.extra, s.other), _pooled),
    Call("cuMemAllocAsync (capturing)", NODES, lambda s: (s.out, 16, s.stream)),
    Call("cuMemFreeAsync (capturing, allocated outside)", always(1, ACTIVE),
         lambda s: (s.extra, s.stream), _pooled),
    Call("cuMemPoolCreate", UNSAFE,
         lambda s: (s.out, byref(PROPERTIES)), undo=lambda s: cu.cuMemPoolDestroy(s.out[0])),
    Call("cuMemPoolDestroy", UNSAFE, lambda s: (s.extra,), _pool),
    Call("cuMemPoolTrimTo", UNSAFE, lambda s: (s.extra, 0), _pool),
    Call("cuMemPoolGetAttribute", UNSAFE, lambda s: (s.extra, 4, s.out), _pool),
    Call("cuMemPoolSetAttribute", UNSAFE, lambda s: (s.extra, 4, s.out), _pool),
    Call("cuMemGetInfo_v2", SAFE, lambda s: (s.out, byref(s.out, 8))),
    Call("cuMemGetAddressRange_v2", SAFE, lambda s: (s.out, byref(s.out, 8), s.device)),
    Call("cuPointerGetAttribute", SAFE, lambda s: (s.out, 2, s.device)),
    Call("cuPointerSetAttribute", UNSAFE, lambda s: (byref(c_uint(0)), 6, s.device)),
    Call("cuMemHostGetDevicePointer_v2", SAFE, lambda s: (s.out, s.pinned, 0)),
    # Events: those of the outside world may be recorded, not asked.
    Call("cuEventCreate", SAFE,
         lambda s: (s.out, 0), undo=lambda s: cu.cuEventDestroy_v2(s.out[0])),
    Call("cuEventDestroy_v2", SAFE, lambda s: (s.extra,), _event),
    Call("cuEventRecord (other)", SAFE, lambda s: (s.fresh, s.other)),
    Call("cuEventRecord (capturing)", SAFE, lambda s: (s.fresh, s.stream)),
    Call("cuEventRecord (legacy)", legacy(SAFE), lambda s: (s.fresh, None)),
    Call("cuEventQuery", UNSAFE, lambda s: (s.event,)),
    Call("cuEventQuery (never recorded)", UNSAFE, lambda s: (s.fresh,)),
    Call("cuEventSynchronize", UNSAFE, lambda s: (s.event,)),
    Call("cuEventElapsedTime", SAFE, lambda s: (s.out, s.event, s.later)),
    Call("cuStreamWaitEvent (other)", SAFE, lambda s: (s.other, s.event, 0)),
    Call("cuStreamWaitEvent (legacy)", legacy(SAFE), lambda s: (None, s.event, 0)),
    Call("cuStreamWaitEvent (capturing, recorded outside)", always(905, INVALIDATED),
         lambda s: (s.stream, s.event, 0)),
    Call("cuStreamWaitEvent (capturing, never recorded)", SAFE, lambda s: (s.stream, s.fresh, 0)),
    # Streams: waiting is unsafe; waiting for the capture itself is a contradiction.
    Call("cuStreamCreate", SAFE,
         lambda s: (s.out, 1), undo=lambda s: cu.cuStreamDestroy_v2(s.out[0])),
    Call("cuStreamDestroy_v2 (other)", SAFE, lambda s: (s.extra,), _stream),
    Call("cuStreamQuery (other)", UNSAFE, lambda s: (s.other,)),
    Call("cuStreamSynchronize (other)", UNSAFE, lambda s: (s.other,)),
    Call("cuStreamSynchronize (per-thread)", UNSAFE, lambda s: (PER_THREAD,)),
    Call("cuStreamQuery (legacy)", legacy(UNSAFE), lambda s: (None,)),
    Call("cuStreamSynchronize (legacy)", legacy(UNSAFE), lambda s: (None,)),
    Call("cuStreamQuery (capturing)", CONFLICT, lambda s: (s.stream,)),
    Call("cuStreamSynchronize (capturing)", CONFLICT, lambda s: (s.stream,)),
    Call("cuStreamGetFlags (capturing)", CONFLICT, lambda s: (s.stream, s.out)),
    Call("cuStreamGetId (capturing)", CONFLICT, lambda s: (s.stream, s.out)),
    Call("cuStreamGetPriority (capturing)", SAFE, lambda s: (s.stream, s.out)),
    Call("cuStreamGetCtx (capturing)", SAFE, lambda s: (s.stream, s.out)),
    Call("cuStreamIsCapturing (capturing)", SAFE, lambda s: (s.stream, s.out)),
    Call("cuStreamIsCapturing (other)", SAFE, lambda s: (s.other, s.out)),
    Call("cuStreamIsCapturing (legacy)", legacy(SAFE, QUESTION), lambda s: (None, s.out)),
    Call("cuStreamGetCaptureInfo_v2 (legacy)", legacy(SAFE, QUESTION),
         lambda s: (None, s.out, None, None, None, None)),
    Call("cuStreamGetCaptureInfo_v3 (capturing)", SAFE,
         lambda s: (s.stream, s.out, None, None, None, None, None)),
    Call("cuStreamBeginCapture_v2 (other)", SAFE, lambda s: (s.other, RELAXED)),
    Call("cuStreamBeginCapture_v2 (capturing)", always(401, ACTIVE), lambda s: (s.stream, s.mode)),
    Call("cuStreamBeginCapture_v2 (legacy)", legacy(always(900, ACTIVE)),
         lambda s: (None, RELAXED)),
    Call("cuStreamEndCapture (other, not capturing)", always(401, ACTIVE),
         lambda s: (s.other, s.out)),
    Call("cuLaunchHostFunc (other)", SAFE, lambda s: (s.other, NOTHING, None)),
    Call("cuLaunchHostFunc (capturing)", SAFE, lambda s: (s.stream, NOTHING, None)),
    Call("cuStreamAddCallback (other)", SAFE, lambda s: (s.other, NOTED, None, 0)),
    Call("cuStreamAddCallback (capturing)", CONFLICT, lambda s: (s.stream, NOTED, None, 0)),
    Call("cuStreamWriteValue32_v2 (other)", SAFE, lambda s: (s.other, s.pinned, 1, 0)),
    Call("cuStreamWriteValue32_v2 (capturing)", SAFE, lambda s: (s.stream, s.pinned, 1, 0)),
    # Copies: the synchronous ones use the legacy stream.
    Call("cuMemcpyHtoD_v2", legacy(SAFE), lambda s: (s.device, s.plain, 8)),
    Call("cuMemcpyHtoD_v2 (0 bytes)", legacy(SAFE), lambda s: (s.device, s.plain, 0)),
    Call("cuMemcpyDtoH_v2", legacy(SAFE), lambda s: (s.plain, s.device, 8)),
    Call("cuMemcpyDtoD_v2", legacy(SAFE), lambda s: (s.device, s.device + 32, 8)),
    Call("cuMemcpy", legacy(SAFE), lambda s: (s.device, s.device + 32, 8)),
    Call("cuMemsetD8_v2", legacy(SAFE), lambda s: (s.device, 1, 8)),
    Call("cuMemcpyHtoDAsync_v2 (legacy)", legacy(SAFE), lambda s: (s.device, s.pinned, 8, None)),
    Call("cuMemcpyHtoDAsync_v2 (per-thread)", SAFE, lambda s: (s.device, s.pinned, 8, PER_THREAD)),
    Call("cuMemcpyHtoDAsync_v2 (other)", SAFE, lambda s: (s.device, s.pinned, 8, s.other)),
    Call("cuMemcpyHtoDAsync_v2 (other, out of range)", always(1, ACTIVE),
         lambda s: (s.device, s.pinned, 65, s.other)),
    Call("cuMemcpyHtoDAsync_v2 (capturing)", SAFE, lambda s: (s.device, s.pinned, 8, s.stream)),
    Call("cuMemcpyHtoDAsync_v2 (capturing, pageable)", SAFE,
         lambda s: (s.device, s.plain, 8, s.stream)),
    Call("cuMemcpyDtoHAsync_v2 (capturing, pageable)", SAFE,
         lambda s: (s.plain, s.device, 8, s.stream)),
    Call("cuMemcpyHtoDAsync_v2 (capturing, out of range)", always(1, ACTIVE),
         lambda s: (s.device, s.pinned, 65, s.stream)),
    Call("cuMemsetD8Async (capturing)", SAFE, lambda s: (s.device, 1, 8, s.stream)),
    Call("cuMemsetD8Async (capturing, out of range)",
         always(answer("a wrong memset in a capture"), ACTIVE),
         lambda s: (s.device, 1, 65, s.stream)),
    Call("cuMemsetD8Async (capturing, 0 bytes)", SAFE, lambda s: (s.device, 1, 0, s.stream)),
    # Contexts, devices, modules, graphs.
    Call("cuCtxSynchronize", CONFLICT, lambda s: ()),
    Call("cuCtxRecordEvent", CONFLICT, lambda s: (s.gpu.context, s.fresh)),
    Call("cuCtxWaitEvent", CONFLICT, lambda s: (s.gpu.context, s.event)),
    Call("cuCtxGetCurrent", SAFE, lambda s: (s.out,)),
    Call("cuCtxGetLimit", SAFE, lambda s: (s.out, 0)),
    Call("cuCtxSetLimit", UNSAFE, lambda s: (0, 1024)),
    Call("cuDeviceGetAttribute", SAFE, lambda s: (s.out, 1, 0)),
    Call("cuDevicePrimaryCtxRetain", SAFE,
         lambda s: (s.out, 0), undo=lambda s: cu.cuDevicePrimaryCtxRelease_v2(0)),
    Call("cuModuleLoadData", SAFE,
         lambda s: (s.out, PTX), undo=lambda s: cu.cuModuleUnload(s.out[0])),
    Call("cuModuleUnload", UNSAFE, lambda s: (s.extra,), _module),
    Call("cuModuleGetFunction", SAFE, lambda s: (s.out, s.extra, b"nothing"), _module),
    Call("cuModuleGetGlobal_v2", SAFE,
         lambda s: (s.out, byref(s.out, 8), s.extra, b"counter"), _module),
    Call("cuGraphInstantiateWithFlags", UNSAFE, lambda s: (s.out, s.extra, 0),
         _graph, lambda s: cu.cuGraphExecDestroy(s.out[0])),
    Call("cuGraphLaunch (other)", SAFE, lambda s: (s.extra, s.other), _executable),
    Call("cuGraphLaunch (capturing)", CONFLICT, lambda s: (s.extra, s.stream), _executable),
    Call("cuGraphDestroy", SAFE, lambda s: (s.extra,), _graph),
    Call("cuGraphExecDestroy", UNSAFE, lambda s: (s.extra,), _executable),
]
# fmt: on


def _answer(gpu: Resources, call: Call, blocking: bool, mode: int, who: str) -> Answer:
    scene = Scene(gpu, blocking, mode)
    scene.extra, release = call.needs(scene) if call.needs else (None, None)

    def elsewhere() -> int:
        check(cu.cuCtxSetCurrent(gpu.context))
        if who == WHO[2]:
            check(cu.cuThreadExchangeStreamCaptureMode(byref(c_int(RELAXED))))
        return call.make(scene)

    check(cu.cuStreamBeginCapture_v2(scene.stream, mode))
    code = call.make(scene) if who == WHO[0] else in_thread(elsewhere)
    after = status(scene.stream)
    ended, graph = end_capture(scene.stream)
    assert ended == (901 if after == INVALIDATED else 0)
    if graph is not None:
        check(cu.cuGraphDestroy(graph))
    call.tidy(scene, release, code)
    return code, after


@pytest.mark.parametrize("blocking", [False, True], ids=["non-blocking", "blocking"])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_call_during_a_capture(gpu: Resources, call: Call, blocking: bool) -> None:
    """Code and status for each mode and each caller, as the call's class says."""
    cells = [(mode, who) for mode in (GLOBAL, THREAD_LOCAL, RELAXED) for who in WHO]
    found = {cell: _answer(gpu, call, blocking, *cell) for cell in cells}
    assert found == {cell: call.verdict(blocking, *cell) for cell in cells}
