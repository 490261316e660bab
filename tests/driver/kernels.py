"""What tests of kernels work with: a module of hand-written PTX, and launching in one line."""

from __future__ import annotations

import ctypes
from ctypes import addressof, c_char, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from .cuda import check, cu
from .resources import Resources, value

KERNELS = Path(__file__).parent / "kernels.ptx"
IMAGE = KERNELS.read_bytes() + b"\0"


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", c_int), ("padding", c_int), ("value", c_uint * 16)]


class Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *[("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint)],
        *[("stream", c_void_p), ("attributes", c_void_p), ("count", c_uint)],
    ]


assert ctypes.sizeof(Attribute) == 72
assert ctypes.sizeof(Configuration) == 56


class Module:
    """A module that the resources unloads, and its functions by name."""

    def __init__(self, resources: Resources, image: bytes = IMAGE) -> None:
        self.handle = resources._keep(
            cu.cuModuleUnload, value(c_void_p, cu.cuModuleLoadData, image)
        )

    def __getitem__(self, name: str) -> int:
        return value(c_void_p, cu.cuModuleGetFunction, self.handle, name.encode())

    def variable(self, name: str) -> int:
        """Return the address of a variable."""
        return value(c_uint64, cu.cuModuleGetGlobal_v2, None, self.handle, name.encode())


def pointers(*values: Any) -> Any:
    """Return an array of pointers to values, and keep the values."""
    array = (c_void_p * max(len(values), 1))(*map(addressof, values))
    array.kept = values
    return array


def launch(
    function: int | None,
    *values: Any,
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (1,),
    shared: int = 0,
    stream: int | None = None,
) -> int:
    """Launch with values of ctypes; return the code."""
    blocks, threads = [*grid, 1, 1][:3], [*block, 1, 1][:3]
    given = pointers(*values) if values else None
    return cu.cuLaunchKernel(function, *blocks, *threads, shared, stream, given, None)


def packed(data: bytes) -> Any:
    """Return `extra` for parameters in one buffer."""
    buffer, size = (c_char * len(data)).from_buffer_copy(data), c_size_t(len(data))
    extra = (c_void_p * 5)(1, addressof(buffer), 2, addressof(size), 0)
    extra.kept = (buffer, size)
    return extra


def most_shared() -> int:
    """Return how much shared memory a block of device 0 has at most, once it was asked for."""
    return value(c_int, cu.cuDeviceGetAttribute, 97, 0)


def words(address: int, count: int) -> list[int]:
    """Read 4-byte words of device memory."""
    data = (c_uint * count)()
    check(cu.cuMemcpyDtoH_v2(data, address, 4 * count))
    return list(data)


def set_words(address: int, numbers: list[int]) -> None:
    """Write 4-byte words of device memory, and wait."""
    check(cu.cuMemcpyHtoD_v2(address, (c_uint * len(numbers))(*numbers), 4 * len(numbers)))
    check(cu.cuCtxSynchronize())
