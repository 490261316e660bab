"""Streams, events and leases die in every order, and each keeps what it still needs."""

from __future__ import annotations

import gc
import itertools
from ctypes import c_void_p

import gpulend
import pytest
from driver.cuda import check, cu
from driver.lab import value
from gpulend import simulator

from .ground import (
    eventually,
    need,
    nothing_stays,
    only_simulated,
    still_works,
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
