"""Frameworks of host memory; TensorFlow's is a GPU's where its build has one."""

from __future__ import annotations

from typing import Any

import gpulend
import numpy as np
import pytest
from gpu.resources import REAL, capsule_address, need, tensorflow_device

from .memory import SIZE, Bytes, Memory, read


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
        said = capsule_address(self.tf.experimental.dlpack.to_dlpack(array))
        if array.backing_device.endswith("CPU:0"):
            assert said == np.asarray(memoryview(array)).ctypes.data
        return said

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
        """SVM does not name its queue."""
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
