"""What the driver tells of kernels: names, attributes, parameters, and how many blocks fit."""

from __future__ import annotations

from ctypes import CFUNCTYPE, byref, c_char_p, c_int, c_size_t, c_void_p

import pytest

from .cuda import SIMULATED, check, cu
from .kernels import IMAGE, Module, most_shared
from .resources import Resources, alone, start, value

MAX_THREADS, SHARED_SIZE, CONST_SIZE, PTX_VERSION, BINARY_VERSION = 0, 1, 2, 5, 6
MAX_DYNAMIC, CARVEOUT = 8, 9
SHARED_OF = CFUNCTYPE(c_size_t, c_int)


def _attribute(number: int, function: int) -> int:
    return value(c_int, cu.cuFuncGetAttribute, number, function)


def test_a_function_has_attributes(gpu: Resources) -> None:
    """Of the kernel, of its module, and what was said of it."""
    module = Module(gpu)
    assert _attribute(MAX_THREADS, module["nothing"]) == 1024
    assert _attribute(MAX_THREADS, module["bounded"]) == 64
    assert [_attribute(SHARED_SIZE, module[name]) for name in ("nothing", "turn")] == [0, 256]
    assert _attribute(CONST_SIZE, module["advance"]) == 4
    assert _attribute(PTX_VERSION, module["nothing"]) == 75
    assert _attribute(BINARY_VERSION, module["nothing"]) >= 75
    assert cu.cuFuncGetAttribute(byref(c_int()), 99, module["nothing"]) == 1
    assert cu.cuFuncGetAttribute(None, 0, module["nothing"]) == 1
    assert cu.cuFuncGetAttribute(byref(c_int()), 0, None) == 400


def test_what_is_said_of_a_function_is_remembered(gpu: Resources) -> None:
    """Within what the device has."""
    function = Module(gpu)["turn"]  # which has 256 bytes itself
    for number, good in [(MAX_DYNAMIC, 50 << 10), (CARVEOUT, 50), (CARVEOUT, -1)]:
        check(cu.cuFuncSetAttribute(function, number, good))
        assert _attribute(number, function) == good
    for number, bad in [(MAX_DYNAMIC, most_shared()), (MAX_DYNAMIC, -1), (CARVEOUT, 101), (0, 1)]:
        assert cu.cuFuncSetAttribute(function, number, bad) == 1
    assert _attribute(MAX_DYNAMIC, function) == 50 << 10
    check(cu.cuFuncSetCacheConfig(function, 2))
    assert cu.cuFuncSetCacheConfig(function, 9) == 1


def test_a_function_has_a_name_and_a_module(gpu: Resources) -> None:
    """And is loaded, or can be."""
    module = Module(gpu)
    function = module["turn"]
    assert value(c_char_p, cu.cuFuncGetName, function) == b"turn"
    assert value(c_void_p, cu.cuFuncGetModule, function) == module.handle
    check(cu.cuFuncLoad(function))
    assert value(c_int, cu.cuFuncIsLoaded, function) == 1


def _parameters(ask: object, function: int) -> list[tuple[int, int]]:
    found = []
    offset, size = c_size_t(), c_size_t()
    while ask(function, len(found), byref(offset), byref(size)) == 0:  # type: ignore[operator]
        found.append((offset.value, size.value))
    return found


def test_parameters_have_places(gpu: Resources) -> None:
    """Each as it is aligned."""
    module, wanted = Module(gpu), [(0, 8), (8, 1), (10, 2), (12, 4), (16, 8)]
    assert _parameters(cu.cuFuncGetParamInfo, module["mixed"]) == wanted
    assert _parameters(cu.cuFuncGetParamInfo, module["nothing"]) == []
    assert cu.cuFuncGetParamInfo(module["mixed"], 9, byref(c_size_t()), None) == 1
    check(cu.cuFuncGetParamInfo(module["mixed"], 4, byref(c_size_t()), None))


def test_a_kernel_of_a_library_is_described_for_each_device(gpu: Resources) -> None:
    """By functions of its own; what is said of it holds for its function."""
    library = value(c_void_p, cu.cuLibraryLoadData, IMAGE, None, None, 0, None, None, 0)
    kernel = value(c_void_p, cu.cuLibraryGetKernel, library, b"mixed")
    assert value(c_char_p, cu.cuKernelGetName, kernel) == b"mixed"
    assert value(c_void_p, cu.cuKernelGetLibrary, kernel) == library
    assert len(_parameters(cu.cuKernelGetParamInfo, kernel)) == 5
    assert value(c_int, cu.cuKernelGetAttribute, MAX_THREADS, kernel, 0) == 1024
    check(cu.cuKernelSetAttribute(MAX_DYNAMIC, 50 << 10, kernel, 0))
    assert value(c_int, cu.cuKernelGetAttribute, MAX_DYNAMIC, kernel, 0) == 50 << 10
    check(cu.cuKernelSetCacheConfig(kernel, 1, 0))
    function = value(c_void_p, cu.cuKernelGetFunction, kernel)
    assert value(c_char_p, cu.cuFuncGetName, function) == b"mixed"
    assert cu.cuKernelGetAttribute(byref(c_int()), MAX_THREADS, kernel, 99) == 101
    check(cu.cuLibraryUnload(library))


def test_how_many_blocks_fit(gpu: Resources) -> None:
    """Fewer of larger ones; none of what cannot be launched."""
    module = Module(gpu)
    ask, flagged = (
        cu.cuOccupancyMaxActiveBlocksPerMultiprocessor,
        cu.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    )
    counts = [value(c_int, ask, module["nothing"], threads, 0) for threads in (32, 256, 1024)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] >= 1
    assert value(c_int, flagged, module["nothing"], 256, 0, 0) == counts[1]
    if SIMULATED:
        assert counts == [16, 4, 1]
        assert value(c_int, ask, module["nothing"], 32, 16 << 10) == 4
        assert value(c_int, ask, module["bounded"], 128, 0) == 0
    assert ask(byref(c_int()), module["nothing"], 0, 0) == 1
    assert ask(None, module["nothing"], 32, 0) == 1


def test_a_size_of_blocks_is_proposed(gpu: Resources) -> None:
    """The largest that the kernel takes and that fills the device."""
    module, grid, block = Module(gpu), c_int(), c_int()
    none = SHARED_OF(0)
    out = (byref(grid), byref(block))
    check(cu.cuOccupancyMaxPotentialBlockSize(*out, module["nothing"], none, 0, 0))
    assert block.value == 1024
    assert grid.value >= 4
    check(cu.cuOccupancyMaxPotentialBlockSizeWithFlags(*out, module["nothing"], none, 0, 96, 0))
    assert block.value <= 96
    shared_of = SHARED_OF(lambda threads: threads * 64)
    check(cu.cuOccupancyMaxPotentialBlockSize(*out, module["nothing"], shared_of, 0, 0))
    assert 0 < block.value * 64 <= 48 << 10
    check(cu.cuOccupancyMaxPotentialBlockSize(*out, module["bounded"], none, 0, 0))
    assert block.value == 64


@pytest.mark.parametrize("blocks", [1, 2])
def test_shared_memory_is_divided_among_blocks(gpu: Resources, blocks: int) -> None:
    """As much as each can have."""
    ask = cu.cuOccupancyAvailableDynamicSMemPerBlock
    found = value(c_size_t, ask, Module(gpu)["turn"], blocks, 64)
    assert found > 0
    if SIMULATED:
        assert found == {1: (48 << 10) - 256, 2: (32 << 10) - 256}[blocks]
    assert ask(byref(c_size_t()), Module(gpu)["turn"], 0, 64) == 1


def test_null_has_no_name(gpu: Resources) -> None:
    """Neither as a function nor as a kernel: INVALID_VALUE, as the documentation says."""
    name = c_char_p()
    assert cu.cuFuncGetName(byref(name), None) == 1
    assert cu.cuKernelGetName(byref(name), None) == 1


def _parameters_without_a_context() -> list[int]:
    """Ask for a parameter of a library's kernel with and without a current context."""
    start()
    library = c_void_p()
    check(cu.cuLibraryLoadData(byref(library), IMAGE, None, None, 0, None, None, 0))
    kernel = value(c_void_p, cu.cuLibraryGetKernel, library, b"mixed")
    places = (byref(c_size_t()), byref(c_size_t()))
    codes = [cu.cuKernelGetParamInfo(kernel, 0, *places)]
    check(cu.cuCtxSetCurrent(None))
    return [*codes, cu.cuKernelGetParamInfo(kernel, 0, *places)]


def test_parameters_of_a_kernel_need_a_context() -> None:
    """A current one."""
    assert alone(_parameters_without_a_context) == [0, 201]
