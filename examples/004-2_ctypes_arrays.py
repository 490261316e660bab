"""004-2: a CUDA kernel on arrays of ctypes

Wished: load CUDA code, give it arrays of ctypes, find the result in c_h.
As written: lib.main() takes no arguments, so the kernel never sees a_h and b_h, and c_h stays zero.
Here: `compile` takes the place of nvcc and CDLL. A kernel is called with arrays of the GPU, and
    `from_host` makes them; arrays of the CPU are refused before anything runs.
"""

import ctypes
import platform

import gpulend

lib = gpulend.compile("""
__global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""")
n = 1024
a_h = (ctypes.c_float * n)(*range(n))
b_h = (ctypes.c_float * n)(*range(0, 2 * n, 2))
c_h = (ctypes.c_float * n)()

c_d = gpulend.empty(n, "float32")
lib["vectorAdd"].forall(n)(gpulend.from_host(a_h), gpulend.from_host(b_h), c_d, n)
c_d.copy_to(c_h)
assert list(c_h) == [3.0 * i for i in range(n)]

try:
    lib["vectorAdd"].forall(n)(a_h, b_h, c_d, n)
    raise SystemExit("a kernel took memory of the CPU")
except gpulend.SignatureError as error:
    print("refused:", error)
device = f"{c_d.device}-simulated" if c_d.simulated else c_d.device
print("ok 004-2", device, "ctypes", platform.python_version())
