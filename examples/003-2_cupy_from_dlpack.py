"""003-2: cupy.from_dlpack over a raw pointer

Wished: an object with `__dlpack__`, made of a pointer, that cupy.from_dlpack takes.
As written: as 003-1; PyCUDA is imported and not used; `__dlpack__` must take a stream and return a
    capsule, `__dlpack_device__` two numbers; and nobody calls to_dlpack.
Here: a lease has both methods, for CuPy and for whatever else speaks DLPack.
"""

import cupy as cp
import gpulend

size = 1024 * 4
ptr = cp.cuda.runtime.malloc(size)
data = cp.arange(1024, dtype=cp.float32)
cp.cuda.runtime.memcpy(ptr, data.data.ptr, size, cp.cuda.runtime.memcpyDeviceToDevice)

lease = gpulend.wrap(ptr, (1024,), "float32", unowned=True)  # freed by hand, below
cupy_array = cp.from_dlpack(lease)
print(cupy_array)
assert cupy_array.data.ptr == ptr
assert bool((cupy_array == data).all())

try:
    lease.release()
    raise SystemExit("the lease ended while CuPy had the memory")
except gpulend.StillLentError as error:
    print("refused:", error)

device = f"{lease.device}-simulated" if lease.simulated else lease.device
del cupy_array, lease
cp.cuda.runtime.deviceSynchronize()
cp.cuda.runtime.free(ptr)
print("ok 003-2", device, "cupy", cp.__version__)
