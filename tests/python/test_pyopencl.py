"""PyOpenCL on PoCL: shared virtual memory and mapped buffers in, host memory out, in order."""

from __future__ import annotations

import gc
from importlib import import_module

import gpulend
import numpy as np
import pytest
from conftest import need
from gpulend import adapters

cl = need("pyopencl")
cla = need("pyopencl.array")
tools = need("pyopencl.tools")

SOURCE = """
kernel void twice(global float *p) { p[get_global_id(0)] *= 2; }
kernel void slow(global float *p) {
    float x = p[get_global_id(0)];
    for (int i = 0; i < 30000000; i++) x = x * 0.5f + 1;
    p[get_global_id(0)] = x + 40;
}
"""


@pytest.fixture(scope="module")
def queue():
    """A queue of the first device."""
    return cl.CommandQueue(cl.create_some_context(interactive=False))


@pytest.fixture(scope="module")
def kernels(queue):
    """Kernels on floats."""
    program = cl.Program(queue.context, SOURCE).build()
    return {name: getattr(program, name) for name in ("twice", "slow")}


def svm(queue, kind, count=6):
    """Make shared virtual memory of floats, 0, 1, 2 …"""
    make = {"coarse": cl.csvm_empty, "fine": cl.fsvm_empty}[kind]
    memory = cl.SVM(make(queue.context, count, np.float32))
    with memory.map_rw(queue) as array:
        array[:] = np.arange(count)
    return memory


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("kind", ["coarse", "fine"])
def test_shared_virtual_memory_is_lent_without_a_copy(queue, kernels, kind, target):
    """The same address; what a kernel queued before is waited for, writes go both ways."""
    need(target)
    memory = svm(queue, kind)
    kernels["twice"](queue, (6,), None, memory)
    lent = gpulend.lend(gpulend.borrow(memory, ready_on=queue), target)
    assert gpulend.borrow(lent).address == memory.svm_ptr
    assert lent.tolist() == [0, 2, 4, 6, 8, 10]
    lent[1] = 50
    del lent
    kernels["twice"](queue, (6,), None, memory)
    assert gpulend.borrow(memory, ready_on=queue).lend("numpy").tolist() == [0, 100, 8, 12, 16, 20]


def test_shared_virtual_memory_keeps_its_shape_and_is_kept(queue):
    """The lease is the owner of what nobody else holds."""
    memory = cl.SVM(cl.csvm_empty(queue.context, (3, 4), np.int16))
    memory.mem[:] = np.arange(12).reshape(3, 4)
    lease = gpulend.borrow(memory, ready_on=queue)
    assert (lease.shape, lease.dtype, lease.device) == ((3, 4), "int16", "cpu")
    del memory
    gc.collect()
    noise = [cl.csvm_empty(queue.context, (3, 4), np.int16) for _ in range(50)]
    for one in noise:
        one[:] = 77
    assert lease.lend("numpy").tolist() == np.arange(12).reshape(3, 4).tolist()


def test_a_bare_allocation_is_bytes(queue):
    """It has no shape; it names its queue if it is bound to one."""
    allocation = cl.SVMAllocation(queue.context, 64, 0, cl.svm_mem_flags.READ_WRITE)
    allocation.bind_to_queue(queue)
    lease = gpulend.borrow(allocation)
    assert (lease.shape, lease.dtype, lease.address) == ((64,), "uint8", allocation.svm_ptr)
    del lease
    gpulend.borrow(bytearray(1))
    # PoCL 3.0 corrupts its heap when memory is freed in the order of a queue.
    allocation.unbind_from_queue()


def test_memory_that_does_not_tell_its_queue_wants_one(queue):
    """The error names the argument, which takes a queue or an event; "now" is for fine grains."""
    fine = svm(queue, "fine")
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 24)
    for memory in (fine, buffer):
        with pytest.raises(gpulend.ProtocolError, match=r"ready_on=queue") as caught:
            gpulend.borrow(memory)
        assert caught.value.code == 253
    with pytest.raises(gpulend.ProtocolError, match="ready_on=queue"):
        gpulend.borrow(buffer, ready_on="now")
    with pytest.raises(gpulend.ProtocolError, match="ready_on=queue"):
        gpulend.borrow(fine, ready_on=3)
    assert gpulend.borrow(fine, ready_on="now").shape == (6,)
    event = cl.enqueue_fill_buffer(queue, buffer, np.float32(1.5), 0, 24)
    lease = gpulend.borrow(buffer, ready_on=event)
    assert lease.view("float32").lend("numpy").tolist() == [1.5] * 6


# It says so of memory that is not bound to a queue, which PoCL 3.0 cannot free.
@pytest.mark.filterwarnings("ignore:Array has different queue from backing SVM memory")
@pytest.mark.parametrize("allocator", ["buffer", "pool", "svm", "svm pool"])
def test_an_array_is_mapped_and_unmapped(queue, kernels, allocator):
    """The array names its queue; when the last hold is gone, OpenCL has the memory back."""
    allocate = {
        "buffer": lambda: None,
        "pool": lambda: tools.MemoryPool(tools.ImmediateAllocator(queue)),
        "svm": lambda: tools.SVMAllocator(queue.context, alignment=0),
        "svm pool": lambda: tools.SVMPool(tools.SVMAllocator(queue.context, alignment=0)),
    }[allocator]()
    array = cla.to_device(queue, np.arange(12, dtype=np.float32).reshape(3, 4), allocator=allocate)
    waits = adapters.HOST_WAITS["pyopencl"]
    kernels["slow"](queue, (12,), None, array.base_data)
    lent = gpulend.lend(array, "numpy")
    assert adapters.HOST_WAITS["pyopencl"] == waits + 1
    assert set(lent.ravel().tolist()) == {42.0}
    lent[2, 3] = 7
    if allocator == "buffer":
        assert array.base_data.get_info(cl.mem_info.MAP_COUNT) == 1
    del lent
    gpulend.borrow(bytearray(1))
    if allocator == "buffer":
        # The unmapping is queued.
        array.queue.finish()
        assert array.base_data.get_info(cl.mem_info.MAP_COUNT) == 0
    kernels["twice"](queue, (12,), None, array.base_data)
    assert array.get().ravel().tolist() == [84.0] * 11 + [14.0]


def test_slices_of_an_array_lie_where_they_should(queue):
    """Offset and strides are the array's."""
    array = cla.to_device(queue, np.arange(24, dtype=np.float32).reshape(4, 6))
    whole, part = gpulend.borrow(array), gpulend.borrow(array[1:, ::2])
    assert part.address == whole.address + 24
    assert part.strides == (6, 2)
    assert part.lend("numpy").tolist() == whole.lend("numpy")[1:, ::2].tolist()
    assert gpulend.borrow(cla.empty(queue, (0, 3), np.float32)).shape == (0, 3)


def test_what_the_host_may_not_write_or_see_is_told(queue):
    """Flags of a buffer are read-only memory, or a refusal."""
    flags = cl.mem_flags
    readable = cl.Buffer(queue.context, flags.READ_WRITE | flags.HOST_READ_ONLY, 64)
    assert gpulend.borrow(readable, ready_on=queue).readonly
    hidden = cl.Buffer(queue.context, flags.READ_WRITE | flags.HOST_NO_ACCESS, 64)
    with pytest.raises(gpulend.ExportError, match="HOST_NO_ACCESS"):
        gpulend.borrow(hidden, ready_on=queue)


def test_images_are_refused(queue):
    """They have no plain layout."""
    pixels = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    image = cl.create_image(queue.context, cl.mem_flags.READ_WRITE, pixels, shape=(4, 4))
    with pytest.raises(gpulend.ExportError, match="Image") as caught:
        gpulend.borrow(image, ready_on=queue)
    assert caught.value.code == 350


@pytest.mark.parametrize("producer", ["numpy", "torch", "bytearray"])
def test_a_kernel_runs_on_lent_memory(queue, kernels, producer):
    """Host memory goes out as an array of OpenCL: the kernel sees the same address."""
    memory = {
        "numpy": lambda: np.arange(6, dtype=np.float32),
        "torch": lambda: need("torch").arange(6).float(),
        "bytearray": lambda: bytearray(np.arange(6, dtype=np.float32).tobytes()),
    }[producer]()
    lease = gpulend.borrow(memory).view("float32")
    array = lease.lend("pyopencl", stream=queue)
    assert isinstance(array, cla.Array)
    assert (array.shape, array.dtype, array.queue) == ((6,), np.float32, queue)
    kernels["twice"](queue, (6,), None, array.data)
    queue.finish()
    assert lease.lend("numpy").tolist() == [0, 2, 4, 6, 8, 10]
    assert (array + 1).get().tolist() == [1, 3, 5, 7, 9, 11]


def test_lent_memory_is_not_released_under_a_kernel(queue, kernels):
    """Law 2: who lets an array go while a kernel runs waits for it."""
    memory = np.zeros(8, np.float32)
    at_release = []
    lease = gpulend.wrap(
        memory.ctypes.data,
        8,
        "float32",
        deleter=lambda _address, _size: at_release.append(memory.copy()),
    )
    array = lease.lend("pyopencl", stream=queue)
    kernels["slow"](queue, (8,), None, array.data)
    queue.flush()
    assert memory[0] == 0
    del array, lease
    gc.collect()
    gpulend.borrow(bytearray(1))
    assert [set(seen.tolist()) for seen in at_release] == [{42.0}]


def test_strides_are_kept_and_other_layouts_refused(queue):
    """A buffer spans the elements and what lies between."""
    memory = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (memory, memory.T, memory[1:, ::2], memory[2, 3:4].reshape(())):
        array = gpulend.lend(view, "pyopencl", stream=queue)
        assert (array.shape, array.strides) == (view.shape, view.strides)
        assert gpulend.borrow(array).address == view.ctypes.data
        assert gpulend.borrow(array).lend("numpy").tolist() == view.tolist()
    with pytest.raises(gpulend.ExportError, match="negative strides"):
        gpulend.lend(memory[::-1], "pyopencl", stream=queue)
    assert gpulend.lend(memory[:0], "pyopencl").shape == (0, 6)


def test_a_queue_is_found_for_who_names_none():
    """One of a device that shares the host's memory."""
    array = gpulend.lend(np.arange(4.0), "pyopencl")
    assert (array * 2).get().tolist() == [0, 2, 4, 6]
    with pytest.raises(gpulend.ProtocolError, match="CommandQueue"):
        gpulend.lend(np.arange(4.0), "pyopencl", stream=1)


def test_read_only_memory_is_refused_or_copied(queue):
    """OpenCL has no read-only arrays; a copy may be written."""
    memory = np.arange(4.0)
    memory.flags.writeable = False
    with pytest.raises(gpulend.ExportError, match="allow_writable_alias"):
        gpulend.lend(memory, "pyopencl", stream=queue)
    alias = gpulend.lend(memory, "pyopencl", stream=queue, allow_writable_alias=True)
    assert gpulend.borrow(alias).address == memory.ctypes.data
    copy = gpulend.lend(memory, "pyopencl", stream=queue, copy=True)
    copy *= 2
    assert copy.get().tolist() == [0, 2, 4, 6]
    assert memory.tolist() == [0, 1, 2, 3]


def test_a_device_with_memory_of_its_own_is_found_out(queue, monkeypatch):
    """Where kernels see a buffer elsewhere, mapping and lending would be copies."""
    adapter = import_module("gpulend.adapters.pyopencl")
    array, memory = cla.to_device(queue, np.arange(4.0)), np.arange(4.0)
    gpulend.lend(memory, "pyopencl", stream=queue)
    monkeypatch.setattr(adapter, "_seen_at", lambda _queue, _buffer: 64)
    with pytest.raises(gpulend.ExportError, match="a mapping is a copy") as caught:
        gpulend.borrow(array)
    assert caught.value.code == 351
    # The unmapping is queued.
    array.queue.finish()
    assert array.base_data.get_info(cl.mem_info.MAP_COUNT) == 0
    with pytest.raises(gpulend.ExportError, match="copied the memory") as caught:
        gpulend.lend(memory, "pyopencl", stream=queue)
    assert caught.value.code == 351
    assert gpulend.lend(memory, "pyopencl", stream=queue, copy=True).get().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_types_that_it_lacks_are_refused(queue, dtype):
    """Law 7."""
    array = np.zeros(4, getattr(need("ml_dtypes"), dtype))
    with pytest.raises(gpulend.ExportError, match=f"no element type {dtype}"):
        gpulend.lend(array, "pyopencl", stream=queue)
