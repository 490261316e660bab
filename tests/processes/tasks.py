"""Tasks of Dask: its workers import this module by its name."""

from __future__ import annotations

import os
import sys
from typing import Any

import gpulend
import numpy as np


def make(device: str, value: int = 3) -> gpulend.Lease:
    """Make an array that other processes can open."""
    return gpulend.full((2, 3), value, "int32", device, shared=True)


def tensor() -> Any:
    """Make a tensor of torch's."""
    import torch

    return torch.arange(6, dtype=torch.int32)


def look(value: Any) -> Any:
    """Return what came: whose it is, and its elements."""
    kind = type(value).__module__.partition(".")[0]
    numbers = value.to_host() if isinstance(value, gpulend.Lease) else value.numpy()
    return kind, numbers.tolist()


def add(lease: gpulend.Lease, by: int) -> None:
    """Change the elements where they are."""
    lease.copy_from(lease.to_host() + np.int32(by))


def message(lease: gpulend.Lease) -> Any:
    """Return what this process would send to another of its host, and who it is."""
    from distributed.protocol import serialize

    ends = {end: {"address": "tcp://127.0.0.1:1"} for end in ("sender", "recipient")}
    header, frames = serialize(lease, context=ends)
    return header, [bytes(frame) for frame in frames], os.getpid()


def has(module: str) -> bool:
    """Say whether this process has imported a module."""
    return module in sys.modules


def held() -> list[str]:
    """Say what this process holds."""
    return [f"{entry.kind} {entry.who}" for entry in gpulend.ledger()]


def carried() -> dict[str, int]:
    """Say in which ways leases came."""
    return {one.way: one.leases for one in gpulend.ledger().carried if one.carrier == "Dask"}
