"""What is not a ticket, or no longer, is refused by name; other users are; nothing hangs."""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import gpulend
import numpy as np
import pytest

from .conftest import SOCKETS, held
from .test_tickets import NUMBERS, READ, shared
from .worker import RemoteError, Worker, eventually


@pytest.fixture
def ticket(device: str):
    """Give a ticket of this process, and its lease."""
    lease = shared(NUMBERS, device)
    made = lease.ticket()
    yield bytes(made)
    made.withdraw()


def test_a_cut_ticket_is_refused(ticket: bytes):
    """At every length."""
    for end in range(len(ticket)):
        with pytest.raises(gpulend.TicketError) as caught:
            gpulend.claim(ticket[:end])
        assert caught.value.code == 1101


@pytest.mark.parametrize("data", [b"", b"x", b"GLTK", b"\0" * 200, b"GLTK\1\0" * 1000])
def test_other_bytes_are_refused(data: bytes):
    """Whatever they are."""
    with pytest.raises(gpulend.TicketError):
        gpulend.claim(data)
    with pytest.raises(gpulend.TicketError):
        gpulend.Ticket(data)


def test_what_has_no_bytes_is_a_type_error():
    """A number is not so many zeros."""
    for wrong in (5, None, "text", object()):
        with pytest.raises(TypeError):
            gpulend.claim(wrong)


def test_a_changed_ticket_is_refused_wherever_it_was_changed(ticket: bytes, worker: Worker):
    """Its lender compares every bit; the original works afterwards."""
    allowed = {
        "TicketError",
        "TicketVersionError",
        "WrongMachineError",
        "LenderGoneError",
        "DeviceNotVisibleError",
    }
    worker.run(
        """
        found = {}
        for at in range(len(ticket)):
            changed = bytearray(ticket)
            changed[at] ^= 1 << at % 8
            try:
                gpulend.claim(changed)
            except gpulend.Error as error:
                found[at] = (type(error).__name__, error.code)
            else:
                found[at] = ("none", 0)
        """,
        ticket=ticket,
    )
    found = worker.get("found")
    assert {kind for kind, _ in found.values()} <= allowed, found
    assert {found[at][1] for at in range(48, 64)} == {1102}, "the secret"
    assert found[4] == ("TicketVersionError", 1103)
    assert {found[at][0] for at in range(8, 24)} == {"WrongMachineError"}
    assert {found[at][0] for at in range(24, 40)} == {"LenderGoneError"}
    assert np.array_equal(worker.run(READ, ticket=ticket), NUMBERS)


def test_a_ticket_of_a_process_before_is_refused():
    """A lender that was started again is another one."""
    source = "lease = gpulend.zeros(3, device='cpu', shared=True); result = lease.ticket()"
    with Worker() as before:
        old = before.run(source)
    with Worker() as again:
        new = again.run(source)
        changed = new[:24] + new[24:40] + old[40:64] + new[64:]
        with pytest.raises(gpulend.TicketError) as caught:
            gpulend.claim(changed)
        assert caught.value.code == 1102
        with pytest.raises(gpulend.LenderGoneError):
            gpulend.claim(old)


def test_a_used_ticket_is_not_used_again(worker: Worker, device: str):
    """A replayed message gets nothing."""
    lease = shared(NUMBERS, device)
    ticket = lease.ticket(claims=1)
    worker.run("lease = gpulend.claim(ticket)", ticket=ticket)
    for _ in range(3):
        with pytest.raises(RemoteError, match="TicketExpiredError"):
            worker.run("gpulend.claim(ticket)")
        with pytest.raises(gpulend.TicketExpiredError):
            gpulend.claim(ticket)
    worker.run("lease.release()")


# Claims of a GPU's memory last as long as the process that made them, which is this one.
of_host = pytest.mark.parametrize("device", ["cpu"], indirect=True)


def connect(ticket: bytes) -> socket.socket:
    """Connect to a lender without gpulend."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(5)
    made.connect(str(SOCKETS / ticket[24:40].hex()))
    return made


def claim_message(ticket: bytes, number: int = 1) -> bytes:
    """Write what a borrower sends."""
    return struct.pack("<BBQH", 1, 0, number, len(ticket)) + ticket


@of_host
def test_who_is_refused_gets_no_descriptor(ticket: bytes):
    """Descriptors go with a grant only."""
    with connect(ticket) as peer:
        forged = bytearray(ticket)
        forged[50] ^= 1
        peer.send(claim_message(forged))
        data, descriptors, _, _ = socket.recv_fds(peer, 4096, 4)
        assert (data[0], descriptors) == (6, [])
        peer.send(claim_message(ticket))
        data, descriptors, _, _ = socket.recv_fds(peer, 4096, 4)
        assert data[0] == 4
        for descriptor in descriptors:
            os.close(descriptor)
    eventually(lambda: len(held()) <= 3, "the claim ended with the connection")


def _flood(peer: socket.socket, ticket: bytes) -> None:
    """Claim without end, and read nothing."""
    for number in range(1_000_000):
        peer.send(claim_message(ticket, number))


@of_host
def test_odd_messages_end_the_connection_and_nothing_else(ticket: bytes, worker: Worker):
    """Random ones, long ones, numbers used twice, floods that are never read."""
    choices = random.Random(5)
    for _ in range(300):
        with connect(ticket) as peer:
            data = bytearray(claim_message(ticket))
            for _ in range(choices.randrange(1, 5)):
                data[choices.randrange(len(data))] = choices.randrange(256)
            cut = choices.choice([len(data), choices.randrange(1, len(data))])
            peer.send(data[:cut])
            # The connection may have ended by then.
            with suppress(ConnectionError):
                peer.send(choices.randbytes(choices.randrange(1, 300)))
    with connect(ticket) as peer:
        for message in (claim_message(ticket, 7), claim_message(ticket, 7)):
            peer.send(message)
        answers = [peer.recv(4096), peer.recv(4096)]
        assert [answer[:1] for answer in answers] == [b"\4", b""]
    with connect(ticket) as peer:
        peer.setblocking(False)
        with pytest.raises((BlockingIOError, ConnectionError)):
            _flood(peer, ticket)
    with connect(ticket) as peer:
        peer.send(b"\1" * 65536)
    assert np.array_equal(worker.run(READ, ticket=ticket), NUMBERS)


@of_host
@pytest.mark.parametrize("count", [1, 5, 250])
def test_descriptors_that_nobody_asked_for_are_closed(ticket: bytes, count: int):
    """In this process, which is the lender: as many as the kernel lets somebody send."""
    opened = Path("/proc/self/fd")
    before = len(list(opened.iterdir()))
    with connect(ticket) as peer, open(os.devnull) as sent:
        socket.send_fds(peer, [b"\1"], [sent.fileno()] * count)
        assert peer.recv(4096) == b""
    eventually(lambda: len(list(opened.iterdir())) <= before, "nothing that was sent is open")


def test_many_connections_do_not_shut_others_out(ticket: bytes, worker: Worker):
    """Those beyond the limit are closed; when the others go, there is room again."""
    many = [connect(ticket) for _ in range(200)]
    assert np.array_equal(worker.run(READ, ticket=ticket), NUMBERS)
    for one in many:
        one.close()


def test_offers_are_limited(worker: Worker):
    """A loop that makes tickets stops with a name, and goes on when there is room."""
    with pytest.raises(RemoteError, match="TicketError 1111"):
        worker.run(
            """
            lease = gpulend.zeros(1, device="cpu", shared=True)
            all = []
            while True:
                all.append(lease.ticket())
            """
        )
    assert worker.get("len(all)") == 65536
    worker.run("all.pop().withdraw(); all.append(lease.ticket())")


@pytest.mark.parametrize("what", ["mode", "file"])
def test_a_folder_that_is_not_ours_alone_is_refused(tmp_path, what: str):
    """Others could listen there in a lender's name."""
    folder = tmp_path / "gpulend"
    if what == "mode":
        folder.mkdir()
        folder.chmod(0o755)
    else:
        folder.symlink_to(tmp_path)
    refused = pytest.raises(RemoteError, match="NotPermittedError 1110")
    with Worker(XDG_RUNTIME_DIR=str(tmp_path)) as one, refused:
        one.run("gpulend.zeros(3, device='cpu', shared=True).ticket()")


OTHER_USER = """
    import os, socket, sys
    os.setgid(65534), os.setuid(65534)
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(5)
    try:
        peer.connect(sys.argv[1])
    except PermissionError:
        print("no entry")
        sys.exit()
    try:
        peer.send(bytes.fromhex(sys.argv[2]))
        print(peer.recv(4096))
    except ConnectionError:
        print(b"")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("is_open", [False, True])
def test_another_user_gets_nothing(ticket: bytes, is_open: bool):
    """The folder keeps others out; where it does not, the lender asks who they are."""
    file = SOCKETS / ticket[24:40].hex()
    modes = [(path, path.stat().st_mode) for path in (SOCKETS.parent, SOCKETS, file)]
    try:
        for path, _ in modes if is_open else []:
            path.chmod(0o777)
        arguments = [str(file), claim_message(ticket).hex()]
        program = [sys.executable, "-c", textwrap.dedent(OTHER_USER), *arguments]
        done = subprocess.run(program, capture_output=True, text=True, timeout=20, check=True)
        assert done.stdout.strip() == ("b''" if is_open else "no entry")
    finally:
        for path, mode in modes:
            path.chmod(mode & 0o7777)
