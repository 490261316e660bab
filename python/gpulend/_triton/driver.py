"""A driver of Triton's for the simulated GPU: kernels work on tensors of the host."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import (
    DriverBase,
    decompose_descriptor,
    expand_signature,
    wrap_handle_tensordesc_impl,
)

import gpulend
from gpulend import _native, simulator

# Attributes of a device, by the names that Triton gives them and by CUDA's numbers.
ATTRIBUTES = {
    "max_shared_mem": 97,
    "max_num_regs": 12,
    "multiprocessor_count": 16,
    "warpSize": 10,
    "sm_clock_rate": 13,
    "mem_clock_rate": 36,
    "mem_bus_width": 37,
}
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "i1": ctypes.c_uint8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u1": ctypes.c_uint8,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "fp32": ctypes.c_float,
    "f32": ctypes.c_float,
    "fp64": ctypes.c_double,
}
C_TYPES = {
    "i1": "int8_t",
    "u1": "uint8_t",
    **{f"i{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("fp16", "bf16", "fp32", "f32", "fp64"), "double"),
}


def scalar(kind: str, value: Any) -> Any:
    """Return a number as a parameter of this type."""
    if kind == "fp16":
        return ctypes.c_uint16(int.from_bytes(struct.pack("<e", value), "little"))
    if kind == "bf16":
        bits = int.from_bytes(struct.pack("<f", value), "little")
        # To the nearest, ties to even; a NaN stays one.
        rounded = bits >> 16 | 0x40 if value != value else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return ctypes.c_uint16(rounded)
    return INTEGERS[kind](value)


def array(value: Any) -> Any:
    """Return what gpulend launches on: a lease, or a tensor without its history."""
    # What `triton.reinterpret` returns is a tensor with another type of elements.
    value = getattr(value, "base", value) if type(value).__name__ == "TensorWrapper" else value
    # A launch of Triton's is no operation of autograd, and counts as no change of a tensor.
    return value.data if type(value).__module__.partition(".")[0] == "torch" else value


def flat(signature: Iterable[Any], values: Iterable[Any]) -> Iterator[Any]:
    """Yield the parameters of a kernel, without constants and with the items of tuples."""
    for kind, value in zip(signature, values, strict=False):
        if isinstance(kind, tuple):
            yield from flat(kind, value)
        elif kind == "constexpr":
            continue
        elif kind.startswith("*"):
            yield array(value)
        else:
            yield scalar(kind, value)


class Launcher:
    """Launches one compiled kernel of Triton's."""

    def __init__(self, source: Any, metadata: Any):
        # Descriptors become an address and numbers: these processors do not copy by descriptors.
        described = getattr(metadata, "tensordesc_meta", None) or []
        self._signature = expand_signature(source.signature.values(), described, "")
        self._scratch = (metadata.global_scratch_size, metadata.profile_scratch_size)
        self._launch = wrap_handle_tensordesc_impl(
            self._queue, source.signature, described, lambda value, *_: decompose_descriptor(value)
        )

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: int,
        function: gpulend.Kernel,
        packed: Sequence[int],
        launch_metadata: Any,
        enter: Callable[[Any], object] | None,
        leave: Callable[[Any], object] | None,
        *values: Any,
    ) -> None:
        """Launch it on a grid."""
        if enter is not None:
            enter(launch_metadata)
        if x * y * z > 0:
            self._launch((x, y, z), function, packed, values)
        if leave is not None:
            leave(launch_metadata)

    def _queue(
        self,
        grid: tuple[int, int, int],
        function: gpulend.Kernel,
        packed: Sequence[int],
        values: Sequence[Any],
    ) -> None:
        warps, _, shared = packed
        blocks = grid[0] * grid[1] * grid[2]
        scratch = [
            gpulend.zeros(size * blocks, "uint8") if size else None for size in self._scratch
        ]
        parameters = [*flat(self._signature, values), *scratch]
        function.launch(grid, 32 * warps, parameters, shared, strided=True)


class Utilities:
    """What Triton asks a driver to do with binaries and devices."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL(simulator.library())

    def get_device_properties(self, device: int | None) -> dict[str, int]:
        """Return the limits of a device."""
        value = ctypes.c_int()
        found = {}
        for name, number in ATTRIBUTES.items():
            self._driver.cuDeviceGetAttribute(ctypes.byref(value), number, device or 0)
            found[name] = value.value
        return found

    def load_binary(
        self, name: str, image: bytes, shared: int, device: int
    ) -> tuple[gpulend.Module, gpulend.Kernel, int, int, int]:
        """Return a module and its kernel, registers, spilled bytes, and the most threads."""
        module = gpulend.compile(image.decode(), device=device)
        kernel = module[name]
        attributes = kernel.attributes
        return module, kernel, attributes["registers"], 0, attributes["max_threads_per_block"]

    def unload_module(self, module: gpulend.Module) -> None:
        """Do nothing: a module ends with the last reference to it."""

    def is_stream_capturing(self, stream: int) -> bool:
        """Return False: host tensors are worked on at once."""
        return False

    def set_printf_fifo_size(self, size: int) -> None:
        """Do nothing: a launch may print 64 MiB."""


class Event:
    """A time of the host."""

    def __init__(self, **_: object):
        self._time = 0.0

    def record(self, *_: object) -> None:
        """Take the time, once all work is done."""
        gpulend.synchronize()
        self._time = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds to another event."""
        # Some divide by it.
        return max(1000 * (end._time - self._time), 1e-6)


class Interface:
    """What Triton's benchmarks use of a module such as torch.cuda."""

    Event = Event

    @staticmethod
    def synchronize(*_: object) -> None:
        """Wait for all work."""
        gpulend.synchronize()

    @staticmethod
    def current_device() -> int:
        """Return the number of the device."""
        return 0


def benchmark(call: Callable[[], object], quantiles: Any = None, **_: object) -> Any:
    """Return how many milliseconds a call took, once: time here says nothing about a GPU."""
    start, end = Event(), Event()
    start.record()
    call()
    end.record()
    took = start.elapsed_time(end)
    return took if quantiles is None else [took] * len(quantiles)


class Driver(DriverBase):  # type: ignore[misc]
    """The simulated GPU as Triton sees it."""

    launcher_cls = Launcher

    def __init__(self) -> None:
        _, _, _, devices = _native.describe_driver()
        self._capability = devices[0][2]
        self.utils = Utilities()

    @staticmethod
    def is_active() -> bool:
        """Whether the program asked for the simulated GPU, and Triton's own driver sees none.

        Without torch, Triton's own driver uses the simulated GPU of `gpulend run`.
        """
        if os.environ.get("GPULEND_DEVICE") != "simulated":
            return False
        torch = sys.modules.get("torch")
        return torch is not None and not torch.cuda.is_available()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the C type of a parameter."""
        return "CUdeviceptr" if ty.startswith("*") else C_TYPES[ty]

    def get_current_target(self) -> GPUTarget:
        """Return what to compile for."""
        major, minor = self._capability
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Return the compute capability."""
        return self._capability

    def get_current_device(self) -> int:
        """Return the number of the device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing: tensors of the host are of no device."""

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the default stream; gpulend orders launches by their arguments."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Return the host: its tensors stand in for those of a GPU."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """Return what benchmarks use in the place of torch.cuda."""
        return Interface

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return what the autotuner measures with."""
        return benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        """Return a tensor: there is no cache to empty."""
        import torch

        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, cache: Any) -> None:
        """Do nothing."""
