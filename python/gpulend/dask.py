"""Leases and arrays between workers of Dask: serializers for `distributed`, and `dask.sizeof`.

Importing this module registers them for leases; a worker that meets a lease imports it by itself.
On one host a lease goes as a ticket: the same memory. To another host, and to disk when a worker
spills, it goes as bytes. `gpulend.ledger().carried` counts both. `carry` does the same for arrays
of a framework.

The setting `gpulend.way` of Dask's configuration says otherwise: "ticket" or "bytes", always.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import dask
from dask.sizeof import sizeof
from dask.tokenize import normalize_token
from distributed import Client, Worker, WorkerPlugin
from distributed.comm import get_address_host
from distributed.protocol import dask_deserialize, dask_serialize
from distributed.utils import has_keyword

from gpulend import _carriers
from gpulend._codes import BAD_ARGUMENT
from gpulend._native import Lease, borrow, claim
from gpulend.adapters import FrameworkName
from gpulend.exceptions import Error, NotShareableError, ProtocolError

__all__ = ["carry"]

WAYS = ("auto", "ticket", "bytes")
# Seconds that a message may wait for its reader.
KEEP = 60.0
_LOOPBACK = ("127.", "::1", "localhost")

Header = dict[str, Any]


def _size(lease: Lease) -> int:
    return lease.nbytes


def _token(lease: Lease) -> str:
    # Its memory can change, so no two are known to be equal. Dask itself would pickle it, and each
    # pickle is a ticket.
    return uuid.uuid4().hex


def _serialize(lease: Lease, context: dict[str, Any] | None = None) -> tuple[Header, list[Any]]:
    if _goes_by_ticket(context):
        try:
            return {"gpulend": "ticket"}, [bytes(lease.ticket(claims=1, keep=KEEP))]
        except NotShareableError:
            # On the host that is most memory: Dask carries it as fast as a copy would be made.
            pass
    header, data = _carriers.to_bytes(lease)
    # By value to disk is no hand-over.
    return {"gpulend": "bytes", "spilled": context is None, "array": header}, [data]


def _deserialize(header: Header, frames: list[Any]) -> Lease:
    if header["gpulend"] == "ticket":
        lease = claim(bytes(frames[0]))
    else:
        lease = _carriers.from_bytes(header["array"], frames[0] if frames else b"")
    _carriers.count("Dask", "disk" if header.get("spilled") else header["gpulend"], lease)
    return lease


def _goes_by_ticket(context: dict[str, Any] | None) -> bool:
    """Say whether the receiver can open the memory.

    Dask does not say who reads a message that goes by way of the scheduler, and it does not say
    that it goes there. So a ticket needs both ends on this host, and either an address that only
    this host has, or a scheduler that is elsewhere.
    """
    if context is None:
        return False
    way = dask.config.get("gpulend.way", "auto")
    if way not in WAYS:
        raise ProtocolError(
            f"the setting gpulend.way of Dask is {way!r}; it can be {', '.join(WAYS)}", BAD_ARGUMENT
        )
    if way != "auto":
        return bool(way == "ticket")
    try:
        hosts = {_host(context[end]["address"]) for end in ("sender", "recipient")}
    except (KeyError, TypeError, ValueError):
        return False
    if len(hosts) != 1:
        return False
    (host,) = hosts
    return host.startswith(_LOOPBACK) or host not in set(_scheduler_hosts())


def _scheduler_hosts() -> Iterator[str]:
    """Name the hosts of the schedulers that this process knows."""
    for one in (*Worker._instances, *Client._instances):
        address = getattr(one.scheduler, "address", None)
        if address:
            yield _host(address)


def _host(address: str) -> str:
    return str(get_address_host(address))


def carry(framework: str, client: Client | None = None) -> None:
    """Send arrays of a framework as leases are sent, instead of Dask's own way for them.

    `framework` is a name, such as "torch". Workers need it too: with `client` all of its workers,
    and those to come, are told; without, this process is.
    """
    _carry_here(framework)
    if client is not None:
        client.register_plugin(_Carry(framework), name=f"gpulend-{framework}")


class _Carry(WorkerPlugin):  # type: ignore[misc]
    """Tells a worker which arrays to send as leases."""

    def __init__(self, framework: str) -> None:
        self.framework = framework

    def setup(self, worker: Worker) -> None:
        _carry_here(self.framework)


def _carry_here(framework: str) -> None:
    """Register serializers of a framework's arrays: now, or when the framework is imported."""
    package = _carriers.array_package(framework)
    if framework in _carried:
        return
    _carried.add(framework)
    if package in sys.modules:
        _register(framework)
        return
    for dispatch in (dask_serialize, dask_deserialize):
        dispatch.register_lazy(package, lambda: _register(framework))


def _register(framework: str) -> None:
    kind = _carriers.array_type(framework)
    own_serialize: Any = None
    own_deserialize: Any = None
    if framework in _OWN:
        import_module(_OWN[framework])
        own_serialize, own_deserialize = _own.setdefault(
            framework, (dask_serialize.dispatch(kind), dask_deserialize.dispatch(kind))
        )

    def serialize(array: Any, context: dict[str, Any] | None = None) -> tuple[Header, list[Any]]:
        try:
            lease = borrow(array)
        except Error as error:
            # It means more than its bytes, as a tensor with a gradient does.
            if own_serialize is None:
                # Dask then tries the next way that it has: pickle.
                raise NotImplementedError from error
            with_context = has_keyword(own_serialize, "context")
            header, frames = own_serialize(array, **({"context": context} if with_context else {}))
            return header, frames
        return _serialize(lease, context)

    def deserialize(header: Header, frames: list[Any]) -> Any:
        if own_deserialize is None or "gpulend" in header:
            return _deserialize(header, frames).lend(FrameworkName(framework))
        # Dask's own way, or of a process that was not told to carry such arrays.
        return own_deserialize(header, frames)

    dask_serialize.register(kind, serialize)
    dask_deserialize.register(kind, deserialize)


# Where Dask's own serializers of these arrays are.
_OWN = {"torch": "distributed.protocol.torch", "cupy": "distributed.protocol.cupy"}
_own: dict[str, tuple[Any, Any]] = {}
_carried: set[str] = set()

sizeof.register(Lease, _size)
normalize_token.register(Lease, _token)
dask_serialize.register(Lease, _serialize)
dask_deserialize.register(Lease, _deserialize)
