"""PyCUDA as its tutorial has it: CUDA C in a string, compiled while the program runs.

The first argument is a folder that is empty.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

warnings.simplefilter("error")
folder = Path(sys.argv[1])
assert pycuda.autoinit.device.count() >= 1

# The first program of the tutorial.
doubled = SourceModule("""
__global__ void doublify(float *a)
{
  int idx = threadIdx.x + threadIdx.y*4;
  a[idx] *= 2;
}
""")
numbers = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
result = numbers.copy()
doubled.get_function("doublify")(cuda.InOut(result), block=(4, 4, 1))
assert np.array_equal(result, 2 * numbers)

# Constants, macros, a header of the program's own, and shared memory of two sizes.
(folder / "shapes.h").write_text("#define COLUMNS 8\n")
SOURCE = """
#include <stdio.h>
#include "shapes.h"
__constant__ int weights[COLUMNS];
__global__ void weigh(int *sums, const int *rows)
{
    __shared__ int products[COLUMNS];
    extern __shared__ int more[];
    products[threadIdx.x] = rows[blockIdx.x * COLUMNS + threadIdx.x] * weights[threadIdx.x];
    more[threadIdx.x] = BIAS;
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < COLUMNS; i++) sum += products[i] + more[i];
        sums[blockIdx.x] = sum;
    }
}
"""


def weighed():
    """Compile and run with whatever is in the header now."""
    module = SourceModule(SOURCE, options=["-DBIAS=2", "-O2"], include_dirs=[str(folder)])
    address, size = module.get_global("weights")
    count = size // 4
    weights = np.arange(count, dtype=np.int32)
    cuda.memcpy_htod(address, weights)
    rows = np.arange(5 * count, dtype=np.int32).reshape(5, count)
    sums = np.zeros(5, np.int32)
    module.get_function("weigh")(
        *(cuda.Out(sums), cuda.In(rows)), block=(count, 1, 1), grid=(5, 1), shared=4 * count
    )
    assert np.array_equal(sums, rows @ weights + 2 * count)
    return count


assert weighed() == 8
assert weighed() == 8
# PyCUDA keeps what it compiled by the text that the preprocessor gives: a header that changed.
(folder / "shapes.h").write_text("#define COLUMNS 16\n")
assert weighed() == 16

# C++, by the name that it has there.
templates = SourceModule(
    """
template <class T> __device__ T twice(T x) { return x + x; }
extern "C" __global__ void all(double *x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
""",
    no_extern_c=True,
)
values = np.linspace(0, 1, 33)
expected = 2 * values
templates.get_function("all")(cuda.InOut(values), block=(33, 1, 1))
assert np.array_equal(values, expected)

# A mistake is PyCUDA's own exception, with the compiler's words.
said = ""
try:
    SourceModule("__global__ void wrong(int *p) { *p = nothing; }")
except cuda.CompileError as error:
    said = str(error)
assert "kernel.cu:2:38: error: use of undeclared identifier 'nothing'" in said, said
print("PyCUDA's sources did it")
