"""Frameworks of GPU memory, most of which work on streams that a test chooses."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import LEGACY, PER_THREAD
from gpu.resources import bytes_at, copy, fill, need

from .memory import SIZE, Bytes, Memory, OnStreams, Probed, Reading, read


class Gpulend(OnStreams):
    """Leases of our own."""

    name, makes, takes = "gpulend", "gpu", ("gpu",)

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy to the GPU."""
        return gpulend.from_host(host)

    def write(self, array: Any, byte: int) -> Any:
        """Copy from a lease that is filled on the same stream."""
        array.copy_from(gpulend.full(array.shape, byte, array.dtype))
        return array

    def address(self, array: Any) -> int:
        """Ask the lease."""
        return int(array.address)

    def values(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy it."""
        return array.to_host()

    def new_stream(self, kind: str) -> Any:
        """Make one, or name a default stream by its number."""
        return gpulend.Stream({"default": LEGACY, "per-thread": PER_THREAD}.get(kind))

    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Enter the stream."""
        return stream

    def make_on(self, stream: Any, byte: int, size: int) -> Any:
        """Fill a new lease."""
        with stream:
            return gpulend.full(size, byte, "uint8")

    def take_on(self, stream: Any, source: Any) -> Any:
        """Borrow for the stream."""
        return gpulend.borrow(source, stream)

    def read_on(self, stream: Any, taken: Any) -> Reading:
        """Copy into another lease."""
        with stream:
            out = gpulend.empty(taken.shape, taken.dtype)
            out.copy_from(taken)

        def result() -> Bytes:
            stream.synchronize()
            return out.to_host().view("uint8")

        return result


class CudaCore(OnStreams):
    """cuda.core: buffers in, views out. It has no current stream, so each call says one."""

    name, keeps_readonly = "cuda.core", True
    makes, takes = "gpu", ("host", "gpu")

    def open(self) -> None:
        """Make a stream."""
        self.core = need("cuda.core")
        self.device = self.core.Device(0)
        self.device.set_current()
        self.own = self.device.create_stream()
        self.pinned: dict[int, Any] = {}

    def make(self, byte: int) -> Any:
        """Fill a buffer."""
        made = self.make_on(self.own, byte, SIZE)
        self.own.sync()
        return made

    def write(self, array: Any, byte: int) -> Any:
        """Queue a fill."""
        return self.write_on(self.own, array, byte)

    def give(self, array: Any) -> Any:
        """Name the stream, which a buffer does not."""
        return self.give_on(self.own, array)

    def address(self, array: Any) -> int:
        """Ask buffer or view."""
        return int(array.ptr if hasattr(array, "ptr") else array.handle)

    def values(self, array: Any) -> Bytes:
        """Copy by the driver, on a stream that gpulend does not know of: the legacy one."""
        if array.is_device_accessible:
            return read(array.ptr)
        return np.array(np.from_dlpack(array))

    def is_readonly(self, array: Any) -> bool:
        """Ask the view."""
        return bool(array.readonly)

    def new_stream(self, kind: str) -> Any:
        """Make one, or name a default stream."""
        if kind == "default":
            return self.core.LEGACY_DEFAULT_STREAM
        if kind == "per-thread":
            return self.core.PER_THREAD_DEFAULT_STREAM
        return self.device.create_stream()

    def handle(self, stream: Any) -> int:
        """Ask the protocol."""
        return int(stream.__cuda_stream__()[1])

    def current(self, _stream: Any) -> AbstractContextManager[Any]:
        """Do nothing: cuda.core has no current stream."""
        return nullcontext()

    def make_on(self, stream: Any, byte: int, size: int) -> Any:
        """Allocate a buffer and fill it."""
        return self.write_on(stream, self.device.allocate(size, stream=stream), byte)

    def write_on(self, stream: Any, array: Any, byte: int) -> Any:
        """Fill the buffer."""
        array.fill(byte, stream=stream)
        return array

    def give_on(self, stream: Any, array: Any) -> Any:
        """Name the stream that wrote it."""
        return gpulend.borrow(array, ready_on=stream)

    def take_on(self, stream: Any, source: Any) -> Any:
        """Name the stream that will read it."""
        return gpulend.lend(source, self.name, stream=stream)

    def read_on(self, stream: Any, taken: Any) -> Reading:
        """Copy to pinned memory by the driver."""
        size, handle = taken.size * taken.dtype.itemsize, self.handle(stream)
        # Pinning memory may wait for the GPU, so it is done once, before any gate is closed.
        if size not in self.pinned:
            self.pinned[size] = self.core.LegacyPinnedMemoryResource().allocate(size)
        target = int(self.pinned[size].handle)
        copy(target, taken.ptr, size, handle)

        def result() -> Bytes:
            check(cu.cuStreamSynchronize(handle))
            return bytes_at(target, size)

        return result


class PyCuda(Memory):
    """PyCUDA in the primary context."""

    name, makes, takes = "pycuda", "gpu", ("gpu",)

    def open(self) -> None:
        """Retain the context by PyCUDA, which knows no others."""
        self.driver = need("pycuda.driver")
        self.gpuarray = need("pycuda.gpuarray")
        self.driver.init()
        self.context = self.driver.Device(0).retain_primary_context()

    def enter(self) -> None:
        """Push it."""
        self.context.push()

    def leave(self) -> None:
        """Pop it."""
        self.context.pop()

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy to the GPU."""
        return self.gpuarray.to_gpu(host)

    def write(self, array: Any, byte: int) -> Any:
        """Queue a fill on PyCUDA's default stream."""
        self.driver.memset_d8_async(array.ptr, byte, SIZE)
        return array

    def address(self, array: Any) -> int:
        """Ask the array."""
        return int(array.ptr)

    def values(self, array: Any) -> Bytes:
        """Copy it."""
        return np.array(array.get())


class Numba(Memory):
    """Numba."""

    name, makes, takes = "numba", "gpu", ("gpu",)

    def open(self) -> None:
        """Import it."""
        self.cuda = need("numba.cuda")

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy to the GPU and wait."""
        made = self.cuda.to_device(host)
        self.cuda.synchronize()
        return made

    def write(self, array: Any, byte: int) -> Any:
        """Queue a fill on Numba's default stream; its own would be a kernel."""
        fill(self.address(array), byte, SIZE, LEGACY)
        return array

    def address(self, array: Any) -> int:
        """Ask the array."""
        return int(array.device_ctypes_pointer.value)

    def values(self, array: Any) -> Bytes:
        """Copy it."""
        return np.array(array.copy_to_host())


class Torch(OnStreams, Probed):
    """torch: of the GPU where there is a real one."""

    name = "torch"

    def open(self) -> None:
        """Import it."""
        super().open()
        self.torch = need("torch")

    def new_stream(self, kind: str) -> Any:
        """Make one, or name a default stream."""
        if kind == "default":
            return self.torch.cuda.default_stream()
        if kind == "per-thread":
            return self.torch.cuda.ExternalStream(PER_THREAD)
        return self.torch.cuda.Stream()

    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Use torch's own block."""
        return self.torch.cuda.stream(stream)

    def make_on(self, stream: Any, byte: int, size: int) -> Any:
        """Fill a new tensor."""
        with self.current(stream):
            return self.torch.full((size,), byte, dtype=self.torch.uint8, device="cuda")

    def read_on(self, stream: Any, taken: Any) -> Reading:
        """Clone the tensor."""
        with self.current(stream):
            out = taken.clone()

        def result() -> Bytes:
            stream.synchronize()
            return out.cpu().numpy().view("uint8")

        return result


class CuPy(OnStreams, Probed):
    """CuPy, which needs a real GPU."""

    name = "cupy"

    def open(self) -> None:
        """Import it."""
        super().open()
        self.cupy = need("cupy")

    def new_stream(self, kind: str) -> Any:
        """Make one, or name a default stream."""
        if kind == "default":
            return self.cupy.cuda.Stream.null
        if kind == "per-thread":
            return self.cupy.cuda.Stream.ptds
        return self.cupy.cuda.Stream(non_blocking=True)

    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Use CuPy's own block."""
        return stream

    def make_on(self, stream: Any, byte: int, size: int) -> Any:
        """Fill a new array."""
        with stream:
            return self.cupy.full(size, byte, self.cupy.uint8)

    def read_on(self, stream: Any, taken: Any) -> Reading:
        """Copy the array."""
        with stream:
            out = taken.copy()

        def result() -> Bytes:
            stream.synchronize()
            with stream:
                return out.get().view("uint8")

        return result


class Jax(OnStreams, Probed):
    """JAX hides its streams: a stream holds back what JAX computes from."""

    name = "jax"
    kinds = ("hidden",)
    hidden = True

    def open(self) -> None:
        """Import it."""
        super().open()
        self.jax = need("jax")
        self._feeder = Gpulend()
        self._copy = self.jax.jit(lambda array: array ^ self.jax.numpy.zeros((), array.dtype))

    def new_stream(self, kind: str) -> Any:
        """Make one for what JAX is fed with."""
        if self.jax.default_backend() != "gpu":
            pytest.skip("this JAX has no GPU")
        return self._feeder.stream("non-blocking")

    def current(self, _stream: Any) -> AbstractContextManager[Any]:
        """Do nothing: JAX chooses its streams itself."""
        return nullcontext()

    def make_on(self, stream: Any, byte: int, size: int) -> Any:
        """Make the lease that JAX is fed from."""
        return self._feeder.make_on(stream, byte, size)

    def write_on(self, stream: Any, array: Any, byte: int) -> Any:
        """Write the lease on the stream, and have JAX compute from it."""
        return self._copy(self._feeder.write_on(stream, array, byte).lend("jax"))

    def read_on(self, _stream: Any, taken: Any) -> Reading:
        """Compute a copy."""
        out = self._copy(taken)
        return lambda: np.asarray(out).view("uint8")
