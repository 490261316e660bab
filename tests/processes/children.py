"""Functions that picklers find by name in the processes that they start."""

from __future__ import annotations

from typing import Any

import gpulend
import numpy as np


def lend() -> gpulend.Ticket:
    """Make a ticket, of memory that ends with the process."""
    return gpulend.zeros(3, device="cpu", shared=True).ticket()


def total(lease: gpulend.Lease) -> int:
    """Add up what was received."""
    return int(lease.to_host().sum())


def increase(lease: gpulend.Lease, by: int) -> gpulend.Lease:
    """Write what was received, and send it back."""
    lease.copy_from(lease.to_host() + np.asarray(by, dtype=str(lease.dtype)))
    return lease


def serve(inbox: Any, outbox: Any) -> None:
    """Add up what comes, until nothing does."""
    while (lease := inbox.get()) is not None:
        outbox.put(total(lease))
