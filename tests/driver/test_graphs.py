"""Graphs made by hand: nodes and edges, copies of graphs, graphs inside graphs."""

from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

from .cuda import HOST_FUNCTION, UpdateResult, check, cu
from .nodes import (
    EMPTY,
    GRAPH,
    MEMSET,
    add,
    call,
    child,
    connect,
    create,
    edges,
    empty,
    fill,
    fill_of,
    instantiate,
    nodes,
    parameters_of,
    run,
)
from .resources import Resources, download, last, undefined_on_hardware, value

NOT_READY = 600


def test_a_new_graph_is_empty_and_can_run(gpu: Resources) -> None:
    """It has no nodes, roots or edges."""
    graph, stream = create(gpu), gpu.stream()
    assert (nodes(graph), nodes(graph, roots=True), edges(graph)) == ([], [], set())
    run(instantiate(gpu, graph), stream)
    assert cu.cuGraphCreate(None, 0) == 1
    assert cu.cuGraphCreate(byref(c_void_p()), 1) == 1


def test_nodes_and_edges_are_as_they_were_made(gpu: Resources) -> None:
    """Roots have no dependencies; each edge is seen from both of its ends."""
    graph = create(gpu)
    first, second = empty(graph), empty(graph)
    third = empty(graph, first, second)
    assert set(nodes(graph)) == {first, second, third}
    assert set(nodes(graph, roots=True)) == {first, second}
    assert edges(graph) == {(first, third), (second, third)}
    assert _neighbours(cu.cuGraphNodeGetDependencies_v2, third) == {first, second}
    assert _neighbours(cu.cuGraphNodeGetDependentNodes_v2, first) == {third}
    assert _neighbours(cu.cuGraphNodeGetDependentNodes_v2, third) == set()
    assert last(c_int, cu.cuGraphNodeGetType, first) == EMPTY


def _neighbours(function: object, node: int) -> set[int]:
    assert callable(function)
    count = c_size_t()
    check(function(node, None, None, byref(count)))
    if count.value == 0:
        return set()
    found, data = (c_void_p * count.value)(), (c_uint64 * count.value)()
    check(function(node, found, data, byref(count)))
    return set(found)


def test_a_list_with_more_room_than_nodes_is_filled_with_null(gpu: Resources) -> None:
    """And with less room, that much is written."""
    graph = create(gpu)
    made = {empty(graph), empty(graph)}
    found, count = (c_void_p * 4)(1, 1, 1, 1), c_size_t(4)
    check(cu.cuGraphGetNodes(graph, found, byref(count)))
    assert (set(found[:2]), found[2:], count.value) == (made, [None, None], 2)
    found, count = (c_void_p * 2)(1, 1), c_size_t(1)
    check(cu.cuGraphGetRootNodes(graph, found, byref(count)))
    assert found[0] in made
    assert (found[1], count.value) == (1, 1)


def test_edges_can_be_added_and_removed(gpu: Resources) -> None:
    """The order of the work follows."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.pinned(4)
    late = fill(gpu, graph, fill_of(target, 1, 4))
    early = fill(gpu, graph, fill_of(target, 2, 4))
    check(connect(cu.cuGraphAddDependencies_v2, graph, (early, late)))
    assert edges(graph) == {(early, late)}
    run(instantiate(gpu, graph), stream)
    assert ctypes.string_at(target, 4) == b"\1" * 4
    check(connect(cu.cuGraphRemoveDependencies_v2, graph, (early, late)))
    check(connect(cu.cuGraphAddDependencies_v2, graph, (late, early)))
    assert edges(graph) == {(late, early)}
    run(instantiate(gpu, graph), stream)
    assert ctypes.string_at(target, 4) == b"\2" * 4


def test_wrong_edges_are_refused(gpu: Resources) -> None:
    """One that exists, one to itself, one to another graph; removing one that does not exist."""
    graph, other = create(gpu), create(gpu)
    first, second, foreign = empty(graph), empty(graph), empty(other)
    check(connect(cu.cuGraphAddDependencies_v2, graph, (first, second)))
    adding, removing = cu.cuGraphAddDependencies_v2, cu.cuGraphRemoveDependencies_v2
    assert connect(adding, graph, (first, second)) == 1
    assert connect(adding, graph, (first, first)) == 1
    assert connect(adding, graph, (first, foreign)) == 1
    assert connect(removing, graph, (second, first)) == 1
    assert edges(graph) == {(first, second)}
    assert connect(removing, graph) == 0
    assert connect(adding, graph) == 0
    assert connect(adding, None) == connect(removing, None) == 1
    assert connect(removing, graph, (first, second), (first, second)) == 1
    assert connect(adding, graph, (second, first), (second, first)) == 1
    assert edges(graph) == {(first, second)}
    node = c_void_p()
    assert cu.cuGraphAddEmptyNode(byref(node), graph, (c_void_p * 1)(foreign), 1) == 1
    assert cu.cuGraphAddEmptyNode(byref(node), graph, (c_void_p * 2)(first, first), 2) == 1


def test_many_edges_take_time_by_their_number(gpu: Resources) -> None:
    """Into one node, all at once: it took a minute to look for each among the others."""
    graph = create(gpu)
    last_node, *others = [empty(graph) for _ in range(200_000)]
    pairs = [(other, last_node) for other in others]
    begin = time.monotonic()
    check(connect(cu.cuGraphAddDependencies_v2, graph, *pairs))
    check(connect(cu.cuGraphRemoveDependencies_v2, graph, *pairs))
    empty(graph, *others)
    assert time.monotonic() - begin < 10


def test_a_cycle_is_found_at_instantiation(gpu: Resources) -> None:
    """Not before: edges may be added in any order."""
    graph = create(gpu)
    first = empty(graph)
    second = empty(graph, first)
    check(connect(cu.cuGraphAddDependencies_v2, graph, (second, first)))
    assert cu.cuGraphInstantiateWithFlags(byref(c_void_p()), graph, 0) == 1


def test_a_destroyed_node_is_gone_with_its_edges(gpu: Resources) -> None:
    """The other nodes stay."""
    graph = create(gpu)
    first = empty(graph)
    second = empty(graph, first)
    third = empty(graph, second)
    check(cu.cuGraphDestroyNode(second))
    assert (set(nodes(graph)), edges(graph)) == ({first, third}, set())
    assert set(nodes(graph, roots=True)) == {first, third}


def test_large_graphs_are_walked_and_taken_apart_in_time(gpu: Resources) -> None:
    """A question about a node, and its end, look at its own edges alone."""
    graph = create(gpu)
    first = empty(graph)
    wide = [empty(graph, first) for _ in range(30_000)]
    begin = time.monotonic()
    for node in wide:
        assert _neighbours(cu.cuGraphNodeGetDependentNodes_v2, node) == set()
    for node in wide:
        check(cu.cuGraphDestroyNode(node))
    assert time.monotonic() - begin < 5
    assert (nodes(graph), edges(graph)) == ([first], set())


def test_a_wide_graph_runs_in_time_when_it_is_asked_for(gpu: Resources) -> None:
    """Each question may run one of the nodes, and looks at no others."""
    graph, stream = create(gpu), gpu.stream()
    for _ in range(40_000):
        empty(graph)
    executable = instantiate(gpu, graph)
    begin = time.monotonic()
    check(cu.cuGraphLaunch(executable, stream))
    while cu.cuStreamQuery(stream) == NOT_READY:
        pass
    assert time.monotonic() - begin < 5


def test_dependents_follow_every_change(gpu: Resources) -> None:
    """Of edges, of nodes, of clones."""
    graph = create(gpu)
    first, second = empty(graph), empty(graph)
    third = empty(graph, first)
    check(connect(cu.cuGraphAddDependencies_v2, graph, (first, second), (second, third)))
    after = cu.cuGraphNodeGetDependentNodes_v2
    clone = gpu._keep(cu.cuGraphDestroy, value(c_void_p, cu.cuGraphClone, graph))
    assert _neighbours(after, first) == {second, third}
    check(connect(cu.cuGraphRemoveDependencies_v2, graph, (first, third)))
    assert (_neighbours(after, first), _neighbours(after, second)) == ({second}, {third})
    check(cu.cuGraphDestroyNode(second))
    assert (_neighbours(after, first), edges(graph)) == (set(), set())
    copies = [value(c_void_p, cu.cuGraphNodeFindInClone, node, clone) for node in (first, third)]
    assert len(_neighbours(after, copies[0])) == 2
    assert _neighbours(after, copies[1]) == set()


def test_a_clone_stands_alone(gpu: Resources) -> None:
    """Its nodes are found by those of the original, and changing one graph leaves the other."""
    graph, stream = create(gpu), gpu.stream()
    target = gpu.pinned(8)
    first = fill(gpu, graph, fill_of(target, 3, 4))
    second = fill(gpu, graph, fill_of(target + 4, 4, 4), first)
    clone = gpu._keep(cu.cuGraphDestroy, value(c_void_p, cu.cuGraphClone, graph))
    copies = [value(c_void_p, cu.cuGraphNodeFindInClone, node, clone) for node in (first, second)]
    assert set(copies) == set(nodes(clone))
    assert not set(copies) & {first, second}
    assert edges(clone) == {(copies[0], copies[1])}
    check(cu.cuGraphDestroyNode(second))
    run(instantiate(gpu, clone), stream)
    assert ctypes.string_at(target, 8) == b"\3" * 4 + b"\4" * 4
    assert cu.cuGraphNodeFindInClone(byref(c_void_p()), copies[0], graph) == 1
    check(cu.cuGraphDestroyNode(copies[0]))
    assert cu.cuGraphNodeFindInClone(byref(c_void_p()), first, clone) == 1


def test_a_child_graph_is_a_copy_that_can_be_changed(gpu: Resources) -> None:
    """It runs in its place: after what the node depends on, before what depends on it."""
    inner, graph, stream = create(gpu), create(gpu), gpu.stream()
    target = gpu.pinned(12)
    fill(gpu, inner, fill_of(target, 2, 8))
    before = fill(gpu, graph, fill_of(target, 1, 12))
    node = child(graph, inner, before)
    fill(gpu, graph, fill_of(target + 4, 3, 4), node)
    assert last(c_int, cu.cuGraphNodeGetType, node) == GRAPH
    embedded = last(c_void_p, cu.cuGraphChildGraphNodeGetGraph, node)
    assert embedded not in (inner, graph)
    (only,) = nodes(embedded)
    assert value(c_void_p, cu.cuGraphNodeFindInClone, nodes(inner)[0], embedded) == only
    fill(gpu, inner, fill_of(target, 9, 12))  # the copy was made before
    run(instantiate(gpu, graph), stream)
    assert ctypes.string_at(target, 12) == b"\2" * 4 + b"\3" * 4 + b"\1" * 4
    check(cu.cuGraphMemsetNodeSetParams(only, byref(fill_of(target, 7, 12))))
    run(instantiate(gpu, graph), stream)
    assert ctypes.string_at(target, 12) == b"\7" * 4 + b"\3" * 4 + b"\7" * 4


def test_a_moved_graph_is_a_part_of_the_other(gpu: Resources) -> None:
    """It can be changed, but not instantiated, destroyed, embedded again or an update."""
    inner, graph, other = value(c_void_p, cu.cuGraphCreate, 0), create(gpu), create(gpu)
    stream, target = gpu.stream(), gpu.pinned(4)
    for wrong in (2, -1):
        given = parameters_of(GRAPH, inner, wrong & 0xFFFFFFFF)
        assert cu.cuGraphAddNode_v2(byref(c_void_p()), graph, None, None, 0, byref(given)) == 1
    node = add(graph, parameters_of(GRAPH, inner, 1))
    assert last(c_void_p, cu.cuGraphChildGraphNodeGetGraph, node) == inner
    fill(gpu, inner, fill_of(target, 6, 4))
    run(instantiate(gpu, graph), stream)
    assert ctypes.string_at(target, 4) == b"\6" * 4
    empty(other)
    executable = instantiate(gpu, other)
    assert cu.cuGraphInstantiateWithFlags(byref(c_void_p()), inner, 0) == 1
    assert cu.cuGraphExecUpdate_v2(executable, inner, byref(UpdateResult())) == 1
    assert cu.cuGraphAddChildGraphNode(byref(c_void_p()), other, None, 0, inner) == 1
    assert cu.cuGraphDestroy(inner) == 1
    assert len(nodes(inner)) == 1


@undefined_on_hardware("how many graphs may be inside each other")
def test_graphs_are_inside_each_other_up_to_a_limit(gpu: Resources) -> None:
    """More would be more than the stack holds; what is there still runs."""
    outermost, stream, target = create(gpu), gpu.stream(), gpu.pinned(4)
    graph = outermost
    for _ in range(128):
        inner = value(c_void_p, cu.cuGraphCreate, 0)
        add(graph, parameters_of(GRAPH, inner, 1))
        graph = inner
    fill(gpu, graph, fill_of(target, 6, 4))
    refused = create(gpu)
    for moves in (0, 1):
        given = parameters_of(GRAPH, refused, moves)
        assert cu.cuGraphAddNode_v2(byref(c_void_p()), graph, None, None, 0, byref(given)) == 801
    given = parameters_of(GRAPH, outermost, 1)
    assert cu.cuGraphAddNode_v2(byref(c_void_p()), refused, None, None, 0, byref(given)) == 801
    run(instantiate(gpu, outermost), stream)
    assert ctypes.string_at(target, 4) == b"\6" * 4


def test_a_graph_stays_as_it_was_instantiated(gpu: Resources) -> None:
    """Later nodes, changes and its end do not reach the instance."""
    graph, stream, target = value(c_void_p, cu.cuGraphCreate, 0), gpu.stream(), gpu.alloc(4)
    node = fill(gpu, graph, fill_of(target, 1, 4))
    executable = instantiate(gpu, graph)
    assert last(c_uint64, cu.cuGraphExecGetFlags, executable) == 0
    check(cu.cuGraphMemsetNodeSetParams(node, byref(fill_of(target, 2, 4))))
    fill(gpu, graph, fill_of(target, 3, 4), node)
    check(cu.cuGraphDestroy(graph))
    run(executable, stream)
    assert download(target, 4) == b"\1" * 4


def test_parallel_branches_join(gpu: Resources) -> None:
    """A host function after both sees what both wrote."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.pinned(8)
    seen: list[bytes] = []
    look = HOST_FUNCTION(lambda _: seen.append(ctypes.string_at(target, 8)))
    branches = [fill(gpu, graph, fill_of(target + 4 * i, i + 1, 4)) for i in range(2)]
    call(graph, look, 0, *branches)
    executable = instantiate(gpu, graph)
    for _ in range(3):
        ctypes.memset(target, 0, 8)
        run(executable, stream)
    assert seen == [b"\1" * 4 + b"\2" * 4] * 3


def test_a_drawing_names_the_nodes(gpu: Resources, tmp_path: Path) -> None:
    """In the language of Graphviz."""
    graph = create(gpu)
    fill(gpu, graph, fill_of(gpu.alloc(4), 1, 4), empty(graph))
    path = tmp_path / "graph.dot"
    check(cu.cuGraphDebugDotPrint(graph, str(path).encode(), 0))
    text = path.read_text()
    assert text.startswith("digraph")
    assert "MEMSET" in text.upper()
    assert text.count("->") == 1


def test_what_is_no_graph_or_node_is_refused(gpu: Resources) -> None:
    """Null, everywhere; a number that was never a handle crashes a real driver."""
    count = c_size_t()
    assert cu.cuGraphGetNodes(None, None, byref(count)) == 1
    assert cu.cuGraphGetEdges_v2(None, None, None, None, byref(count)) == 1
    assert cu.cuGraphClone(byref(c_void_p()), None) == 1
    assert cu.cuGraphDestroyNode(None) == 1
    assert cu.cuGraphNodeGetType(None, byref(c_int())) == 1
    assert cu.cuGraphAddEmptyNode(byref(c_void_p()), None, None, 0) == 1


def test_types_of_captured_nodes_are_those_of_made_ones(gpu: Resources) -> None:
    """A captured graph can be added to."""
    stream, target = gpu.stream(), gpu.alloc(4)
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    check(cu.cuMemsetD8Async(target, 1, 4, stream))
    graph = gpu._keep(cu.cuGraphDestroy, last(c_void_p, cu.cuStreamEndCapture, stream))
    (node,) = nodes(graph)
    assert last(c_int, cu.cuGraphNodeGetType, node) == MEMSET
    fill(gpu, graph, fill_of(target, 2, 2), node)
    run(instantiate(gpu, graph), stream)
    assert download(target, 4) == b"\2\2\1\1"
