"""What CuPy's guide shows of its three kinds of kernels, here, with NumPy as the reference.

The programs are our own; each does what one example of the guide is about.
"""

from __future__ import annotations

from pathlib import Path

import gpulend
import numpy as np
import pytest

from .arrays import compiled

X = np.arange(10, dtype="float32").reshape(2, 5)
Y = np.arange(5, dtype="float32")


def test_elementwise_of_fixed_types(gpu):
    """Arrays are repeated, numbers are taken, an output can be given."""
    squared = gpulend.elementwise(
        "float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "squared_diff"
    )
    x, y = gpulend.from_host(X), gpulend.from_host(Y)
    np.testing.assert_array_equal(squared(x, y).to_host(), (X - Y) ** 2)
    np.testing.assert_array_equal(squared(x, 5).to_host(), (X - 5) ** 2)
    z = gpulend.empty((2, 5), "float32")
    assert squared(x, y, z) is z
    np.testing.assert_array_equal(z.to_host(), (X - Y) ** 2)


def test_elementwise_of_any_type(gpu):
    """One letter, several statements; and letters for each parameter, with the output given."""
    generic = gpulend.elementwise(
        "T x, T y", "T z", "T diff = x - y; z = diff * diff", "squared_diff_generic"
    )
    for dtype in ("float32", "float64", "int32"):
        x, y = X.astype(dtype), Y.astype(dtype)
        found = generic(gpulend.from_host(x), gpulend.from_host(y))
        np.testing.assert_array_equal(found.to_host(), (x - y) ** 2)
    wide = gpulend.elementwise("X x, Y y", "Z z", "z = (x - y) * (x - y)", "squared_diff_wide")
    z = gpulend.empty((2, 5), "float64")
    wide(gpulend.from_host(X.astype("int32")), gpulend.from_host(Y), z)
    np.testing.assert_array_equal(z.to_host(), (X - Y) ** 2)


def test_elementwise_with_raw_arguments(gpu):
    """An array is read from its end, by the index."""
    reverse = gpulend.elementwise(
        "T x, raw T y", "T z", "z = x + y[_ind.size() - i - 1]", "add_reverse"
    )
    found = reverse(gpulend.from_host(Y), gpulend.from_host(Y * 10))
    np.testing.assert_array_equal(found.to_host(), Y + Y[::-1] * 10)


def test_a_reduction(gpu):
    """The Euclidean norm along an axis."""
    norm = gpulend.reduction("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
    found = norm(gpulend.from_host(X), axis=1)
    np.testing.assert_allclose(found.to_host(), np.linalg.norm(X, axis=1), rtol=1e-6)
    np.testing.assert_allclose(norm(gpulend.from_host(X)).item(), np.linalg.norm(X), rtol=1e-6)


def test_a_raw_kernel(gpu):
    """Compiled from a source; grid and block are the caller's."""
    add = compiled("""
    extern "C" __global__ void my_add(const float *x1, const float *x2, float *y) {
        int at = blockDim.x * blockIdx.x + threadIdx.x;
        y[at] = x1[at] + x2[at];
    }
    """)["my_add"]
    x = np.arange(25, dtype="float32").reshape(5, 5)
    y = gpulend.zeros((5, 5), "float32")
    add[5, 5](gpulend.from_host(x), gpulend.from_host(x * 2), y)
    np.testing.assert_array_equal(y.to_host(), x * 3)


def test_a_raw_kernel_of_complex_numbers(gpu):
    """`float2` takes complex64, as an array and by value."""
    kernel = compiled("""
    extern "C" __global__ void my_func(const float2 *x1, const float2 *x2, float2 *y, float a) {
        int at = blockDim.x * blockIdx.x + threadIdx.x;
        y[at] = make_float2(x1[at].x + a * x2[at].x, x1[at].y + a * x2[at].y);
    }
    """)["my_func"]
    x1 = (np.arange(25) + 1j * np.arange(25)[::-1]).astype("complex64").reshape(5, 5)
    x2 = 1j * np.conj(x1)
    y = gpulend.zeros((5, 5), "complex64")
    kernel[5, 5](gpulend.from_host(x1), gpulend.from_host(x2.astype("complex64")), y, 2.0)
    np.testing.assert_array_equal(y.to_host(), (x1 + 2 * x2).astype("complex64"))


def test_dynamic_shared_memory(gpu):
    """As much as is asked for, beyond what launches have by themselves, without a setting."""
    kernel = compiled("""
    extern "C" __global__ void reversed(const int *x, int *y) {
        extern __shared__ int room[];
        room[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        y[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
    }
    """)["reversed"]
    x = np.arange(64, dtype="int32")
    y = gpulend.zeros(64, "int32")
    kernel[1, 64](gpulend.from_host(x), y, shared=60_000)
    np.testing.assert_array_equal(y.to_host(), x[::-1])


def test_a_struct_by_value_and_in_memory(gpu):
    """A NumPy record is a parameter; an array of records is its bytes."""
    module = compiled("""
    struct Particle { float mass; double at[2]; int id; };
    extern "C" __global__ void energy(const Particle *all, Particle origin, double *out) {
        const Particle one = all[threadIdx.x];
        double x = one.at[0] - origin.at[0], y = one.at[1] - origin.at[1];
        out[threadIdx.x] = one.mass * (x * x + y * y) + origin.id;
    }
    """)
    particle = np.dtype([("mass", "f4"), ("at", "f8", (2,)), ("id", "i4")], align=True)
    all_of_them = np.zeros(4, particle)
    all_of_them["mass"] = [1, 2, 3, 4]
    all_of_them["at"] = np.arange(8).reshape(4, 2)
    origin = np.array((0.0, (1.0, 2.0), 100), particle)
    out = gpulend.zeros(4, "float64")
    module["energy"][1, 4](gpulend.from_host(all_of_them), origin, out)
    apart = all_of_them["at"] - origin["at"]
    wanted = all_of_them["mass"] * (apart**2).sum(axis=1) + 100
    np.testing.assert_array_equal(out.to_host(), wanted)


MODULE = """
extern "C" {
__global__ void test_sum(const float *x1, const float *x2, float *y, unsigned int n) {
    unsigned int at = blockDim.x * blockIdx.x + threadIdx.x;
    if (at < n) y[at] = x1[at] + x2[at];
}
__global__ void test_multiply(const float *x1, const float *x2, float *y, unsigned int n) {
    unsigned int at = blockDim.x * blockIdx.x + threadIdx.x;
    if (at < n) y[at] = x1[at] * x2[at];
}
}
"""


@pytest.mark.parametrize("form", ["source", "ptx", "file"])
def test_a_module_of_several_kernels(gpu, form, tmp_path: Path):
    """From a source, from compiled code, and from a file."""
    if form == "source":
        module = compiled(MODULE)
    else:
        ptx = gpulend.compiler.to_ptx(MODULE)
        file = tmp_path / "module.ptx"
        file.write_text(ptx)
        module = gpulend.compile(file if form == "file" else ptx)
    n = 100
    x = np.arange(n, dtype="float32")
    y = gpulend.zeros(n, "float32")
    both = gpulend.from_host(x), gpulend.from_host(x)
    module["test_sum"][10, 10](*both, y, n)
    np.testing.assert_array_equal(y.to_host(), x + x)
    module["test_multiply"].forall(n)(*both, y, n)
    np.testing.assert_array_equal(y.to_host(), x * x)


def test_templates_by_name(gpu):
    """Instances are named in C++; each has its own types."""
    module = compiled(
        """
    template <class T> __global__ void fused(T *x, T by, int n) {
        int at = blockDim.x * blockIdx.x + threadIdx.x;
        if (at < n) x[at] = x[at] * by + T(1);
    }
    """,
        names=("fused<int>", "fused<double>"),
    )
    for name, dtype in (("fused<int>", "int32"), ("fused<double>", "float64")):
        x = np.arange(10).astype(dtype)
        lease = gpulend.from_host(x)
        module[name][1, 10](lease, 3, 10)
        np.testing.assert_array_equal(lease.to_host(), x * 3 + 1)


def test_variables_of_a_module(gpu):
    """Constants are written by the host and read by kernels."""
    module = compiled("""
    __constant__ float weights[4];
    extern "C" __global__ void weigh(float *x) { x[threadIdx.x] *= weights[threadIdx.x]; }
    """)
    weights = module.variable("weights")
    assert (weights.shape, weights.dtype) == ((4,), "float32")
    weights.copy_from(np.array([1, 10, 100, 1000], "float32"))
    x = gpulend.full(4, 2.0)
    module["weigh"][1, 4](x)
    assert x.to_host().tolist() == [2, 20, 200, 2000]


def test_occupancy_and_attributes(gpu):
    """What the guide asks of a kernel."""
    kernel = compiled(MODULE)["test_sum"]
    assert kernel.attributes["registers"] > 0
    assert kernel.attributes["max_threads_per_block"] >= 256
    assert 0 < kernel.occupancy(256) <= 1
