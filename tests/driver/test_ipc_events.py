"""Events of another process, opened by a handle of 64 bytes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from ctypes import byref, c_float, c_int, c_void_p

import pytest

from . import peers
from .cuda import SIMULATED, IpcEventHandle, check, cu
from .peers import Peer
from .resources import Gate, Resources, allocate, download, value
from .test_ipc import close, open_handle
from .test_ipc import export as export_memory
from .test_ipc import open_code as open_memory

DISABLE_TIMING, INTERPROCESS = 2, 4
FLAGS = DISABLE_TIMING | INTERPROCESS
SUPPORTED = 125  # CUdevice_attribute
NOT_READY = 600
_mine: list[int] = []
_gates: list[Gate] = []
_memory: list[int] = []


def export(event: int) -> str:
    """Return the handle of an event as text."""
    handle = IpcEventHandle()
    check(cu.cuIpcGetEventHandle(byref(handle), event))
    return bytes(handle).hex()


def open_code(handle: str) -> tuple[int, int | None]:
    """Open a handle; return the code and the event."""
    event = c_void_p(None)
    whole = IpcEventHandle.from_buffer_copy(bytes.fromhex(handle))
    return cu.cuIpcOpenEventHandle(byref(event), whole), event.value


def make() -> str:
    """Make an event, and return its handle."""
    _mine.append(value(c_void_p, cu.cuEventCreate, FLAGS))
    return export(_mine[-1])


def make_memory(size: int) -> str:
    """Make memory of zeros, and return its handle."""
    _memory.append(allocate(size))
    check(cu.cuMemsetD8_v2(_memory[-1], 0, size))
    check(cu.cuCtxSynchronize())
    return export_memory(_memory[-1])


def record(byte: int, size: int) -> None:
    """Fill the memory, if there is any, behind a gate, and record the event after that."""
    stream = value(c_void_p, cu.cuStreamCreate, 1)
    _gates.append(Gate())
    _gates[-1].hold(stream)
    if size:
        check(cu.cuMemsetD8Async(_memory[-1], byte, size, stream))
    check(cu.cuEventRecord(_mine[-1], stream))


def let_go() -> None:
    """Open the gate, and wait for nothing."""
    _gates[-1].open()


def query() -> int:
    """Return whether the event here is complete, as a code."""
    return cu.cuEventQuery(_mine[-1])


def wait_and_query() -> int:
    """Wait for the event here."""
    check(cu.cuEventSynchronize(_mine[-1]))
    return cu.cuEventQuery(_mine[-1])


@pytest.fixture
def peer(gpu: Resources) -> Iterator[Peer]:
    """Another process, killed in the end if the test did not end it."""
    with peers.peers(1) as (made,):
        yield made


def _opened(gpu: Resources, handle: str) -> int:
    code, event = open_code(handle)
    check(code)
    return gpu._keep(cu.cuEventDestroy_v2, event)


def test_the_device_says_that_it_can(gpu: Resources) -> None:
    """By an attribute."""
    assert value(c_int, cu.cuDeviceGetAttribute, SUPPORTED, 0) == 1


def test_an_event_that_was_never_recorded_is_complete(gpu: Resources, peer: Peer) -> None:
    """In both processes."""
    event = _opened(gpu, peer.ask(make))
    assert cu.cuEventQuery(event) == 0
    check(cu.cuEventSynchronize(event))
    check(cu.cuStreamWaitEvent(None, event, 0))
    check(cu.cuStreamSynchronize(None))


def test_a_stream_waits_for_another_process(gpu: Resources, peer: Peer) -> None:
    """And then sees the bytes that it wrote before its record."""
    size = 1 << 16
    event = _opened(gpu, peer.ask(make))
    address = open_handle(peer.ask(make_memory, size))
    for turn in range(1, 4):
        peer.ask(record, turn, size)
        stream, copy = gpu.stream(), gpu.alloc(size)
        check(cu.cuStreamWaitEvent(stream, event, 0))
        check(cu.cuMemcpyDtoDAsync_v2(copy, address, size, stream))
        assert cu.cuEventQuery(event) == NOT_READY
        assert cu.cuStreamQuery(stream) == NOT_READY
        peer.ask(let_go)
        check(cu.cuStreamSynchronize(stream))
        assert download(copy, size) == bytes([turn]) * size
        check(cu.cuEventSynchronize(event))
        assert cu.cuEventQuery(event) == 0
    assert close(address) == 0


def test_the_processor_waits_for_another_process(gpu: Resources, peer: Peer) -> None:
    """Until its stream gets there."""
    event = _opened(gpu, peer.ask(make))
    peer.ask(record, 0, 0)
    assert cu.cuEventQuery(event) == NOT_READY
    peer.ask(let_go)
    check(cu.cuEventSynchronize(event))
    assert cu.cuEventQuery(event) == 0


def test_an_importer_records_as_well(gpu: Resources, peer: Peer) -> None:
    """And the exporter waits for it."""
    event = _opened(gpu, peer.ask(make))
    stream, gate = gpu.stream(), gpu.gate()
    gate.hold(stream)
    check(cu.cuEventRecord(event, stream))
    assert peer.ask(query) == NOT_READY
    peer.begin(wait_and_query)
    time.sleep(0.1)
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert peer.end()[0] == 0


def test_a_wait_is_for_the_record_of_that_moment(gpu: Resources, peer: Peer) -> None:
    """A later record does not hold it back."""
    event, stream = _opened(gpu, peer.ask(make)), gpu.stream()
    peer.ask(record, 0, 0)
    check(cu.cuStreamWaitEvent(stream, event, 0))
    peer.ask(let_go)
    check(cu.cuEventSynchronize(event))
    peer.ask(record, 0, 0)
    check(cu.cuStreamSynchronize(stream))
    assert cu.cuEventQuery(event) == NOT_READY
    peer.ask(let_go)


def test_ones_own_handle_and_other_events_are_refused(gpu: Resources, peer: Peer) -> None:
    """An event has to be made for it; the handle is for others."""
    assert open_code(export(gpu.event(FLAGS)))[0] == 201
    handle = IpcEventHandle()
    for flags in (0, DISABLE_TIMING):
        assert cu.cuIpcGetEventHandle(byref(handle), gpu.event(flags)) == 400
    assert cu.cuIpcGetEventHandle(None, gpu.event(FLAGS)) == 1
    event = c_void_p()
    assert cu.cuEventCreate(byref(event), INTERPROCESS) == 1
    opened = _opened(gpu, peer.ask(make))
    assert cu.cuEventElapsedTime(byref(c_float()), opened, opened) != 0


FORGED = [bytes(64), b"\xff" * 64, *(random.Random(n).randbytes(64) for n in range(10))]


@pytest.mark.parametrize("handle", FORGED, ids=range(len(FORGED)))
def test_what_is_no_handle_is_refused(gpu: Resources, handle: bytes) -> None:
    """With an error, and no event."""
    assert open_code(handle.hex()) == (205, None)


def test_handles_of_memory_and_of_events_differ(gpu: Resources, peer: Peer) -> None:
    """Neither opens the other."""
    assert open_memory(peer.ask(make))[0] != 0
    assert open_code(peer.ask(make_memory, 4096))[0] != 0


def take(handle: str) -> None:
    """Open an event here, and keep it with a stream."""
    code, event = open_code(handle)
    check(code)
    assert event is not None
    _mine.append(event)
    _mine.append(value(c_void_p, cu.cuStreamCreate, 1))


def wait() -> None:
    """Make the stream wait for the event."""
    event, stream = _mine[-2:]
    check(cu.cuStreamWaitEvent(stream, event, 0))


def states() -> list[int]:
    """Return the codes of the event and the stream."""
    event, stream = _mine[-2:]
    return [cu.cuEventQuery(event), cu.cuStreamQuery(stream)]


def test_a_pending_event_of_a_killed_process_never_comes(gpu: Resources) -> None:
    """A stream that waits for it stays; a complete one stays complete."""
    with peers.peers(2) as (exporter, importer):
        importer.ask(take, exporter.ask(make))
        exporter.ask(record, 0, 0)
        importer.ask(wait)
        pending, done = exporter.ask(make), exporter.ask(make)
        event = _opened(gpu, done)
        exporter.ask(record, 0, 0)
        exporter.ask(let_go)
        check(cu.cuEventSynchronize(event))
        exporter.kill()
        for _ in range(10):
            time.sleep(0.05)
            assert importer.ask(states) == [NOT_READY, NOT_READY]
        assert cu.cuEventQuery(event) == 0
        # A driver may keep what can be opened.
        assert open_code(pending)[0] != 0 or not SIMULATED
        importer.kill()
