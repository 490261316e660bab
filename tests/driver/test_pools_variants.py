"""Memory in the order of the calling thread's own stream."""

from __future__ import annotations

from ctypes import c_uint64

import pytest

from .bench import hold_legacy
from .control import only_simulated
from .cuda import check
from .resources import PER_THREAD, Resources, last, value
from .variants import cu

pytestmark = only_simulated

USED = 7  # CUmemPool_attribute


@pytest.mark.parametrize("own_pool", [False, True])
def test_memory_is_allocated_and_freed_without_the_legacy_stream(
    gpu: Resources, own_pool: bool
) -> None:
    """From the device's pool or another; the legacy stream cannot run meanwhile."""
    pool = gpu.pool() if own_pool else value(c_uint64, cu.cuDeviceGetMemPool, 0)
    before = last(c_uint64, cu.cuMemPoolGetAttribute, pool, USED)
    hold_legacy(gpu)
    if own_pool:
        address = value(c_uint64, cu.cuMemAllocFromPoolAsync_ptsz, 1000, pool, None)
    else:
        address = value(c_uint64, cu.cuMemAllocAsync_ptsz, 1000, None)
    assert last(c_uint64, cu.cuMemPoolGetAttribute, pool, USED) == before + 1000
    check(cu.cuMemsetD8Async_ptsz(address, 3, 1000, None))
    check(cu.cuMemFreeAsync_ptsz(address, None))
    check(cu.cuStreamSynchronize(PER_THREAD))
    assert last(c_uint64, cu.cuMemPoolGetAttribute, pool, USED) == before


def test_a_free_stands_behind_what_the_thread_queued(gpu: Resources) -> None:
    """The memory is in use until then."""
    pool, gate = gpu.pool(), gpu.gate()
    address = value(c_uint64, cu.cuMemAllocFromPoolAsync_ptsz, 1000, pool, None)
    gate.hold(PER_THREAD)
    check(cu.cuMemFreeAsync_ptsz(address, None))
    assert cu.cuStreamQuery(PER_THREAD) == 600
    gate.open()
    check(cu.cuStreamSynchronize(PER_THREAD))
    assert last(c_uint64, cu.cuMemPoolGetAttribute, pool, USED) == 0
