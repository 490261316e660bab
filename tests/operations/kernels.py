"""The kernels that the tests make operations of, and their descriptions for both frameworks."""

from __future__ import annotations

import functools
from typing import Any

import gpulend

SOURCE = """
#include <cuda_bf16.h>
#define HERE int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;

// A bias for each column, and GELU of the sum, in one pass over the memory.
template <typename T>
__global__ void bias_gelu(const T *x, const T *bias, T *y, int columns, int n) {
    HERE
    T z = x[i] + bias[i % columns];
    y[i] = T(0.5) * z * (T(1) + erf(z * T(0.70710678118654752440)));
}

template <typename T>
__global__ void bias_gelu_backward(
    const T *grad_y, const T *x, const T *bias, T *grad_x, T *grad_bias, int columns, int n
) {
    HERE
    T z = x[i] + bias[i % columns];
    T below = T(0.5) * (T(1) + erf(z * T(0.70710678118654752440)));
    T density = T(0.39894228040143267794) * exp(T(-0.5) * z * z);
    grad_x[i] = grad_y[i] * (below + z * density);
    atomicAdd(&grad_bias[i % columns], grad_x[i]);
}

extern "C" __global__ void scale(const float *x, float *y, float by, int n) {
    HERE
    y[i] = x[i] * by;
}
extern "C" __global__ void scale_backward(const float *grad_y, float *grad_x, float by, int n) {
    HERE
    grad_x[i] = grad_y[i] * by;
}
// Its derivative is itself: the backward takes the forward's output.
extern "C" __global__ void raised(const float *x, float *y, int n) {
    HERE
    y[i] = expf(x[i]);
}
extern "C" __global__ void raised_backward(
    const float *grad_y, const float *y, float *grad_x, int n
) {
    HERE
    grad_x[i] = grad_y[i] * y[i];
}
// A number that is known only when the program runs is in memory.
extern "C" __global__ void halves(
    const __nv_bfloat16 *x, const float *by, const bool *which, __nv_bfloat16 *y, int n
) {
    HERE
    y[i] = which[i] ? __float2bfloat16(__bfloat162float(x[i]) * *by) : x[i];
}
extern "C" __global__ void add_to(float *x, const float *y, int n) {
    HERE
    x[i] += y[i];
}
extern "C" __global__ void copy(const float *in, float *out, int is, int n) {
    HERE
    out[i] = in[i] + is;
}
// Two results; the second has another shape and type.
extern "C" __global__ void split(const float *x, float *whole, int *signs, int n) {
    HERE
    whole[i] = floorf(x[i]);
    signs[i] = x[i] < 0 ? -1 : 1;
}
extern "C" __global__ void repeat(const int *x, int *y, int times, bool negate, int n) {
    HERE
    for (int k = 0; k < times; k++) y[i * times + k] = negate ? -x[i] : x[i];
}
extern "C" __global__ void rows(const float *x, float *y, int columns) {
    extern __shared__ float part[];
    part[threadIdx.x] = x[blockIdx.x * columns + threadIdx.x];
    __syncthreads();
    if (threadIdx.x > 0) return;
    float sum = 0;
    for (int k = 0; k < columns; k++) sum += part[k];
    y[blockIdx.x] = sum;
}
extern "C" __global__ void outside(const float *x, float *y, int n) {
    HERE
    y[i] = x[i + 1000000];
}
extern "C" __global__ void places(const float *x, float *y, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) y[row * columns + column] = row * 1000 + column;
}
struct Pair { int a, b; };
extern "C" __global__ void paired(const int *x, int *y, Pair pair, int n) {
    HERE
    y[i] = x[i] * pair.a + pair.b;
}
extern "C" __global__ void raw(const float *x, void *y, int n) {}
extern "C" __global__ void reads(const float *x, int n) {}
extern "C" __global__ void makes(float *y, int n) {}
"""


@functools.cache
def module() -> gpulend.Module:
    """Compile the kernels once."""
    return gpulend.compile(
        SOURCE,
        names=[f"bias_gelu{end}<{of}>" for end in ("", "_backward") for of in ("float", "double")],
    )


def kernel(name: str) -> gpulend.Kernel:
    """Return a kernel."""
    return module()[name]


def one_each(array: str, **others: Any) -> dict[str, Any]:
    """Describe a launch with one thread for each element of an array, and their number as `n`."""
    return {"values": {"n": array, **others.pop("values", {})}, "elements": array, **others}


BIAS_GELU = one_each("x", outputs={"y": "x"}, values={"columns": "bias"})
BIAS_GELU_BACKWARD = one_each(
    "x",
    outputs={"grad_x": "x", "grad_bias": "bias"},
    values={"columns": "bias"},
    zeroed={"grad_bias"},
)
SCALE = one_each("x", outputs={"y": "x"})
SCALE_BACKWARD = one_each("grad_y", outputs={"grad_x": "grad_y"})
RAISED = one_each("x", outputs={"y": "x"})
RAISED_BACKWARD = one_each("y", outputs={"grad_x": "y"})
HALVES = one_each("x", outputs={"y": "x"})
ADD_TO = one_each("x")
COPY = {
    "outputs": {"out": "in"},
    "values": {"n": lambda in_, is_: in_.size + 0 * is_},
    "elements": "in",
}
SPLIT = one_each("x", outputs={"whole": "x", "signs": lambda x: (x.size,)})
REPEAT = one_each("x", outputs={"y": lambda x, times: (x.shape[0], times)})
ROWS = {
    "outputs": {"y": lambda x: (x.shape[0],)},
    "values": {"columns": lambda x: x.shape[1]},
    "grid": lambda x: x.shape[0],
    "block": lambda x: (x.shape[1], 1, 1),
    "shared": lambda x: 4 * x.shape[1],
}
PLACES = {
    "outputs": {"y": "x"},
    "values": {"rows": lambda x: x.shape[0], "columns": lambda x: x.shape[1]},
    "elements": lambda x: x.shape,
}
