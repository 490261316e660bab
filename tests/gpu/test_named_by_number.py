"""Streams that are known by their number: they may be gone tomorrow, and still must be in order.

No handle is used after its stream was destroyed: the fixture destroys them when the test is over.
"""

from __future__ import annotations

import gc
import weakref
from ctypes import c_void_p

import gpulend
import pytest
from driver.cuda import check, cu
from driver.resources import LEGACY, PER_THREAD, end_capture, value
from gpulend import simulator

from .graphs import beside, capture, until
from .resources import (
    MODES,
    Opener,
    Owned,
    begin_capture,
    eventually,
    fill,
    nothing_stays,
    only_simulated,
    still_works,
    stuck,
)

SIZE = 4096
MANY = 200
FEW = 20


class Closable:
    """A stream object that owns nothing and can be closed: as good as its number."""

    def __init__(self, handle):
        self.handle_of_mine = handle

    def __cuda_stream__(self):
        return (0, self.handle_of_mine)

    def close(self):
        """Do nothing; that there is such a method is enough."""


NAMES = {"number": lambda handle: handle, "closable": Closable}


@pytest.fixture(params=NAMES)
def named(request, gpu):
    """Give the handle of a stream, and what names it to us."""
    handle = gpu.stream()
    return handle, NAMES[request.param](handle)


def read_behind(gate, lease):
    """Read a lease on a stream of ours while a gate is closed; return its bytes."""
    consumer = gpulend.Stream()
    with consumer:
        out = gpulend.empty(lease.shape, lease.dtype)
        out.copy_from(gpulend.borrow(lease, consumer))
    assert gate.closed, "the host waited"
    assert stuck(consumer), "the reader does not wait"
    gate.open()
    return set(out.to_host().tolist())


def test_a_fill_is_waited_for(gpu, named):
    """What must be waited for is the end of the fill, not the moment before it."""
    handle, name = named
    gate = gpu.gate()
    with gpulend.Stream(name):
        gpulend.full(SIZE, 1, "uint8")  # what is made at the first use waits
        gate.hold(handle)
        lease = gpulend.full(SIZE, 7, "uint8")
    assert read_behind(gate, lease) == {7}


def test_a_copy_is_waited_for(gpu, named):
    """The same for a copy between leases: its destination is ready after it."""
    handle, name = named
    gate = gpu.gate()
    lease, source = gpulend.zeros(SIZE, "uint8"), gpulend.full(SIZE, 9, "uint8")
    gpulend.synchronize()
    gate.hold(handle)
    with gpulend.Stream(name):
        lease.copy_from(source)
    assert read_behind(gate, lease) == {9}


def test_the_source_of_a_copy_is_not_overwritten(gpu, named):
    """And its source is free after it: a writer on another stream must come later."""
    handle, name = named
    gate, writer = gpu.gate(), gpulend.Stream()
    target, source = gpulend.zeros(SIZE, "uint8"), gpulend.full(SIZE, 5, "uint8")
    other = gpulend.full(SIZE, 99, "uint8")
    gpulend.synchronize()
    gate.hold(handle)
    with gpulend.Stream(name):
        target.copy_from(source)
    with writer:
        source.copy_from(other)
    assert gate.closed
    assert stuck(writer), "the writer overtakes the reader"
    gate.open()
    assert set(target.to_host().tolist()) == {5}
    assert set(source.to_host().tolist()) == {99}


def test_the_host_waits_for_a_fill(gpu, named):
    """`to_host` itself must not read before a fill that was queued by number."""
    handle, name = named
    gate = gpu.gate()
    gpulend.full(SIZE, 1, "uint8").to_host()
    gate.hold(handle)
    with gpulend.Stream(name):
        lease = gpulend.full(SIZE, 7, "uint8")
    with Opener(gate):
        found = lease.to_host()
    assert set(found.tolist()) == {7}


def hand_over(lease, way, handle):
    """Hand a lease to a stream as a consumer has it done; return what the consumer holds."""
    if way == "dlpack":
        return lease.as_cuda().__dlpack__(stream=handle, max_version=(1, 0))
    if way == "borrow":
        return gpulend.borrow(lease, handle)
    return lease.used_on(handle)


WAYS = ("dlpack", "borrow", "used_on")


@pytest.mark.parametrize("way", WAYS)
def test_what_a_consumer_writes_later_is_waited_for(gpu, way):
    """`torch.from_dlpack(lease)` names a number and writes after the hand-over, not before it."""
    handle, gate = gpu.stream(), gpu.gate()
    lease = gpulend.zeros(SIZE, "uint8")
    gpulend.synchronize()
    kept = hand_over(lease, way, handle)
    gate.hold(handle)
    fill(lease.address, 7, SIZE, handle)
    assert read_behind(gate, lease) == {7}
    del kept


@pytest.mark.parametrize("way", WAYS)
def test_the_host_waits_for_what_a_consumer_writes_later(gpu, way):
    """The same where the next reader is the host."""
    handle, gate = gpu.stream(), gpu.gate()
    lease = gpulend.zeros(SIZE, "uint8")
    lease.to_host()
    gpulend.synchronize()
    kept = hand_over(lease, way, handle)
    gate.hold(handle)
    fill(lease.address, 7, SIZE, handle)
    with Opener(gate):
        found = lease.to_host()
    assert set(found.tolist()) == {7}
    del kept


class Number:
    """What `capture` asks of a stream: a handle."""

    def __init__(self, handle):
        self.handle = handle


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_a_lease_dropped_in_a_capture_leaves_it_whole(gpu, way, mode):
    """An exit that looked at the whole device would end the capture (law 4)."""
    handle, free = gpu.stream(), gpulend.Stream()
    address, target, mark = gpu.alloc(SIZE), gpulend.zeros(SIZE, "uint8"), gpu.alloc(64)
    gone, seen = [], []
    lease = gpulend.wrap(address, SIZE, "uint8", ready_on="now", deleter=lambda *_: gone.append(1))
    # Dropped after the lease: when it is gone, the background thread has seen the lease too.
    later = gpulend.wrap(mark, 64, "uint8", ready_on="now", deleter=lambda *_: seen.append(1))
    later.used_on(free)
    gpulend.synchronize()
    with capture(gpu, Number(handle), mode) as graph:
        kept = hand_over(lease, way, handle)
        fill(target.address, 3, SIZE, handle)
        del kept, lease
        gc.collect()
        del later
        beside(gpu, lambda: until(seen, free))
        assert graph.alive, "the capture was invalidated"
    graph.replay()
    assert set(target.to_host().tolist()) == {3}
    eventually(lambda: gone == [1], "the deleter ran, once")


@only_simulated
@pytest.mark.parametrize("mode", MODES)
def test_a_release_that_looks_at_the_whole_device_spares_a_capture_that_was_seen(gpu, mode):
    """It is put off: the stream that captures cannot be asked again without its number."""
    handle, free, lost = gpu.stream(), gpulend.Stream(), value(c_void_p, cu.cuStreamCreate, 1)
    address, mark = gpu.alloc(SIZE), gpu.alloc(64)
    gone, seen = [], []
    lease = gpulend.wrap(address, SIZE, "uint8", ready_on="now", deleter=lambda *_: gone.append(1))
    # Dropped after the lease: when it is gone, the background thread has seen the lease too.
    later = gpulend.wrap(mark, 64, "uint8", ready_on="now", deleter=lambda *_: seen.append(1))
    later.used_on(free)
    lease.used_on(Owned(lost))
    gpulend.synchronize()
    check(cu.cuStreamDestroy_v2(lost))
    with capture(gpu, Number(handle), mode) as graph:
        assert gpulend.Stream(handle).capturing
        del lease
        del later
        beside(gpu, lambda: until(seen, free))
        assert graph.alive, "the capture was invalidated"
    assert not gpulend.Stream(handle).capturing
    eventually(lambda: gone == [1], "the deleter ran, once")


class Unowned:
    """A stream object as another library might have it: a number and nothing else."""

    def __init__(self, handle):
        self.number = handle

    def __cuda_stream__(self):
        return (0, self.number)


def test_a_lease_does_not_keep_every_stream_object_that_it_met(gpu):
    """A lease may live for days, and meet a stream in each request."""
    lease = gpulend.zeros(SIZE, "uint8")
    kept = []
    for _ in range(MANY):
        stream = Unowned(gpu.stream())
        kept.append(weakref.ref(stream))
        lease.used_on(stream)
    del stream
    gpulend.synchronize()
    gc.collect()
    alive = sum(met() is not None for met in kept)
    assert alive <= FEW, f"{alive} of {MANY} stream objects are kept"


@only_simulated
def test_copies_on_many_streams_leave_few_streams():
    """The driver's streams are finite, and each kept one is waited for at every hand-over."""
    lease, source = gpulend.zeros(SIZE, "uint8"), gpulend.full(SIZE, 6, "uint8")

    def streams():
        return simulator.report()["live"]["streams"]

    gpulend.synchronize()
    before = streams()
    for _ in range(MANY):
        with gpulend.Stream():
            lease.copy_from(source)
        gpulend.synchronize()
    gc.collect()
    eventually(lambda: streams() <= before + FEW, "streams of copies that are done are destroyed")
    assert set(lease.to_host().tolist()) == {6}


class Event:
    """As CuPy has events: a number called `ptr`, and no stream."""

    def __init__(self, number):
        self.ptr = number

    def record(self):
        """Be an event."""

    def synchronize(self):
        """Be an event."""


class Buffer:
    """As cuda.core has buffers and events: a number called `handle`."""

    def __init__(self, number):
        self.handle = number


class Newer:
    """The stream protocol of a version that is not written yet."""

    def __init__(self, number):
        self.number = number

    def __cuda_stream__(self):
        return (1, self.number)


USES = {
    "Stream": lambda lease, thing: gpulend.Stream(thing),
    "used_on": lambda lease, thing: lease.used_on(thing),
    "borrow": lambda lease, thing: gpulend.borrow(lease, thing),
    "pointer": lambda lease, thing: lease.pointer(thing).__enter__(),
    "ready_on": lambda lease, thing: gpulend.wrap(
        lease.address, SIZE, "uint8", owner=lease, ready_on=thing
    ),
    "dlpack": lambda lease, thing: lease.as_cuda().__dlpack__(stream=thing),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", [Event, Buffer, Newer])
def test_a_number_that_is_no_stream_s_is_refused(gpu, kind, use):
    """The handle of an event, given to the driver as a stream, crashes the process."""
    number = {Event: gpu.event, Buffer: lambda: gpu.alloc(64), Newer: gpu.stream}[kind]()
    with nothing_stays():
        lease = gpulend.zeros(SIZE, "uint8")
        with pytest.raises(gpulend.ProtocolError):
            USES[use](lease, kind(number))
        del lease
    still_works()


def raise_inside(lease, stream, action):
    """Do something in a pointer's block, then raise there."""
    with lease.pointer(stream):
        action()
        raise KeyError("mine")


def test_an_exception_in_a_pointer_s_block_is_not_replaced(gpu):
    """What the block raised is the news, also where the block's end fails as well."""
    lease, stream = gpulend.zeros(SIZE, "uint8"), gpulend.Stream(blocking=True)
    gpulend.synchronize()
    with pytest.raises(KeyError, match="mine"):
        raise_inside(lease, PER_THREAD, lambda: None)
    try:
        with pytest.raises(KeyError, match="mine"):
            # While it captures, the legacy stream is forbidden.
            raise_inside(lease, LEGACY, lambda: begin_capture(stream.handle, "global"))
    finally:
        code, graph = end_capture(stream.handle)
    assert code == 0, "the capture was invalidated"
    check(cu.cuGraphDestroy(graph))
    assert set(lease.to_host().tolist()) == {0}


@only_simulated
def test_an_exception_is_not_replaced_where_the_stream_is_gone(gpu):
    """The block itself may destroy the stream; a real driver must not be asked about it."""
    lease, handle = gpulend.zeros(SIZE, "uint8"), value(c_void_p, cu.cuStreamCreate, 1)
    gpulend.synchronize()
    with pytest.raises(KeyError, match="mine"):
        raise_inside(lease, handle, lambda: check(cu.cuStreamDestroy_v2(handle)))
    still_works()
