"""Order: who is waited for, by event and on which stream; how long owners are held.

Producers are held back by a gate; the launch is queued with the gate closed; then it opens, and
not one number may be old. The simulated GPU runs what is queued as late as it may.
"""

from __future__ import annotations

import gc
import time
import weakref
from ctypes import c_int, c_void_p

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import LEGACY, PER_THREAD, current, value
from gpu.graphs import capture
from gpu.resources import (
    MODES,
    SIMULATED,
    Owned,
    copy,
    eventually,
    fill,
    need,
    nothing_stays,
    only_real,
    only_simulated,
    stuck,
    waiting,
)
from gpulend import simulator

from .arrays import compiled, right_launch
from .gated import SIZE, SOURCE, STALE, held_back, ints, kernel, only

STREAMS = {
    "legacy": lambda: gpulend.Stream(LEGACY),
    "per-thread": lambda: gpulend.Stream(PER_THREAD),
    "own": gpulend.Stream,
    "blocking": lambda: gpulend.Stream(blocking=True),
}


@pytest.mark.parametrize("how", ["with", "stream", "handle"])
@pytest.mark.parametrize("kind", STREAMS)
def test_a_producer_on_another_stream_is_waited_for(gpu, kind, how):
    """By the launch stream and not by the host, however that stream is named."""
    go, gate, stream = kernel("plus"), gpu.gate(), STREAMS[kind]()
    with stream:
        out = ints(STALE)  # first: memory that the producer gave back would bring its order along
    lease = held_back(gate, gpulend.Stream(), 5)
    if how == "with":
        with stream:
            go(lease, out, 1)
    else:
        go(lease, out, 1, stream=stream if how == "stream" else stream.handle)
    assert gate.closed, "the host waited"
    assert stuck(stream), "the launch does not wait for the producer"
    assert current() == gpu.context
    gate.open()
    assert only(out) == 6


def test_two_producers_are_waited_for(gpu):
    """The second one opens last, and first."""
    go = kernel("both")
    for order in ((0, 1), (1, 0)):
        gates = [gpu.gate(), gpu.gate()]
        stream = gpulend.Stream()
        with stream:
            out = ints(0)
        a, b = (held_back(gate, gpulend.Stream(), 7 + k) for k, gate in enumerate(gates))
        with stream:
            go(a, b, out)
        gates[order[0]].open()
        assert stuck(stream), "one producer is still held"
        assert gates[order[1]].closed
        gates[order[1]].open()
        assert only(out) == 7008


def test_the_output_s_last_reader_is_waited_for(gpu):
    """Work that was named by `used_on` reads the output before the kernel writes it."""
    go, gate, reader, writer = kernel("plus"), gpu.gate(), gpulend.Stream(), gpulend.Stream()
    source, out = ints(1), ints(3)
    gpulend.synchronize()
    seen = gpu.pinned(4 * SIZE)
    gate.hold(reader)
    copy(seen, out.address, 4 * SIZE, reader.handle)
    out.used_on(reader)
    go(source, out, 1, stream=writer)
    assert gate.closed
    assert stuck(writer), "the kernel would overwrite what is still to be read"
    gate.open()
    assert only(out) == 2
    reader.synchronize()
    assert set((c_int * SIZE).from_address(seen)) == {3}


def test_a_reader_that_writes_next_is_waited_for_as_a_writer(gpu):
    """On the one stream that the memory knows: the first launch only read, the second is new."""
    go, gate, first, third = kernel("plus"), gpu.gate(), gpulend.Stream(), gpulend.Stream()
    with first:
        source, out = ints(4), ints(0)
        first.synchronize()
        # Ready, and nobody's work known.
        bare = gpulend.wrap(out.address, shape=SIZE, dtype="int32", owner=out, ready_on="now")
    with third:
        seen = ints(STALE)
    gpulend.synchronize()
    go(bare, source, 0, stream=first)
    first.synchronize()
    gate.hold(first)
    go(source, bare, 5, stream=first)
    go(bare, seen, 0, stream=third)
    assert gate.closed
    assert stuck(third), "the second launch was not noted as one that writes"
    gate.open()
    assert only(seen) == 5


def test_used_on_names_a_producer_too(gpu):
    """A library of the user's wrote on a stream that only `used_on` names."""
    go, gate, theirs = kernel("plus"), gpu.gate(), gpulend.Stream()
    lease, out = ints(STALE), ints(0)
    gpulend.synchronize()
    gate.hold(theirs)
    fill(lease.address, 1, 4 * SIZE, theirs.handle)
    lease.used_on(theirs)
    stream = gpulend.Stream()
    go(lease, out, 0, stream=stream)
    assert gate.closed
    gate.open()
    assert only(out) == 0x01010101


def test_who_comes_after_the_launch_waits_for_it(gpu):
    """A copy on a third stream sees what the kernel wrote."""
    go, gate, stream, third = kernel("plus"), gpu.gate(), gpulend.Stream(), gpulend.Stream()
    source, out = ints(4), ints(STALE)
    with third:
        seen = ints(STALE)
    gpulend.synchronize()
    gate.hold(stream)
    go(source, out, 1, stream=stream)
    with third:
        seen.copy_from(out)
    assert gate.closed
    assert stuck(third)
    gate.open()
    assert only(seen) == 5


def test_who_overwrites_an_input_waits_for_the_launch(gpu):
    """The kernel reads later: until then its input stays."""
    go, gate, stream, writer = kernel("plus"), gpu.gate(), gpulend.Stream(), gpulend.Stream()
    source, out, other = ints(4), ints(STALE), ints(50)
    gpulend.synchronize()
    gate.hold(stream)
    go(source, out, 1, stream=stream)
    with writer:
        source.copy_from(other)
    assert gate.closed
    assert stuck(writer)
    gate.open()
    assert only(out) == 5
    assert only(source) == 50


def test_launches_on_two_streams_are_in_the_order_of_their_calls(gpu):
    """A chain that goes to and fro."""
    go, streams = kernel("plus"), [gpulend.Stream(), gpulend.Stream()]
    a, b = ints(0), ints(0)
    for step in range(40):
        go(a, b, 1, stream=streams[step % 2])
        a, b = b, a
    assert only(a) == 40


@pytest.mark.parametrize("which", ["input", "output"])
def test_owners_are_held_until_the_kernel_is_done(gpu, which):
    """Dropped right after the launch: its deleter runs after the kernel, once."""
    go, gate, stream, gone = kernel("plus"), gpu.gate(), gpulend.Stream(), []
    address = gpu.alloc(4 * SIZE)
    fill(address, 1, 4 * SIZE, LEGACY)
    other = ints(7)
    gpulend.synchronize()
    lease = gpulend.wrap(address, SIZE, "int32", ready_on="now", deleter=lambda *_: gone.append(1))
    gate.hold(stream)
    go(*((lease, other) if which == "input" else (other, lease)), 1, stream=stream)
    del lease
    gc.collect()
    gpu.reap(LEGACY)
    assert gone == [], "the owner was released under the kernel"
    assert gate.closed
    gate.open()
    stream.synchronize()
    eventually(lambda: gone == [1], "the owner was released after the kernel")


@only_simulated
@pytest.mark.parametrize("which", [1, 2])
def test_a_launch_that_cannot_be_noted_is_over_when_the_call_returns(gpu, which):
    """Of either array: nobody could wait for it later, and the memory must not go before."""
    go, stream = kernel("plus"), gpulend.Stream(PER_THREAD)
    with stream:
        source, out = ints(1), ints(0)
        gpulend.synchronize()
        go(source, out, 1)
        assert not stream.done
        with simulator.faults(f"cuEventRecord#{which}=OUT_OF_MEMORY"):
            go(source, out, 2)
        assert stream.done
    assert only(out) == 3


def test_an_owner_is_an_object_that_lives_as_long(gpu):
    """The same by a weak reference to what `owner=` names."""

    class Owner:
        pass

    go, gate, stream, owner = kernel("plus"), gpu.gate(), gpulend.Stream(), Owner()
    memory, out = ints(3), ints(0)
    gpulend.synchronize()
    lease = gpulend.wrap(memory.address, SIZE, "int32", owner=owner, ready_on="now")
    alive = weakref.ref(owner)
    gate.hold(stream)
    go(lease, out, 1, stream=stream)
    del lease, owner
    gc.collect()
    gpu.reap(LEGACY)
    assert alive() is not None
    gate.open()
    assert only(out) == 4
    eventually(lambda: alive() is None, "the owner is gone")


def test_memory_that_is_dropped_after_the_launch_is_not_given_to_others(gpu):
    """The next allocations of the same size are filled at once, on another stream."""
    go, gate, stream, busy = kernel("plus"), gpu.gate(), gpulend.Stream(), gpulend.Stream()
    with nothing_stays():
        out = ints(0)
        source = ints(11)
        gpulend.synchronize()
        gate.hold(stream)
        go(source, out, 1, stream=stream)
        del source
        with busy:
            others = [ints(STALE) for _ in range(20)]
        busy.synchronize()
        assert gate.closed
        gate.open()
        assert only(out) == 12
        del out, others


def test_a_buffer_of_another_library_is_held(gpu):
    """Numba's array is its memory's only owner; it is dropped in the call itself."""
    cuda = need("numba.cuda")
    go, gate, stream = kernel("plus"), gpu.gate(), gpulend.Stream()
    out = ints(0)
    array = cuda.to_device(np.full(SIZE, 21, np.int32))
    cuda.synchronize()
    gate.hold(stream)
    go(array, out, 1, stream=stream)
    del array
    gc.collect()
    assert gate.closed, "the host waited"
    gate.open()
    assert only(out) == 22


@only_simulated
def test_a_stand_in_waits_for_what_it_needs(gpu):
    """A late producer on another stream: the tensor is right when the call returns."""
    torch, go, stream = need("torch"), kernel("plus"), gpulend.Stream()
    with stream:
        lease = ints(STALE)
        lease.copy_from(ints(8))
    out = torch.zeros(SIZE, dtype=torch.int32)
    go(lease, out, 1)
    assert out.tolist() == [9] * SIZE


@pytest.mark.parametrize("mode", MODES)
def test_a_launch_in_a_capture_becomes_a_node(gpu, mode):
    """Nothing of it harms the capture, and each replay works on what is there then."""
    go, stream = kernel("plus"), gpulend.Stream()
    with stream:
        source, middle, out = ints(0), ints(0), ints(0)
    gpulend.synchronize()
    with capture(gpu, stream, mode) as graph, stream:
        go(source, middle, 1)
        go(middle, out, 10, stream=stream)
        assert graph.alive
    assert only(out) == 0, "a captured launch does not run"
    for number in (5, 6, 7):
        source.copy_from(np.full(SIZE, number, np.int32))
        gpulend.synchronize()
        graph.replay()
        assert only(out) == number + 11
    right_launch()


@pytest.mark.parametrize("mode", MODES)
def test_what_cannot_be_captured_is_refused_and_the_capture_lives(gpu, mode):
    """A wrong argument, and an array that a CPU framework holds: somebody would have to wait."""
    go, stream = kernel("plus"), gpulend.Stream()
    with stream:
        source, out = ints(1), ints(0)
    gpulend.synchronize()
    with capture(gpu, stream, mode) as graph, stream:
        with pytest.raises(gpulend.SignatureError):
            go(source, out, 1.5)
        assert graph.alive
        if SIMULATED:
            torch = need("torch")
            tensor = torch.zeros(SIZE, dtype=torch.int32)
            with pytest.raises(gpulend.Error, match="captur"):
                go(source, tensor, 1)
            assert graph.alive
        go(source, out, 1)
    graph.replay()
    assert only(out) == 2


HELD = {
    "tensor": lambda torch, _lease: torch.zeros(SIZE, dtype=torch.int32),
    "lease that is lent": lambda _torch, lease: lease,
}


@only_simulated
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("mode", MODES)
def test_a_launch_that_is_refused_in_a_capture_is_no_part_of_it(gpu, mode, held):
    """Memory that the host works on: it stays as it is when the graph is replayed."""
    torch, go, stream = need("torch"), kernel("plus"), gpulend.Stream()
    with stream:
        source, out, lent = ints(1), ints(0), ints(0)
    gpulend.synchronize()
    tensor = torch.from_dlpack(lent)
    argument = HELD[held](torch, lent)
    with capture(gpu, stream, mode) as graph, stream:
        with pytest.raises(gpulend.KernelError, match="captur"):
            go(source, argument, 1)
        assert graph.alive
        go(source, out, 1)
    graph.replay()
    assert only(out) == 2
    assert not tensor.any()
    assert held != "tensor" or not argument.any()
    del tensor, argument


@pytest.mark.parametrize("mode", MODES)
def test_a_launch_on_the_legacy_stream_spoils_no_blocking_capture(gpu, mode):
    """It is refused while a stream that blocks on the legacy one captures."""
    go, stream = kernel("plus"), gpulend.Stream(blocking=True)
    source, out = ints(1), ints(0)
    go(source, out, 1)
    gpulend.synchronize()
    with capture(gpu, stream, mode) as graph:
        with pytest.raises(gpulend.DriverError, match="legacy") as caught:
            go(source, out, 2)
        assert caught.value.code == 1003
        assert graph.alive
    assert only(out) == 2


@only_simulated  # the stream goes under its owner, which a real driver does not survive
@pytest.mark.parametrize("mode", MODES)
def test_a_launch_makes_the_capture_of_a_foreign_stream_known(gpu, mode):
    """Nobody else asks whether that stream captures: what is device-wide would spoil it."""
    go, stream = kernel("plus"), gpulend.Stream(Owned(gpu.stream()))
    with stream:
        source, out = ints(1), ints(0)
        go(source, out, 1)
    gpulend.synchronize()
    with capture(gpu, stream, mode) as graph:
        with stream:
            go(source, out, 2)
        with pytest.raises(gpulend.DriverError, match="captur") as caught:
            gpulend.synchronize()
        assert caught.value.code == 1003
        assert graph.alive
    graph.replay()
    assert only(out) == 3


def test_the_caller_s_context_is_unchanged(gpu, second):
    """Another device's, and none at all."""
    go = kernel("plus")
    source, out = ints(1), ints(0)
    there = value(c_void_p, cu.cuDevicePrimaryCtxRetain, second)
    try:
        for number, context in enumerate((there, None, gpu.context)):
            check(cu.cuCtxSetCurrent(context))
            go(source, out, number)
            with pytest.raises(gpulend.SignatureError):
                go(source, out, "x")
            compiled(SOURCE)["count"].forall(0)(out)
            assert current() == context
            assert only(out) == 1 + number
            assert current() == context
    finally:
        check(cu.cuCtxSetCurrent(gpu.context))
        check(cu.cuDevicePrimaryCtxRelease_v2(second))


@only_real
@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_the_current_stream_of_the_first_array_s_framework_is_used(gpu, framework):
    """As in its own operations: the launch is behind the gate, ours is not."""
    library, go, gate = need(framework), kernel("plus"), gpu.gate()
    stream = library.cuda.Stream() if framework == "torch" else library.cuda.Stream(null=False)
    make = {"torch": lambda: library.ones(SIZE, dtype=library.int32, device="cuda")}
    array = make.get(framework, lambda: library.ones(SIZE, library.int32))()
    out, ours = ints(0), gpulend.Stream()
    gpulend.synchronize()
    with library.cuda.stream(stream) if framework == "torch" else stream, ours:
        gate.hold(stream)
        go(array, out, 1)
        assert not waiting(ours)
        assert waiting(stream)
    gate.open()
    assert only(out) == 2


def test_a_capture_does_not_take_an_earlier_wait_for_its_own(gpu):
    """Replayed on another stream the graph has no wait: a producer not done is refused."""
    go, gate = kernel("plus"), gpu.gate()
    producer, stream = gpulend.Stream(), gpulend.Stream()
    with stream:
        source, middle, out, other = ints(4), ints(STALE), ints(0), ints(0)
    gpulend.synchronize()
    gate.hold(producer)
    go(source, middle, 1, stream=producer)
    go(middle, out, 0, stream=stream)
    with capture(gpu, stream, "relaxed") as graph:
        with pytest.raises(gpulend.DriverError, match="not done"):
            go(middle, other, 0, stream=stream)
        assert graph.alive
    gate.open()
    gpulend.synchronize()


def test_a_wait_in_a_capture_does_not_last(gpu):
    """It is a node of the graph: work of before the capture is still to be waited for."""
    go, gate = kernel("plus"), gpu.gate()
    producer, stream = gpulend.Stream(), gpulend.Stream()
    with stream:
        newest, source, inside, out = ints(5), ints(STALE), ints(0), ints(0)
    gpulend.synchronize()
    gate.hold(producer)
    go(newest, source, 0, stream=producer)
    with capture(gpu, producer, "relaxed"):
        fork, join = gpu.event(), gpu.event()
        check(cu.cuEventRecord(fork, producer.handle))
        check(cu.cuStreamWaitEvent(stream.handle, fork, 0))
        go(source, inside, 0, stream=stream)
        check(cu.cuEventRecord(join, stream.handle))
        check(cu.cuStreamWaitEvent(producer.handle, join, 0))
    go(source, out, 1, stream=stream)
    assert gate.closed, "the host waited"
    gate.open()
    assert only(out) == 6


@only_real
def test_a_stream_that_has_another_s_handle_waits_for_itself(gpu):
    """`borrow` had a stream wait that is gone; a driver gives its handle to the next one."""
    go, gate, producer = kernel("plus"), gpu.gate(), gpulend.Stream()
    source, middle, out = ints(4), ints(STALE), ints(0)
    gpulend.synchronize()
    gate.hold(producer)
    go(source, middle, 1, stream=producer)
    first = gpulend.Stream()
    handle = first.handle
    with first:
        gpulend.borrow(middle)
    del first
    streams, end = [gpulend.Stream()], time.monotonic() + 2
    # Not many: for more of them a driver waits for those that are held back.
    while streams[-1].handle != handle and time.monotonic() < end and len(streams) < 12:
        time.sleep(0.05)
        streams.append(gpulend.Stream())
    if streams[-1].handle != handle:
        gate.open()
        pytest.skip("the driver gave the handle to nobody")
    middle.used_on(streams[-1])
    go(middle, out, 0, stream=streams[-1])
    waits = stuck(streams[-1])
    gate.open()
    assert waits, "the producer is not waited for"
    assert only(out) == 5


def test_two_leases_of_a_variable_are_one_memory(gpu):
    """Each has a timeline of its own now, so neither waits for the other's work."""
    module = gpulend.compile("__device__ int v[512]; __global__ void q() {}")
    gate, one, two = gpu.gate(), gpulend.Stream(), gpulend.Stream()
    source, out = ints(5), ints(0)
    first, second = module.variable("v"), module.variable("v")
    gpulend.synchronize()
    gate.hold(one)
    with one:
        first.copy_from(source)
    with two:
        out.copy_from(second)
    waits = stuck(two)
    gate.open()
    assert waits
    assert only(out) == 5
