"""Releases in chains, in forked children and at exit, with deleters that are slow."""

from __future__ import annotations

from typing import Any

import gpulend
import pytest

from .forks import run
from .resources import eventually, only_simulated

SIZE = 64
DEEP = 20_000


@pytest.mark.parametrize("link", ["owner", "slice"])
def test_a_long_chain_of_leases_is_released_without_the_stack(gpu: Any, link: str) -> None:
    """Each is released inside the one before, to a depth; the reaper goes on from there."""
    gone = list[int]()
    address = gpu.alloc(SIZE)
    lease = gpulend.wrap(address, SIZE, "uint8", deleter=lambda *_: gone.append(1))
    for _ in range(DEEP):
        owned = link == "owner"
        lease = gpulend.wrap(address, SIZE, "uint8", owner=lease) if owned else lease[:]
    del lease
    eventually(lambda: gone == [1], "the first was released, once")


FORKED = """
    import os, time
    gone = []
    memory = gpulend.zeros(64, "uint8")
    gpulend.synchronize()
    for number in range(40):
        gone.clear()
        lease = gpulend.wrap(memory.address, 64, "uint8", deleter=lambda *_: gone.append(1))
        del lease
        end = time.monotonic() + number % 8 * 0.0001
        while time.monotonic() < end:
            pass
        before = len(gone)
        pid = os.fork()
        if pid == 0:
            for _ in range(5):
                gpulend.ledger()
                time.sleep(0.0005)
            os._exit(len(gone) - before)
        _, status = os.waitpid(pid, 0)
        assert status == 0, (number, status)
        end = time.monotonic() + 5
        while gone != [1] and time.monotonic() < end:
            time.sleep(0.001)
        assert gone == [1], (number, gone)
    print("each once, by the parent")
"""


def test_a_forked_child_runs_no_deleter_of_its_parent() -> None:
    """Whatever its release was waiting for: the work, or a thread with the GIL."""
    assert run(FORKED).strip() == "each once, by the parent"


SLOW = """
    import sys, time
    memory = gpulend.zeros(64, "uint8")
    address = memory.address
    gpulend.synchronize()
    leases = [
        gpulend.wrap(address, 64, "uint8", deleter=lambda *_: time.sleep(0.05)) for _ in range(1000)
    ]
    print(time.monotonic())
    sys.stdout.flush()
"""


@only_simulated
def test_the_end_does_not_wait_for_all_slow_deleters() -> None:
    """It gives up after some seconds; here they would take most of a minute."""
    import time

    started = float(run(SLOW).strip())
    assert time.monotonic() - started < 30


def test_an_address_that_describe_told_is_an_address_read(gpu: Any) -> None:
    """Code with the address may queue work where the memory was ready."""
    import weakref

    from driver.resources import LEGACY

    class Owner:
        pass

    owner, gone, gate = Owner(), list[int](), gpu.gate()
    weakref.finalize(owner, gone.append, 1)
    lease = gpulend.wrap(gpu.alloc(SIZE), SIZE, "uint8", owner=owner)
    del owner
    assert gpulend.describe(lease).base
    gate.hold(LEGACY)
    del lease
    gpu.reap()
    assert gate.closed
    assert gone == []
    gate.open()
    eventually(lambda: gone == [1], "the owner was dropped, once")


def test_a_stream_for_pinned_memory_is_refused(gpu: Any) -> None:
    """Its release would not wait for that."""
    lease = gpulend.wrap(gpu.pinned(SIZE), SIZE, "uint8", unowned=True)
    assert lease.memory == "pinned"
    stream = gpulend.Stream()
    for call in (
        lambda: lease.used_on(stream),
        lambda: lease.pointer(stream).__enter__(),
        lambda: gpulend.borrow(lease, stream),
    ):
        with pytest.raises(gpulend.ProtocolError, match="host memory has no streams"):
            call()
    with lease.pointer() as pointer:
        assert pointer == lease.address
