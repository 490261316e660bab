"""PyCUDA's arrays: arithmetic, reductions and kernels of the program's own formulas."""

import warnings

import numpy as np
import pycuda.autoprimaryctx
from pycuda import cumath, gpuarray
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel

warnings.simplefilter("error")
COUNT = 5000
random = np.random.default_rng(2)
assert pycuda.autoprimaryctx.context is not None

# Arithmetic in the types that programs have.
for kind in (np.int32, np.float32, np.float64):
    left = random.integers(1, 100, COUNT).astype(kind)
    right = random.integers(1, 100, COUNT).astype(kind)
    a, b = gpuarray.to_gpu(left), gpuarray.to_gpu(right)
    assert np.array_equal((a + b).get(), left + right)
    assert np.array_equal((a - b).get(), left - right)
    assert np.array_equal((3 * a * b + 1).get(), 3 * left * right + 1)
    assert np.array_equal((a > b).get() != 0, left > right)
    assert np.array_equal(a[10:4000].get(), left[10:4000])
    assert gpuarray.sum(a).get() == left.sum()
    assert gpuarray.max(a).get() == left.max()
    assert gpuarray.min(a).get() == left.min()
    assert gpuarray.dot(a, b).get() == left.dot(right)
    a += b
    a.fill(7)
    assert (a.get() == 7).all()
left = random.standard_normal((50, 100)).astype(np.float32)
a = gpuarray.to_gpu(left)
assert np.allclose((a / 3).get(), left / 3)
assert np.allclose((1 / a).get(), 1 / left)
assert np.allclose((a**2).get(), left**2)
assert np.array_equal(abs(a).get(), abs(left))
assert np.array_equal((-a).get(), -left)
assert np.array_equal(a.reshape(100, 50).get(), left.reshape(100, 50))
assert np.array_equal(gpuarray.maximum(a, -a).get(), abs(left))
assert np.array_equal(gpuarray.if_positive(a, a, 2 * a).get(), np.where(left > 0, left, 2 * left))
assert np.array_equal(gpuarray.arange(0, 100, 3, dtype=np.int32).get(), np.arange(0, 100, 3))
assert (gpuarray.zeros(77, np.float64).get() == 0).all()

# Complex numbers, by PyCUDA's own header.
for kind in (np.complex64, np.complex128):
    left = (random.standard_normal(COUNT) + 1j * random.standard_normal(COUNT)).astype(kind)
    right = (random.standard_normal(COUNT) + 1j * random.standard_normal(COUNT)).astype(kind)
    a, b = gpuarray.to_gpu(left), gpuarray.to_gpu(right)
    assert np.allclose((a * b).get(), left * right)
    assert np.allclose((a / b).get(), left / right, rtol=1e-4)
    assert np.allclose(a.conj().get(), left.conj())
    assert np.allclose(abs(a).get(), abs(left))
    assert np.allclose(a.real.get(), left.real)
    assert np.allclose(a.imag.get(), left.imag)
    assert np.allclose(cumath.exp(a).get(), np.exp(left), rtol=1e-4)
    assert np.allclose(cumath.log10(a).get(), np.log10(left), rtol=1e-4, atol=1e-6)
    assert np.allclose(gpuarray.sum(a).get(), left.sum(), rtol=1e-3)

# Functions of mathematics.
left = random.uniform(0.1, 0.9, COUNT)
a = gpuarray.to_gpu(left)
for name in ("sin", "exp", "log10", "sqrt", "floor", "sinh"):
    assert np.allclose(getattr(cumath, name)(a).get(), getattr(np, name)(left)), name
# PyCUDA has this one for float32 only.
left = left.astype(np.float32)
rest = cumath.fmod(gpuarray.to_gpu(10 * left), gpuarray.to_gpu(np.ones(COUNT, np.float32)))
assert np.array_equal(rest.get(), np.fmod(10 * left, np.float32(1)))

# Formulas of the program's own.
combine = ElementwiseKernel(
    "float a, float *x, float b, float *y, float *z", "z[i] = a * x[i] + b * y[i]", "combine"
)
x = gpuarray.to_gpu(np.arange(COUNT, dtype=np.float32))
y, z = gpuarray.to_gpu(np.ones(COUNT, np.float32)), gpuarray.empty(COUNT, np.float32)
combine(5, x, 6, y, z)
assert np.array_equal(z.get(), 5 * np.arange(COUNT, dtype=np.float32) + 6)
product = ReductionKernel(
    *(np.float64, "0"), reduce_expr="a+b", map_expr="x[i]*y[i]", arguments="float *x, double *y"
)
weights = random.standard_normal(COUNT)
found = product(x, gpuarray.to_gpu(weights)).get()
assert np.isclose(found, np.arange(COUNT) @ weights)
assert (
    ReductionKernel(
        *(np.int32, "-1"), reduce_expr="max(a,b)", map_expr="x[i] % 1000", arguments="int *x"
    )(gpuarray.to_gpu(np.arange(COUNT, dtype=np.int32))).get()
    == 999
)
print("PyCUDA's arrays did it")
