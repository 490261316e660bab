"""Kernels by old and per-thread functions, and what only the simulated driver does with them."""

from __future__ import annotations

import os
import struct
import tempfile
from ctypes import addressof, byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import pytest

from .bench import peek
from .control import fresh, only_simulated, problem, report
from .cuda import SIMULATED, check
from .kernels import IMAGE, Configuration, Module, launch, pointers, set_words, words
from .resources import JUNK, Resources, allocate, download, start, value
from .variants import cu

pytestmark = only_simulated

if SIMULATED:
    cu.gpulend_sim_admit.argtypes = [c_uint64, c_uint64]
    cu.gpulend_sim_admit.restype = c_int
    cu.gpulend_sim_span.argtypes = [c_uint64, c_uint64]
    cu.gpulend_sim_span.restype = c_int


def test_launches_by_the_functions_of_before(gpu: Resources) -> None:
    """Block, shared memory and parameters are said one by one."""
    function, out = Module(gpu)["mixed"], gpu.alloc(16)
    check(cu.cuFuncSetBlockShape(function, 1, 1, 1))
    check(cu.cuFuncSetSharedSize(function, 64))
    check(cu.cuParamSetv(function, 0, byref(c_uint64(out)), 8))
    check(cu.cuParamSeti(function, 8, 7 | 300 << 16))
    check(cu.cuParamSetf(function, 12, c_float(1.5)))
    check(cu.cuParamSetv(function, 16, byref(c_uint64(5)), 8))
    check(cu.cuParamSetSize(function, 24))
    stream = gpu.stream()
    launches: list[tuple[Any, ...]] = [
        (cu.cuLaunch,),
        (cu.cuLaunchGrid, 2, 1),
        (cu.cuLaunchGridAsync, 1, 2, stream),
    ]
    for way, *rest in launches:
        check(cu.cuMemsetD8_v2(out, 0, 16))
        check(cu.cuCtxSynchronize())
        check(way(function, *rest))
        check(cu.cuCtxSynchronize())
        assert download(out, 15) == struct.pack("<QfHB", 5, 1.5, 300, 7)
    assert cu.cuFuncSetBlockShape(function, 0, 1, 1) == 1
    assert cu.cuParamSeti(function, -4, 1) == 1
    assert cu.cuParamSetSize(function, 5000) == 1
    check(cu.cuParamSetSize(function, 8))
    assert cu.cuLaunch(function) == 1


def test_stream_0_of_per_thread_launches_is_the_threads_own(gpu: Resources) -> None:
    """It does not wait for the legacy stream's gate."""
    module, target, gate = Module(gpu), gpu.alloc(8), gpu.gate()
    gate.hold(gpu.stream())
    given = pointers(c_uint64(target), c_uint(1))
    check(cu.cuLaunchKernel_ptsz(module["poke"], *[1] * 6, 0, None, given, None))
    check(cu.cuStreamSynchronize_ptsz(None))
    assert words(target, 1) == [1]
    wanted = Configuration((1, 1, 1), (1, 1, 1), 0, None, None, 0)
    given = pointers(c_uint64(target), c_uint(2))
    check(cu.cuLaunchKernelEx_ptsz(byref(wanted), module["poke"], given, None))
    check(cu.cuStreamSynchronize_ptsz(None))
    assert words(target, 1) == [2]
    given = pointers(c_uint64(target), c_uint(3))
    check(cu.cuLaunchCooperativeKernel_ptsz(module["poke"], *[1] * 6, 0, None, given))
    check(cu.cuStreamSynchronize_ptsz(None))
    assert words(target, 1) == [3]


def test_parameters_are_counted(gpu: Resources) -> None:
    """Of functions and of kernels."""
    count = c_size_t()
    check(cu.cuFuncGetParamCount(Module(gpu)["mixed"], byref(count)))
    assert count.value == 5
    library = value(c_void_p, cu.cuLibraryLoadData, IMAGE, None, None, 0, None, None, 0)
    kernel = value(c_void_p, cu.cuLibraryGetKernel, library, b"nothing")
    check(cu.cuKernelGetParamCount(kernel, byref(count)))
    assert count.value == 0
    check(cu.cuLibraryUnload(library))


def _faults() -> list[dict[str, Any]]:
    return report()["faults"]


WRONG = {
    "past the end": (lambda memory: ("poke", c_uint64(memory + 16), c_uint(1)), 700),
    "freed": (lambda memory: ("poke", c_uint64(_freed()), c_uint(1)), 700),
    "misaligned": (lambda memory: ("poke", c_uint64(memory + 2), c_uint(1)), 716),
    "trap": (lambda memory: ("stop",), 719),
}
WAITS = {
    "stream": lambda memory, event: cu.cuStreamSynchronize(None),
    "context": lambda memory, event: cu.cuCtxSynchronize(),
    "event": lambda memory, event: cu.cuEventSynchronize(event),
    "copy": lambda memory, event: cu.cuMemcpyDtoH_v2((c_int * 4)(), memory, 16),
    "stream query": lambda memory, event: _ask(cu.cuStreamQuery, None),
    "event query": lambda memory, event: _ask(cu.cuEventQuery, event),
}


def _freed() -> int:
    address = allocate(64)
    check(cu.cuMemFree_v2(address))
    return address


def _ask(query: Any, handle: int | None) -> int:
    """Ask until it is not NOT_READY."""
    while (code := query(handle)) == 600:
        pass
    return code


@pytest.mark.parametrize("kind", WRONG)
def test_a_mistake_is_told_once_and_reported(gpu: Resources, kind: str) -> None:
    """With the kernel, the thread and the nearest allocation; then the context works on."""
    module, memory = Module(gpu), gpu.alloc(16)
    make, code = WRONG[kind]
    name, *given = make(memory)
    before = len(_faults())
    assert launch(module[name], *given) == 0
    assert [cu.cuCtxSynchronize() for _ in range(2)] == [code, 0]
    (fault,) = _faults()[before:]
    assert (fault["function"], fault["status"]) == ("cuLaunchKernel", code)
    assert f"kernel {name} at PTX line" in fault["what"]
    assert "thread (0, 0, 0)" in fault["what"]
    if kind == "past the end":
        assert fault["nearest"].startswith("0 bytes after the end of buffer")
    check(launch(module["poke"], c_uint64(memory), c_uint(5)))
    assert words(memory, 1) == [5]


@pytest.mark.parametrize("kind", WAITS)
def test_whoever_waits_is_told(gpu: Resources, kind: str) -> None:
    """Once. What was queued behind the launch has run."""
    module, memory, event = Module(gpu), gpu.alloc(16), gpu.event()
    check(launch(module["stop"]))
    check(cu.cuMemsetD8Async(memory, 3, 16, None))
    check(cu.cuEventRecord(event, None))
    assert WAITS[kind](memory, event) == 719
    assert cu.cuCtxSynchronize() == 0
    assert download(memory, 4) == bytes([3] * 4)


def _codes_after_a_mistake() -> list[int]:
    """Trap, and go on; end the context, and go on in a new one."""
    start()
    context = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    memory = allocate(4)
    check(launch(value(c_void_p, cu.cuModuleGetFunction, module, b"stop")))
    codes = [cu.cuCtxSynchronize(), cu.cuCtxSynchronize(), cu.cuMemFree_v2(memory)]
    codes.append(cu.cuCtxDestroy_v2(context))
    return [*codes, cu.cuCtxSynchronize()]


def test_mistakes_stay_where_that_is_asked_for() -> None:
    """As on hardware, until the context ends."""
    assert fresh(_codes_after_a_mistake) == [719, 0, 0, 0, 0]
    assert fresh(_codes_after_a_mistake, GPULEND_SIM_STICKY="1") == [719, 719, 719, 0, 0]


def _spin() -> int:
    start()
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    check(launch(value(c_void_p, cu.cuModuleGetFunction, module, b"spin")))
    return cu.cuCtxSynchronize()


def test_a_launch_that_does_not_end_is_ended() -> None:
    """After as long as was said."""
    assert fresh(_spin, GPULEND_SIM_TIMEOUT="1") == 702


def _past_the_end() -> int:
    start()
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    poke, memory = value(c_void_p, cu.cuModuleGetFunction, module, b"poke"), allocate(16)
    check(launch(poke, c_uint64(memory + 16), c_uint(1)))
    return cu.cuCtxSynchronize()


def _clash() -> int:
    start()
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    check(launch(value(c_void_p, cu.cuModuleGetFunction, module, b"clash"), block=(64,)))
    return cu.cuCtxSynchronize()


@pytest.mark.parametrize(
    ("how", "codes"), [("off", [0, 0]), ("memory", [700, 0]), ("", [700, 719])]
)
def test_what_is_looked_for_is_a_setting(how: str, codes: list[int]) -> None:
    """Nothing, what kernels touch, or races in shared memory, too, which is the default."""
    found = [fresh(function, GPULEND_SIM_CHECK=how) for function in (_past_the_end, _clash)]
    assert found == codes


def _refused() -> list[Any]:
    return [cu.cuInit(0), problem()]


@pytest.mark.parametrize("name", ["CHECK", "STICKY", "TIMEOUT", "ACCEPT_NVVM"])
def test_a_setting_that_is_none_is_refused(name: str) -> None:
    """By name."""
    code, why = fresh(_refused, **{f"GPULEND_SIM_{name}": "maybe"})
    assert (code, f"GPULEND_SIM_{name}" in why) == (1, True)


def test_memory_of_the_host_may_be_admitted_for_one_launch(gpu: Resources) -> None:
    """It is nobody's else; the next launch may not touch it."""
    poke, word = Module(gpu)["poke"], c_uint(0)
    assert cu.gpulend_sim_admit(0, 4) == 1
    assert cu.gpulend_sim_admit(JUNK, 4) == 1
    assert cu.gpulend_sim_admit(addressof(word), 0) == 1
    assert cu.gpulend_sim_admit(addressof(word), 4) == 0
    check(launch(poke, c_uint64(addressof(word)), c_uint(8)))
    check(cu.cuCtxSynchronize())
    assert word.value == 8
    check(launch(poke, c_uint64(addressof(word)), c_uint(9)))
    assert cu.cuCtxSynchronize() == 700
    assert word.value == 8


def test_a_launch_may_be_held_to_a_part_of_an_allocation(gpu: Resources) -> None:
    """For one launch; allocations of which no part was named stay whole."""
    poke, memory, other = Module(gpu)["poke"], gpu.alloc(64), gpu.alloc(64)
    for place, wrong in ((memory + 16, 0), (other, 0), (memory + 20, 700), (memory, 700)):
        assert cu.gpulend_sim_span(memory + 16, 4) == 0
        check(launch(poke, c_uint64(place), c_uint(8)))
        assert cu.cuCtxSynchronize() == wrong
    check(launch(poke, c_uint64(memory), c_uint(8)))
    check(cu.cuCtxSynchronize())


def test_host_memory_is_freed_behind_the_launches_that_have_its_address(gpu: Resources) -> None:
    """As for copies."""
    module, stream = Module(gpu), gpu.stream()
    pinned = value(c_void_p, cu.cuMemAllocHost_v2, 4)
    check(launch(module["poke"], c_uint64(pinned), c_uint(1), stream=stream))
    check(cu.cuMemFreeHost(pinned))
    assert report()["live"]["operations"] == 0
    check(cu.cuStreamSynchronize(stream))


def test_a_graph_does_not_outlive_its_module(gpu: Resources) -> None:
    """It is refused, and reported."""
    stream = gpu.stream()
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    check(cu.cuStreamBeginCapture_v2(stream, 2))
    check(launch(value(c_void_p, cu.cuModuleGetFunction, module, b"nothing"), stream=stream))
    graph = value_of_capture(stream)
    executable = gpu.executable(graph)
    check(cu.cuModuleUnload(module))
    before = len(_faults())
    assert cu.cuGraphLaunch(executable, stream) == 1
    assert "module was unloaded" in _faults()[before]["what"]


def value_of_capture(stream: int) -> int:
    """End a capture and return its graph."""
    graph = c_void_p()
    check(cu.cuStreamEndCapture(stream, byref(graph)))
    assert graph.value is not None
    return graph.value


def _says() -> str:
    """Return what is written to stderr about a trap."""
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        _codes_after_a_mistake()
        file.seek(0)
        return file.read().decode()


def test_each_mistake_is_a_line_on_stderr(tmp_path: Any) -> None:
    """Unless a report is written."""
    (line,) = fresh(_says).splitlines()
    assert line.startswith("gpulend: simulated GPU: kernel stop at PTX line")
    assert fresh(_says, GPULEND_SIM_REPORT=str(tmp_path / "report")) == ""


def test_modules_take_the_memory_of_their_variables(gpu: Resources) -> None:
    """And give it back; nobody else can."""
    before = report()["live"]
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    assert report()["live"]["allocations"] == before["allocations"] + 4
    counter = value(c_uint64, cu.cuModuleGetGlobal_v2, None, module, b"counter")
    assert cu.cuMemFree_v2(counter) == 1
    assert cu.cuMemFreeAsync(counter, None) == 1
    check(cu.cuModuleUnload(module))
    assert report()["live"] == before


def test_a_kernel_is_as_late_as_its_order_allows(gpu: Resources) -> None:
    """Nobody waited for it: the old bytes are there."""
    module, target, stream = Module(gpu), gpu.alloc(4), gpu.stream()
    set_words(target, [1])
    check(launch(module["poke"], c_uint64(target), c_uint(2), stream=stream))
    assert peek(gpu, target, 4) == bytes([1, 0, 0, 0])
    check(cu.cuStreamSynchronize(stream))
    assert peek(gpu, target, 4) == bytes([2, 0, 0, 0])


def test_a_module_goes_when_its_work_has_run(gpu: Resources) -> None:
    """Unloading it waits, also where it has no variables."""
    target, stream = gpu.alloc(4), gpu.stream()
    set_words(target, [1])
    plain = IMAGE[: IMAGE.index(b".visible .global")] + IMAGE[IMAGE.index(b"// Writes 4 bytes") :]
    for number, image in ((2, IMAGE), (3, plain)):
        module = value(c_void_p, cu.cuModuleLoadData, image)
        poke = value(c_void_p, cu.cuModuleGetFunction, module, b"poke")
        check(launch(poke, c_uint64(target), c_uint(number), stream=stream))
        check(cu.cuModuleUnload(module))
        assert peek(gpu, target, 4) == bytes([number, 0, 0, 0])


def test_a_context_takes_its_modules_with_it(gpu: Resources) -> None:
    """And the parts of libraries, their variables, and links."""
    before = report()["live"]
    library = value(c_void_p, cu.cuLibraryLoadData, IMAGE, None, None, 0, None, None, 0)
    context = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    value(c_void_p, cu.cuLibraryGetModule, library)
    check(cu.cuLinkCreate_v2(0, None, None, byref(c_void_p())))
    check(cu.cuCtxDestroy_v2(context))
    assert cu.cuModuleGetFunction(byref(c_void_p()), module, b"nothing") == 400
    check(cu.cuLibraryUnload(library))
    assert report()["live"] == before


def test_who_only_watches_does_not_take_the_mistake_away(gpu: Resources) -> None:
    """It is for whoever works with the context."""
    event = gpu.event()
    check(launch(Module(gpu)["stop"]))
    check(cu.cuEventRecord(event, None))
    _run_all()
    cu.gpulend_sim_passive(1)
    code = cu.cuEventQuery(event)
    cu.gpulend_sim_passive(0)
    assert code == 0
    assert [cu.cuCtxSynchronize() for _ in range(2)] == [719, 0]


def _run_all() -> None:
    """Let all queued work run, by a call that tells of no mistakes."""
    check(cu.cuMemFree_v2(allocate(4)))


def _reach_a_peer() -> list[int]:
    """Write memory of device 1 from device 0, without and with access."""
    first = start()
    module = value(c_void_p, cu.cuModuleLoadData, IMAGE)
    poke = value(c_void_p, cu.cuModuleGetFunction, module, b"poke")
    second = value(c_void_p, cu.cuDevicePrimaryCtxRetain, 1)
    check(cu.cuCtxSetCurrent(second))
    there = allocate(4)
    check(cu.cuCtxSetCurrent(first))
    codes = []
    for _ in range(2):
        check(launch(poke, c_uint64(there), c_uint(1)))
        codes.append(cu.cuCtxSynchronize())
        check(cu.cuCtxEnablePeerAccess(second, 0) if len(codes) == 1 else 0)
    return codes


def test_a_kernel_reaches_peers_once_it_may() -> None:
    """Before that their memory is as none."""
    assert fresh(_reach_a_peer, GPULEND_SIM_DEVICES="2") == [700, 0]
