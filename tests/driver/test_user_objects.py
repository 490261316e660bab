"""Objects of the caller's that graphs keep: who has references, and when the last one ends."""

from __future__ import annotations

import threading
from ctypes import byref, c_void_p

import pytest

from .cuda import HOST_FUNCTION, SIMULATED, check, cu
from .resources import Resources, end_capture, undefined_on_hardware, value

NO_DESTRUCTOR_SYNC = MOVE = 1  # CUuserObject_flags, CUuserObjectRetain_flags
SOON = 10.0
A_WHILE = 0.05


class Object:
    """A user object, and whether its function was called."""

    def __init__(self, count: int = 1) -> None:
        self.calls: list[tuple[int | None, int]] = []
        self._called = threading.Event()
        self._function = HOST_FUNCTION(self._end)
        flags = NO_DESTRUCTOR_SYNC
        self.handle = value(c_void_p, cu.cuUserObjectCreate, 77, self._function, count, flags)

    def _end(self, argument: int | None) -> None:
        self.calls.append((argument, threading.get_ident()))
        self._called.set()

    def lives(self) -> bool:
        """Return whether the function is not called for a while."""
        return not self._called.wait(A_WHILE)

    def ends(self) -> bool:
        """Return whether the function was or is soon called, once."""
        return self._called.wait(SOON) and len(self.calls) == 1


def _graph(gpu: Resources) -> int:
    stream, target = gpu.stream(), gpu.pinned(8)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemsetD8Async(target, 5, 8, stream))
    code, graph = end_capture(stream)
    check(code)
    assert graph is not None
    return graph


def test_the_last_reference_calls_the_function(gpu: Resources) -> None:
    """With its argument; here on a thread of its own, on hardware on any."""
    kept = Object(2)
    check(cu.cuUserObjectRetain(kept.handle, 3))
    check(cu.cuUserObjectRelease(kept.handle, 4))
    assert kept.lives()
    check(cu.cuUserObjectRelease(kept.handle, 1))
    assert kept.ends()
    ((argument, thread),) = kept.calls
    assert argument == 77
    assert thread != threading.get_ident() or not SIMULATED


def test_a_graph_keeps_an_object_until_it_is_destroyed(gpu: Resources) -> None:
    """Also when the caller has let go of it; its references are the graph's own."""
    kept, graph = Object(), _graph(gpu)
    check(cu.cuGraphRetainUserObject(graph, kept.handle, 2, 0))
    check(cu.cuUserObjectRelease(kept.handle, 1))
    check(cu.cuGraphReleaseUserObject(graph, kept.handle, 1))
    assert kept.lives()
    check(cu.cuGraphDestroy(graph))
    assert kept.ends()


def test_a_reference_can_be_moved_into_a_graph_and_taken_from_it(gpu: Resources) -> None:
    """Then the caller has none left."""
    kept, graph = Object(), _graph(gpu)
    check(cu.cuGraphRetainUserObject(graph, kept.handle, 1, MOVE))
    assert kept.lives()
    check(cu.cuGraphReleaseUserObject(graph, kept.handle, 1))
    assert kept.ends()
    check(cu.cuGraphDestroy(graph))


def test_what_was_made_ready_keeps_the_objects_too(gpu: Resources) -> None:
    """With references of its own, until its last run is over."""
    kept, graph, stream, gate = Object(), _graph(gpu), gpu.stream(), gpu.gate()
    check(cu.cuGraphRetainUserObject(graph, kept.handle, 1, MOVE))
    executable = value(c_void_p, cu.cuGraphInstantiateWithFlags, graph, 0)
    check(cu.cuGraphReleaseUserObject(graph, kept.handle, 1))
    check(cu.cuGraphDestroy(graph))
    assert kept.lives()
    gate.hold(stream)
    check(cu.cuGraphLaunch(executable, stream))
    check(cu.cuGraphExecDestroy(executable))
    assert kept.lives()
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert kept.ends()


def test_a_graph_can_get_an_object_while_it_is_captured(gpu: Resources) -> None:
    """As cuda.core does with what a kernel's parameters point to."""
    kept, stream = Object(), gpu.stream()
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    graph = c_void_p()
    rest = (None, None)
    check(cu.cuStreamGetCaptureInfo_v2(stream, byref(c_void_p()), None, byref(graph), *rest))
    check(cu.cuGraphRetainUserObject(graph, kept.handle, 1, MOVE))
    code, ended = end_capture(stream)
    check(code)
    assert ended == graph.value
    assert kept.lives()
    check(cu.cuGraphDestroy(ended))
    assert kept.ends()


@pytest.mark.parametrize("count", [0, 1 << 31])
def test_a_count_that_is_none_is_refused(gpu: Resources, count: int) -> None:
    """Counts are an int's."""
    kept, graph = Object(), _graph(gpu)
    assert cu.cuUserObjectRetain(kept.handle, count) == 1
    assert cu.cuUserObjectRelease(kept.handle, count) == 1
    assert cu.cuGraphRetainUserObject(graph, kept.handle, count, 0) == 1
    assert cu.cuGraphReleaseUserObject(graph, kept.handle, count) == 1
    check(cu.cuUserObjectRelease(kept.handle, 1))
    assert kept.ends()
    check(cu.cuGraphDestroy(graph))


def test_what_is_no_object_is_refused(gpu: Resources) -> None:
    """Nowhere to put it, no function, other flags, no handle."""
    kept, graph = Object(), _graph(gpu)
    function = kept._function
    assert cu.cuUserObjectCreate(None, 77, function, 1, NO_DESTRUCTOR_SYNC) == 1
    assert cu.cuUserObjectCreate(byref(c_void_p()), 77, None, 1, NO_DESTRUCTOR_SYNC) == 1
    assert cu.cuUserObjectCreate(byref(c_void_p()), 77, function, 0, NO_DESTRUCTOR_SYNC) == 1
    for flags in (0, 2, 3):
        assert cu.cuUserObjectCreate(byref(c_void_p()), 77, function, 1, flags) == 1
    assert cu.cuUserObjectRetain(None, 1) == 1
    assert cu.cuUserObjectRelease(None, 1) == 1
    assert cu.cuGraphRetainUserObject(graph, None, 1, 0) == 1
    assert cu.cuGraphRetainUserObject(None, kept.handle, 1, 0) == 1
    assert cu.cuGraphRetainUserObject(graph, kept.handle, 1, 2) == 1
    assert cu.cuGraphReleaseUserObject(graph, None, 1) == 1
    check(cu.cuUserObjectRelease(kept.handle, 1))
    assert kept.ends()
    check(cu.cuGraphDestroy(graph))


@undefined_on_hardware("a reference that the caller does not have ends somebody else's")
def test_more_than_one_has_cannot_be_released(gpu: Resources) -> None:
    """Neither by the caller nor by a graph, nor anything after the end."""
    kept, graph = Object(), _graph(gpu)
    assert cu.cuUserObjectRelease(kept.handle, 2) == 1
    assert cu.cuGraphRetainUserObject(graph, kept.handle, 2, MOVE) == 1
    assert cu.cuGraphReleaseUserObject(graph, kept.handle, 1) == 1
    assert kept.lives()
    check(cu.cuGraphRetainUserObject(graph, kept.handle, 1, MOVE))
    assert cu.cuGraphReleaseUserObject(graph, kept.handle, 2) == 1
    check(cu.cuGraphDestroy(graph))
    assert kept.ends()
    assert cu.cuUserObjectRetain(kept.handle, 1) == 1
