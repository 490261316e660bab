"""Claims that ask nobody: offers and claims in shared memory, and what the lender makes of them."""

from __future__ import annotations

import pickle
import signal
import time

import gpulend
import numpy as np
import pytest

from .conftest import held
from .test_tickets import NUMBERS, _withdraw_all, shared
from .worker import RemoteError, Worker, eventually

LEND = """
    import pickle
    lease = gpulend.empty((4, 100), "int32", device, shared=True)
    lease.copy_from(np.arange(400, dtype="int32").reshape(4, 100))
    gpulend.synchronize()
    result = [pickle.dumps(lease[index]) for index in range(4)]
"""
KNOWN = "import pickle; kept = pickle.loads(data)"
MINE = "sorted(entry.who for entry in gpulend.ledger() if entry.who.startswith('process'))"


@pytest.fixture
def lender():
    """Give a process that lends."""
    with Worker() as made:
        yield made


def test_a_known_lender_is_not_asked(lender: Worker, worker: Worker, device: str):
    """It is stopped, and does not notice; its ledger shows the claims when it goes on."""
    first, second, *_ = lender.run(LEND, device=device)
    worker.run(KNOWN, data=first)
    lender.stop()
    try:
        before = time.monotonic()
        found = worker.run("lease = pickle.loads(data); result = lease.to_host()", data=second)
        assert time.monotonic() - before < 2
    finally:
        lender.process.send_signal(signal.SIGCONT)
    assert np.array_equal(found, np.arange(100, 200))
    assert lender.get(MINE) == [f"process {worker.pid}"] * 2
    worker.run("del lease, kept")
    eventually(lambda: lender.get(MINE) == [], "the claims ended")


def test_such_a_claim_outlives_its_offer(worker: Worker, device: str):
    """The lender enters it before the offer ends, and hears of its end."""
    lease = shared(NUMBERS, device)
    worker.run(KNOWN, data=pickle.dumps(lease[0]))
    worker.run("b = pickle.loads(data)", data=pickle.dumps(lease[1]))
    _withdraw_all(lease)
    assert "export a ticket" not in held()
    assert held().count(f"export process {worker.pid}") == 2
    with pytest.raises(gpulend.StillLentError):
        lease.release()
    del lease
    again = [shared(NUMBERS * 0, device) for _ in range(3)]
    assert np.array_equal(worker.get("b.to_host()"), NUMBERS[1])
    worker.run("del b, kept")
    del again
    eventually(lambda: not held(), f"the claims ended: {held()}")


def test_such_a_claim_ends_with_its_process(device: str):
    """Killed, before and after its claim was entered."""
    for entered in (False, True):
        lease = shared(NUMBERS, device)
        with Worker() as borrower:
            borrower.run(KNOWN, data=pickle.dumps(lease[0]))
            borrower.run("b = pickle.loads(data)", data=pickle.dumps(lease[1]))
            if entered:
                assert held().count(f"export process {borrower.pid}") == 2
            borrower.kill()
        _withdraw_all(lease)
        eventually(lambda: held() == ["lease gpulend"], f"the claims ended: {held()}")
        lease.release()


def test_what_was_withdrawn_is_not_found(lender: Worker, worker: Worker, device: str):
    """Nor what is another ticket, or a changed one."""
    first, second, *_ = lender.run(LEND, device=device)
    worker.run(KNOWN, data=first)
    ticket = lender.get("lease[2].ticket()")
    worker.run("gpulend.claim(ticket)", ticket=ticket)
    for place in (48, 90, len(ticket) - 16):
        changed = bytearray(ticket)
        changed[place] ^= 1
        with pytest.raises(RemoteError, match=r"TicketError 110[12]"):
            worker.run("gpulend.claim(ticket)", ticket=bytes(changed))
    assert lender.get("ticket.withdraw()", ticket=ticket)
    with pytest.raises(RemoteError, match="TicketExpiredError 1104"):
        worker.run("gpulend.claim(ticket)", ticket=ticket)
    assert worker.get("pickle.loads(data).shape", data=second) == (100,)


def test_an_offer_whose_time_is_over_is_not_found(lender: Worker, worker: Worker):
    """Not even while the lender cannot take it off its board."""
    first, *_ = lender.run(LEND, device="cpu")
    worker.run(KNOWN, data=first)
    ticket = lender.get("lease[1].ticket(keep=0.5)")
    lender.stop()
    try:
        assert worker.get("gpulend.claim(ticket).shape", ticket=ticket) == (100,)
        time.sleep(0.6)
        with pytest.raises(RemoteError, match="LenderGoneError 1105"):
            worker.run("gpulend.claim(ticket)", ticket=ticket)
    finally:
        lender.process.send_signal(signal.SIGCONT)
    with pytest.raises(RemoteError, match="TicketExpiredError 1104"):
        worker.run("gpulend.claim(ticket)", ticket=ticket)


def test_a_dead_lender_is_noticed(worker: Worker, device: str):
    """Its board is still there, and its memory open; a claim fails all the same."""
    with Worker() as lender:
        first, second, *_ = lender.run(LEND, device=device)
        worker.run(KNOWN, data=first)
        lender.kill()
    with pytest.raises(RemoteError, match="LenderGoneError 1105"):
        worker.run("pickle.loads(data)", data=second)
    assert np.array_equal(worker.get("kept.to_host()"), np.arange(100))


def test_a_lender_that_ends_leaves_what_was_claimed(worker: Worker, device: str):
    """As a program ends: memory that others have is not freed before."""
    with Worker() as lender:
        first, second, *_ = lender.run(LEND, device=device)
        worker.run(KNOWN, data=first)
        worker.run("b = pickle.loads(data)", data=second)
        lender.end()
    assert np.array_equal(worker.get("b.to_host()"), np.arange(100, 200))
    worker.run("del b, kept")


def test_more_claims_than_a_log_holds(lender: Worker, worker: Worker):
    """The rest is asked for, and all end."""
    first, second, *_ = lender.run(LEND, device="cpu")
    worker.run(KNOWN, data=first)
    worker.run("all = [pickle.loads(data) for _ in range(4500)]", data=second)
    assert worker.get("{int(one[1].item()) for one in all[::100]}") == {101}
    assert lender.get(f"len({MINE})") == 4501
    worker.run("del all, kept")
    eventually(lambda: lender.get(MINE) == [], "all ended")


def test_ends_that_a_full_queue_has_no_room_for(lender: Worker, worker: Worker):
    """They are sent when the lender reads again, although no other message follows."""
    first, second, *_ = lender.run(LEND, device="cpu")
    worker.run(KNOWN, data=first)
    worker.run("all = [pickle.loads(data) for _ in range(3000)]", data=second)
    assert lender.get(f"len({MINE})") == 3001
    lender.stop()
    try:
        worker.run("del all, kept")
    finally:
        lender.process.send_signal(signal.SIGCONT)
    eventually(lambda: lender.get(MINE) == [], "all ended")


def test_a_claim_by_the_board_is_sent_on(
    lender: Worker, worker: Worker, other: Worker, device: str
):
    """The lender enters it when it is asked for a ticket of it."""
    first, second, *_ = lender.run(LEND, device=device)
    worker.run(KNOWN, data=first)
    data = worker.run("b = pickle.loads(data); result = pickle.dumps(b[5:])", data=second)
    found = other.run("import pickle; result = pickle.loads(data).to_host()", data=data)
    assert np.array_equal(found, np.arange(105, 200))


def test_messages_with_the_same_array_share_an_offer(worker: Worker, device: str):
    """It lasts from the last of them; other arrays are other offers."""
    lease = shared(NUMBERS, device)
    gpulend.synchronize()
    first = pickle.dumps(lease[0])
    assert pickle.dumps(lease[0]) == first
    assert pickle.dumps(lease[1]) != first
    count = held().count("export a ticket")
    for _ in range(100):
        pickle.dumps(lease[0])
    assert held().count("export a ticket") == count
    _withdraw_all(lease)
    assert pickle.dumps(lease[0]) != first
    with pytest.raises(RemoteError, match="1104"):
        worker.run("import pickle; pickle.loads(data)", data=first)
    _withdraw_all(lease)


def test_a_forked_child_ends_no_claim_of_its_parent(lender: Worker, worker: Worker):
    """It has a copy of the log's pages, and does not touch them."""
    first, second, *_ = lender.run(LEND, device="cpu")
    worker.run(KNOWN, data=first)
    worker.run(
        """
        import os
        b = pickle.loads(data)
        child = os.fork()
        if child == 0:
            del b, kept
            os._exit(0)
        os.waitpid(child, 0)
        """,
        data=second,
    )
    assert lender.get(MINE) == [f"process {worker.pid}"] * 2
    assert np.array_equal(worker.get("b.to_host()"), np.arange(100, 200))


def test_threads_claim_and_drop_at_once(lender: Worker, worker: Worker, device: str):
    """While offers end: no claim is lost, and none stays."""
    messages = lender.run(LEND, device=device)
    worker.run(KNOWN, data=messages[0])
    lender.run(
        """
        import threading, time
        stop = False
        def settle():
            while not stop:
                gpulend.ledger()
                lease[3].ticket(keep=0.01)
                time.sleep(0.001)
        thread = threading.Thread(target=settle)
        thread.start()
        """
    )
    worker.run(
        """
        from concurrent.futures import ThreadPoolExecutor
        def once(index):
            found = pickle.loads(messages[index % 4])
            assert int(found[7].item()) == 100 * (index % 4) + 7
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(once, range(1500)))
        """,
        messages=messages,
    )
    lender.run("stop = True; thread.join()")
    eventually(lambda: lender.get(MINE) == [f"process {worker.pid}"], "all others ended")
