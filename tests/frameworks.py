"""The frameworks of the tests: how each makes memory, writes it late, and says what it holds.

`of` gives an array with a copy of NumPy's. The matrix of hand-overs has arrays of 256 bytes: where
a framework works asynchronously, `write` queues the bytes and returns, and the simulated GPU does
what is queued as late as it may, so that a hand-over without order reads old bytes. On the
simulated GPU the CPU arrays of torch, JAX and TensorFlow take the place of those of a GPU. A
framework is named by what `gpulend.lend` calls it; SVM is memory of PyOpenCL's.
"""

from __future__ import annotations

from typing import Any

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import LEGACY
from gpu.resources import REAL, capsule_address, fill, need, tensorflow_device

SIZE = 256
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Memory:
    """One framework."""

    name = ""
    # Where its own memory lies, and whose memory it takes.
    makes, takes = "host", ("host",)
    # Whether what it takes can be marked read-only, or is never written.
    keeps_readonly = False
    # Whether its own arrays are never written, so that nobody else may.
    immutable = False

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Import the framework and make what all tests use."""

    def enter(self) -> None:
        """Prepare for a test."""

    def leave(self) -> None:
        """Undo that, after all arrays of the test are gone."""

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Make an array of its own with a copy of what NumPy's holds, ready."""
        raise NotImplementedError

    def make(self, byte: int) -> Any:
        """Make an array of its own of one byte, ready."""
        return self.of(np.full(SIZE, byte, np.uint8))

    def write(self, array: Any, byte: int) -> Any:
        """Write an array as the framework does, late; return the array that will hold the byte."""
        raise NotImplementedError

    def address(self, array: Any) -> int:
        """Ask the framework where an array lies."""
        raise NotImplementedError

    def values(self, array: Any) -> np.ndarray[Any, Any]:
        """Read an array by the framework's own means, after its own earlier work."""
        raise NotImplementedError

    def give(self, array: Any) -> Any:
        """Return what `gpulend.lend` is called with."""
        return array

    def is_readonly(self, _array: Any) -> bool:
        """Tell whether a taken array cannot be written."""
        return True


class Gpulend(Memory):
    """Leases of our own."""

    name, makes, takes = "gpulend", "gpu", ("gpu",)

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy to the GPU."""
        return gpulend.from_host(host)

    def address(self, array: Any) -> int:
        """Ask the lease."""
        return int(array.address)

    def values(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy it."""
        return array.to_host()


class NumPy(Memory):
    """NumPy."""

    name, keeps_readonly = "numpy", True

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy to where every framework can read from."""
        raw = np.empty(host.nbytes + 64, np.uint8)
        start = -raw.ctypes.data % 64
        made = raw[start : start + host.nbytes].view(host.dtype).reshape(host.shape)
        made[...] = host
        return made

    def write(self, array: Any, byte: int) -> Any:
        """Fill it."""
        array[:] = byte
        return array

    def address(self, array: Any) -> int:
        """Ask ctypes."""
        return int(array.ctypes.data)

    def values(self, array: Any) -> Bytes:
        """Copy it."""
        return np.array(array)

    def is_readonly(self, array: Any) -> bool:
        """Ask its flags."""
        return not array.flags.writeable


class Torch(Memory):
    """torch: of the GPU if there is one."""

    name = "torch"
    makes, takes = ("gpu", ("host", "gpu")) if REAL else ("host", ("host",))

    def open(self) -> None:
        """Import it."""
        self.torch = need("torch")

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy the numbers, and on a real GPU to it."""
        made = self.torch.tensor(host)
        if not REAL:
            return made
        made = made.cuda()
        self.torch.cuda.synchronize()
        return made

    def write(self, array: Any, byte: int) -> Any:
        """Fill it."""
        return array.fill_(byte)

    def address(self, array: Any) -> int:
        """Ask the tensor."""
        return int(array.data_ptr())

    def values(self, array: Any) -> Bytes:
        """Copy it."""
        return np.array(array.cpu().numpy())


class Jax(Memory):
    """JAX: of the GPU if there is one."""

    name, keeps_readonly, immutable = "jax", True, True
    makes, takes = ("gpu", ("host", "gpu")) if REAL else ("host", ("host",))

    def open(self) -> None:
        """Import it."""
        self.jax = need("jax")
        if REAL and self.jax.default_backend() != "gpu":
            pytest.skip("this JAX has no GPU")
        self.added = self.jax.jit(lambda array, byte: array * 0 + byte)

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy, because JAX on the CPU may keep NumPy's own memory."""
        return self.jax.numpy.array(host, copy=True).block_until_ready()

    def write(self, array: Any, byte: int) -> Any:
        """Compute another, which JAX does while it returns."""
        return self.added(array, np.uint8(byte))

    def address(self, array: Any) -> int:
        """Ask the array."""
        return int(array.unsafe_buffer_pointer())

    def values(self, array: Any) -> Bytes:
        """Copy it."""
        return np.array(array)


class TensorFlow(Memory):
    """TensorFlow: of the GPU if it has one, which its CPU build has not."""

    name, keeps_readonly, immutable = "tensorflow", True, True

    def open(self) -> None:
        """Import it and ask it."""
        self.tf = need("tensorflow")
        self.device = tensorflow_device()
        self.on_gpu = self.device == "/GPU:0"
        if self.on_gpu:
            self.makes, self.takes = "gpu", ("host", "gpu")

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Make a constant, and on a real GPU a copy there: `tf.device` leaves int32 on the host."""
        made = self.tf.constant(host)
        if not REAL:
            return made
        if not self.on_gpu:
            pytest.skip("this TensorFlow has no GPU")
        made = made.gpu()
        assert made.backing_device.endswith("GPU:0"), f"copied to {made.backing_device}"
        return made

    def make(self, byte: int) -> Any:
        """Fill a tensor, and read it so that it is ready."""
        with self.tf.device(self.device):
            made = self.tf.fill((SIZE,), np.uint8(byte))
        where = made.backing_device
        assert where.endswith(self.device[1:]), f"asked for {self.device}, and made on {where}"
        made.numpy()
        return made

    def write(self, array: Any, byte: int) -> Any:
        """Compute another: on a GPU behind other work, so that it is late."""
        with self.tf.device(self.device):
            for _ in range(16 if self.on_gpu else 0):
                self.tf.fill((1 << 24,), 0.5)
            return array * np.uint8(0) + np.uint8(byte)

    def address(self, array: Any) -> int:
        """Read its capsule; on the host see that the buffer protocol says the same."""
        told = capsule_address(self.tf.experimental.dlpack.to_dlpack(array))
        if array.backing_device.endswith("CPU:0"):
            assert told == np.asarray(memoryview(array)).ctypes.data
        return told

    def values(self, array: Any) -> Bytes:
        """Copy it."""
        return np.array(array.numpy())


class TvmFfi(Memory):
    """tvm-ffi: a container; the bytes are NumPy's."""

    name = "tvm_ffi"
    takes = ("host", "gpu") if REAL else ("host",)

    def open(self) -> None:
        """Import it."""
        self.tvm_ffi = need("tvm_ffi")

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Take an array of NumPy's."""
        return self.tvm_ffi.from_dlpack(NumPy().of(host))

    def write(self, array: Any, byte: int) -> Any:
        """Fill it through NumPy."""
        np.from_dlpack(array)[:] = byte
        return array

    def address(self, array: Any) -> int:
        """Ask the tensor."""
        return int(array.data_ptr())

    def values(self, array: Any) -> Bytes:
        """Read it through NumPy, or by the driver."""
        is_host = str(array.device).startswith("cpu")
        return np.array(np.from_dlpack(array)) if is_host else read(array.data_ptr())


class PyOpenCl(Memory):
    """PyOpenCL: coarse shared virtual memory in, arrays out."""

    name = "pyopencl"

    def open(self) -> None:
        """Make a queue of the first device."""
        self.cl = need("pyopencl")
        self.array = need("pyopencl.array")
        self.queue = self.cl.CommandQueue(self.cl.create_some_context(interactive=False))
        source = "kernel void fill(global uchar *p, uchar byte) { p[get_global_id(0)] = byte; }"
        self.fill = self.cl.Program(self.queue.context, source).build().fill

    def make(self, byte: int) -> Any:
        """Fill SVM."""
        made = self.cl.SVM(self.cl.csvm_empty(self.queue.context, SIZE, np.uint8, alignment=64))
        self.write(made, byte)
        self.queue.finish()
        return made

    def write(self, array: Any, byte: int) -> Any:
        """Queue a kernel."""
        self.fill(self.queue, (SIZE,), None, array, np.uint8(byte))
        return array

    def give(self, array: Any) -> Any:
        """SVM does not tell its queue."""
        return gpulend.borrow(array, ready_on=self.queue)

    def address(self, array: Any) -> int:
        """Ask SVM itself, or a mapping of what was taken."""
        if isinstance(array, self.cl.SVM):
            return int(array.svm_ptr)
        mapped = array.map_to_host()
        mapped.base.release(array.queue)
        return int(mapped.ctypes.data)

    def values(self, array: Any) -> Bytes:
        """Copy it by OpenCL."""
        return np.array(array.get())


class CudaCore(Memory):
    """cuda.core: buffers in, views out."""

    name, keeps_readonly = "cuda.core", True
    makes, takes = "gpu", ("host", "gpu")

    def open(self) -> None:
        """Make a stream."""
        self.device = need("cuda.core").Device(0)
        self.device.set_current()
        self.stream = self.device.create_stream()

    def make(self, byte: int) -> Any:
        """Fill a buffer."""
        made = self.device.allocate(SIZE, stream=self.stream)
        self.write(made, byte)
        self.stream.sync()
        return made

    def write(self, array: Any, byte: int) -> Any:
        """Queue a fill."""
        array.fill(byte, stream=self.stream)
        return array

    def give(self, array: Any) -> Any:
        """A buffer does not tell its stream."""
        return gpulend.borrow(array, ready_on=self.stream)

    def address(self, array: Any) -> int:
        """Ask buffer or view."""
        return int(array.ptr if hasattr(array, "ptr") else array.handle)

    def values(self, array: Any) -> Bytes:
        """Copy by the driver, on the stream that gpulend was not told: the legacy one."""
        if array.is_device_accessible:
            return read(array.ptr)
        return np.array(np.from_dlpack(array))

    def is_readonly(self, array: Any) -> bool:
        """Ask the view."""
        return bool(array.readonly)


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


class CuPy(Memory):
    """CuPy."""

    name, makes, takes = "cupy", "gpu", ("gpu",)

    def open(self) -> None:
        """Import it."""
        self.cupy = need("cupy")

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy to the GPU and wait."""
        made = self.cupy.asarray(host)
        self.cupy.cuda.get_current_stream().synchronize()
        return made

    def write(self, array: Any, byte: int) -> Any:
        """Fill it."""
        array.fill(byte)
        return array

    def address(self, array: Any) -> int:
        """Ask the array."""
        return int(array.data.ptr)

    def values(self, array: Any) -> Bytes:
        """Copy it."""
        return np.array(array.get())


def read(address: int) -> Bytes:
    """Copy from the GPU by the driver, on the legacy default stream."""
    host = np.empty(SIZE, np.uint8)
    check(cu.cuMemcpyDtoH_v2(host.ctypes.data, address, SIZE))
    return host


ALL = (NumPy, Torch, Jax, TensorFlow, TvmFfi, PyOpenCl, CudaCore, PyCuda, Numba, CuPy)
# CuPy needs a real GPU. What is not installed there is skipped.
HERE = {kind.name: kind for kind in ALL if kind is not CuPy or REAL}
