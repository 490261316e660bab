"""What the tests launch on: the frameworks with arrays for it, and the documents' kernels."""

from __future__ import annotations

import functools
from typing import Any

import gpulend
import numpy as np
from frameworks import HERE, Gpulend, Torch

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


class Lent(Torch):
    """Tensors of torch over memory of ours."""

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Lend a new lease."""
        return gpulend.from_host(host).lend("torch")


READ_ONLY = ("jax", "tensorflow")
MAKERS = {"gpulend": Gpulend, "lent": Lent} | {
    name: HERE[name]
    for name in ("jax", "torch", "numba", "tensorflow", "warp", "cupy")
    if name in HERE
}
WRITABLE = tuple(name for name in MAKERS if name not in READ_ONLY)
