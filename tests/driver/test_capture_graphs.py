"""Captures into graphs that exist, and captures whose dependencies the program sets."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

import pytest

from .cuda import check, cu
from .nodes import (
    GRAPH,
    child,
    create,
    edges,
    empty,
    fill,
    fill_of,
    handles,
    instantiate,
    nodes,
    parameters_of,
    run,
)
from .resources import Resources, end_capture, last, status, undefined_on_hardware, value

ADD, SET = 0, 1  # CUstreamUpdateCaptureDependencies_flags
ILLEGAL_STATE = 401


def _begin(stream: int, graph: int, *after: int) -> int:
    listed, count = handles(after)
    return cu.cuStreamBeginCaptureToGraph(stream, graph, listed, None, count, 1)


def _info(stream: int) -> tuple[int, int, list[int]]:
    """Return status, graph and the nodes that the next one depends on."""
    state, number, graph = c_int(), c_uint64(), c_void_p()
    after, data, count = c_void_p(), c_void_p(), c_size_t()
    given = (state, number, graph, after, data, count)
    check(cu.cuStreamGetCaptureInfo_v3(stream, *map(byref, given)))
    found = list((c_void_p * count.value).from_address(after.value or 0)) if count.value else []
    return state.value, graph.value or 0, found


def test_work_is_captured_into_a_graph_behind_its_nodes(gpu: Resources) -> None:
    """Which stays the caller's, and is what the capture returns."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.pinned(8)
    first = fill(gpu, graph, fill_of(target, 1, 8))
    check(_begin(stream, graph, first))
    assert _info(stream) == (1, graph, [first])
    check(cu.cuMemsetD8Async(target, 2, 4, stream))
    assert end_capture(stream) == (0, graph)
    (second,) = set(nodes(graph)) - {first}
    assert edges(graph) == {(first, second)}
    run(instantiate(gpu, graph), stream)
    assert ctypes.string_at(target, 8) == b"\2" * 4 + b"\1" * 4


def test_a_capture_that_fails_ends_the_graph(gpu: Resources) -> None:
    """Although the program made it; until then it is there."""
    graph, stream, count = value(c_void_p, cu.cuGraphCreate, 0), gpu.stream(), c_size_t()
    check(_begin(stream, graph))
    assert cu.cuStreamQuery(stream) == 900
    assert nodes(graph) == []
    assert end_capture(stream)[0] == 901
    assert cu.cuGraphGetNodes(graph, None, byref(count)) == 1
    assert cu.cuGraphDestroy(graph) == 1


def test_a_graph_is_not_destroyed_while_it_is_captured_into(gpu: Resources) -> None:
    """It stays, and so does the capture."""
    graph, stream = create(gpu), gpu.stream()
    check(_begin(stream, graph))
    assert cu.cuGraphDestroy(graph) == ILLEGAL_STATE
    assert end_capture(stream) == (0, graph)


@undefined_on_hardware("what holds the graph of a capture")
def test_what_holds_the_graph_of_a_capture_is_not_destroyed(gpu: Resources) -> None:
    """Neither the graph around it, nor the node, nor what the node had."""
    outer, other, stream, target = create(gpu), create(gpu), gpu.stream(), gpu.alloc(4)
    node = child(outer, other)
    inner = last(c_void_p, cu.cuGraphChildGraphNodeGetGraph, node)
    check(_begin(stream, inner))
    assert cu.cuGraphDestroy(outer) == ILLEGAL_STATE
    assert cu.cuGraphDestroyNode(node) == ILLEGAL_STATE
    assert cu.cuGraphNodeSetParams(node, byref(parameters_of(GRAPH, other))) == ILLEGAL_STATE
    check(cu.cuMemsetD8Async(target, 1, 4, stream))
    assert end_capture(stream) == (0, inner)
    assert (len(nodes(inner)), nodes(outer)) == (1, [node])
    check(cu.cuGraphDestroyNode(node))


@pytest.mark.parametrize("inside", [False, True])
def test_a_capture_may_end_without_a_place_for_the_graph(gpu: Resources, inside: bool) -> None:
    """Which is the program's, and stays."""
    outer, stream, target = create(gpu), gpu.stream(), gpu.pinned(4)
    graph = outer
    if inside:
        graph = last(c_void_p, cu.cuGraphChildGraphNodeGetGraph, child(outer, create(gpu)))
    check(_begin(stream, graph))
    check(cu.cuMemsetD8Async(target, 3, 4, stream))
    check(cu.cuStreamEndCapture(stream, None))
    assert (status(stream), len(nodes(graph))) == (0, 1)
    run(instantiate(gpu, outer), stream)
    assert ctypes.string_at(target, 4) == b"\3" * 4


def test_a_capture_into_a_wrong_graph_is_refused(gpu: Resources) -> None:
    """Null, or behind a node of another graph."""
    graph, other, stream = create(gpu), create(gpu), gpu.stream()
    assert _begin(stream, 0) == 1
    assert _begin(stream, graph, empty(other)) == 1
    assert status(stream) == 0


def test_the_next_node_depends_on_what_the_program_says(gpu: Resources) -> None:
    """On nodes that it made itself, instead of what was captured or besides."""
    stream, target = gpu.stream(), gpu.alloc(8)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemsetD8Async(target, 1, 8, stream))
    _, graph, (captured,) = _info(stream)
    made = empty(graph, captured)
    update = cu.cuStreamUpdateCaptureDependencies_v2
    check(update(stream, (c_void_p * 1)(made), None, 1, ADD))
    assert set(_info(stream)[2]) == {captured, made}
    check(update(stream, (c_void_p * 1)(made), None, 1, SET))
    assert _info(stream)[2] == [made]
    check(cu.cuMemsetD8Async(target, 2, 4, stream))
    code, found = end_capture(stream)
    assert (code, found) == (0, graph)
    (last_one,) = set(nodes(graph)) - {captured, made}
    assert edges(graph) == {(captured, made), (made, last_one)}
    check(cu.cuGraphDestroy(graph))


def test_dependencies_of_a_stream_that_does_not_capture_are_refused(gpu: Resources) -> None:
    """And flags that do not exist."""
    stream = gpu.stream()
    update = cu.cuStreamUpdateCaptureDependencies_v2
    assert update(stream, None, None, 0, SET) == ILLEGAL_STATE
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    assert update(stream, None, None, 0, 7) == 1
    check(end_capture(stream)[0])


def test_a_side_stream_that_has_joined_may_go(gpu: Resources) -> None:
    """Also one that joined another side stream: the capture goes on."""
    origin, target = gpu.stream(), gpu.pinned(12)
    sides = [ctypes.c_void_p() for _ in range(2)]
    for side in sides:
        check(cu.cuStreamCreate(byref(side), 1))
    events = [gpu.event() for _ in range(3)]
    check(cu.cuStreamBeginCapture_v2(origin, 1))
    check(cu.cuEventRecord(events[0], origin))
    for index, side in enumerate(sides):
        check(cu.cuStreamWaitEvent(side, events[0], 0))
        check(cu.cuMemsetD8Async(target + 4 * index, index + 1, 4, side))
    check(cu.cuEventRecord(events[1], sides[1]))
    check(cu.cuStreamWaitEvent(sides[0], events[1], 0))
    check(cu.cuStreamDestroy_v2(sides[1]))
    check(cu.cuEventRecord(events[2], sides[0]))
    check(cu.cuStreamWaitEvent(origin, events[2], 0))
    check(cu.cuStreamDestroy_v2(sides[0]))
    assert status(origin) == 1
    code, graph = end_capture(origin)
    check(code)
    assert graph is not None
    run(gpu.executable(graph), origin)
    assert ctypes.string_at(target, 12) == b"\1" * 4 + b"\2" * 4 + bytes(4)
