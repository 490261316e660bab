"""Kernels through gpulend's own calls: compiled by `gpulend.compile`, launched on leases.

Each argument goes through the checks of the kernel's signature: arrays are leases of their own
type, numbers are what tests give. Nothing is a bare address.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpulend
import numpy as np

CORPUS = Path(__file__).parent / "corpus"

Size = int | tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    """An array whose elements are of a type that NumPy has no name for, of the same size."""

    array: np.ndarray
    dtype: str


@functools.cache
def module_of(file: Path) -> gpulend.Module:
    """Compile a file, once; its module stays."""
    return gpulend.compile(file)


def symbols(file: Path) -> list[str]:
    """Name the kernels of a file as the linker does."""
    module = module_of(file)
    return [module[name].symbol for name in module]


def to_lease(argument: np.ndarray | Seen) -> gpulend.Lease:
    """Copy an array to memory of its own; what is read-only stays so."""
    array, dtype = (
        (argument.array, argument.dtype) if isinstance(argument, Seen) else (argument, None)
    )
    if array.dtype.fields is not None:
        # An element of gpulend's is a number: structs are bytes, which pointers to structs take.
        array = array.reshape(-1).view(np.uint8)
    lease = gpulend.from_host(array)
    if dtype is not None:
        lease = lease.view(dtype)
    return lease if array.flags.writeable else lease.as_readonly()


class Lent:
    """A kernel of a file, launched by gpulend."""

    def __init__(self, path: Path, name: str) -> None:
        self.module = module_of(path)
        self.kernel = self.module[name]
        assert self.kernel.typed, f"{self.kernel.signature} has no types to be checked against"

    def launch(self, grid: Size, block: Size, *arguments: Any, shared: int = 0) -> None:
        """Do what `harness.Kernel` says."""
        words: list[Any] = []
        copies: list[tuple[np.ndarray, gpulend.Lease]] = []
        for argument in arguments:
            array = argument.array if isinstance(argument, Seen) else argument
            if isinstance(array, np.ndarray) and array.ndim > 0:
                assert array.flags.c_contiguous, "the kernel sees bytes, not strides"
                copies.append((array, to_lease(argument)))
                argument = copies[-1][1]
            words.append(argument)
        self.kernel[grid, block](*words, shared=shared)
        gpulend.synchronize()
        for array, lease in copies:
            if array.flags.writeable and array.size:
                host = lease.view("uint8").to_host()
                array.reshape(-1).view(np.uint8)[:] = host.reshape(-1)

    def read(self, name: str, dtype: Any) -> np.ndarray:
        """Return what a variable of the module holds, in the type that it was declared with."""
        host: np.ndarray = np.atleast_1d(self.module.variable(name).to_host())
        assert host.dtype == dtype, f"{name} is {host.dtype}"
        return host

    def write(self, name: str, array: np.ndarray) -> None:
        """Set a variable of the module."""
        variable = self.module.variable(name)
        variable.copy_from(array.reshape(variable.shape))


@contextmanager
def held(*arrays: np.ndarray) -> Iterator[list[int]]:
    """Hold copies of arrays on the device; give their addresses, for arrays of addresses."""
    with ExitStack() as stack:
        yield [int(stack.enter_context(to_lease(array).pointer())) for array in arrays]
