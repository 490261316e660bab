"""Nothing grows: hand-overs by the thousand leave memory, streams and ledger as they were."""

from __future__ import annotations

import gc

import gpulend
import numpy as np
import pytest
from frameworks import ON_STREAMS
from gpulend import simulator

from .hand_overs import SIZE, hand_over
from .resources import (
    REAL,
    SIMULATED,
    at_rest,
    eventually,
    free_bytes,
    need,
    nothing_stays,
    pool_of,
)

TIMES = 10_000 if REAL else 1_000


def lent_to(target):
    """Return a hand-over to a framework and back."""

    def once(lease):
        gpulend.borrow(lease.lend(target))

    return once


def through_dlpack(lease):
    """Hand over and never take."""
    lease.__dlpack__(stream=1, dl_device=(2, 0), max_version=(1, 0))


def refused(lease):
    """Fail in as many ways as there are checks."""
    for call in (
        lambda: lease.__dlpack__(stream=0, dl_device=(2, 0)),
        lambda: lease.__dlpack__(dl_device=(2, 5)),
        lambda: gpulend.wrap(lease.address, 1 << 30, "uint8", owner=lease),
        lambda: lease.copy_from(np.zeros(3)),
        lambda: gpulend.empty(1 << 45, "uint8"),
    ):
        try:
            call()
        except gpulend.Error:
            continue
        raise AssertionError("not refused")


def pointed(lease):
    """Take the bare address."""
    with lease.pointer(gpulend.current_stream()):
        pass


WAYS = {
    "borrow": lambda lease: gpulend.borrow(lease, gpulend.current_stream()),
    "slices": lambda lease: lease[1:][::2].T.as_readonly(),
    "dlpack": through_dlpack,
    "cai": lambda lease: lease.as_cuda().__cuda_array_interface__,
    "pointer": pointed,
    "wrap": lambda lease: gpulend.wrap(lease.address, lease.shape, lease.dtype, owner=lease),
    "used_on": lambda lease: lease.used_on(gpulend.current_stream()),
    "allocate": lambda lease: gpulend.zeros(1000, "uint8"),
    "host": lambda lease: gpulend.from_host(lease.to_host()),
    "event": lambda lease: gpulend.current_stream().wait(gpulend.current_stream().record()),
    "refused": refused,
    "cuda.core": lent_to("cuda.core"),
    "torch": lent_to("torch"),
    "numpy": lent_to("numpy") if SIMULATED else lambda lease: lease.to_host(),
}


def live():
    """Return what the simulated GPU holds; a real one does not say."""
    if REAL:
        return {}
    counts = simulator.report()["live"]
    return {name: counts[name] for name in ("allocations", "bytes", "streams", "graphs")}


@pytest.mark.parametrize("way", WAYS)
def test_many_hand_overs_leave_nothing(way):
    """Refused or not, on two streams in turn: ledger, pool and driver are where they were."""
    if way in ("cuda.core", "torch"):
        need(way)
    streams = [gpulend.Stream(), gpulend.current_stream()]
    lease = gpulend.zeros((16, 16), "int32")
    for _ in range(20):
        with streams[0]:
            WAYS[way](lease)
    gc.collect()
    pool = pool_of()
    before_pool, before_live = at_rest(pool), live()
    before_leaked = gpulend.ledger().leaked
    with nothing_stays():
        for number in range(TIMES // 4 if way == "refused" else TIMES):
            with streams[number % 2]:
                WAYS[way](lease)
    # Less is no leak: a stream of an earlier test may have been destroyed meanwhile.
    eventually(
        lambda: all(count <= before_live[kind] for kind, count in live().items()),
        f"the driver holds no more than {before_live}",
    )
    assert at_rest(pool) == before_pool
    assert gpulend.ledger().leaked == before_leaked
    del lease


@pytest.mark.parametrize("consumer", ON_STREAMS)
@pytest.mark.parametrize("producer", ON_STREAMS)
@pytest.mark.filterwarnings("ignore:an array that its framework never writes")
def test_many_hand_overs_between_frameworks_leave_nothing(gpu, producer, consumer):
    """The same between each pair of frameworks that are here, with the device's own count."""
    producer, consumer = ON_STREAMS[producer](), ON_STREAMS[consumer]()
    before, after = producer.stream(producer.kinds[-1]), consumer.stream(consumer.kinds[-1])
    array = producer.make_on(before, 1, SIZE)
    array = producer.write_on(before, array, 1)

    def rounds(count):
        for number in range(count):
            with hand_over(producer, consumer, array, before, after, number % 2 == 0):
                pass

    rounds(100)
    gpulend.synchronize()
    gc.collect()
    free = free_bytes()
    with nothing_stays():
        rounds(TIMES // 10)
    slack = 64 << 20 if REAL else 0  # frameworks keep some of what they free
    eventually(lambda: free_bytes() >= free - slack, "the device has its memory back")


def test_a_million_elements_come_and_go():
    """Large memory is given back to the driver's pool and reused, not taken anew each time."""
    with nothing_stays():
        before = free_bytes()
        for number in range(200):
            lease = gpulend.full(1 << 20, number % 100, "uint8")
            assert lease[::4096].to_host().tolist() == [number % 100] * 256
        del lease
    eventually(lambda: free_bytes() >= before - (256 << 20), "the device has its memory back")
