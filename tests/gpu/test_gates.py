"""Entry: a consumer sees what its producer had queued, and the host waits for nothing.

The producer's stream is held by a gate before it writes. The memory is handed over and its read is
queued with the gate still closed; then the gate opens, and not one byte may be old.
"""

from __future__ import annotations

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import LEGACY, PER_THREAD
from frameworks import ON_STREAMS
from gpulend import simulator

from .hand_overs import SIZE, hand_over, pairs
from .resources import (
    REAL,
    Opener,
    driver_calls,
    fill,
    need,
    nothing_stays,
    only_simulated,
    stuck,
    waiting,
)

ROUNDS = 1000 if REAL else 36  # of each pair, over all kinds of streams
STALE = 0xEE


def one_round(gate, producer, consumer, array, before, after, byte, at_once):
    """Write behind a closed gate, hand over, queue the read, open the gate, and look."""
    producer.write_on(before, array, STALE)
    check(cu.cuCtxSynchronize())
    gate.close()
    gate.hold(producer.handle(before))
    written = producer.write_on(before, array, byte)
    with (
        Opener(gate, producer.hidden),
        hand_over(producer, consumer, written, before, after, at_once) as taken,
    ):
        pass
    reading = consumer.read_on(after, taken)
    if not producer.hidden:
        assert gate.closed, "the host waited for the producer"
        if not consumer.hidden:
            assert waiting(consumer.handle(after)), "the consumer does not wait for the producer"
    gate.open()
    seen = reading()
    assert seen.shape == (SIZE,)
    return int(np.count_nonzero(seen != byte))


@pytest.mark.filterwarnings("ignore:an array that its framework never writes")
@pytest.mark.parametrize(("producer", "consumer"), pairs())
def test_no_stale_byte(gpu, producer, consumer):
    """Each pair of frameworks on each pair of kinds of streams, a thousand times on a real GPU."""
    producer, consumer = ON_STREAMS[producer](), ON_STREAMS[consumer]()
    kinds = [(first, then) for first in producer.kinds for then in consumer.kinds]
    gate = gpu.gate()
    gate.open()
    with nothing_stays():
        for first, then in kinds:
            before, after = producer.stream(first), consumer.stream(then)
            array = producer.make_on(before, STALE, SIZE)
            # Once with nothing held back: what is loaded and allocated at the first use waits.
            for at_once in (True, False):
                with hand_over(producer, consumer, array, before, after, at_once) as taken:
                    pass
                consumer.read_on(after, taken)()
                del taken
            producer.write_on(before, array, STALE)
            check(cu.cuCtxSynchronize())
            for number in range(-(-ROUNDS // len(kinds))):
                byte = 1 + number % 200
                stale = one_round(
                    gate, producer, consumer, array, before, after, byte, number % 2 == 0
                )
                assert not stale, f"{first} to {then}: {stale} old bytes, round {number}"
            check(cu.cuCtxSynchronize())
            del array


@only_simulated
@pytest.mark.parametrize("target", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("kind", ["default", "non-blocking", "per-thread"])
def test_frameworks_of_the_cpu_get_finished_bytes(gpu, target, kind):
    """They cannot wait for a stream: what is queued is complete when lend returns."""
    need(target)
    stream = gpulend.Stream({"default": LEGACY, "per-thread": PER_THREAD}.get(kind))
    with stream:
        lease = gpulend.zeros(SIZE, "uint8")
        for number in range(1, 20):
            lease.copy_from(gpulend.full(SIZE, number, "uint8"))
            lent = lease.lend(target)
            assert set(np.asarray(lent).tolist()) == {number}
            del lent


@only_simulated
@pytest.mark.parametrize("target", ["numpy", "torch", "jax"])
def test_frameworks_of_the_cpu_wait_for_what_they_need_alone(gpu, target):
    """Other streams may be stuck: only the work on this memory is waited for."""
    need(target)
    gate, stuck = gpu.gate(), gpulend.Stream()
    gate.hold(stuck)
    with gpulend.Stream():
        lease = gpulend.full(SIZE, 3, "uint8")
    assert set(np.asarray(lease.lend(target)).tolist()) == {3}
    assert gate.closed


@only_simulated
def test_what_a_cpu_framework_wrote_is_seen_by_the_gpu(gpu):
    """A CPU tensor of simulated memory is written at once: the next reader on a stream sees it."""
    torch = need("torch")
    lease = gpulend.zeros(SIZE, "uint8")
    tensor = lease.lend("torch")
    tensor.fill_(9)
    stream = gpulend.Stream()
    with stream:
        other = gpulend.empty(SIZE, "uint8")
        other.copy_from(lease)
        assert set(other.to_host().tolist()) == {9}
    assert torch.equal(gpulend.lend(other, "torch"), tensor)


def test_a_chain_of_hand_overs_keeps_the_order(gpu):
    """A to B to C: C waits for A's work though it never heard of A."""
    gate = gpu.gate()
    first, middle, last = (gpulend.Stream() for _ in range(3))
    with first:
        lease = gpulend.full(SIZE, STALE, "uint8")
        first.synchronize()
        gate.hold(first)
        lease.copy_from(gpulend.full(SIZE, 5, "uint8"))
    lent = gpulend.borrow(gpulend.borrow(lease, middle), last)
    with last:
        out = gpulend.empty(SIZE, "uint8")
        out.copy_from(lent)
    assert waiting(last)
    assert gate.closed
    gate.open()
    assert set(out.to_host().tolist()) == {5}


def test_a_consumer_that_writes_is_waited_for_by_the_next(gpu):
    """The second consumer must see what the first one wrote: exports order each other."""
    gate = gpu.gate()
    first, then = gpulend.Stream(), gpulend.Stream()
    lease = gpulend.full(SIZE, STALE, "uint8")
    gpulend.synchronize()
    gate.hold(first)
    with first:
        gpulend.borrow(lease, first).copy_from(gpulend.full(SIZE, 6, "uint8"))
    with then:
        out = gpulend.empty(SIZE, "uint8")
        out.copy_from(lease)
    assert waiting(then)
    assert gate.closed
    gate.open()
    assert set(out.to_host().tolist()) == {6}


@pytest.mark.parametrize("ready", ["stream", "event", "handle"])
def test_wrapped_memory_is_ready_when_it_is_said(gpu, ready):
    """A raw address knows no stream: `ready_on` is waited for, by event and not by the host."""
    gate, stream, consumer = gpu.gate(), gpulend.Stream(), gpulend.Stream()
    address = gpu.alloc(SIZE)
    gpulend.wrap(address, SIZE, "uint8", unowned=True).copy_from(np.full(SIZE, STALE, np.uint8))
    gpulend.synchronize()
    gate.hold(stream)
    fill(address, 4, SIZE, stream.handle)
    said = {"stream": stream, "event": stream.record(), "handle": stream.handle}[ready]
    lease = gpulend.wrap(address, SIZE, "uint8", unowned=True, ready_on=said)
    with consumer:
        out = gpulend.empty(SIZE, "uint8")
        out.copy_from(lease)
    assert waiting(consumer)
    assert gate.closed
    gate.open()
    assert set(out.to_host().tolist()) == {4}


def test_wrapped_memory_that_is_ready_now_waits_for_nothing(gpu):
    """`ready_on="now"` says that the caller has waited already, whatever the legacy stream does."""
    gate, consumer = gpu.gate(), gpulend.Stream()
    address = gpu.alloc(64)
    gpulend.wrap(address, 64, "uint8", unowned=True).copy_from(np.full(64, 7, np.uint8))
    gpulend.synchronize()
    gate.hold(LEGACY)
    lease = gpulend.wrap(address, 64, "uint8", unowned=True, ready_on="now")
    with consumer:
        assert lease.to_host().tolist() == [7] * 64
    assert gate.closed


READY_ON = {"stream": lambda stream: stream, "event": lambda stream: stream.record()}


@pytest.mark.parametrize("ready", READY_ON)
def test_a_lease_is_ready_when_its_borrower_says(gpu, ready):
    """Work that the lease does not know of: `ready_on` is waited for, and not by the host."""
    gate, stream, consumer = gpu.gate(), gpulend.Stream(), gpulend.Stream()
    with consumer:
        lease, out = gpulend.zeros(SIZE, "uint8"), gpulend.zeros(SIZE, "uint8")
    stream.record()
    gpulend.synchronize()
    gate.hold(stream)
    fill(lease.address, 7, SIZE, stream.handle)
    with consumer:
        out.copy_from(gpulend.borrow(lease, consumer, ready_on=READY_ON[ready](stream)))
    assert gate.closed, "the host waited"
    assert stuck(consumer)
    gate.open()
    assert set(out.to_host().tolist()) == {7}


@only_simulated
def test_the_same_stream_needs_no_event(gpu):
    """Producer and consumer on one stream are in order already, so a hand-over costs nothing."""
    stream = gpulend.Stream()
    with stream:
        lease = gpulend.full(64, 1, "uint8")
        before = driver_calls()
        for _ in range(10):
            gpulend.borrow(lease, stream)
        after = simulator.report()["calls"]
    for name in ("cuEventRecord", "cuStreamWaitEvent", "cuStreamSynchronize"):
        assert after.get(name, 0) == before.get(name, 0)
