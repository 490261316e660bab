"""One valid use of each function that shares memory between processes: part of `calls.py`."""

from __future__ import annotations

import atexit
import os
from ctypes import c_int, c_size_t, c_uint64
from functools import cache
from typing import Any

from . import test_ipc_events as events
from . import test_pools_shared as pools
from .bench import SIZE, Bench, Out, Table, then
from .cuda import (
    AccessDescription,
    AllocationProperties,
    IpcEventHandle,
    IpcMemoryHandle,
    Location,
    PointerExport,
    check,
)
from .peers import Peer
from .resources import DEVICE
from .test_ipc import LAZY_PEER_ACCESS, make, open_handle
from .variants import cu
from .virtual import (
    DESCRIPTOR,
    READ_WRITE,
    UNIT,
    Mapped,
    allow,
    create,
    descriptor,
    properties,
    reserve,
)

SHARED = Table()


@cache
def _peer() -> Peer:
    peer = Peer()
    atexit.register(peer.kill)
    return peer


@cache
def _foreign() -> str:
    return _peer().ask(make, SIZE, 1)[0]


def _handle(b: Bench) -> Any:
    return IpcMemoryHandle.from_buffer_copy(bytes.fromhex(_foreign()))


SHARED.add("cuIpcGetMemHandle", lambda b: (Out(IpcMemoryHandle), b.device))
SHARED.add(
    "cuIpcOpenMemHandle cuIpcOpenMemHandle_v2",
    lambda b: (Out(c_uint64), _handle(b), LAZY_PEER_ACCESS),
    then(cu.cuIpcCloseMemHandle),
)
SHARED.add("cuIpcCloseMemHandle", lambda b: (open_handle(_foreign()),))


@cache
def _foreign_event() -> str:
    return _peer().ask(events.make)


SHARED.add(
    "cuIpcGetEventHandle",
    lambda b: (Out(IpcEventHandle), b.resources.event(events.FLAGS)),
)
SHARED.add(
    "cuIpcOpenEventHandle",
    lambda b: (Out(), IpcEventHandle.from_buffer_copy(bytes.fromhex(_foreign_event()))),
    then(cu.cuEventDestroy_v2),
)


# Memory in separate steps.
def _later(b: Bench, release: Any, thing: Any) -> Any:
    return b._later(lambda _: release(), thing)


def _physical(b: Bench) -> int:
    handle = create()
    return _later(b, lambda: cu.cuMemRelease(handle), handle)


def _reserved(b: Bench) -> int:
    address = reserve()
    return _later(b, lambda: cu.cuMemAddressFree(address, UNIT), address)


def _mapped(b: Bench) -> int:
    mapped = Mapped(create())
    return _later(b, lambda: mapped.close() or 0, mapped.address)


def _unmapped(b: Bench, address: int, *_: Any) -> None:
    check(cu.cuMemUnmap(address, UNIT))


def _mappable(b: Bench) -> tuple[int, int]:
    return _reserved(b), _physical(b)


def _to_unmap(b: Bench) -> int:
    address, handle = _mappable(b)
    check(cu.cuMemMap(address, UNIT, 0, handle, 0))
    check(allow(address))
    return address


def _map(b: Bench) -> tuple[Any, ...]:
    address, handle = _mappable(b)
    return address, UNIT, 0, handle, 0


def _file(b: Bench) -> int:
    number = descriptor(_physical(b))
    return _later(b, lambda: os.close(number) or 0, number)


HERE = Location(DEVICE, 0)

SHARED.add("cuMemGetAllocationGranularity", lambda b: (Out(c_size_t), Out(properties()), 0))
SHARED.add(
    "cuMemAddressReserve",
    lambda b: (Out(c_uint64), UNIT, 0, 0, 0),
    then(lambda address: cu.cuMemAddressFree(address, UNIT)),
)
SHARED.add("cuMemAddressFree", lambda b: (reserve(), UNIT))
SHARED.add(
    "cuMemCreate", lambda b: (Out(c_uint64), UNIT, Out(properties()), 0), then(cu.cuMemRelease)
)
SHARED.add("cuMemRelease", lambda b: (create(),))
SHARED.add("cuMemMap", _map, _unmapped)
SHARED.add("cuMemUnmap", lambda b: (_to_unmap(b), UNIT))
SHARED.add(
    "cuMemSetAccess",
    lambda b: (_mapped(b), UNIT, Out(AccessDescription(HERE, READ_WRITE)), 1),
)
SHARED.add("cuMemGetAccess", lambda b: (Out(c_uint64), Out(HERE), _mapped(b)))
SHARED.add(
    "cuMemExportToShareableHandle",
    lambda b: (Out(c_int), _physical(b), DESCRIPTOR, 0),
    lambda b, made, *_: os.close(made.value),
)
SHARED.add(
    "cuMemImportFromShareableHandle",
    lambda b: (Out(c_uint64), _file(b), DESCRIPTOR),
    then(cu.cuMemRelease),
)
SHARED.add(
    "cuMemRetainAllocationHandle", lambda b: (Out(c_uint64), _mapped(b)), then(cu.cuMemRelease)
)
SHARED.add(
    "cuMemGetAllocationPropertiesFromHandle",
    lambda b: (Out(AllocationProperties), _physical(b)),
)


# Pools.
def _shared_pool(b: Bench) -> int:
    return b.resources.pool(handleTypes=DESCRIPTOR)


def _pool_file(b: Bench) -> int:
    number = pools.share(_shared_pool(b))
    return _later(b, lambda: os.close(number) or 0, number)


def _pooled(b: Bench) -> int:
    address = b.resources.alloc_async(SIZE, None, _shared_pool(b))
    return b._later(cu.cuMemFree_v2, address)


@cache
def _foreign_pool() -> tuple[int, str]:
    _, (number,) = _peer().ask_for_files(pools.make_pool)
    return number, _peer().ask(pools.make, SIZE, 1)[0]


def _imported(b: Bench) -> tuple[Any, ...]:
    number, name = _foreign_pool()
    code, pool = pools.import_code(number)
    check(code)
    b._later(cu.cuMemPoolDestroy, pool)
    return Out(c_uint64), pool, Out(PointerExport.from_buffer_copy(bytes.fromhex(name)))


SHARED.add(
    "cuMemPoolExportToShareableHandle",
    lambda b: (Out(c_int), _shared_pool(b), DESCRIPTOR, 0),
    lambda b, made, *_: os.close(made.value),
)
SHARED.add(
    "cuMemPoolImportFromShareableHandle",
    lambda b: (Out(), _pool_file(b), DESCRIPTOR, 0),
    then(cu.cuMemPoolDestroy),
)
SHARED.add("cuMemPoolExportPointer", lambda b: (Out(PointerExport), _pooled(b)))
SHARED.add("cuMemPoolImportPointer", _imported, then(cu.cuMemFree_v2))
