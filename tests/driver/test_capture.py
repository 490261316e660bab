"""Stream capture: begin, status, forks and joins, events, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

import pytest

from .cuda import check, cu
from .resources import LEGACY, PER_THREAD, Resources, end_capture, in_thread, status

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
NONE, ACTIVE, INVALIDATED = 0, 1, 2
MODES = pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])


def _begin(stream: int | None, mode: int = RELAXED) -> None:
    check(cu.cuStreamBeginCapture_v2(stream, mode))


def _end(stream: int | None) -> int:
    """End a capture, destroy the graph, return the code."""
    code, graph = end_capture(stream)
    assert (code == 0) == (graph is not None)
    if graph is not None:
        check(cu.cuGraphDestroy(graph))
    return code


def _fork(gpu: Resources, origin: int, other: int) -> None:
    event = gpu.event()
    check(cu.cuEventRecord(event, origin))
    check(cu.cuStreamWaitEvent(other, event, 0))


def _capture_id(stream: int | None) -> int:
    found, number = c_int(), c_uint64()
    check(cu.cuStreamGetCaptureInfo_v2(stream, byref(found), byref(number), None, None, None))
    return number.value


@MODES
def test_a_stream_captures_from_begin_to_end(gpu: Resources, mode: int) -> None:
    """In all three modes; what is captured does not run."""
    stream = gpu.stream()
    assert status(stream) == NONE
    _begin(stream, mode)
    assert status(stream) == ACTIVE
    assert _end(stream) == 0
    assert status(stream) == NONE


def test_the_per_thread_stream_captures_and_the_legacy_one_does_not(gpu: Resources) -> None:
    """The legacy stream waits for others by its nature: CAPTURE_UNSUPPORTED."""
    for stream in (None, LEGACY):
        assert cu.cuStreamBeginCapture_v2(stream, RELAXED) == 900
        assert status(stream) == NONE
    _begin(PER_THREAD)
    assert status(PER_THREAD) == ACTIVE
    assert _end(PER_THREAD) == 0


def test_an_unknown_mode_begins_nothing(gpu: Resources) -> None:
    """Three modes exist."""
    stream = gpu.stream()
    assert [cu.cuStreamBeginCapture_v2(stream, mode) for mode in (-1, 3)] == [1, 1]
    assert status(stream) == NONE


def test_a_capture_begins_once_and_ends_once(gpu: Resources) -> None:
    """Again is ILLEGAL_STATE, and harms nothing."""
    stream = gpu.stream()
    assert end_capture(stream) == (401, None)
    _begin(stream)
    assert cu.cuStreamBeginCapture_v2(stream, RELAXED) == 401
    assert status(stream) == ACTIVE
    assert _end(stream) == 0
    assert end_capture(stream) == (401, None)


def test_the_graph_may_be_dropped_at_the_end(gpu: Resources) -> None:
    """A NULL result ends the capture."""
    stream = gpu.stream()
    _begin(stream)
    assert cu.cuStreamEndCapture(stream, None) == 0
    assert status(stream) == NONE


def test_each_capture_has_an_id_of_its_own(gpu: Resources) -> None:
    """The same in both versions of the question, never the same again."""
    stream, seen = gpu.stream(), []
    for _ in range(3):
        _begin(stream)
        found, number = c_int(), c_uint64()
        info = cu.cuStreamGetCaptureInfo_v3
        check(info(stream, byref(found), byref(number), None, None, None, None))
        assert found.value == ACTIVE
        assert number.value == _capture_id(stream)
        seen.append(number.value)
        assert _end(stream) == 0
    assert len(set(seen)) == 3


def test_the_capture_tells_graph_and_dependencies(gpu: Resources) -> None:
    """None at first, then the last node; edges in the third version."""
    stream, target, found = gpu.stream(), gpu.alloc(8), c_int()
    graph, nodes, edges, count = c_void_p(), c_void_p(), c_void_p(), c_size_t(99)
    _begin(stream)
    ask = [byref(found), None, byref(graph), byref(nodes)]
    check(cu.cuStreamGetCaptureInfo_v2(stream, *ask, byref(count)))
    assert (graph.value is not None, count.value) == (True, 0)
    check(cu.cuMemsetD8Async(target, 1, 8, stream))
    check(cu.cuStreamGetCaptureInfo_v2(stream, *ask, byref(count)))
    assert (nodes.value is not None, count.value) == (True, 1)
    check(cu.cuStreamGetCaptureInfo_v3(stream, *ask, byref(edges), byref(count)))
    assert (edges.value is not None, count.value) == (True, 1)
    assert _end(stream) == 0


def test_a_stream_that_captures_nothing_has_no_capture_data(gpu: Resources) -> None:
    """Status none, and the rest stays as it was. The status itself must be asked for."""
    stream, found, number = gpu.stream(), c_int(99), c_uint64(99)
    check(cu.cuStreamGetCaptureInfo_v2(stream, byref(found), byref(number), None, None, None))
    assert (found.value, number.value) == (NONE, 99)
    assert cu.cuStreamGetCaptureInfo_v2(stream, None, None, None, None, None) == 1
    assert cu.cuStreamGetCaptureInfo_v3(stream, None, None, None, None, None, None) == 1


def test_a_wait_for_a_captured_event_draws_a_stream_in(gpu: Resources) -> None:
    """It captures under the same id, until the origin ends."""
    origin, other = gpu.stream(), gpu.stream()
    back, target = gpu.event(), gpu.alloc(8)
    _begin(origin)
    _fork(gpu, origin, other)
    assert status(other) == ACTIVE
    assert _capture_id(other) == _capture_id(origin)
    check(cu.cuMemsetD8Async(target, 1, 8, other))
    check(cu.cuEventRecord(back, other))
    check(cu.cuStreamWaitEvent(origin, back, 0))
    assert _end(origin) == 0
    assert (status(origin), status(other)) == (NONE, NONE)


def test_a_fork_with_work_must_be_joined(gpu: Resources) -> None:
    """Else UNJOINED: no graph, and both streams are free again."""
    origin, other, target = gpu.stream(), gpu.stream(), gpu.alloc(8)
    _begin(origin)
    _fork(gpu, origin, other)
    check(cu.cuMemsetD8Async(target, 1, 8, other))
    assert end_capture(origin) == (904, None)
    assert (status(origin), status(other)) == (NONE, NONE)


def test_a_fork_without_work_need_not_be_joined(gpu: Resources) -> None:
    """It has nothing that could be lost."""
    origin, other, target = gpu.stream(), gpu.stream(), gpu.alloc(8)
    _begin(origin)
    check(cu.cuMemsetD8Async(target, 1, 8, origin))
    _fork(gpu, origin, other)
    assert _end(origin) == 0
    assert status(other) == NONE


def test_a_capture_ends_on_the_stream_it_began_on(gpu: Resources) -> None:
    """Elsewhere it is UNMATCHED, and the capture is lost."""
    origin, other = gpu.stream(), gpu.stream()
    _begin(origin)
    _fork(gpu, origin, other)
    assert end_capture(other) == (903, None)
    assert (status(origin), status(other)) == (INVALIDATED, INVALIDATED)
    assert end_capture(origin) == (901, None)
    assert (status(origin), status(other)) == (NONE, NONE)


def test_two_captures_cannot_merge(gpu: Resources) -> None:
    """Waiting for the other's event loses both."""
    first, second, event = gpu.stream(), gpu.stream(), gpu.event()
    _begin(first)
    _begin(second)
    check(cu.cuEventRecord(event, first))
    assert cu.cuStreamWaitEvent(second, event, 0) == 902
    assert (status(first), status(second)) == (INVALIDATED, INVALIDATED)
    assert (end_capture(first), end_capture(second)) == ((901, None), (901, None))


def _other_thread(gpu: Resources, function: Callable[[], Any]) -> Any:
    def run() -> Any:
        check(cu.cuCtxSetCurrent(gpu.context))
        return function()

    return in_thread(run)


@pytest.mark.parametrize(("mode", "code"), [(GLOBAL, 908), (THREAD_LOCAL, 908), (RELAXED, 0)])
def test_another_thread_may_end_a_relaxed_capture_only(
    gpu: Resources, mode: int, code: int
) -> None:
    """WRONG_THREAD otherwise; but the capture is over in any case."""
    stream = gpu.stream()
    _begin(stream, mode)
    assert _other_thread(gpu, lambda: _end(stream)) == code
    assert status(stream) == NONE
    assert end_capture(stream) == (401, None)


@MODES
def test_work_of_another_thread_is_captured(gpu: Resources, mode: int) -> None:
    """The stream captures, whoever fills it."""
    stream, target = gpu.stream(), gpu.alloc(8)
    _begin(stream, mode)
    _other_thread(gpu, lambda: check(cu.cuMemsetD8Async(target, 1, 8, stream)))
    code, graph = end_capture(stream)
    assert code == 0
    assert graph is not None
    assert gpu.nodes(graph) == [2]
    check(cu.cuGraphDestroy(graph))


def test_an_invalidated_capture_takes_nothing_until_it_is_ended(gpu: Resources) -> None:
    """Work is INVALIDATED (901), questions UNSUPPORTED (900); then the stream works again."""
    stream, event, target = gpu.stream(), gpu.event(), gpu.alloc(8)
    _begin(stream)
    assert cu.cuStreamSynchronize(stream) == 900
    assert status(stream) == INVALIDATED
    assert cu.cuMemsetD8Async(target, 1, 8, stream) == 901
    assert cu.cuEventRecord(event, stream) == 901
    assert cu.cuStreamQuery(stream) == 900
    assert cu.cuStreamSynchronize(stream) == 900
    assert cu.cuStreamBeginCapture_v2(stream, RELAXED) == 401
    assert end_capture(stream) == (901, None)
    assert cu.cuMemsetD8Async(target, 1, 8, stream) == 0
    assert cu.cuStreamSynchronize(stream) == 0


@pytest.mark.parametrize(
    ("call", "code", "after"),
    [
        (cu.cuEventQuery, 907, INVALIDATED),
        (cu.cuEventSynchronize, 907, INVALIDATED),
        (lambda event: cu.cuEventElapsedTime(byref(c_float()), event, event), 907, ACTIVE),
        (lambda event: cu.cuEventRecord(event, PER_THREAD), 0, ACTIVE),
    ],
    ids=["query", "synchronize", "elapsed", "record elsewhere"],
)
def test_an_event_recorded_in_a_capture_has_no_state(
    gpu: Resources, call: Callable[[int], int], code: int, after: int
) -> None:
    """CAPTURED_EVENT, even in relaxed mode; recorded anew outside it is an event again."""
    stream, event, target = gpu.stream(), gpu.event(), gpu.alloc(8)
    _begin(stream)
    check(cu.cuMemsetD8Async(target, 1, 8, stream))
    check(cu.cuEventRecord(event, stream))
    assert call(event) == code
    assert status(stream) == after
    assert _end(stream) == (901 if after == INVALIDATED else 0)


def test_an_event_of_a_finished_capture_is_useless_until_recorded(gpu: Resources) -> None:
    """Query, synchronise and wait are INVALID_VALUE."""
    stream, other, event = gpu.stream(), gpu.stream(), gpu.event()
    _begin(stream)
    check(cu.cuEventRecord(event, stream))
    assert _end(stream) == 0
    assert cu.cuEventQuery(event) == 1
    assert cu.cuEventSynchronize(event) == 1
    assert cu.cuStreamWaitEvent(other, event, 0) == 1
    check(cu.cuEventRecord(event, other))
    check(cu.cuEventSynchronize(event))
    assert cu.cuEventQuery(event) == 0


def test_a_thread_exchanges_its_capture_mode(gpu: Resources) -> None:
    """Global at first; the old mode comes back; each thread has its own."""
    mode = c_int(THREAD_LOCAL)
    check(cu.cuThreadExchangeStreamCaptureMode(byref(mode)))
    assert mode.value == GLOBAL

    def elsewhere() -> int:
        other = c_int(RELAXED)
        check(cu.cuThreadExchangeStreamCaptureMode(byref(other)))
        return other.value

    assert in_thread(elsewhere) == GLOBAL
    check(cu.cuThreadExchangeStreamCaptureMode(byref(mode)))
    assert mode.value == THREAD_LOCAL


@pytest.mark.parametrize(
    ("mine", "capture", "code"),
    [(RELAXED, GLOBAL, 0), (THREAD_LOCAL, GLOBAL, 900), (THREAD_LOCAL, THREAD_LOCAL, 900)],
)
def test_the_mode_of_the_capturing_thread_decides_too(
    gpu: Resources, mine: int, capture: int, code: int
) -> None:
    """A relaxed thread may allocate inside its own global capture."""
    stream, mode, out = gpu.stream(), c_int(mine), c_uint64()
    check(cu.cuThreadExchangeStreamCaptureMode(byref(mode)))
    _begin(stream, capture)
    assert cu.cuMemAlloc_v2(byref(out), 16) == code
    assert status(stream) == (INVALIDATED if code else ACTIVE)
    assert _end(stream) == (901 if code else 0)
    check(cu.cuThreadExchangeStreamCaptureMode(byref(mode)))
    if code == 0:
        check(cu.cuMemFree_v2(out))


def test_a_thread_local_thread_does_not_mind_the_captures_of_others(gpu: Resources) -> None:
    """Nor do they mind it."""
    stream, out = gpu.stream(), c_uint64()

    def elsewhere() -> int:
        mode = c_int(THREAD_LOCAL)
        check(cu.cuThreadExchangeStreamCaptureMode(byref(mode)))
        return cu.cuMemAlloc_v2(byref(out), 16)

    _begin(stream, GLOBAL)
    assert _other_thread(gpu, elsewhere) == 0
    assert status(stream) == ACTIVE
    assert _end(stream) == 0
    check(cu.cuMemFree_v2(out))


def test_a_capturing_stream_may_be_destroyed(gpu: Resources) -> None:
    """The capture goes with it, and hinders nobody."""
    stream, target = c_void_p(), gpu.alloc(8)
    check(cu.cuStreamCreate(byref(stream), 1))
    _begin(stream.value, GLOBAL)
    check(cu.cuMemsetD8Async(target, 1, 8, stream))
    assert cu.cuStreamDestroy_v2(stream) == 0
    assert cu.cuMemFree_v2(0) == 0
    assert cu.cuCtxSynchronize() == 0
