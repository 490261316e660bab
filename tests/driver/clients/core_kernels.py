"""cuda.core as its users write it: kernels from PTX, launched, described, captured, and faulty.

The first argument is a file of PTX: what was made of `kernels.cu`. The second, `goes-on`, says that
a device outlives a faulty kernel, which hardware does not.
"""

import sys
from pathlib import Path

import numpy as np
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, launch
from cuda.core._utils.cuda_utils import CUDAError

COUNT, BLOCK = 1000, 128

device = Device(0)
device.set_current()
stream = device.create_stream()
code = ObjectCode.from_ptx(Path(sys.argv[1]).read_bytes())
scale, turn, poke = (code.get_kernel(name) for name in ("scale", "turn", "poke"))

pinned = LegacyPinnedMemoryResource()
given, back = pinned.allocate(4 * COUNT), pinned.allocate(4 * COUNT)
on_device = device.allocate(4 * COUNT, stream=stream)
turned = device.allocate(4 * COUNT, stream=stream)
numbers = np.from_dlpack(given).view(np.float32)
result = np.from_dlpack(back).view(np.float32)
numbers[:] = np.arange(COUNT)

# A launch between two copies, in stream order: scalars as wide as NumPy's.
everything = LaunchConfig(grid=-(-COUNT // BLOCK), block=BLOCK)
on_device.copy_from(given, stream=stream)
launch(stream, everything, scale, on_device, np.float32(2.5), np.int32(COUNT))
back.copy_from(on_device, stream=stream)
stream.sync()
assert np.array_equal(result, numbers * np.float32(2.5))

# What is known of a kernel.
assert scale.num_arguments == 3
assert [(one.offset, one.size) for one in scale.arguments_info] == [(0, 8), (8, 4), (12, 4)]
assert scale.attributes.max_threads_per_block == 1024
assert scale.attributes.shared_size_bytes == 0
assert poke.attributes.shared_size_bytes == 16
assert turn.attributes.max_threads_per_block == 256
assert turn.attributes.ptx_version == 75
assert 0 < scale.attributes.num_regs <= 255
most = scale.occupancy.max_active_blocks_per_multiprocessor(BLOCK, 0)
assert most * BLOCK <= device.properties.max_threads_per_multiprocessor
assert most > 0
crowded = turn.occupancy.max_active_blocks_per_multiprocessor(BLOCK, 40 << 10)
assert 0 < crowded < most
best = scale.occupancy.max_potential_block_size(0, 0)
assert 0 < best.max_block_size <= 1024
assert best.min_grid_size > 0
room = turn.occupancy.available_dynamic_shared_memory_per_block(1, BLOCK)
assert 0 < room <= device.properties.max_shared_memory_per_block

# Shared memory whose size the launch says: each block turns its piece around.
launch(
    stream,
    LaunchConfig(grid=COUNT // 125, block=125, shmem_size=125 * 4),
    turn,
    *(turned, on_device),
)
back.copy_from(turned, stream=stream)
stream.sync()
expected = (numbers * np.float32(2.5)).reshape(-1, 125)[:, ::-1].ravel()
assert np.array_equal(result, expected)

# More than a block may have is refused by the launch itself, and nothing is broken.
said = ""
try:
    launch(stream, LaunchConfig(grid=1, block=257), turn, turned, on_device)
except CUDAError as error:
    said = str(error)
assert "CUDA_ERROR_INVALID_VALUE" in said, said

# A launch in a graph, run three times.
builder = stream.create_graph_builder()
builder.begin_building()
launch(builder, everything, scale, on_device, np.float32(2), np.int32(COUNT))
graph = builder.end_building().complete()
on_device.copy_from(given, stream=stream)
for _ in range(3):
    graph.launch(stream)
back.copy_from(on_device, stream=stream)
stream.sync()
assert np.array_equal(result, numbers * 8)
graph.close()
builder.close()

# A kernel that writes far outside: cuda.core's own exception when it is waited for.
launch(stream, LaunchConfig(grid=1, block=1), poke, 0x10, np.int32(5))
said = ""
try:
    stream.sync()
except CUDAError as error:
    said = str(error)
assert "CUDA_ERROR_ILLEGAL_ADDRESS" in said, said
if sys.argv[2:] == ["goes-on"]:
    launch(stream, everything, scale, on_device, np.float32(0.125), np.int32(COUNT))
    back.copy_from(on_device, stream=stream)
    stream.sync()
    assert np.array_equal(result, numbers)
    for buffer in (on_device, turned, given, back):
        buffer.close(stream)
    stream.sync()
print("the kernels did it")
