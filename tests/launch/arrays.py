"""What the tests launch on: arrays of each framework from and to NumPy, and the documents' kernels.

On the simulated GPU the CPU arrays of torch, JAX and TensorFlow stand in for those of a GPU.
"""

from __future__ import annotations

import functools
from typing import Any

import gpulend
import numpy as np
import pytest
from gpu.resources import REAL, need, tensorflow_device

VECTOR_ADD = """
extern "C" __global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
"""
ADD_ONE = """
__global__ void add_one(float *array) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    array[idx] += 1.0f;
}
"""
N = 1000


@functools.cache
def compiled(source: str, **settings: Any) -> gpulend.Module:
    """Compile a source once; its module stays."""
    return gpulend.compile(source, **settings)


def kernel(name: str, source: str) -> gpulend.Kernel:
    """Return a kernel of a source that is compiled once."""
    return compiled(source)[name]


def vector_add() -> gpulend.Kernel:
    """Return the kernel of the document on ctypes."""
    return kernel("vectorAdd", VECTOR_ADD)


def add_one() -> gpulend.Kernel:
    """Return the kernel of the document on addresses."""
    return kernel("add_one", ADD_ONE)


def numbers(count: int = N, start: int = 0) -> np.ndarray[Any, Any]:
    """Give whole numbers whose sums are exact in float32."""
    return np.random.default_rng(count + start).integers(-(2**20), 2**20, count).astype(np.float32)


def right_launch() -> None:
    """See that a right launch gives right numbers, whatever happened before."""
    a, b = numbers(start=1), numbers(start=2)
    out = gpulend.zeros(N, "float32")
    vector_add()[4, 256](gpulend.from_host(a), gpulend.from_host(b), out, N)
    np.testing.assert_array_equal(out.to_host(), a + b)


class Maker:
    """Makes arrays of one framework on the GPU under test."""

    writable = True

    def make(self, host: np.ndarray[Any, Any]) -> Any:
        """Return an array with a copy of what `host` holds."""
        return gpulend.from_host(host)

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """Return what an array holds, read as its framework's users would."""
        return array.to_host()


class Torch(Maker):
    """Tensors: of the CPU on the simulated GPU."""

    def __init__(self) -> None:
        self.torch = need("torch")

    def make(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy the numbers, and on a real GPU to it."""
        tensor = self.torch.tensor(host)
        return tensor.cuda() if REAL else tensor

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """Wait for nothing on the CPU: there the launch has."""
        return array.cpu().numpy().copy()


class Lent(Torch):
    """Tensors of torch over memory of ours."""

    def make(self, host: np.ndarray[Any, Any]) -> Any:
        """Lend a new lease."""
        return gpulend.from_host(host).lend("torch")


class Jax(Maker):
    """Arrays that nobody may write."""

    writable = False

    def __init__(self) -> None:
        self.jax = need("jax")
        if REAL and self.jax.default_backend() != "gpu":
            pytest.skip("this JAX has no GPU")

    def make(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy, because JAX on the CPU may keep NumPy's own memory."""
        return self.jax.numpy.array(host, copy=True)

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """Ask NumPy."""
        return np.asarray(array)


class TensorFlow(Maker):
    """Tensors that nobody may write."""

    writable = False

    def __init__(self) -> None:
        self.tensorflow = need("tensorflow")
        if REAL and tensorflow_device() != "/GPU:0":
            pytest.skip("this TensorFlow has no GPU")

    def make(self, host: np.ndarray[Any, Any]) -> Any:
        """Make a constant, and on a real GPU a copy there: `tf.device` leaves int32 on the host."""
        tensor = self.tensorflow.constant(host)
        if not REAL:
            return tensor
        copy = tensor.gpu()
        assert copy.backing_device.endswith("GPU:0"), f"copied to {copy.backing_device}"
        return copy

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """Ask the tensor."""
        return array.numpy()


class Numba(Maker):
    """Device arrays of Numba, which speak CUDA's array interface, on both GPUs."""

    def __init__(self) -> None:
        self.cuda = need("numba.cuda")

    def make(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy to the device and wait."""
        array = self.cuda.to_device(host)
        self.cuda.synchronize()
        return array

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy back."""
        return array.copy_to_host()


class CuPy(Maker):
    """Arrays of CuPy, which wants a real GPU."""

    def __init__(self) -> None:
        self.cupy = need("cupy")

    def make(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy to the device."""
        return self.cupy.asarray(host)

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy back."""
        return array.get()


MAKERS = {
    "gpulend": Maker,
    "torch": Torch,
    "jax": Jax,
    "lent": Lent,
    "numba": Numba,
    "tensorflow": TensorFlow,
    **({"cupy": CuPy} if REAL else {}),
}
WRITABLE = tuple(name for name, maker in MAKERS.items() if maker.writable)
READ_ONLY = tuple(name for name, maker in MAKERS.items() if not maker.writable)
