"""Vector addition on the GPU with nothing but ctypes: `vector_add.py LIBRARY [CLANG [FOLDERS]]`.

LIBRARY is libgpulend.so, or what `python -m gpulend.config --library` prints. Device memory,
copies, the launch and every error message go through it.
"""

import ctypes
import sys
from ctypes import byref, c_char_p, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p

library = ctypes.CDLL(sys.argv[1])
library.gpulend_last_error.restype = c_char_p

FLOAT32 = 2 | 32 << 8 | 1 << 16
LEASE, INT = 1, 2
CURRENT = c_uint64(0)


class Source(ctypes.Structure):
    """What is to be compiled; of `gpulend_source`, whose pointers to lists stay NULL here."""

    _fields_ = [
        ("size", c_uint64),
        ("text", c_char_p),
        ("bytes", c_uint64),
        ("file", c_char_p),
        ("lists", c_void_p * 4),
        ("counts", c_uint32 * 3),
        ("device", c_int32),
        ("compiler", c_uint32),
        ("reserved", c_uint32),
    ]


class Shape(ctypes.Structure):
    """Blocks and threads: `gpulend_launch_shape`."""

    _fields_ = [
        ("size", c_uint64),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared", c_uint32),
        ("flags", c_uint32),
        ("stream", c_uint64),
    ]


class Argument(ctypes.Structure):
    """What a kernel gets: `gpulend_argument`."""

    _fields_ = [("kind", c_uint32), ("bytes", c_uint32), ("value", c_uint64)]


def check(status):
    """End with the library's own words."""
    if status != 0:
        sys.exit(library.gpulend_last_error().decode())


if len(sys.argv) > 2:
    folders = sys.argv[3].encode() if len(sys.argv) > 3 else None
    check(library.gpulend_set_compilers(sys.argv[2].encode() or None, folders, None))

n = 1024
size = c_uint64(n * ctypes.sizeof(c_float))
a_h, b_h, c_h = ((c_float * n)() for _ in range(3))
for i in range(n):
    a_h[i] = i
    b_h[i] = i * 2

extents = (c_int64 * 1)(n)
a_d, b_d, c_d = (c_uint64() for _ in range(3))
for lease in (a_d, b_d, c_d):
    check(library.gpulend_allocate(0, FLOAT32, 1, extents, CURRENT, byref(lease)))
check(library.gpulend_copy_from_host(a_d, a_h, size, CURRENT))
check(library.gpulend_copy_from_host(b_d, b_h, size, CURRENT))

text = b"""
extern "C" __global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
"""
module, kernel = c_uint64(), c_uint64()
check(library.gpulend_compile(byref(Source(ctypes.sizeof(Source), text)), byref(module)))
check(library.gpulend_kernel_get(module, b"vectorAdd", byref(kernel)))

shape = Shape(ctypes.sizeof(Shape), ((n + 255) // 256, 1, 1), (256, 1, 1))
arguments = (Argument * 4)(
    (LEASE, 0, a_d.value), (LEASE, 0, b_d.value), (LEASE, 0, c_d.value), (INT, 0, n)
)
check(library.gpulend_launch(kernel, byref(shape), arguments, c_uint64(4)))
check(library.gpulend_copy_to_host(c_d, c_h, size, CURRENT))
print(sum(c_h[i] != a_h[i] + b_h[i] for i in range(n)), "errors")

# A number where the kernel wants a pointer is refused with words, and nothing is launched.
arguments[1] = (INT, 0, 7)
print(library.gpulend_launch(kernel, byref(shape), arguments, c_uint64(4)), end=" ")
print(library.gpulend_last_error().decode())

for lease in (a_d, b_d, c_d):
    check(library.gpulend_free(lease))
check(library.gpulend_kernel_free(kernel))
check(library.gpulend_module_free(module))
print(library.gpulend_free(a_d), library.gpulend_last_error().decode())
