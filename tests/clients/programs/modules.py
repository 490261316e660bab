"""PyCUDA with PTX from elsewhere: memory, streams, events, prepared calls, globals, a fault.

The first argument is a file of PTX: what was made of the driver suite's `kernels.cu`.
"""

import sys
from pathlib import Path

import numpy as np
import pycuda.autoprimaryctx
import pycuda.driver as cuda

COUNT, BLOCK = 1000, 125

assert pycuda.autoprimaryctx.device.compute_capability() == (7, 5)
module = cuda.module_from_buffer(Path(sys.argv[1]).read_bytes())
scale, turn, poke = map(module.get_function, ("scale", "turn", "poke"))
numbers = np.arange(COUNT, dtype=np.float32)
result = np.empty_like(numbers)
given, out = cuda.mem_alloc(numbers.nbytes), cuda.mem_alloc(numbers.nbytes)

# Copies and a launch; then one by PyCUDA's own handlers of arguments.
cuda.memcpy_htod(given, numbers)
scale(given, np.float32(2), np.int32(COUNT), block=(BLOCK, 1, 1), grid=(COUNT // BLOCK, 1))
cuda.memcpy_dtoh(result, given)
assert np.array_equal(result, 2 * numbers)
scale(cuda.InOut(result), np.float32(0.5), np.int32(10), block=(16, 1, 1))
assert np.array_equal(result, np.r_[numbers[:10], 2 * numbers[10:]])

# Dynamic shared memory, prepared calls, streams and events.
stream = cuda.Stream()
start, end = cuda.Event(), cuda.Event()
pinned = cuda.pagelocked_empty(COUNT, np.float32)
turn.prepare("PP")
scale.prepare([np.intp, np.float32, np.int32])
start.record(stream)
scale.prepared_async_call((COUNT // BLOCK, 1), (BLOCK, 1, 1), stream, given, 0.5, COUNT)
turn.prepared_async_call(
    *((COUNT // BLOCK, 1), (BLOCK, 1, 1), stream, out, given), shared_size=4 * BLOCK
)
cuda.memcpy_dtoh_async(pinned, out, stream)
end.record(stream)
end.synchronize()
assert end.time_since(start) >= 0
assert np.array_equal(pinned, numbers.reshape(-1, BLOCK)[:, ::-1].ravel())
took = turn.prepared_timed_call(
    *((COUNT // BLOCK, 1), (BLOCK, 1, 1), given, out), shared_size=4 * BLOCK
)
assert took() >= 0
cuda.memcpy_dtoh(result, given)
assert np.array_equal(result, numbers)

# What is known of kernels.
assert turn.max_threads_per_block == 256
assert poke.shared_size_bytes == 16
assert scale.num_regs > 0
assert scale.get_attribute(cuda.function_attribute.PTX_VERSION) == 75

# A variable of the module.
address, size = module.get_global("added")
assert size == 4
cuda.memcpy_htod(address, np.int32(30))
word = np.zeros(1, np.int32)
poke(cuda.Out(word), np.int32(12), block=(1, 1, 1))
assert word[0] == 42

# A fill, and a rectangle.
cuda.memset_d32(given, 7, COUNT)
square = np.zeros((10, 10), np.int32)
copy = cuda.Memcpy2D()
copy.set_src_device(given)
copy.set_dst_host(square)
copy.width_in_bytes = copy.src_pitch = copy.dst_pitch = 40
copy.height = 10
copy(aligned=False)
assert (square == 7).all()

# A faulty kernel is PyCUDA's exception, and the next one runs.
poke(np.intp(0x10), np.int32(1), block=(1, 1, 1))
said = ""
try:
    cuda.Context.synchronize()
except cuda.Error as error:
    said = str(error)
assert "illegal memory access" in said, said
poke(cuda.Out(word), np.int32(13), block=(1, 1, 1))
assert word[0] == 43
print("PyCUDA's modules did it")
