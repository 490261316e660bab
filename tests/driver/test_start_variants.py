"""Looking functions up for a thread's own stream, and the profiler's switches."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_void_p

import pytest

from .control import only_simulated
from .cuda import check
from .resources import Resources, in_thread
from .variants import cu

pytestmark = only_simulated


@pytest.mark.parametrize(
    ("flags", "symbol"), [(0, "cuMemcpy_ptds"), (1, "cuMemcpy"), (2, "cuMemcpy_ptds")]
)
def test_the_variant_finds_variants_unless_told_otherwise(flags: int, symbol: str) -> None:
    """By default it gives those of the thread's own stream; what has none is as always."""
    found, status = c_void_p(), c_int()
    look_up = cu.cuGetProcAddress_v2_ptsz
    check(look_up(b"cuMemcpy", byref(found), 12000, flags, byref(status)))
    assert found.value == ctypes.cast(getattr(cu, symbol), c_void_p).value
    check(look_up(b"cuMemAlloc", byref(found), 12000, flags, byref(status)))
    assert found.value == ctypes.cast(cu.cuMemAlloc_v2, c_void_p).value
    assert status.value == 0


def test_the_profiler_is_switched_in_a_context(gpu: Resources) -> None:
    """There is none: it does nothing, and needs a context for that."""
    assert [cu.cuProfilerStart(), cu.cuProfilerStop()] == [0, 0]
    assert in_thread(lambda: [cu.cuProfilerStart(), cu.cuProfilerStop()]) == [201, 201]
