"""000-1: the CUDA pointer of a TensorFlow tensor

Wished: device ordinal and offset of a tensor on the GPU, and the pointer that they make.
As written: behind `device_ordinal =` stands nothing, so Python refuses the file; and what IdentityN
    returns are tensors again, which tell no address.
Here: `describe` tells where a tensor's memory is, as the driver knows it.
"""

import gpulend
import numpy as np
import tensorflow as tf

values = np.random.rand(1024, 1024).astype(np.float32)
if tf.config.list_physical_devices("GPU"):
    with tf.device("/GPU:0"):
        x = tf.constant(values)
else:  # a TensorFlow for the CPU holds tensors of the simulated GPU, if it is given them
    x = gpulend.from_host(values).lend("tensorflow")

passport = gpulend.describe(x)
device_ordinal = passport.device.index
offset = passport.offset  # in bytes, from where the allocation begins
cuda_pointer = passport.base + offset
print(f"device {device_ordinal}, {passport.base:#x} + {offset} = {cuda_pointer:#x}")

# The pointer is all that is needed to find x again. `owner` keeps x alive meanwhile.
found = gpulend.wrap(cuda_pointer, x.shape, "float32", owner=x, readonly=True)
assert found.device.kind == "cuda"
assert found.device.index == device_ordinal
assert np.array_equal(found.to_host(), values)

device = f"{found.device}-simulated" if found.simulated else found.device
print("ok 000-1", device, "tensorflow", tf.__version__)
