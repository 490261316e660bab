"""000-3: a CUDA kernel on a TensorFlow tensor, and back

Wished: launch a CUDA kernel of one's own on a tensor, and go on with the result in TensorFlow.
As written: it runs and does nothing: pointer, kernel, launch and way back are comments.
Here: the kernel takes the tensor as it takes any array, `lend` makes its result a tensor, and
    nothing is copied. TensorFlow's tensors are never written, so the kernel has `const float *x`.
"""

import gpulend
import numpy as np
import tensorflow as tf

cuda_kernel = gpulend.compile("""
__global__ void scale(const float *x, float *y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = by * x[i];
}
""")["scale"]

x = tf.constant(np.random.rand(1024, 1024), dtype=tf.float32)  # on the GPU, if TensorFlow has one
y = gpulend.empty(x.shape, "float32")
n = y.size
grid_dim, block_dim = (n + 255) // 256, 256
cuda_kernel[grid_dim, block_dim](x, y, 3.0, n)

result = y.lend("tensorflow")  # the same memory, once the kernel is done
assert gpulend.borrow(result).address == y.address
assert bool(tf.reduce_all(result == 3.0 * x))

device = f"{y.device}-simulated" if y.simulated else y.device
print("ok 000-3", device, "tensorflow", tf.__version__)
