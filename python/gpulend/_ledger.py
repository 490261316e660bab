"""`ledger`: who holds which memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpulend import _native
from gpulend._carriers import Carried, carried


@dataclass(frozen=True)
class LedgerEntry:
    """A lease, a sub-lease or an export.

    `kind` is "lease", "sub-lease" or "export"; `who` is the origin of a lease
    or the holder of an export; `of` is the serial of the lease that it keeps.
    `address` is the lowest address, `nbytes` the number of bytes up to the highest.
    """

    serial: int
    kind: Literal["lease", "sub-lease", "export"]
    who: str
    of: int
    address: int
    nbytes: int
    age: float


@dataclass(frozen=True)
class Ledger:
    """All entries at one moment, oldest first.

    `waiting` counts owners of memory that was dropped and is released when the
    GPU work on it is done; `leaked` counts owners that were never released. `carried` says how
    many leases Ray, Dask and NIXL brought here, and in which way.
    """

    entries: tuple[LedgerEntry, ...]
    waiting: int
    leaked: int
    carried: tuple[Carried, ...] = ()

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(self.entries)

    def at(self, address: int) -> tuple[LedgerEntry, ...]:
        """Return the entries whose memory contains `address`."""
        return tuple(e for e in self.entries if e.address <= address < e.address + max(e.nbytes, 1))

    def __str__(self) -> str:
        lines = [f"{len(self)} held, {self.waiting} waiting, {self.leaked} leaked"]
        lines += [
            f"{e.serial:>8}  {e.kind:<9}  {e.nbytes:>12} bytes at {e.address:#x}  "
            f"{e.who}, {e.age:.2f} s" + (f", of {e.of}" if e.of != e.serial else "")
            for e in self.entries
        ]
        lines += [f"carried by {one}" for one in self.carried]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        # Notebooks alone need it.
        from gpulend._notebook import ledger

        return ledger(self)


def ledger() -> Ledger:
    """Return all leases, sub-leases and exports, with their holders.

    >>> import gpulend
    >>> lease = gpulend.borrow(bytearray(8))
    >>> [(entry.kind, entry.who, entry.nbytes) for entry in gpulend.ledger()][-1]
    ('lease', 'bytearray', 8)
    """
    rows, waiting, leaked = _native.entries()
    return Ledger(tuple(LedgerEntry(*row) for row in rows), waiting, leaked, carried())
