"""000-2: a tensor's GPU memory in a TensorFlow session

Wished: what a session computes on the GPU, as GPU memory.
As written: sess.run returns a copy in the CPU's memory, as the document itself says.
Here: `tf.py_function` hands the tensor itself to a function, in a session too: a kernel reads it
    there, where it lies.
"""

import gpulend
import numpy as np
import tensorflow as tf

add_one = gpulend.compile("""
__global__ void add_one(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1.0f;
}
""")["add_one"]
values = np.random.rand(1024, 1024).astype(np.float32)
y = gpulend.empty(values.shape, "float32")


def use(x):
    """Queue the kernel on the tensor's own memory."""
    add_one.forall(y.size)(x, y, y.size)


with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    x = tf.constant(values) * 2  # on the GPU, where TensorFlow has one
    session.run(tf.py_function(use, [x], []))

assert np.array_equal(y.to_host(), values * 2 + 1)
device = f"{y.device}-simulated" if y.simulated else y.device
print("ok 000-2", device, "tensorflow", tf.__version__)
