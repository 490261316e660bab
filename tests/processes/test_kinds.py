"""Kinds of memory: mapped in separate steps, pinned, and what cannot be opened elsewhere."""

from __future__ import annotations

import gpulend
import numpy as np
import pytest

from .conftest import held
from .worker import RemoteError, Worker, eventually

UNIT = 2 << 20
MAPPED = """
    from ctypes import byref, c_uint64
    from driver.cuda import cu
    from driver.resources import check, start
    from driver.test_virtual_memory import allow, create, reserve
    start()
    UNIT = 2 << 20

    def mapped(sizes):
        base, done = reserve(sum(sizes)), 0
        for size in sizes:
            handle = create(size)
            check(cu.cuMemMap(base + done, size, 0, handle, 0))
            check(cu.cuMemRelease(handle))
            done += size
        check(allow(base, done))
        return base

    def unmap(base, bytes):
        check(cu.cuMemUnmap(base, bytes))
        check(cu.cuMemAddressFree(base, bytes))
"""


@pytest.fixture
def lender():
    """Give a process that maps memory in separate steps, as torch's expandable segments are."""
    with Worker(MAPPED) as made:
        yield made


def wrapped(lender: Worker, sizes: list[int], start: int, stop: int) -> bytes:
    """Have the lender fill such memory, and return a ticket of a part of it."""
    return lender.run(
        """
        base = mapped(sizes)
        whole = gpulend.wrap(base, sum(sizes) // 4, "int32", device="cuda:0", unowned=True)
        whole.copy_from(np.arange(whole.size, dtype="int32"))
        part = whole[start // 4 : stop // 4]
        result = part.ticket()
        """,
        sizes=sizes,
        start=start,
        stop=stop,
    )


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, UNIT), (5 * 4, UNIT - 4), (UNIT - 8, 3 * UNIT + 12), (3 * UNIT + 4, 4 * UNIT)],
)
def test_memory_of_several_mappings_is_mapped_side_by_side(
    lender: Worker, worker: Worker, start: int, stop: int
):
    """An array that lies across their borders is whole in the other process, and one memory."""
    sizes = [UNIT, 2 * UNIT, UNIT]
    ticket = wrapped(lender, sizes, start, stop)
    worker.run("lease = gpulend.claim(ticket)", ticket=ticket)
    found = worker.get("lease.to_host()")
    assert np.array_equal(found, np.arange(start // 4, stop // 4, dtype="int32"))
    worker.run("lease[-1] = -7; gpulend.synchronize()")
    assert lender.get("int(part[-1].item())") == -7
    worker.run("del lease")
    lender.run("del part, whole; gpulend._native.withdraw_ticket(ticket)", ticket=ticket)
    lender.run(f"unmap(base, {sum(sizes)})")


def test_mappings_are_closed_with_the_last_claim(lender: Worker, worker: Worker):
    """They are mapped once for several claims, and unmapped: addresses do not run out."""
    sizes = [UNIT, UNIT]
    ticket = wrapped(lender, sizes, 0, 2 * UNIT)
    worker.run("a, b = gpulend.claims([ticket, ticket])", ticket=ticket)
    assert worker.get("a.address == b.address")
    worker.run("del a; b.to_host(); del b; gpulend.synchronize()")
    for _ in range(50):
        worker.run("gpulend.claim(ticket).to_host()", ticket=ticket)
    mine = "[entry.who for entry in gpulend.ledger() if entry.who.startswith('process')]"
    eventually(lambda: lender.get(mine) == [], "the claims ended")


def test_mappings_outlive_a_killed_lender(worker: Worker):
    """The driver keeps what somebody has mapped."""
    with Worker(MAPPED) as lender:
        ticket = wrapped(lender, [UNIT, UNIT], 0, 2 * UNIT)
        worker.run("lease = gpulend.claim(ticket)", ticket=ticket)
        lender.kill()
    assert int(worker.get("lease.to_host()[-1]")) == 2 * UNIT // 4 - 1
    with pytest.raises(RemoteError, match="LenderGoneError 1105"):
        worker.run("gpulend.claim(ticket)", ticket=ticket)
    worker.run("del lease")


def test_other_mappings_at_the_same_place_are_another_memory(lender: Worker, worker: Worker):
    """A ticket is of the memory that was mapped when it was made."""
    first = wrapped(lender, [UNIT], 0, UNIT)
    worker.run("old = gpulend.claim(ticket)", ticket=first)
    lender.run(
        """
        del part, whole
        gpulend._native.withdraw_ticket(first)
        check(cu.cuMemUnmap(base, UNIT))
        handle = create(UNIT)
        check(cu.cuMemMap(base, UNIT, 0, handle, 0))
        check(allow(base, UNIT))
        whole = gpulend.wrap(base, UNIT // 4, "int32", device="cuda:0", unowned=True)
        whole.fill(9)
        result = whole.ticket()
        """,
        first=first,
    )
    second = lender.get("whole.ticket()")
    worker.run("new = gpulend.claim(ticket)", ticket=second)
    assert worker.get("int(new[5].item()), int(old[5].item())") == (9, 5)
    worker.run("del old, new")


def test_pinned_memory_of_gpulend_can_be_opened_elsewhere(worker: Worker):
    """What `to_host(pinned=True)` made."""
    source = gpulend.from_host(np.arange(1000, dtype="int32"))
    array = source.to_host(pinned=True)
    lease = gpulend.borrow(array)
    ticket = lease.ticket(claims=1)
    worker.run("lease = gpulend.claim(ticket)", ticket=ticket)
    assert np.array_equal(worker.get("lease.to_host()"), np.arange(1000))
    worker.run("lease[3] = -1")
    assert array[3] == -1
    # The memory is not used again while the other process has it.
    del lease, array
    again = source.to_host(pinned=True)
    again[:] = 0
    assert worker.get("int(lease[5].item())") == 5
    worker.run("del lease")
    del again, source
    eventually(lambda: not held(), "the claim ended")
