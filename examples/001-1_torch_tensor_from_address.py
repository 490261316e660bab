"""001-1: a torch tensor over a CUDA address

Wished: torch.from_dlpack of an address, a shape and a type, without a copy.
As written: ctypes.POINTER(c_float) takes no number; `__dlpack__` must return a capsule and not an
    object that looks like one; device type 1 is the CPU; and nothing lies at the address.
Here: `wrap` asks the driver what lies there, and `lend` makes the tensor.
"""

import gpulend
import torch

data_shape = (2, 3)
data_type = "float32"

# The document's address: an error, where elsewhere the first access ends the process.
try:
    gpulend.wrap(0x1234567890123456, data_shape, data_type, unowned=True)
    raise SystemExit("there is memory at 0x1234567890123456")
except gpulend.AddressError as error:
    print("refused:", error)

# A good one, as another library would give it to you. `owner` is what keeps the memory alive.
library = gpulend.zeros(data_shape, data_type)
cuda_address = library.address

lease = gpulend.wrap(cuda_address, data_shape, data_type, owner=library)
tensor = lease.lend("torch")
tensor[0, 0] = 100.0
print(tensor, tensor.device)
assert tensor.data_ptr() == cuda_address
assert library.to_host().tolist() == [[100.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

device = f"{lease.device}-simulated" if lease.simulated else lease.device
print("ok 001-1", device, "torch", torch.__version__)
