"""Owners that know their own leases: cycles that only Python's collector can end."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import gpulend

from .resources import GpuResources, at_rest, eventually, used_by

COUNT = 4096
NBYTES = 4 * COUNT
FIRST = 5


class Owner:
    """A library's buffer: its memory goes with it, and it says so."""

    lease: Any
    kept: Any

    def __init__(self, gone: list[int], stream: gpulend.Stream) -> None:
        with stream:
            self.base = gpulend.full(COUNT, FIRST, "int32")
        stream.synchronize()
        self.gone = gone

    def wrapped(self) -> gpulend.Lease:
        """Return a lease of the memory that keeps this object."""
        return gpulend.wrap(self.base.address, COUNT, "int32", owner=self, ready_on="now")

    def __del__(self) -> None:
        """Tell that the memory is free for others."""
        self.gone.append(self.base.address)


class Ring:
    """A lease and its owner that hold each other, seen from outside by what became of them."""

    def __init__(
        self, pool: int, through: Callable[[gpulend.Lease], Any] = lambda lease: lease
    ) -> None:
        self.gone: list[int] = []
        self._pool = pool
        self.stream = gpulend.Stream()
        owner = Owner(self.gone, self.stream)
        owner.lease = through(owner.wrapped())
        self._owner: Owner | None = owner
        self.address = owner.base.address
        self.held = at_rest(pool)

    @property
    def lease(self) -> Any:
        """What the owner knows, while it is not garbage."""
        assert self._owner is not None
        return self._owner.lease

    def keep(self, thing: Any) -> None:
        """Let the owner keep something else too."""
        assert self._owner is not None
        self._owner.kept = thing

    def drop(self) -> None:
        """Make garbage of it."""
        self._owner = None

    def stays(self, gpu: GpuResources, *streams: Any) -> None:
        """Collect again and again: nothing may be finalised, and the memory not be free."""
        for generation in (0, 1, 2, 2):
            gc.collect(generation)
            gpu.reap(self.stream, *streams)
        assert self.gone == [], "the owner was finalised under work on its memory"
        assert used_by(self._pool) >= self.held, "the memory is free for others"

    def goes(self) -> None:
        """Collect until it is finalised, which happens once."""

        def collected() -> bool:
            gc.collect()
            return bool(self.gone)

        eventually(collected, "the owner was finalised after the work")
        eventually(lambda: used_by(self._pool) <= self.held - NBYTES, "the memory is free")
        gc.collect()
        assert self.gone == [self.address], "it was finalised more than once"
