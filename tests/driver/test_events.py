"""Events: flags, order, queries and times."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_void_p

import pytest

from .cuda import check, cu
from .resources import LEGACY, PER_THREAD, Resources, value

DISABLE_TIMING, INTERPROCESS = 2, 4
EXTERNAL = 1
NOT_READY = 600

ELAPSED = pytest.mark.parametrize("elapsed", [cu.cuEventElapsedTime, cu.cuEventElapsedTime_v2])


def _finished(gpu: Resources, flags: int = 0) -> int:
    event, stream = gpu.event(flags), gpu.stream()
    check(cu.cuEventRecord(event, stream))
    check(cu.cuEventSynchronize(event))
    return event


def test_flags_of_events(gpu: Resources) -> None:
    """Blocking, untimed, and shared between processes, which must be untimed."""
    for flags in range(4):
        gpu.event(flags)
    gpu.event(INTERPROCESS | DISABLE_TIMING)
    for flags in (INTERPROCESS, INTERPROCESS | 1, 8, 16):
        assert cu.cuEventCreate(byref(c_void_p()), flags) == 1
    assert cu.cuEventCreate(None, 0) == 1


def test_an_event_never_recorded_is_complete(gpu: Resources) -> None:
    """Query and synchronise succeed; waiting for it waits for nothing."""
    event, stream = gpu.event(), gpu.stream()
    assert cu.cuEventQuery(event) == 0
    assert cu.cuEventSynchronize(event) == 0
    assert cu.cuStreamWaitEvent(stream, event, 0) == 0
    assert cu.cuStreamSynchronize(stream) == 0


def test_an_event_is_complete_when_the_work_before_it_is(gpu: Resources) -> None:
    """Not before the gate opens, and whatever comes later."""
    stream, event = gpu.stream(), gpu.event()
    first, second = gpu.gate(), gpu.gate()
    first.hold(stream)
    check(cu.cuEventRecord(event, stream))
    second.hold(stream)
    assert cu.cuEventQuery(event) == NOT_READY
    first.open()
    check(cu.cuEventSynchronize(event))
    assert cu.cuEventQuery(event) == 0
    assert cu.cuStreamQuery(stream) == NOT_READY
    second.open()


def test_every_stream_records(gpu: Resources) -> None:
    """The special ones too."""
    event = gpu.event()
    for stream in (None, LEGACY, PER_THREAD, gpu.stream(0)):
        assert cu.cuEventRecord(event, stream) == 0
        assert cu.cuEventSynchronize(event) == 0


def test_a_second_record_replaces_the_first(gpu: Resources) -> None:
    """The event is then as ready as the newer work, even on another stream."""
    held, idle, gate, event = gpu.stream(), gpu.stream(), gpu.gate(), gpu.event()
    check(cu.cuEventRecord(event, idle))
    check(cu.cuEventSynchronize(event))
    gate.hold(held)
    check(cu.cuEventRecord(event, held))
    assert cu.cuEventQuery(event) == NOT_READY
    check(cu.cuEventRecord(event, idle))
    check(cu.cuEventSynchronize(event))
    gate.open()


def test_a_wait_is_for_the_record_at_the_time_of_the_call(gpu: Resources) -> None:
    """Recording again does not release those who wait already."""
    held, waiting, idle = gpu.stream(), gpu.stream(), gpu.stream()
    gate, event = gpu.gate(), gpu.event()
    gate.hold(held)
    check(cu.cuEventRecord(event, held))
    check(cu.cuStreamWaitEvent(waiting, event, 0))
    check(cu.cuEventRecord(event, idle))
    check(cu.cuEventSynchronize(event))
    assert cu.cuStreamQuery(waiting) == NOT_READY
    gate.open()
    check(cu.cuStreamSynchronize(waiting))


def test_an_event_destroyed_while_pending_still_orders(gpu: Resources) -> None:
    """Those who wait for it go on waiting, and are released."""
    held, waiting, gate = gpu.stream(), gpu.stream(), gpu.gate()
    device, out = gpu.alloc(8), gpu.pinned(8)
    event = value(c_void_p, cu.cuEventCreate, DISABLE_TIMING)
    check(cu.cuMemsetD8_v2(device, 1, 8))
    check(cu.cuCtxSynchronize())
    gate.hold(held)
    check(cu.cuMemsetD8Async(device, 2, 8, held))
    check(cu.cuEventRecord(event, held))
    check(cu.cuStreamWaitEvent(waiting, event, 0))
    assert cu.cuEventDestroy_v2(event) == 0
    check(cu.cuMemcpyDtoHAsync_v2(out, device, 8, waiting))
    assert cu.cuStreamQuery(waiting) == NOT_READY
    gate.open()
    check(cu.cuStreamSynchronize(waiting))
    assert ctypes.string_at(out, 8) == b"\x02" * 8


def _time(elapsed: Callable[..., int], start: int, end: int) -> float:
    milliseconds = c_float(-1e9)
    check(elapsed(byref(milliseconds), start, end))
    return milliseconds.value


@ELAPSED
def test_time_passes_between_two_events(gpu: Resources, elapsed: Callable[..., int]) -> None:
    """Forwards not negative, backwards its opposite, to itself zero."""
    stream, device = gpu.stream(), gpu.alloc(1 << 20)
    start, end = gpu.event(), gpu.event()
    check(cu.cuEventRecord(start, stream))
    for _ in range(20):
        check(cu.cuMemsetD8Async(device, 1, 1 << 20, stream))
    check(cu.cuEventRecord(end, stream))
    check(cu.cuStreamSynchronize(stream))
    forward = _time(elapsed, start, end)
    assert 0 <= forward < 60_000
    assert _time(elapsed, end, start) == -forward
    assert _time(elapsed, start, start) == 0


@ELAPSED
def test_there_is_no_time_without_two_timed_records(
    gpu: Resources, elapsed: Callable[..., int]
) -> None:
    """Never recorded or untimed, on either side, is INVALID_HANDLE; so is NULL."""
    out, timed = c_float(), _finished(gpu)
    never, untimed = gpu.event(), _finished(gpu, DISABLE_TIMING)
    for wrong in (never, untimed, None):
        assert elapsed(byref(out), timed, wrong) == 400
        assert elapsed(byref(out), wrong, timed) == 400
    assert elapsed(byref(out), never, never) == 400


@ELAPSED
def test_there_is_no_time_before_the_events_happen(
    gpu: Resources, elapsed: Callable[..., int]
) -> None:
    """NOT_READY, whichever of the two is late."""
    stream, gate, timed, late = gpu.stream(), gpu.gate(), _finished(gpu), gpu.event()
    gate.hold(stream)
    check(cu.cuEventRecord(late, stream))
    out = c_float()
    assert elapsed(byref(out), timed, late) == NOT_READY
    assert elapsed(byref(out), late, timed) == NOT_READY
    gate.open()
    check(cu.cuEventSynchronize(late))
    assert elapsed(byref(out), timed, late) == 0


def test_no_event_is_an_invalid_handle(gpu: Resources) -> None:
    """NULL, in every call that takes an event."""
    assert cu.cuEventQuery(None) == 400
    assert cu.cuEventSynchronize(None) == 400
    assert cu.cuEventRecord(None, None) == 400
    assert cu.cuEventDestroy_v2(None) == 400
    assert cu.cuStreamWaitEvent(None, None, 0) == 400


def test_external_records_and_waits_are_for_capture(gpu: Resources) -> None:
    """ILLEGAL_STATE outside of one; unknown flags are INVALID_VALUE."""
    event, stream = gpu.event(), gpu.stream()
    for call in (
        lambda flags: cu.cuEventRecordWithFlags(event, stream, flags),
        lambda flags: cu.cuStreamWaitEvent(stream, event, flags),
    ):
        assert [call(flags) for flags in (0, EXTERNAL, 2)] == [0, 401, 1]


def test_a_context_can_record_and_wait_as_a_whole(gpu: Resources) -> None:
    """The event stands for all streams; all streams wait for the event."""
    streams, gate, event = [gpu.stream(), gpu.stream()], gpu.gate(), gpu.event()
    gate.hold(streams[0])
    check(cu.cuCtxRecordEvent(gpu.context, event))
    assert cu.cuEventQuery(event) == NOT_READY
    check(cu.cuCtxWaitEvent(gpu.context, event))
    check(cu.cuMemsetD8Async(gpu.pinned(8), 1, 8, streams[1]))
    assert cu.cuStreamQuery(streams[1]) == NOT_READY
    gate.open()
    check(cu.cuCtxSynchronize())
    assert cu.cuEventQuery(event) == 0
    assert cu.cuCtxRecordEvent(None, event) == 201
