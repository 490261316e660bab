"""003-3: changes of the memory seen in the CuPy array

Wished: memory that is changed through its pointer, and a CuPy array that shows the change.
As written: as 003-1; and once deviceFree was called, nothing keeps the array from being read.
Here: the array is the memory. After it was freed, the lease refuses to hand it out again.
"""

import cupy as cp
import gpulend

size = 1024 * 4
ptr = cp.cuda.runtime.malloc(size)
lease = gpulend.wrap(ptr, (1024,), "float32", unowned=True)
cupy_array = lease.lend("cupy")
lease.copy_from(cp.arange(1024, dtype=cp.float32))
assert cupy_array[0] == 0

# Modify the original memory
new_data = cp.arange(1024, 2048, dtype=cp.float32)
cp.cuda.runtime.memcpy(ptr, new_data.data.ptr, size, cp.cuda.runtime.memcpyDeviceToDevice)
print(cupy_array)
assert bool((cupy_array == new_data).all())

device = f"{lease.device}-simulated" if lease.simulated else lease.device
cp.cuda.runtime.deviceSynchronize()
cp.cuda.runtime.free(ptr)
try:
    lease.lend("cupy")
    raise SystemExit("memory was lent that had been freed")
except gpulend.AddressError as error:
    print("refused:", error)
print("ok 003-3", device, "cupy", cp.__version__)
