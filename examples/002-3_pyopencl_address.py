"""002-3: the address of OpenCL's memory, and kernels on it

Wished: memory of OpenCL, changed by a kernel and used elsewhere.
As written: `device` and `host_array` are never made, a WRITE_ONLY buffer cannot be read, and a
    buffer has no address.
Here: shared virtual memory has one, the same for OpenCL and Python: NumPy uses it where it lies.
    OpenCL and CUDA share no memory, so to CUDA it is copied, by name.
"""

import gpulend
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
print("OpenCL:", queue.device.platform.name, queue.device.version)
memory = cl.SVM(cl.csvm_empty(context, 1024, np.float32))
cl.enqueue_copy(queue, memory, np.arange(1024, dtype=np.float32))
source = "kernel void add_one(global float *array) { array[get_global_id(0)] += 1.0f; }"
cl.Program(context, source).build().add_one(queue, (1024,), None, memory)

lease = gpulend.borrow(memory, ready_on=queue)  # waits for the queue's work
host_array = lease.lend("numpy")
assert host_array.ctypes.data == lease.address == memory.svm_ptr
assert np.array_equal(host_array, np.arange(1, 1025))

gpu_array = gpulend.from_host(lease)  # the copy
source = "__global__ void twice(float *a) { a[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }"
gpulend.compile(source)["twice"][4, 256](gpu_array)
assert np.array_equal(gpu_array.to_host(), host_array * 2)

device = f"{gpu_array.device}-simulated" if gpu_array.simulated else gpu_array.device
print("ok 002-3", device, "pyopencl", cl.VERSION_TEXT)
