"""`describe` and `ledger`: what is known about an address, and who holds which memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from gpulend import _native
from gpulend._codes import NOT_MAPPED
from gpulend._native import Device
from gpulend._pointers import is_pointer, points_to_array, resolve
from gpulend.exceptions import AddressError


@dataclass(frozen=True)
class Passport:
    """What is known about an address.

    For GPU memory the driver answers: `known` is "allocation", "pool block" (of one of the
    driver's pools) or "reservation" (a range of addresses that may be mapped in part; `base` and
    `size` are those of the range). The driver cannot see whether a block in a framework's own
    pool is in use.

    For other memory the kernel answers: `base` and `size` are those of the
    mapping, which usually contains much more than one array, and `known` is "host".
    """

    address: int
    base: int
    size: int
    offset: int
    memory: str
    device: Device
    uuid: str | None
    context: int | None
    buffer_id: int | None
    pool: int | None
    known: str
    shareable: tuple[str, ...]

    def __str__(self) -> str:
        numbers = {"address", "base", "context", "pool"}
        rows = [
            (field.name, hex(value) if field.name in numbers else value)
            for field in fields(self)
            if (value := getattr(self, field.name)) not in (None, ())
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def describe(array_or_address: Any) -> Passport:
    """Return what is known about an array's memory, or about an address.

    >>> import gpulend, numpy as np
    >>> a = np.zeros(4)
    >>> passport = gpulend.describe(a)
    >>> passport.memory, passport.known, passport.address == a.ctypes.data
    ('host', 'host', True)
    """
    if isinstance(array_or_address, int):
        address = array_or_address
    elif is_pointer(type(array_or_address)) and not points_to_array(type(array_or_address)):
        address, _ = resolve(array_or_address)
    else:
        address = _native.locate(array_or_address)
    return _of_driver(address) or _of_host(address)


def _of_driver(address: int) -> Passport | None:
    """Ask the GPU driver that this process has, if it has one."""
    found = _native.passport(address) if 0 <= address < 2**64 else None
    if found is None:
        return None
    base, size, memory, device, uuid, context, buffer_id, pool, known, shareable = found
    return Passport(
        address=address,
        base=base,
        size=size,
        offset=address - base,
        memory=memory,
        device=Device(device),
        uuid=uuid,
        context=context,
        buffer_id=buffer_id,
        pool=pool,
        known=known,
        shareable=tuple(shareable),
    )


def _of_host(address: int) -> Passport:
    """Ask the kernel."""
    mapping = _native.mapping_of(address) if 0 <= address < 2**64 else None
    if mapping is None:
        raise AddressError(
            f"nothing is mapped at {address:#x} in this process, and no GPU driver of it knows the "
            "address; check that it is an address and still allocated",
            NOT_MAPPED,
        )
    base, size = mapping
    return Passport(
        address=address,
        base=base,
        size=size,
        offset=address - base,
        memory="host",
        device=Device("cpu"),
        uuid=None,
        context=None,
        buffer_id=None,
        pool=None,
        known="host",
        shareable=(),
    )


@dataclass(frozen=True)
class LedgerEntry:
    """A lease, a sub-lease or an export.

    `kind` is "lease", "sub-lease" or "export"; `who` is the origin of a lease
    or the holder of an export; `of` is the serial of the lease that it keeps.
    `address` is the lowest address, `nbytes` the number of bytes up to the highest.
    """

    serial: int
    kind: str
    who: str
    of: int
    address: int
    nbytes: int
    age: float


@dataclass(frozen=True)
class Ledger:
    """All entries at one moment, oldest first, and how many owners were ever leaked."""

    entries: tuple[LedgerEntry, ...]
    leaked: int

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(self.entries)

    def at(self, address: int) -> tuple[LedgerEntry, ...]:
        """Return the entries whose memory contains `address`."""
        return tuple(e for e in self.entries if e.address <= address < e.address + max(e.nbytes, 1))

    def __str__(self) -> str:
        lines = [f"{len(self)} held, {self.leaked} leaked"]
        lines += [
            f"{e.serial:>8}  {e.kind:<9}  {e.nbytes:>12} bytes at {e.address:#x}  "
            f"{e.who}, {e.age:.2f} s" + (f", of {e.of}" if e.of != e.serial else "")
            for e in self.entries
        ]
        return "\n".join(lines)


def ledger() -> Ledger:
    """Return all leases, sub-leases and exports, with their holders.

    >>> import gpulend
    >>> lease = gpulend.borrow(bytearray(8))
    >>> [(entry.kind, entry.who, entry.nbytes) for entry in gpulend.ledger()][-1]
    ('lease', 'bytearray', 8)
    """
    rows, leaked = _native.entries()
    return Ledger(tuple(LedgerEntry(*row) for row in rows), leaked)
