"""001-3: the same with float64

Wished: a float64 tensor over an address.
As written: as 001-2; and an address alone says nothing of the type that lies there.
Here: the type goes with the lease, and kernels compare it with their own parameters.
"""

import gpulend
import torch

data_shape = (2, 3)
data_type = torch.float64
if torch.cuda.is_available():
    cuda_tensor = torch.empty(data_shape, dtype=data_type, device="cuda")
else:  # a torch for the CPU holds memory of the simulated GPU, if it is given some
    cuda_tensor = gpulend.empty(data_shape, data_type).lend("torch")

lease = gpulend.wrap(cuda_tensor.data_ptr(), data_shape, data_type, owner=cuda_tensor)
tensor = lease.lend("torch")
tensor.copy_(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=data_type))
tensor[0, 0] = 1 / 3  # a float32 would round it
assert tensor.dtype == torch.float64
assert cuda_tensor.tolist() == [[1 / 3, 2.0, 3.0], [4.0, 5.0, 6.0]]

try:  # a kernel for other numbers would read nonsense
    gpulend.compile("__global__ void clear(float *x) { x[threadIdx.x] = 0; }")["clear"][1, 6](lease)
    raise SystemExit("a kernel of float took memory of double")
except gpulend.SignatureError as error:
    print("refused:", error)

device = f"{lease.device}-simulated" if lease.simulated else lease.device
print("ok 001-3", device, "torch", torch.__version__)
