"""A process that is killed loses its own memory, and nothing else: nobody hangs, nothing leaks."""

from __future__ import annotations

import os
import signal
import time

import gpulend
import numpy as np
import pytest

from .conftest import SOCKETS, held
from .test_tickets import NUMBERS, READ, shared
from .worker import RemoteError, Worker, eventually

SOON = 5
"""Seconds within which everything that a death causes has happened."""

MAKE = """
    lease = gpulend.empty((2, 3, 4), "int32", device, shared=True)
    lease.copy_from(np.arange(24, dtype="int32").reshape(2, 3, 4))
    result = lease.ticket()
"""


def test_a_killed_borrower_gives_back_what_it_held(device: str):
    """Its claims end when its process has, without a word from it."""
    lease = shared(NUMBERS, device)
    with Worker() as worker:
        worker.run("all = gpulend.claims(tickets)", tickets=gpulend.tickets(lease, claims=1))
        assert held().count(f"export process {worker.pid}") == 2
        worker.kill()
    eventually(lambda: held() == ["lease gpulend"], "its claims ended", SOON)
    lease.release()


def test_a_borrower_goes_on_after_its_lender_was_killed(device: str):
    """What it has open stays; what it has not is refused by name, and the socket is removed."""
    with Worker() as lender, Worker() as worker:
        ticket = lender.run(MAKE, device=device)
        worker.run("lease = gpulend.claim(ticket)", ticket=ticket)
        lender.kill()
        assert np.array_equal(worker.get("lease.to_host()"), NUMBERS)
        worker.run("lease[0] = 5; result = lease.to_host()")
        before = time.monotonic()
        with pytest.raises(RemoteError, match="LenderGoneError 1105"):
            worker.run("gpulend.claim(ticket)")
        with pytest.raises(RemoteError, match="LenderGoneError 1105"):
            worker.run("lease.ticket()")
        assert time.monotonic() - before < SOON
        worker.run("lease.release()")
    with pytest.raises(gpulend.LenderGoneError):
        gpulend.claim(ticket)
    assert not (SOCKETS / ticket[24:40].hex()).exists()


# Stands between a borrower and a lender, and kills the lender when that has granted a claim.
BETWEEN = """
    import os, select, signal, socket
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(own)
    listener.listen()

    def stand():
        borrower, _ = listener.accept()
        question = borrower.recv(4096).replace(bytes.fromhex(os.path.basename(own)), lender)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.connect(os.path.join(os.path.dirname(own), lender.hex()))
            other.send(question)
            answer, descriptors, _, _ = socket.recv_fds(other, 4096, 4)
            ended = os.pidfd_open(pid)
            os.kill(pid, signal.SIGKILL)
            select.select([ended], [], [])
        socket.send_fds(borrower, [answer], descriptors)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_lender_that_dies_after_its_grant_is_named():
    """The driver cannot open what has gone; its error would not say why."""
    with Worker() as lender:
        ticket = lender.run(MAKE, device="cuda:0")
        name = bytes(range(16))
        where = SOCKETS / name.hex()
        between = Worker()
        try:
            values = {"own": str(where), "lender": ticket[24:40], "pid": lender.pid}
            between.run(BETWEEN, **values)
            between.start("stand()")
            with pytest.raises(gpulend.LenderGoneError, match="its process has ended"):
                gpulend.claim(ticket[:24] + name + ticket[40:])
        finally:
            between.kill()
            where.unlink(missing_ok=True)
            lender.kill()


def test_a_killed_forwarder_takes_nothing_along(worker: Worker, device: str):
    """What it sent on is claimed at the lender."""
    lease = shared(NUMBERS, device)
    with Worker() as forwarder:
        forwarder.run("lease = gpulend.claim(ticket)", ticket=lease.ticket(claims=1))
        forwarded = forwarder.get("lease[1].ticket(claims=1)")
        forwarder.kill()
    eventually(lambda: len(held()) == 2, "the forwarder's claim ended, its ticket did not", SOON)
    assert np.array_equal(worker.run(READ, ticket=forwarded), NUMBERS[1])


def test_a_lender_that_does_not_answer_is_given_up(device: str):
    """A stopped process is as good as gone; the next claim after it goes on works."""
    with Worker() as lender:
        ticket = lender.run(MAKE, device=device)
        lender.stop()
        before = time.monotonic()
        with pytest.raises(gpulend.LenderGoneError, match="does not answer"):
            gpulend.claim(ticket)
        assert time.monotonic() - before < SOON
        os.kill(lender.pid, signal.SIGCONT)
        assert np.array_equal(gpulend.claim(ticket).to_host(), NUMBERS)
        # What it granted meanwhile, to a connection that was given up, has ended with that.
        left = "[entry.who for entry in gpulend.ledger() if entry.who.startswith('process')]"
        eventually(lambda: lender.get(left) == [], "nothing is held for a broken connection")


FULL = """
    import os, resource, time
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd")) - 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened if one else 3, limits[1]))
"""


@pytest.mark.parametrize("one", [True, False])
def test_a_lender_without_descriptors_refuses_and_does_not_spin(device: str, one: bool):
    """With one left it cannot watch a borrower, without any not accept one. Later it answers."""
    with Worker() as lender, Worker() as worker:
        ticket = lender.run(MAKE, device=device)
        lender.run(FULL, one=one)
        before = lender.get("time.process_time()")
        with pytest.raises(RemoteError, match="LenderGoneError 1105"):
            worker.run("gpulend.claim(ticket)", ticket=ticket)
        assert lender.get("time.process_time()") - before < 1
        lender.run("resource.setrlimit(resource.RLIMIT_NOFILE, limits)")
        read = "result = gpulend.claim(ticket).to_host()"
        assert np.array_equal(worker.run(read, ticket=ticket), NUMBERS)


def test_a_lender_that_is_killed_while_it_is_asked_is_noticed_at_once(device: str):
    """The wait for an answer ends with the process."""
    with Worker() as lender, Worker() as worker:
        ticket = lender.run(MAKE, device=device)
        lender.stop()
        worker.start("gpulend.claim(ticket)", ticket=ticket)
        time.sleep(0.2)
        lender.kill()
        before = time.monotonic()
        with pytest.raises(RemoteError, match="LenderGoneError 1105"):
            worker.finish()
        assert time.monotonic() - before < 2


FORK = """
    import os, time
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    result = child
"""


def test_a_forked_child_does_not_stand_for_its_parent():
    """It has copies of all sockets and answers nothing: the dead, of both sides, are dead."""
    children = []
    lease = shared(NUMBERS, "cpu")
    try:
        with Worker() as lender, Worker() as borrower:
            ticket = lender.run(MAKE, device="cpu")
            borrower.run("mine = gpulend.claim(ticket)", ticket=ticket)
            borrower.run("yours = gpulend.claim(other)", other=lease.ticket(claims=1))
            children += [lender.run(FORK), borrower.run(FORK)]
            lender.kill()
            before = time.monotonic()
            with pytest.raises(RemoteError, match="LenderGoneError"):
                borrower.run("gpulend.claim(ticket)")
            with pytest.raises(gpulend.LenderGoneError):
                gpulend.claim(ticket)
            assert time.monotonic() - before < SOON
            borrower.kill()
            eventually(lambda: held() == ["lease gpulend"], "the borrower's claim ended", SOON)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)


IN_CHILD = """
    import os, sys
    ends, begins = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        try:
            own = gpulend.zeros(3, "int32", device="cpu", shared=True)
            said.append(gpulend.claim(own.ticket()).shape)
            said.append(gpulend.claim(ticket).to_host().sum())
            {more}
        except BaseException as error:
            said.append(repr(error))
        os.write(begins, repr(said).encode())
        os._exit(0)
    os.waitpid(child, 0)
    result = os.read(ends, 1000).decode()
"""


def test_a_forked_child_lends_and_borrows_by_itself():
    """It has a socket of its own, and leaves its parent's alone."""
    with Worker() as lender:
        ticket = lender.run(MAKE, device="cpu")
        said = lender.run(IN_CHILD.format(more="del lease"), ticket=ticket)
        assert said == f"[(3,), np.int64({NUMBERS.sum()})]"
        assert np.array_equal(gpulend.claim(ticket).to_host(), NUMBERS)
    lease = shared(NUMBERS, "cpu")
    with Worker() as borrower:
        borrower.run("lease = gpulend.claim(first)", first=lease.ticket(claims=1))
        ticket = lease.ticket(claims=1)
        more = "said.append(lease.to_host().sum()); del lease"
        said = borrower.run(IN_CHILD.format(more=more), ticket=ticket)
        assert said == f"[(3,), np.int64({NUMBERS.sum()}), np.int64({NUMBERS.sum()})]"
        # The child's end is not the end of its parent's claim.
        time.sleep(0.1)
        assert f"export process {borrower.pid}" in held()
        assert np.array_equal(borrower.get("lease.to_host()"), NUMBERS)


def test_sockets_of_killed_processes_are_swept():
    """The next process that lends removes them."""
    with Worker() as lender:
        ticket = lender.run(MAKE, device="cpu")
        file = SOCKETS / ticket[24:40].hex()
        lender.kill()
    assert file.exists()
    with Worker() as next_one:
        next_one.run(MAKE, device="cpu")
        assert not file.exists()


def test_sockets_of_processes_that_were_killed_before_they_listened_are_swept():
    """Those of processes that live, or that cannot be looked at, stay."""
    namespace = os.stat("/proc/self/ns/pid").st_ino
    with Worker() as lender:
        lender.run(MAKE, device="cpu")
        ended = lender.pid
        lender.kill()
    makers = [(namespace, ended), (namespace, os.getpid()), (namespace + 1, ended)]
    files = [SOCKETS / f"new-{there}-{process}-{'0' * 32}" for there, process in makers]
    try:
        for file in files:
            file.touch()
        with Worker() as next_one:
            next_one.run(MAKE, device="cpu")
        assert [file.exists() for file in files] == [False, True, True]
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def test_children_of_multiprocessing_remove_their_sockets(tmp_path):
    """They end without Python's exit functions."""
    with Worker() as one:
        one.run(
            """
            import multiprocessing, os
            from processes import children
            context = multiprocessing.get_context("spawn")
            with context.Pool(1) as pool:
                result = bytes(pool.apply(children.lend))
                pool.close()
                pool.join()
            """
        )
    assert not [file for file in SOCKETS.iterdir() if not _is_mine(file.name)]


def _is_mine(name: str) -> bool:
    lease = gpulend.zeros(1, device="cpu", shared=True)
    ticket = lease.ticket(claims=1)
    ticket.withdraw()
    return ticket[24:40].hex() == name


def test_lenders_that_do_not_answer_are_waited_for_at_once(worker: Worker):
    """Three of them take as long as one."""
    with Worker() as one, Worker() as two, Worker() as three:
        lend = "x = gpulend.zeros(3, device='cpu', shared=True); result = x.ticket()"
        tickets = [each.run(lend) for each in (one, two, three)]
        try:
            for each in (one, two, three):
                each.stop()
            before = time.monotonic()
            with pytest.raises(RemoteError, match="LenderGoneError 1105"):
                worker.run("gpulend.claims(tickets)", tickets=tickets)
            assert time.monotonic() - before < 7
        finally:
            for each in (one, two, three):
                each.process.send_signal(signal.SIGCONT)
