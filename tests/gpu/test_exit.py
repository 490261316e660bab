"""Exit: memory is given back only after the work of the streams that were named to us.

The consumer's stream is held by a gate and a read is queued behind it. Everything is dropped, and
the producer's framework allocates and fills the same size again. Only then the gate opens.
"""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import LEGACY, PER_THREAD, allocate
from frameworks import ON_STREAMS

from .hand_overs import SIZE, hand_over
from .resources import (
    REAL,
    SOON,
    at_rest,
    bytes_at,
    copy,
    eventually,
    need,
    not_sanitized,
    nothing_stays,
    pool_of,
    used_by,
    waiting,
)

POISON = 0xDB
ROUNDS = int(os.environ.get("GPULEND_TEST_EXITS", "20" if REAL else "3"))
PRODUCERS = ("gpulend", "torch", "cupy", "cuda.core") if REAL else ("gpulend", "cuda.core")
CONSUMERS = ("gpulend", "torch", "cupy", "cuda.core") if REAL else ("gpulend", "cuda.core")


def address_of(array):
    """Return where any framework's array lies."""
    return gpulend.describe(array).address


def one_round(gpu, gate, producer, consumer, before, after, byte):
    """Return how many bytes of the consumer's result were spoilt."""
    array = producer.make_on(before, byte, SIZE)
    check(cu.cuStreamSynchronize(producer.handle(before)))
    address = address_of(array)
    gate.close()
    gate.hold(consumer.handle(after))
    with hand_over(producer, consumer, array, before, after, False) as taken:
        pass
    reading = consumer.read_on(after, taken)
    del taken, array
    gpu.reap(LEGACY, producer.handle(before))
    poison = [producer.make_on(before, POISON, SIZE) for _ in range(6)]
    check(cu.cuStreamSynchronize(producer.handle(before)))
    reused = [address_of(array) for array in poison]
    assert gate.closed, "the host waited for the consumer"
    assert waiting(consumer.handle(after))
    gate.open()
    seen = reading()
    assert address not in reused, "the memory was handed out again before its reader was done"
    return int(np.count_nonzero(seen != byte))


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_memory_is_not_reused_under_its_reader(gpu, producer, consumer):
    """Frameworks recycle a block when its last reference dies, however late its readers are."""
    producer, consumer = ON_STREAMS[producer](), ON_STREAMS[consumer]()
    before, after = producer.stream("non-blocking"), consumer.stream("non-blocking")
    gate = gpu.gate()
    gate.open()
    # Once with nothing held back: what is loaded and allocated at the first use waits.
    array = producer.make_on(before, 1, SIZE)
    with hand_over(producer, consumer, array, before, after, False) as taken:
        pass
    consumer.read_on(after, taken)()
    del array, taken
    check(cu.cuCtxSynchronize())
    with nothing_stays():
        for number in range(ROUNDS):
            spoilt = one_round(gpu, gate, producer, consumer, before, after, 1 + number % 200)
            assert not spoilt, f"{spoilt} bytes were overwritten, round {number}"


@not_sanitized
@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_memory_comes_back_when_its_reader_is_done(gpu, producer, consumer):
    """Held for too long is a leak: after the work the producer's framework has its block again."""
    producer, consumer = ON_STREAMS[producer](), ON_STREAMS[consumer]()
    before, after = producer.stream("non-blocking"), consumer.stream("non-blocking")
    array = producer.make_on(before, 1, SIZE)
    with hand_over(producer, consumer, array, before, after, False) as taken:
        pass
    if producer.name == "gpulend":
        pool, least = pool_of(), SIZE
        held = at_rest(pool)
        del taken, array
        eventually(lambda: used_by(pool) <= held - least, "the block is free again")
        return
    address = address_of(array)
    assert gpulend.ledger().at(address)
    del taken, array
    eventually(lambda: not gpulend.ledger().at(address), "nothing of it is held")
    # A framework that recycles its blocks hands this one out again.
    kept = []

    def again():
        kept.append(producer.make_on(before, 2, SIZE))
        return address_of(kept[-1]) == address

    if producer.name in ("torch", "cupy"):
        eventually(again, "the framework uses its block again")


@pytest.mark.parametrize("kind", [LEGACY, PER_THREAD, None])
@pytest.mark.parametrize("way", ["used_on", "pointer", "borrow", "dlpack"])
def test_each_way_of_naming_a_stream_counts(gpu, way, kind):
    """However a stream was named, the memory waits for what was queued on it."""
    pool = pool_of()
    stream, gate = gpulend.Stream(kind), gpu.gate()
    owner = gpulend.Stream()
    with owner:
        lease = gpulend.full(SIZE, 5, "uint8")
    held = at_rest(pool)
    target = gpu.pinned(SIZE)
    address = lease.address
    gate.hold(stream)
    kept = None
    if way == "used_on":
        copy(target, address, SIZE, stream.handle)
        lease.used_on(stream)
    elif way == "pointer":
        with lease.pointer(stream) as pointer:
            copy(target, pointer, SIZE, stream.handle)
    elif way == "borrow":
        kept = gpulend.borrow(lease, stream)
        copy(target, kept.address, SIZE, stream.handle)
    else:
        kept = lease.__dlpack__(stream=stream.handle, dl_device=(2, 0))
        copy(target, address, SIZE, stream.handle)
    del lease, kept
    gpu.reap(owner, *((LEGACY,) if kind is None else ()))  # the default streams block each other
    with owner:
        poison = [gpulend.full(SIZE, POISON, "uint8") for _ in range(4)]
    owner.synchronize()
    assert used_by(pool) >= held + 4 * SIZE, "the memory was freed under its reader"
    assert gate.closed
    gate.open()
    stream.synchronize()
    found = bytes_at(target, SIZE)
    assert set(found.tolist()) == {5}
    eventually(lambda: used_by(pool) <= held + 3 * SIZE, "the memory was freed")
    del poison


def test_a_deleter_waits_for_the_streams(gpu):
    """The caller's free function may be cuMemFree itself: it must come after the work."""
    gate, stream, calls = gpu.gate(), gpulend.Stream(), []
    address = allocate(SIZE)
    lease = gpulend.wrap(
        address, SIZE, "uint8", deleter=lambda *said: calls.append((said, threading.get_ident()))
    )
    gate.hold(stream)
    lease.used_on(stream)
    part = lease[10:]
    lease = None
    del part
    gpu.reap(LEGACY)
    assert calls == []
    assert gate.closed
    gate.open()
    eventually(lambda: len(calls) == 1, "the deleter was called")
    assert calls[0][0] == (address, SIZE)
    check(cu.cuMemFree_v2(address))


def test_an_owner_is_kept_until_the_work_is_done(gpu):
    """`owner=` keeps the memory alive: dropping it is what frees."""

    class Owner:
        pass

    gate, stream, owner = gpu.gate(), gpulend.Stream(), Owner()
    gone = weakref.ref(owner)
    address = gpu.alloc(SIZE)
    lease = gpulend.wrap(address, SIZE, "uint8", owner=owner)
    del owner
    gate.hold(stream)
    lease.used_on(stream)
    lease.release()
    del lease
    gpu.reap(LEGACY)
    assert gone() is not None
    gate.open()
    eventually(lambda: gone() is None, "the owner was released")


def test_dropping_does_not_wait(gpu):
    """`del` and `release()` must not stop the host behind a late reader, on any thread."""
    gate, stream = gpu.gate(), gpulend.Stream()
    leases = [gpulend.full(SIZE, 1, "uint8") for _ in range(100)]
    gate.hold(stream)
    for lease in leases:
        lease.used_on(stream)
    del lease
    leases.pop().release()
    thread = threading.Thread(target=leases.clear)
    thread.start()
    thread.join()
    assert leases == []
    assert gate.closed


def test_memory_is_freed_in_the_order_of_work_and_not_of_drops(gpu):
    """A stuck reader holds its own memory only: others' comes back."""
    pool = pool_of()
    gate, stuck, free = gpu.gate(), gpulend.Stream(), gpulend.Stream()
    first, then = gpulend.zeros(SIZE, "uint8"), gpulend.zeros(SIZE, "uint8")
    held = at_rest(pool)
    gate.hold(stuck)
    first.used_on(stuck)
    then.used_on(free)
    del first, then
    free.synchronize()

    def freed():
        free.synchronize()
        return used_by(pool) <= held - SIZE

    _until(freed)
    assert used_by(pool) >= held - SIZE, "the stuck one is still held"
    assert gate.closed
    gate.open()
    eventually(lambda: used_by(pool) <= held - 2 * SIZE, "both are free")


def _until(holds):
    """Wait for something without synchronising the device, which a gate holds."""
    end = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < end, "not freed beside a stuck reader"
        time.sleep(0.0005)  # so that the background thread runs


def test_memory_lent_through_an_interface_without_deleter_stays(gpu):
    """`__cuda_array_interface__` has no owner: the memory lives at least as long as the Lease."""
    pool = pool_of()
    lease = gpulend.full(SIZE, 3, "uint8")
    held = at_rest(pool)
    shown = lease.as_cuda()
    interface = shown.__cuda_array_interface__
    assert interface["data"][0] == lease.address
    del lease
    shown.release()
    gc.collect()
    gpulend.synchronize()
    assert used_by(pool) >= held
    del shown
    eventually(lambda: used_by(pool) < held, "the memory was freed")


def test_consumers_that_are_still_there_forbid_release(gpu):
    """release() under a view of another framework is refused, and names it."""
    need("cuda.core")
    lease = gpulend.zeros(SIZE, "uint8")
    view = lease.lend("cuda.core")
    with pytest.raises(gpulend.StillLentError, match=r"cuda\.core"):
        lease.release()
    del view
    eventually(lambda: not [e for e in gpulend.ledger() if e.kind == "export"], "nothing is lent")
    lease.release()


def test_the_ledger_tells_who_holds(gpu):
    """Who looks for a leak finds each lease and export, with its size and its consumer."""
    need("cuda.core")
    with nothing_stays():
        lease = gpulend.zeros(SIZE, "uint8")
        view = lease.lend("cuda.core")
        entries = gpulend.ledger().at(lease.address)
        assert {entry.kind for entry in entries} >= {"lease", "export"}
        assert any(entry.who == "cuda.core" for entry in entries)
        assert all(entry.nbytes == SIZE for entry in entries)
        del lease, view, entries
