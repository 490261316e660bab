"""How notebooks show a lease and the ledger: as tables of HTML.

The elements of a lease are shown where that neither waits nor touches a GPU: of host memory, and of
a simulated GPU's memory on which no work is queued. Such work is not begun for it, and a capture
stays as it is. Elements on a real GPU are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulend._ledger import Ledger
    from gpulend._native import Lease

MOST_VALUES = 8
MOST_ENTRIES = 100


def lease(lease: Lease, address: int | None) -> str:
    """Return a lease as a table; `address` is None if it was released."""
    if address is None:
        return "<code>gpulend.Lease</code> released"
    device = f"{lease.device}, simulated" if lease.simulated else str(lease.device)
    rows = [
        ("dtype", str(lease.dtype)),
        ("shape", str(lease.shape)),
        ("strides", str(lease.strides)),
        ("device", device),
        ("memory", lease.memory),
        ("address", f"{address:#x}"),
        ("bytes", f"{lease.nbytes:,}"),
        ("access", "read-only" if lease.readonly else "read and write"),
        ("values", _values(lease)),
    ]
    return _table("gpulend.Lease", [[f"<th>{name}</th>", _cell(text)] for name, text in rows])


def ledger(ledger: Ledger) -> str:
    """Return the entries of a ledger as a table, oldest first."""
    head = f"gpulend.ledger(): {len(ledger)} held, {ledger.waiting} waiting, {ledger.leaked} leaked"
    names = ("serial", "kind", "who", "bytes", "address", "age", "of")
    rows: list[Sequence[str]] = [[f"<th>{name}</th>" for name in names]]
    for entry in ledger.entries[:MOST_ENTRIES]:
        of = str(entry.of) if entry.of != entry.serial else ""
        cells = [str(entry.serial), entry.kind, entry.who, f"{entry.nbytes:,}"]
        cells += [f"{entry.address:#x}", f"{entry.age:.2f} s", of]
        rows.append([_cell(text) for text in cells])
    if len(ledger) > MOST_ENTRIES:
        left = f"and {len(ledger) - MOST_ENTRIES} more"
        rows.append([f'<td colspan="{len(names)}">{left}</td>'])
    return _table(head, rows if ledger.entries else [])


def _table(caption: str, rows: Iterable[Sequence[str]]) -> str:
    lines = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table><caption>{escape(caption)}</caption>{lines}</table>"


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _values(lease: Lease) -> str:
    """Return the first elements as text, or why they are not shown."""
    if not lease.size:
        return "none"
    if lease.memory != "host" and not lease.simulated:
        return f"not shown: in {lease.memory} memory; to_host() copies them"
    try:
        first = lease[(0,) * (lease.ndim - 1) + (slice(MOST_VALUES),)] if lease.ndim else lease
        seen = first._glimpse()
    except Exception as error:
        # Whatever is wrong with the memory, a notebook shows the rest.
        return f"not shown: {error}"
    if seen is None:
        return "not shown: work on them is queued; to_host() waits for it"
    shown = ", ".join(str(value) for value in seen.reshape(-1))
    return shown + (", …" if lease.size > first.size else "")
