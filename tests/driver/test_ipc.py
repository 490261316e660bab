"""Device memory of another process, opened by a handle of 64 bytes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import time
from collections.abc import Iterator
from ctypes import byref, c_int, c_uint64

import pytest

from .control import report
from .cuda import SIMULATED, IpcMemoryHandle, check, cu
from .peers import Peer, peers
from .resources import (
    JUNK,
    Resources,
    allocate,
    alone,
    download,
    pattern,
    start,
    undefined_on_hardware,
    upload,
    value,
)

LAZY_PEER_ACCESS = 1
MEMORY_TYPE, BUFFER_ID, LEGACY_CAPABLE, RANGE_START, RANGE_SIZE = 2, 7, 10, 11, 12
MIB = 1 << 20
SIZES = [1, 1000, 4096, MIB, 3 * MIB + 17]


def export(address: int) -> str:
    """Return the handle of memory as text."""
    handle = IpcMemoryHandle()
    check(cu.cuIpcGetMemHandle(byref(handle), address))
    return bytes(handle).hex()


def open_code(handle: str, flags: int = LAZY_PEER_ACCESS) -> tuple[int, int]:
    """Open a handle; return the code and the address."""
    address = c_uint64(0)
    whole = IpcMemoryHandle.from_buffer_copy(bytes.fromhex(handle))
    return cu.cuIpcOpenMemHandle_v2(byref(address), whole, flags), address.value


def open_handle(handle: str) -> int:
    """Open a handle that can be opened."""
    code, address = open_code(handle)
    check(code)
    return address


def make(size: int, seed: int) -> tuple[str, int]:
    """Allocate memory with a pattern; return its handle and its address."""
    address = allocate(size)
    upload(address, pattern(size, seed))
    return export(address), address


def digest(data: bytes) -> str:
    """Return a short text that tells bytes apart."""
    return hashlib.sha256(data).hexdigest()


def read(address: int, size: int) -> str:
    """Return the digest of memory."""
    return digest(download(address, size))


def write(address: int, size: int, byte: int) -> None:
    """Fill memory, and wait."""
    check(cu.cuMemsetD8_v2(address, byte, size))
    check(cu.cuCtxSynchronize())


def free(address: int) -> int:
    """Free memory; return the code."""
    return cu.cuMemFree_v2(address)


def close(address: int) -> int:
    """Close memory of another process; return the code."""
    return cu.cuIpcCloseMemHandle(address)


def faults() -> list[str]:
    """Return what the simulated GPU reports."""
    return [fault["what"] for fault in report()["faults"]]


@pytest.fixture
def peer(gpu: Resources) -> Iterator[Peer]:
    """Another process, killed in the end if the test did not end it."""
    with peers(1) as (made,):
        yield made


@pytest.mark.parametrize("size", SIZES)
def test_another_process_sees_the_same_bytes(gpu: Resources, peer: Peer, size: int) -> None:
    """Both ways, and close leaves the exporter's memory as it is."""
    handle, there = peer.ask(make, size, 3)
    address = open_handle(handle)
    assert download(address, size) == pattern(size, 3)
    check(cu.cuMemsetD8_v2(address, 7, size))
    check(cu.cuCtxSynchronize())
    assert peer.ask(read, there, size) == digest(b"\x07" * size)
    peer.ask(write, there, size, 9)
    assert download(address, size) == b"\x09" * size
    assert close(address) == 0
    assert peer.ask(read, there, size) == digest(b"\x09" * size)
    assert peer.ask(free, there) == 0


def test_an_address_inside_stands_for_the_whole_allocation(gpu: Resources, peer: Peer) -> None:
    """The handle is the same, and the opener gets the base."""
    address = gpu.alloc(3 * MIB)
    upload(address, pattern(3 * MIB, 5))
    assert export(address + 2 * MIB + 5) == export(address)
    opened = peer.ask(open_handle, export(address + 4097))
    assert peer.ask(read, opened, 64) == digest(pattern(64, 5))
    assert peer.ask(close, opened + 4097) == 1
    assert peer.ask(close, opened) == 0


def test_small_allocations_are_opened_one_by_one(gpu: Resources, peer: Peer) -> None:
    """They may lie in one page, and each handle is of one of them."""
    made = [peer.ask(make, 100, seed) for seed in range(8)]
    opened = [open_handle(handle) for handle, _ in made]
    assert [download(address, 100) for address in opened] == [pattern(100, n) for n in range(8)]
    assert len(set(opened)) == 8
    for address in opened:
        assert close(address) == 0


def test_ones_own_handle_is_refused(gpu: Resources) -> None:
    """INVALID_CONTEXT: the memory is open already, at its own address."""
    assert open_code(export(gpu.alloc(4096))) == (201, 0)


def test_a_handle_that_is_open_is_counted(gpu: Resources, peer: Peer) -> None:
    """The same address again, until it was closed as often."""
    handle, _ = peer.ask(make, 4096, 2)
    first = open_handle(handle)
    assert open_handle(handle) == first
    assert close(first) == 0
    assert download(first, 4096) == pattern(4096, 2)
    assert close(first) == 0
    assert close(first) == 1


def test_several_processes_open_one_handle(gpu: Resources) -> None:
    """And one of them can pass it on."""
    address = gpu.alloc(4096)
    upload(address, pattern(4096, 1))
    with peers(2) as both:
        opened = [peer.ask(open_handle, export(address)) for peer in both]
        both[0].ask(write, opened[0], 4096, 6)
        assert both[1].ask(read, opened[1], 4096) == digest(b"\x06" * 4096)
        assert [peer.ask(close, there) for peer, there in zip(both, opened, strict=True)] == [0, 0]


def test_other_memory_has_no_such_handle(gpu: Resources) -> None:
    """Of a pool, of the host, managed, or none at all."""
    stream = gpu.stream()
    pooled = gpu.alloc_async(4096, stream)
    check(cu.cuStreamSynchronize(stream))
    plain = ctypes.create_string_buffer(64)
    handle = IpcMemoryHandle()
    wrong = [pooled, gpu.pinned(4096), gpu.managed(4096), ctypes.addressof(plain), 0, JUNK & ~511]
    codes = [cu.cuIpcGetMemHandle(byref(handle), address) for address in wrong]
    assert codes == [1] * len(wrong)
    check(cu.cuMemFreeAsync(pooled, stream))


def test_an_attribute_says_which_memory_has_such_a_handle(gpu: Resources) -> None:
    """That of cuMemAlloc alone."""
    stream = gpu.stream()
    pooled = gpu.alloc_async(4096, stream)
    check(cu.cuStreamSynchronize(stream))
    known = [gpu.alloc(64), gpu.alloc(3 * MIB), pooled, gpu.pinned(64), gpu.managed(64)]
    seen = [value(c_int, cu.cuPointerGetAttribute, LEGACY_CAPABLE, each) for each in known]
    assert seen == [1, 1, 0, 0, 0]
    check(cu.cuMemFreeAsync(pooled, stream))


def test_flags_and_places_are_checked(gpu: Resources, peer: Peer) -> None:
    """The one flag is wanted, and so is a place for the result."""
    handle, _ = peer.ask(make, 4096, 2)
    assert [open_code(handle, flags)[0] for flags in (0, 2)] == [1, 1]
    whole = IpcMemoryHandle.from_buffer_copy(bytes.fromhex(handle))
    assert cu.cuIpcOpenMemHandle_v2(None, whole, LAZY_PEER_ACCESS) == 1
    assert cu.cuIpcGetMemHandle(None, gpu.alloc(64)) == 1


def test_only_what_is_open_can_be_closed(gpu: Resources, peer: Peer) -> None:
    """Not one's own memory, not an address; and opened memory cannot be freed."""
    handle, _ = peer.ask(make, 4096, 2)
    address = open_handle(handle)
    for wrong in (gpu.alloc(4096), 0, JUNK & ~511, address + 512):
        assert close(wrong) == 1
    assert cu.cuMemFree_v2(address) == 1
    assert download(address, 4096) == pattern(4096, 2)
    assert close(address) == 0


def test_opened_memory_is_not_exported_again(gpu: Resources, peer: Peer) -> None:
    """A third process opens the exporter's handle."""
    handle, _ = peer.ask(make, 4096, 2)
    address = open_handle(handle)
    assert cu.cuIpcGetMemHandle(byref(IpcMemoryHandle()), address) == 1
    assert close(address) == 0


def test_opened_memory_has_the_attributes_of_device_memory(gpu: Resources, peer: Peer) -> None:
    """With a range and a buffer id of its own."""
    handle, _ = peer.ask(make, 5000, 2)
    address = open_handle(handle)
    assert value(c_int, cu.cuPointerGetAttribute, MEMORY_TYPE, address + 9) == 2
    assert value(c_uint64, cu.cuPointerGetAttribute, RANGE_START, address + 9) == address
    assert value(c_uint64, cu.cuPointerGetAttribute, RANGE_SIZE, address + 9) == 5000
    own = gpu.alloc(64)
    ids = [value(c_uint64, cu.cuPointerGetAttribute, BUFFER_ID, each) for each in (address, own)]
    assert len(set(ids)) == 2
    assert cu.cuMemsetD8_v2(address + 4999, 1, 2) == 1
    assert close(address) == 0


def test_bytes_outlive_an_exporter_that_is_killed(gpu: Resources) -> None:
    """The importer goes on reading and writing; a new open fails."""
    with peers(1) as (peer,):
        handle, _ = peer.ask(make, 3 * MIB, 4)
        address = open_handle(handle)
        late, _ = peer.ask(make, 4096, 5)
        peer.kill()
        assert download(address, 3 * MIB) == pattern(3 * MIB, 4)
        check(cu.cuMemsetD8_v2(address, 7, 3 * MIB))
        assert download(address, 3 * MIB) == b"\x07" * (3 * MIB)
        assert open_code(late)[0] != 0
        assert close(address) == 0


def test_an_exporter_outlives_importers_that_are_killed(gpu: Resources) -> None:
    """Its memory is free as soon as it frees it, with no complaint."""
    address = allocate(3 * MIB)
    upload(address, pattern(3 * MIB, 4))
    with peers(1) as (peer,):
        opened = peer.ask(open_handle, export(address))
        assert peer.ask(read, opened, 16) == digest(pattern(16, 4))
        peer.kill()
    assert download(address, 3 * MIB) == pattern(3 * MIB, 4)
    before = len(faults()) if SIMULATED else 0
    assert cu.cuMemFree_v2(address) == 0
    assert not SIMULATED or len(faults()) == before


FORGED = [bytes(64), b"\xff" * 64, *(random.Random(n).randbytes(64) for n in range(20))]


@pytest.mark.parametrize("handle", FORGED, ids=range(len(FORGED)))
def test_what_is_no_handle_is_refused(gpu: Resources, handle: bytes) -> None:
    """With an error, and no address."""
    assert open_code(handle.hex()) == (1, 0)


@undefined_on_hardware("an H200 opened other memory of the process")
def test_a_changed_handle_opens_nothing(gpu: Resources, peer: Peer) -> None:
    """A bit in any byte is noticed."""
    handle, _ = peer.ask(make, 4096, 3)
    for byte in range(64):
        forged = bytearray.fromhex(handle)
        forged[byte] ^= 1 << byte % 8
        assert open_code(forged.hex())[0] != 0, byte


def _exporter_and_fork() -> list[object]:
    """Export, fork, and see what the child can do and what the parent still can."""
    start()
    handle, address = make(4096, 1)
    child = os.fork()
    if child == 0:
        codes = [open_code(handle)[0], cu.cuIpcGetMemHandle(byref(IpcMemoryHandle()), address)]
        os._exit(0 if codes == [3, 3] else 1)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with Peer() as peer:
        opened = peer.ask(open_handle, handle)
        seen = peer.ask(read, opened, 4096) == digest(pattern(4096, 1))
        return [ended, seen, peer.ask(close, opened), cu.cuMemFree_v2(address)]


def test_a_forked_child_opens_nothing_and_harms_nothing() -> None:
    """NOT_INITIALIZED there, as for every call; the parent's handles stay good."""
    assert alone(_exporter_and_fork) == [0, True, 0, 0]


@undefined_on_hardware("importers must close first")
class TestFreedTooEarly:
    """The exporter frees what another process has open."""

    def test_it_is_reported_and_the_bytes_stay(self, gpu: Resources, peer: Peer) -> None:
        """Until the importer closes; no new memory is laid over them."""
        handle, there = peer.ask(make, 4096, 3)
        address = open_handle(handle)
        assert peer.ask(free, there) == 0
        (what,) = peer.ask(faults)
        assert "another process has it open" in what
        for seed in range(20):
            peer.ask(make, 4096, seed)
        assert download(address, 4096) == pattern(4096, 3)
        assert open_code(handle)[0] == 0  # open here already
        assert [close(address), close(address)] == [0, 0]
        assert open_code(handle)[0] == 1  # freed
        assert peer.ask(free, there) == 1

    def test_the_memory_comes_back_when_the_importer_is_gone(self, gpu: Resources) -> None:
        """Closed or killed: it is counted as used until then."""
        before = _free_memory()
        for kill in (False, True):
            with peers(1) as (peer,):
                address = allocate(8 * MIB)
                opened = peer.ask(open_handle, export(address))
                check(cu.cuMemFree_v2(address))
                assert _free_memory() == before - 8 * MIB
                if kill:
                    peer.kill()
                else:
                    assert peer.ask(close, opened) == 0
                assert _free_memory() == before

    def test_closed_memory_is_no_memory(self, gpu: Resources, peer: Peer) -> None:
        """A copy is refused, and the report says who closed it."""
        handle, _ = peer.ask(make, 4096, 3)
        address = open_handle(handle)
        assert close(address) == 0
        assert cu.cuMemsetD8_v2(address, 1, 16) == 1
        assert "cuIpcCloseMemHandle" in faults()[-1]
        assert cu.cuMemHostRegister_v2(address, 16, 0) == 1


def _free_memory() -> int:
    free_bytes, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(cu.cuMemGetInfo_v2(byref(free_bytes), byref(total)))
    return free_bytes.value


def test_work_on_opened_memory_is_done_before_it_is_closed(gpu: Resources, peer: Peer) -> None:
    """As cuMemFree waits for the work of a context."""
    handle, there = peer.ask(make, 4096, 3)
    address, stream = open_handle(handle), gpu.stream()
    check(cu.cuMemsetD8Async(address, 8, 4096, stream))
    assert close(address) == 0
    assert peer.ask(read, there, 4096) == digest(b"\x08" * 4096)


def test_opening_is_quick(gpu: Resources, peer: Peer) -> None:
    """A large allocation is mapped, not copied."""
    handle, _ = peer.ask(_large)
    began = time.monotonic()
    address = open_handle(handle)
    assert close(address) == 0
    assert time.monotonic() - began < 2


def _large() -> tuple[str, int]:
    address = allocate(1 << 30)
    return export(address), address
