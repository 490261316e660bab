"""The memory of `runtime.cpp` in torch, without a copy: `runtime.py LIBRARY`."""

import ctypes
import gc
import sys
import time

import gpulend
from gpulend import ctypes_api

library = ctypes.CDLL(sys.argv[1])
handle = ctypes.c_uint64()
if library.makeRamp(1000, ctypes.byref(handle)) != 0:
    sys.exit(ctypes_api.library().gpulend_last_error().decode())
lease = ctypes_api.lease(handle)
tensor = lease.lend("torch")
print("the same address:", tensor.data_ptr() == lease.address)
print("on", tensor.device)
print("its sum:", tensor.sum().item())
del lease
gc.collect()
gpulend.synchronize()
print("freed while torch has it:", library.howOftenFreed())
del tensor
gc.collect()
gpulend.synchronize()
# A thread of gpulend's calls cudaFree when the GPU is done.
for _ in range(1000):
    if library.howOftenFreed():
        break
    time.sleep(0.01)
print("freed at last:", library.howOftenFreed())
