"""Tickets: leases for other processes of this machine, as bytes that anything can carry."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import SupportsIndex

from gpulend._native import Lease, check_ticket, end_tickets, withdraw_ticket


class Ticket(bytes):
    """Bytes by which another process opens the memory of a lease: what `lease.ticket()` returns.

    They are plain bytes, so every pickler, pipe and queue carries them. Every process of the same
    user that has them can claim them: treat them as a password.
    """

    __slots__ = ()

    def __new__(cls, data: bytes) -> Ticket:
        ticket = super().__new__(cls, data)
        check_ticket(ticket)
        return ticket

    def withdraw(self) -> bool:
        """End the offer: nobody can claim it from now on. Claims that were made stay.

        Only the process that lends can do that. Returns whether the ticket could still be claimed.
        """
        return withdraw_ticket(self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[Ticket], tuple[bytes]]:
        return Ticket, (bytes(self),)

    def __repr__(self) -> str:
        # Without the secret: it may land in a log.
        return f"<gpulend.Ticket of {len(self)} bytes>"

    __str__ = __repr__


def tickets(
    leases: Iterable[Lease],
    *,
    claims: int | None = None,
    keep: float | None = 60,
    read_only: bool = False,
    copy: bool = False,
) -> list[Ticket]:
    """Make a ticket of each lease, as `Lease.ticket` does; `gpulend.claims` claims them together.

    >>> import gpulend
    >>> leases = [gpulend.zeros(3, device="cpu", shared=True) for _ in range(3)]
    >>> len(gpulend.tickets(leases))
    3
    """
    return [
        lease.ticket(claims=claims, keep=keep, read_only=read_only, copy=copy) for lease in leases
    ]


def end_with_process() -> None:
    """Have a child of `multiprocessing` remove its socket: it runs no exit functions."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, end_tickets, exitpriority=0)
