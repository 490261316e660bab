"""Streams that wait for values which another process writes, by its stream or by its processor."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Iterator
from ctypes import c_uint32

import pytest

from . import peers
from .cuda import check, cu
from .peers import Peer
from .resources import Resources, download, value
from .test_ipc import close, make, open_handle

GEQ, EQ = 0, 1
NOT_READY = 600
PAGE = mmap.PAGESIZE
_mapped: list[Registered] = []


class Registered:
    """A page that processes share, registered with the driver."""

    def __init__(self, descriptor: int) -> None:
        self._pages = mmap.mmap(descriptor, PAGE)
        self.word = c_uint32.from_buffer(self._pages)
        self.address = ctypes.addressof(self.word)
        check(cu.cuMemHostRegister_v2(self.address, PAGE, 2))

    def close(self) -> None:
        """Unregister and unmap it."""
        check(cu.cuMemHostUnregister(self.address))
        del self.word
        self._pages.close()


def register() -> int:
    """Register the page whose descriptor came; return where it is."""
    _mapped.append(Registered(peers.given[0]))
    os.close(peers.given[0])
    return _mapped[-1].address


def write_by_processor(number: int) -> None:
    """Write the registered word with the processor."""
    _mapped[-1].word.value = number


def write_by_stream(address: int, number: int) -> int:
    """Queue a write on a stream, and wait for nothing."""
    stream = value(ctypes.c_void_p, cu.cuStreamCreate, 1)
    return cu.cuStreamWriteValue32_v2(stream, address, number, 0)


def wait_by_stream(address: int, number: int) -> str:
    """Wait on a stream until the word has a value, and then for the stream."""
    stream = value(ctypes.c_void_p, cu.cuStreamCreate, 1)
    check(cu.cuStreamWaitValue32_v2(stream, address, number, GEQ))
    check(cu.cuStreamSynchronize(stream))
    return "released"


@pytest.fixture
def peer(gpu: Resources) -> Iterator[Peer]:
    """Another process, killed in the end if the test did not end it."""
    with peers.peers(1) as (made,):
        yield made


@pytest.fixture
def page(gpu: Resources) -> Iterator[tuple[Registered, int]]:
    """A page that can be sent to other processes, and its descriptor."""
    descriptor = os.memfd_create("page")
    os.ftruncate(descriptor, PAGE)
    registered = Registered(descriptor)
    yield registered, descriptor
    check(cu.cuCtxSynchronize())
    registered.close()
    os.close(descriptor)


def _hold(gpu: Resources, address: int, number: int) -> int:
    """Make a new stream wait for a value; see that it does."""
    stream = gpu.stream()
    check(cu.cuStreamWaitValue32_v2(stream, address, number, GEQ))
    assert cu.cuStreamQuery(stream) == NOT_READY
    time.sleep(0.05)
    assert cu.cuStreamQuery(stream) == NOT_READY
    return stream


def test_another_processs_processor_releases_a_stream(
    gpu: Resources, peer: Peer, page: tuple[Registered, int]
) -> None:
    """Through a page that both have registered; work behind the wait follows."""
    registered, descriptor = page
    peer.ask(register, send=[descriptor])
    target = gpu.alloc(64)
    stream = _hold(gpu, registered.address, 5)
    check(cu.cuMemsetD8Async(target, 3, 64, stream))
    peer.ask(write_by_processor, 5)
    check(cu.cuStreamSynchronize(stream))
    assert download(target, 64) == b"\x03" * 64


def test_another_processs_stream_releases_a_stream(
    gpu: Resources, peer: Peer, page: tuple[Registered, int]
) -> None:
    """Although that process waits for nothing."""
    registered, descriptor = page
    there = peer.ask(register, send=[descriptor])
    stream = _hold(gpu, registered.address, 6)
    assert peer.ask(write_by_stream, there, 6) == 0
    check(cu.cuStreamSynchronize(stream))
    assert registered.word.value == 6


def test_this_process_releases_another(
    gpu: Resources, peer: Peer, page: tuple[Registered, int]
) -> None:
    """While it waits for its stream."""
    registered, descriptor = page
    there = peer.ask(register, send=[descriptor])
    peer.begin(wait_by_stream, there, 7)
    time.sleep(0.1)
    stream = gpu.stream()
    check(cu.cuStreamWriteValue32_v2(stream, registered.address, 7, 0))
    check(cu.cuStreamSynchronize(stream))
    assert peer.end()[0] == "released"


def test_opened_device_memory_orders_two_processes(gpu: Resources, peer: Peer) -> None:
    """One waits for what the other's stream writes there."""
    handle, there = peer.ask(make, 4096, 1)
    address = open_handle(handle)
    check(cu.cuMemsetD32_v2(address, 0, 1024))
    check(cu.cuCtxSynchronize())
    stream = _hold(gpu, address + 8, 9)
    assert peer.ask(write_by_stream, there + 8, 9) == 0
    check(cu.cuStreamSynchronize(stream))
    check(cu.cuStreamWriteValue32_v2(stream, address + 16, 11, 0))
    check(cu.cuStreamSynchronize(stream))
    assert peer.ask(wait_by_stream, there + 16, 11) == "released"
    assert close(address) == 0


def test_a_value_of_a_killed_process_never_comes_and_another_can_write_it(gpu: Resources) -> None:
    """Whoever finds out about the death releases the stream, here the processor of this process."""
    descriptor = os.memfd_create("page")
    os.ftruncate(descriptor, PAGE)
    registered = Registered(descriptor)
    with peers.peers(1) as (peer,):
        peer.ask(register, send=[descriptor])
        stream = _hold(gpu, registered.address, 5)
        peer.kill()
    time.sleep(0.3)
    assert cu.cuStreamQuery(stream) == NOT_READY
    releasing = threading.Timer(0.2, lambda: setattr(registered.word, "value", 5))
    releasing.start()
    check(cu.cuStreamSynchronize(stream))
    releasing.join()
    registered.close()
    os.close(descriptor)


def test_bytes_behind_a_value_are_there_when_it_is(
    gpu: Resources, peer: Peer, page: tuple[Registered, int]
) -> None:
    """The producer fills shared memory and then writes the value, all on its stream."""
    registered, descriptor = page
    there = peer.ask(register, send=[descriptor])
    memory = peer.ask(make, 1 << 20, 1)
    address = open_handle(memory[0])
    for turn in range(1, 6):
        stream = _hold(gpu, registered.address, turn)
        copy = gpu.alloc(1 << 20)
        check(cu.cuMemcpyDtoDAsync_v2(copy, address, 1 << 20, stream))
        peer.ask(produce, memory[1], 1 << 20, there, turn)
        check(cu.cuStreamSynchronize(stream))
        assert download(copy, 1 << 20) == bytes([turn]) * (1 << 20)
    assert close(address) == 0


def produce(address: int, size: int, word: int, number: int) -> None:
    """Fill memory and then write a value, in the order of a stream."""
    stream = value(ctypes.c_void_p, cu.cuStreamCreate, 1)
    check(cu.cuMemsetD8Async(address, number, size, stream))
    check(cu.cuStreamWriteValue32_v2(stream, word, number, 0))
