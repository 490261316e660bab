"""Streams: making them, what they say, and in which order their work runs."""

from __future__ import annotations

import ctypes
import threading
import time
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p

import pytest

from .cuda import check, cu
from .resources import LEGACY, NON_BLOCKING, PER_THREAD, Resources, in_thread, last, value

NOT_READY = 600


def _flags(stream: int | None) -> int:
    return last(c_uint, cu.cuStreamGetFlags, stream)


def _id(stream: int | None) -> int:
    return last(c_uint64, cu.cuStreamGetId, stream)


def _fill(address: int, value: int, stream: int | None) -> None:
    check(cu.cuMemsetD8Async(address, value, 8, stream))


def _byte(address: int) -> int:
    return ctypes.string_at(address, 1)[0]


def test_a_stream_blocks_on_the_legacy_one_or_not(gpu: Resources) -> None:
    """Two flags exist; others and a NULL result are refused."""
    assert _flags(gpu.stream(0)) == 0
    assert _flags(gpu.stream(NON_BLOCKING)) == NON_BLOCKING
    for flags in (2, 3, 4, 8):
        assert cu.cuStreamCreate(byref(c_void_p()), flags) == 1
    assert cu.cuStreamCreate(None, 0) == 1
    assert cu.cuStreamCreateWithPriority(None, 0, 0) == 1


def test_priorities_are_clamped_to_the_range(gpu: Resources) -> None:
    """Too high or too low is no error."""
    least, greatest = c_int(), c_int()
    check(cu.cuCtxGetStreamPriorityRange(byref(least), byref(greatest)))
    low, high = least.value, greatest.value
    for wanted, given in [(low, low), (high, high), (low + 1, low), (high - 1, high), (100, low)]:
        stream = value(c_void_p, cu.cuStreamCreateWithPriority, NON_BLOCKING, wanted)
        assert last(c_int, cu.cuStreamGetPriority, stream) == given
        check(cu.cuStreamDestroy_v2(stream))


def test_every_stream_tells_its_context_and_device(gpu: Resources) -> None:
    """The three special handles too."""
    for stream in (None, LEGACY, PER_THREAD, gpu.stream(0), gpu.stream()):
        assert last(c_void_p, cu.cuStreamGetCtx, stream) == gpu.context
        assert last(c_int, cu.cuStreamGetDevice, stream) == 0
        assert last(c_int, cu.cuStreamGetPriority, stream) == 0
        assert cu.cuStreamQuery(stream) == 0
        assert cu.cuStreamSynchronize(stream) == 0


def test_handles_zero_and_one_are_the_legacy_stream(gpu: Resources) -> None:
    """The per-thread stream is another, one for each thread, and blocking."""
    assert _id(None) == _id(LEGACY)
    assert _flags(None) == _flags(LEGACY) == _flags(PER_THREAD) == 0

    def elsewhere() -> tuple[int, int]:
        check(cu.cuCtxSetCurrent(gpu.context))
        return _id(PER_THREAD), _id(LEGACY)

    here, (there, legacy) = _id(PER_THREAD), in_thread(elsewhere)
    assert legacy == _id(LEGACY)
    assert len({here, there, legacy, _id(gpu.stream()), _id(gpu.stream())}) == 5


def test_the_special_streams_cannot_be_destroyed(gpu: Resources) -> None:
    """They are no resources of the caller's."""
    for stream in (None, LEGACY, PER_THREAD):
        assert cu.cuStreamDestroy_v2(stream) == 400


def test_null_results_are_refused(gpu: Resources) -> None:
    """Every question about a stream needs a place for the answer."""
    for question in (
        *[cu.cuStreamGetFlags, cu.cuStreamGetPriority, cu.cuStreamGetId, cu.cuStreamGetCtx],
        *[cu.cuStreamIsCapturing, cu.cuStreamGetDevice],
    ):
        assert question(None, None) == 1


def test_a_stream_is_not_ready_until_its_work_is_done(gpu: Resources) -> None:
    """Query says so, synchronise waits for it."""
    stream, gate = gpu.stream(), gpu.gate()
    gate.hold(stream)
    assert cu.cuStreamQuery(stream) == NOT_READY
    gate.open()
    assert cu.cuStreamSynchronize(stream) == 0
    assert cu.cuStreamQuery(stream) == 0


def test_a_query_repeated_often_enough_succeeds(gpu: Resources) -> None:
    """Work goes on without anyone waiting for it."""
    stream, out = gpu.stream(), gpu.pinned(8)
    _fill(out, 3, stream)
    end = time.monotonic() + 20
    while cu.cuStreamQuery(stream) == NOT_READY and time.monotonic() < end:
        time.sleep(0)
    assert cu.cuStreamQuery(stream) == 0
    assert _byte(out) == 3


def test_work_of_one_stream_runs_in_order(gpu: Resources) -> None:
    """Each operation sees what the one before it wrote."""
    stream, device, out = gpu.stream(), gpu.alloc(8), gpu.pinned(80)
    for number in range(10):
        _fill(device, number, stream)
        check(cu.cuMemcpyDtoHAsync_v2(out + 8 * number, device, 8, stream))
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(out, 80) == b"".join(bytes([n]) * 8 for n in range(10))


def test_a_wait_for_an_event_orders_two_streams(gpu: Resources) -> None:
    """The second stream stays behind the first one's closed gate."""
    first, second, gate, event = gpu.stream(), gpu.stream(), gpu.gate(), gpu.event()
    device, out = gpu.alloc(8), gpu.pinned(8)
    check(cu.cuMemsetD8_v2(device, 1, 8))
    check(cu.cuCtxSynchronize())
    gate.hold(first)
    _fill(device, 2, first)
    check(cu.cuEventRecord(event, first))
    check(cu.cuStreamWaitEvent(second, event, 0))
    check(cu.cuMemcpyDtoHAsync_v2(out, device, 8, second))
    assert cu.cuStreamQuery(second) == NOT_READY
    assert _byte(out) == 0
    gate.open()
    check(cu.cuStreamSynchronize(second))
    assert _byte(out) == 2


def test_without_a_wait_the_second_stream_does_not_stand_behind_the_first(gpu: Resources) -> None:
    """It runs while the first is held, and reads the old bytes."""
    first, second, gate = gpu.stream(), gpu.stream(), gpu.gate()
    device, out = gpu.alloc(8), gpu.pinned(8)
    check(cu.cuMemsetD8_v2(device, 1, 8))
    check(cu.cuCtxSynchronize())
    gate.hold(first)
    _fill(device, 2, first)
    check(cu.cuMemcpyDtoHAsync_v2(out, device, 8, second))
    check(cu.cuStreamSynchronize(second))
    assert _byte(out) == 1
    gate.open()


@pytest.mark.parametrize(
    ("kind", "ordered"), [("blocking", True), ("non-blocking", False), ("per-thread", True)]
)
def test_the_legacy_stream_waits_for_blocking_streams(
    gpu: Resources, kind: str, ordered: bool
) -> None:
    """Work on it stands behind all that was queued on blocking streams before."""
    stream = {"blocking": gpu.stream(0), "non-blocking": gpu.stream()}.get(kind, PER_THREAD)
    gate, out = gpu.gate(), gpu.pinned(8)
    gate.hold(stream)
    _fill(out, 1, stream)
    _fill(out, 2, LEGACY)
    if ordered:
        assert cu.cuStreamQuery(LEGACY) == NOT_READY
        assert _byte(out) == 0
    else:
        check(cu.cuStreamSynchronize(LEGACY))
        assert _byte(out) == 2
    gate.open()
    check(cu.cuCtxSynchronize())
    assert _byte(out) == (2 if ordered else 1)


@pytest.mark.parametrize(
    ("kind", "ordered"), [("blocking", True), ("non-blocking", False), ("per-thread", True)]
)
def test_blocking_streams_wait_for_the_legacy_stream(
    gpu: Resources, kind: str, ordered: bool
) -> None:
    """Work queued on them later stands behind what the legacy stream has."""
    stream = {"blocking": gpu.stream(0), "non-blocking": gpu.stream()}.get(kind, PER_THREAD)
    gate, out = gpu.gate(), gpu.pinned(8)
    gate.hold(LEGACY)
    _fill(out, 1, stream)
    if ordered:
        assert cu.cuStreamQuery(stream) == NOT_READY
        assert _byte(out) == 0
    else:
        check(cu.cuStreamSynchronize(stream))
        assert _byte(out) == 1
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert _byte(out) == 1


def test_a_context_is_synchronous_when_all_its_streams_are(gpu: Resources) -> None:
    """cuCtxSynchronize waits for every stream, of every thread."""
    streams, out = [gpu.stream(0), gpu.stream(), PER_THREAD, LEGACY], gpu.pinned(64)
    for number, stream in enumerate(streams):
        _fill(out + 8 * number, 7, stream)

    def elsewhere() -> None:
        check(cu.cuCtxSetCurrent(gpu.context))
        _fill(out + 32, 7, PER_THREAD)

    in_thread(elsewhere)
    check(cu.cuCtxSynchronize())
    assert ctypes.string_at(out, 41) == b"\x07" * 40 + b"\x00"


def test_a_destroyed_stream_finishes_its_work(gpu: Resources) -> None:
    """Destruction returns at once; what was queued still runs."""
    stream = value(c_void_p, cu.cuStreamCreate, NON_BLOCKING)
    gate, out, event = gpu.gate(), gpu.pinned(9), gpu.event()
    gate.hold(stream)
    _fill(out, 7, stream)
    check(cu.cuEventRecord(event, stream))
    assert cu.cuStreamDestroy_v2(stream) == 0
    assert cu.cuEventQuery(event) == NOT_READY
    gate.open()
    check(cu.cuEventSynchronize(event))
    assert ctypes.string_at(out, 9) == b"\x07" * 8 + b"\x00"


def test_synchronise_waits_for_what_another_thread_queued(gpu: Resources) -> None:
    """A stream has one queue, whoever fills it."""
    stream, gate, out = gpu.stream(), gpu.gate(), gpu.pinned(8)
    gate.hold(stream)

    def elsewhere() -> None:
        check(cu.cuCtxSetCurrent(gpu.context))
        _fill(out, 4, stream)

    in_thread(elsewhere)
    opener = threading.Timer(0.02, gate.open)
    opener.start()
    check(cu.cuStreamSynchronize(stream))
    opener.join()
    assert _byte(out) == 4
