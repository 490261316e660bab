"""Streams, events and leases die in every order, and each keeps what it still needs."""

from __future__ import annotations

import gc
import itertools
import threading
from ctypes import c_void_p

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import PER_THREAD, current, value
from gpulend import simulator

from .graphs import capture
from .resources import (
    MODES,
    REAL,
    Opener,
    Owned,
    bytes_at,
    copy,
    eventually,
    fill,
    need,
    nothing_stays,
    only_simulated,
    still_works,
    stuck,
)


@pytest.mark.parametrize(
    "order", list(itertools.permutations(["lease", "stream", "event", "view"]))
)
def test_any_order_of_destruction(gpu, order):
    """Freeing needs the stream, which Python happily destroys first: 24 orders, none may fail."""
    with nothing_stays():
        stream = gpulend.Stream()
        with stream:
            lease = gpulend.full(1000, 6, "int32")
        things = {"lease": lease, "stream": stream, "event": stream.record(), "view": lease[10:]}
        del lease, stream
        gate = gpu.gate()
        gate.hold(things["stream"])
        for name in order:
            del things[name]
        assert gate.closed
        gate.open()
    still_works()


@pytest.mark.parametrize("order", list(itertools.permutations(["lease", "stream", "view"])))
def test_any_order_of_destruction_with_a_stream_of_cuda_core(gpu, order):
    """The same for a stream that another library owns."""
    core = need("cuda.core")
    device = core.Device(0)
    device.set_current()
    with nothing_stays():
        lease = gpulend.full(1000, 6, "int32")
        stream = device.create_stream()
        things = {"lease": lease, "stream": stream, "view": lease.lend("cuda.core", stream=stream)}
        del lease, stream
        for name in order:
            del things[name]
    still_works()


WAYS = {
    "used_on": lambda lease, stream: lease.used_on(stream),
    "borrow": lambda lease, stream: gpulend.borrow(lease, stream),
    "dlpack": lambda lease, stream: lease.__dlpack__(stream=gpulend.Stream(stream).handle),
    "pointer": lambda lease, stream: _point(lease, stream),
    "copy": lambda lease, stream: _write(lease, stream),
}


def _point(lease, stream):
    with lease.pointer(stream):
        pass


def _write(lease, stream):
    with gpulend.Stream(stream):
        lease.copy_from(gpulend.full(lease.shape, 8, lease.dtype))


@pytest.mark.parametrize("way", WAYS)
def test_a_dropped_stream_is_kept_as_long_as_it_is_needed(way):
    """The lease knows the stream by its object, so the handle cannot be reused for another."""
    with nothing_stays():
        lease = gpulend.full(100, 8, "int32")
        stream = gpulend.Stream()
        kept = WAYS[way](lease, stream)
        del stream
        gc.collect()
        assert lease.to_host().tolist() == [8] * 100
        del kept
        assert gpulend.borrow(lease, gpulend.Stream()).to_host().tolist() == [8] * 100
        del lease


@only_simulated
@pytest.mark.parametrize("way", WAYS)
def test_a_stream_destroyed_after_its_use_spoils_nothing(gpu, way):
    """CUDA lets a stream be destroyed with work on it: a raw handle may be gone at the next turn.

    On hardware a destroyed handle may crash the driver, so the simulated one is asked alone.
    """
    with nothing_stays():
        lease = gpulend.full(100, 8, "int32")
        handle = value(c_void_p, cu.cuStreamCreate, 1)
        kept = WAYS[way](lease, handle)
        check(cu.cuStreamSynchronize(handle))
        check(cu.cuStreamDestroy_v2(handle))
        assert lease.to_host().tolist() == [8] * 100
        assert gpulend.borrow(lease, gpulend.Stream()).to_host().tolist() == [8] * 100
        del kept, lease
    still_works()


@only_simulated
@pytest.mark.parametrize("reader", ["host", "stream"])
def test_work_of_a_stream_that_its_owner_destroyed_is_waited_for(gpu, reader):
    """With all work of the device, because the stream cannot be named any more."""
    gate, consumer = gpu.gate(), gpulend.Stream()
    with consumer:
        lease, out = gpulend.zeros(100, "uint8"), gpulend.zeros(100, "uint8")
    gpulend.synchronize()
    handle = value(c_void_p, cu.cuStreamCreate, 1)
    gate.hold(handle)
    fill(lease.address, 7, 100, handle)
    lease.used_on(Owned(handle))
    check(cu.cuStreamDestroy_v2(handle))
    if reader == "host":
        with Opener(gate):
            found = lease.to_host()
    else:
        with consumer:
            out.copy_from(lease)
        assert stuck(consumer)
        gate.open()
        found = out.to_host()
    assert found.tolist() == [7] * 100


def test_an_event_outlives_its_stream(gpu):
    """An event is a moment; the stream that it was recorded on need not be there to wait for it."""
    gate, stream = gpu.gate(), gpulend.Stream()
    gate.hold(stream)
    event = stream.record()
    other = gpulend.Stream()
    del stream
    gc.collect()
    other.wait(event)
    assert not event.done
    del event
    late = other.record()
    assert not late.done
    gate.open()
    late.synchronize()


@only_simulated
def test_a_stream_of_ours_is_destroyed_when_nobody_needs_it():
    """Streams are finite: a thousand dropped ones must leave none."""

    def streams():
        return simulator.report()["live"]["streams"]

    for _ in range(10):
        gpulend.Stream()
    gc.collect()
    before = streams()
    for _ in range(1000):
        with gpulend.Stream():
            gpulend.zeros(10, "uint8")
    gc.collect()
    eventually(lambda: streams() <= before, "all streams were destroyed")
    still_works()


def test_leaving_a_block_after_the_stream_s_name_is_gone():
    """The block itself keeps the stream."""
    with gpulend.Stream():
        gc.collect()
        assert gpulend.current_stream().handle > 2
        lease = gpulend.full(10, 1, "int8")
    assert lease.to_host().tolist() == [1] * 10


# Bounded bookkeeping: a lease that lives long remembers the work that matters, not every hand-over.

TURNS = 300
# Behind a gate: a real driver holds its caller up when its queues are full, and the caller is to
# open the gate.
TURNS_HELD = 30 if REAL else TURNS
MOST_STREAMS, MOST_EVENTS = 8, 40


def _numbered(lease, stream):
    lease.used_on(gpulend.Stream(stream).handle)


def _read_from(lease, stream):
    with gpulend.Stream(stream):
        lease.copy_to(np.empty(lease.shape, lease.dtype.name))


def _written(lease, stream):
    with gpulend.Stream(stream):
        lease.copy_from(np.full(lease.shape, 8, lease.dtype.name))


def _part(lease, stream):
    lease[1:].used_on(stream)


def _shown(lease, stream):
    with gpulend.Stream(stream):
        lease.as_cuda().__cuda_array_interface__


def _capsule(lease, stream):
    # Named, because the host would wait for simulated memory that goes to a CPU.
    lease.__dlpack__(stream=gpulend.Stream(stream).handle, dl_device=(2, 0))


HAND_OVERS = {
    **WAYS,
    "copy": _written,
    "dlpack": _capsule,
    "number": _numbered,
    "read": _read_from,
    "part": _part,
    "interface": _shown,
}
HOLDS = {
    "nothing": lambda lease: None,
    "capsule": lambda lease: lease.__dlpack__(stream=-1, dl_device=(2, 0)),
    "slice": lambda lease: lease[3:],
    "borrowed": gpulend.borrow,
    **({"numpy": lambda lease: lease.lend("numpy")} if not REAL else {}),
}


class Handles:
    """What the simulated driver held before, and how much more it holds now."""

    def __init__(self):
        gc.collect()
        gpulend.synchronize()
        self.before = self.now()

    def now(self):
        """Return how many streams and events are alive; a real driver does not say."""
        live = simulator.report()["live"] if not REAL else {"streams": 0, "events": 0}
        return live["streams"], live["events"]

    def grown(self):
        """Return how many more they are."""
        return tuple(now - then for now, then in zip(self.now(), self.before, strict=True))

    def stay_short(self, streams=MOST_STREAMS):
        """See that they did not grow with the number of hand-overs."""
        most = streams, MOST_EVENTS
        eventually(
            lambda: all(left <= right for left, right in zip(self.grown(), most, strict=True)),
            f"at most {most} streams and events more than before, once {self.grown()}",
        )


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("way", HAND_OVERS)
def test_hand_overs_on_fresh_streams_leave_no_trail(way, hold):
    """Each stream is dropped after its turn, whatever else is held of the memory meanwhile."""
    with nothing_stays():
        lease = gpulend.full(100, 8, "int32")
        handles, held = Handles(), HOLDS[hold](lease)
        for turn in range(TURNS):
            stream = gpulend.Stream()
            HAND_OVERS[way](lease, stream)
            stream.synchronize()
            del stream
            if turn == TURNS // 2:
                middle = handles.grown()
        handles.stay_short()
        assert middle[1] <= 3 * MOST_EVENTS, f"{middle} streams and events half way"
        assert lease.to_host().tolist() == [8] * 100
        del held, lease


@only_simulated
@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("way", HAND_OVERS)
def test_hand_overs_on_streams_by_number_leave_no_trail(way, hold):
    """The user destroys the streams: their numbers come again, and mean other streams."""
    with nothing_stays():
        lease = gpulend.full(100, 8, "int32")
        handles, held = Handles(), HOLDS[hold](lease)
        for _ in range(TURNS):
            handle = value(c_void_p, cu.cuStreamCreate, 1)
            HAND_OVERS[way](lease, handle)
            check(cu.cuStreamSynchronize(handle))
            check(cu.cuStreamDestroy_v2(handle))
        handles.stay_short()
        assert lease.to_host().tolist() == [8] * 100
        del held, lease


@pytest.mark.parametrize("way", HAND_OVERS)
def test_hand_overs_on_streams_that_are_kept_leave_no_trail_of_events(way):
    """The streams are the user's to keep; what was done on them is not ours to remember."""
    with nothing_stays():
        lease, handles = gpulend.full(100, 8, "int32"), Handles()
        streams = [gpulend.Stream() for _ in range(TURNS)]
        for stream in streams:
            HAND_OVERS[way](lease, stream)
            stream.synchronize()
        handles.stay_short(TURNS + MOST_STREAMS)
        assert lease.to_host().tolist() == [8] * 100
        del lease, stream, streams
        eventually(lambda: handles.grown()[0] <= MOST_STREAMS, "the streams were destroyed")


@pytest.mark.parametrize("way", ["used_on", "dlpack", "pointer", "copy", "interface"])
def test_per_thread_streams_of_many_threads_leave_no_trail(way):
    """A per-thread stream is another one on each thread, and gone with it."""
    with nothing_stays():
        leases, handles = [gpulend.full(100, 8, "int32")], Handles()

        def work():
            check(cu.cuCtxSetCurrent(context))
            HAND_OVERS[way](leases[0], PER_THREAD)
            gpulend.Stream(PER_THREAD).synchronize()

        context = current()
        for _ in range(200):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        handles.stay_short()
        assert leases.pop().to_host().tolist() == [8] * 100


@pytest.mark.parametrize("early", ["own", "number", "per-thread"])
@pytest.mark.parametrize("way", ["used_on", "dlpack", "pointer", "borrow", "number"])
def test_forgetting_what_is_done_forgets_nothing_that_is_not(gpu, way, early):
    """One early stream is held back: after hundreds of hand-overs a writer still waits for it."""
    with nothing_stays():
        lease, newer = gpulend.full(100, 8, "int32"), gpulend.full(100, 9, "int32")
        gpulend.synchronize()
        gate, writer = gpu.gate(), gpulend.Stream()
        late = {"own": gpulend.Stream, "number": gpu.stream, "per-thread": lambda: PER_THREAD}
        stream = late[early]()
        seen = gpu.pinned(400)
        gate.hold(stream)
        copy(seen, lease.address, 400, gpulend.Stream(stream).handle)
        HAND_OVERS[way](lease, stream)
        del stream
        for _ in range(TURNS_HELD):
            other = gpulend.Stream()
            HAND_OVERS[way](lease, other)
            del other
        with writer:
            lease.copy_from(newer)
        assert gate.closed, "the host waited"
        assert stuck(writer), "the first reader was forgotten"
        gate.open()
        assert lease.to_host().tolist() == [9] * 100
        gpulend.synchronize()
        assert set(bytes_at(seen, 400).view("int32").tolist()) == {8}
        del lease, newer


def test_a_writer_that_is_held_back_is_not_forgotten_either(gpu):
    """Hundreds of readers come and go: the next one still waits for what was written first."""
    with nothing_stays():
        lease, newer = gpulend.full(100, 8, "int32"), gpulend.full(100, 9, "int32")
        gpulend.synchronize()
        gate, writer, last = gpu.gate(), gpulend.Stream(), gpulend.Stream()
        gate.hold(writer)
        with writer:
            lease.copy_from(newer)
        for number in range(TURNS_HELD):
            stream = gpulend.Stream()
            list(HAND_OVERS.values())[number % 4](lease, stream)
            del stream
        with last:
            seen = gpulend.empty(100, "int32")
            seen.copy_from(lease)
        assert gate.closed, "the host waited"
        assert stuck(last), "the writer was forgotten"
        gate.open()
        assert seen.to_host().tolist() == [9] * 100
        del lease, newer, seen


def test_work_that_waits_for_a_gate_is_counted_once_a_stream(gpu):
    """Two streams take turns behind a gate: what is held is two streams' work, not each turn's."""
    with nothing_stays():
        lease, handles = gpulend.full(100, 8, "int32"), Handles()
        gate, streams = gpu.gate(), [gpulend.Stream(), gpulend.Stream()]
        for stream in streams:
            gate.hold(stream)
        for number in range(TURNS):
            lease.used_on(streams[number % 2])
            lease.used_on(streams[number % 2].handle)
        assert handles.grown()[1] <= MOST_EVENTS, f"{handles.grown()} streams and events"
        assert gate.closed
        gate.open()
        del lease


def _unhindered(gpu):
    """Return a stream that the closed gate does not hold up: a GPU's few queues are shared."""
    for _ in range(32):
        stream = gpulend.Stream()
        fill(gpu.alloc(64), 1, 64, stream.handle)
        if not stuck(stream):
            return stream
    return pytest.fail("every stream shares a queue with the one that is held back")


@pytest.mark.parametrize("count", [1, 8, 16, 17, 100])
def test_many_streams_of_ours_draw_in_no_other(gpu, count):
    """However many streams used the memory, a stuck one that never did holds nobody up."""
    with nothing_stays():
        lease, newer = gpulend.full(100, 8, "int32"), gpulend.full(100, 9, "int32")
        gpulend.synchronize()
        streams = [gpulend.Stream() for _ in range(count)]
        for stream in streams:
            lease.used_on(stream)
            stream.synchronize()
        gate, unrelated = gpu.gate(), gpulend.Stream()
        gate.hold(unrelated)
        writer = _unhindered(gpu)
        with writer:
            lease.copy_from(newer)
        assert not stuck(writer), "the writer waits for a stream that never touched the memory"
        assert gate.closed
        gate.open()
        del lease, newer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [1, 8, 16, 17, 100])
def test_many_streams_of_ours_forbid_no_capture(gpu, count, mode):
    """Their work is done and they are known: nothing is left that a capture could not have."""
    lease, newer = gpulend.full(100, 8, "int32"), gpulend.full(100, 9, "int32")
    streams, captured = [gpulend.Stream() for _ in range(count)], gpulend.Stream()
    for stream in streams:
        lease.used_on(stream)
    gpulend.synchronize()
    with capture(gpu, captured, mode) as graph, captured:
        lease.copy_from(newer)
    graph.replay()
    assert lease.to_host().tolist() == [9] * 100
