"""Graphs made by hand through old forms, and functions that the newest drivers alone have."""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from .control import only_simulated
from .cuda import KernelParameters, NodeParameters, check
from .kernels import Module, words
from .nodes import (
    KERNEL,
    MEMSET,
    create,
    empty,
    fill,
    fill_of,
    instantiate,
    kernel,
    launch_of,
    nodes,
    parameters_of,
    run,
)
from .resources import Resources, download, last, value
from .variants import cu

pytestmark = only_simulated


def test_edges_have_older_forms_without_data(gpu: Resources) -> None:
    """They add, remove and tell the same."""
    graph = create(gpu)
    first, second = empty(graph), empty(graph)
    one, other = (c_void_p * 1)(first), (c_void_p * 1)(second)
    check(cu.cuGraphAddDependencies(graph, one, other, 1))
    starts, ends, count = (c_void_p * 1)(), (c_void_p * 1)(), c_size_t(1)
    check(cu.cuGraphGetEdges(graph, starts, ends, byref(count)))
    assert (starts[0], ends[0], count.value) == (first, second, 1)
    check(cu.cuGraphNodeGetDependencies(second, starts, byref(count)))
    assert starts[0] == first
    check(cu.cuGraphNodeGetDependentNodes(first, ends, byref(count)))
    assert ends[0] == second
    check(cu.cuGraphRemoveDependencies(graph, one, other, 1))
    assert last(c_size_t, cu.cuGraphGetEdges, graph, None, None) == 0


def test_kernels_have_an_older_form_without_libraries(gpu: Resources) -> None:
    """Its parameters end before the kernel of a library."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.alloc(4)
    poke = Module(gpu)["poke"]
    given = launch_of(poke, c_uint64(target), c_uint64(1))
    node = value(c_void_p, cu.cuGraphAddKernelNode, graph, None, 0, byref(given))
    found = KernelParameters()
    found.kernel = 77
    check(cu.cuGraphKernelNodeGetParams(node, byref(found)))
    assert (found.function, found.kernel) == (poke, 77)
    again = launch_of(poke, c_uint64(target), c_uint64(2))
    check(cu.cuGraphKernelNodeSetParams(node, byref(again)))
    executable = instantiate(gpu, graph)
    run(executable, stream)
    assert words(target, 1) == [2]
    third = launch_of(poke, c_uint64(target), c_uint64(3))
    check(cu.cuGraphExecKernelNodeSetParams(executable, node, byref(third)))
    run(executable, stream)
    assert words(target, 1) == [3]


def test_nodes_of_any_type_are_added_and_described(gpu: Resources) -> None:
    """With the parameters that were given."""
    graph, target = create(gpu), gpu.alloc(8)
    given = parameters_of(MEMSET, target, 0, 3 | 4 << 32, 2, 1, gpu.context)
    node = value(c_void_p, cu.cuGraphAddNode, graph, None, 0, byref(given))
    found = NodeParameters()
    check(cu.cuGraphNodeGetParams(node, byref(found)))
    assert (found.type, list(found.words)) == (MEMSET, list(given.words))
    poke = Module(gpu)["poke"]
    check(cu.cuGraphNodeGetParams(kernel(graph, launch_of(poke, *_two())), byref(found)))
    assert (found.type, found.words[0]) == (KERNEL, poke)


def _two() -> tuple[c_uint64, c_uint64]:
    return c_uint64(1), c_uint64(2)


def test_an_update_has_an_older_form(gpu: Resources) -> None:
    """With the node and the reason apart."""
    stream, target = gpu.stream(), gpu.alloc(4)
    graph, other, wrong = (create(gpu) for _ in range(3))
    fill(gpu, graph, fill_of(target, 1, 4))
    fill(gpu, other, fill_of(target, 2, 4))
    empty(wrong)
    executable, node, result = instantiate(gpu, graph), c_void_p(99), c_int(99)
    check(cu.cuGraphExecUpdate(executable, other, byref(node), byref(result)))
    assert (node.value, result.value) == (None, 0)
    run(executable, stream)
    assert download(target, 4) == b"\2" * 4
    assert cu.cuGraphExecUpdate(executable, wrong, byref(node), byref(result)) == 910
    assert (node.value, result.value) == (nodes(wrong)[0], 3)


def test_graphs_and_nodes_have_numbers(gpu: Resources) -> None:
    """Of their own, and nodes know their graph."""
    graph, other = create(gpu), create(gpu)
    first, second = empty(graph), empty(graph)
    assert last(c_void_p, cu.cuGraphNodeGetContainingGraph, second) == graph
    assert [last(c_uint, cu.cuGraphNodeGetLocalId, node) for node in (first, second)] == [0, 1]
    tools = {last(c_uint64, cu.cuGraphNodeGetToolsId, node) for node in (first, second)}
    assert len(tools) == 2
    assert last(c_uint, cu.cuGraphGetId, graph) != last(c_uint, cu.cuGraphGetId, other)
    one, two = instantiate(gpu, graph), instantiate(gpu, graph)
    assert last(c_uint, cu.cuGraphExecGetId, one) != last(c_uint, cu.cuGraphExecGetId, two)
