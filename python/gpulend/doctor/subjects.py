"""What is examined: gpulend itself, and each framework that is known, by its adapter's `Probe`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import gpulend
from gpulend import adapters
from gpulend.adapters import Framework, FrameworkName, Probe

SHAPE, TYPE = (3, 4), "float32"
ITEM = 4  # bytes of an element
ALIGNMENT = 64  # of memory that every framework takes
LEGACY = 1


@dataclass(frozen=True)
class Subject:
    """A framework in this process: how it makes arrays, and how it receives one."""

    name: str
    probe: Probe
    # How it receives an array, where not by `gpulend.lend`.
    receive: Callable[..., Any] | None = None
    # Whether its arrays are read-only by contract, though nothing in them says so.
    immutable: bool = False

    def take(self, array: Any, **stream: Any) -> Any:
        """Hand an array to this framework."""
        if self.receive is not None:
            return self.receive(array, **stream)
        return gpulend.lend(array, FrameworkName(self.name), **stream)


def _lease(shape: tuple[int, ...], dtype: str) -> gpulend.Lease:
    # Without NumPy, which need not be here.
    room = (ctypes.c_ubyte * (SHAPE[0] * SHAPE[1] * ITEM + ALIGNMENT))()
    address = ctypes.addressof(room)
    return gpulend.wrap(address + -address % ALIGNMENT, shape, dtype, owner=room)


def _lease_on_gpu(shape: tuple[int, ...], dtype: str) -> gpulend.Lease:
    return gpulend.full(shape, 1, dtype, "cuda:0")


OURSELVES = Subject(
    "gpulend",
    Probe(
        address=lambda lease: int(lease.address),
        host=_lease,
        gpu=_lease_on_gpu,
        readonly=lambda shape, dtype: _lease_on_gpu(shape, dtype).as_readonly(),
        stream=lambda: gpulend.current_stream("cuda:0").handle,
    ),
    receive=gpulend.borrow,
)


def known() -> dict[str, Framework]:
    """Return what can be examined, by name: gpulend first, then what is built in or registered."""
    adapters.read_entry_points()
    ourselves = Framework(OURSELVES.name, adapters.Adapter(probe=OURSELVES.probe), short="lend")
    return {ourselves.name: ourselves, **adapters.FRAMEWORKS}


def subject(name: str) -> Subject:
    """Return the framework of a name as it can be tried; import it, if it has not been."""
    if name == OURSELVES.name:
        return OURSELVES
    framework = known()[name]
    adapter = framework.load()
    if adapter.probe is None:
        raise LookupError(f"the adapter of {name} has no probe, so it cannot be tried")
    immutable = any(producer.immutable for producer in adapter.producers)
    return Subject(name, adapter.probe, immutable=immutable)


def registered() -> list[dict[str, Any]]:
    """Return those frameworks that this process registered and another one can import."""
    return [
        asdict(framework)
        for framework in adapters.FRAMEWORKS.values()
        if isinstance(framework.adapter, str)
    ]


def register(frameworks: Iterable[dict[str, Any]]) -> None:
    """Register what another process did, where this one does not know it."""
    adapters.read_entry_points()
    for framework in frameworks:
        if framework["name"] not in adapters.FRAMEWORKS:
            packages = tuple(framework.pop("packages"))
            gpulend.register(Framework(**framework, packages=packages))
