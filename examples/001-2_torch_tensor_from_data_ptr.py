"""001-2: a torch tensor over another tensor's data_ptr

Wished: from the address of a torch tensor, another tensor that writes the same memory.
As written: np.dtype("torch.float32") is no type; ctypes.POINTER(c_void_p) takes no number; an
    object is no DLPack capsule; device type 1 is the CPU.
Here: `wrap` takes the number as it is, and torch's own name of the type.
"""

import gpulend
import torch

data_shape = (2, 3)
data_type = torch.float32
if torch.cuda.is_available():
    cuda_tensor = torch.empty(data_shape, dtype=data_type, device="cuda")
else:  # a torch for the CPU holds memory of the simulated GPU, if it is given some
    cuda_tensor = gpulend.empty(data_shape, data_type).lend("torch")
cuda_pointer = cuda_tensor.data_ptr()

lease = gpulend.wrap(cuda_pointer, data_shape, data_type, owner=cuda_tensor)
tensor = lease.lend("torch")
assert lease.device.kind == "cuda"
assert tensor.device == cuda_tensor.device

tensor.copy_(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=data_type))
tensor[0, 0] = 100.0
print(cuda_tensor)
assert cuda_tensor.tolist() == [[100.0, 2.0, 3.0], [4.0, 5.0, 6.0]]

device = f"{lease.device}-simulated" if lease.simulated else lease.device
print("ok 001-2", device, "torch", torch.__version__)
