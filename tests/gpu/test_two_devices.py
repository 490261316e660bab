"""Two devices: each call works on the lease's own, whatever is current, and orders across them."""

from __future__ import annotations

from ctypes import c_void_p

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import LEGACY, PER_THREAD, current, value

from .resources import at_rest, eventually, need, nothing_stays, pool_of, stuck, used_by, waiting

SIZE = 4096
STALE = 0xEE


@pytest.fixture
def there(second):
    """Give the second device's name."""
    return f"cuda:{second}"


def held_back(gate, stream, byte):
    """Return a lease of a stream's device whose newest bytes wait behind a gate."""
    with stream:
        lease = gpulend.full(SIZE, STALE, "uint8")
        stream.synchronize()
        gate.hold(stream)
        lease.copy_from(gpulend.full(SIZE, byte, "uint8"))
    return lease


def test_entry_is_ordered_on_the_other_device(gpu, there):
    """Recording and waiting need the stream's own device; the current one is another."""
    gate = gpu.gate()
    producer, consumer = gpulend.Stream(device=there), gpulend.Stream(device=there)
    lease = held_back(gate, producer, 7)
    with consumer:
        out = gpulend.empty(SIZE, "uint8")
        out.copy_from(gpulend.borrow(lease, consumer))
    assert out.device == lease.device == there
    assert waiting(consumer)
    assert gate.closed
    assert current() == gpu.context
    gate.open()
    assert set(out.to_host().tolist()) == {7}


@pytest.mark.parametrize("forth", [True, False])
def test_a_copy_between_devices_waits_for_both(gpu, there, forth):
    """The destination's stream waits for the source's, which lives on another device."""
    gate = gpu.gate()
    first, then = ("cuda:0", there) if forth else (there, "cuda:0")
    producer, consumer = gpulend.Stream(device=first), gpulend.Stream(device=then)
    lease = held_back(gate, producer, 8)
    with consumer:
        out = gpulend.empty(SIZE, "uint8", device=then)
        out.copy_from(lease)
    assert gate.closed, "the host waited"
    gate.open()
    assert set(out.to_host().tolist()) == {8}
    assert current() == gpu.context


def test_a_destination_in_use_is_waited_for(gpu, there):
    """What still reads the destination on its device must be done before it is overwritten."""
    gate = gpu.gate()
    reader = gpulend.Stream(device=there)
    target = gpulend.full(SIZE, 1, "uint8", device=there)
    gpulend.synchronize(there)
    with reader:
        out = gpulend.empty(SIZE, "uint8", device=there)
        gate.hold(reader)
        out.copy_from(target)
    target.copy_from(gpulend.full(SIZE, 2, "uint8", device="cuda:0"))
    assert gate.closed, "the host waited"
    gate.open()
    assert set(out.to_host().tolist()) == {1}
    assert set(target.to_host().tolist()) == {2}


def test_exit_is_ordered_on_the_other_device(gpu, second, there):
    """Memory of the second device waits for a reader there, and is given back to its own pool."""
    pool, gate = pool_of(second), gpu.gate()
    reader = gpulend.Stream(device=there)
    lease = gpulend.full(SIZE, 5, "uint8", device=there)
    gpulend.synchronize(there)
    held = at_rest(pool)
    gate.hold(reader)
    lease.used_on(reader)
    del lease
    gpu.reap(gpulend.Stream(LEGACY, device=there), LEGACY)
    assert used_by(pool) >= held
    assert gate.closed
    gate.open()

    def freed():
        gpulend.synchronize(there)
        return used_by(pool) <= held - SIZE

    eventually(freed, "the memory was freed")
    assert current() == gpu.context


def test_a_reader_on_another_device_is_waited_for(gpu, there):
    """A peer reads over the bus: its stream counts though it is another device's."""
    pool, gate = pool_of(0), gpu.gate()
    reader = gpulend.Stream(device=there)
    lease = gpulend.full(SIZE, 5, "uint8", device="cuda:0")
    held = at_rest(pool)
    gate.hold(reader)
    with reader:
        out = gpulend.empty(SIZE, "uint8", device=there)
        out.copy_from(lease)
    del lease
    gpu.reap(LEGACY)
    assert used_by(pool) >= held
    assert gate.closed
    gate.open()
    assert set(out.to_host().tolist()) == {5}


def test_dlpack_orders_a_stream_of_the_lease_s_device(gpu, second, there):
    """1 names the legacy stream of the memory's device, not of the current one."""
    gate = gpu.gate()
    lease = held_back(gate, gpulend.Stream(device=there), 4)
    with nothing_stays(second):
        capsule = lease.__dlpack__(stream=1, dl_device=(2, second))
        assert waiting_on(there)
        assert not waiting(LEGACY), "the current device's legacy stream has nothing to wait for"
        assert gate.closed
        gate.open()
        del capsule
    assert set(lease.to_host().tolist()) == {4}


def waiting_on(device):
    """Tell whether a device's legacy stream has work to do."""
    return not gpulend.Stream(LEGACY, device=device).done


def test_cuda_core_takes_memory_of_the_second_device(gpu, second, there):
    """The view says where it is."""
    need("cuda.core")
    lease = gpulend.from_host(np.arange(16, dtype=np.float32), device=there)
    view = lease.lend("cuda.core")
    assert (view.device_id, view.ptr) == (second, lease.address)
    back = gpulend.borrow(view)
    assert back.device == there
    assert back.to_host().tolist() == list(range(16))
    assert current() == gpu.context


def test_a_wrapped_address_is_ordered_on_its_own_device(gpu, second, there):
    """`ready_on=None` is the legacy stream of the memory's device."""
    lease = gpulend.full(SIZE, 3, "uint8", device=there)
    gpulend.synchronize(there)
    gate = gpu.gate()
    gate.hold(LEGACY)
    wrapped = gpulend.wrap(lease.address, SIZE, "uint8", owner=lease)
    assert wrapped.device == there
    assert set(wrapped.to_host().tolist()) == {3}
    assert gate.closed, "device 0 has nothing to do with it"


def test_a_reader_on_the_other_device_s_per_thread_stream_is_waited_for(gpu, there):
    """Each device has such a stream for each thread: number 2 alone does not say which."""
    gate, before, writer = gpu.gate(), gpulend.Stream(device=there), gpulend.Stream()
    reader = gpulend.Stream(PER_THREAD, device=there)
    lease, other = gpulend.full(SIZE, 5, "uint8"), gpulend.full(SIZE, 99, "uint8")
    out = gpulend.zeros(SIZE, "uint8", device=there)
    gpulend.synchronize("cuda:0")
    gpulend.synchronize(there)
    gate.hold(before)
    reader.wait(before)
    with reader:
        out.copy_from(lease)
    with writer:
        lease.copy_from(other)
    assert gate.closed, "the host waited"
    assert stuck(writer), "the writer overtakes the reader"
    gate.open()
    gpulend.synchronize(there)
    assert set(out.to_host().tolist()) == {5}
    assert set(lease.to_host().tolist()) == {99}


@pytest.fixture
def number(gpu, second):
    """A stream of the second device that is known by its number alone."""
    context = value(c_void_p, cu.cuDevicePrimaryCtxRetain, second)
    check(cu.cuCtxPushCurrent_v2(context))
    handle = value(c_void_p, cu.cuStreamCreate, 1)
    check(cu.cuCtxPopCurrent_v2(c_void_p()))
    yield handle
    gpu.open_gates()
    check(cu.cuStreamSynchronize(handle))
    check(cu.cuStreamDestroy_v2(handle))
    check(cu.cuDevicePrimaryCtxRelease_v2(second))


def test_the_exit_waits_for_hidden_work_of_the_other_device(gpu, there, number):
    """A stream that cannot be named again is caught with all work of its own device."""
    gate, gone = gpu.gate(), []
    lease = gpulend.wrap(
        gpu.alloc(SIZE), SIZE, "uint8", ready_on="now", deleter=lambda *_: gone.append(1)
    )
    gate.hold(number)
    lease.used_on(gpulend.Stream(number, device=there))
    del lease
    gpu.reap(LEGACY)
    assert gone == [], "the deleter ran under the work of the other device"
    assert gate.closed
    gate.open()

    def ran():
        gpulend.synchronize(there)
        return gone == [1]

    eventually(ran, "the deleter ran, once")


def test_numba_takes_memory_of_the_second_device(gpu, second, there):
    """Its array must belong to Numba's context of that device, or its kernels run elsewhere."""
    cuda = need("numba.cuda")
    with nothing_stays(second):
        lease = gpulend.from_host(np.arange(16, dtype=np.float32), device=there)
        array = lease.lend("numba")
        assert array.gpu_data.context.device.id == second
        assert int(array.gpu_data.device_pointer) == lease.address
        assert cuda.current_context().device.id == 0, "Numba's current device is as before"
        del lease, array
    assert current() == gpu.context
