"""Actors of Ray that send, receive and look. Ray's workers import this module by its name."""

from __future__ import annotations

import os
from typing import Any

import gpulend
import gpulend.ray
import numpy as np
import ray


@ray.remote(num_cpus=0, enable_tensor_transport=True, max_restarts=1)
class Actor:
    """Sends what it makes, and keeps what it is told to."""

    def __init__(self, folder: str | None = None) -> None:
        if folder is not None:
            # As in a container, which sees no other's sockets.
            os.environ["XDG_RUNTIME_DIR"] = folder
        # Ray registers transports where it makes an actor, not where it starts one again.
        gpulend.ray.carry("torch")
        self.kept: Any = None

    def pid(self) -> int:
        """Return its process."""
        return os.getpid()

    @ray.method(tensor_transport="gpulend")
    def make(self, device: str, value: int = 3) -> Any:
        """Send an array of its own, and a slice of it."""
        self.kept = gpulend.full((2, 3), value, "int32", device, shared=True)
        return {"whole": self.kept, "parts": [self.kept[1]]}

    @ray.method(tensor_transport="gpulend")
    def borrowed(self) -> gpulend.Lease:
        """Send memory that other processes cannot open."""
        return gpulend.borrow(np.arange(6, dtype="int32"))

    def plain(self, device: str) -> gpulend.Lease:
        """Send a lease without a transport."""
        self.kept = gpulend.full(4, 6, "int32", device, shared=True)
        return self.kept

    @ray.method(tensor_transport="gpulend-torch")
    def tensor(self) -> Any:
        """Send a tensor of torch's."""
        import torch

        return torch.arange(6, dtype=torch.int32).reshape(2, 3)

    def look(self, value: Any) -> Any:
        """Return the elements, and how they came."""
        lease = value["whole"] if isinstance(value, dict) else value
        kind = type(lease).__module__.partition(".")[0]
        numbers = lease.to_host() if isinstance(lease, gpulend.Lease) else lease.numpy()
        return kind, numbers.tolist(), self.carried()

    def add(self, value: Any, by: int) -> None:
        """Change the elements where they are."""
        lease = value["whole"]
        lease.copy_from(lease.to_host() + np.int32(by))

    def keep(self, value: Any) -> None:
        """Hold on to what came."""
        self.kept = value["whole"]

    def numbers(self) -> Any:
        """Return the elements of what it holds."""
        return self.kept.to_host().tolist()

    def drop(self) -> None:
        """Let go of what it holds."""
        self.kept = None

    def held(self) -> list[str]:
        """Say what its process holds."""
        return [f"{entry.kind} {entry.who}" for entry in gpulend.ledger()]

    def carried(self) -> dict[str, int]:
        """Say in which ways leases came."""
        return {one.way: one.leases for one in gpulend.ledger().carried if one.carrier == "Ray"}
