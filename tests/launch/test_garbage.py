"""Garbage is not release: a queued kernel keeps the owners of its arrays from the collector."""

from __future__ import annotations

import gc
import threading

import gpulend
import pytest
from driver.resources import PER_THREAD
from gpu.cycles import COUNT, FIRST, Owner, Ring
from gpu.resources import REAL, eventually, nothing_stays, pool_of, python

from .arrays import compiled

SOURCE = """
extern "C" __global__ void plus(const int *from, int *to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + 1;
}
extern "C" __global__ void more(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}
"""
CHOOSE = "" if REAL else "gpulend.simulate()"
BLOCKS = COUNT // 256


def kernel(name):
    """Return a kernel that is loaded: loading may wait for the GPU."""
    made = compiled(SOURCE)[name]
    made.attributes
    return made


WAYS = {
    "brackets": lambda go, stream, *said: go[BLOCKS, 256](*said, stream=stream),
    "launch": lambda go, stream, *said: go.launch(BLOCKS, 256, said, stream=stream),
    "forall": lambda go, stream, *said: go.forall(COUNT)(*said, stream=stream),
    "unchecked": lambda go, stream, *said: go[BLOCKS, 256](*said, stream=stream, check=False),
}


def inside(go, stream, *said):
    """Launch on the current stream: the quickest way."""
    with stream if isinstance(stream, gpulend.Stream) else gpulend.Stream(stream):
        go[BLOCKS, 256](*said)


WAYS["with"] = inside
STREAMS = {
    "own": lambda gpu: gpulend.Stream(),
    "by number": lambda gpu: gpu.stream(),
    "per-thread": lambda gpu: PER_THREAD,
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", ["input", "output"])
def test_a_launch_keeps_a_cycle_until_the_kernel_is_done(gpu, part, way, kind):
    """As an input and as an output, by every way of launching."""
    go, pool = kernel("plus"), pool_of()
    other = gpulend.full(COUNT, 70, "int32")
    gpulend.synchronize()
    with nothing_stays():
        ring = Ring(pool)
        gate, stream = gpu.gate(), STREAMS[kind](gpu)
        gate.hold(stream)
        arrays = (ring.lease, other) if part == "input" else (other, ring.lease)
        WAYS[way](go, stream, *arrays, COUNT)
        del arrays
        ring.drop()
        ring.stays(gpu)
        assert gate.closed
        gate.open()
        ring.goes()
    assert set(other.to_host().tolist()) == {FIRST + 1 if part == "input" else 70}


def test_a_launch_after_a_collection_keeps_the_cycle_again(gpu):
    """The collector found the first kernel done; the second is new."""
    go = kernel("more")[BLOCKS, 256]
    with nothing_stays():
        ring = Ring(pool_of())
        stream = gpulend.Stream()
        for _ in range(3):
            go(ring.lease, COUNT, stream=stream)
            stream.synchronize()
            gpulend.synchronize()
            gc.collect()
        gate = gpu.gate()
        with stream:
            # The same stream, so that nothing has to be waited for: the quickest launch.
            go(ring.lease, COUNT)
            stream.synchronize()
            gc.collect()
            gate.hold(stream)
            go(ring.lease, COUNT)
        ring.drop()
        ring.stays(gpu)
        gate.open()
        ring.goes()


def test_a_slice_that_was_launched_keeps_the_cycle_of_its_lease(gpu):
    """The argument was a part, which is gone when the collector looks."""
    go = kernel("more")[BLOCKS, 256]
    with nothing_stays():
        ring = Ring(pool_of())
        gate, stream = gpu.gate(), gpulend.Stream()
        gate.hold(stream)
        go(ring.lease[16:], COUNT - 16, stream=stream)
        ring.drop()
        ring.stays(gpu)
        gate.open()
        ring.goes()


def test_collections_beside_a_thread_that_launches(gpu):
    """At any moment of a launch the collector may look at its arguments."""
    go, stop, turns = kernel("more")[BLOCKS, 256], threading.Event(), 400 if REAL else 40
    gone, made, failures = [], gpulend.Stream(), []

    def collect():
        while not stop.is_set():
            gc.collect(0)
            gc.collect(1)

    def launch():
        try:
            stream = gpulend.Stream()
            for _ in range(turns):
                owner = Owner(gone, made)
                owner.lease = owner.wrapped()
                with stream:
                    go(owner.lease, COUNT)
                    go(owner.lease, COUNT)
                seen = gpulend.empty(COUNT, "int32")
                seen.copy_from(owner.lease)
                del owner
                if set(seen.to_host().tolist()) != {FIRST + 2}:
                    failures.append("the memory changed under its reader")
        except BaseException as error:
            failures.append(error)

    with nothing_stays():
        threads = [threading.Thread(target=collect)]
        threads += [threading.Thread(target=launch) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads[1:]:
            thread.join()
        stop.set()
        threads[0].join()

        def ended():
            gc.collect()
            return len(gone) == 2 * turns

        eventually(ended, "all owners are gone, once each")
    assert failures == []


@pytest.mark.parametrize(
    "collect", ["", "gc.collect()", "threading.Thread(target=gc.collect).start()"]
)
def test_a_cycle_at_exit_with_a_kernel_under_way(collect):
    """The process ends first: no crash, and no owner before its kernel."""
    printed = python(
        f"""
        import gc, threading
        import gpulend
        {CHOOSE}
        go = gpulend.compile({SOURCE!r})["more"]
        stream = gpulend.Stream()
        class Owner:
            def __init__(self):
                self.base = gpulend.zeros({COUNT}, "int32")
                gpulend.synchronize()
                lease = gpulend.wrap(
                    self.base.address, {COUNT}, "int32", owner=self, ready_on="now"
                )
                go[{BLOCKS}, 256](lease, {COUNT}, stream=stream)
                self.lease = lease
            def __del__(self):
                print("finalised", stream.done)
        for _ in range(3):
            Owner()
        {collect}
        print("ends")
        """
    )
    assert "ends" in printed.splitlines()
    assert "finalised False" not in printed
