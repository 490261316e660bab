"""Libraries: modules of no context."""

from __future__ import annotations

from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

from .cuda import SIMULATED, check, cu
from .kernels import IMAGE, KERNELS, launch, words
from .resources import Resources, undefined_on_hardware, value

NONE = (None, None, 0, None, None, 0)


def _load() -> int:
    return value(c_void_p, cu.cuLibraryLoadData, IMAGE, *NONE)


def test_a_library_is_loaded_from_text_and_from_a_file(gpu: Resources, tmp_path: Path) -> None:
    """What is none is refused as for modules."""
    library = c_void_p()
    if SIMULATED:
        # A real driver looks at it when a kernel is asked for.
        assert cu.cuLibraryLoadData(byref(library), b"no library\0", *NONE) == 200
    assert cu.cuLibraryLoadData(byref(library), None, *NONE) == 1
    assert cu.cuLibraryLoadFromFile(byref(library), str(tmp_path / "none").encode(), *NONE) == 301
    assert library.value is None
    for load, what in [
        (cu.cuLibraryLoadData, IMAGE),
        (cu.cuLibraryLoadFromFile, str(KERNELS).encode()),
    ]:
        check(load(byref(library), what, *NONE))
        check(cu.cuLibraryUnload(library))


def test_kernels_of_a_library_are_found(gpu: Resources) -> None:
    """By name, and all of them."""
    library = _load()
    kernel = value(c_void_p, cu.cuLibraryGetKernel, library, b"turn")
    assert cu.cuLibraryGetKernel(byref(c_void_p()), library, b"nope") == 500
    count = value(c_uint, cu.cuLibraryGetKernelCount, library)
    assert count == IMAGE.count(b".entry")
    kernels = (c_void_p * count)()
    check(cu.cuLibraryEnumerateKernels(kernels, count, library))
    assert kernel in kernels[:]
    assert len(set(kernels)) == count
    check(cu.cuLibraryUnload(library))


def test_a_library_is_one_module_in_each_context(gpu: Resources) -> None:
    """With variables of its own; it cannot be unloaded as a module."""
    library = _load()
    module = value(c_void_p, cu.cuLibraryGetModule, library)
    assert value(c_void_p, cu.cuLibraryGetModule, library) == module
    address, size = c_uint64(), c_size_t()
    check(cu.cuLibraryGetGlobal(byref(address), byref(size), library, b"counter"))
    assert size.value == 4
    assert value(c_uint64, cu.cuModuleGetGlobal_v2, None, module, b"counter") == address.value
    kernel = value(c_void_p, cu.cuLibraryGetKernel, library, b"advance")
    function = value(c_void_p, cu.cuKernelGetFunction, kernel)
    assert value(c_void_p, cu.cuModuleGetFunction, module, b"advance") == function
    check(launch(function))
    assert words(address.value, 1) == [10]
    other = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    elsewhere = value(c_void_p, cu.cuLibraryGetModule, library)
    check(launch(kernel))
    there = words(value(c_uint64, cu.cuLibraryGetGlobal, None, library, b"counter"), 1)
    check(cu.cuCtxDestroy_v2(other))
    assert (elsewhere != module, there) == (True, [10])
    assert words(address.value, 1) == [10]
    check(cu.cuLibraryUnload(library))


def test_what_is_not_managed_is_not_found(gpu: Resources) -> None:
    """Nor what is not there."""
    library, address = _load(), c_uint64()
    assert cu.cuLibraryGetManaged(byref(address), None, library, b"nope") == 500
    assert cu.cuLibraryGetGlobal(byref(address), None, library, b"nope") == 500
    check(cu.cuLibraryUnload(library))


@undefined_on_hardware("an unloaded library is a wild pointer")
def test_an_unloaded_library_is_an_invalid_handle(gpu: Resources) -> None:
    """With its kernels and its modules."""
    library = _load()
    kernel = value(c_void_p, cu.cuLibraryGetKernel, library, b"nothing")
    module = value(c_void_p, cu.cuLibraryGetModule, library)
    assert cu.cuModuleUnload(module) == 800
    check(cu.cuLibraryUnload(library))
    assert cu.cuLibraryUnload(library) == 400
    assert cu.cuLibraryGetKernel(byref(c_void_p()), library, b"nothing") == 400
    assert cu.cuKernelGetFunction(byref(c_void_p()), kernel) == 400
    assert launch(kernel) == 400
    assert cu.cuModuleGetFunction(byref(c_void_p()), module, b"nothing") == 400
