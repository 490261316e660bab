"""Processes that lend, borrow and send on, of which a random one is killed at a random time.

`GPULEND_TEST_ROUNDS` says how many are killed; afterwards nothing is held, no socket is left, and
nobody hung.
"""

from __future__ import annotations

import os
import random
import time

import gpulend

from .conftest import SOCKETS, held
from .worker import RemoteError, Worker, eventually

ROUNDS = int(os.environ.get("GPULEND_TEST_ROUNDS", "12"))
SIZE = 1 << 12
SOON = 5
"""No answer may take longer, whichever process has died."""

ROLE = f"""
    import pickle
    stream = gpulend.Stream()
    own = {{}}
    received = []

    def lend(number, device):
        lease = gpulend.empty({SIZE}, "int32", device, shared=True)
        with stream:
            lease.fill(number)
        own[number] = lease
        return pickle.dumps((number, lease[10:]))

    def borrow(data):
        number, lease = pickle.loads(data)
        received.append((number, lease))
        values = lease.to_host()
        assert (values == number).all(), f"{{number}}: stale bytes {{set(values.tolist())}}"

    def forward():
        number, lease = received[-1]
        return pickle.dumps((number, lease[5:]))

    def drop():
        received.clear()
        for number in list(own)[:-2]:
            del own[number]
"""
GONE = {"LenderGoneError", "TicketExpiredError"}


class Party:
    """Three processes; a dead one is replaced."""

    def __init__(self, choices: random.Random) -> None:
        self.choices = choices
        self.members = [Worker(ROLE) for _ in range(3)]
        self.messages: list[bytes] = []
        self.number = 0
        self.kills = 0

    def act(self) -> None:
        """Have a random member do a random thing, and perhaps kill one while it does."""
        actor = self.choices.choice(self.members)
        action = self.choices.choice(
            ["lend", "lend", "borrow", "borrow", "borrow", "forward", "drop"]
        )
        if action == "lend":
            self.number += 1
            device = self.choices.choice(["cpu", "cuda:0"])
            actor.start("result = lend(number, device)", number=self.number, device=device)
        elif action == "borrow" and self.messages:
            actor.start("borrow(data)", data=self.choices.choice(self.messages))
        elif action == "forward":
            actor.start("result = forward() if received else None")
        else:
            actor.start("drop()")
        if self.choices.random() < 0.15:
            victim = self.choices.choice(self.members)
            time.sleep(self.choices.random() * 0.003)
            victim.kill()
            self.kills += 1
            self.members.remove(victim)
            self.members.append(Worker(ROLE))
            if victim is actor:
                return
        before = time.monotonic()
        try:
            message = actor.finish()
        except RemoteError as error:
            if error.kind not in GONE:
                raise
            message = None
        assert time.monotonic() - before < SOON, f"{action} took too long"
        if message is not None:
            self.messages = [*self.messages[-8:], message]

    def end(self) -> None:
        """End all, and see that each held only what it was lent or lends."""
        for member in self.members:
            member.run("own.clear(); received.clear(); gpulend.synchronize()")
            left = "[e.who for e in gpulend.ledger() if e.who not in ('a ticket', 'gpulend')]"
            eventually(
                lambda left=left, of=member: self.is_known(of.get(left)), "claims stay", SOON
            )
        for member in self.members:
            member.end()

    def is_known(self, left: list[str]) -> bool:
        """Whether what is held is held by a member that is still there."""
        alive = {f"process {member.pid}" for member in self.members}
        return all(who in alive or who == "a slice or view" for who in left)


def test_any_process_may_be_killed_at_any_time():
    """Nothing leaks, nobody hangs, no byte is stale."""
    seed = int(os.environ.get("GPULEND_TEST_SEED", str(random.randrange(1 << 32))))
    print(f"GPULEND_TEST_SEED={seed}")
    party = Party(random.Random(seed))
    try:
        while party.kills < ROUNDS:
            party.act()
        party.end()
    finally:
        for member in party.members:
            if member.process.poll() is None:
                member.kill()
    # Sockets of the killed go with the next that lends.
    with Worker() as last:
        last.run("gpulend.zeros(3, device='cpu', shared=True).ticket()")
        mine = {last.get("gpulend.zeros(3, device='cpu', shared=True).ticket()")[24:40].hex()}
        lease = gpulend.zeros(1, device="cpu", shared=True)
        ticket = lease.ticket()
        ticket.withdraw()
        mine.add(ticket[24:40].hex())
        assert {file.name for file in SOCKETS.iterdir()} <= mine
    del lease
    assert not held()
