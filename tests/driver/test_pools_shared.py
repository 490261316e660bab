"""Pools that other processes import by a file descriptor, and their memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from ctypes import byref, c_int, c_uint64, c_void_p

import pytest

from . import peers
from .control import report
from .cuda import PointerExport, check, cu
from .peers import Peer
from .resources import Resources, download, pattern, undefined_on_hardware, upload, value
from .test_ipc import digest, read, write
from .virtual import DESCRIPTOR

MIB = 1 << 20
MEMORY_TYPE, RANGE_SIZE, HANDLE_TYPES, POOL = 2, 12, 14, 17  # CUpointer_attribute
SUPPORTED_HANDLES = 119  # CUdevice_attribute
_pools: list[int] = []


def share(pool: int) -> int:
    """Return a descriptor of a pool."""
    return value(c_int, cu.cuMemPoolExportToShareableHandle, pool, DESCRIPTOR, 0)


def import_code(number: int) -> tuple[int, int | None]:
    """Import a pool; return the code and the pool."""
    pool = c_void_p(None)
    code = cu.cuMemPoolImportFromShareableHandle(byref(pool), number, DESCRIPTOR, 0)
    return code, pool.value


def export(address: int) -> str:
    """Return the name of a pool's memory as text."""
    name = PointerExport()
    check(cu.cuMemPoolExportPointer(byref(name), address))
    return bytes(name).hex()


def pointer_code(pool: int | None, name: str) -> tuple[int, int]:
    """Import memory; return the code and the address."""
    address = c_uint64(0)
    whole = PointerExport.from_buffer_copy(bytes.fromhex(name))
    return cu.cuMemPoolImportPointer(byref(address), pool, byref(whole)), address.value


def make_pool() -> None:
    """Make a pool, and give its descriptor."""
    _pools.append(Resources(0).pool(handleTypes=DESCRIPTOR))
    peers.give(share(_pools[-1]))


def make(size: int, seed: int) -> tuple[str, int]:
    """Allocate of the pool; return the name and the address."""
    address = value(c_uint64, cu.cuMemAllocFromPoolAsync, size, _pools[-1], None)
    check(cu.cuStreamSynchronize(None))
    upload(address, pattern(size, seed))
    return export(address), address


def free(address: int) -> int:
    """Free memory in stream order, and wait."""
    code = cu.cuMemFreeAsync(address, None)
    check(cu.cuStreamSynchronize(None))
    return code


def faults() -> list[str]:
    """Return what the simulated GPU reports."""
    return [fault["what"] for fault in report()["faults"]]


@pytest.fixture
def peer(gpu: Resources) -> Iterator[Peer]:
    """Another process, killed in the end if the test did not end it."""
    with peers.peers(1) as (made,):
        yield made


@pytest.fixture
def imported(gpu: Resources, peer: Peer) -> int:
    """A pool of the other process."""
    _, (number,) = peer.ask_for_files(make_pool)
    code, pool = import_code(number)
    os.close(number)
    check(code)
    return gpu._keep(cu.cuMemPoolDestroy, pool)


def test_the_device_says_by_what_pools_are_shared(gpu: Resources) -> None:
    """Descriptors at least."""
    assert value(c_int, cu.cuDeviceGetAttribute, SUPPORTED_HANDLES, 0) & DESCRIPTOR


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("size", [100, 3 * MIB])
def test_another_process_sees_the_same_bytes(
    gpu: Resources, peer: Peer, imported: int, size: int, ordered: bool
) -> None:
    """Both ways; the importer frees first, in either way, and the exporter then."""
    name, there = peer.ask(make, size, 3)
    code, address = pointer_code(imported, name)
    check(code)
    assert download(address, size) == pattern(size, 3)
    check(cu.cuMemsetD8_v2(address, 7, size))
    check(cu.cuCtxSynchronize())
    assert peer.ask(read, there, size) == digest(b"\x07" * size)
    peer.ask(write, there, size, 9)
    assert download(address, size) == b"\x09" * size
    assert (free(address) if ordered else cu.cuMemFree_v2(address)) == 0
    assert peer.ask(read, there, size) == digest(b"\x09" * size)
    assert peer.ask(free, there) == 0


def test_attributes_name_the_imported_pool(gpu: Resources, peer: Peer, imported: int) -> None:
    """Device memory of the size that was asked for."""
    name, _ = peer.ask(make, 5000, 3)
    code, address = pointer_code(imported, name)
    check(code)
    assert value(c_int, cu.cuPointerGetAttribute, MEMORY_TYPE, address) == 2
    assert value(c_uint64, cu.cuPointerGetAttribute, RANGE_SIZE, address) == 5000
    assert value(c_uint64, cu.cuPointerGetAttribute, HANDLE_TYPES, address) == 0
    assert value(c_void_p, cu.cuPointerGetAttribute, POOL, address) == imported
    check(cu.cuMemFree_v2(address))


def test_memory_that_is_imported_twice_is_freed_once(
    gpu: Resources, peer: Peer, imported: int
) -> None:
    """The same address again, and the first free ends both."""
    name, there = peer.ask(make, 4096, 3)
    twice = [pointer_code(imported, name) for _ in range(2)]
    assert twice[0] == twice[1]
    assert [cu.cuMemFree_v2(twice[0][1]) for _ in range(2)] == [0, 1]
    assert peer.ask(free, there) == 0


def test_nothing_is_allocated_from_an_imported_pool(gpu: Resources, imported: int) -> None:
    """Nor is it exported again."""
    out = c_uint64()
    assert cu.cuMemAllocFromPoolAsync(byref(out), 4096, imported, None) == 1
    assert out.value == 0
    number = c_int()
    assert cu.cuMemPoolExportToShareableHandle(byref(number), imported, DESCRIPTOR, 0) != 0


def test_bytes_outlive_an_exporter_that_is_killed(gpu: Resources) -> None:
    """The importer goes on reading."""
    with peers.peers(1) as (peer,):
        _, (number,) = peer.ask_for_files(make_pool)
        name, _ = peer.ask(make, 3 * MIB, 4)
        code, pool = import_code(number)
        check(code)
        code, address = pointer_code(pool, name)
        check(code)
        peer.kill()
        assert download(address, 3 * MIB) == pattern(3 * MIB, 4)
        check(cu.cuMemFree_v2(address))
        check(cu.cuMemPoolDestroy(pool))
        os.close(number)


def take(name: str) -> int:
    """Import the pool whose descriptor came, and memory of it."""
    code, pool = import_code(peers.given[0])
    check(code)
    os.close(peers.given[0])
    code, address = pointer_code(pool, name)
    check(code)
    return address


def test_an_exporter_outlives_importers_that_are_killed(gpu: Resources) -> None:
    """And frees as if they had freed."""
    pool, stream = gpu.pool(handleTypes=DESCRIPTOR), gpu.stream()
    address = gpu.alloc_async(MIB, stream, pool)
    check(cu.cuStreamSynchronize(stream))
    number = share(pool)
    with peers.peers(1) as (peer,):
        there = peer.ask(take, export(address), send=[number])
        peer.ask(write, there, MIB, 6)
        peer.kill()
    os.close(number)
    assert download(address, MIB) == b"\x06" * MIB
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))


def test_only_a_pool_that_was_made_for_it_is_shared(gpu: Resources) -> None:
    """The default pool and plain ones are not, nor is their memory, nor other memory."""
    default, plain = value(c_void_p, cu.cuDeviceGetDefaultMemPool, 0), gpu.pool()
    shared, number, name = gpu.pool(handleTypes=DESCRIPTOR), c_int(), PointerExport()
    for pool in (default, plain):
        assert cu.cuMemPoolExportToShareableHandle(byref(number), pool, DESCRIPTOR, 0) == 1
    assert cu.cuMemPoolExportToShareableHandle(byref(number), shared, 2, 0) != 0
    assert cu.cuMemPoolExportToShareableHandle(byref(number), shared, DESCRIPTOR, 1) == 1
    address = gpu.alloc_async(64, None, plain)
    check(cu.cuStreamSynchronize(None))
    for wrong in (address, gpu.alloc(64), gpu.pinned(64), 0):
        assert cu.cuMemPoolExportPointer(byref(name), wrong) == 1
    check(cu.cuMemFreeAsync(address, None))


def test_other_descriptors_are_refused(gpu: Resources) -> None:
    """A pipe, the null device, an in-memory file, none."""
    read_end, write_end = os.pipe()
    memory = os.memfd_create("gpulend-simulated-pool", os.MFD_ALLOW_SEALING)
    os.write(memory, bytes(64))
    null = os.open("/dev/null", os.O_RDWR)
    for number in (read_end, write_end, memory, null, 9999, -1):
        code, pool = import_code(number)
        assert code != 0, number
        assert pool is None
    for number in (read_end, write_end, memory, null):
        os.close(number)


def test_what_is_no_memory_of_the_pool_is_refused(
    gpu: Resources, peer: Peer, imported: int
) -> None:
    """Other bytes, and a pool that was not imported."""
    name, _ = peer.ask(make, 4096, 3)
    for wrong in (bytes(64).hex(), "ff" * 64):
        assert pointer_code(imported, wrong)[0] != 0
    assert pointer_code(gpu.pool(handleTypes=DESCRIPTOR), name)[0] != 0


@undefined_on_hardware("importers must free first")
def test_memory_that_the_exporter_frees_first_is_reported(
    gpu: Resources, peer: Peer, imported: int
) -> None:
    """And its bytes stay for the importer; memory of another pool is refused."""
    name, there = peer.ask(make, 4096, 3)
    code, address = pointer_code(imported, name)
    check(code)
    assert peer.ask(free, there) == 0
    assert "another process has it open" in peer.ask(faults)[-1]
    peer.ask(make, 4096, 4)
    assert download(address, 4096) == pattern(4096, 3)
    check(cu.cuMemFree_v2(address))
    peer.ask_for_files(make_pool)
    other, _ = peer.ask(make, 4096, 5)
    assert pointer_code(imported, other)[0] == 1
