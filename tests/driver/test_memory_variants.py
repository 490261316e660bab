"""Memory through the per-thread variants and the old forms."""

from __future__ import annotations

import ctypes
from ctypes import c_uint

import pytest

from .bench import hold_legacy
from .control import only_simulated, report
from .cuda import Location, check
from .resources import DEVICE, HOST, PER_THREAD, Resources, value
from .variants import cu

pytestmark = only_simulated

SIZE = 4096
CPU = -1  # CU_DEVICE_CPU
ABSENT = 1000
READ_MOSTLY = 1  # CUmem_advise


def test_memory_is_registered_by_the_old_form(gpu: Resources) -> None:
    """As by the new one: once, and until it is unregistered."""
    memory = ctypes.create_string_buffer(SIZE)
    check(cu.cuMemHostRegister(memory, SIZE, 0))
    assert value(c_uint, cu.cuMemHostGetFlags, memory) & 2  # mapped for the device, always
    assert cu.cuMemHostRegister(memory, SIZE, 0) == 712
    check(cu.cuMemHostUnregister(memory))
    assert cu.cuMemHostRegister(memory, 0, 0) == 1


@pytest.mark.parametrize("form", ["", "_ptsz"])
def test_the_old_form_prefetches_to_a_device_or_the_host(gpu: Resources, form: str) -> None:
    """By number; device memory is not managed."""
    prefetch, managed = getattr(cu, f"cuMemPrefetchAsync{form}"), gpu.managed(SIZE)
    assert [prefetch(managed, SIZE, to, None) for to in (0, CPU, ABSENT)] == [0, 0, 101]
    assert prefetch(gpu.alloc(SIZE), SIZE, 0, None) == 1
    check(cu.cuCtxSynchronize())


@pytest.mark.parametrize("form", ["_ptsz", "_v2_ptsz"])
def test_a_variant_prefetches_in_the_order_of_the_threads_own_stream(
    gpu: Resources, form: str
) -> None:
    """And not in the legacy stream's, which cannot run."""
    managed = gpu.managed(SIZE)
    hold_legacy(gpu)
    where = [Location(HOST, 0), 0] if "_v2" in form else [CPU]
    before = report()["live"]["operations"]
    assert getattr(cu, f"cuMemPrefetchAsync{form}")(managed, SIZE, *where, None) == 0
    assert cu.cuStreamSynchronize(PER_THREAD) == 0
    assert report()["live"]["operations"] == before


def test_the_old_form_takes_advice_by_number(gpu: Resources) -> None:
    """As the new one takes it by location."""
    managed = gpu.managed(SIZE)
    for device in (0, CPU):
        assert cu.cuMemAdvise(managed, SIZE, READ_MOSTLY, device) == 0
    assert cu.cuMemAdvise_v2(managed, SIZE, READ_MOSTLY, Location(DEVICE, 0)) == 0
    assert cu.cuMemAdvise(gpu.alloc(SIZE), SIZE, READ_MOSTLY, 0) == 1
    assert cu.cuMemAdvise(managed, SIZE, 99, 0) == 1
