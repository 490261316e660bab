"""Kernels from CUDA C: compiled, loaded and launched in one of two ways.

`driver`: clang's PTX through the bare driver under test. A machine with a GPU need not have a
clang: `python -m kernels.harness FOLDER`, run in `tests`, writes the PTX of all files, and
`GPULEND_TEST_PTX=FOLDER` makes the tests take it from there. `gpulend`: see `lent.py`.
GPULEND_TEST_LAUNCH names one of them; without it tests run in both.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driver.cuda import CHOICE, SIMULATED, check, cu
from driver.resources import allocate, value

from . import lent
from .lent import CORPUS, Seen, Size

HERE = Path(__file__).parent
MISTAKES = HERE / "mistakes"

# The driver that the tests talk to themselves. gpulend chooses when it is first used; one that is
# named by a path it would not find.
_DRIVERS = {"simulated": "simulated", "real": "cuda"}
if CHOICE in _DRIVERS:
    os.environ["GPULEND_DEVICE"] = _DRIVERS[CHOICE]
WAYS = ("driver", "gpulend") if CHOICE in _DRIVERS else ("driver",)


def ways_asked() -> tuple[str, ...]:
    """Return the ways in which kernels shall be launched."""
    asked = os.environ.get("GPULEND_TEST_LAUNCH")
    if asked and asked not in WAYS:
        raise pytest.UsageError(f"GPULEND_TEST_LAUNCH is {asked}; with {CHOICE} it can be {WAYS}")
    return (asked,) if asked else WAYS


# The first entry is the way of the test that runs.
_way = [ways_asked()[0]]


def launch_by(way: str) -> None:
    """Launch by this way from now on."""
    _way[0] = way


cu.cuLaunchKernel.argtypes = [c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p]
cu.cuLaunchKernel.restype = c_int

# Clang leaves sinf and its like to be linked; NVIDIA's driver has no such functions. NVRTC has.
needs_library = pytest.mark.needs_library


@functools.cache
def ptx_of(file: Path) -> str:
    """Compile a file of CUDA C to PTX, once, or take what was compiled elsewhere."""
    if folder := os.environ.get("GPULEND_TEST_PTX"):
        compiled = Path(folder) / f"{file.stem}.ptx"
        if not compiled.exists():
            pytest.skip(f"{file.name} could not be compiled when {folder} was written")
        return compiled.read_text()
    from gpulend.compiler import to_ptx  # not needed, and perhaps not installed, for the folder

    return to_ptx(file.read_text(), file=file.name)


@functools.cache
def module_of(file: Path) -> int:
    """Load a file's module into the primary context, once; it stays as long as the context."""
    return value(c_void_p, cu.cuModuleLoadData, ptx_of(file).encode() + b"\0")


def entries(file: Path) -> list[str]:
    """Name the kernels of a file as its PTX spells them."""
    if _way[0] == "gpulend":
        return lent.symbols(file)
    return re.findall(r"\.entry\s+([\w$]+)", ptx_of(file))


def _three(size: Size) -> tuple[int, int, int]:
    sizes = (size,) if isinstance(size, int) else size
    return (*sizes, *(1,) * (3 - len(sizes)))


def to_device(array: np.ndarray) -> int:
    """Copy an array to memory of its own; who asks frees it."""
    address = allocate(max(array.nbytes, 1))
    check(cu.cuMemcpyHtoD_v2(address, array.ctypes.data, array.nbytes))
    return address


class Bare:
    """A kernel of a file, launched by the bare driver."""

    def __init__(self, path: Path, name: str) -> None:
        self.module = module_of(path)
        self.name = name
        self.function = value(c_void_p, cu.cuModuleGetFunction, self.module, name.encode())

    def start(self, grid: Size, block: Size, *words: Any, shared: int = 0) -> int:
        """Queue a launch whose arguments are numbers and structures; return the driver's code.

        A Python int is an `int`, a float a `float`; other types are NumPy's or ctypes'.
        """
        holders = [_holder(word) for word in words]
        places = (c_void_p * max(len(holders), 1))(*[ctypes.addressof(held) for held in holders])
        sizes = (*_three(grid), *_three(block))
        return cu.cuLaunchKernel(self.function, *sizes, shared, None, places, None)

    def launch(self, grid: Size, block: Size, *arguments: Any, shared: int = 0) -> None:
        """Do what `Kernel` says."""
        words: list[Any] = []
        copies: list[tuple[np.ndarray, int]] = []
        try:
            for argument in arguments:
                if isinstance(argument, Seen):
                    argument = argument.array
                if argument is None:
                    argument = np.uint64(0)
                if isinstance(argument, np.ndarray) and argument.ndim > 0:
                    assert argument.flags.c_contiguous, "the kernel sees bytes, not strides"
                    copies.append((argument, to_device(argument)))
                    argument = np.uint64(copies[-1][1])
                words.append(argument)
            check(self.start(grid, block, *words, shared=shared))
            check(cu.cuCtxSynchronize())
            for array, address in copies:
                if array.flags.writeable:
                    check(cu.cuMemcpyDtoH_v2(array.ctypes.data, address, array.nbytes))
        finally:
            for _, address in copies:
                check(cu.cuMemFree_v2(address))

    def variable(self, name: str) -> tuple[int, int]:
        """Return the address and length of a variable of the kernel's module."""
        address, length = c_uint64(), c_size_t()
        found = cu.cuModuleGetGlobal_v2(byref(address), byref(length), self.module, name.encode())
        check(found)
        return address.value, length.value

    def read(self, name: str, dtype: Any) -> np.ndarray:
        """Return what a variable of the module holds."""
        address, length = self.variable(name)
        array = np.empty(length // np.dtype(dtype).itemsize, dtype)
        check(cu.cuMemcpyDtoH_v2(array.ctypes.data, address, length))
        return array

    def write(self, name: str, array: np.ndarray) -> None:
        """Set a variable of the module."""
        address, length = self.variable(name)
        assert array.nbytes == length, f"{name} has {length} bytes"
        check(cu.cuMemcpyHtoD_v2(address, array.ctypes.data, length))
        check(cu.cuStreamSynchronize(None))


class Kernel:
    """A kernel of a file of the corpus, or of another file, launched in the way of the test."""

    def __init__(self, file: str | Path, name: str) -> None:
        path = CORPUS / file if isinstance(file, str) else file
        kind = lent.Lent if _way[0] == "gpulend" else Bare
        self._kernel: lent.Lent | Bare = kind(path, name)

    def launch(self, grid: Size, block: Size, *arguments: Any, shared: int = 0) -> None:
        """Launch and wait. Arrays are copied to the device before, and those that can be, back.

        A Python int is an `int`, a float a `float`, None a null pointer; other types are NumPy's
        or ctypes'. `Seen` says what an array is whose elements NumPy does not know.
        """
        self._kernel.launch(grid, block, *arguments, shared=shared)

    def read(self, name: str, dtype: Any) -> np.ndarray:
        """Return what a variable of the module holds."""
        return self._kernel.read(name, dtype)

    def write(self, name: str, array: np.ndarray) -> None:
        """Set a variable of the module."""
        self._kernel.write(name, array)


def _holder(word: Any) -> Any:
    if isinstance(word, ctypes.Structure):
        return word
    if not isinstance(word, np.generic):  # np.float64 is a float too
        word = np.float32(word) if isinstance(word, float) else np.int32(word)
    data = word.tobytes()
    return (ctypes.c_ubyte * len(data)).from_buffer_copy(data)


def fault_sentences() -> list[str]:
    """Return what the driver says the program did wrong so far; a real one says nothing."""
    if not SIMULATED:
        return []
    from driver.control import report

    return [fault["what"] for fault in report()["faults"]]


@contextmanager
def on_device(*arrays: np.ndarray) -> Iterator[list[int]]:
    """Hold copies of arrays on the device; give their addresses."""
    if _way[0] == "gpulend":
        with lent.held(*arrays) as addresses:
            yield addresses
        return
    addresses = [to_device(array) for array in arrays]
    check(cu.cuStreamSynchronize(None))
    try:
        yield addresses
    finally:
        for address in addresses:
            check(cu.cuMemFree_v2(address))


def blocks(n: int, block: int) -> int:
    """Return how many blocks it takes for `n` threads."""
    return -(-n // block)


def alone(function: Callable[..., None], *arguments: str, **environment: str) -> str:
    """Call a module-level function in a process of its own; return what that prints."""
    module = function.__module__.rpartition(".")[2]
    code = f"import sys; from {HERE.name}.{module} import {function.__name__} as function\n"
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
    ran = subprocess.run(
        [sys.executable, "-c", code + "function(*sys.argv[1:])", *arguments],
        env={**os.environ, "PYTHONPATH": path, "GPULEND_TEST_LAUNCH": _way[0], **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def _write_all(folder: Path) -> int:
    """Return how many files cannot be compiled."""
    from gpulend import CompileError

    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for file in [*CORPUS.glob("*.cu"), *MISTAKES.glob("*.cu")]:
        try:
            (folder / f"{file.stem}.ptx").write_text(ptx_of(file))
        except CompileError as error:
            print(error, file=sys.stderr)
            failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(min(_write_all(Path(sys.argv[1])), 1))
