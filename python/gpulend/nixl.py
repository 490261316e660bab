"""Leases read from another machine, by NIXL: registered memory and one-sided reads.

An `Agent` offers a lease: it registers the memory, and returns a card, which is bytes. Whoever has
the card reads the memory into a lease of its own, without a word from the process that offers it.
What carries the card, and the bytes of a ticket on one machine, is yours to choose.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any

from gpulend import _carriers
from gpulend._codes import (
    BAD_ARGUMENT,
    LENDER_GONE,
    NOT_A_TICKET,
    NOT_INSTALLED,
    NOT_SHAREABLE,
    TICKET_EXPIRED,
    TOO_MANY_TICKETS,
    WRITE_READ_ONLY,
)
from gpulend._native import Device, Dtype, Lease, Stream, empty
from gpulend.exceptions import (
    ExportError,
    LenderGoneError,
    NoDeviceError,
    NotShareableError,
    ProtocolError,
    TicketError,
    TicketExpiredError,
)

__all__ = ["Agent"]

PACKAGES = ("nixl", "nixl_cu13", "nixl_cu12")
"""Under which names NIXL is installed."""

OFFERS = 4096
"""How many leases an agent can offer at a time."""

_MAGIC = b"gpulend card 1\n"
_SEAL = 16
_LIMIT = 1 << 20


@dataclass(frozen=True)
class _Card:
    """What a card says: where the array is, and where the seal is that stays while it is."""

    agent: str
    where: tuple[int, int, str, int]
    shape: tuple[int, ...]
    dtype: Dtype
    seal: tuple[int, str]
    device: str
    metadata: list[bytes]

    def pack(self) -> bytes:
        """Write it as bytes: a line, a hash of the rest, and JSON."""
        fields = {
            "agent": self.agent,
            "where": self.where,
            "shape": self.shape,
            "dtype": [self.dtype.name, self.dtype.padded],
            "seal": self.seal,
            "device": self.device,
            "metadata": [part.hex() for part in self.metadata],
        }
        said = json.dumps(fields).encode()
        return _MAGIC + hashlib.sha256(said).digest() + said

    @classmethod
    def unpack(cls, data: bytes) -> _Card:
        """Read what `pack` wrote; whatever it is, nothing runs."""
        try:
            if not data.startswith(_MAGIC) or len(data) > _LIMIT:
                raise ValueError("they do not begin as one")
            # NIXL keeps what the metadata says of an agent: a byte that changed on the way would
            # also spoil that agent's other cards.
            start = len(_MAGIC) + hashlib.sha256().digest_size
            if hashlib.sha256(data[start:]).digest() != data[len(_MAGIC) : start]:
                raise ValueError("they were changed or cut")
            fields = json.loads(data[start:])
            address, nbytes, kind, device = fields["where"]
            shape = tuple(int(extent) for extent in fields["shape"])
            name, padded = fields["dtype"]
            seal, secret = fields["seal"]
            if min(shape, default=0) < 0 or kind not in ("DRAM", "VRAM"):
                raise ValueError("a field has an impossible value")
            # Elements have a bit at least, and no layout reaches past 64 bits.
            most = 1 << 62 if 0 in shape else 8 * int(nbytes)
            if math.prod(extent or 1 for extent in shape) > most:
                raise ValueError("the shape has more elements than there are bytes for")
            if len(bytes.fromhex(secret)) != _SEAL:
                raise ValueError("the seal has another length")
            return cls(
                agent=str(fields["agent"]),
                where=(int(address), int(nbytes), kind, int(device)),
                shape=shape,
                dtype=Dtype(str(name), padded=bool(padded)),
                seal=(int(seal), secret),
                device=str(Device(fields["device"])),
                metadata=[bytes.fromhex(part) for part in fields["metadata"]],
            )
        except (
            AttributeError,
            KeyError,
            NoDeviceError,
            OverflowError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise TicketError(
                f"the bytes are not a card of gpulend.nixl: {error}; hand on what Agent.offer "
                "returned, unchanged",
                NOT_A_TICKET,
            ) from error


@dataclass
class _Offer:
    """A lease that can be read: what holds it, and its registration."""

    lease: Lease
    hold: Any
    registered: Any
    slot: int


class Agent:
    """An agent of NIXL's that offers leases and reads those of others.

    `backends` are NIXL's, of which UCX is in its wheels. An agent of one process can be used by
    all of its threads. `close` ends its offers, and so does the end of a `with` block.
    """

    def __init__(self, name: str | None = None, *, backends: Sequence[str] = ("UCX",)) -> None:
        api = _api()
        self.name = name or f"gpulend-{os.getpid()}-{uuid.uuid4().hex}"
        config = api.nixl_agent_config(
            backends=list(backends), sync_mode=api.nixl_thread_sync_t.NIXL_THREAD_SYNC_STRICT
        )
        self._agent = api.nixl_agent(self.name, config)
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._offers: dict[bytes, _Offer] = {}
        # A word for each offer that readers look at before and after: as long as it is there, the
        # memory is. It stays registered, so that also a card that is too old can be refused.
        self._seals = empty(OFFERS * _SEAL, "uint8", device="cpu")
        self._seal_bytes = _carriers.buffer_of(self._seals)
        self._free = list(range(OFFERS))
        self._sealed = self._register(self._seals)
        # Transfers that NIXL could not stop, with the memory that they may still write.
        self._stuck: list[Any] = []
        self._closed = False

    def offer(self, lease: Lease) -> bytes:
        """Register the memory of a lease and return a card, until it is withdrawn.

        The call waits until the bytes are ready: NIXL knows no streams. Work that you queue
        afterwards is yours to order. The elements must lie without gaps, row after row.
        """
        if not lease._is_row_major():
            raise ProtocolError(
                f"a lease with strides {lease.strides} of shape {lease.shape} cannot be offered, "
                "NIXL reads memory without gaps; copy it: empty_like(lease).copy_from(lease)",
                BAD_ARGUMENT,
            )
        with self._lock:
            if self._closed or not self._free:
                raise self._takes_none()
            slot = self._free.pop()
        try:
            offer = _Offer(lease, self._hold(lease), None, slot)
        except BaseException:
            self._free.append(slot)
            raise
        try:
            offer.registered = self._register(lease)
            card = self._card(offer)
            with self._lock:
                # Another thread may have closed the agent meanwhile, and found no offer.
                if self._closed:
                    raise self._takes_none()
                self._offers[card] = offer
        except BaseException:
            self._end(offer)
            raise
        return card

    def _takes_none(self) -> TicketError:
        what = "is closed" if self._closed else f"offers {OFFERS} leases already"
        return TicketError(f"the agent {what}; withdraw what is not read", TOO_MANY_TICKETS)

    def _card(self, offer: _Offer) -> bytes:
        """Seal an offer, and return what stands for it."""
        secret = os.urandom(_SEAL)
        self._seal(offer.slot, secret)
        # What a reader needs of this lease, of the seals, and to connect; not of other leases.
        parts = [
            self._agent.get_partial_agent_metadata(part, inc_conn_info=True)
            for part in (offer.registered, self._sealed)
            if part
        ]
        seal = self._seals.address + offer.slot * _SEAL, secret.hex()
        lease = offer.lease
        return _Card(
            self.name, _where(lease), lease.shape, lease.dtype, seal, str(lease.device), parts
        ).pack()

    def _end(self, offer: _Offer) -> None:
        """Break the seal of an offer, and let go of its memory."""
        self._seal(offer.slot, bytes(_SEAL))
        try:
            self._deregister(offer.registered)
        finally:
            offer.hold.close()
            with self._lock:
                self._free.append(offer.slot)

    def withdraw(self, card: bytes) -> bool:
        """End an offer: nobody can read it from now on. Returns whether it could be read.

        A read that is under way meanwhile fails, or has read what was there before.
        """
        with self._lock:
            offer = self._offers.pop(bytes(card), None)
        if offer is None:
            return False
        self._end(offer)
        return True

    def read(
        self,
        card: bytes,
        *,
        into: Lease | None = None,
        device: object | None = None,
        timeout: float = 30.0,
    ) -> Lease:
        """Read what a card stands for: into a lease, or into a new one on `device`.

        A new lease is on a GPU if the offered one is, and there is one. The bytes are there when
        the call returns; the host waits for them, at most `timeout` seconds.
        """
        found = _Card.unpack(bytes(card))
        own = self._offers.get(bytes(card))
        if into is None:
            device = _carriers.place(found.device) if device is None else device
            into = empty(found.shape, found.dtype, device=device)
        else:
            _check(into, found)
        if found.where[1] != into.nbytes:
            raise TicketError(
                f"the card offers {found.where[1]} bytes, an array of {found.dtype.name} and shape "
                f"{found.shape} has {into.nbytes}",
                NOT_A_TICKET,
            )
        if own is not None:
            into.copy_from(own.lease)
        else:
            self._read(found, into, time.monotonic() + timeout, timeout)
        _carriers.count("NIXL", "read", into)
        return into

    def _read(self, card: _Card, into: Lease, end: float, timeout: float) -> None:
        """Read the seal, the array, and the seal again."""
        seal = empty(_SEAL, "uint8", device="cpu")
        hold = self._hold(into)
        held: list[Any] = [hold, seal, into]
        registered = []
        try:
            registered += [self._register(one) for one in (seal, into)]
            try:
                for part in card.metadata:
                    self._agent.add_remote_agent(part)
                self._check_seal(card, seal, held, end)
                if into.nbytes:
                    self._transfer(card, _where(into), card.where, held, end)
                self._check_seal(card, seal, held, end)
            except (LenderGoneError, TicketExpiredError):
                raise
            except TimeoutError as error:
                raise LenderGoneError(
                    f"agent {card.agent} has not sent {into.nbytes} bytes within {timeout:g} s; "
                    "is its process stopped, or the network slow? give `timeout`",
                    LENDER_GONE,
                ) from error
            except Exception as error:
                self._forget(card.agent)
                raise LenderGoneError(
                    f"agent {card.agent} cannot be read: {error or type(error).__name__}; its "
                    "process has ended, or the network between does not carry it",
                    LENDER_GONE,
                ) from error
        finally:
            if not any(one is held for one in self._stuck):
                for one in registered:
                    self._deregister(one)
                hold.close()

    def _check_seal(self, card: _Card, seal: Lease, held: list[Any], end: float) -> None:
        address, secret = card.seal
        self._transfer(card, _where(seal), (address, _SEAL, "DRAM", 0), held, end)
        if _carriers.buffer_of(seal).tobytes().hex() != secret:
            raise TicketExpiredError(
                f"agent {card.agent} has withdrawn what the card stands for; ask it for a new one",
                TICKET_EXPIRED,
            )

    def _transfer(
        self,
        card: _Card,
        to: tuple[int, int, str, int],
        source: tuple[int, int, str, int],
        held: list[Any],
        end: float,
    ) -> None:
        """Read bytes, and wait for them."""
        agent = self._agent
        here, there = (
            agent.get_xfer_descs([(address, nbytes, device)], kind)
            for address, nbytes, kind, device in (to, source)
        )
        handle = agent.initialize_xfer("READ", here, there, card.agent)
        try:
            state, nap = agent.transfer(handle), 0.0
            while state == "PROC":
                if time.monotonic() > end:
                    raise TimeoutError
                time.sleep(nap)
                # Short reads are over before the first nap; long ones leave the processor alone.
                nap = min(nap + 2e-6, 1e-3)
                state = agent.check_xfer_state(handle)
            if state != "DONE":
                raise ConnectionError(f"NIXL answers {state}")
        finally:
            try:
                handle.release()
            except Exception:
                self._stuck.append(held)

    def _hold(self, lease: Lease) -> Any:
        """Keep a lease, and wait until all work on it is done."""
        if lease.device.kind != "cuda":
            # A buffer of the host waits for GPUs that write it.
            _carriers.buffer_of(lease).release()
            return lease._hold_on("NIXL", None)
        index = lease.device.index
        with self._lock:
            if index not in self._streams:
                self._streams[index] = Stream(device=lease.device)
        hold = lease._hold_on("NIXL", self._streams[index])
        self._streams[index].synchronize()
        return hold

    def _register(self, lease: Lease) -> Any:
        address, nbytes, kind, device = _where(lease)
        if not nbytes:
            # An array without elements has no memory.
            return None
        try:
            return self._agent.register_memory([(address, nbytes, device, "")], kind)
        except Exception as error:
            # NIXL's own errors have no common class.
            raise NotShareableError(
                f"NIXL cannot register {nbytes} bytes of {kind} at {address:#x}: "
                f"{error or type(error).__name__}; it says more on stderr",
                NOT_SHAREABLE,
            ) from error

    def _deregister(self, registered: Any) -> None:
        if registered:
            self._agent.deregister_memory(registered)

    def _seal(self, slot: int, secret: bytes) -> None:
        self._seal_bytes[slot * _SEAL : (slot + 1) * _SEAL] = secret

    def _forget(self, agent: str) -> None:
        """Let NIXL connect anew the next time."""
        try:
            self._agent.remove_remote_agent(agent)
        except Exception:
            # It never knew that agent, or has forgotten it.
            return

    def close(self) -> None:
        """End all offers."""
        with self._lock:
            self._closed, cards = True, list(self._offers)
        for card in cards:
            self.withdraw(card)

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _where(lease: Lease) -> tuple[int, int, str, int]:
    """Return address, bytes, NIXL's kind of memory, and device.

    A simulated GPU's memory is the host's.
    """
    if lease.device.kind == "cuda" and not lease.simulated:
        return lease.address, lease.nbytes, "VRAM", lease.device.index
    return lease.address, lease.nbytes, "DRAM", 0


def _check(into: Lease, card: _Card) -> None:
    """Refuse memory that cannot take what a card stands for."""
    if into.readonly:
        raise ExportError("into is read-only; give a lease that can be written", WRITE_READ_ONLY)
    if (into.shape, into.dtype) != (card.shape, card.dtype) or not into._is_row_major():
        raise ProtocolError(
            f"into is {into.dtype.name} {into.shape} with strides {into.strides}; wanted is "
            f"{card.dtype.name} {card.shape}, row after row without gaps",
            BAD_ARGUMENT,
        )


def _api() -> Any:
    """Import NIXL, whatever its package is called."""
    problems = []
    for package in PACKAGES:
        try:
            return import_module(f"{package}._api")
        except ImportError as error:
            problems.append(str(error))
    raise ProtocolError(
        f"NIXL cannot be imported: {problems[0]}; install it: `pip install nixl[cu13]`",
        NOT_INSTALLED,
    )
