"""What a launch is refused for."""

from __future__ import annotations

from ctypes import addressof, byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import pytest

from .cuda import check, cu
from .kernels import (
    IMAGE,
    Configuration,
    Module,
    launch,
    most_shared,
    packed,
    pointers,
    words,
)
from .resources import Resources, in_thread, undefined_on_hardware, value

MAX_DYNAMIC = 8  # CUfunction_attribute


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        *[((0,), (1,)), ((1, 0), (1,)), ((1,), (0,)), ((1,), (1, 1, 0))],
        *[((1,), (1025,)), ((1,), (32, 33)), ((1,), (1, 1, 65)), ((1,), (1, 1025))],
        *[((1 << 31,), (1,)), ((1, 65536), (1,)), ((1, 1, 65536), (1,))],
    ],
)
def test_a_grid_that_no_device_has_is_refused(
    gpu: Resources, grid: tuple[int, ...], block: tuple[int, ...]
) -> None:
    """Nothing, or too much, on any axis."""
    assert launch(Module(gpu)["nothing"], grid=grid, block=block) == 1


@pytest.mark.parametrize(
    ("grid", "block"), [((1,), (1024,)), ((1,), (1, 1024)), ((1,), (4, 4, 64)), ((1, 65535), (1,))]
)
def test_the_largest_grids_are_taken(
    gpu: Resources, grid: tuple[int, ...], block: tuple[int, ...]
) -> None:
    """On each axis."""
    check(launch(Module(gpu)["nothing"], grid=grid, block=block))
    check(cu.cuCtxSynchronize())


def test_a_kernel_may_have_a_bound_of_its_own(gpu: Resources) -> None:
    """More threads than it was compiled for are refused."""
    function = Module(gpu)["bounded"]
    check(launch(function, block=(64,)))
    assert launch(function, block=(65,)) == 1
    check(cu.cuCtxSynchronize())


def test_more_shared_memory_has_to_be_asked_for(gpu: Resources) -> None:
    """48 KiB with what the kernel has itself; up to what the device has once it was said."""
    module, out = Module(gpu), gpu.alloc(256)
    assert launch(module["measure"], c_uint64(out), shared=(48 << 10) + 4) == 1
    most = most_shared()
    assert most >= 64 << 10
    check(cu.cuFuncSetAttribute(module["measure"], MAX_DYNAMIC, most))
    check(launch(module["measure"], c_uint64(out), shared=most))
    assert words(out, 1) == [most]
    assert launch(module["measure"], c_uint64(out), shared=most + 4) == 1
    assert launch(module["turn"], c_uint64(out), block=(64,), shared=48 << 10) == 1
    check(launch(module["turn"], c_uint64(out), block=(64,), shared=(48 << 10) - 256))
    check(cu.cuCtxSynchronize())


def test_parameters_that_are_not_there_are_refused(gpu: Resources) -> None:
    """None at all, or both ways at once, or a buffer that is too short."""
    poke, target = Module(gpu)["poke"], gpu.alloc(4)
    rest = [*[1] * 6, 0, None]
    assert cu.cuLaunchKernel(poke, *rest, None, None) == 1
    given = (c_void_p * 2)(addressof(c_uint64(target)), addressof(c_uint(1)))
    assert cu.cuLaunchKernel(poke, *rest, given, packed(bytes(12))) == 1
    assert cu.cuLaunchKernel(poke, *rest, None, (c_void_p * 3)(2, addressof(c_size_t(12)), 0)) == 1
    check(cu.cuCtxSynchronize())


@undefined_on_hardware("a null pointer to a parameter is followed; seen: a crash")
def test_a_null_pointer_to_a_parameter_is_refused(gpu: Resources) -> None:
    """And a buffer that ends before the parameters do."""
    poke, target = Module(gpu)["poke"], gpu.alloc(4)
    rest = [*[1] * 6, 0, None]
    given = (c_void_p * 2)(addressof(c_uint64(target)), None)
    assert cu.cuLaunchKernel(poke, *rest, given, None) == 1
    assert cu.cuLaunchKernel(poke, *rest, None, packed(bytes(8))) == 1


def test_a_function_of_another_context_is_refused(gpu: Resources) -> None:
    """Its module is not there."""
    function = Module(gpu)["nothing"]
    other = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    code = launch(function)
    check(cu.cuCtxDestroy_v2(other))
    assert code == 400


def test_a_stream_brings_its_context(gpu: Resources) -> None:
    """A launch on it needs no other, nor any current one; the default stream has none."""
    poke, target, stream = Module(gpu)["poke"], gpu.alloc(4), gpu.stream()

    def launched(number: int, where: int | None) -> set[int]:
        given = [c_uint64(target), c_uint(number)]
        wanted = Configuration((1, 1, 1), (1, 1, 1), 0, where, 0, 0)
        by_other = cu.cuLaunchKernelEx(byref(wanted), poke, pointers(*given), None)
        return {launch(poke, *given, stream=where), by_other}

    def capturing() -> tuple[int, int]:
        status = c_int(7)
        return cu.cuStreamGetCaptureInfo_v2(stream, byref(status), *[None] * 4), status.value

    def elsewhere() -> list[object]:
        codes = [launched(5, stream), launched(6, None), capturing()]
        other = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
        codes += [launched(7, stream), launched(8, None), capturing()]
        check(cu.cuCtxDestroy_v2(other))
        return codes

    assert in_thread(elsewhere) == [{0}, {201}, (0, 0), {0}, {400}, (0, 0)]
    check(cu.cuStreamSynchronize(stream))
    assert words(target, 1) == [7]


@undefined_on_hardware("a function of an unloaded module is a wild pointer")
def test_a_function_ends_with_its_module(gpu: Resources) -> None:
    """And with its context; no handle is ever another's."""
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    function = value(c_void_p, cu.cuModuleGetFunction, module, b"nothing")
    check(cu.cuModuleUnload(module))
    assert launch(function) == 400
    assert launch(None) == 400
    assert launch(0x123450) == 400
    assert cu.cuFuncLoad(function) == 400
    again = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    assert value(c_void_p, cu.cuModuleGetFunction, again, b"nothing") != function
    check(cu.cuModuleUnload(again))
