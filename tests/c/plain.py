"""Device memory and copies with nothing but ctypes and the header at hand."""

import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
library.gpulend_last_error.restype = ctypes.c_char_p

FLOAT32 = 2 | 32 << 8 | 1 << 16
count = 1024
a_h, b_h, c_h = ((ctypes.c_float * count)() for _ in range(3))
for i in range(count):
    a_h[i], b_h[i] = i, 2 * i


def check(status):
    """End with the library's own words."""
    if status != 0:
        sys.exit(library.gpulend_last_error().decode())


shape = (ctypes.c_int64 * 1)(count)
size = ctypes.c_uint64(ctypes.sizeof(a_h))
current = ctypes.c_uint64(0)
a_d, b_d, c_d = (ctypes.c_uint64() for _ in range(3))
for lease in (a_d, b_d, c_d):
    check(library.gpulend_allocate(0, FLOAT32, 1, shape, current, ctypes.byref(lease)))
check(library.gpulend_copy_from_host(a_d, a_h, size, current))
check(library.gpulend_copy_from_host(b_d, b_h, size, current))
check(library.gpulend_copy(b_d, c_d, current))
check(library.gpulend_copy_to_host(c_d, c_h, size, current))
assert list(c_h) == [2 * i for i in range(count)]
for lease in (a_d, b_d, c_d):
    check(library.gpulend_free(lease))
print("done")
print(library.gpulend_free(a_d), library.gpulend_last_error().decode())
