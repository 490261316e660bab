"""What tests of graphs made by hand work with: nodes in one line, and how a graph looks."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import byref, c_size_t, c_uint64, c_void_p
from typing import Any

from .cuda import (
    AllocationParameters,
    Copy3D,
    FillParameters,
    HostParameters,
    KernelParameters,
    Location,
    NodeParameters,
    PoolProperties,
    check,
    cu,
)
from .kernels import pointers
from .resources import DEVICE, HOST, Resources, last, value

KERNEL, MEMCPY, MEMSET, HOST_NODE, GRAPH, EMPTY = 0, 1, 2, 3, 4, 5  # CUgraphNodeType
WAIT_EVENT, EVENT_RECORD, MEM_ALLOC, MEM_FREE, CONDITIONAL = 6, 7, 10, 11, 13


def create(gpu: Resources) -> int:
    """Create a graph that the resources destroys."""
    return gpu._keep(cu.cuGraphDestroy, value(c_void_p, cu.cuGraphCreate, 0))


def handles(nodes: Iterable[int]) -> tuple[Any, int]:
    """Return an array of handles and its length."""
    listed = list(nodes)
    return (c_void_p * len(listed))(*listed) if listed else None, len(listed)


def empty(graph: int, *after: int) -> int:
    """Add a node that does nothing."""
    return value(c_void_p, cu.cuGraphAddEmptyNode, graph, *handles(after))


def fill_of(target: int, number: int, count: int, size: int = 1) -> FillParameters:
    """Describe a fill of one row."""
    return FillParameters(target, 0, number, size, count, 1)


def fill(gpu: Resources, graph: int, parameters: FillParameters, *after: int) -> int:
    """Add a node that fills."""
    given = (graph, *handles(after), byref(parameters), gpu.context)
    return value(c_void_p, cu.cuGraphAddMemsetNode, *given)


def copy_of(
    target: int, source: int, size: int, host: tuple[bool, bool] = (False, False)
) -> Copy3D:
    """Describe a copy of one row; `host`: whether target and source are host memory."""
    ends: dict[str, Any] = {"WidthInBytes": size, "Height": 1, "Depth": 1}
    for side, address, on_host in (("dst", target, host[0]), ("src", source, host[1])):
        ends[f"{side}MemoryType"] = HOST - 1 if on_host else DEVICE + 1
        ends[f"{side}Host" if on_host else f"{side}Device"] = address
    return Copy3D(**ends)


def copy(gpu: Resources, graph: int, parameters: Copy3D, *after: int) -> int:
    """Add a node that copies."""
    given = (graph, *handles(after), byref(parameters), gpu.context)
    return value(c_void_p, cu.cuGraphAddMemcpyNode, *given)


def call(graph: int, function: Any, argument: int, *after: int) -> int:
    """Add a node that calls a host function, which the caller keeps."""
    given = HostParameters(ctypes.cast(function, c_void_p).value, argument)
    return value(c_void_p, cu.cuGraphAddHostNode, graph, *handles(after), byref(given))


def launch_of(function: int, *values: Any, grid: int = 1, block: int = 1) -> KernelParameters:
    """Describe a launch with values of ctypes."""
    given = pointers(*values)
    made = KernelParameters(function, (grid, 1, 1), (block, 1, 1), 0, ctypes.addressof(given))
    made.kept = given
    return made


def kernel(graph: int, parameters: KernelParameters, *after: int) -> int:
    """Add a node that launches a kernel."""
    return value(c_void_p, cu.cuGraphAddKernelNode_v2, graph, *handles(after), byref(parameters))


def allocation(size: int, device: int = 0) -> AllocationParameters:
    """Describe memory of a graph on a device."""
    return AllocationParameters(
        pool=PoolProperties(allocType=1, location=Location(DEVICE, device)), bytes=size
    )


def allocate(graph: int, size: int, *after: int) -> tuple[int, int]:
    """Add a node that allocates; return the node and the address."""
    given = allocation(size)
    node = value(c_void_p, cu.cuGraphAddMemAllocNode, graph, *handles(after), byref(given))
    return node, given.address


def release(graph: int, address: int, *after: int) -> int:
    """Add a node that frees memory of a graph."""
    return value(c_void_p, cu.cuGraphAddMemFreeNode, graph, *handles(after), address)


def child(graph: int, inner: int, *after: int) -> int:
    """Add a node that runs a copy of another graph."""
    return value(c_void_p, cu.cuGraphAddChildGraphNode, graph, *handles(after), inner)


def parameters_of(kind: int, *words: int) -> NodeParameters:
    """Describe a node of any type by the words of its union."""
    return NodeParameters(kind, (0, 0, 0), tuple(words) + (0,) * (29 - len(words)))


def add(graph: int, parameters: NodeParameters, *after: int) -> int:
    """Add a node of any type."""
    listed, count = handles(after)
    given = (graph, listed, None, count, byref(parameters))
    return value(c_void_p, cu.cuGraphAddNode_v2, *given)


def instantiate(gpu: Resources, graph: int, flags: int = 0) -> int:
    """Instantiate a graph and keep the graph; the resources destroys the instance."""
    made = value(c_void_p, cu.cuGraphInstantiateWithFlags, graph, flags)
    return gpu._keep(cu.cuGraphExecDestroy, made)


def run(executable: int, stream: int | None) -> None:
    """Launch an executable graph and wait for it."""
    check(cu.cuGraphLaunch(executable, stream))
    check(cu.cuStreamSynchronize(stream))


def nodes(graph: int, roots: bool = False) -> list[int]:
    """Return the nodes of a graph."""
    function = cu.cuGraphGetRootNodes if roots else cu.cuGraphGetNodes
    count = last(c_size_t, function, graph, None)
    if count == 0:
        return []
    found, length = (c_void_p * count)(), c_size_t(count)
    check(function(graph, found, byref(length)))
    return list(found)


def edges(graph: int) -> set[tuple[int, int]]:
    """Return the edges of a graph."""
    count = last(c_size_t, cu.cuGraphGetEdges_v2, graph, None, None, None)
    if count == 0:
        return set()
    starts, ends, length = (c_void_p * count)(), (c_void_p * count)(), c_size_t(count)
    data = (c_uint64 * count)()
    check(cu.cuGraphGetEdges_v2(graph, starts, ends, data, byref(length)))
    assert list(data) == [0] * count
    return set(zip(starts, ends, strict=True))


def connect(function: Any, graph: int | None, *pairs: tuple[int, int]) -> int:
    """Add or remove edges; return the code."""
    starts, count = handles(start for start, _ in pairs)
    ends, _ = handles(end for _, end in pairs)
    return function(graph, starts, ends, None, count)
