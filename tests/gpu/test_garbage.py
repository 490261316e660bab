"""Garbage is not release: the collector finalises an owner only after the work on its memory.

A lease and its owner hold each other, and nobody else holds them. Work on the memory waits behind
a gate. The collector runs, and must find nothing; when the gate is open it must find both.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref

import gpulend
import pytest
from driver.resources import LEGACY, PER_THREAD

from .cycles import COUNT, FIRST, NBYTES, Owner, Ring
from .resources import (
    REAL,
    at_rest,
    bytes_at,
    copy,
    eventually,
    nothing_stays,
    only_simulated,
    pool_of,
    python,
    used_by,
    waiting,
)

CHOOSE = "" if REAL else "gpulend.simulate()"


@pytest.fixture
def ring():
    """Give a cycle that nobody has worked on."""
    return Ring(pool_of())


def read_behind(gpu, gate, address, stream):
    """Queue a read of the memory behind a gate; return what gives the bytes, when it is done."""
    target = gpu.pinned(NBYTES)  # before the gate: allocating may wait for the GPU
    gate.hold(stream)
    copy(target, address, NBYTES, stream)

    def result():
        return set(bytes_at(target, NBYTES).view("int32").tolist())

    return result


def test_an_idle_cycle_is_collected(gpu, ring):
    """Nothing works on the memory: the first collection that looks ends it."""
    with nothing_stays():
        ring.drop()
        ring.goes()


def _used_on(lease, stream, gpu):
    lease.used_on(stream)


def _pointer(lease, stream, gpu):
    with lease.pointer(stream):
        pass


def _borrowed(lease, stream, gpu):
    gpulend.borrow(lease, stream)


def _capsule(lease, stream, gpu):
    lease.__dlpack__(stream=gpulend.Stream(stream).handle, dl_device=(2, 0))


def _written(lease, stream, gpu):
    with gpulend.Stream(stream):
        lease.copy_from(gpulend.full(COUNT, FIRST, "int32"))


def _read(lease, stream, gpu):
    with gpulend.Stream(stream):
        gpulend.empty(COUNT, "int32").copy_from(lease)


def _part(lease, stream, gpu):
    lease[1:].used_on(stream)


def _shown(lease, stream, gpu):
    assert lease.as_cuda().__cuda_array_interface__["data"][0] == lease.address


def _unknown(lease, stream, gpu):
    lease.__dlpack__(stream=-1, dl_device=(2, 0))


WAYS = {
    "used_on": _used_on,
    "pointer": _pointer,
    "borrow": _borrowed,
    "dlpack": _capsule,
    "copy_from": _written,
    "copy_to": _read,
    "slice": _part,
    "array interface": _shown,
    "dlpack without a stream": _unknown,
}
STREAMS = {
    "own": lambda gpu: gpulend.Stream(),
    "by number": lambda gpu: gpu.stream(),
    "per-thread": lambda gpu: PER_THREAD,
    "legacy": lambda gpu: LEGACY,
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("way", WAYS)
def test_a_cycle_is_kept_until_the_work_on_its_memory_is_done(gpu, ring, way, kind):
    """However the work was noted, and on whichever stream it waits."""
    with nothing_stays():
        gate, stream = gpu.gate(), STREAMS[kind](gpu)
        handle = gpulend.Stream(stream).handle
        seen = read_behind(gpu, gate, ring.address, handle)
        WAYS[way](ring.lease, stream, gpu)
        ring.drop()
        ring.stays(gpu)
        assert gate.closed
        assert waiting(handle)
        gate.open()
        ring.goes()
        assert seen() == {FIRST}
        del stream


@pytest.mark.parametrize("way", ["capsule", "pointer", "borrow"])
def test_a_cycle_is_kept_while_it_is_lent(gpu, ring, way):
    """An open export is a consumer, whose work nobody knows yet."""
    with nothing_stays():
        gate, stream = gpu.gate(), gpulend.Stream()
        if way == "capsule":
            lent = ring.lease.__dlpack__(stream=stream.handle, dl_device=(2, 0))
        elif way == "pointer":
            lent = ring.lease.pointer(stream)
            lent.__enter__()
        else:
            lent = gpulend.borrow(ring.lease, stream)
        ring.drop()
        ring.stays(gpu, stream)
        # The work is queued before the export ends, and may run long after it.
        seen = read_behind(gpu, gate, ring.address, stream.handle)
        if way == "pointer":
            lent.__exit__(None, None, None)
        del lent
        ring.stays(gpu)
        gate.open()
        ring.goes()
        assert seen() == {FIRST}


@pytest.mark.parametrize("dropped", ["here", "elsewhere"])
def test_a_lent_view_keeps_a_cycle_whoever_drops_it(gpu, ring, dropped):
    """The last hold goes on another thread, which has no say in what the collector does."""
    with nothing_stays():
        gate, stream = gpu.gate(), gpulend.Stream()
        views = [ring.lease.__dlpack__(stream=stream.handle, dl_device=(2, 0)) for _ in range(3)]
        ring.drop()
        ring.stays(gpu, stream)
        gate.hold(stream)
        if dropped == "here":
            views.clear()
        else:
            thread = threading.Thread(target=views.clear)
            thread.start()
            thread.join()
        ring.stays(gpu)
        gate.open()
        ring.goes()


@only_simulated
def test_a_numpy_view_keeps_a_cycle(gpu, ring):
    """Simulated memory is lent to NumPy, and what NumPy holds is neither garbage nor free."""
    with nothing_stays():
        gpu.gate()  # what `reap` needs
        view = ring.lease.lend("numpy")
        part = view[7:]
        ring.drop()
        del view
        ring.stays(gpu)
        assert set(part.tolist()) == {FIRST}
        del part
        ring.goes()


@pytest.mark.parametrize("again", ["used_on", "pointer", "by number", "array interface"])
def test_work_after_a_collection_counts_as_the_first_did(gpu, ring, again):
    """A collection found the memory idle, and somebody worked on it again."""
    with nothing_stays():
        stream = gpulend.Stream()
        ring.lease.used_on(stream)
        stream.synchronize()
        gpulend.synchronize()
        gc.collect()
        for _ in range(3):
            gate = gpu.gate()
            gate.hold(stream)
            if again == "by number":
                ring.lease.used_on(stream.handle)
            else:
                WAYS[again](ring.lease, stream, gpu)
            for _ in range(3):
                gc.collect()
                gpu.reap(ring.stream)
            assert ring.gone == []
            gate.open()
            stream.synchronize()
        gate = gpu.gate()
        gate.hold(stream)
        WAYS["used_on" if again == "by number" else again](ring.lease, stream, gpu)
        ring.drop()
        ring.stays(gpu)
        gate.open()
        ring.goes()


def test_each_stream_is_waited_for_and_not_the_last_alone(gpu, ring):
    """The first one named is the last one done."""
    with nothing_stays():
        gates = [gpu.gate() for _ in range(6)]
        streams = [gpulend.Stream() for _ in gates]
        for number, (gate, stream) in enumerate(zip(gates, streams, strict=True)):
            gate.hold(stream)
            ring.lease.used_on(stream if number % 2 else stream.handle)
        ring.drop()
        for gate in reversed(gates):
            ring.stays(gpu)
            gate.open()
        ring.goes()


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("generation", [0, 1, 2])
def test_no_generation_of_the_collector_comes_too_early(gpu, ring, generation, freeze):
    """Young or old, and frozen, which makes garbage stay."""
    gate, stream = gpu.gate(), gpulend.Stream()
    gate.hold(stream)
    ring.lease.used_on(stream)
    for _ in range(generation):
        gc.collect(generation)
    if freeze:
        gc.freeze()
    try:
        ring.drop()
        for _ in range(5):
            gc.collect(generation)
            gpu.reap(ring.stream)
        assert ring.gone == []
        gate.open()
        stream.synchronize()
        if freeze:
            for _ in range(3):
                gc.collect()
            assert ring.gone == [], "what is frozen is not looked at"
    finally:
        if freeze:
            gc.unfreeze()
    ring.goes()
    if freeze:
        gc.freeze()  # as it was found


@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("way", ["used_on", "dlpack", "borrow", "array interface"])
def test_a_stream_is_asked_anew_by_each_collection(gpu, way, cyclic, collected):
    """A collection finds the stream idle; then its user queues more, and drops the memory.

    A lease that dies by itself waits for all that is queued on its streams then. One that the
    collector ends waits for as much.
    """
    with nothing_stays():
        gone, made = [], gpulend.Stream()
        gate, stream = gpu.gate(), gpulend.Stream()
        owner = Owner(gone, made)
        lease = owner.wrapped()
        if cyclic:
            owner.lease = lease
        WAYS[way](lease, stream, gpu)
        del owner
        gpulend.synchronize()
        if collected:
            for _ in range(3):
                gc.collect()
                gpu.reap(made, stream)
        seen = read_behind(gpu, gate, lease.address, stream.handle)
        del lease
        for _ in range(4):
            gc.collect()
            gpu.reap(made)
        assert gone == [], "the owner was finalised under work on its memory"
        assert gate.closed
        gate.open()

        def ended():
            gc.collect()
            return bool(gone)

        eventually(ended, "the owner is gone")
        assert seen() == {FIRST}


def test_a_cycle_through_a_slice_ends_by_release_alone(gpu):
    """The collector does not see through a slice; `release` ends the cycle, and waits as ever."""
    with nothing_stays():
        ring = Ring(pool_of(), lambda lease: lease[1:])
        gate, stream = gpu.gate(), gpulend.Stream()
        gate.hold(stream)
        part = ring.lease
        part.used_on(stream)
        ring.drop()
        ring.stays(gpu)
        part.release()
        del part
        ring.stays(gpu)
        gate.open()
        ring.goes()


def test_a_cycle_through_an_export_ends_when_that_is_taken_out(gpu, ring):
    """The owner keeps a capsule of its own memory."""
    with nothing_stays():
        gate, stream = gpu.gate(), gpulend.Stream()
        box = [ring.lease.__dlpack__(stream=stream.handle, dl_device=(2, 0))]
        ring.keep(box)
        gate.hold(stream)
        ring.drop()
        ring.stays(gpu)
        box.clear()
        ring.stays(gpu)
        gate.open()
        ring.goes()


def test_two_owners_in_one_cycle_wait_for_each_other(gpu):
    """One of them is idle; the other's work keeps what it reaches."""
    with nothing_stays():
        gone, made = [], gpulend.Stream()
        first, second = Owner(gone, made), Owner(gone, made)
        addresses = {first.base.address, second.base.address}
        first.lease, second.lease = second.wrapped(), first.wrapped()
        gate, stream = gpu.gate(), gpulend.Stream()
        gate.hold(stream)
        first.lease.used_on(stream)
        del first, second
        for _ in range(4):
            gc.collect()
            gpu.reap(made)
        assert gone == [], "what a lease in use reaches is not garbage"
        gate.open()

        def collected():
            gc.collect()
            return len(gone) == 2

        eventually(collected, "both are gone")
        gc.collect()
        assert set(gone) == addresses
        assert len(gone) == 2


def test_weak_references_are_cleared_with_the_owner_and_not_before(gpu, ring):
    """Their callbacks are how libraries free: `weakref.finalize` is one."""
    with nothing_stays():
        gate, stream, called = gpu.gate(), gpulend.Stream(), []
        reference = weakref.ref(ring._owner, lambda _: called.append("reference"))
        weakref.finalize(ring._owner, called.append, "finalize")
        gate.hold(stream)
        ring.lease.used_on(stream)
        ring.drop()
        ring.stays(gpu)
        assert reference() is not None
        assert called == []
        gate.open()
        ring.goes()
        assert sorted(called) == ["finalize", "reference"]


def test_an_owner_that_comes_back_from_its_finaliser_has_a_lease_that_works(gpu):
    """Python lets `__del__` put its object somewhere; nothing of it may have been taken apart."""
    saved = []

    class Phoenix(Owner):
        def __del__(self):
            self.gone.append(self.base.address)
            saved.append(self)

    with nothing_stays():
        gone, made = [], gpulend.Stream()
        owner = Phoenix(gone, made)
        owner.lease = owner.wrapped()
        del owner

        def collected():
            gc.collect()
            return bool(gone)

        eventually(collected, "the owner was finalised")
        owner = saved.pop()
        assert set(owner.lease.to_host().tolist()) == {FIRST}
        gate, stream = gpu.gate(), gpulend.Stream()
        gate.hold(stream)
        owner.lease.used_on(stream)
        alive = weakref.ref(owner)
        del owner
        for _ in range(4):
            gc.collect()
            gpu.reap(made)
        assert alive() is not None
        gate.open()

        def ended():
            gc.collect()
            return alive() is None

        eventually(ended, "it is gone for good")
        assert len(gone) == 1, "Python calls a finaliser once"


def test_a_finaliser_that_queues_work_is_waited_for(gpu):
    """`__del__` uses the lease on a stream that is held back: the memory outlives that work."""

    class Last(Owner):
        def __del__(self):
            self.lease.used_on(self.kept)
            self.gone.append(self.base.address)

    with nothing_stays():
        gone, made, stream, gate = [], gpulend.Stream(), gpulend.Stream(), gpu.gate()
        pool = pool_of()
        owner = Last(gone, made)
        owner.lease, owner.kept = owner.wrapped(), stream
        held = at_rest(pool)
        seen = read_behind(gpu, gate, owner.base.address, stream.handle)
        del owner
        for _ in range(4):
            gc.collect()
            gpu.reap(made)
        assert len(gone) == 1, "an idle cycle was not collected"
        assert used_by(pool) >= held, "the memory was freed under its reader"
        assert gate.closed
        gate.open()
        stream.synchronize()
        assert seen() == {FIRST}

        def ended():
            gc.collect()
            return used_by(pool) < held

        # The collector hears of the end of the work from the background thread.
        eventually(ended, "a later collection takes it")
    assert len(gone) == 1


def test_collections_beside_a_thread_that_names_streams(gpu):
    """Cycle after cycle is made and used here, and collected there, at any moment."""
    stop, failures = threading.Event(), []
    turns = 300 if REAL else 60

    def collect():
        while not stop.is_set():
            gc.collect(0)
            time.sleep(0)

    with nothing_stays():
        gone, made = [], gpulend.Stream()
        streams = [gpulend.Stream() for _ in range(3)]
        collector = threading.Thread(target=collect)
        collector.start()
        try:
            for turn in range(turns):
                gate = gpu.gate() if turn % 20 == 0 else None
                owner = Owner(gone, made)
                owner.lease = owner.wrapped()
                if gate:
                    gate.hold(streams[0])
                for stream in streams:
                    owner.lease.used_on(stream)
                before, address = len(gone), owner.base.address
                del owner
                if gate:
                    for _ in range(3):
                        gc.collect()
                        gpu.reap(made)
                    if address in gone[before:]:
                        failures.append(turn)
                    gate.open()
        finally:
            stop.set()
            collector.join()

        def all_gone():
            gc.collect()
            return len(gone) == turns

        eventually(all_gone, f"{turns} owners are gone")
    assert failures == []


@pytest.mark.parametrize("collect", ["", "gc.collect()", "gc.collect(); gc.disable()"])
def test_a_cycle_at_exit_with_work_under_way(collect):
    """The process ends with the work not done: no crash, and no owner before its work."""
    printed = python(
        f"""
        import ctypes, gc, gpulend
        {CHOOSE}
        stream = gpulend.Stream()
        class Owner:
            def __init__(self):
                self.base = gpulend.zeros(1 << 16, "uint8")
                self.ones = gpulend.full(1 << 16, 1, "uint8")
                gpulend.synchronize()
                lease = gpulend.wrap(
                    self.base.address, 1 << 16, "uint8", owner=self, ready_on="now"
                )
                with stream:
                    lease.copy_from(self.ones)
                self.lease = lease
            def __del__(self):
                print("finalised", stream.done)
        for _ in range(3):
            Owner()
        {collect}
        print("ends")
        """
    )
    lines = printed.splitlines()
    assert lines[0] == "ends" or "finalised True" in lines
    assert "finalised False" not in lines
