"""Leases and arrays between actors of Ray: `@ray.method(tensor_transport="gpulend")`.

Importing this module registers the tensor transport `gpulend`, for leases. Actors of one machine
get a lease of the same memory, by a ticket that lasts as long as Ray's reference. Actors of other
machines get a copy, which Ray carries. `gpulend.ledger().carried` counts both.

Ray registers transports in actors that it makes, not in those that it starts again: an actor with
`max_restarts` imports this module in its `__init__`, and calls `carry` there if it uses that.

A lease in a plain `ray.put` or a plain result is pickled: it is a ticket for a minute.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError
from ray.experimental import (
    CommunicatorMetadata,
    TensorTransportManager,
    TensorTransportMetadata,
    register_tensor_transport,
)

from gpulend import _carriers
from gpulend._native import Lease, borrow, claims
from gpulend._tickets import Ticket
from gpulend.adapters import FrameworkName
from gpulend.exceptions import (
    DeviceNotVisibleError,
    LenderGoneError,
    NotPermittedError,
    NotShareableError,
    WrongMachineError,
)

__all__ = ["CupyTransport", "JaxTransport", "LeaseTransport", "TorchTransport", "carry"]

PATIENCE = 4.0
"""Seconds that a source which a ticket does not reach has to say that it lives."""

# What a process says about a ticket that it cannot claim, and another way may help with.
_UNREACHABLE = (WrongMachineError, LenderGoneError, DeviceNotVisibleError, NotPermittedError)


@dataclass
class LeaseMetadata(TensorTransportMetadata):  # type: ignore[misc]
    """What Ray tells a receiver: the tickets, which of them are of copies, and whom to ask."""

    tickets: list[bytes] = field(default_factory=list)
    copied: list[bool] = field(default_factory=list)
    source: Any = None


class LeaseTransport(TensorTransportManager):  # type: ignore[misc]
    """The tensor transport of leases. Ray makes one in each process."""

    NAME = "GPULEND"

    def __init__(self) -> None:
        # By the id of Ray's object: what is offered until Ray says that nobody refers to it.
        self._offers: dict[str, tuple[list[Lease], list[Ticket]]] = {}
        _transports[self.NAME] = self

    def leases_of(self, arrays: Sequence[Any]) -> list[Lease]:
        """Return the leases of what is sent."""
        return list(arrays)

    def arrays_of(self, leases: Sequence[Lease]) -> list[Any]:
        """Return what is received."""
        return list(leases)

    def tensor_transport_backend(self) -> str:
        """Name the transport, as Ray knows it."""
        return self.NAME

    @staticmethod
    def is_one_sided() -> bool:
        """Say that the source does nothing when a receiver claims."""
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        """Say that Ray need not end actors after an error: no claim blocks for long."""
        return True

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        """Say that every actor has it: Ray sends the class, whose import registers it."""
        return True

    def extract_tensor_transport_metadata(
        self, obj_id: str, rdt_object: Sequence[Any]
    ) -> LeaseMetadata:
        """Offer what an actor returned, until Ray frees it."""
        leases = self.leases_of(rdt_object)
        offered: list[Ticket] = []
        copied: list[bool] = []
        try:
            for lease in leases:
                ticket, is_copy = _offer(lease)
                offered.append(ticket)
                copied.append(is_copy)
        except BaseException:
            _withdraw(offered)
            raise
        self.garbage_collect(obj_id, None, ())
        self._offers[obj_id] = leases, offered
        return LeaseMetadata(
            tensor_meta=[(lease.shape, lease.dtype.name) for lease in leases],
            tensor_device=leases[0].device.kind if leases else None,
            tickets=[bytes(ticket) for ticket in offered],
            copied=copied,
            source=_this_actor(),
        )

    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        """Return nothing: all is in the tickets."""
        return CommunicatorMetadata()

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: LeaseMetadata,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Claim the tickets, or let Ray carry the bytes if they cannot be claimed here."""
        if target_buffers:
            raise ValueError(
                "the transport gpulend copies nothing, so it cannot fill buffers of yours: receive "
                "without set_target_for_ref and set_target_device_for_ref, then use copy_from"
            )
        try:
            leases = claims(tensor_transport_metadata.tickets)
        except _UNREACHABLE as error:
            leases = self._fetch(obj_id, tensor_transport_metadata, error)
            ways = ["bytes"] * len(leases)
        else:
            ways = ["copy" if copied else "ticket" for copied in tensor_transport_metadata.copied]
        for lease, way in zip(leases, ways, strict=True):
            _carriers.count("Ray", way, lease)
        return self.arrays_of(leases)

    def _fetch(self, obj_id: str, metadata: LeaseMetadata, error: Exception) -> list[Lease]:
        """Have Ray carry the bytes, if the source is an actor that lives."""
        if metadata.source is None:
            raise error
        call = metadata.source.__ray_call__.options(concurrency_group="_ray_system").remote
        try:
            ray.get(call(_is_alive), timeout=PATIENCE)
            found = ray.get(call(_bytes_of, self.NAME, obj_id))
        except RayError as why:
            raise error from why
        return [_carriers.from_bytes(header, data) for header, data in found]

    def in_bytes(self, obj_id: str) -> list[tuple[dict[str, Any], pickle.PickleBuffer]]:
        """Return copies of what is offered, for a receiver that cannot claim it."""
        leases, _ = self._offers[obj_id]
        packed = map(_carriers.to_bytes, leases)
        return [(header, pickle.PickleBuffer(data)) for header, data in packed]

    def send_multiple_tensors(self, *_: Any) -> None:
        """Refuse: receivers claim by themselves, and Ray does not call this."""
        raise NotImplementedError("the transport gpulend is one-sided")

    def garbage_collect(
        self, obj_id: str, tensor_transport_meta: LeaseMetadata | None, tensors: Sequence[Any]
    ) -> None:
        """End the offers of an object that nobody refers to. Claims that were made stay."""
        _, offered = self._offers.pop(obj_id, ((), ()))
        _withdraw(offered)

    def abort_transport(self, obj_id: str, communicator_metadata: CommunicatorMetadata) -> None:
        """Do nothing: a claim ends by itself, within seconds."""


class _ArrayTransport(LeaseTransport):
    """A transport of one framework's arrays."""

    FRAMEWORK = ""

    def leases_of(self, arrays: Sequence[Any]) -> list[Lease]:
        return [borrow(array) for array in arrays]

    def arrays_of(self, leases: Sequence[Lease]) -> list[Any]:
        return [lease.lend(FrameworkName(self.FRAMEWORK)) for lease in leases]


class TorchTransport(_ArrayTransport):
    """The transport `gpulend-torch`, of plain tensors of torch."""

    NAME, FRAMEWORK = "GPULEND-TORCH", "torch"


class JaxTransport(_ArrayTransport):
    """The transport `gpulend-jax`, of arrays of JAX."""

    NAME, FRAMEWORK = "GPULEND-JAX", "jax"


class CupyTransport(_ArrayTransport):
    """The transport `gpulend-cupy`, of arrays of CuPy."""

    NAME, FRAMEWORK = "GPULEND-CUPY", "cupy"


def carry(framework: str) -> str:
    """Register the transport of a framework's arrays, "torch", "jax" or "cupy"; return its name.

    Call it before you make the actors that use it, as `ray.experimental` asks. An array arrives as
    an array of the same framework, in the same memory where that can be opened.
    """
    kind = _carriers.array_type(framework)
    transport = _ARRAYS[framework]
    _register(transport, kind)
    return transport.NAME.lower()


_ARRAYS: dict[str, type[_ArrayTransport]] = {
    transport.FRAMEWORK: transport for transport in (TorchTransport, JaxTransport, CupyTransport)
}
_transports: dict[str, LeaseTransport] = {}
_registered: set[str] = set()


def _register(transport: type[LeaseTransport], kind: type) -> None:
    if transport.NAME not in _registered:
        _registered.add(transport.NAME)
        register_tensor_transport(transport.NAME, ["cuda", "cpu"], transport, kind)


def _offer(lease: Lease) -> tuple[Ticket, bool]:
    """Make a ticket until it is withdrawn: of a copy, if the memory cannot be opened elsewhere."""
    try:
        return lease.ticket(keep=None), False
    except NotShareableError:
        return lease.ticket(keep=None, copy=True), True


def _withdraw(offered: Sequence[Ticket]) -> None:
    for ticket in offered:
        ticket.withdraw()


def _this_actor() -> Any:
    try:
        return ray.get_runtime_context().current_actor
    except RuntimeError:
        # The driver, or a task.
        return None


def _is_alive(_actor: Any) -> bool:
    return True


def _bytes_of(_actor: Any, name: str, obj_id: str) -> Any:
    return _transports[name].in_bytes(obj_id)


_register(LeaseTransport, Lease)
