"""Memory of other processes through the old form."""

from __future__ import annotations

from ctypes import byref, c_uint64

from .control import only_simulated
from .cuda import IpcMemoryHandle, check
from .peers import peers
from .resources import Resources, download, pattern
from .test_ipc import LAZY_PEER_ACCESS, make
from .variants import cu

pytestmark = only_simulated


def test_the_old_form_opens_as_the_new_one(gpu: Resources) -> None:
    """The name changed, and the arguments did not."""
    with peers(1) as (peer,):
        text, _ = peer.ask(make, 4096, 3)
        handle = IpcMemoryHandle.from_buffer_copy(bytes.fromhex(text))
        address = c_uint64()
        check(cu.cuIpcOpenMemHandle(byref(address), handle, LAZY_PEER_ACCESS))
        assert download(address.value, 4096) == pattern(4096, 3)
        check(cu.cuIpcCloseMemHandle(address))
