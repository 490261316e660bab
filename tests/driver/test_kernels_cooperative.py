"""Cooperative launches: whose blocks run at the same time, as many as fit."""

from __future__ import annotations

from ctypes import addressof, byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import pytest

from .control import only_simulated
from .cuda import KernelParameters, UpdateResult, check, cu
from .kernels import Attribute, Configuration, Module, launch, pointers, set_words, words
from .nodes import create, instantiate, kernel, launch_of, nodes, run
from .resources import Resources, end_capture, value

COOPERATIVE = 2  # CUlaunchAttributeID
COOPERATIVE_LAUNCH, PROCESSORS = 95, 16  # CUdevice_attribute
TOO_LARGE, FAILED, UPDATE_FAILURE = 720, 719, 910
ATTRIBUTES_CHANGED = 8  # CUgraphExecUpdateResult

# The barrier of gpulend's `cooperative_groups.h`, which the simulated GPU knows by its name: this
# body does not run. Each block writes its number, and the first adds all of them.
BARRIER = b"""
.version 6.3
.target sm_75
.address_size 64
.weak .func __gpulend_grid_wait() { trap; }
.visible .entry sum(.param .u64 out) {
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x;
    mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r1;
    call.uni __gpulend_grid_wait, ();
    setp.ne.u32 %p1, %r1, 0; @%p1 ret;
    mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u64 %rd3, %rd1;
    NEXT: ld.global.u32 %r5, [%rd3]; add.u32 %r4, %r4, %r5; add.u64 %rd3, %rd3, 4;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r2; @%p2 bra NEXT;
    st.global.u32 [%rd1], %r4; ret;
}
.visible .entry other(.param .u64 out) { ret; }
\0"""


def _together(
    function: int, *values: object, grid: int = 1, block: int = 1, stream: int | None = None
) -> int:
    """Launch cooperatively; return the code."""
    given = pointers(*values) if values else None
    shape = (grid, 1, 1, block, 1, 1)
    return cu.cuLaunchCooperativeKernel(function, *shape, 0, stream, given)


def _by_attribute(function: int, *values: object, grid: int, stream: int, asked: int = 1) -> int:
    attributes = (Attribute * 1)(Attribute(COOPERATIVE, 0, (asked,)))
    wanted = Configuration((grid, 1, 1), (1, 1, 1), 0, stream, addressof(attributes), 1)
    given = pointers(*values) if values else None
    return cu.cuLaunchKernelEx(byref(wanted), function, given, None)


def _most(function: int, threads: int) -> int:
    """Return how many blocks fit at the same time."""
    ask = cu.cuOccupancyMaxActiveBlocksPerMultiprocessor
    each = value(c_int, ask, function, threads, c_size_t(0))
    return each * value(c_int, cu.cuDeviceGetAttribute, PROCESSORS, 0)


def _is_cooperative(node: int) -> int:
    found = (c_uint * 16)()
    check(cu.cuGraphKernelNodeGetAttribute(node, COOPERATIVE, byref(found)))
    return found[0]


def _set(node: int, cooperative: int) -> int:
    given = (c_uint * 16)(cooperative)
    return cu.cuGraphKernelNodeSetAttribute(node, COOPERATIVE, byref(given))


def test_an_attribute_leaves_the_parameters_where_they_are(gpu: Resources) -> None:
    """A program may have their places until the node or its parameters are changed."""
    graph, target = create(gpu), gpu.alloc(4)
    node = kernel(graph, launch_of(Module(gpu)["poke"], c_uint64(target), c_uint64(5)))
    instantiate(gpu, graph)
    found = KernelParameters()
    check(cu.cuGraphKernelNodeGetParams_v2(node, byref(found)))
    places = list((c_void_p * 2).from_address(found.parameters))
    check(_set(node, 1))
    check(cu.cuGraphKernelNodeGetParams_v2(node, byref(found)))
    assert list((c_void_p * 2).from_address(found.parameters)) == places


def test_a_device_launches_cooperatively(gpu: Resources) -> None:
    """By the function and by the attribute, on a stream, with parameters."""
    module, stream, target = Module(gpu), gpu.stream(), gpu.alloc(4)
    assert value(c_int, cu.cuDeviceGetAttribute, COOPERATIVE_LAUNCH, 0) == 1
    check(_together(module["poke"], c_uint64(target), c_uint(4), stream=stream))
    check(cu.cuStreamSynchronize(stream))
    assert words(target, 1) == [4]
    check(_by_attribute(module["poke"], c_uint64(target), c_uint(5), grid=1, stream=stream))
    check(cu.cuStreamSynchronize(stream))
    assert words(target, 1) == [5]


def test_more_blocks_than_fit_are_refused(gpu: Resources) -> None:
    """As many as the occupancy says, times the multiprocessors. A plain launch takes more."""
    nothing, stream = Module(gpu)["nothing"], gpu.stream()
    for threads in (1, 96, 1024):
        most = _most(nothing, threads)
        assert most > 0
        check(_together(nothing, grid=most, block=threads, stream=stream))
        assert _together(nothing, grid=most + 1, block=threads, stream=stream) == TOO_LARGE
        check(launch(nothing, grid=(most + 1,), block=(threads,), stream=stream))
    most = _most(nothing, 1)
    check(_by_attribute(nothing, grid=most, stream=stream))
    assert _by_attribute(nothing, grid=most + 1, stream=stream) == TOO_LARGE
    check(_by_attribute(nothing, grid=most + 1, stream=stream, asked=0))
    check(cu.cuCtxSynchronize())


@pytest.mark.parametrize(("grid", "block"), [(0, 1), (1, 0), (1, 1025)])
def test_a_grid_that_no_device_has_is_refused_first(gpu: Resources, grid: int, block: int) -> None:
    """As for plain launches."""
    assert _together(Module(gpu)["nothing"], grid=grid, block=block) == 1


def test_a_captured_launch_stays_cooperative(gpu: Resources) -> None:
    """Its node says so."""
    module, stream, target = Module(gpu), gpu.stream(), gpu.alloc(4)
    check(cu.cuStreamBeginCapture_v2(stream, 2))
    check(_together(module["poke"], c_uint64(target), c_uint(8), stream=stream))
    check(launch(module["nothing"], stream=stream))
    code, graph = end_capture(stream)
    check(code)
    assert graph is not None
    assert sorted(map(_is_cooperative, nodes(graph))) == [0, 1]
    run(gpu.executable(graph), stream)
    assert words(target, 1) == [8]


def test_a_node_becomes_cooperative_by_its_attribute(gpu: Resources) -> None:
    """It is copied, and lasts when the launch is set."""
    graph, poke, target = create(gpu), Module(gpu)["poke"], gpu.alloc(4)
    given = launch_of(poke, c_uint64(target), c_uint64(1))
    one, other = kernel(graph, given), kernel(graph, given)
    assert [_is_cooperative(one), _is_cooperative(other)] == [0, 0]
    check(_set(one, 1))
    check(cu.cuGraphKernelNodeCopyAttributes(other, one))
    again = launch_of(poke, c_uint64(target), c_uint64(2))
    check(cu.cuGraphKernelNodeSetParams_v2(one, byref(again)))
    assert [_is_cooperative(one), _is_cooperative(other)] == [1, 1]
    check(_set(other, 0))
    assert [_is_cooperative(one), _is_cooperative(other)] == [1, 0]


def test_an_update_does_not_make_a_node_cooperative(gpu: Resources) -> None:
    """Nor plain, as CUDA documents."""
    nothing = Module(gpu)["nothing"]
    plain, together = create(gpu), create(gpu)
    kernel(plain, launch_of(nothing))
    check(_set(kernel(together, launch_of(nothing)), 1))
    for one, other in ((plain, together), (together, plain)):
        info = UpdateResult(99)
        code = cu.cuGraphExecUpdate_v2(instantiate(gpu, one), other, byref(info))
        assert (code, info.result) == (UPDATE_FAILURE, ATTRIBUTES_CHANGED)
        check(cu.cuGraphExecUpdate_v2(instantiate(gpu, one), one, byref(info)))


@only_simulated
def test_blocks_wait_for_each_other(gpu: Resources) -> None:
    """In launches, captures, and nodes made by hand, also after they were set."""
    module, stream, target = Module(gpu, BARRIER), gpu.stream(), gpu.alloc(4 * 40)
    total, given = 40 * 39 // 2, c_uint64(target)

    def summed() -> bool:
        check(cu.cuStreamSynchronize(stream))
        found = words(target, 1) == [total]
        set_words(target, [0] * 40)
        return found

    check(_together(module["sum"], given, grid=40, stream=stream))
    assert summed()
    check(_by_attribute(module["sum"], given, grid=40, stream=stream))
    assert summed()
    check(cu.cuStreamBeginCapture_v2(stream, 2))
    check(_together(module["sum"], given, grid=40, stream=stream))
    code, captured = end_capture(stream)
    check(code)
    assert captured is not None
    run(gpu.executable(captured), stream)
    assert summed()
    graph = create(gpu)
    node = kernel(graph, launch_of(module["other"], given))
    check(_set(node, 1))
    executable = instantiate(gpu, graph)
    wanted = launch_of(module["sum"], given, grid=40)
    check(cu.cuGraphExecKernelNodeSetParams_v2(executable, node, byref(wanted)))
    run(executable, stream)
    assert summed()


@only_simulated
def test_a_barrier_of_the_grid_wants_a_cooperative_launch(gpu: Resources) -> None:
    """Hardware does not look. Ours says so, and goes on."""
    module, target = Module(gpu, BARRIER), gpu.alloc(4)
    check(launch(module["sum"], c_uint64(target)))
    assert [cu.cuCtxSynchronize(), cu.cuCtxSynchronize()] == [FAILED, 0]
    check(_together(module["sum"], c_uint64(target)))
    check(cu.cuCtxSynchronize())


@only_simulated
def test_a_node_with_more_blocks_than_fit_is_refused(gpu: Resources) -> None:
    """When it becomes cooperative, or is set."""
    nothing, graph = Module(gpu)["nothing"], create(gpu)
    most = _most(nothing, 1)
    node = kernel(graph, launch_of(nothing, grid=most + 1))
    assert (_set(node, 1), _is_cooperative(node)) == (TOO_LARGE, 0)
    small, large = launch_of(nothing, grid=most), launch_of(nothing, grid=most + 1)
    check(cu.cuGraphKernelNodeSetParams_v2(node, byref(small)))
    check(_set(node, 1))
    executable = instantiate(gpu, graph)
    assert cu.cuGraphKernelNodeSetParams_v2(node, byref(large)) == TOO_LARGE
    assert cu.cuGraphExecKernelNodeSetParams_v2(executable, node, byref(large)) == TOO_LARGE
    run(executable, gpu.stream())
