"""Memory that nobody touched goes back at once; what may have been touched waits for its work."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from typing import Any

import gpulend
import pytest
from driver.resources import LEGACY
from gpulend import _native

from .resources import REAL, eventually, fill

SIZE = 4096


class Owner:
    """Something that keeps memory."""


def kept(address: int, **options: Any) -> tuple[gpulend.Lease, list[int]]:
    """Return a lease that keeps an owner, and a list with a 1 when the owner is gone."""
    owner, gone = Owner(), list[int]()
    weakref.finalize(owner, gone.append, 1)
    return gpulend.wrap(address, SIZE, "uint8", owner=owner, **options), gone


def test_an_owner_is_dropped_with_an_untouched_lease(gpu: Any) -> None:
    """Even while its stream is held: the owner has its memory back as it gave it."""
    address, gate = gpu.alloc(SIZE), gpu.gate()
    gate.hold(LEGACY)
    lease, gone = kept(address)
    part, shape = lease[:8], lease.shape
    assert shape == (SIZE,)
    del lease
    assert gone == [], "the slice keeps it"
    del part
    assert gone == [1], "it went with the last lease, without a thread"
    gate.open()


def test_untouched_memory_of_an_interface_goes_at_once(gpu: Any) -> None:
    """As an array of numba's comes in."""

    class Shown(Owner):
        def __init__(self, address: int) -> None:
            self.__cuda_array_interface__ = {
                "version": 3,
                "shape": (SIZE,),
                "typestr": "|u1",
                "data": (address, False),
                "stream": LEGACY,
            }

    gate = gpu.gate()
    shown, gone = Shown(gpu.alloc(SIZE)), list[int]()
    weakref.finalize(shown, gone.append, 1)
    gate.hold(LEGACY)
    lease = gpulend.borrow(shown)
    del shown
    gc.collect()
    assert gone == [], "the lease keeps it"
    del lease
    assert gone == [1]
    gate.open()


def read_address(lease: gpulend.Lease) -> None:
    """Code with the address may queue work where the memory was ready."""
    assert lease.address


def copy_a_part(lease: gpulend.Lease) -> None:
    """A copy within the device, on the stream on which the memory was ready."""
    lease[:8].copy_from(lease[8:16])


def lend(lease: gpulend.Lease) -> None:
    """To a consumer that says its stream."""
    lease.__dlpack__(stream=LEGACY, max_version=(1, 0))


def name_the_same_stream(lease: gpulend.Lease) -> None:
    """As somebody does who queued work by hand."""
    lease.used_on(gpulend.Stream(LEGACY))


@pytest.mark.parametrize("touch", [read_address, copy_a_part, lend, name_the_same_stream])
def test_touched_memory_waits_for_the_stream_it_was_ready_on(
    gpu: Any, touch: Callable[[gpulend.Lease], None]
) -> None:
    """And it is counted meanwhile."""
    address, gate = gpu.alloc(SIZE), gpu.gate()
    with gpulend.Stream(LEGACY):
        gate.hold(LEGACY)
        lease, gone = kept(address)
        shown = lease.as_cuda()
        touch(shown)
    fill(address, 1, SIZE, LEGACY)
    waiting = gpulend.ledger().waiting
    del lease, shown
    gpu.reap()
    assert gate.closed, "the host waited"
    assert gone == [], "the owner went under the work"
    assert gpulend.ledger().waiting == waiting + 1
    gate.open()
    eventually(lambda: gone == [1], "the owner was dropped, once")
    eventually(lambda: gpulend.ledger().waiting <= waiting, "nobody waits")


@pytest.mark.parametrize("named", ["stream", "event", "nothing"])
def test_a_deleter_waits_for_work_that_came_before(gpu: Any, named: str) -> None:
    """It frees the memory; without a name the work is on the legacy stream."""
    address, gate, stream = gpu.alloc(SIZE), gpu.gate(), gpulend.Stream()
    handle = LEGACY if named == "nothing" else stream.handle
    gate.hold(handle)
    fill(address, 1, SIZE, handle)
    gone = list[int]()
    ready = {"stream": stream, "event": None if named != "event" else stream.record()}
    options = {} if named == "nothing" else {"ready_on": ready[named]}
    lease = gpulend.wrap(address, SIZE, "uint8", deleter=lambda *_: gone.append(1), **options)
    del lease
    gpu.reap()
    assert gate.closed, "the host waited"
    assert gone == [], "the deleter ran under the work"
    gate.open()
    eventually(lambda: gone == [1], "the deleter ran, once")


def events() -> int:
    """Return how many events the simulated driver has."""
    return int(json.loads(_native.report())["live"]["events"])


def test_many_releases_cost_few_events(gpu: Any) -> None:
    """All that come between two rounds of the reaper share one."""
    address, gate = gpu.alloc(SIZE), gpu.gate()
    stream, before = gpulend.Stream(), 0 if REAL else events()
    gate.hold(stream)
    gone = list[int]()
    for _ in range(500):
        lease = gpulend.wrap(
            address, SIZE, "uint8", deleter=lambda *_: gone.append(1), ready_on=stream
        )
        del lease
    assert gpulend.ledger().waiting >= 500
    gate.open()
    eventually(lambda: len(gone) == 500, "all deleters ran")
    # The simulated driver says how many events were ever made, because gpulend keeps them.
    assert REAL or events() < before + 100, "each release had an event of its own"
    eventually(lambda: gpulend.ledger().waiting == 0, "nobody waits")
