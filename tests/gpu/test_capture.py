"""CUDA graphs: nothing that we do spoils a capture, and what was captured replays right (law 4)."""

from __future__ import annotations

import gc
import threading

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu

from .graphs import beside, capture, until
from .resources import (
    MODES,
    REAL,
    fill,
    need,
    nothing_stays,
)

HARMLESS = 0
REFUSED = 1003


class Scene:
    """Memory on the capturing stream, on others, and something to drop."""

    def __init__(self, blocking=False):
        self.stream, self.other = gpulend.Stream(blocking=blocking), gpulend.Stream()
        with self.stream:
            self.here = gpulend.full(64, 1, "int32")
            self.source = gpulend.full(64, 2, "int32")
        with self.other:
            self.there = gpulend.full(64, 3, "int32")
        self.legacy = gpulend.full(64, 4, "int32")
        self.dropped = [gpulend.full(1000, 5, "uint8") for _ in range(10)]
        self.event = self.other.record()
        gpulend.synchronize()

    def inside(self, action):
        """Do something with the capturing stream current."""
        with self.stream:
            return action()

    def elsewhere(self, action):
        """Do something with a stream current that captures nothing."""
        with self.other:
            return action()

    def cycle(self):
        """Leave garbage that only the collector frees, and collect it."""
        ring = [self.dropped.pop()]
        ring.append(ring)
        del ring
        gc.collect()


def point(lease, stream):
    """Take and give back the bare address."""
    with lease.pointer(stream):
        pass


ACTIONS = {
    # what, and the code of the error that it gives; HARMLESS: none
    "copy": (lambda s: s.inside(lambda: s.here.copy_from(s.source)), HARMLESS),
    "borrow": (lambda s: gpulend.borrow(s.here, s.stream), HARMLESS),
    "borrow what is done elsewhere": (lambda s: gpulend.borrow(s.there, s.stream), HARMLESS),
    "borrow what is done on legacy": (lambda s: gpulend.borrow(s.legacy, s.stream), HARMLESS),
    "slice": (lambda s: s.here[3:][::2].T, HARMLESS),
    "cai": (lambda s: s.here.as_cuda().__cuda_array_interface__, HARMLESS),
    "dlpack": (
        lambda s: s.here.__dlpack__(stream=s.stream.handle, dl_device=(2, 0), max_version=(1, 0)),
        HARMLESS,
    ),
    "pointer": (lambda s: point(s.here, s.stream), HARMLESS),
    "used_on": (lambda s: s.here.used_on(s.stream), HARMLESS),
    "wrap": (lambda s: gpulend.wrap(s.legacy.address, 64, "int32", owner=s.legacy), HARMLESS),
    "describe": (lambda s: gpulend.describe(s.here), HARMLESS),
    "ledger": (lambda s: gpulend.ledger(), HARMLESS),
    "empty": (lambda s: s.inside(lambda: gpulend.empty(100, "uint8")), HARMLESS),
    "zeros": (lambda s: s.inside(lambda: gpulend.zeros(100, "uint8")), HARMLESS),
    "full": (lambda s: s.inside(lambda: gpulend.full(100, 3, "int32")), HARMLESS),
    "empty elsewhere": (lambda s: s.elsewhere(lambda: gpulend.empty(100, "uint8")), HARMLESS),
    "zeros elsewhere": (lambda s: s.elsewhere(lambda: gpulend.zeros(100, "uint8")), HARMLESS),
    "zeros on legacy": (lambda s: gpulend.zeros(100, "uint8"), HARMLESS),
    "release": (lambda s: s.dropped.pop().release(), HARMLESS),
    "drop": (lambda s: s.dropped.clear(), HARMLESS),
    "collect": (lambda s: s.cycle(), HARMLESS),
    "new stream": (lambda s: gpulend.Stream(), HARMLESS),
    "current stream": (lambda s: gpulend.current_stream(), HARMLESS),
    "capturing": (lambda s: s.stream.capturing, HARMLESS),
    "other event": (lambda s: s.event.done, HARMLESS),
    "other stream": (lambda s: s.other.done, HARMLESS),
    "other waits": (lambda s: s.other.synchronize(), HARMLESS),
    "other records": (lambda s: s.other.record(), HARMLESS),
    "wait for what is done": (lambda s: s.stream.wait(s.event), HARMLESS),
    "lend to legacy": (lambda s: _lend_on(s, 1), REFUSED),
    "lend to another stream": (lambda s: _lend_on(s, s.other), REFUSED),
    "legacy waits": (lambda s: gpulend.Stream(1).wait(s.stream), REFUSED),
    "to_host": (lambda s: s.inside(lambda: s.here.to_host()), REFUSED),
    "from_host": (lambda s: s.inside(lambda: gpulend.from_host(np.zeros(5))), REFUSED),
    "copy_from": (
        lambda s: s.inside(lambda: s.here.copy_from(np.zeros(64, np.int32))),
        REFUSED,
    ),
    "copy_to": (lambda s: s.inside(lambda: s.here.copy_to(np.zeros(64, np.int32))), REFUSED),
    "synchronize": (lambda s: s.stream.synchronize(), REFUSED),
    "done": (lambda s: s.stream.done, REFUSED),
    "synchronize the device": (lambda s: gpulend.synchronize(), REFUSED),
}
# What needs the legacy stream: refused while a blocking stream captures.
NEEDS_LEGACY = ("borrow what is done on legacy", "zeros on legacy")


def _lend_on(scene, stream):
    """Hand memory with captured work to a stream that captures nothing."""
    scene.inside(lambda: scene.here.copy_from(scene.source))
    return gpulend.borrow(scene.here, stream)


def replays(graph, scene):
    """See that what was captured beside the action runs, again and again."""
    for _ in range(3):
        fill(scene.source.address, 0, 256, scene.stream.handle)
        graph.replay()
        assert scene.source.to_host().tolist() == [0x06060606] * 64


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ACTIONS)
def test_nothing_invalidates_a_capture(gpu, action, mode):
    """What can be done is done, what cannot is refused by name; the capture lives either way."""
    act, code = ACTIONS[action]
    scene = Scene()
    kept = None
    with capture(gpu, scene.stream, mode) as graph:
        fill(scene.source.address, 6, 256, scene.stream.handle)
        if code == HARMLESS:
            kept = act(scene)
        else:
            with pytest.raises(gpulend.DriverError) as caught:
                act(scene)
            assert caught.value.code == code
        assert graph.alive
    del kept
    replays(graph, scene)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("action", ACTIONS)
def test_nothing_invalidates_the_capture_of_a_blocking_stream(gpu, action, mode):
    """While such a stream captures, the legacy one must not be touched, not even to look at it."""
    scene = Scene(blocking=True)
    kept = None
    with capture(gpu, scene.stream, mode) as graph:
        fill(scene.source.address, 6, 256, scene.stream.handle)
        try:
            kept = ACTIONS[action][0](scene)
        except gpulend.DriverError as error:
            refused = error.code
        else:
            refused = HARMLESS
        assert graph.alive
    assert refused == (REFUSED if action in NEEDS_LEGACY else ACTIONS[action][1])
    del kept
    replays(graph, scene)


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_replays_with_new_data(gpu, mode):
    """The graph works on addresses: what they hold at each replay is what counts."""
    stream = gpulend.Stream()
    with stream:
        source, middle, target = (gpulend.zeros((8, 8), "int32") for _ in range(3))
    gpulend.synchronize()
    for _ in range(2):  # a second capture on the same stream must work as the first
        with capture(gpu, stream, mode) as graph, stream:
            held = len(gpulend.ledger())
            middle.copy_from(source)
            gpulend.borrow(target, stream)[::2].copy_from(middle[::2])
            target.T[1].copy_from(middle[3])
            assert len(gpulend.ledger()) == held
    for number in range(100 if REAL else 20):
        data = np.random.default_rng(number).integers(0, 1000, (8, 8), np.int32)
        source.copy_from(data)
        target.copy_from(np.zeros((8, 8), np.int32))
        gpulend.synchronize()
        graph.replay()
        wanted = np.zeros((8, 8), np.int32)
        wanted[::2] = data[::2]
        wanted.T[1] = data[3]
        assert np.array_equal(target.to_host(), wanted)


@pytest.mark.parametrize("mode", MODES)
def test_two_streams_of_one_capture_hand_over(gpu, mode):
    """A stream that joined the capture is part of it: hand-overs become edges of the graph."""
    stream, joined = gpulend.Stream(), gpulend.Stream()
    with stream:
        source, target = gpulend.zeros(64, "int32"), gpulend.zeros(64, "int32")
    gpulend.synchronize()
    with capture(gpu, stream, mode) as graph:
        fork, join = gpu.event(), gpu.event()
        check(cu.cuEventRecord(fork, stream.handle))
        check(cu.cuStreamWaitEvent(joined.handle, fork, 0))
        with stream:
            source.copy_from(target)
        fill(source.address, 7, 256, stream.handle)
        source.used_on(stream)
        lent = gpulend.borrow(source, joined)
        with joined:
            target.copy_from(lent)
        check(cu.cuEventRecord(join, joined.handle))
        check(cu.cuStreamWaitEvent(stream.handle, join, 0))
    del lent
    for _ in range(5):
        fill(target.address, 0, 256, stream.handle)
        graph.replay()
        assert target.to_host().tolist() == [0x07070707] * 64


@pytest.mark.parametrize("mode", MODES)
def test_an_event_of_unfinished_work_outside_is_refused(gpu, mode):
    """A graph cannot wait for it, and must not be captured as if it did; the capture lives."""
    stream, busy, gate = gpulend.Stream(), gpulend.Stream(), gpu.gate()
    busy.record()
    gate.hold(busy)
    event = busy.record()
    with capture(gpu, stream, mode) as graph:
        with pytest.raises(gpulend.DriverError, match="not done") as caught:
            stream.wait(event)
        assert caught.value.code == 1003
        assert graph.alive
    gate.open()


def test_an_event_of_another_capture_is_refused(gpu):
    """CUDA would invalidate both."""
    stream, other = gpulend.Stream(), gpulend.Stream()
    with capture(gpu, stream, "relaxed") as first, capture(gpu, other, "relaxed") as second:
        event = stream.record()
        with pytest.raises(gpulend.DriverError, match="two captures") as caught:
            other.wait(event)
        assert caught.value.code == 1003
        assert first.alive
        assert second.alive


@pytest.mark.parametrize("mode", MODES)
def test_memory_allocated_in_a_capture_outlives_it(gpu, mode):
    """`zeros` inside is memory of its own, good after the capture and for each replay."""
    stream = gpulend.Stream()
    with stream:
        source = gpulend.full(64, 3, "int32")
    gpulend.synchronize()
    with nothing_stays():
        with capture(gpu, stream, mode) as graph, stream:
            inside = gpulend.zeros(64, "int32")
            inside.copy_from(source)
        for number in (5, 6):
            source.copy_from(np.full(64, number, np.int32))
            gpulend.synchronize()
            graph.replay()
            assert inside.to_host().tolist() == [number] * 64
        del inside


def marked(address, stream):
    """Return a lease in use on one stream, and what is filled when it is released."""
    # A deleter may run between two bytecodes of any thread, so it takes no lock.
    gone = []
    lease = gpulend.wrap(address, 4096, "uint8", ready_on=stream, deleter=lambda *_: gone.append(1))
    lease.used_on(stream)
    return lease, gone


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_releases_that_are_due_during_a_capture(gpu, mode, blocking):
    """Memory dropped before and during a capture comes to the background thread while it lasts.

    A lease that was dropped after the others shows when that thread has seen them all.
    """
    stream, busy, gate = gpulend.Stream(blocking=blocking), gpulend.Stream(), gpu.gate()
    address = gpu.alloc(4096)
    with stream:
        here = gpulend.zeros(64, "int32")
    before, during = ([gpulend.zeros(5000, "uint8") for _ in range(20)] for _ in range(2))
    gpulend.synchronize()
    gate.hold(busy)
    for lease in before:
        lease.used_on(busy)
    del lease
    mark, gone = marked(address, busy)
    before.clear()
    del mark
    with capture(gpu, stream, mode) as graph:
        fill(here.address, 2, 256, stream.handle)
        gate.open()
        beside(gpu, lambda: until(gone, busy))
        assert graph.alive
        mark, gone = marked(address, busy)
        during.clear()
        del mark
        beside(gpu, lambda: until(gone, busy))
        assert graph.alive
    graph.replay()
    assert here.to_host().tolist() == [0x02020202] * 64


@pytest.mark.parametrize("mode", MODES)
def test_leases_dropped_by_another_thread_during_a_capture(gpu, mode):
    """Threads that know nothing of the capture drop and allocate: that must not end it."""
    stream = gpulend.Stream()
    with stream:
        here = gpulend.zeros(64, "int32")
    box = [[gpulend.zeros(3000, "uint8") for _ in range(50)]]
    gpulend.synchronize()
    with capture(gpu, stream, mode) as graph:
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join()
        gc.collect()
        fill(here.address, 4, 256, stream.handle)
        assert graph.alive
    graph.replay()
    assert here.to_host().tolist() == [0x04040404] * 64


@pytest.mark.parametrize("mode", MODES)
def test_a_view_of_cuda_core_in_a_capture(gpu, mode):
    """A framework that takes the capturing stream gets the memory on it, without an event."""
    need("cuda.core")
    stream = gpulend.Stream()
    with stream:
        here, other = gpulend.zeros(64, "int32"), gpulend.full(64, 3, "int32")
    gpulend.synchronize()
    with capture(gpu, stream, mode) as graph:
        view = here.lend("cuda.core", stream=stream)
        fill(view.ptr, 9, 256, stream.handle)
        del view
        gc.collect()
        with stream:
            here.copy_from(other)
        with pytest.raises(gpulend.DriverError, match="captur") as caught:
            here.lend("cuda.core", stream=1)
        assert caught.value.code == 1003
        del caught
    graph.replay()
    assert here.to_host().tolist() == [3] * 64
    other.copy_from(np.full(64, 4, np.int32))
    gpulend.synchronize()
    graph.replay()
    assert here.to_host().tolist() == [4] * 64


def test_after_a_capture_everything_is_ordered_again(gpu):
    """What was refused inside works as soon as the capture ended."""
    stream = gpulend.Stream()
    with stream:
        here = gpulend.zeros(64, "int32")
        source = gpulend.full(64, 8, "int32")
    gpulend.synchronize()
    with nothing_stays():
        with capture(gpu, stream, "global") as graph, stream:
            here.copy_from(source)
            with pytest.raises(gpulend.DriverError):
                here.to_host()
        graph.replay()
        assert here.to_host().tolist() == [8] * 64
        assert gpulend.borrow(here).to_host().tolist() == [8] * 64
