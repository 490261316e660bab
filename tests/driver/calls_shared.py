"""One valid use of each function that shares memory between processes: part of `calls.py`."""

from __future__ import annotations

import atexit
from ctypes import c_uint64
from functools import cache
from typing import Any

from .bench import SIZE, Bench, Out, Table, then
from .cuda import IpcMemoryHandle
from .peers import Peer
from .test_ipc import LAZY_PEER_ACCESS, make, open_handle
from .variants import cu

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
