"""Numba's device arrays: an interface of its own, streams that block, no DLPack."""

from __future__ import annotations

import gc

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import LEGACY

from .resources import (
    at_rest,
    bytes_at,
    copy,
    eventually,
    fill,
    need,
    nothing_stays,
    only_real,
    pool_of,
    stuck,
    used_by,
)

SIZE = 4096


@pytest.fixture
def cuda():
    """Numba's CUDA."""
    return need("numba.cuda")


def test_an_array_is_borrowed(cuda):
    """The same address, type and layout; Numba knows no read-only."""
    array = cuda.to_device(np.arange(24, dtype=np.float32).reshape(4, 6))
    lease = gpulend.borrow(array)
    assert lease.address == int(array.gpu_data.device_pointer)
    assert (lease.shape, lease.dtype, lease.device) == ((4, 6), "float32", "cuda:0")
    assert np.array_equal(lease.to_host(), array.copy_to_host())


def test_the_default_stream_is_waited_for(gpu, cuda):
    """An array without a stream was written on the default one; its interface does not say so."""
    gate, consumer = gpu.gate(), gpulend.Stream()
    array = cuda.to_device(np.zeros(SIZE, np.uint8))
    with consumer:
        out = gpulend.empty(SIZE, "uint8")  # not later: it would bring the order of its block along
    gpulend.synchronize()
    gate.hold(LEGACY)
    fill(int(array.gpu_data.device_pointer), 5, SIZE, LEGACY)
    lease = gpulend.borrow(array, consumer)
    with consumer:
        out.copy_from(lease)
    assert stuck(consumer)
    assert gate.closed
    gate.open()
    assert set(out.to_host().tolist()) == {5}


def test_an_array_s_own_stream_is_waited_for(gpu, cuda):
    """An array made on a stream names it."""
    gate, consumer = gpu.gate(), gpulend.Stream()
    stream = cuda.stream()
    array = cuda.device_array(SIZE, np.uint8, stream=stream)
    with consumer:
        out = gpulend.empty(SIZE, "uint8")  # not later: it would bring the order of its block along
    gpulend.synchronize()
    gate.hold(gpulend.Stream(stream).handle)
    fill(int(array.gpu_data.device_pointer), 6, SIZE, gpulend.Stream(stream).handle)
    lease = gpulend.borrow(array, consumer)
    with consumer:
        out.copy_from(lease)
    assert stuck(consumer)
    assert gate.closed
    gate.open()
    assert set(out.to_host().tolist()) == {6}


def test_a_lease_becomes_an_array(cuda):
    """Lent without a copy, and kept as long as the array or a slice of it."""
    with nothing_stays():
        lease = gpulend.full((4, 6), 2.5, "float32")
        array = lease.lend("numba")
        assert int(array.gpu_data.device_pointer) == lease.address
        part = array[1:]
        del lease, array
        gc.collect()
        assert part.copy_to_host().tolist() == [[2.5] * 6] * 3
        del part


@only_real
def test_a_kernel_of_numba_writes_a_lease(cuda):
    """The point of it all: a kernel compiled by Numba on memory of ours."""

    @cuda.jit
    def double(array):
        i = cuda.grid(1)
        if i < array.size:
            array[i] *= 2

    lease = gpulend.from_host(np.arange(SIZE, dtype=np.float32))
    double[SIZE // 32, 32](lease.lend("numba"))
    gpulend.synchronize()
    assert np.array_equal(lease.to_host(), 2 * np.arange(SIZE, dtype=np.float32))


def test_memory_is_not_freed_under_numba_s_work(gpu, cuda):
    """The stream that the loan was made for is waited for before the memory goes."""
    pool, gate = pool_of(), gpu.gate()
    stream = cuda.stream()
    lease = gpulend.full(SIZE, 4, "uint8")
    held = at_rest(pool)
    handle = gpulend.Stream(stream).handle
    target = gpu.pinned(SIZE)
    gate.hold(handle)
    array = lease.lend("numba", stream=stream)
    copy(target, int(array.gpu_data.device_pointer), SIZE, handle)
    del lease, array
    gpu.reap()
    assert used_by(pool) >= held
    assert gate.closed
    gate.open()
    check(cu.cuStreamSynchronize(handle))
    found = bytes_at(target, SIZE)
    assert set(found.tolist()) == {4}
    eventually(lambda: used_by(pool) < held, "the memory was freed")
