"""Updates: an instance takes over what another graph of the same shape does."""

from __future__ import annotations

from ctypes import byref, c_int, c_uint, c_uint64, c_void_p

import pytest

from .cuda import FillParameters, UpdateResult, check, cu
from .kernels import IMAGE, Module
from .nodes import (
    child,
    connect,
    copy,
    copy_of,
    create,
    empty,
    fill,
    fill_of,
    instantiate,
    kernel,
    launch_of,
    nodes,
    run,
)
from .resources import Resources, download, undefined_on_hardware, value

UPDATE_FAILURE = 910
SUCCESS, ERROR, TOPOLOGY_CHANGED, NODE_TYPE_CHANGED = 0, 1, 2, 3  # CUgraphExecUpdateResult
PARAMETERS_CHANGED, UNSUPPORTED_FUNCTION_CHANGE = 5, 7


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


def test_the_result_names_what_differs(gpu: Resources) -> None:
    """No node if the numbers differ; else the node, and the dependency that the old one has not."""
    graph, more, fewer, turned, kinds = (create(gpu) for _ in range(5))
    first, second = empty(graph), empty(graph)
    empty(graph, first)
    executable = instantiate(gpu, graph)
    for count, other in ((4, more), (2, fewer)):
        for _ in range(count):
            empty(other)
        assert _failed(executable, other) == (TOPOLOGY_CHANGED, None, None)
    _, second = empty(turned), empty(turned)
    third = empty(turned, second)
    assert _failed(executable, turned) == (TOPOLOGY_CHANGED, third, second)
    first, second = empty(kinds), empty(kinds)
    third = fill(gpu, kinds, fill_of(gpu.alloc(4), 1, 4), first)
    assert _failed(executable, kinds) == (NODE_TYPE_CHANGED, third, None)
    check(connect(cu.cuGraphAddDependencies_v2, kinds, (second, third)))
    assert _failed(executable, kinds) == (TOPOLOGY_CHANGED, third, None)
    info = UpdateResult(99)
    assert cu.cuGraphExecUpdate_v2(executable, None, byref(info)) == 1
    assert info.result == ERROR


def _failed(executable: int, graph: int) -> tuple[int, int | None, int | None]:
    info = UpdateResult(99)
    assert cu.cuGraphExecUpdate_v2(executable, graph, byref(info)) == UPDATE_FAILURE
    return info.result, info.node, info.before


def test_a_copy_stays_between_the_same_kinds_of_memory(gpu: Resources) -> None:
    """In an update as in a call about one node, where it also stays one row."""
    device, host, stream = gpu.alloc(64), gpu.pinned(64, fill=5), gpu.stream()
    graph, down = create(gpu), create(gpu)
    node = copy(gpu, graph, copy_of(device, host, 8, (False, True)))
    executable = instantiate(gpu, graph)
    rows = copy_of(device, host, 4, (False, True))
    rows.srcPitch, rows.dstPitch, rows.Height = 8, 8, 2
    upward = copy_of(host, device, 8, (True, False))
    within = copy_of(device, device + 32, 8)
    for wrong in (rows, upward, within):
        given = (executable, node, byref(wrong), gpu.context)
        assert cu.cuGraphExecMemcpyNodeSetParams(*given) == 1
    other = copy(gpu, down, within)
    assert _failed(executable, down) == (PARAMETERS_CHANGED, other, None)
    run(executable, stream)
    assert download(device, 8) == b"\5" * 8


@undefined_on_hardware("a node that was removed")
def test_a_removed_node_of_an_instance_is_not_changed(gpu: Resources) -> None:
    """It goes on as it was; nodes of a graph that has ended can be changed here."""
    stream, target, graph = gpu.stream(), gpu.alloc(8), value(c_void_p, cu.cuGraphCreate, 0)
    removed = fill(gpu, graph, fill_of(target, 1, 4))
    left = fill(gpu, graph, fill_of(target + 4, 1, 4))
    executable = instantiate(gpu, graph)
    check(cu.cuGraphDestroyNode(removed))
    other = byref(fill_of(target + 4, 2, 4)), gpu.context
    assert cu.cuGraphExecMemsetNodeSetParams(executable, removed, *other) == 1
    assert cu.cuGraphNodeSetEnabled(executable, removed, 0) == 1
    check(cu.cuGraphDestroy(graph))
    check(cu.cuGraphExecMemsetNodeSetParams(executable, left, *other))
    run(executable, stream)
    assert download(target, 8) == b"\1" * 4 + b"\2" * 4


def test_a_fill_keeps_its_rows(gpu: Resources) -> None:
    """Their address and value can change; one row can get another length."""
    device, stream = gpu.alloc(64), gpu.stream()
    graph = create(gpu)
    rows = FillParameters(device, 16, 1, 1, 4, 4)
    line, box = fill(gpu, graph, fill_of(device, 1, 4)), fill(gpu, graph, rows)
    executable = instantiate(gpu, graph)
    longer, moved = fill_of(device, 2, 8), FillParameters(device + 4, 16, 9, 1, 4, 4)
    lower = FillParameters(device, 16, 1, 1, 4, 2)
    for node, given, wanted in (
        (line, rows, 1),
        (line, longer, 0),
        (box, lower, 1),
        (box, moved, 0),
    ):
        call = (executable, node, byref(given), gpu.context)
        assert cu.cuGraphExecMemsetNodeSetParams(*call) == wanted
    wide = create(gpu)
    fill(gpu, wide, longer)
    other = fill(gpu, wide, lower)
    assert _failed(executable, wide) == (PARAMETERS_CHANGED, other, None)
    check(cu.cuMemsetD8_v2(device, 0, 64))
    check(cu.cuCtxSynchronize())
    run(executable, stream)
    assert download(device + 52, 4) == b"\x09" * 4


def test_nodes_stay_on_their_device(gpu: Resources) -> None:
    """Kernels in their context, copies and fills in the memory of their device."""
    if value(c_int, cu.cuDeviceGetCount) < 2:
        pytest.skip("there is one device")
    device, graph, other = gpu.alloc(64), create(gpu), create(gpu)
    poke = Module(gpu)["poke"]
    filled = fill(gpu, graph, fill_of(device, 1, 4))
    launched = kernel(graph, launch_of(poke, c_uint64(device), c_uint(1)), filled)
    executable = instantiate(gpu, graph)
    second = value(c_void_p, cu.cuDevicePrimaryCtxRetain, 1)
    check(cu.cuCtxSetCurrent(second))
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    foreign = value(c_void_p, cu.cuModuleGetFunction, module, b"poke")
    memory = value(c_uint64, cu.cuMemAlloc_v2, 64)
    there = fill_of(memory, 1, 4)
    assert cu.cuGraphExecMemsetNodeSetParams(executable, filled, byref(there), second) == 1
    wrong = launch_of(foreign, c_uint64(memory), c_uint(1))
    assert cu.cuGraphExecKernelNodeSetParams_v2(executable, launched, byref(wrong)) == 1
    before = fill(gpu, other, fill_of(device, 1, 4))
    node = kernel(other, wrong, before)
    assert _failed(executable, other) == (UNSUPPORTED_FUNCTION_CHANGE, node, None)
    check(cu.cuMemFree_v2(memory))
    check(cu.cuModuleUnload(module))
    check(cu.cuCtxSetCurrent(gpu.context))
    check(cu.cuDevicePrimaryCtxRelease_v2(1))


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
