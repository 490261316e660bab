"""Bytes that are not ready yet are waited for by streams: no host waits, and no death hangs one."""

from __future__ import annotations

import os
import time

import gpulend
import pytest

from .conftest import held
from .worker import RemoteError, Worker, eventually

SIZE = 1 << 16
ROUNDS = int(os.environ.get("GPULEND_TEST_ROUNDS", "20"))
LATE = f"""
    from driver.resources import Gate, start
    start()
    gate, stream = Gate(), gpulend.Stream()
    lease = gpulend.zeros({SIZE}, "int32", device="cuda:0", shared=True)
    gpulend.synchronize()
    gate.hold(stream.handle)
    with stream:
        lease.fill(7)
    result = lease.ticket()
"""


@pytest.fixture
def lender():
    """Give a process that makes late tickets."""
    with Worker() as made:
        yield made
        if made.process.poll() is None:
            made.run("'gate' in globals() and gate.open(); gpulend.synchronize()")


def test_nobody_waits_on_the_host_for_late_bytes(lender: Worker, worker: Worker):
    """Ticket and claim return at once; what reads the bytes waits."""
    before = time.monotonic()
    ticket = lender.run(LATE)
    worker.run("lease = gpulend.claim(ticket); ready = lease._is_ready()", ticket=ticket)
    worker.run("copy = gpulend.empty_like(lease); copy.copy_from(lease)")
    assert not worker.get("ready")
    assert time.monotonic() - before < 5
    worker.start("result = copy.to_host()")
    time.sleep(0.2)
    assert not worker.connection.poll(0), "the copy came before the bytes"
    lender.run("gate.open()")
    assert (worker.finish() == 7).all()
    assert (worker.get("lease.to_host()") == 7).all()
    assert worker.get("lease._is_ready()")
    worker.run("del lease, copy")


def test_bytes_that_are_ready_are_not_waited_for(lender: Worker, worker: Worker):
    """No number is sent, and the lease is ready at once."""
    ticket = lender.run(LATE + "\n    gate.open(); gpulend.synchronize(); result = lease.ticket()")
    assert worker.get("gpulend.claim(ticket)._is_ready()", ticket=ticket)


def test_a_number_that_has_come_is_not_waited_for(lender: Worker, worker: Worker):
    """A late ticket that is claimed later still."""
    ticket = lender.run(LATE)
    lender.run("gate.open(); gpulend.synchronize()")
    assert worker.get("gpulend.claim(ticket)._is_ready()", ticket=ticket)


def test_one_late_array_does_not_hold_another_back(lender: Worker, worker: Worker):
    """Each has a number, and a stream, of its own."""
    first = lender.run(LATE)
    second = lender.run(
        """
        other_gate, other_stream = Gate(), gpulend.Stream()
        other = gpulend.zeros(5, "int32", device="cuda:0", shared=True)
        gpulend.Stream().synchronize()
        other_gate.hold(other_stream.handle)
        with other_stream:
            other.fill(8)
        result = other.ticket()
        """
    )
    worker.run("a, b = gpulend.claims(tickets)", tickets=[first, second])
    lender.run("other_gate.open()")
    assert (worker.get("b.to_host()") == 8).all()
    assert not worker.get("a._is_ready()")
    lender.run("gate.open()")
    assert (worker.get("a.to_host()") == 7).all()
    worker.run("del a, b")


def test_a_lender_that_dies_before_its_bytes_came_hangs_nobody(worker: Worker):
    """Streams go on, the call that waits says so by name, and so does every later one."""
    with Worker() as lender:
        ticket = lender.run(LATE)
        worker.run("lease = gpulend.claim(ticket)", ticket=ticket)
        worker.start("lease.to_host()")
        time.sleep(0.2)
        assert not worker.connection.poll(0)
        lender.kill()
        before = time.monotonic()
        with pytest.raises(RemoteError, match=f"LenderGoneError 1106.*process {lender.pid}"):
            worker.finish()
        assert time.monotonic() - before < 5
    for use in ("lease.to_host()", "lease.__dlpack__()", "lease.ticket()", "lease[0].item()"):
        with pytest.raises(RemoteError, match="LenderGoneError"):
            worker.run(use)
    # The process goes on: its memory is given back, and its streams have ended.
    worker.run("del lease; gpulend.synchronize()")
    eventually(lambda: worker.get("len(gpulend.ledger())") == 0, "nothing is held")


def test_a_lease_that_was_dropped_while_it_waited_is_released(lender: Worker, worker: Worker):
    """After its bytes have come: the release waits for the streams, on no thread of the user's."""
    ticket = lender.run(LATE)
    lender.run("ticket = None")
    worker.run("lease = gpulend.claim(ticket); target = gpulend.empty_like(lease)", ticket=ticket)
    worker.run("target.copy_from(lease); del lease")
    mine = "[entry.who for entry in gpulend.ledger() if entry.who.startswith('process')]"
    time.sleep(0.1)
    assert lender.get(mine) == [f"process {worker.pid}"]
    lender.run("gate.open()")
    eventually(lambda: lender.get(mine) == [], "the claim ended after its work")
    assert (worker.get("target.to_host()") == 7).all()


def test_memory_comes_back_after_the_borrowers_work(worker: Worker):
    """A borrower's late work on memory that it has dropped is waited for before the claim ends."""
    lease = gpulend.full(SIZE, 3, "int32", device="cuda:0", shared=True)
    worker.run(
        """
        from driver.resources import Gate, start
        start()
        gate, stream = Gate(), gpulend.Stream()
        lease = gpulend.claim(ticket)
        target = gpulend.zeros(lease.shape, "int32")
        gpulend.synchronize()
        gate.hold(stream.handle)
        with stream:
            target.copy_from(lease)
        del lease
        """,
        ticket=lease.ticket(claims=1),
    )
    time.sleep(0.2)
    assert f"export process {worker.pid}" in held()
    worker.run("gate.open()")
    eventually(lambda: len(held()) == 1, "the claim ended")
    assert (worker.get("target.to_host()") == 3).all()


def test_late_bytes_by_many_tickets(lender: Worker, worker: Worker):
    """Slots are used again; nothing is stale."""
    lender.run(
        """
        streams = [gpulend.Stream() for _ in range(4)]
        lease = gpulend.zeros((4, 64), "int32", device="cuda:0", shared=True)
        def late(round):
            part, stream = lease[round % 4], streams[round % 4]
            with stream:
                part.fill(round)
            return part.ticket(claims=1)
        """
    )
    for start in range(0, 200, 4):
        tickets = lender.get(f"[late(round) for round in range({start}, {start + 4})]")
        found = worker.run("result = [x.to_host() for x in gpulend.claims(t)]", t=tickets)
        for offset, array in enumerate(found):
            assert (array == start + offset).all()


def test_the_lender_waits_for_a_late_lease_that_comes_back():
    """In its own process a ticket is ordered as every slice is."""
    stream = gpulend.Stream()
    lease = gpulend.zeros(SIZE, "int32", device="cuda:0", shared=True)
    with stream:
        lease.fill(5)
    same = gpulend.claim(lease.ticket(claims=1))
    assert (same.to_host() == 5).all()


def test_no_reader_overtakes_the_lenders_late_work(lender: Worker, worker: Worker):
    """Round by round, work behind a gate: by tickets that the lender grants, and by its board."""
    lender.run(LATE + "\n    gate.open(); gpulend.synchronize(); import pickle")
    worker.run(f"import pickle; target = gpulend.zeros({SIZE}, 'int32'); gpulend.synchronize()")
    late = """
        gate = Gate()
        gate.hold(stream.handle)
        with stream:
            lease.fill(round)
        result = pickle.dumps(lease) if round % 2 else pickle.dumps(lease.ticket(claims=1))
    """
    read = """
        found = pickle.loads(data)
        found = found if isinstance(found, gpulend.Lease) else gpulend.claim(found)
        target.copy_from(found)
        early = found._is_ready()
        del found
    """
    stale = []
    for round in range(100, 100 + ROUNDS):
        worker.run(read, data=lender.run(late, round=round))
        assert not worker.get("early"), "the gate is still closed"
        lender.run("gate.open()")
        if worker.get("set(target.to_host().tolist())") != {round}:
            stale.append(round)
        lender.run("gpulend.synchronize(); gate.free()")
    assert not stale, f"{len(stale)} of {ROUNDS} rounds read stale bytes"
