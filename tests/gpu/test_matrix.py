"""Every ordered pair of frameworks: the same memory under all laws, or the named refusal."""

from __future__ import annotations

import gc
import sys
import warnings

import gpulend
import numpy as np
import pytest
from frameworks import HERE, SIZE, Memory, NumPy

from .resources import REAL, eventually, nothing_stays

PAIRS = [(producer, consumer) for producer in HERE for consumer in HERE]


OPENED: dict[str, Memory] = {}


@pytest.fixture
def sides(context):
    """Open frameworks by name; PyCUDA's context is popped when all its arrays are gone."""
    entered: list[Memory] = []

    def side(name: str) -> Memory:
        if name not in OPENED:
            OPENED[name] = HERE[name]()
        OPENED[name].enter()
        entered.append(OPENED[name])
        return OPENED[name]

    yield side
    gc.collect()
    for one in reversed(entered):
        one.leave()


@pytest.fixture(autouse=True)
def _no_warnings_of_immutable_arrays():
    """That warning has tests of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="an array that its framework never writes")
        yield


def takes(producer: Memory, consumer: Memory) -> bool:
    """Return whether a consumer can work where a producer's memory lies."""
    # The simulated GPU's memory is the host's too.
    return producer.makes in consumer.takes or (producer.makes == "gpu" and not REAL)


def refused(array: object, consumer: Memory) -> None:
    """See that memory of the host is refused by who works on a GPU only, and the reverse."""
    with pytest.raises(gpulend.ExportError, match=r"from_host|to_host") as caught:
        gpulend.lend(array, consumer.name)
    assert caught.value.code == 303


def holds(array: object) -> int:
    """Count the holds on an object; what the reaper dropped goes at the next borrowing."""
    gpulend.borrow(bytearray(1))
    return sys.getrefcount(array)


@pytest.mark.parametrize(("producer", "consumer"), PAIRS)
def test_a_hand_over_is_the_same_memory_in_order(sides, producer, consumer):
    """Laws 1 and 2: the same address, and the bytes that were written last, though late."""
    producer, consumer = sides(producer), sides(consumer)
    with nothing_stays():
        array = producer.write(producer.make(3), 107)
        if not takes(producer, consumer):
            refused(producer.give(array), consumer)
            return
        taken = gpulend.lend(producer.give(array), consumer.name)
        assert consumer.values(taken).tolist() == [107] * SIZE
        assert consumer.address(taken) == producer.address(array)
        del taken, array


@pytest.mark.parametrize(("producer", "consumer"), PAIRS)
def test_what_was_taken_outlives_its_producer(sides, producer, consumer):
    """The last hold keeps the memory, and nothing but that does."""
    producer, consumer = sides(producer), sides(consumer)
    with nothing_stays():
        array = producer.make(91)
        if not takes(producer, consumer):
            refused(producer.give(array), consumer)
            return
        taken = gpulend.lend(producer.give(array), consumer.name)
        del array
        gc.collect()
        noise = [producer.make(17) for _ in range(20)]
        assert consumer.values(taken).tolist() == [91] * SIZE
        del noise, taken


@pytest.mark.parametrize(("producer", "consumer"), PAIRS)
def test_a_producer_is_let_go_exactly_once(sides, producer, consumer):
    """Law 9: the holds on the producer's array are as many after the hand-overs as before."""
    producer, consumer = sides(producer), sides(consumer)
    array = producer.make(5)
    before = holds(array)
    with nothing_stays():
        for _ in range(5):
            if takes(producer, consumer):
                taken = gpulend.lend(producer.give(array), consumer.name)
                del taken
            else:
                refused(producer.give(array), consumer)
        gc.collect()
    eventually(lambda: holds(array) == before, "the producer's array is released")
    assert holds(array) == before
    if not producer.immutable:
        producer.write(array, 6)
        assert gpulend.borrow(producer.give(array)).to_host().tolist() == [6] * SIZE


@pytest.mark.parametrize(("producer", "consumer"), PAIRS)
def test_read_only_memory_stays_so_or_is_refused(sides, producer, consumer):
    """Law 6: who cannot mark it is refused; arrays that are never written are lent on."""
    producer, consumer = sides(producer), sides(consumer)
    array = producer.make(44)
    lease = gpulend.borrow(producer.give(array))
    assert lease.readonly == producer.immutable
    if not takes(producer, consumer):
        refused(lease, consumer)
        return
    if not producer.immutable:
        lease = lease.as_readonly()
        if not consumer.keeps_readonly:
            with pytest.raises(gpulend.ExportError, match="allow_writable_alias") as caught:
                lease.lend(consumer.name)
            assert caught.value.code == 301
            taken = lease.lend(consumer.name, allow_writable_alias=True)
            assert consumer.address(taken) == producer.address(array)
            return
    taken = lease.lend(consumer.name)
    if consumer.keeps_readonly:
        assert consumer.is_readonly(taken)
    assert consumer.values(taken).tolist() == [44] * SIZE


@pytest.mark.parametrize("consumer", HERE)
def test_each_consumer_releases_raw_memory_once(sides, consumer):
    """Law 9: a deleter runs once, after the last of two arrays of a framework is gone."""
    consumer = sides(consumer)
    released: list[int] = []
    if "host" in consumer.takes:
        memory = NumPy().make(9)
        address = memory.ctypes.data
    else:
        memory = gpulend.full(SIZE, 9, "uint8")
        address = memory.address
    gpulend.synchronize()
    lease = gpulend.wrap(address, SIZE, "uint8", deleter=lambda at, _size: released.append(at))
    first, second = lease.lend(consumer.name), lease.lend(consumer.name)
    del lease, first
    gc.collect()
    gpulend.synchronize()
    assert released == []
    assert np.array_equal(consumer.values(second), np.full(SIZE, 9))
    with nothing_stays():
        del second
        gc.collect()
    eventually(lambda: bool(released), "the deleter ran")
    assert released == [address]
    del memory
