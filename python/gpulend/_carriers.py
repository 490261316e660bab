"""What carriers of leases share: Ray, Dask and NIXL. Counts, and leases by value."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from gpulend._codes import NO_FRAMEWORK
from gpulend._native import Dtype, Lease, device_count, empty
from gpulend._suggestions import did_you_mean
from gpulend.exceptions import ProtocolError

# Of the frameworks whose arrays can be carried as leases are: where their class is, and in which
# package it says that it is. `jax.Array` is only what `isinstance` asks for.
_CLASSES = {
    "torch": ("torch", "Tensor", "torch"),
    "jax": ("jax._src.array", "ArrayImpl", "jaxlib"),
    "cupy": ("cupy", "ndarray", "cupy"),
}


@dataclass(frozen=True)
class Carried:
    """How many leases a carrier brought here in one way, and how many bytes they have.

    `way` is "ticket": the same memory, opened; "copy": the same, of a copy that the sender made in
    memory that can be opened; "bytes": copied by the carrier; "disk": read back from where Dask
    spilled it; "read": read by NIXL.
    """

    carrier: str
    way: str
    leases: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.carrier}, {self.way}: {self.leases} leases, {self.nbytes} bytes"


_counts: dict[tuple[str, str], tuple[int, int]] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    """Open the lock: the thread that held it is not in the child."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def count(carrier: str, way: str, lease: Lease) -> None:
    """Note that a lease came here."""
    with _lock:
        leases, nbytes = _counts.get((carrier, way), (0, 0))
        _counts[carrier, way] = leases + 1, nbytes + lease.nbytes


def carried() -> tuple[Carried, ...]:
    """Return what came here so far, in the order of names."""
    return tuple(Carried(*names, *counts) for names, counts in sorted(_counts.copy().items()))


def array_type(framework: str) -> type:
    """Return the class of a framework's arrays, as picklers see it."""
    module, name, _ = _class(framework)
    kind: type = getattr(import_module(module), name)
    return kind


def array_package(framework: str) -> str:
    """Return the package that the class of a framework's arrays names."""
    return _class(framework)[2]


def _class(framework: str) -> tuple[str, str, str]:
    if framework not in _CLASSES:
        raise ProtocolError(
            f"{framework!r}: its arrays cannot be carried, those of {', '.join(_CLASSES)} can"
            f"{did_you_mean(framework, _CLASSES)}; borrow the array and send the lease",
            NO_FRAMEWORK,
        )
    return _CLASSES[framework]


def to_bytes(lease: Lease) -> tuple[dict[str, Any], memoryview]:
    """Return a description of a lease, of plain values, and a copy of its elements on the host."""
    header: dict[str, Any] = {
        "shape": lease.shape,
        "dtype": lease.dtype.name,
        "padded": lease.dtype.padded,
        "device": str(lease.device),
        "readonly": lease.readonly,
    }
    host = empty(lease.shape, lease.dtype, device="cpu")
    host.copy_from(lease)
    return header, buffer_of(_flat(host))


def from_bytes(header: dict[str, Any], data: Any) -> Lease:
    """Make a lease again: on the device that it was on, else on the first GPU, else on the host."""
    dtype = Dtype(header["dtype"], padded=header["padded"])
    lease = empty(tuple(header["shape"]), dtype, device=place(header["device"]))
    if lease.nbytes:
        _flat(lease).copy_from(memoryview(data).cast("B"))
    return lease.as_readonly() if header["readonly"] else lease


def buffer_of(lease: Lease) -> memoryview:
    """Return memory of the host as a buffer, when no GPU writes it any more."""
    # Types know of buffers from Python 3.12 on.
    source: Any = lease
    return memoryview(source)


def _flat(lease: Lease) -> Lease:
    """Return the bytes of a lease whose elements lie without gaps."""
    return lease.reshape(-1).view("uint8")


def place(device: str) -> str:
    """Say where an array of another process, which was on a device there, is made here."""
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return "cpu"
    count = device_count()
    if count == 0:
        return "cpu"
    return device if int(index) < count else "cuda:0"
