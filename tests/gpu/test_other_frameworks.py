"""Hidden streams, views of cuda.core, tvm-ffi, sharded arrays, and OpenCL beside CUDA."""

from __future__ import annotations

import gc

import gpulend
import numpy as np
import pytest
from driver.resources import LEGACY
from gpulend import adapters
from gpulend._native import Consumer

from .resources import (
    Opener,
    at_rest,
    bytes_at,
    capsule_address,
    copy,
    eventually,
    fill,
    need,
    nothing_stays,
    only_real,
    only_simulated,
    pool_of,
    python,
    stuck,
    tensorflow_device,
    used_by,
)

SIZE = 4096


class Hiding:
    """An array of a framework that shows Python neither its address nor its streams."""

    def __init__(self, lease):
        self.capsule_owner = gpulend.borrow(lease.__dlpack__(stream=-1), ready_on="now")
        self.ptr = self.capsule_owner.address


def hiding():
    """Describe a framework as TensorFlow's GPU build is described."""
    described = adapters.Consumer(
        takes=adapters.Takes(types=["uint8"], readonly=True, gpu=True, simulated_as_cuda=True),
        makes=adapters.Makes(lease=Hiding),
        streams=adapters.Streams(kind="hidden"),
        address=lambda array: array.ptr,
    )
    return Consumer("hiding", described)


def test_the_host_waits_for_who_hides_its_streams_and_that_is_counted(gpu):
    """Law 2: a stream that nobody names cannot wait, so the bytes are there before."""
    gate, stream = gpu.gate(), gpulend.Stream()
    lease = gpulend.empty(SIZE, "uint8")
    gpulend.synchronize()
    gate.hold(stream)
    fill(lease.address, 9, SIZE, stream.handle)
    lease.used_on(stream)
    waits = adapters.HOST_WAITS["hiding"]
    with Opener(gate):
        array = hiding().lend(lease, False)
    assert not gate.closed
    assert stream.done
    assert adapters.HOST_WAITS["hiding"] == waits + 1
    assert array.ptr == lease.address


def test_memory_is_not_freed_under_hidden_work(gpu):
    """Law 2: the exit waits for all that the device was given."""
    pool, gate = pool_of(), gpu.gate()
    lease = gpulend.full(SIZE, 4, "uint8")
    hidden = gpu.stream()
    target = gpu.pinned(SIZE)
    held = at_rest(pool)
    array = hiding().lend(lease, False)
    gate.hold(hidden)
    copy(target, array.ptr, SIZE, hidden)
    del lease, array
    gpu.reap()
    assert used_by(pool) >= held
    assert gate.closed
    gate.open()
    eventually(lambda: used_by(pool) < held, "the memory was freed")
    assert set(bytes_at(target, SIZE).tolist()) == {4}


def test_who_hides_its_streams_takes_no_stream(monkeypatch):
    """Naming one would promise what nobody can keep."""
    monkeypatch.setitem(adapters.CONSUMERS, "hiding", hiding())
    with pytest.raises(gpulend.ProtocolError, match="leave stream= out"):
        gpulend.zeros(64, "uint8").lend("hiding", stream=gpulend.Stream())


@only_simulated
def test_tensorflow_takes_memory_of_the_simulated_gpu():
    """As the host's: address, device and offset are known, and what was queued is waited for."""
    tf = need("tensorflow")
    with nothing_stays():
        lease = gpulend.full((4, 16), 2.5, "float32")
        tensor = lease.lend("tensorflow")
        passport = gpulend.describe(tensor)
        assert (passport.address, passport.offset) == (lease.address, 0)
        assert passport.device == "cuda:0"
        assert float(tf.reduce_sum(tensor)) == 160
        del tensor, lease


def tensorflow_with_a_gpu():
    """Import TensorFlow, or skip where it has the host only."""
    tf = need("tensorflow")
    if tensorflow_device() != "/GPU:0":
        pytest.skip("this TensorFlow has no GPU")
    return tf


@only_real
def test_a_tensor_of_tensorflow_on_a_gpu_is_borrowed_where_it_lies():
    """What its capsule says, read-only, on its device; each wait of the host is counted."""
    tf = tensorflow_with_a_gpu()
    with nothing_stays():
        with tf.device("/GPU:0"):
            tensor = tf.fill((4, 16), 2.5)
        address = capsule_address(tf.experimental.dlpack.to_dlpack(tensor))
        waits = adapters.HOST_WAITS["tensorflow"]
        lease = gpulend.borrow(tensor)
        assert adapters.HOST_WAITS["tensorflow"] == waits + 1
        assert (lease.address, lease.shape, lease.device) == (address, (4, 16), "cuda:0")
        assert lease.readonly
        passport = gpulend.describe(tensor)
        assert (passport.address, passport.device) == (address, "cuda:0")
        assert passport.base + passport.offset == address
        with pytest.raises(gpulend.ExportError, match="read-only"):
            lease.copy_from(np.zeros((4, 16), np.float32))
        assert set(lease.to_host().ravel().tolist()) == {2.5}
        del tensor, lease


@only_real
def test_what_tensorflow_has_queued_on_a_gpu_is_there():
    """Law 2: its stream is hidden, and late work of it is seen by a stream of ours."""
    tf = tensorflow_with_a_gpu()
    stream = gpulend.Stream()
    with stream:
        out = gpulend.zeros(1 << 20, "float32")
    for number in range(100):
        with tf.device("/GPU:0"):
            for _ in range(16):
                tf.fill((1 << 24,), 0.5)
            tensor = tf.fill((1 << 20,), float(number)) * 2.0
        with stream:
            out.copy_from(tensor)
            seen = out.to_host()
        old = int(np.count_nonzero(seen != 2.0 * number))
        assert not old, f"{old} of {seen.size} numbers are old, round {number}"


@only_real
def test_tensorflow_on_a_gpu_reads_what_was_queued_for_it(gpu):
    """Law 2: the host waits for the bytes, and the tensor is the same memory of the same GPU."""
    tf = tensorflow_with_a_gpu()
    gate, stream = gpu.gate(), gpulend.Stream()
    lease = gpulend.empty(SIZE, "uint8")
    gpulend.synchronize()
    gate.hold(stream)
    fill(lease.address, 9, SIZE, stream.handle)
    lease.used_on(stream)
    waits = adapters.HOST_WAITS["tensorflow"]
    with Opener(gate):
        tensor = lease.lend("tensorflow")
    assert not gate.closed
    assert adapters.HOST_WAITS["tensorflow"] > waits
    assert tensor.backing_device.endswith("GPU:0"), tensor.backing_device
    assert capsule_address(tf.experimental.dlpack.to_dlpack(tensor)) == lease.address
    assert set(tensor.numpy().tolist()) == {9}


@only_real
def test_what_tensorflow_cannot_compute_on_is_refused_on_a_gpu_too():
    """Where it begins and how it strides; a copy is taken, and is on the GPU."""
    tensorflow_with_a_gpu()
    lease = gpulend.full((8, 16), 3, "float32")
    for code, view in ((355, lease.reshape(128)[1:]), (356, lease[:, ::2])):
        with pytest.raises(gpulend.ExportError, match="copy=True") as caught:
            view.lend("tensorflow")
        assert caught.value.code == code
        copy = view.lend("tensorflow", copy=True)
        assert copy.backing_device.endswith("GPU:0"), copy.backing_device
        assert set(copy.numpy().ravel().tolist()) == {3.0}


@pytest.mark.parametrize("device", ["host", "gpu"])
def test_views_of_cuda_core_go_both_ways(device):
    """`StridedMemoryView` in and out, strides and read-only kept, over buffers too."""
    core, utils = need("cuda.core"), need("cuda.core.utils")
    core.Device(0).set_current()
    numbers = np.arange(24, dtype=np.float32).reshape(4, 6)
    source = numbers if device == "host" else gpulend.from_host(numbers)
    lease = gpulend.borrow(source)[1:, ::2]
    view = lease.lend("cuda.core")
    assert isinstance(view, utils.StridedMemoryView)
    assert (view.ptr, view.shape, view.strides) == (lease.address, (3, 3), (6, 2))
    back = gpulend.borrow(view)
    assert (back.address, back.strides, back.readonly) == (lease.address, (6, 2), False)
    assert np.array_equal(back.to_host(), numbers[1:, ::2])
    frozen = lease.as_readonly().lend("cuda.core")
    assert frozen.readonly
    assert gpulend.borrow(frozen).readonly


def test_the_legacy_stream_is_waited_for_where_cuda_core_says_nothing(gpu):
    """Without `ready_on`: its buffers have no current stream."""
    core = need("cuda.core")
    device = core.Device(0)
    device.set_current()
    gate, consumer = gpu.gate(), gpulend.Stream()
    buffer = device.allocate(SIZE, stream=core.LEGACY_DEFAULT_STREAM)
    with consumer:
        out = gpulend.empty(SIZE, "int8")
    gpulend.synchronize()
    gate.hold(LEGACY)
    fill(int(buffer.handle), 5, SIZE, LEGACY)
    lease = gpulend.borrow(buffer, consumer)
    with consumer:
        out.copy_from(lease)
    assert stuck(consumer)
    assert gate.closed
    gate.open()
    assert set(out.to_host().tolist()) == {5}
    del lease, buffer


def test_tensors_of_tvm_ffi_go_both_ways():
    """In by DLPack, out by our exchange API; what it would take for writable is refused."""
    tvm_ffi = need("tvm_ffi")
    numbers = np.arange(24, dtype=np.float32).reshape(4, 6)
    taken = gpulend.borrow(tvm_ffi.from_dlpack(numbers))
    assert (taken.address, taken.shape) == (numbers.ctypes.data, (4, 6))
    lease = gpulend.from_host(numbers)
    with nothing_stays():
        tensor = lease[1:, ::2].lend("tvm_ffi")
        assert (tensor.data_ptr(), tuple(tensor.strides)) == (lease.address + 24, (6, 2))
        again = gpulend.borrow(tensor)
        assert np.array_equal(again.to_host(), numbers[1:, ::2])
        del tensor, again
    with pytest.raises(gpulend.ExportError, match="allow_writable_alias"):
        lease.as_readonly().lend("tvm_ffi")
    with pytest.raises(gpulend.ExportError, match="no element type complex64"):
        gpulend.zeros(4, "complex64").lend("tvm_ffi")


def test_a_sharded_array_of_jax_is_refused_with_its_parts():
    """Law 8: an array on several devices has no single memory; its shards are borrowed."""
    need("jax")
    program = """
        import jax, gpulend
        from jax.sharding import Mesh, NamedSharding, PartitionSpec
        mesh = Mesh(jax.devices("cpu"), "x")
        array = jax.device_put(jax.numpy.arange(8.0), NamedSharding(mesh, PartitionSpec("x")))
        try:
            gpulend.borrow(array)
        except gpulend.ExportError as error:
            print(error.code, "addressable_shards" in str(error))
        print([gpulend.borrow(shard.data).shape for shard in array.addressable_shards])
    """
    flags = "--xla_force_host_platform_device_count=2"
    said = python(program, XLA_FLAGS=flags, JAX_PLATFORMS="cpu").splitlines()
    assert said == ["350 True", "[(4,), (4,)]"]


@only_simulated
def test_opencl_works_on_memory_of_the_simulated_gpu():
    """It is the host's too: a kernel of OpenCL doubles it, and a late fill is waited for."""
    need("pyopencl")
    lease = gpulend.full(SIZE, 3, "float32")
    array = lease.lend("pyopencl")
    array *= 2
    del array
    gc.collect()
    assert set(lease.to_host().tolist()) == {6.0}


def test_between_opencl_and_cuda_there_are_copies_only():
    """Said by name in both directions, and made where they are asked for."""
    cl, cla = need("pyopencl"), need("pyopencl.array")
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    array = cla.to_device(queue, np.arange(4, dtype=np.float32))
    for target in ("numba", "pycuda"):
        need(target)
        with pytest.raises(gpulend.ExportError, match="from_host") as caught:
            gpulend.lend(array, target)
        assert caught.value.code == 303
    on_gpu = gpulend.from_host(gpulend.borrow(array))
    assert on_gpu.device == "cuda:0"
    copied = on_gpu.lend("pyopencl", stream=queue, copy=True)
    copied += 1
    assert copied.get().tolist() == [1, 2, 3, 4]
    assert on_gpu.to_host().tolist() == [0, 1, 2, 3]


@only_real
def test_who_works_on_the_host_takes_a_copy_from_a_real_gpu():
    """`copy=True` brings it over; without, the refusal names the copy."""
    lease = gpulend.full(8, 2.5, "float32")
    with pytest.raises(gpulend.ExportError, match="to_host"):
        lease.lend("numpy")
    assert lease.lend("numpy", copy=True).tolist() == [2.5] * 8
