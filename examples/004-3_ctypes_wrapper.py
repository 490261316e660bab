"""004-3: a C function that hides the GPU

Wished: extern "C" int vectorAddWrapper(float *, float *, float *, int), which does
    all that CUDA wants.
As written: its body is a comment, and so is the call.
Here: the body. ctypes makes it a C function, whose pointer C and C++ can call as well.
"""

import ctypes
import platform

import gpulend

add = gpulend.compile("""
__global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}""")["vectorAdd"]
floats = ctypes.POINTER(ctypes.c_float)


@ctypes.CFUNCTYPE(ctypes.c_int, floats, floats, floats, ctypes.c_int)
def vector_add_wrapper(a, b, c, n):
    """Add two arrays of n numbers; return 0, or the code of what went wrong."""
    try:
        a, b, c = (gpulend.wrap(pointer, n, "float32", unowned=True) for pointer in (a, b, c))
        total = gpulend.empty(n, "float32")
        add.forall(n)(gpulend.from_host(a), gpulend.from_host(b), total, n)
        total.copy_to(c)
    except gpulend.Error as error:
        return error.code
    return 0


a, b, c = ((ctypes.c_float * 3)(*values) for values in ((1, 2, 3), (10, 20, 30), ()))
assert (vector_add_wrapper(a, b, c, 3), list(c)) == (0, [11.0, 22.0, 33.0])
d = gpulend.from_host(c)
device = f"{d.device}-simulated" if d.simulated else d.device
print("ok 004-3", device, "ctypes", platform.python_version())
