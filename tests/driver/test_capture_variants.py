"""Capture and graphs through the per-thread variants and the old forms."""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p, create_string_buffer
from typing import Any

import pytest

from .bench import hold_legacy, peek
from .control import only_simulated, report
from .cuda import check
from .resources import PER_THREAD, Resources, last, status
from .variants import InstantiateParameters, cu

pytestmark = only_simulated

NONE, ACTIVE = 0, 1
RELAXED = 2
SIZE = 64


def _graph(gpu: Resources, target: int) -> int:
    """Capture a memset."""
    stream = gpu.stream()
    check(cu.cuStreamBeginCapture_v2(stream, RELAXED))
    check(cu.cuMemsetD8Async(target, 6, SIZE, stream))
    return last(c_void_p, cu.cuStreamEndCapture, stream)


def _clean(gpu: Resources) -> int:
    """Allocate memory and set it to zero."""
    target = gpu.alloc(SIZE)
    check(cu.cuMemsetD8_v2(target, 0, SIZE))
    check(cu.cuCtxSynchronize())
    return target


@pytest.mark.parametrize("form", ["", "_v2", "_ptsz", "_v2_ptsz"])
def test_a_capture_begins_and_ends_in_every_form(gpu: Resources, form: str) -> None:
    """Of the variants on the thread's own stream, where the legacy one would refuse."""
    own, target = form.endswith("_ptsz"), _clean(gpu)
    stream = None if own else gpu.stream()
    end = cu.cuStreamEndCapture_ptsz if own else cu.cuStreamEndCapture
    ask = cu.cuStreamIsCapturing_ptsz if own else cu.cuStreamIsCapturing
    mode = [RELAXED] if "_v2" in form else []
    check(getattr(cu, f"cuStreamBeginCapture{form}")(stream, *mode))
    assert last(c_int, ask, stream) == status(PER_THREAD if own else stream) == ACTIVE
    fill = cu.cuMemsetD8Async_ptsz if own else cu.cuMemsetD8Async
    check(fill(target, 6, SIZE, stream))
    graph = last(c_void_p, end, stream)
    assert last(c_int, ask, stream) == NONE
    assert gpu.nodes(graph) == [2]
    check(cu.cuGraphDestroy(graph))
    assert peek(gpu, target, SIZE) == bytes(SIZE)


def _info(form: str, stream: int | None) -> tuple[int, int]:
    """Return status and id; what the form tells beyond them must fit."""
    found, number, graph = c_int(99), c_uint64(99), c_void_p()
    more: list[Any] = []
    if "_v2" in form or "_v3" in form:
        more = [byref(graph), None, *([None] if "_v3" in form else []), byref(c_size_t())]
    ask = getattr(cu, f"cuStreamGetCaptureInfo{form}")
    check(ask(stream, byref(found), byref(number), *more))
    assert bool(graph.value) == (bool(more) and found.value == ACTIVE)
    return found.value, number.value


def test_a_capture_that_nobody_wants_leaves_nothing(gpu: Resources) -> None:
    """Ended without a place for the graph, in vain, or with its stream."""
    target, event = _clean(gpu), gpu.event()
    before = report()["live"]
    for end in ("no place", "invalidated", "unjoined", "stream"):
        stream, other = c_void_p(), c_void_p()
        check(cu.cuStreamCreate(byref(stream), 1))
        check(cu.cuStreamCreate(byref(other), 1))
        check(cu.cuStreamBeginCapture_v2(stream, RELAXED))
        check(cu.cuMemsetD8Async(target, 6, SIZE, stream))
        check(cu.cuMemAllocAsync(byref(c_uint64()), SIZE, stream))
        if end == "invalidated":
            assert cu.cuStreamSynchronize(stream) == 900
        if end == "unjoined":
            check(cu.cuEventRecord(event, stream))
            check(cu.cuStreamWaitEvent(other, event, 0))
            check(cu.cuMemsetD8Async(target, 6, SIZE, other))
        if end != "stream":
            codes = {"no place": 0, "invalidated": 901, "unjoined": 904}
            assert cu.cuStreamEndCapture(stream, None) == codes[end]
        check(cu.cuStreamDestroy_v2(stream))
        check(cu.cuStreamDestroy_v2(other))
        assert (end, report()["live"]) == (end, before)


@pytest.mark.parametrize("form", ["", "_v2", "_v3"])
def test_every_form_tells_of_the_capture(gpu: Resources, form: str) -> None:
    """The variants of the thread's own stream's: the same status, the same id."""
    assert _info(form, None) == _info(f"{form}_ptsz", None) == (NONE, 99)
    check(cu.cuStreamBeginCapture_v2_ptsz(None, RELAXED))
    code, number = _info("_v3", PER_THREAD)
    seen = _info(f"{form}_ptsz", None), _info(f"{form}_ptsz", PER_THREAD), _info(form, PER_THREAD)
    other = _info(f"{form}_ptsz", gpu.stream())
    check(cu.cuGraphDestroy(last(c_void_p, cu.cuStreamEndCapture_ptsz, None)))
    assert seen == ((code, number),) * 3
    assert (code, other) == (ACTIVE, (NONE, 99))


@pytest.mark.parametrize("form", ["cuGraphInstantiate", "cuGraphInstantiate_v2"])
def test_old_forms_instantiate(gpu: Resources, form: str) -> None:
    """With a place for a node and a message that a failure would fill."""
    target = _clean(gpu)
    executable, node, text = c_void_p(), c_void_p(99), create_string_buffer(b"-", 16)
    graph = _graph(gpu, target)
    check(getattr(cu, form)(byref(executable), graph, byref(node), text, 16))
    check(cu.cuGraphLaunch(executable, None))
    check(cu.cuCtxSynchronize())
    assert peek(gpu, target, SIZE) == b"\6" * SIZE
    check(cu.cuGraphExecDestroy(executable))
    assert getattr(cu, form)(byref(executable), graph, None, None, 0) == 0
    check(cu.cuGraphExecDestroy(executable))
    assert getattr(cu, form)(byref(executable), None, None, None, 0) == 1
    check(cu.cuGraphDestroy(graph))


@pytest.mark.parametrize("form", ["", "_ptsz"])
def test_parameters_say_how_to_instantiate_and_how_it_went(gpu: Resources, form: str) -> None:
    """Success is 0, and no node is to blame; with an upload (2) in a stream, too."""
    target, instantiate = _clean(gpu), getattr(cu, f"cuGraphInstantiateWithParams{form}")
    graph = _graph(gpu, target)
    for flags, stream in [(0, None), (2, gpu.stream()), (2, None)]:
        executable = c_void_p()
        wanted = InstantiateParameters(flags=flags, upload=stream, failed=99, result=99)
        check(instantiate(byref(executable), graph, byref(wanted)))
        assert (wanted.result, wanted.failed) == (0, None)
        check(cu.cuGraphLaunch(executable, None))
        check(cu.cuCtxSynchronize())
        check(cu.cuGraphExecDestroy(executable))
    assert peek(gpu, target, SIZE) == b"\6" * SIZE
    assert instantiate(byref(executable), graph, None) == 1
    check(cu.cuGraphDestroy(graph))


def test_a_graph_is_uploaded_and_launched_on_the_threads_own_stream(gpu: Resources) -> None:
    """While the legacy stream cannot run; an upload runs nothing."""
    target = _clean(gpu)
    executable = gpu.executable(_graph(gpu, target))
    hold_legacy(gpu)
    check(cu.cuGraphUpload(executable, gpu.stream()))
    check(cu.cuGraphUpload_ptsz(executable, None))
    check(cu.cuStreamSynchronize(PER_THREAD))
    assert peek(gpu, target, SIZE) == bytes(SIZE)
    check(cu.cuGraphLaunch_ptsz(executable, None))
    check(cu.cuStreamSynchronize(PER_THREAD))
    assert peek(gpu, target, SIZE) == b"\6" * SIZE


@pytest.mark.parametrize("form", ["", "_v2", "_ptsz", "_v2_ptsz"])
def test_dependencies_are_updated_in_every_form(gpu: Resources, form: str) -> None:
    """Of a capture into a graph, on a stream or on the thread's own."""
    own, target = form.endswith("_ptsz"), _clean(gpu)
    stream = None if own else gpu.stream()
    graph = c_void_p()
    check(cu.cuGraphCreate(byref(graph), 0))
    begin = cu.cuStreamBeginCaptureToGraph_ptsz if own else cu.cuStreamBeginCaptureToGraph
    check(begin(stream, graph, None, None, 0, RELAXED))
    fill = cu.cuMemsetD8Async_ptsz if own else cu.cuMemsetD8Async
    check(fill(target, 6, SIZE, stream))
    data = [None] if "_v2" in form else []
    check(getattr(cu, f"cuStreamUpdateCaptureDependencies{form}")(stream, None, *data, 0, 1))
    check(fill(target, 7, SIZE, stream))
    end = cu.cuStreamEndCapture_ptsz if own else cu.cuStreamEndCapture
    assert last(c_void_p, end, stream) == graph.value
    assert last(c_size_t, cu.cuGraphGetEdges_v2, graph, None, None, None) == 0
    check(cu.cuGraphDestroy(graph))
