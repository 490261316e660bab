"""002-1: the address of PyCUDA's memory, and a kernel on it

Wished: the address of a variable on the GPU, and a kernel that changes it.
As written: numpy is not imported, and 4096 bytes go into 1024; and it needs nvcc.
Here: `describe` tells the address, and a kernel of CUDA C says the same of its argument.
    Without a GPU: gpulend run -- python 002-1_pycuda_address.py
"""

import gpulend
import numpy as np
import pycuda
import pycuda.autoprimaryctx  # the context of all libraries; pycuda.autoinit makes another one
import pycuda.driver as cuda

host_array = np.arange(1024, dtype=np.float32)
gpu_array = cuda.mem_alloc(host_array.nbytes)
cuda.memcpy_htod(gpu_array, host_array)

add_one = gpulend.compile("""
__global__ void add_one(float *array, unsigned long long *seen_at) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    array[idx] += 1.0f;
    if (idx == 0) *seen_at = (unsigned long long)array;
}
""")["add_one"]
numbers = gpulend.borrow(gpu_array).view("float32")  # an allocation of PyCUDA is bytes
seen_at = gpulend.empty((), "uint64")
add_one[4, 256](numbers, seen_at)

cuda.memcpy_dtoh(host_array, gpu_array)
assert np.array_equal(host_array, np.arange(1, 1025))
assert gpulend.describe(gpu_array).address == int(gpu_array) == seen_at.to_host().item()

device = f"{numbers.device}-simulated" if numbers.simulated else numbers.device
print("ok 002-1", device, "pycuda", pycuda.VERSION_TEXT)
