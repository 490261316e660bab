"""Graphs from captures: instantiate, launch again and again, destroy."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p

import pytest

from .cuda import HOST_FUNCTION, check, cu
from .differences import answer
from .resources import JUNK, LEGACY, PER_THREAD, Resources, allocate, download, end_capture, upload

MEMCPY, MEMSET, HOST_NODE, EVENT_RECORD = 1, 2, 3, 7  # CUgraphNodeType
EXTERNAL = 1
NOT_READY = 600


def _captured(stream: int | None) -> int:
    code, graph = end_capture(stream)
    check(code)
    assert graph is not None
    return graph


def test_copies_memsets_and_host_functions_run_at_each_launch(gpu: Resources) -> None:
    """With the bytes of that moment; nothing runs at capture."""
    stream, device = gpu.stream(), gpu.alloc(64)
    source, target = gpu.pinned(64, fill=1), gpu.pinned(64)
    calls: list[int | None] = []
    note = HOST_FUNCTION(calls.append)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemcpyHtoDAsync_v2(device, source, 64, stream))
    check(cu.cuMemsetD8Async(device + 8, 9, 8, stream))
    check(cu.cuLaunchHostFunc(stream, note, 42))
    check(cu.cuMemcpyDtoHAsync_v2(target, device, 64, stream))
    graph = _captured(stream)
    assert gpu.nodes(graph) == [MEMCPY, MEMSET, HOST_NODE, MEMCPY]
    executable = gpu.executable(graph)
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(target, 64) == bytes(64)
    assert calls == []
    for number in (1, 2, 3):
        ctypes.memset(source, number, 64)
        check(cu.cuGraphLaunch(executable, stream))
        check(cu.cuStreamSynchronize(stream))
        one = bytes([number])
        assert ctypes.string_at(target, 64) == one * 8 + b"\x09" * 8 + one * 48
        assert calls == [42] * number


@pytest.mark.parametrize("stream", [None, LEGACY, PER_THREAD])
def test_a_graph_can_be_launched_on_any_stream(gpu: Resources, stream: int | None) -> None:
    """Not only on the one it was captured on."""
    origin, target = gpu.stream(), gpu.pinned(8)
    check(cu.cuStreamBeginCapture_v2(origin, 1))
    check(cu.cuMemsetD8Async(target, 5, 8, origin))
    executable = gpu.executable(_captured(origin))
    check(cu.cuGraphLaunch(executable, stream))
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(target, 8) == b"\x05" * 8


def test_a_launch_is_work_of_its_stream(gpu: Resources) -> None:
    """It waits for what stands before it, and what comes after waits for all of it."""
    origin, stream, gate = gpu.stream(), gpu.stream(), gpu.gate()
    device, target = gpu.alloc(8), gpu.pinned(16)
    check(cu.cuStreamBeginCapture_v2(origin, 1))
    check(cu.cuMemcpyDtoHAsync_v2(target, device, 8, origin))
    check(cu.cuMemsetD8Async(device, 2, 8, origin))
    executable = gpu.executable(_captured(origin))
    upload(device, bytes(8))
    gate.hold(stream)
    check(cu.cuMemsetD8Async(device, 1, 8, stream))
    check(cu.cuGraphLaunch(executable, stream))
    check(cu.cuMemcpyDtoHAsync_v2(target + 8, device, 8, stream))
    assert cu.cuStreamQuery(stream) == NOT_READY
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(target, 16) == b"\x01" * 8 + b"\x02" * 8


def test_a_fork_is_replayed_as_a_fork(gpu: Resources) -> None:
    """Both branches run, and the join waits for both."""
    origin, other = gpu.stream(), gpu.stream()
    fork, join = gpu.event(), gpu.event()
    device, target = gpu.alloc(16), gpu.pinned(16)
    check(cu.cuStreamBeginCapture_v2(origin, 1))
    check(cu.cuMemsetD8Async(device, 0, 16, origin))
    check(cu.cuEventRecord(fork, origin))
    check(cu.cuStreamWaitEvent(other, fork, 0))
    check(cu.cuMemsetD8Async(device, 1, 8, origin))
    check(cu.cuMemsetD8Async(device + 8, 2, 8, other))
    check(cu.cuEventRecord(join, other))
    check(cu.cuStreamWaitEvent(origin, join, 0))
    check(cu.cuMemcpyDtoHAsync_v2(target, device, 16, origin))
    graph = _captured(origin)
    assert sorted(gpu.nodes(graph)) == [MEMCPY, MEMSET, MEMSET, MEMSET]
    executable = gpu.executable(graph)
    for _ in range(2):
        ctypes.memset(target, 0xEE, 16)
        check(cu.cuGraphLaunch(executable, origin))
        check(cu.cuStreamSynchronize(origin))
        assert ctypes.string_at(target, 16) == b"\x01" * 8 + b"\x02" * 8


def test_an_external_record_is_a_node(gpu: Resources) -> None:
    """The event is recorded at each launch; a plain record is only an edge."""
    stream, event, target, gate = gpu.stream(), gpu.event(), gpu.pinned(8), gpu.gate()
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemsetD8Async(target, 1, 8, stream))
    check(cu.cuEventRecord(gpu.event(), stream))
    check(cu.cuEventRecordWithFlags(event, stream, EXTERNAL))
    graph = _captured(stream)
    assert gpu.nodes(graph) == [MEMSET, EVENT_RECORD]
    executable = gpu.executable(graph)
    gate.hold(stream)
    check(cu.cuGraphLaunch(executable, stream))
    assert cu.cuEventQuery(event) == NOT_READY
    gate.open()
    check(cu.cuEventSynchronize(event))
    assert ctypes.string_at(target, 8) == b"\x01" * 8


def test_a_captured_copy_reads_pageable_memory_at_launch(gpu: Resources) -> None:
    """Unlike the same copy outside of a capture."""
    stream, device = gpu.stream(), gpu.alloc(64)
    host = ctypes.create_string_buffer(b"a" * 64, 64)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemcpyHtoDAsync_v2(device, host, 64, stream))
    executable = gpu.executable(_captured(stream))
    ctypes.memset(host, ord("b"), 64)
    check(cu.cuGraphLaunch(executable, stream))
    check(cu.cuStreamSynchronize(stream))
    assert download(device, 64) == b"b" * 64


def test_memory_can_live_inside_a_graph(gpu: Resources) -> None:
    """Allocated, used and freed in each launch; outside it is unknown."""
    stream, target = gpu.stream(), gpu.pinned(64)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    address = gpu.alloc_async(64, stream)
    check(cu.cuMemsetD8Async(address, 3, 64, stream))
    check(cu.cuMemcpyDtoHAsync_v2(target, address, 64, stream))
    check(cu.cuMemFreeAsync(address, stream))
    executable = gpu.executable(_captured(stream))
    for _ in range(2):
        ctypes.memset(target, 0, 64)
        check(cu.cuGraphLaunch(executable, stream))
        check(cu.cuStreamSynchronize(stream))
        assert ctypes.string_at(target, 64) == b"\x03" * 64
    assert cu.cuPointerGetAttribute(byref(c_void_p()), 2, address) == 1


def test_an_empty_graph_does_nothing(gpu: Resources) -> None:
    """It can be launched all the same."""
    stream = gpu.stream()
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    graph = _captured(stream)
    assert gpu.nodes(graph) == []
    executable = gpu.executable(graph)
    assert cu.cuGraphLaunch(executable, stream) == 0
    assert cu.cuStreamSynchronize(stream) == 0


def test_one_graph_can_be_instantiated_twice(gpu: Resources) -> None:
    """Each executable stands alone; the graph may go before them."""
    stream, target = gpu.stream(), gpu.pinned(8)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemsetD8Async(target, 4, 8, stream))
    graph = _captured(stream)
    first = c_void_p()
    check(cu.cuGraphInstantiateWithFlags(byref(first), graph, 0))
    second = gpu.executable(graph)
    check(cu.cuGraphExecDestroy(first))
    check(cu.cuGraphLaunch(second, stream))
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(target, 8) == b"\x04" * 8


def test_an_executable_may_be_destroyed_while_it_runs(gpu: Resources) -> None:
    """What was launched still runs."""
    stream, gate, target = gpu.stream(), gpu.gate(), gpu.pinned(8)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemsetD8Async(target, 6, 8, stream))
    graph, executable = _captured(stream), c_void_p()
    check(cu.cuGraphInstantiateWithFlags(byref(executable), graph, 0))
    check(cu.cuGraphDestroy(graph))
    gate.hold(stream)
    check(cu.cuGraphLaunch(executable, stream))
    assert cu.cuGraphExecDestroy(executable) == 0
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(target, 8) == b"\x06" * 8


def test_wrong_graphs_are_refused(gpu: Resources) -> None:
    """NULL handles and results, and flags that do not exist."""
    stream, out = gpu.stream(), c_void_p()
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    graph = _captured(stream)
    assert cu.cuGraphInstantiateWithFlags(None, graph, 0) == 1
    assert cu.cuGraphInstantiateWithFlags(byref(out), graph, 32) == 1
    assert cu.cuGraphInstantiateWithFlags(byref(out), None, 0) == 1
    check(cu.cuGraphDestroy(graph))
    assert cu.cuGraphLaunch(None, stream) == 1
    assert cu.cuGraphDestroy(None) == 1
    assert cu.cuGraphExecDestroy(None) == 1


def test_operations_on_nothing_are_no_nodes(gpu: Resources) -> None:
    """Zero bytes leave no trace in the graph."""
    stream, device, host = gpu.stream(), gpu.alloc(8), gpu.pinned(8)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemsetD8Async(device, 1, 0, stream))
    check(cu.cuMemcpyHtoDAsync_v2(device, host, 0, stream))
    graph = _captured(stream)
    assert gpu.nodes(graph) == []
    check(cu.cuGraphDestroy(graph))


@pytest.mark.parametrize("wrong", ["freed", "too short", "null", "junk"])
def test_a_wrong_memset_shows_when_the_graph_is_instantiated(gpu: Resources, wrong: str) -> None:
    """Its address is looked up then, not when it is captured (a copy's is, at once)."""
    at_once = 0 if wrong == "freed" else answer("a wrong memset in a capture")
    stream, out, freed = gpu.stream(), c_void_p(), allocate(4000)
    places = {"freed": freed, "too short": gpu.alloc(63), "null": 0, "junk": JUNK}
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    assert cu.cuMemsetD8Async(places[wrong], 1, 64, stream) == at_once
    graph = _captured(stream)
    check(cu.cuMemFree_v2(freed))
    if at_once == 0:
        assert cu.cuGraphInstantiateWithFlags(byref(out), graph, 0) == 1
    check(cu.cuGraphDestroy(graph))
