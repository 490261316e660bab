"""A lost device: calls on its contexts fail with one code, nothing hangs, other devices go on."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p
from typing import Any

import pytest

from .bench import Bench
from .calls import APART, prepare
from .control import BEHAVING, LOST, Row, faults, fresh, only_simulated, report, set_faults
from .cuda import check
from .resources import Gate, Resources, allocate, current, download, value
from .variants import base, cu

pytestmark = only_simulated

# What goes on when the device of the current context is lost: what no context answers, ...
TOPICS = {"start", "devices", "pointers", "user_objects", "virtual_memory"}
GOES_ON = """
    cuCtxGetCurrent cuCtxSetCurrent cuCtxPushCurrent cuCtxPushCurrent_v2 cuCtxPopCurrent
    cuCtxPopCurrent_v2 cuCtxGetDevice cuCtxGetDevice_v2 cuDevicePrimaryCtxGetState
    cuThreadExchangeStreamCaptureMode
    cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuDeviceSetMemPool cuMemPoolCreate
    cuMemPoolGetAttribute cuMemPoolSetAttribute cuMemPoolGetAccess cuMemPoolSetAccess
    cuMemPoolTrimTo cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle
    cuMemPoolExportPointer cuModuleGetLoadingMode cuGraphGetNodes cuGraphNodeGetType
    cuGraphInstantiate cuGraphInstantiate_v2 cuGraphInstantiateWithFlags
    cuGraphInstantiateWithParams
    cuLibraryLoadData cuLibraryLoadFromFile cuLibraryGetKernel cuLibraryGetKernelCount
    cuLibraryEnumerateKernels cuLibraryGetManaged cuKernelGetLibrary cuKernelGetName
    cuKernelGetAttribute cuKernelSetAttribute cuKernelSetCacheConfig cuKernelGetParamInfo
    cuKernelGetParamCount
    cuMemGetDefaultMemPool cuMemGetMemPool cuMemSetMemPool cuMemRangeGetAttribute
    cuMemRangeGetAttributes cuGraphCreate cuGraphKernelNodeGetParams
    cuGraphKernelNodeGetParams_v2 cuGraphMemcpyNodeGetParams cuGraphMemsetNodeGetParams
    cuGraphAddHostNode cuGraphHostNodeGetParams cuGraphHostNodeSetParams
    cuGraphAddChildGraphNode cuGraphChildGraphNodeGetGraph cuGraphAddEmptyNode
    cuGraphEventRecordNodeGetEvent cuGraphEventWaitNodeGetEvent cuGraphClone
    cuGraphNodeFindInClone cuGraphNodeGetContainingGraph cuGraphNodeGetLocalId
    cuGraphNodeGetToolsId cuGraphGetId cuGraphExecGetId cuGraphGetRootNodes cuGraphGetEdges
    cuGraphGetEdges_v2 cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2
    cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2 cuGraphAddDependencies
    cuGraphAddDependencies_v2 cuGraphRemoveDependencies cuGraphRemoveDependencies_v2
    cuGraphDestroyNode cuGraphExecGetFlags cuGraphExecHostNodeSetParams
    cuGraphExecChildGraphNodeSetParams cuGraphExecUpdate cuGraphExecUpdate_v2
    cuGraphKernelNodeCopyAttributes cuGraphKernelNodeGetAttribute cuGraphKernelNodeSetAttribute
    cuGraphDebugDotPrint cuGraphMemAllocNodeGetParams cuGraphAddMemFreeNode
    cuGraphMemFreeNodeGetParams cuGraphNodeSetEnabled cuGraphNodeGetEnabled cuGraphNodeGetParams
    cuDeviceGraphMemTrim cuDeviceGetGraphMemAttribute cuDeviceSetGraphMemAttribute
    cuDeviceGetTexture1DLinearMaxWidth cuTexObjectGetResourceDesc cuTexObjectGetTextureDesc
    cuTexObjectGetResourceViewDesc cuSurfObjectGetResourceDesc
"""
# ... and what ends things for good.
ENDS = """
    cuCtxDestroy cuCtxDestroy_v2 cuCtxDetach cuDevicePrimaryCtxRelease
    cuDevicePrimaryCtxRelease_v2 cuGraphDestroy cuGraphExecDestroy cuMemHostUnregister
    cuMemPoolDestroy cuModuleUnload cuLibraryUnload cuLinkDestroy cuArrayDestroy
    cuMipmappedArrayDestroy cuTexObjectDestroy cuSurfObjectDestroy
"""


@pytest.fixture
def own(context: int) -> Iterator[int]:
    """Create a context, current for the test, and destroy it after."""
    created = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    yield created
    set_faults("")
    check(cu.cuCtxDestroy_v2(created))
    while current() != context:  # a failed test may have left others
        check(cu.cuCtxPopCurrent_v2(None))


@pytest.mark.parametrize(
    "row",
    [row for row in BEHAVING if row.symbol not in APART],
    ids=[row.symbol for row in BEHAVING if row.symbol not in APART],
)
def test_on_a_lost_device_every_call_gives_one_code(row: Row, own: int) -> None:
    """Except for what no context answers, and for the end of things. Back, the call works."""
    goes_on = row.topic in TOPICS or base(row.symbol) in (GOES_ON + ENDS).split()
    first = report()["live"]
    resources = Resources(own)
    call = prepare(row.symbol, Bench(resources, row.per_thread))
    with faults("lost=0"):
        code = call()
    again = code if code == call.answer else call()
    call.undo()
    resources.close()
    assert (code, again) == (call.answer if goes_on else LOST, call.answer)
    assert report()["live"] == first


def test_a_call_may_be_the_one_that_loses_the_device(own: int) -> None:
    """It and all later ones fail, until the rules are gone."""
    with faults("cuCtxSynchronize#2=LOST"):
        assert [cu.cuCtxSynchronize() for _ in range(4)] == [0, LOST, LOST, LOST]
        assert cu.cuMemAlloc_v2(byref(c_uint64()), 16) == LOST
    assert cu.cuCtxSynchronize() == 0


def test_what_was_queued_on_a_lost_device_is_gone(own: int) -> None:
    """Nothing waits for it: every question is answered at once."""
    stream, event = value(c_void_p, cu.cuStreamCreate, 1), value(c_void_p, cu.cuEventCreate, 0)
    memory, gate = allocate(64), Gate()
    gate.hold(stream)
    check(cu.cuMemsetD8Async(memory, 1, 64, stream))
    check(cu.cuEventRecord(event, stream))
    assert report()["live"]["operations"] >= 3
    start = time.monotonic()
    with faults("lost=0"):
        waits = [(cu.cuStreamSynchronize, stream), (cu.cuEventSynchronize, event)]
        polls = [(cu.cuStreamQuery, stream), (cu.cuEventQuery, event)]
        assert {ask(handle) for ask, handle in waits + polls} == {LOST}
        assert cu.cuCtxSynchronize() == LOST
        assert cu.cuMemcpyDtoH_v2(ctypes.create_string_buffer(64), memory, 64) == LOST
        assert report()["live"]["operations"] == 0
    assert time.monotonic() - start < 5


WAITS: dict[str, Callable[[int, int, int], int]] = {
    "stream": lambda stream, event, memory: cu.cuStreamSynchronize(stream),
    "event": lambda stream, event, memory: cu.cuEventSynchronize(event),
    "context": lambda stream, event, memory: cu.cuCtxSynchronize(),
    "copy": lambda stream, event, memory: cu.cuMemcpyDtoH_v2((c_int * 16)(), memory, 64),
}


@pytest.mark.parametrize("kind", WAITS)
def test_a_thread_that_waits_hears_of_the_loss(own: int, kind: str) -> None:
    """It does not hang."""
    stream, event = value(c_void_p, cu.cuStreamCreate, 0), value(c_void_p, cu.cuEventCreate, 0)
    memory, gate, codes = allocate(64), Gate(), []
    gate.hold(stream)
    check(cu.cuEventRecord(event, stream))

    def wait() -> None:
        check(cu.cuCtxSetCurrent(own))
        codes.append(WAITS[kind](stream, event, memory))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    time.sleep(0.02)
    assert codes == []
    with faults("lost=0"):
        thread.join(10)
        assert codes == [LOST]


def _clean_up() -> dict[str, Any]:
    """Lose the device with things of every kind in two contexts, and end them all the same."""
    check(cu.cuInit(0))
    contexts = [value(c_void_p, cu.cuDevicePrimaryCtxRetain, 0)]
    check(cu.cuCtxSetCurrent(contexts[0]))
    contexts.append(value(c_void_p, cu.cuCtxCreate_v2, 0, 0))
    executables = []
    for context in contexts:
        check(cu.cuCtxSetCurrent(context))
        bench = Bench(Resources(context), per_thread=False)
        assert all([bench.device, bench.pinned, bench.managed, bench.event(), bench.executable])
        check(cu.cuGraphLaunch(bench.executable, bench.stream))
        executables.append(bench.executable)
        check(cu.cuStreamBeginCapture_v2(bench.resources.stream(), 2))
    seen: dict[str, Any] = {"before": report()["live"]["contexts"]}
    set_faults("lost=0")
    seen["destroy"] = [cu.cuCtxDestroy_v2(contexts[1]), cu.cuDevicePrimaryCtxReset_v2(0)]
    seen["release"] = [cu.cuDevicePrimaryCtxRelease_v2(0), cu.cuDevicePrimaryCtxRelease_v2(0)]
    seen["graphs"] = [cu.cuGraphExecDestroy(executable) for executable in executables]
    seen["left"] = sum(report()["live"].values())
    seen["new"] = [
        cu.cuDevicePrimaryCtxRetain(byref(c_void_p()), 0),
        cu.cuCtxCreate_v2(byref(c_void_p()), 0, 0),
    ]
    set_faults("")
    context = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    check(cu.cuMemsetD8_v2(allocate(64), 3, 64))
    check(cu.cuCtxSynchronize())
    return {**seen, "back": cu.cuCtxDestroy_v2(context)}


def test_contexts_of_a_lost_device_end_with_all_that_is_theirs() -> None:
    """Destroyed, reset, released; new ones are refused until the device is back."""
    assert fresh(_clean_up) == {
        "before": 2,
        "destroy": [0, 0],
        "release": [0, 201],
        "graphs": [0, 0],
        "left": 0,
        "new": [LOST, LOST],
        "back": 0,
    }


def _two_devices() -> dict[str, Any]:
    """Lose device 1 while a stream of device 0 waits for it."""
    check(cu.cuInit(0))
    contexts, streams, memory = [], [], []
    for device in (0, 1):
        contexts.append(value(c_void_p, cu.cuCtxCreate_v2, 0, device))
        streams.append(value(c_void_p, cu.cuStreamCreate, 1))
        memory.append(allocate(64))
        check(cu.cuMemsetD8_v2(memory[-1], 1, 64))
        check(cu.cuCtxSynchronize())
    gate, event = Gate(), value(c_void_p, cu.cuEventCreate, 0)
    gate.hold(streams[1])
    check(cu.cuEventRecord(event, streams[1]))
    check(cu.cuCtxSetCurrent(contexts[0]))
    check(cu.cuStreamWaitEvent(streams[0], event, 0))
    check(cu.cuMemsetD8Async(memory[0], 2, 64, streams[0]))
    set_faults("lost=1")
    seen: dict[str, Any] = {"waiting": cu.cuStreamSynchronize(streams[0])}
    seen["bytes"] = list(download(memory[0], 2))
    seen["on device 0"] = [
        cu.cuMemFree_v2(allocate(64)),
        cu.cuMemsetD8_v2(memory[0], 3, 64),
        cu.cuCtxSynchronize(),
    ]
    seen["lost event"] = [cu.cuStreamWaitEvent(streams[0], event, 0), cu.cuEventQuery(event)]
    peers = [memory[0], contexts[0], memory[1], contexts[1], 64]
    seen["between the two"] = [
        cu.cuMemcpyPeer(*peers),
        cu.cuMemcpyPeerAsync(*peers, streams[0]),
        cu.cuMemcpy(memory[0], memory[1], 64),
        cu.cuMemcpyDtoD_v2(memory[1], memory[0], 64),
    ]
    check(cu.cuCtxSetCurrent(contexts[1]))
    seen["on device 1"] = [cu.cuCtxSynchronize(), cu.cuMemGetInfo_v2(byref(c_uint64()), None)]
    seen["destroy"] = [cu.cuCtxDestroy_v2(context) for context in reversed(contexts)]
    return {**seen, "left": sum(report()["live"].values())}


def test_other_devices_go_on() -> None:
    """A stream that waits for the lost one is set free; what needs the lost one fails."""
    assert fresh(_two_devices, GPULEND_SIM_DEVICES="2") == {
        "waiting": 0,
        "bytes": [2, 2],
        "on device 0": [0, 0, 0],
        "lost event": [LOST, LOST],
        "between the two": [LOST] * 4,
        "on device 1": [LOST, LOST],
        "destroy": [0, 0],
        "left": 0,
    }


def _lost_from_the_start() -> list[int]:
    """Start on a machine whose device is lost."""
    codes = [cu.cuInit(0), cu.cuDeviceGetCount(byref(c_int()))]
    codes += [cu.cuCtxCreate_v2(byref(c_void_p()), 0, device) for device in (0, 1)]
    return [*codes, cu.cuMemAlloc_v2(byref(c_uint64()), 16), cu.cuCtxGetFlags(byref(c_uint()))]


def test_a_device_may_be_lost_from_the_start() -> None:
    """By the environment; the other one works."""
    environment = {"GPULEND_SIM_FAULTS": "lost=0", "GPULEND_SIM_DEVICES": "2"}
    assert fresh(_lost_from_the_start, **environment) == [0, 0, LOST, 0, 0, 0]
