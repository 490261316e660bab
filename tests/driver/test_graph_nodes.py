"""What nodes do: kernels, copies, fills, host functions and events, got and set."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p

import pytest

from .cuda import HOST_FUNCTION, Copy3D, FillParameters, HostParameters, KernelParameters, check, cu
from .kernels import Module, set_words, words
from .nodes import (
    EVENT_RECORD,
    HOST_NODE,
    KERNEL,
    MEMCPY,
    MEMSET,
    WAIT_EVENT,
    add,
    call,
    copy,
    copy_of,
    create,
    empty,
    fill,
    fill_of,
    handles,
    instantiate,
    kernel,
    launch_of,
    parameters_of,
    run,
)
from .resources import Resources, download, last, value

PRIORITY = 8  # CUlaunchAttributeID


def _parameters(found: KernelParameters) -> tuple[int, int]:
    """Read those of `poke`."""
    target, number = (c_void_p * 2).from_address(found.parameters)
    return c_uint64.from_address(target).value, c_uint.from_address(number).value


def test_a_kernel_keeps_its_parameters(gpu: Resources) -> None:
    """They are copied when the node is made, and given back by pointers."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.alloc(4)
    poke = Module(gpu)["poke"]
    number = c_uint64(5)
    given = launch_of(poke, c_uint64(target), number)
    node = kernel(graph, given)
    number.value = 6
    assert last(c_int, cu.cuGraphNodeGetType, node) == KERNEL
    executable = instantiate(gpu, graph)
    run(executable, stream)
    assert words(target, 1) == [5]
    found = KernelParameters()
    check(cu.cuGraphKernelNodeGetParams_v2(node, byref(found)))
    assert (found.function, list(found.grid), list(found.block)) == (poke, [1] * 3, [1] * 3)
    assert _parameters(found) == (target, 5)


def test_a_kernel_can_be_set(gpu: Resources) -> None:
    """In the graph for later instances, or in one instance."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.alloc(4)
    poke = Module(gpu)["poke"]
    node = kernel(graph, launch_of(poke, c_uint64(target), c_uint64(1)))
    first = instantiate(gpu, graph)
    again = launch_of(poke, c_uint64(target), c_uint64(2))
    check(cu.cuGraphKernelNodeSetParams_v2(node, byref(again)))
    second = instantiate(gpu, graph)
    third = launch_of(poke, c_uint64(target), c_uint64(3))
    for executable, wanted in ((first, 1), (second, 2)):
        run(executable, stream)
        assert words(target, 1) == [wanted]
    check(cu.cuGraphExecKernelNodeSetParams_v2(first, node, byref(third)))
    for executable, wanted in ((first, 3), (second, 2)):
        run(executable, stream)
        assert words(target, 1) == [wanted]


def test_what_a_node_gave_is_there_until_it_is_changed(gpu: Resources) -> None:
    """Asking again neither moves nor frees it."""
    graph, target = create(gpu), gpu.alloc(4)
    node = kernel(graph, launch_of(Module(gpu)["poke"], c_uint64(target), c_uint64(5)))
    first, second = KernelParameters(), KernelParameters()
    check(cu.cuGraphKernelNodeGetParams_v2(node, byref(first)))
    check(cu.cuGraphKernelNodeGetParams_v2(node, byref(second)))
    assert first.parameters == second.parameters
    assert _parameters(first) == (target, 5)


def test_wrong_launches_are_refused(gpu: Resources) -> None:
    """Without a kernel, without blocks, and parameters of another node."""
    graph, target = create(gpu), gpu.alloc(4)
    given = launch_of(0, c_uint64(target), c_uint64(1))
    assert cu.cuGraphAddKernelNode_v2(byref(c_void_p()), graph, None, 0, byref(given)) == 400
    wrong = launch_of(Module(gpu)["poke"], c_uint64(target), c_uint64(1), block=0)
    assert cu.cuGraphAddKernelNode_v2(byref(c_void_p()), graph, None, 0, byref(wrong)) == 1
    node = empty(graph)
    assert cu.cuGraphKernelNodeGetParams_v2(node, byref(KernelParameters())) == 1
    assert cu.cuGraphKernelNodeGetAttribute(node, PRIORITY, byref((c_uint * 16)())) == 1


def test_attributes_of_a_kernel_node_are_kept_and_copied(gpu: Resources) -> None:
    """A priority, which is the driver's to honour."""
    graph, nothing = create(gpu), Module(gpu)["nothing"]
    one, other = kernel(graph, launch_of(nothing)), kernel(graph, launch_of(nothing))
    given, found = (c_uint * 16)(0xFFFFFFFF), (c_uint * 16)()
    check(cu.cuGraphKernelNodeSetAttribute(one, PRIORITY, byref(given)))
    check(cu.cuGraphKernelNodeCopyAttributes(other, one))
    check(cu.cuGraphKernelNodeGetAttribute(other, PRIORITY, byref(found)))
    assert found[0] == 0xFFFFFFFF


def test_a_copy_is_got_and_set(gpu: Resources) -> None:
    """Between host and device; an instance can copy other bytes."""
    graph, stream, device = create(gpu), gpu.stream(), gpu.alloc(8)
    one, other = gpu.pinned(8, fill=1), gpu.pinned(8, fill=2)
    node = copy(gpu, graph, copy_of(device, one, 8, (False, True)))
    assert last(c_int, cu.cuGraphNodeGetType, node) == MEMCPY
    found = Copy3D()
    check(cu.cuGraphMemcpyNodeGetParams(node, byref(found)))
    assert (found.srcHost, found.dstDevice, found.WidthInBytes) == (one, device, 8)
    executable = instantiate(gpu, graph)
    run(executable, stream)
    assert download(device, 8) == b"\1" * 8
    again = copy_of(device, other, 4, (False, True))
    check(cu.cuGraphExecMemcpyNodeSetParams(executable, node, byref(again), gpu.context))
    run(executable, stream)
    assert download(device, 8) == b"\2" * 4 + b"\1" * 4
    check(cu.cuGraphMemcpyNodeSetParams(node, byref(copy_of(device, device + 4, 4))))
    run(instantiate(gpu, graph), stream)
    assert download(device, 8) == b"\1" * 8


def test_rows_can_be_copied_and_filled(gpu: Resources) -> None:
    """With a pitch; and fills of 2 and 4 bytes."""
    graph, stream, device = create(gpu), gpu.stream(), gpu.alloc(32)
    check(cu.cuMemsetD8_v2(device, 0, 32))
    check(cu.cuCtxSynchronize())
    first = fill(gpu, graph, FillParameters(device, 8, 0x0201, 2, 1, 4))
    rows = copy_of(device + 4, device, 2)
    rows.srcPitch, rows.dstPitch, rows.Height = 8, 8, 4
    copy(gpu, graph, rows, first)
    run(instantiate(gpu, graph), stream)
    assert download(device, 32) == b"\1\2\0\0\1\2\0\0" * 4


def test_a_fill_is_got_and_set(gpu: Resources) -> None:
    """As it was given."""
    graph, stream, device = create(gpu), gpu.stream(), gpu.alloc(8)
    node = fill(gpu, graph, fill_of(device, 7, 2, 4))
    assert last(c_int, cu.cuGraphNodeGetType, node) == MEMSET
    found = FillParameters()
    check(cu.cuGraphMemsetNodeGetParams(node, byref(found)))
    assert (found.target, found.value, found.size, found.width) == (device, 7, 4, 2)
    executable = instantiate(gpu, graph)
    other = fill_of(device, 9, 2, 4)
    check(cu.cuGraphExecMemsetNodeSetParams(executable, node, byref(other), gpu.context))
    run(executable, stream)
    assert words(device, 2) == [9, 9]
    wrong = fill_of(device, 9, 2, 3)
    assert cu.cuGraphMemsetNodeSetParams(node, byref(wrong)) == 1


def test_a_host_function_is_got_and_set(gpu: Resources) -> None:
    """In the graph and in an instance."""
    graph, stream = create(gpu), gpu.stream()
    calls: list[int | None] = []
    note = HOST_FUNCTION(calls.append)
    node = call(graph, note, 1)
    assert last(c_int, cu.cuGraphNodeGetType, node) == HOST_NODE
    found = HostParameters()
    check(cu.cuGraphHostNodeGetParams(node, byref(found)))
    assert (found.function, found.argument) == (ctypes.cast(note, c_void_p).value, 1)
    first = instantiate(gpu, graph)
    found.argument = 2
    check(cu.cuGraphHostNodeSetParams(node, byref(found)))
    second = instantiate(gpu, graph)
    found.argument = 3
    run(first, stream)
    run(second, stream)
    check(cu.cuGraphExecHostNodeSetParams(second, node, byref(found)))
    run(second, stream)
    assert calls == [1, 2, 3]
    nothing = HostParameters()
    assert cu.cuGraphAddHostNode(byref(c_void_p()), graph, None, 0, byref(nothing)) == 1


def test_events_are_recorded_and_waited_for(gpu: Resources) -> None:
    """By nodes, whose events can be got and set."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.pinned(4)
    one, other = gpu.event(), gpu.event()
    before = fill(gpu, graph, fill_of(target, 1, 4))
    record = value(c_void_p, cu.cuGraphAddEventRecordNode, graph, *handles([before]), one)
    wait = value(c_void_p, cu.cuGraphAddEventWaitNode, graph, *handles([record]), other)
    assert last(c_int, cu.cuGraphNodeGetType, record) == EVENT_RECORD
    assert last(c_int, cu.cuGraphNodeGetType, wait) == WAIT_EVENT
    assert last(c_void_p, cu.cuGraphEventRecordNodeGetEvent, record) == one
    assert last(c_void_p, cu.cuGraphEventWaitNodeGetEvent, wait) == other
    executable = instantiate(gpu, graph)
    check(cu.cuGraphLaunch(executable, stream))
    check(cu.cuEventSynchronize(one))
    assert ctypes.string_at(target, 4) == b"\1" * 4
    check(cu.cuGraphEventRecordNodeSetEvent(record, other))
    check(cu.cuGraphEventWaitNodeSetEvent(wait, one))
    assert last(c_void_p, cu.cuGraphEventRecordNodeGetEvent, record) == other
    check(cu.cuGraphExecEventRecordNodeSetEvent(executable, record, other))
    check(cu.cuGraphExecEventWaitNodeSetEvent(executable, wait, one))
    ctypes.memset(target, 0, 4)
    check(cu.cuGraphLaunch(executable, stream))
    check(cu.cuEventSynchronize(other))
    assert ctypes.string_at(target, 4) == b"\1" * 4
    check(cu.cuStreamSynchronize(stream))


def test_a_node_can_be_switched_off(gpu: Resources) -> None:
    """And on again, in one instance; those after it run all the same."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.alloc(8)
    first = fill(gpu, graph, fill_of(target, 1, 4))
    fill(gpu, graph, fill_of(target + 4, 1, 4), first)
    executable = instantiate(gpu, graph)
    assert last(c_uint, cu.cuGraphNodeGetEnabled, executable, first) == 1
    check(cu.cuGraphNodeSetEnabled(executable, first, 0))
    assert last(c_uint, cu.cuGraphNodeGetEnabled, executable, first) == 0
    check(cu.cuMemsetD8_v2(target, 0, 8))
    check(cu.cuCtxSynchronize())
    run(executable, stream)
    assert download(target, 8) == bytes(4) + b"\1" * 4
    check(cu.cuGraphNodeSetEnabled(executable, first, 1))
    run(executable, stream)
    assert download(target, 8) == b"\1" * 8
    assert cu.cuGraphNodeSetEnabled(executable, empty(graph), 0) == 1


@pytest.mark.parametrize("instance", [False, True], ids=["graph", "instance"])
def test_one_function_adds_and_sets_nodes_of_any_type(gpu: Resources, instance: bool) -> None:
    """By parameters that name the type."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.alloc(8)
    given = parameters_of(MEMSET, target, 0, 3 | 4 << 32, 2, 1, gpu.context)
    node = add(graph, given, empty(graph))
    assert last(c_int, cu.cuGraphNodeGetType, node) == MEMSET
    again = parameters_of(MEMSET, target, 0, 8 | 4 << 32, 2, 1, gpu.context)
    executable = instantiate(gpu, graph)
    run(executable, stream)
    assert words(target, 2) == [3, 3]
    if instance:
        check(cu.cuGraphExecNodeSetParams(executable, node, byref(again)))
    else:
        check(cu.cuGraphNodeSetParams(node, byref(again)))
        executable = instantiate(gpu, graph)
    run(executable, stream)
    assert words(target, 2) == [8, 8]
    wrong = parameters_of(HOST_NODE, 0, 0)
    assert cu.cuGraphNodeSetParams(node, byref(wrong)) == 1


def test_a_kernel_of_a_library_is_a_node_too(gpu: Resources) -> None:
    """In the current context, or in the one that is named."""
    from .kernels import IMAGE

    graph, stream, target = create(gpu), gpu.stream(), gpu.alloc(4)
    library = c_void_p()
    check(cu.cuLibraryLoadData(byref(library), IMAGE, None, None, 0, None, None, 0))
    gpu._keep(cu.cuLibraryUnload, library.value)
    poke = value(c_void_p, cu.cuLibraryGetKernel, library, b"poke")
    for context in (None, gpu.context):
        given = launch_of(0, c_uint64(target), c_uint64(4))
        given.kernel, given.context = poke, context
        node = kernel(graph, given)
        found = KernelParameters()
        check(cu.cuGraphKernelNodeGetParams_v2(node, byref(found)))
        assert found.kernel == poke
    set_words(target, [0])
    run(instantiate(gpu, graph), stream)
    assert words(target, 1) == [4]
