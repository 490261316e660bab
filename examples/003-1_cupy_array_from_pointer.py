"""003-1: a CuPy array over a raw pointer

Wished: memory of cudaMalloc as a CuPy array, without a copy.
As written: cupy.cuda.runtime has no deviceMalloc, no deviceFree and no memcpyKind: they are malloc,
    free and memcpyDeviceToDevice; and the memory would be freed while the array is still there.
Here: `wrap` takes the pointer and what frees it, which is called when the last user is done.
"""

import threading

import cupy as cp
import gpulend

size = 1024 * 4
ptr = cp.cuda.runtime.malloc(size)
data = cp.arange(1024, dtype=cp.float32)
cp.cuda.runtime.memcpy(ptr, data.data.ptr, size, cp.cuda.runtime.memcpyDeviceToDevice)
freed = threading.Event()


def free(address, nbytes):
    """Give the memory back: called once, when neither the lease nor an array uses it."""
    cp.cuda.runtime.free(address)
    freed.set()


lease = gpulend.wrap(ptr, (1024,), "float32", deleter=free)
device = f"{lease.device}-simulated" if lease.simulated else lease.device
cupy_array = lease.lend("cupy")
del lease  # the array holds the memory now
print(cupy_array)
assert cupy_array.data.ptr == ptr
assert bool((cupy_array == data).all())
del cupy_array
assert freed.wait(10)

print("ok 003-1", device, "cupy", cp.__version__)
