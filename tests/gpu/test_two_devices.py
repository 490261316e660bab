"""Two devices: each call works on the lease's own, whatever is current, and orders across them."""

from __future__ import annotations

import gpulend
import numpy as np
import pytest
from driver.lab import LEGACY, current

from .ground import at_rest, eventually, need, nothing_stays, pool_of, used_by, waiting

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
