"""One valid use of each function about graphs made by hand, and batches: part of `calls.py`."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from .bench import SIZE, Bench, Out, Table, then
from .calls_ordered import FUNCTION, _end
from .cuda import CopyAttributes, Location, NodeParameters, UpdateResult, check
from .kernels import Module
from .nodes import (
    MEMSET,
    allocation,
    call,
    child,
    copy,
    copy_of,
    create,
    empty,
    fill,
    fill_of,
    handles,
    kernel,
    launch_of,
    parameters_of,
)
from .nodes import allocate as allocate_node
from .nodes import instantiate as instance
from .nodes import release as release_node
from .resources import DEVICE, value
from .variants import cu

GRAPHS = Table()


def _graph(b: Bench) -> int:
    return create(b.resources)


def _fill(b: Bench, graph: int | None = None) -> int:
    return fill(b.resources, graph or _graph(b), fill_of(b.device, 3, SIZE))


def _copy(b: Bench, graph: int | None = None) -> int:
    return copy(b.resources, graph or _graph(b), copy_of(b.device, b.other, SIZE))


def _host(b: Bench, graph: int | None = None) -> int:
    return call(graph or _graph(b), FUNCTION, 0)


def _nothing(b: Bench) -> Any:
    if not hasattr(b, "module"):
        b.module = Module(b.resources)  # type: ignore[attr-defined]
    return b.keep(launch_of(b.module["nothing"]))  # type: ignore[attr-defined]


def _kernel(b: Bench, graph: int | None = None) -> int:
    return kernel(graph or _graph(b), _nothing(b))


def _event(b: Bench, add: Any, graph: int | None = None) -> int:
    return value(c_void_p, add, graph or _graph(b), None, 0, b.event())


def _record(b: Bench, graph: int | None = None) -> int:
    return _event(b, cu.cuGraphAddEventRecordNode, graph)


def _wait(b: Bench, graph: int | None = None) -> int:
    return _event(b, cu.cuGraphAddEventWaitNode, graph)


def _pair(b: Bench) -> tuple[int, int, int]:
    graph = _graph(b)
    return graph, empty(graph), empty(graph)


def _in_instance(b: Bench, make: Any) -> tuple[int, int]:
    """Make a node in a graph and instantiate it; return instance and node."""
    graph = _graph(b)
    node = make(b, graph)
    return instance(b.resources, graph), node


def _one(node: int) -> Any:
    return handles([node])[0]


# Graphs, nodes and edges.
GRAPHS.add("cuGraphCreate", lambda b: (Out(), 0), then(cu.cuGraphDestroy))
GRAPHS.add("cuGraphClone", lambda b: (Out(), b.kept_graph), then(cu.cuGraphDestroy))
GRAPHS.add("cuGraphNodeFindInClone", lambda b: (Out(), *_cloned(b)))
GRAPHS.add("cuGraphGetRootNodes", lambda b: (b.kept_graph, None, Out(c_size_t)))
GRAPHS.add("cuGraphGetEdges", lambda b: (b.kept_graph, None, None, Out(c_size_t)))
GRAPHS.add("cuGraphGetEdges_v2", lambda b: (b.kept_graph, None, None, None, Out(c_size_t)))
_around = "cuGraphNodeGetDependencies cuGraphNodeGetDependentNodes"
GRAPHS.add(_around, lambda b: (_fill(b), None, Out(c_size_t)))
GRAPHS.add(
    "cuGraphNodeGetDependencies_v2 cuGraphNodeGetDependentNodes_v2",
    lambda b: (_fill(b), None, None, Out(c_size_t)),
)


def _cloned(b: Bench) -> tuple[int, int]:
    graph = _graph(b)
    node = empty(graph)
    return node, b._later(cu.cuGraphDestroy, value(c_void_p, cu.cuGraphClone, graph))


def _ends(b: Bench, joined: bool) -> tuple[int, Any, Any]:
    graph, first, second = _pair(b)
    if joined:
        check(cu.cuGraphAddDependencies_v2(graph, _one(first), _one(second), None, 1))
    return graph, _one(first), _one(second)


GRAPHS.add("cuGraphAddDependencies", lambda b: (*_ends(b, False), 1))
GRAPHS.add("cuGraphAddDependencies_v2", lambda b: (*_ends(b, False), None, 1))
GRAPHS.add("cuGraphRemoveDependencies", lambda b: (*_ends(b, True), 1))
GRAPHS.add("cuGraphRemoveDependencies_v2", lambda b: (*_ends(b, True), None, 1))
GRAPHS.add("cuGraphDestroyNode", lambda b: (_fill(b),))
GRAPHS.add("cuGraphNodeGetContainingGraph", lambda b: (_fill(b), Out()))
GRAPHS.add("cuGraphNodeGetLocalId", lambda b: (_fill(b), Out(c_uint)))
GRAPHS.add("cuGraphNodeGetToolsId", lambda b: (_fill(b), Out(c_uint64)))
GRAPHS.add("cuGraphGetId", lambda b: (b.kept_graph, Out(c_uint)))
GRAPHS.add("cuGraphExecGetId", lambda b: (b.executable, Out(c_uint)))
GRAPHS.add("cuGraphExecGetFlags", lambda b: (b.executable, Out(c_uint64)))
GRAPHS.add("cuGraphNodeSetEnabled", lambda b: (*_in_instance(b, _fill), 0))
GRAPHS.add("cuGraphNodeGetEnabled", lambda b: (*_in_instance(b, _fill), Out(c_uint)))
GRAPHS.add("cuGraphDebugDotPrint", lambda b: (b.kept_graph, b"/dev/null", 0))
GRAPHS.add("cuGraphExecUpdate_v2", lambda b: (b.executable, b.kept_graph, Out(UpdateResult)))
GRAPHS.add("cuGraphExecUpdate", lambda b: (b.executable, b.kept_graph, Out(), Out(c_int)))

# Kernels.
GRAPHS.add(
    "cuGraphAddKernelNode cuGraphAddKernelNode_v2",
    lambda b: (Out(), _graph(b), None, 0, byref(_nothing(b))),
)
GRAPHS.add(
    "cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2",
    lambda b: (_kernel(b), Out(c_uint64 * 9)),
)
GRAPHS.add(
    "cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2",
    lambda b: (_kernel(b), byref(_nothing(b))),
)
GRAPHS.add(
    "cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2",
    lambda b: (*_in_instance(b, _kernel), byref(_nothing(b))),
)
GRAPHS.add("cuGraphKernelNodeGetAttribute", lambda b: (_kernel(b), 8, Out(c_uint * 16)))
GRAPHS.add("cuGraphKernelNodeSetAttribute", lambda b: (_kernel(b), 8, b.keep((c_uint * 16)(1))))
GRAPHS.add("cuGraphKernelNodeCopyAttributes", lambda b: (_kernel(b), _kernel(b)))


# Copies, fills, host functions and events.
def _bytes(b: Bench) -> Any:
    return byref(b.keep(copy_of(b.device, b.other, SIZE)))


def _row(b: Bench) -> Any:
    return byref(b.keep(fill_of(b.device, 4, SIZE)))


def _function(b: Bench) -> Any:
    return b.keep((c_void_p * 2)(ctypes.cast(FUNCTION, c_void_p).value, 0))


GRAPHS.add("cuGraphAddMemcpyNode", lambda b: (Out(), _graph(b), None, 0, _bytes(b), b.context))
GRAPHS.add("cuGraphMemcpyNodeGetParams", lambda b: (_copy(b), Out(c_uint64 * 25)))
GRAPHS.add("cuGraphMemcpyNodeSetParams", lambda b: (_copy(b), _bytes(b)))
GRAPHS.add(
    "cuGraphExecMemcpyNodeSetParams", lambda b: (*_in_instance(b, _copy), _bytes(b), b.context)
)
GRAPHS.add("cuGraphAddMemsetNode", lambda b: (Out(), _graph(b), None, 0, _row(b), b.context))
GRAPHS.add("cuGraphMemsetNodeGetParams", lambda b: (_fill(b), Out(c_uint64 * 5)))
GRAPHS.add("cuGraphMemsetNodeSetParams", lambda b: (_fill(b), _row(b)))
GRAPHS.add(
    "cuGraphExecMemsetNodeSetParams", lambda b: (*_in_instance(b, _fill), _row(b), b.context)
)
GRAPHS.add("cuGraphAddHostNode", lambda b: (Out(), _graph(b), None, 0, _function(b)))
GRAPHS.add("cuGraphHostNodeGetParams", lambda b: (_host(b), Out(c_uint64 * 2)))
GRAPHS.add("cuGraphHostNodeSetParams", lambda b: (_host(b), _function(b)))
GRAPHS.add("cuGraphExecHostNodeSetParams", lambda b: (*_in_instance(b, _host), _function(b)))
GRAPHS.add("cuGraphAddEmptyNode", lambda b: (Out(), _graph(b), None, 0))
GRAPHS.add(
    "cuGraphAddEventRecordNode cuGraphAddEventWaitNode",
    lambda b: (Out(), _graph(b), None, 0, b.event()),
)
GRAPHS.add("cuGraphEventRecordNodeGetEvent", lambda b: (_record(b), Out()))
GRAPHS.add("cuGraphEventWaitNodeGetEvent", lambda b: (_wait(b), Out()))
GRAPHS.add("cuGraphEventRecordNodeSetEvent", lambda b: (_record(b), b.event()))
GRAPHS.add("cuGraphEventWaitNodeSetEvent", lambda b: (_wait(b), b.event()))
GRAPHS.add("cuGraphExecEventRecordNodeSetEvent", lambda b: (*_in_instance(b, _record), b.event()))
GRAPHS.add("cuGraphExecEventWaitNodeSetEvent", lambda b: (*_in_instance(b, _wait), b.event()))


# Graphs inside graphs. What the call embeds ends with the graph that it was added to.
def _parent(b: Bench) -> int:
    return value(c_void_p, cu.cuGraphCreate, 0)


def _parent_gone(b: Bench, node: Any, graph: int, *_: Any) -> None:
    check(cu.cuGraphDestroy(graph))


def _child(b: Bench, graph: int | None = None) -> int:
    return child(graph or _graph(b), b.kept_graph)


GRAPHS.add(
    "cuGraphAddChildGraphNode", lambda b: (Out(), _parent(b), None, 0, b.kept_graph), _parent_gone
)
GRAPHS.add("cuGraphChildGraphNodeGetGraph", lambda b: (_child(b), Out()))
GRAPHS.add("cuGraphExecChildGraphNodeSetParams", lambda b: (*_in_instance(b, _child), b.kept_graph))


# Nodes of any type.
def _parameters(b: Bench) -> NodeParameters:
    return parameters_of(MEMSET, b.device, 0, 5 | 1 << 32, SIZE, 1, b.context)


GRAPHS.add("cuGraphAddNode", lambda b: (Out(), _graph(b), None, 0, Out(_parameters(b))))
GRAPHS.add("cuGraphAddNode_v2", lambda b: (Out(), _graph(b), None, None, 0, Out(_parameters(b))))
GRAPHS.add("cuGraphNodeSetParams", lambda b: (_fill(b), Out(_parameters(b))))
GRAPHS.add("cuGraphNodeGetParams", lambda b: (_fill(b), Out(NodeParameters)))
GRAPHS.add("cuGraphExecNodeSetParams", lambda b: (*_in_instance(b, _fill), Out(_parameters(b))))

# Memory and conditions.
GRAPHS.add(
    "cuGraphAddMemAllocNode",
    lambda b: (Out(), _parent(b), None, 0, Out(allocation(SIZE))),
    _parent_gone,
)
GRAPHS.add("cuGraphMemAllocNodeGetParams", lambda b: (_memory(b)[1], Out(c_uint64 * 15)))
GRAPHS.add("cuGraphAddMemFreeNode", lambda b: (Out(), *_freed(b)))
GRAPHS.add("cuGraphMemFreeNodeGetParams", lambda b: (_release(b), Out(c_uint64)))
GRAPHS.add(
    "cuGraphConditionalHandleCreate",
    lambda b: (Out(c_uint64), _parent(b), b.context, 1, 1),
    _parent_gone,
)
GRAPHS.add("cuDeviceGetGraphMemAttribute", lambda b: (0, 0, Out(c_uint64)))
GRAPHS.add("cuDeviceSetGraphMemAttribute", lambda b: (0, 1, Out(c_uint64(0))))
GRAPHS.add("cuDeviceGraphMemTrim", lambda b: (0,))


def _memory(b: Bench) -> tuple[int, int, int]:
    graph = _graph(b)
    return graph, *allocate_node(graph, SIZE)


def _freed(b: Bench) -> tuple[Any, ...]:
    graph, node, address = _memory(b)
    return graph, _one(node), 1, address


def _release(b: Bench) -> int:
    graph, node, address = _memory(b)
    return release_node(graph, address, node)


# Captures into graphs.
GRAPHS.add(
    "cuStreamBeginCaptureToGraph",
    lambda b: (b.stream, _parent(b), None, None, 0, 2),
    _end,
)
GRAPHS.add("cuStreamUpdateCaptureDependencies", lambda b: (b.begin(), None, 0, 1), _end)
GRAPHS.add("cuStreamUpdateCaptureDependencies_v2", lambda b: (b.begin(), None, None, 0, 1), _end)


# Batches and ranges.
def _copies(b: Bench) -> tuple[Any, ...]:
    ends = [(c_uint64 * 1)(b.device), (c_uint64 * 1)(b.other), (c_size_t * 1)(SIZE)]
    return *map(b.keep, ends), 1, b.keep(CopyAttributes(1)), b.keep((c_size_t * 1)(0)), 1


def _copy_batch(b: Bench, *rest: Any) -> tuple[Any, ...]:
    targets, sources, sizes, count, attributes, starts, kinds = _copies(b)
    return targets, sources, sizes, count, byref(attributes), starts, kinds, *rest, b.stream


def _ranges(b: Bench) -> tuple[Any, ...]:
    return b.keep((c_uint64 * 1)(b.managed)), b.keep((c_size_t * 1)(SIZE)), 1


def _place(b: Bench) -> tuple[Any, ...]:
    return b.keep((Location * 1)(Location(DEVICE, 0))), b.keep((c_size_t * 1)(0)), 1


GRAPHS.add("cuMemcpyBatchAsync", lambda b: _copy_batch(b, Out(c_size_t)))
GRAPHS.add("cuMemcpyBatchAsync_v2", lambda b: _copy_batch(b))
GRAPHS.add(
    "cuMemcpyWithAttributesAsync",
    lambda b: (b.device, b.other, SIZE, byref(b.keep(CopyAttributes(1))), b.stream),
)
GRAPHS.add(
    "cuMemPrefetchBatchAsync cuMemDiscardAndPrefetchBatchAsync",
    lambda b: (*_ranges(b), *_place(b), 0, b.stream),
)
GRAPHS.add("cuMemDiscardBatchAsync", lambda b: (*_ranges(b), 0, b.stream))
GRAPHS.add("cuMemRangeGetAttribute", lambda b: (Out(c_int), 4, 1, b.managed, SIZE))
GRAPHS.add(
    "cuMemRangeGetAttributes",
    lambda b: (*_wanted(b), 1, b.managed, SIZE),
)


def _wanted(b: Bench) -> tuple[Any, ...]:
    place = b.keep(c_int(0))
    one = (c_void_p * 1)(ctypes.addressof(place))
    return b.keep(one), b.keep((c_size_t * 1)(4)), b.keep((c_int * 1)(1))
