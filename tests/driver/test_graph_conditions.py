"""Conditional nodes: a graph that runs if, while, or which."""

from __future__ import annotations

import ctypes
import threading
import time
from ctypes import byref, c_uint, c_uint64, c_void_p

import pytest

from . import variants
from .control import only_simulated
from .cuda import HOST_FUNCTION, InstantiateParameters, NodeParameters, check, cu
from .kernels import IMAGE, Module, launch, set_words, words
from .nodes import (
    CONDITIONAL,
    GRAPH,
    add,
    call,
    child,
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
from .resources import JUNK, Resources, undefined_on_hardware, value

IF, WHILE, SWITCH = 0, 1, 2  # CUgraphConditionalNodeType
ASSIGN_DEFAULT = 1
CONDITIONAL_HANDLE_UNUSED = 5  # CUgraphInstantiateResult
NOT_SUPPORTED = 801

# Counts down a word of memory and makes it the condition; the driver defines what it calls.
COUNT = b"""
.version 8.3
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry count(.param .u64 handle, .param .u64 place)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [handle];
    ld.param.u64 %rd2, [place];
    ld.global.u32 %r1, [%rd2];
    sub.u32 %r2, %r1, 1;
    st.global.u32 [%rd2], %r2;
    {
        .param .b64 one;
        .param .b32 two;
        st.param.b64 [one], %rd1;
        st.param.b32 [two], %r2;
        call.uni cudaGraphSetConditional, (one, two);
    }
    ret;
}
\0"""


def _condition(gpu: Resources, graph: int, default: int | None) -> int:
    flags = 0 if default is None else ASSIGN_DEFAULT
    given = (graph, gpu.context, default or 0, flags)
    return value(c_uint64, cu.cuGraphConditionalHandleCreate, *given)


def _branch(
    gpu: Resources, graph: int, condition: int, kind: int, count: int, *after: int
) -> list[int]:
    given = parameters_of(CONDITIONAL, condition, kind | count << 32, 0, gpu.context)
    assert add(graph, given, *after)
    return list((c_void_p * count).from_address(given.words[2]))


@pytest.mark.parametrize("number", [0, 1, 7])
@pytest.mark.parametrize("count", [1, 2])
def test_a_graph_runs_if_the_condition_holds(gpu: Resources, number: int, count: int) -> None:
    """And the second one if not."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.pinned(4)
    bodies = _branch(gpu, graph, _condition(gpu, graph, number), IF, count)
    for index, body in enumerate(bodies):
        fill(gpu, body, fill_of(target, index + 1, 4))
    run(instantiate(gpu, graph), stream)
    wanted = 1 if number else 2 if count == 2 else 0
    assert ctypes.string_at(target, 4) == bytes([wanted] * 4)


@pytest.mark.parametrize("number", [0, 2, 3, 99])
def test_one_of_several_graphs_runs(gpu: Resources, number: int) -> None:
    """That with the number, or none."""
    graph, stream, target = create(gpu), gpu.stream(), gpu.pinned(4)
    bodies = _branch(gpu, graph, _condition(gpu, graph, number), SWITCH, 3)
    for index, body in enumerate(bodies):
        fill(gpu, body, fill_of(target, index + 1, 4))
    run(instantiate(gpu, graph), stream)
    wanted = number + 1 if number < 3 else 0
    assert ctypes.string_at(target, 4) == bytes([wanted] * 4)


def test_a_graph_runs_while_a_kernel_says_so(gpu: Resources) -> None:
    """What is after the node comes after the last run; each launch begins with the default."""
    graph, stream, place = create(gpu), gpu.stream(), gpu.alloc(4)
    done = gpu.pinned(4)
    count = Module(gpu, COUNT)["count"]
    condition = _condition(gpu, graph, 1)
    given = parameters_of(CONDITIONAL, condition, WHILE | 1 << 32, 0, gpu.context)
    node = add(graph, given)
    (body,) = (c_void_p * 1).from_address(given.words[2])
    kernel(body, launch_of(count, c_uint64(condition), c_uint64(place)))
    fill(gpu, graph, fill_of(done, 1, 4), node)
    executable = instantiate(gpu, graph)
    for times in (5, 1, 3):
        set_words(place, [times])
        ctypes.memset(done, 0, 4)
        run(executable, stream)
        assert words(place, 1) == [0]
        assert ctypes.string_at(done, 4) == b"\1" * 4


@pytest.mark.parametrize("wait", ["stream", "context", "value"])
@pytest.mark.parametrize("first", ["fill", "loop"])
def test_other_work_ends_a_loop(gpu: Resources, first: str, wait: str) -> None:
    """It is queued in a stream that nobody waits for, before the loop or behind it."""
    graph, stream, other, place = create(gpu), gpu.stream(), gpu.stream(), gpu.alloc(4)
    text = COUNT.replace(b"sub.u32 %r2, %r1, 1;", b"mov.u32 %r2, %r1;")
    look = Module(gpu, text.replace(b"st.global.u32 [%rd2], %r2;", b""))["count"]
    condition = _condition(gpu, graph, 1)
    (body,) = _branch(gpu, graph, condition, WHILE, 1)
    kernel(body, launch_of(look, c_uint64(condition), c_uint64(place)))
    executable = instantiate(gpu, graph)
    set_words(place, [1])
    if first == "fill":
        check(cu.cuMemsetD8Async(place, 0, 4, other))
    check(cu.cuGraphLaunch(executable, stream))
    if first == "loop":
        check(cu.cuMemsetD8Async(place, 0, 4, other))
    if wait == "value":
        # Written behind the loop, in the stream that nobody waits for.
        third, word = gpu.stream(), gpu.pinned(4, 0)
        check(cu.cuStreamWriteValue32_v2(stream, word, 1, 0))
        check(cu.cuStreamWaitValue32_v2(third, word, 1, 1))
        check(cu.cuStreamSynchronize(third))
    else:
        check(cu.cuStreamSynchronize(stream) if wait == "stream" else cu.cuCtxSynchronize())


@pytest.mark.parametrize("deep", [False, True], ids=["graph", "child"])
def test_what_cannot_be_in_a_conditional_node_is_refused(gpu: Resources, deep: bool) -> None:
    """When the graph is instantiated: host functions and events, also in graphs inside."""
    function, event = HOST_FUNCTION(lambda _: None), gpu.event()
    for fits, put in (
        (False, lambda graph: call(graph, function, 0)),
        (False, lambda graph: value(c_void_p, cu.cuGraphAddEventRecordNode, graph, None, 0, event)),
        (True, empty),
    ):
        graph = create(gpu)
        (body,) = _branch(gpu, graph, _condition(gpu, graph, 1), IF, 1)
        if deep:
            inner = create(gpu)
            put(inner)
            child(body, inner)
        else:
            put(body)
        parameters = InstantiateParameters(0, None, None, 99)
        made = c_void_p()
        code = variants.cu.cuGraphInstantiateWithParams(byref(made), graph, byref(parameters))
        assert code == (0 if fits else 1)
        assert (parameters.result, bool(parameters.node)) == ((0, False) if fits else (1, True))
        if fits:
            check(cu.cuGraphExecDestroy(made))


def test_kernels_of_a_conditional_node_are_of_its_context(gpu: Resources) -> None:
    """Others prevent the instance."""
    graph, nothing = create(gpu), Module(gpu)["nothing"]
    context = value(c_void_p, cu.cuCtxCreate_v4, None, 0, 0)
    foreign = value(
        c_void_p, cu.cuModuleGetFunction, value(c_void_p, cu.cuModuleLoadData, IMAGE), b"nothing"
    )
    check(cu.cuCtxSetCurrent(gpu.context))
    (body,) = _branch(gpu, graph, _condition(gpu, graph, 1), IF, 1)
    kernel(body, launch_of(nothing))
    instantiate(gpu, graph)
    kernel(body, launch_of(foreign))
    assert cu.cuGraphInstantiateWithFlags(byref(c_void_p()), graph, 0) == 1
    check(cu.cuCtxDestroy_v2(context))
    check(cu.cuCtxSetCurrent(gpu.context))


def test_a_condition_without_a_node_prevents_the_instance(gpu: Resources) -> None:
    """With a result of its own."""
    graph = create(gpu)
    condition = _condition(gpu, graph, 1)
    parameters = InstantiateParameters(0, None, None, 99)
    given = (byref(c_void_p()), graph, byref(parameters))
    assert variants.cu.cuGraphInstantiateWithParams(*given) == 1
    assert parameters.result == CONDITIONAL_HANDLE_UNUSED
    _branch(gpu, graph, condition, IF, 1)
    instantiate(gpu, graph)


def test_a_graph_with_conditions_is_not_copied(gpu: Resources) -> None:
    """Nor is it a child, copied or moved."""
    graph, parent = create(gpu), create(gpu)
    _branch(gpu, graph, _condition(gpu, graph, 1), IF, 1)
    assert cu.cuGraphClone(byref(c_void_p()), graph) == NOT_SUPPORTED
    assert cu.cuGraphAddChildGraphNode(byref(c_void_p()), parent, None, 0, graph) == NOT_SUPPORTED
    moved = parameters_of(GRAPH, graph, 1)
    given = (byref(c_void_p()), parent, None, None, 0, byref(moved))
    assert cu.cuGraphAddNode_v2(*given) == NOT_SUPPORTED


def test_the_list_of_graphs_is_there_as_long_as_the_node(gpu: Resources) -> None:
    """Also after the node was asked what it does."""
    graph = create(gpu)
    given = parameters_of(CONDITIONAL, _condition(gpu, graph, 0), SWITCH | 4 << 32, 0, gpu.context)
    node = add(graph, given)
    for _ in range(2):
        found = NodeParameters()
        check(variants.cu.cuGraphNodeGetParams(node, byref(found)))
        assert list(found.words) == list(given.words)


@only_simulated
def test_an_endless_loop_keeps_nobody_else_from_the_driver(gpu: Resources) -> None:
    """Only who waits for it waits. Here a condition is a word that a kernel elsewhere can write."""
    graph, stream, other = create(gpu), gpu.stream(), gpu.stream()
    condition = _condition(gpu, graph, 1)
    _branch(gpu, graph, condition, WHILE, 1)
    check(cu.cuGraphLaunch(instantiate(gpu, graph), stream))
    waiting = threading.Thread(target=cu.cuStreamSynchronize, args=(stream,))
    waiting.start()
    time.sleep(0.1)
    assert waiting.is_alive()
    check(launch(Module(gpu)["poke"], c_uint64(condition), c_uint(0), stream=other))
    check(cu.cuStreamSynchronize(other))
    waiting.join()


@undefined_on_hardware("a context that is none, and as many graphs as a number holds")
def test_impossible_conditional_nodes_are_refused(gpu: Resources) -> None:
    """Before anything is made."""
    graph = create(gpu)
    condition = _condition(gpu, graph, 1)
    many = parameters_of(CONDITIONAL, condition, SWITCH | (1 << 32) - 1 << 32, 0, gpu.context)
    elsewhere = parameters_of(CONDITIONAL, condition, IF | 1 << 32, 0, JUNK)
    for given, wanted in ((elsewhere, 1), (many, 2)):
        code = cu.cuGraphAddNode_v2(byref(c_void_p()), graph, None, None, 0, byref(given))
        assert code == wanted


def test_wrong_conditions_are_refused(gpu: Resources) -> None:
    """Of another graph, used twice, or with a number of graphs that does not fit."""
    graph, other = create(gpu), create(gpu)
    condition = _condition(gpu, graph, 1)
    for place, kind, count in (
        (other, IF, 1),
        (graph, IF, 3),
        (graph, WHILE, 2),
        (graph, SWITCH, 0),
    ):
        given = parameters_of(CONDITIONAL, condition, kind | count << 32, 0, gpu.context)
        node = c_void_p()
        listed = handles([])
        assert cu.cuGraphAddNode_v2(byref(node), place, listed[0], None, 0, byref(given)) == 1
    assert cu.cuGraphConditionalHandleCreate(None, graph, gpu.context, 0, 0) == 1
    assert cu.cuGraphConditionalHandleCreate(byref(c_uint64()), None, gpu.context, 0, 0) == 1
