"""Leases read by NIXL from another process: registered memory, one-sided reads, named errors."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import gpulend
import numpy as np
import pytest

from .conftest import REAL, held, need
from .test_kills import SOON
from .test_tickets import NUMBERS
from .worker import RemoteError, Worker, eventually

need("nixl_cu13")

import gpulend.nixl  # noqa: E402  NIXL may be missing

OFFER = """
    lease = gpulend.empty(values.shape, values.dtype, device)
    lease.copy_from(values)
    result = agent.offer(lease)
"""
START = "import gpulend.nixl; agent = gpulend.nixl.Agent()"


@pytest.fixture(scope="module")
def agent() -> Iterator[gpulend.nixl.Agent]:
    """Give the agent that reads."""
    with gpulend.nixl.Agent() as made:
        yield made


@pytest.fixture(scope="module")
def lender() -> Iterator[Worker]:
    """Give a process with an agent that offers."""
    with Worker(START) as made:
        yield made


def left(lender: Worker) -> list[str]:
    """Say what the lender lends."""
    return lender.get("[entry.who for entry in gpulend.ledger() if entry.kind == 'export'][1:]")


def test_a_lease_is_read_where_a_card_is(agent: Any, lender: Worker, device: str):
    """Into new memory of the same kind, or of another."""
    before = reads()
    card = lender.run(OFFER, values=NUMBERS, device=device)
    assert left(lender) == ["NIXL"]
    found = agent.read(card)
    assert (found.device, found.dtype) == (device, "int32")
    assert np.array_equal(found.to_host(), NUMBERS)
    assert np.array_equal(agent.read(card, device="cpu").to_host(), NUMBERS)
    assert reads() == before + 2
    # It is a copy, and the next read another.
    lender.run("lease.copy_from(values + 1)")
    assert np.array_equal(found.to_host(), NUMBERS)
    assert np.array_equal(agent.read(card).to_host(), NUMBERS + 1)
    assert lender.get("agent.withdraw(card)", card=card) is True
    assert lender.get("agent.withdraw(card)") is False
    assert left(lender) == []


def test_a_lease_of_mine_takes_the_bytes(agent: Any, lender: Worker, device: str):
    """What it held before is gone, and nothing around it; what does not fit is refused."""
    card = lender.run(OFFER, values=NUMBERS, device=device)
    room = gpulend.full((4, 3, 4), -1, "int32", device)
    assert agent.read(card, into=room[1:3]).address == room[1:3].address
    expected = np.full((4, 3, 4), -1, "int32")
    expected[1:3] = NUMBERS
    assert np.array_equal(room.to_host(), expected)
    for wrong in (room, room[1:3].view("float32"), room[::2], room[1:3].T):
        with pytest.raises(gpulend.ProtocolError, match="wanted is int32"):
            agent.read(card, into=wrong)
    with pytest.raises(gpulend.ExportError, match="read-only"):
        agent.read(card, into=room[1:3].as_readonly())
    assert np.array_equal(room.to_host(), expected)
    lender.run("agent.withdraw(card)", card=card)


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "complex64", "int4"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 4)])
def test_every_element_type_and_shape_is_read(
    agent: Any, lender: Worker, dtype: str, shape: tuple[int, ...]
):
    """Also an array without elements, which has no memory."""
    make = "lease = gpulend.empty(shape, dtype); card = agent.offer(lease)"
    lender.run(make, shape=shape, dtype=dtype)
    found = agent.read(lender.get("card"))
    assert (found.shape, found.dtype) == (shape, dtype)
    lender.run("agent.withdraw(card)")


def test_the_bytes_of_work_that_was_queued_are_there(agent: Any, lender: Worker):
    """An offer waits for the streams of its lease: NIXL knows none."""
    queue = """
        stream = gpulend.Stream()
        with stream:
            lease = gpulend.zeros(1 << 20, "int32")
            for value in range(1, 50):
                lease.fill(value)
        result = agent.offer(lease)
    """
    found = agent.read(lender.run(queue)).to_host()
    assert found.min() == found.max() == 49
    lender.run("agent.close(); agent = gpulend.nixl.Agent()")


def test_strides_are_refused_with_the_way_out(lender: Worker):
    """One read is of memory without gaps."""
    with pytest.raises(RemoteError, match=r"ProtocolError 253: .*empty_like"):
        lender.run("agent.offer(gpulend.zeros((4, 4))[:, 1])")
    assert left(lender) == []


def test_what_is_offered_is_held(agent: Any):
    """By name in the ledger, until it is withdrawn; one's own card is a copy."""
    lease = gpulend.full(3, 7, "int32")
    card = agent.offer(lease)
    with pytest.raises(gpulend.StillLentError, match="NIXL"):
        lease.release()
    assert agent.read(card).to_host().tolist() == [7, 7, 7]
    agent.withdraw(card)
    lease.release()


def test_a_withdrawn_card_is_refused_by_name(agent: Any, lender: Worker):
    """Its memory may be another's by then, and its seal too."""
    card = lender.run(OFFER, values=NUMBERS, device="cuda:0")
    lender.run("agent.withdraw(card); del lease", card=card)
    again = lender.run(OFFER, values=NUMBERS, device="cuda:0")
    with pytest.raises(gpulend.TicketExpiredError, match="withdrawn"):
        agent.read(card)
    assert np.array_equal(agent.read(again).to_host(), NUMBERS)
    lender.run("agent.withdraw(card)", card=again)


def _said(card: bytes, old: bytes, new: bytes) -> bytes:
    """Return a card that says something else, and is whole."""
    start = len(b"gpulend card 1\n")
    said = card[start + 32 :].replace(old, new)
    return card[:start] + hashlib.sha256(said).digest() + said


def test_what_is_not_a_card_is_refused(agent: Any, lender: Worker):
    """Cut anywhere, changed, or something else: no code runs, and no memory is read."""
    card = lender.run(OFFER, values=NUMBERS, device="cpu")
    wrong = [b"", b"x" * 300, card[:100], card[: len(card) - 1], b"gpulend card 1\n[]"]
    wrong += [
        _said(card, b'"shape": [2, 3, 4]', shape)
        for shape in (b'"shape": [2, 3, 5]', b'"shape": [-2, 3, 4]', b'"shape": 4')
    ]
    wrong += [_said(card, b'"DRAM"', b'"FILE"'), _said(card, b'"int32"', b'"int33"')]
    wrong += [
        _said(card, b'"shape": [2, 3, 4]', shape)
        for shape in (b'"shape": [1e999]', b'"shape": [1, 1e19]', b'"shape": ' + b"[" * 200_000)
    ]
    wrong += [_said(card, b'"device": "cpu"', b'"device": "cuda:x"')]
    # NIXL would take over some of these, and then no longer know the agent.
    places = range(15, len(card), 29)
    wrong += [card[:at] + bytes([card[at] ^ 1]) + card[at + 1 :] for at in places]
    for data in wrong:
        assert data != card
        with pytest.raises(gpulend.Error) as caught:
            agent.read(data)
        assert isinstance(caught.value, (gpulend.TicketError, gpulend.ProtocolError))
    assert np.array_equal(agent.read(card).to_host(), NUMBERS)
    lender.run("agent.withdraw(card)", card=card)


def test_an_offer_that_fails_leaves_nothing(agent: Any, monkeypatch: pytest.MonkeyPatch):
    """Whether NIXL has no metadata for it, or another thread closes the agent meanwhile."""
    lease = gpulend.full(5, 7, "int32", device="cpu")
    free = len(agent._free)

    def fails(*_: Any, **__: Any) -> bytes:
        raise RuntimeError("no metadata")

    monkeypatch.setattr(agent, "_agent", _Otherwise(agent._agent, fails))
    with pytest.raises(RuntimeError, match="no metadata"):
        agent.offer(lease)
    monkeypatch.undo()
    assert len(agent._free) == free
    lease.release()
    late = gpulend.full(5, 7, "int32", device="cpu")
    with gpulend.nixl.Agent() as other:
        whole = other._agent.get_partial_agent_metadata

        def closes(*given: Any, **options: Any) -> bytes:
            other.close()
            return whole(*given, **options)

        monkeypatch.setattr(other, "_agent", _Otherwise(other._agent, closes))
        with pytest.raises(gpulend.TicketError, match="closed"):
            other.offer(late)
    late.release()


class _Otherwise:
    """NIXL's agent with another function for metadata."""

    def __init__(self, agent: Any, metadata: Any) -> None:
        self._agent = agent
        self.get_partial_agent_metadata = metadata

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)


def test_a_killed_lender_is_named(agent: Any):
    """Whether it was read before or not; nothing hangs, and nothing is held."""
    with Worker(START) as victim:
        cards = [victim.run(OFFER, values=NUMBERS, device="cuda:0") for _ in range(2)]
        found = agent.read(cards[0])
        victim.kill()
    before = time.monotonic()
    for card in (*cards, *cards):
        with pytest.raises(gpulend.LenderGoneError, match="cannot be read"):
            agent.read(card)
    with gpulend.nixl.Agent() as other, pytest.raises(gpulend.LenderGoneError):
        other.read(cards[0])
    assert time.monotonic() - before < SOON
    assert np.array_equal(found.to_host(), NUMBERS)
    del found, other
    eventually(lambda: held() == [], "nothing is held for reads that failed", SOON)


def test_a_killed_reader_takes_nothing_along(agent: Any, lender: Worker):
    """It held nothing at the lender."""
    card = lender.run(OFFER, values=NUMBERS, device="cuda:0")
    with Worker(START) as victim:
        victim.run("for _ in range(20): kept = agent.read(card)", card=card)
        victim.start("while True: agent.read(card)")
        time.sleep(0.1)
        victim.kill()
    assert np.array_equal(agent.read(card).to_host(), NUMBERS)
    assert lender.get("agent.withdraw(card)", card=card) is True
    assert left(lender) == []


@pytest.mark.skipif(REAL, reason="a stopped process answers for its GPU memory all the same")
def test_a_lender_that_does_not_answer_is_given_up():
    """After the time that the caller gives; later it is read."""
    with Worker(START) as stopped, gpulend.nixl.Agent() as fresh:
        card = stopped.run(OFFER, values=NUMBERS, device="cuda:0")
        stopped.stop()
        before = time.monotonic()
        with pytest.raises(gpulend.LenderGoneError, match=r"within 0\.5 s"):
            fresh.read(card, timeout=0.5)
        assert time.monotonic() - before < SOON
        os.kill(stopped.pid, signal.SIGCONT)
        assert np.array_equal(fresh.read(card).to_host(), NUMBERS)
        stopped.run("agent.close()")


def reads() -> int:
    """Count the leases that came by NIXL."""
    return sum(one.leases for one in gpulend.ledger().carried if one.carrier == "NIXL")
