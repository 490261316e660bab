"""cuda.core as its users write it: memory, pools, streams, events, views, DLPack."""

import numpy as np
from cuda.core import (
    Buffer,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    EventOptions,
    LegacyPinnedMemoryResource,
    StreamOptions,
)
from cuda.core.utils import StridedMemoryView

SIZE = 4096

device = Device(0)
device.set_current()
stream = device.create_stream(options=StreamOptions(nonblocking=True, priority=-1))
other = device.create_stream()

# Memory: of the device's own pool, of a pool of our own, pinned.
default = device.allocate(SIZE, stream=stream)
resource = DeviceMemoryResource(device, DeviceMemoryResourceOptions(max_size=64 << 20))
pooled = resource.allocate(SIZE, stream=stream)
pinned = LegacyPinnedMemoryResource().allocate(SIZE)
back = LegacyPinnedMemoryResource().allocate(SIZE)
assert pooled.is_device_accessible
assert not pooled.is_host_accessible
assert pinned.is_host_accessible
assert resource.attributes.used_mem_current == SIZE
assert resource.attributes.reserved_mem_current >= SIZE

# Copies in stream order, and across streams by an event.
numbers = np.from_dlpack(pinned)
assert numbers.nbytes == SIZE
numbers[:] = np.arange(SIZE) % 100
pinned.copy_to(default, stream=stream)
default.copy_to(pooled, stream=stream)
timed = EventOptions(timing_enabled=True)
start = stream.record(options=timed)
other.wait(start)
pooled.copy_to(back, stream=other)
end = other.record(options=timed)
end.sync()
assert end.is_done
assert end - start >= 0
assert np.array_equal(np.from_dlpack(back), numbers)

# Fills.
pooled.fill(7, stream=other)
back.copy_from(pooled, stream=other)
other.sync()
assert (np.from_dlpack(back) == 7).all()

# DLPack and views: the same address, the device's kind.
assert pooled.__dlpack_device__() == (2, 0)
view = StridedMemoryView.from_dlpack(pooled, stream_ptr=int(stream.handle))
assert view.ptr == int(pooled.handle)
assert (view.shape, view.device_id, view.is_device_accessible) == ((SIZE,), 0, True)
assert StridedMemoryView.from_dlpack(pinned, stream_ptr=-1).ptr == int(pinned.handle)

# A foreign address as a buffer.
alias = Buffer.from_handle(int(pooled.handle), SIZE, owner=pooled)
alias.copy_to(back, stream=other)
other.sync()

for buffer in (alias, default, pooled):
    buffer.close(stream)
for buffer in (pinned, back):
    buffer.close()
stream.sync()
assert resource.attributes.used_mem_current == 0
# Not `device.sync()`: cuda.core asks CUDA's runtime library for that, which wants more of a driver
# than its public interface.
other.sync()
print(f"{device.name} did it")
