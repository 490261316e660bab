"""Updates: an instance takes over what another graph of the same shape does."""

from __future__ import annotations

from ctypes import byref

from .cuda import UpdateResult, check, cu
from .nodes import child, create, empty, fill, fill_of, instantiate, nodes, run
from .resources import Resources, download

UPDATE_FAILURE = 910
SUCCESS, TOPOLOGY_CHANGED, NODE_TYPE_CHANGED = 0, 2, 3  # CUgraphExecUpdateResult


def _update(executable: int, graph: int) -> tuple[int, int]:
    info = UpdateResult(99)
    return cu.cuGraphExecUpdate_v2(executable, graph, byref(info)), info.result


def test_an_instance_is_updated_by_a_graph_of_the_same_shape(gpu: Resources) -> None:
    """Then it does what that graph does; the nodes of the first graph still name its own."""
    stream, target = gpu.stream(), gpu.alloc(8)
    graph, other = create(gpu), create(gpu)
    first = fill(gpu, graph, fill_of(target, 1, 8))
    fill(gpu, graph, fill_of(target, 2, 4), first)
    after = fill(gpu, other, fill_of(target, 3, 8))
    fill(gpu, other, fill_of(target, 4, 4), after)
    executable = instantiate(gpu, graph)
    assert _update(executable, other) == (0, SUCCESS)
    run(executable, stream)
    assert download(target, 8) == b"\4" * 4 + b"\3" * 4


def test_another_shape_is_refused_and_changes_nothing(gpu: Resources) -> None:
    """More nodes, other edges, another type."""
    stream, target = gpu.stream(), gpu.alloc(4)
    graph, more, apart, kinds = (create(gpu) for _ in range(4))
    fill(gpu, graph, fill_of(target, 1, 4), fill(gpu, graph, fill_of(target, 2, 4)))
    executable = instantiate(gpu, graph)
    for _ in range(3):
        fill(gpu, more, fill_of(target, 9, 4))
    fill(gpu, apart, fill_of(target, 9, 4))
    fill(gpu, apart, fill_of(target, 9, 4))
    fill(gpu, kinds, fill_of(target, 9, 4), empty(kinds))
    assert _update(executable, more) == (UPDATE_FAILURE, TOPOLOGY_CHANGED)
    assert _update(executable, apart) == (UPDATE_FAILURE, TOPOLOGY_CHANGED)
    assert _update(executable, kinds) == (UPDATE_FAILURE, NODE_TYPE_CHANGED)
    run(executable, stream)
    assert download(target, 4) == b"\1" * 4


def test_a_child_graph_of_an_instance_is_replaced(gpu: Resources) -> None:
    """By a graph of the same shape, and by no other."""
    stream, target = gpu.stream(), gpu.alloc(4)
    graph, inner, other, wrong = (create(gpu) for _ in range(4))
    fill(gpu, inner, fill_of(target, 1, 4))
    fill(gpu, other, fill_of(target, 2, 4))
    empty(wrong)
    node = child(graph, inner)
    executable = instantiate(gpu, graph)
    check(cu.cuGraphExecChildGraphNodeSetParams(executable, node, other))
    run(executable, stream)
    assert download(target, 4) == b"\2" * 4
    assert cu.cuGraphExecChildGraphNodeSetParams(executable, node, wrong) != 0
    run(executable, stream)
    assert download(target, 4) == b"\2" * 4
    assert len(nodes(graph)) == 1
