"""Kernels: what they compute, in which order they run, what they may touch."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_float, c_ubyte, c_uint, c_uint64, c_ushort, c_void_p

import pytest

from .cuda import check, cu
from .differences import answer
from .kernels import (
    IMAGE,
    Attribute,
    Configuration,
    Module,
    launch,
    packed,
    pointers,
    set_words,
    words,
)
from .resources import LEGACY, Resources, alone, download, end_capture, start, value


def _sum(gpu: Resources, module: Module, stream: int | None, **shape: tuple[int, ...]) -> int:
    """Queue out[i] = i + 10 for 100 words; return where."""
    out, left, right = gpu.alloc(400), gpu.alloc(400), gpu.alloc(400)
    set_words(left, list(range(100)))
    set_words(right, [10] * 100)
    given = (c_uint64(out), c_uint64(left), c_uint64(right), c_uint(100))
    check(launch(module["sum"], *given, stream=stream, **shape))
    return out


@pytest.mark.parametrize(("grid", "block"), [((1,), (128,)), ((4,), (32,)), ((100,), (1,))])
def test_a_kernel_adds_two_vectors(gpu: Resources, grid: tuple[int], block: tuple[int]) -> None:
    """However its threads are divided into blocks."""
    out = _sum(gpu, Module(gpu), None, grid=grid, block=block)
    assert words(out, 100) == [i + 10 for i in range(100)]


def test_parameters_of_several_sizes_arrive(gpu: Resources) -> None:
    """By pointers to each, and by one buffer in which each is aligned."""
    module, out = Module(gpu), gpu.alloc(16)
    given = [c_uint64(out), c_ubyte(7), c_ushort(300), c_float(1.5), c_uint64(1 << 40)]
    wanted = struct.pack("<QfHB", 1 << 40, 1.5, 300, 7)
    check(launch(module["mixed"], *given))
    assert download(out, 15) == wanted
    check(cu.cuMemsetD8_v2(out, 0, 16))
    extra = packed(struct.pack("<QBxHfQ", out, 7, 300, 1.5, 1 << 40))
    check(cu.cuLaunchKernel(module["mixed"], *[1] * 6, 0, None, None, extra))
    assert download(out, 15) == wanted


def test_parameters_are_taken_when_a_kernel_is_launched(gpu: Resources) -> None:
    """What the program does with them afterwards makes no difference."""
    module, target, stream, gate = Module(gpu), gpu.alloc(4), gpu.stream(), gpu.gate()
    given = [c_uint64(target), c_uint(5)]
    gate.hold(stream)
    check(launch(module["poke"], *given, stream=stream))
    given[1].value = 6
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert words(target, 1) == [5]


def test_threads_of_a_block_share_memory(gpu: Resources) -> None:
    """Static, and as much as the launch adds."""
    module, data = Module(gpu), gpu.alloc(256)
    set_words(data, list(range(64)))
    check(launch(module["turn"], c_uint64(data), block=(64,)))
    assert words(data, 64) == list(range(63, -1, -1))
    for size in (4, 1024, 48 << 10):
        check(launch(module["measure"], c_uint64(data), shared=size))
        assert words(data, 1) == [size]


def test_variables_of_a_module_last_from_launch_to_launch(gpu: Resources) -> None:
    """Each module has its own; constants can be written, too."""
    module, other = Module(gpu), Module(gpu)
    for wanted in (10, 13):
        check(launch(module["advance"]))
        assert words(module.variable("counter"), 1) == [wanted]
    set_words(module.variable("factor"), [100])
    check(launch(module["advance"], grid=(2,)))
    assert words(module.variable("counter"), 1) == [213]
    assert words(other.variable("counter"), 1) == [7]
    assert words(module.variable("table"), 4) == [1, 2, 0, 0]
    place = struct.unpack("<Q", download(module.variable("place"), 8))[0]
    assert place == module.variable("counter")


def test_a_kernel_runs_in_the_order_of_its_stream(gpu: Resources) -> None:
    """Behind what was queued before it, before what comes after, and not before it may."""
    module, target, stream, gate = Module(gpu), gpu.alloc(4), gpu.stream(), gpu.gate()
    seen = gpu.pinned(8)
    set_words(target, [1])
    gate.hold(stream)
    check(launch(module["poke"], c_uint64(target), c_uint(2), stream=stream))
    check(cu.cuMemcpyDtoHAsync_v2(seen, target, 4, stream))
    check(launch(module["poke"], c_uint64(target), c_uint(3), stream=stream))
    assert cu.cuStreamQuery(stream) == 600
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert c_uint.from_address(seen).value == 2
    assert words(target, 1) == [3]


def test_the_legacy_stream_and_events_order_kernels(gpu: Resources) -> None:
    """As all other work."""
    module, target, gate = Module(gpu), gpu.alloc(4), gpu.gate()
    blocking, other, event = gpu.stream(0), gpu.stream(), gpu.event()
    gate.hold(blocking)
    check(launch(module["poke"], c_uint64(target), c_uint(1), stream=blocking))
    check(launch(module["poke"], c_uint64(target), c_uint(2), stream=LEGACY))
    check(cu.cuEventRecord(event, LEGACY))
    check(cu.cuStreamWaitEvent(other, event, 0))
    check(launch(module["poke"], c_uint64(target), c_uint(3), stream=other))
    assert cu.cuEventQuery(event) == 600
    gate.open()
    check(cu.cuStreamSynchronize(other))
    assert words(target, 1) == [3]


def test_kernels_reach_memory_of_every_kind(gpu: Resources) -> None:
    """Pinned, managed, a pool's; the host sees what was written after it waited."""
    module, stream = Module(gpu), gpu.stream()
    pinned, managed, pooled = gpu.pinned(4), gpu.managed(4), gpu.alloc_async(4, stream)
    for target in (pinned, managed, pooled):
        check(launch(module["poke"], c_uint64(target), c_uint(9), stream=stream))
    check(cu.cuStreamSynchronize(stream))
    assert [c_uint.from_address(address).value for address in (pinned, managed)] == [9, 9]
    assert words(pooled, 1) == [9]
    check(cu.cuMemFreeAsync(pooled, stream))


def test_kernels_reach_registered_memory(gpu: Resources) -> None:
    """By the address that the driver gives for it."""
    page = ctypes.create_string_buffer(8192)
    host = (ctypes.addressof(page) + 4095) // 4096 * 4096
    check(cu.cuMemHostRegister_v2(host, 4096, 0))
    device = value(c_uint64, cu.cuMemHostGetDevicePointer_v2, host, 0)
    check(launch(Module(gpu)["poke"], c_uint64(device), c_uint(9)))
    check(cu.cuCtxSynchronize())
    check(cu.cuMemHostUnregister(host))
    assert c_uint.from_address(host).value == 9


def test_a_kernel_is_captured_and_replayed(gpu: Resources) -> None:
    """With the parameters of the capture; it is a kernel node."""
    module, target, stream = Module(gpu), gpu.alloc(4), gpu.stream()
    set_words(target, [1])
    check(cu.cuStreamBeginCapture_v2(stream, 2))
    given = [c_uint64(target), c_uint(8)]
    check(launch(module["poke"], *given, stream=stream))
    check(launch(module["advance"], stream=stream))
    given[1].value = 9
    code, graph = end_capture(stream)
    check(code)
    assert graph is not None
    assert gpu.nodes(graph) == [0, 0]
    assert [words(target, 1), words(module.variable("counter"), 1)] == [[1], [7]]
    executable = gpu.executable(graph)
    for _ in range(3):
        check(cu.cuGraphLaunch(executable, stream))
    check(cu.cuStreamSynchronize(stream))
    assert [words(target, 1), words(module.variable("counter"), 1)] == [[8], [16]]


def test_a_launch_has_attributes(gpu: Resources) -> None:
    """Those that ask for what every launch has are taken."""
    module, target, stream = Module(gpu), gpu.alloc(4), gpu.stream()
    attributes = (Attribute * 2)(Attribute(2, 0), Attribute(8, 0))  # not cooperative, priority 0
    wanted = Configuration(
        *[(1, 1, 1), (1, 1, 1), 0, stream, ctypes.addressof(attributes), len(attributes)]
    )
    given = pointers(c_uint64(target), c_uint(4))
    check(cu.cuLaunchKernelEx(byref(wanted), module["poke"], given, None))
    check(cu.cuStreamSynchronize(stream))
    assert words(target, 1) == [4]
    assert cu.cuLaunchKernelEx(None, module["poke"], given, None) == 1


def fault_and_go_on() -> list[int]:
    """Let a kernel write where nothing is; return what the calls after it answer."""
    resources = Resources(start())
    module = Module(resources)
    codes = [launch(module["poke"], c_uint64(16), c_uint(1))]
    return [*codes, cu.cuCtxSynchronize(), cu.cuCtxSynchronize()]


def test_a_write_where_nothing_is_ends_the_launch() -> None:
    """The call that waits for it says so. What comes after is as listed."""
    codes = alone(fault_and_go_on)
    assert codes == [0, 700, answer("the call after a kernel's mistake was told")]


def test_a_library_kernel_is_launched_as_such(gpu: Resources) -> None:
    """Without its function being asked for."""
    library = value(c_void_p, cu.cuLibraryLoadData, IMAGE, None, None, 0, None, None, 0)
    kernel, target = value(c_void_p, cu.cuLibraryGetKernel, library, b"poke"), gpu.alloc(4)
    check(launch(kernel, c_uint64(target), c_uint(6)))
    assert words(target, 1) == [6]
    check(cu.cuLibraryUnload(library))
