"""Orders that are easily lost: work that outlives its stream, graphs, whole contexts, captures."""

from __future__ import annotations

import ctypes
import mmap
import time
from ctypes import byref, c_void_p

import pytest

from .cuda import HOST_FUNCTION, check, cu
from .resources import PER_THREAD, Resources, allocate, download, end_capture, status, value
from .variants import cu as variants

BLOCKING = 0


def test_work_of_a_destroyed_stream_is_still_before_the_legacy_streams(gpu: Resources) -> None:
    """A blocking stream's work blocks the legacy stream, also when the stream is gone."""
    device, stream = gpu.alloc(64), value(c_void_p, cu.cuStreamCreate, BLOCKING)
    slow = HOST_FUNCTION(lambda _: time.sleep(0.1))
    check(cu.cuLaunchHostFunc(stream, slow, None))
    check(cu.cuMemsetD8Async(device, 0x22, 64, stream))
    check(cu.cuStreamDestroy_v2(stream))
    assert download(device, 64) == b"\x22" * 64


def test_launches_of_one_graph_follow_each_other(gpu: Resources) -> None:
    """Whatever streams they are launched in."""
    one, two, ran = gpu.stream(), gpu.stream(), []
    note = HOST_FUNCTION(lambda _: (time.sleep(0.05), ran.append(1)))
    check(cu.cuStreamBeginCapture_v2(one, 2))
    check(cu.cuLaunchHostFunc(one, note, None))
    _, graph = end_capture(one)
    executable = value(c_void_p, cu.cuGraphInstantiateWithFlags, graph, 0)
    check(cu.cuGraphLaunch(executable, one))
    check(cu.cuGraphLaunch(executable, two))
    check(cu.cuStreamSynchronize(two))
    assert len(ran) == 2
    check(cu.cuGraphExecDestroy(executable))
    check(cu.cuGraphDestroy(graph))


def test_a_contexts_wait_holds_for_streams_that_are_made_later(gpu: Resources) -> None:
    """All future work of the context waits for the event."""
    device, host, stream = gpu.alloc(64), gpu.pinned(64), gpu.stream()
    slow = HOST_FUNCTION(lambda _: time.sleep(0.1))
    check(cu.cuLaunchHostFunc(stream, slow, None))
    check(cu.cuMemsetD8Async(device, 0x44, 64, stream))
    event = gpu.event()
    check(cu.cuEventRecord(event, stream))
    check(cu.cuCtxWaitEvent(gpu.context, event))
    later = gpu.stream()
    check(cu.cuMemcpyDtoHAsync_v2(host, device, 64, later))
    check(cu.cuStreamSynchronize(later))
    assert ctypes.string_at(host, 64) == b"\x44" * 64


def test_a_context_records_only_its_own_events(gpu: Resources) -> None:
    """An event of another context is an invalid handle."""
    event, other = gpu.event(), c_void_p()
    check(cu.cuCtxCreate_v2(byref(other), 0, 0))
    assert cu.cuCtxRecordEvent(other, event) == 400
    check(cu.cuCtxDestroy_v2(other))
    check(cu.cuCtxSetCurrent(gpu.context))


@pytest.mark.parametrize("name", ["cuMemcpyHtoD_v2_ptds", "cuMemcpyDtoH_v2_ptds"])
def test_a_synchronous_copy_is_never_captured(gpu: Resources, name: str) -> None:
    """On a per-thread stream that captures it is refused, and ends the capture."""
    device, host = gpu.alloc(64), ctypes.create_string_buffer(64)
    ends = (device, host) if "HtoD" in name else (host, device)
    check(cu.cuStreamBeginCapture_v2(PER_THREAD, 2))
    assert getattr(variants, name)(*ends, 64) == 900
    assert status(PER_THREAD) == 2
    assert end_capture(PER_THREAD) == (901, None)


def test_read_only_memory_is_registered_only_as_such(gpu: Resources) -> None:
    """Without the flag a device could write where the host may not."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = c_void_p
    libc.mmap.argtypes = [c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    page = libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, flags, -1, 0)
    assert cu.cuMemHostRegister_v2(page, mmap.PAGESIZE, 0) == 1
    assert cu.cuMemHostRegister_v2(page, mmap.PAGESIZE, 8) == 0
    check(cu.cuMemHostUnregister(page))
    libc.munmap(c_void_p(page), mmap.PAGESIZE)


def test_memory_that_was_a_devices_cannot_be_registered(gpu: Resources) -> None:
    """Freed or not, it is not the host's."""
    device = allocate(4096)
    assert cu.cuMemHostRegister_v2(device, 4096, 0) == 1
    check(cu.cuMemFree_v2(device))
