"""004-1: the C program's vector addition, from Python

Wished: allocate on the GPU, copy there, launch a kernel, copy back, free, with ctypes' arrays.
As written: C, which nvcc must compile; and its main takes no arrays, so none of Python's go in.
Here: the same kernel and the same steps in the same order, one line each.
"""

import ctypes
import platform

import gpulend

vectorAdd = gpulend.compile("""
__global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
""")["vectorAdd"]

n = 1024
a_h = (ctypes.c_float * n)(*range(n))
b_h = (ctypes.c_float * n)(*range(0, 2 * n, 2))
c_h = (ctypes.c_float * n)()

a_d, b_d, c_d = (gpulend.empty(n, "float32") for _ in range(3))  # cudaMalloc
with a_d, b_d, c_d:  # cudaFree, at the end
    a_d.copy_from(a_h)  # cudaMemcpyHostToDevice
    b_d.copy_from(b_h)
    vectorAdd[(n + 255) // 256, 256](a_d, b_d, c_d, n)
    c_d.copy_to(c_h)  # cudaMemcpyDeviceToHost
    device = f"{c_d.device}-simulated" if c_d.simulated else c_d.device
assert all(c_h[i] == a_h[i] + b_h[i] for i in range(n))

print("ok 004-1", device, "ctypes", platform.python_version())
