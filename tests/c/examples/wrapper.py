"""The C++ library of `wrapper.cpp` in Python: `wrapper.py WRAPPER`, with NumPy and torch."""

import ctypes
import gc
import sys
import time

import gpulend
import numpy as np
from gpulend import ctypes_api

library = ctypes.CDLL(sys.argv[1])
floats = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
library.vectorAddWrapper.argtypes = (floats, floats, floats, ctypes.c_int)
library.vectorAddLease.argtypes = (floats, floats, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))


def settle(count):
    """Wait until no more is held: a thread of gpulend's releases what the GPU is done with."""
    gc.collect()
    for _ in range(1000):
        if len(gpulend.ledger()) <= count:
            break
        gpulend.synchronize()
        time.sleep(0.01)


n = 1024
a = np.arange(n, dtype=np.float32)
b, c = 2 * a, np.zeros_like(a)
if library.vectorAddWrapper(a, b, c, n) != 0:
    sys.exit(ctypes_api.library().gpulend_last_error().decode())
np.testing.assert_array_equal(c, a + b)
print("vectorAddWrapper: right")

# The sums stay where they are: the handle of C++ becomes a lease of Python's, and torch's memory.
handle = ctypes.c_uint64()
if library.vectorAddLease(a, b, n, handle) != 0:
    sys.exit(ctypes_api.library().gpulend_last_error().decode())
lease = ctypes_api.lease(handle)
tensor = lease.lend("torch")
np.testing.assert_array_equal(tensor.cpu().numpy(), a + b)
print("the same address:", tensor.data_ptr() == lease.address)
settle(2)
print("held:", *(f"{entry.kind} {entry.nbytes}" for entry in gpulend.ledger()))
tensor[0] = -1
print("the same memory:", lease.to_host()[0])
del lease
print("held by torch:", len(gpulend.ledger()) > 0)
del tensor
settle(0)
print("held at last:", len(gpulend.ledger()))
try:
    ctypes_api.library().gpulend_free(handle)
except gpulend.ReleasedError as error:
    print("freed once:", error.code)
