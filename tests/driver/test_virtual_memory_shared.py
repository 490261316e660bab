"""Physical memory that other processes import by a file descriptor."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from ctypes import byref, c_int, c_uint64, c_void_p

import pytest

from . import peers
from .cuda import check, cu
from .peers import Peer
from .resources import (
    Resources,
    alone,
    download,
    pattern,
    start,
    undefined_on_hardware,
    upload,
    value,
)
from .test_ipc import digest, read, write
from .virtual import DESCRIPTOR, READ, UNIT, Mapped, create, descriptor, import_code

SIZE = 4 * UNIT
_here: list[Mapped] = []


def make(seed: int) -> int:
    """Make shared memory, give its descriptor, and return where it is mapped."""
    mapped = Mapped(create(SIZE), size=SIZE)
    _here.append(mapped)
    upload(mapped.address, pattern(SIZE, seed))
    peers.give(descriptor(mapped.handles[0]))
    return mapped.address


def take(flags: int) -> int:
    """Map the memory of the descriptor that came; return where."""
    code, handle = import_code(peers.given[0])
    os.close(peers.given[0])
    check(code)
    _here.append(Mapped(handle, size=SIZE, flags=flags))
    return _here[-1].address


def drop() -> None:
    """Undo it."""
    _here.pop().close()


def fill_code(address: int) -> int:
    """Fill memory; return the code."""
    return cu.cuMemsetD8_v2(address, 1, 16)


@pytest.fixture
def peer(gpu: Resources) -> Iterator[Peer]:
    """Another process, killed in the end if the test did not end it."""
    with peers.peers(1) as (made,):
        yield made


def _import(number: int, flags: int = 3) -> Mapped:
    code, handle = import_code(number)
    os.close(number)
    check(code)
    return Mapped(handle, size=SIZE, flags=flags)


def test_another_process_sees_the_same_bytes(gpu: Resources, peer: Peer) -> None:
    """Both ways; each side undoes its own."""
    there, (number,) = peer.ask_for_files(make, 3)
    mapped = _import(number)
    assert download(mapped.address, SIZE) == pattern(SIZE, 3)
    check(cu.cuMemsetD8_v2(mapped.address, 7, SIZE))
    check(cu.cuCtxSynchronize())
    assert peer.ask(read, there, SIZE) == digest(b"\x07" * SIZE)
    peer.ask(write, there, SIZE, 9)
    assert download(mapped.address, SIZE) == b"\x09" * SIZE
    mapped.close()
    assert peer.ask(read, there, SIZE) == digest(b"\x09" * SIZE)
    peer.ask(drop)


def test_an_importer_can_be_given_reading_alone(gpu: Resources, peer: Peer) -> None:
    """Its fills are refused, and the exporter's bytes stay."""
    mapped = Mapped(create(SIZE), size=SIZE)
    upload(mapped.address, pattern(SIZE, 3))
    number = descriptor(mapped.handles[0])
    there = peer.ask(take, READ, send=[number])
    os.close(number)
    assert peer.ask(fill_code, there) == 1
    assert peer.ask(read, there, SIZE) == digest(pattern(SIZE, 3))
    peer.ask(drop)
    mapped.close()


def test_bytes_outlive_an_exporter_that_is_killed(gpu: Resources) -> None:
    """A mapping keeps them, and so does the descriptor alone."""
    with peers.peers(1) as (peer,):
        _, (first,) = peer.ask_for_files(make, 4)
        _, (second,) = peer.ask_for_files(make, 5)
        mapped = _import(first)
        peer.kill()
        assert download(mapped.address, SIZE) == pattern(SIZE, 4)
        late = _import(second)
        assert download(late.address, SIZE) == pattern(SIZE, 5)
        late.close()
        mapped.close()


def test_an_exporter_outlives_importers_that_are_killed(gpu: Resources) -> None:
    """And what it releases is released."""
    mapped = Mapped(create(SIZE), size=SIZE)
    upload(mapped.address, pattern(SIZE, 4))
    number = descriptor(mapped.handles[0])
    with peers.peers(1) as (peer,):
        there = peer.ask(take, 3, send=[number])
        peer.ask(write, there, 16, 8)
        peer.kill()
    os.close(number)
    assert download(mapped.address, 16) == b"\x08" * 16
    mapped.close()


def test_ones_own_descriptor_can_be_imported(gpu: Resources) -> None:
    """It is another handle of the same bytes."""
    mapped = Mapped(create(SIZE), size=SIZE)
    upload(mapped.address, pattern(SIZE, 6))
    again = _import(descriptor(mapped.handles[0]))
    assert download(again.address, SIZE) == pattern(SIZE, 6)
    mapped.close()
    assert download(again.address, SIZE) == pattern(SIZE, 6)
    again.close()


def test_imported_memory_is_passed_on_by_its_descriptor(gpu: Resources, peer: Peer) -> None:
    """The one that came: the driver makes none of imported memory, by no handle of it."""
    _, (number,) = peer.ask_for_files(make, 6)
    onward = os.dup(number)
    mapped = _import(number)
    retained = value(c_uint64, cu.cuMemRetainAllocationHandle, c_void_p(mapped.address))
    for handle in (mapped.handles[0], retained):
        out = c_int()
        assert cu.cuMemExportToShareableHandle(byref(out), handle, DESCRIPTOR, 0) == 1
    check(cu.cuMemRelease(retained))
    with peers.peers(1) as (third,):
        there = third.ask(take, 3, send=[onward])
        assert third.ask(read, there, SIZE) == digest(pattern(SIZE, 6))
    os.close(onward)
    mapped.close()


def test_a_descriptor_is_given_only_for_what_was_made_for_it(gpu: Resources) -> None:
    """And only of the kind that was asked for."""
    plain, shared, out = create(handles=0), create(), c_int()
    assert cu.cuMemExportToShareableHandle(byref(out), plain, DESCRIPTOR, 0) == 1
    assert cu.cuMemExportToShareableHandle(byref(out), shared, 2, 0) == 1
    assert cu.cuMemExportToShareableHandle(byref(out), shared, DESCRIPTOR, 1) == 1
    assert cu.cuMemExportToShareableHandle(None, shared, DESCRIPTOR, 0) == 1
    for handle in (plain, shared):
        check(cu.cuMemRelease(handle))


def test_other_descriptors_are_refused(gpu: Resources) -> None:
    """The null device, a pipe, a file, an in-memory file, one that is closed, none."""
    read_end, write_end = os.pipe()
    memory = os.memfd_create("gpulend-simulated-memory-0", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, UNIT)
    null = os.open("/dev/null", os.O_RDWR)
    with tempfile.TemporaryFile() as file:
        file.truncate(UNIT)
        for number in (read_end, write_end, memory, null, file.fileno(), 9999, -1):
            code, handle = import_code(number)
            assert code != 0, number
            assert handle == 0
    for number in (read_end, write_end, memory, null):
        os.close(number)
    assert cu.cuMemImportFromShareableHandle(byref(c_uint64()), 0, 2) != 0


@undefined_on_hardware("a driver's descriptors are no files in memory")
def test_shared_memory_cannot_be_cut_short(gpu: Resources) -> None:
    """Otherwise one process could end the other: touching what was cut off is a fault."""
    handle = create()
    number = descriptor(handle)
    with pytest.raises(PermissionError):
        os.ftruncate(number, 0)
    os.close(number)
    check(cu.cuMemRelease(handle))


def _import_in_fork() -> list[int]:
    """Fork with a descriptor, and try it in the child."""
    start()
    handle = create()
    number = descriptor(handle)
    child = os.fork()
    if child == 0:
        os._exit(import_code(number)[0])
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return [code, import_code(number)[0]]


def test_a_forked_child_imports_nothing() -> None:
    """NOT_INITIALIZED; the parent goes on."""
    assert alone(_import_in_fork) == [3, 0]
