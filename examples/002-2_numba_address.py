"""002-2: the address of Numba's memory, and a kernel on it

Wished: the address of Numba's memory on the GPU, and a kernel that changes it.
As written: add_one_numba[256,] is no launch, as the size of a block is missing.
Here: `borrow` tells the address, and Numba's kernels take what `lend` makes of any memory.
    cuda.jit wants a real GPU and NVIDIA's compiler.
"""

import numpy as np

if not hasattr(np, "row_stack"):  # NumPy 2.5 has it no more, and numba-cuda 0.30 launches with it
    np.row_stack = np.vstack
import gpulend
import numba
from numba import cuda


@cuda.jit
def add_one_numba(array):
    """Add one to each number."""
    idx = cuda.grid(1)
    if idx < array.size:
        array[idx] += 1.0


host_array = np.arange(1024, dtype=np.float32)
gpu_array = cuda.to_device(host_array)
lease = gpulend.borrow(gpu_array)
assert lease.address == gpu_array.device_ctypes_pointer.value
add_one_numba[4, 256](gpu_array)
add_one_numba[4, 256](lease.lend("numba"))  # the same memory, as it would be anybody's
assert np.array_equal(gpu_array.copy_to_host(), host_array + 2)

device = f"{lease.device}-simulated" if lease.simulated else lease.device
print("ok 002-2", device, "numba", numba.__version__)
