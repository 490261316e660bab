"""Memory of graphs: allocated and freed by nodes, used outside, counted and trimmed."""

from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_int, c_uint64, c_void_p

import pytest

from .control import fresh, only_simulated, report
from .cuda import AllocationParameters, check, cu
from .kernels import IMAGE, launch
from .nodes import (
    CONDITIONAL,
    GRAPH,
    MEM_ALLOC,
    MEM_FREE,
    add,
    allocate,
    allocation,
    child,
    copy,
    copy_of,
    create,
    empty,
    fill,
    fill_of,
    handles,
    instantiate,
    parameters_of,
    release,
    run,
)
from .resources import Resources, download, last, undefined_on_hardware, value

AUTO_FREE = 1
IF, ASSIGN_DEFAULT = 0, 1  # CUgraphConditionalNodeType, CU_GRAPH_COND_ASSIGN_DEFAULT
USED_NOW, USED_MOST, RESERVED_NOW, RESERVED_MOST = range(4)  # CUgraphMem_attribute
NOT_READY, NOT_SUPPORTED = 600, 801


def _used(attribute: int) -> int:
    return last(c_uint64, cu.cuDeviceGetGraphMemAttribute, 0, attribute)


def test_memory_lives_from_one_node_to_another(gpu: Resources) -> None:
    """Its address is known when the node is made, and the same in each launch."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.pinned(64)
    node, address = allocate(graph, 64)
    filled = fill(gpu, graph, fill_of(address, 5, 64), node)
    copied = copy(gpu, graph, copy_of(target, address, 64, (True, False)), filled)
    freed = release(graph, address, copied)
    assert last(c_int, cu.cuGraphNodeGetType, node) == MEM_ALLOC
    assert last(c_int, cu.cuGraphNodeGetType, freed) == MEM_FREE
    assert last(c_uint64, cu.cuGraphMemFreeNodeGetParams, freed) == address
    found = AllocationParameters()
    check(cu.cuGraphMemAllocNodeGetParams(node, byref(found)))
    assert (found.address, found.bytes, found.pool.location.id) == (address, 64, 0)
    executable = instantiate(gpu, graph)
    for _ in range(3):
        ctypes.memset(target, 0, 64)
        run(executable, stream)
        assert ctypes.string_at(target, 64) == b"\5" * 64


def test_memory_that_a_graph_does_not_free_is_the_programs(gpu: Resources) -> None:
    """Until it is freed in stream order, or at once; only then the graph runs again."""
    graph, stream = create(gpu), gpu.stream()
    node, address = allocate(graph, 64)
    fill(gpu, graph, fill_of(address, 6, 64), node)
    executable = instantiate(gpu, graph)
    for free in (lambda: cu.cuMemFreeAsync(address, stream), lambda: cu.cuMemFree_v2(address)):
        run(executable, stream)
        assert download(address, 64) == b"\6" * 64
        assert cu.cuGraphLaunch(executable, stream) == 1
        check(free())
        check(cu.cuStreamSynchronize(stream))
    run(executable, stream)
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))


def test_a_graph_can_free_what_it_left_before_it_runs_again(gpu: Resources) -> None:
    """If it was instantiated so."""
    graph, stream = create(gpu), gpu.stream()
    node, address = allocate(graph, 64)
    fill(gpu, graph, fill_of(address, 7, 64), node)
    executable = instantiate(gpu, graph, AUTO_FREE)
    for _ in range(2):
        run(executable, stream)
        assert download(address, 64) == b"\7" * 64
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))


def test_freeing_what_is_left_waits_for_the_launch_before(gpu: Resources) -> None:
    """Which may be in another stream, and in the middle of its work."""
    graph, event, target = create(gpu), gpu.event(), gpu.pinned(64)
    first, second, third = gpu.stream(), gpu.stream(), gpu.stream()
    node, address = allocate(graph, 64)
    filled = fill(gpu, graph, fill_of(address, 7, 64), node)
    waited = value(c_void_p, cu.cuGraphAddEventWaitNode, graph, *handles([filled]), event)
    copy(gpu, graph, copy_of(target, address, 64, (True, False)), waited)
    executable = instantiate(gpu, graph, AUTO_FREE)
    gate = gpu.gate()
    gate.hold(third)
    check(cu.cuEventRecord(event, third))
    for stream in (first, second):
        check(cu.cuGraphLaunch(executable, stream))
        for _ in range(20):  # each question may run some of the work
            assert cu.cuStreamQuery(stream) == NOT_READY
    gate.open()
    check(cu.cuStreamSynchronize(first))
    assert ctypes.string_at(target, 64) == b"\7" * 64
    check(cu.cuMemFreeAsync(address, second))
    check(cu.cuStreamSynchronize(second))


@undefined_on_hardware("memory that a refused launch would have freed")
def test_a_refused_launch_frees_nothing(gpu: Resources) -> None:
    """What the graph left stays as it is, although the launch would have freed it first."""
    other, graph, stream = create(gpu), create(gpu), gpu.stream()
    _, theirs = allocate(other, 64)
    node, own = allocate(graph, 64)
    fill(gpu, graph, fill_of(own, 8, 64), node)
    release(graph, theirs)
    first, second = instantiate(gpu, other), instantiate(gpu, graph, AUTO_FREE)
    run(first, stream)
    run(second, stream)
    assert cu.cuGraphLaunch(second, stream) == 1  # the other graph's memory is free already
    check(cu.cuStreamSynchronize(stream))
    assert download(own, 64) == b"\x08" * 64
    check(cu.cuMemFreeAsync(own, stream))
    check(cu.cuStreamSynchronize(stream))


def _of_two_devices() -> list[int]:
    """Write from device 1 to memory of two graphs of device 0, of which one lets it."""
    check(cu.cuInit(0))
    contexts = [value(c_void_p, cu.cuCtxCreate_v2, 0, device) for device in (0, 1)]
    check(cu.cuCtxSetCurrent(contexts[0]))
    access, places = (c_int * 3)(1, 1, 3), []  # CUmemAccessDesc: a device, number 1, read and write
    for opens in (True, False):
        graph, given = value(c_void_p, cu.cuGraphCreate, 0), allocation(64)
        if opens:
            given.access, given.count = ctypes.addressof(access), 1
        value(c_void_p, cu.cuGraphAddMemAllocNode, graph, None, 0, byref(given))
        run(value(c_void_p, cu.cuGraphInstantiateWithFlags, graph, 0), None)
        places.append(given.address)
    check(cu.cuCtxSetCurrent(contexts[1]))
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    poke = value(c_void_p, cu.cuModuleGetFunction, module, b"poke")
    codes = []
    for place in places:
        check(launch(poke, c_uint64(place), c_uint64(1)))
        codes.append(cu.cuCtxSynchronize())
    return codes


@only_simulated
def test_memory_of_a_graph_is_open_to_the_devices_that_it_names() -> None:
    """Not to those that another graph's memory names."""
    assert fresh(_of_two_devices, GPULEND_SIM_DEVICES="2") == [0, 700]


def test_another_graph_can_free_it(gpu: Resources) -> None:
    """Launched after the one that allocates."""
    graph, other, stream = create(gpu), create(gpu), gpu.stream()
    _, address = allocate(graph, 64)
    release(other, address)
    one, two = instantiate(gpu, graph), instantiate(gpu, other)
    for _ in range(2):
        run(one, stream)
        run(two, stream)


def test_wrong_memory_nodes_are_refused(gpu: Resources) -> None:
    """No bytes, no such device, what no graph allocated, and what the graph frees already."""
    graph = create(gpu)
    node = c_void_p()
    for given in (allocation(0), allocation(64, device=99)):
        assert cu.cuGraphAddMemAllocNode(byref(node), graph, None, 0, byref(given)) == 1
    made, address = allocate(graph, 64)
    release(graph, address, made)
    assert cu.cuGraphAddMemFreeNode(byref(node), graph, *handles([made]), address) == 1
    assert cu.cuGraphAddMemFreeNode(byref(node), graph, None, 0, 0) == 1
    assert cu.cuGraphAddMemFreeNode(byref(node), graph, None, 0, gpu.alloc(64)) == 1


def test_a_graph_with_memory_is_neither_copied_nor_taken_apart(gpu: Resources) -> None:
    """Nor is it a child, nor does it have two instances at a time."""
    graph, parent = create(gpu), create(gpu)
    node, address = allocate(graph, 64)
    after = empty(graph, node)
    release(graph, address, after)
    assert cu.cuGraphClone(byref(c_void_p()), graph) == NOT_SUPPORTED
    assert cu.cuGraphAddChildGraphNode(byref(c_void_p()), parent, None, 0, graph) == NOT_SUPPORTED
    assert cu.cuGraphDestroyNode(after) == NOT_SUPPORTED
    one, other = (c_void_p * 1)(node), (c_void_p * 1)(after)
    assert cu.cuGraphRemoveDependencies_v2(graph, one, other, None, 1) == NOT_SUPPORTED
    instantiate(gpu, graph)
    assert cu.cuGraphInstantiateWithFlags(byref(c_void_p()), graph, 0) == NOT_SUPPORTED
    assert child(parent, create(gpu))


def test_a_graph_inside_another_gets_no_memory(gpu: Resources) -> None:
    """Neither by nodes nor by a capture; what it had when it was moved stays."""
    inner, graph = value(c_void_p, cu.cuGraphCreate, 0), create(gpu)
    stream, target = gpu.stream(), gpu.pinned(64)
    node, address = allocate(inner, 64)
    filled = fill(gpu, inner, fill_of(address, 9, 64), node)
    copied = copy(gpu, inner, copy_of(target, address, 64, (True, False)), filled)
    release(inner, address, copied)
    add(graph, parameters_of(GRAPH, inner, 1))
    run(instantiate(gpu, graph), stream)
    assert ctypes.string_at(target, 64) == b"\x09" * 64
    outer = create(gpu)
    embedded = last(c_void_p, cu.cuGraphChildGraphNodeGetGraph, child(outer, create(gpu)))
    for place in (inner, embedded):
        given = (byref(c_void_p()), place, None, 0, byref(allocation(64)))
        assert cu.cuGraphAddMemAllocNode(*given) == NOT_SUPPORTED
        assert cu.cuGraphAddMemFreeNode(*given[:4], address) == NOT_SUPPORTED
    check(cu.cuStreamBeginCaptureToGraph(stream, embedded, None, None, 0, 2))
    assert cu.cuMemAllocAsync(byref(c_uint64()), 64, stream) == NOT_SUPPORTED
    check(cu.cuStreamEndCapture(stream, byref(c_void_p())))


def test_what_graphs_use_is_counted(gpu: Resources) -> None:
    """From the launch on; the highest numbers can be set back, the others not."""
    graph, stream = create(gpu), gpu.stream()
    _, address = allocate(graph, 4096)
    run(instantiate(gpu, graph), stream)
    assert _used(USED_NOW) >= 4096
    assert _used(USED_MOST) >= _used(USED_NOW)
    assert _used(RESERVED_MOST) >= _used(RESERVED_NOW) >= _used(USED_NOW)
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))
    check(cu.cuDeviceGraphMemTrim(0))
    zero, one = c_uint64(0), c_uint64(1)
    check(cu.cuDeviceSetGraphMemAttribute(0, USED_MOST, byref(zero)))
    check(cu.cuDeviceSetGraphMemAttribute(0, RESERVED_MOST, byref(zero)))
    assert cu.cuDeviceSetGraphMemAttribute(0, USED_NOW, byref(zero)) == 1
    assert cu.cuDeviceSetGraphMemAttribute(0, USED_MOST, byref(one)) == 1
    assert cu.cuDeviceGetGraphMemAttribute(0, 99, byref(zero)) == 1


def _passing(size: int) -> tuple[int, int]:
    graph = value(c_void_p, cu.cuGraphCreate, 0)
    node, address = allocate(graph, size)
    release(graph, address, node)
    return graph, value(c_void_p, cu.cuGraphInstantiateWithFlags, graph, 0)


@undefined_on_hardware("when memory of ended graphs is no longer counted is not documented")
def test_what_ended_graphs_used_is_not_counted(gpu: Resources) -> None:
    """What they had reserved serves the next ones, until it is trimmed."""
    stream = gpu.stream()
    check(cu.cuDeviceGraphMemTrim(0))
    used, reserved = _used(USED_NOW), []
    for _ in range(3):
        graph, executable = _passing(4096)
        run(executable, stream)
        assert _used(USED_NOW) == used + 4096
        reserved.append(_used(RESERVED_NOW))
        check(cu.cuGraphExecDestroy(executable))
        check(cu.cuGraphDestroy(graph))
        assert _used(USED_NOW) == used
    assert reserved == reserved[:1] * 3
    check(cu.cuDeviceGraphMemTrim(0))
    assert _used(RESERVED_NOW) < reserved[0]


@only_simulated
def test_memory_of_a_graph_ends_with_its_last_run(gpu: Resources) -> None:
    """If the graph and its instance have ended before."""
    stream, gate = gpu.stream(), gpu.gate()
    before = report()["live"]["allocations"]
    graph, executable = _passing(4096)
    gate.hold(stream)
    check(cu.cuGraphLaunch(executable, stream))
    check(cu.cuGraphExecDestroy(executable))
    check(cu.cuGraphDestroy(graph))
    assert report()["live"]["allocations"] == before + 1
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert report()["live"]["allocations"] == before


def test_many_allocations_take_time_by_their_number(gpu: Resources) -> None:
    """When the graph is made and at each launch."""
    graph, stream = create(gpu), gpu.stream()
    begin = time.monotonic()
    for node, address in [allocate(graph, 64) for _ in range(20_000)]:
        release(graph, address, node)
    executable = instantiate(gpu, graph)
    for _ in range(3):
        run(executable, stream)
    assert time.monotonic() - begin < 4


def test_trimming_another_device_changes_no_number(gpu: Resources) -> None:
    """What is used here is counted once."""
    if value(c_int, cu.cuDeviceGetCount) < 2:
        pytest.skip("there is one device")
    stream = gpu.stream()
    graph, executable = _passing(4096)
    run(executable, stream)
    numbers = [_used(attribute) for attribute in range(4)]
    check(cu.cuDeviceGraphMemTrim(1))
    run(executable, stream)
    assert [_used(attribute) for attribute in range(4)] == numbers
    check(cu.cuGraphExecDestroy(executable))
    check(cu.cuGraphDestroy(graph))


def test_memory_of_a_graph_is_unknown_before_its_launch(gpu: Resources) -> None:
    """A copy of it is refused, and so is freeing it."""
    graph, target = create(gpu), gpu.pinned(8)
    _, address = allocate(graph, 64)
    assert cu.cuMemcpyDtoH_v2(target, address, 8) == 1
    assert cu.cuMemFree_v2(address) == 1


@undefined_on_hardware("a launch over a destroyed context")
def test_memory_and_conditions_end_with_their_context(gpu: Resources) -> None:
    """The graphs are refused; ending them frees nothing that was allocated since."""
    stream, graph = gpu.stream(), value(c_void_p, cu.cuGraphCreate, 0)
    context = value(c_void_p, cu.cuCtxCreate_v4, None, 0, 0)
    conditional = value(c_void_p, cu.cuGraphCreate, 0)
    condition = value(
        c_uint64, cu.cuGraphConditionalHandleCreate, conditional, context, 1, ASSIGN_DEFAULT
    )
    add(conditional, parameters_of(CONDITIONAL, condition, IF | 1 << 32, 0, context))
    allocate(graph, 64)
    executables = [
        value(c_void_p, cu.cuGraphInstantiateWithFlags, one, 0) for one in (graph, conditional)
    ]
    check(cu.cuCtxDestroy_v2(context))
    check(cu.cuCtxSetCurrent(gpu.context))
    since = [gpu.alloc(64) for _ in range(8)]
    for executable in executables:
        assert cu.cuGraphLaunch(executable, stream) == 1
        check(cu.cuGraphExecDestroy(executable))
    check(cu.cuGraphDestroy(graph))
    check(cu.cuGraphDestroy(conditional))
    for address in since:
        check(cu.cuMemsetD8_v2(address, 1, 64))
    check(cu.cuCtxSynchronize())


def test_captured_memory_is_freed_once(gpu: Resources) -> None:
    """The second release is refused, and the capture goes on."""
    stream = gpu.stream()
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    address = gpu.alloc_async(64, stream)
    check(cu.cuMemFreeAsync(address, stream))
    assert cu.cuMemFreeAsync(address, stream) == 1
    graph = last(c_void_p, cu.cuStreamEndCapture, stream)
    assert gpu.nodes(graph) == [MEM_ALLOC, MEM_FREE]
    run(gpu.executable(graph), stream)


def test_captured_memory_can_be_used_after_the_launch(gpu: Resources) -> None:
    """What cuMemAllocAsync returned in the capture is its address."""
    stream = gpu.stream()
    check(cu.cuStreamBeginCapture_v2(stream, 1))
    address = gpu.alloc_async(64, stream)
    check(cu.cuMemsetD8Async(address, 8, 64, stream))
    executable = gpu.executable(last(c_void_p, cu.cuStreamEndCapture, stream))
    run(executable, stream)
    assert download(address, 64) == b"\x08" * 64
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuStreamSynchronize(stream))
    assert value(c_uint64, cu.cuMemAllocAsync, 0, stream) == 0
