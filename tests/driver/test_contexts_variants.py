"""Contexts through old forms, and the forms that name a context instead of taking the current."""

from __future__ import annotations

from ctypes import byref, c_int, c_uint, c_void_p

import pytest

from .control import fresh, only_simulated
from .cuda import check
from .resources import Resources, allocate, current, download, in_thread, start, value
from .variants import cu

pytestmark = only_simulated

NOT_READY = 600


def test_old_forms_push_pop_and_destroy(gpu: Resources) -> None:
    """As the new ones do."""
    context = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    check(cu.cuCtxPushCurrent(gpu.context))
    assert current() == gpu.context
    assert value(c_void_p, cu.cuCtxPopCurrent) == gpu.context
    assert current() == context
    check(cu.cuCtxDestroy(context))
    assert current() == gpu.context
    assert cu.cuCtxDestroy(None) == cu.cuCtxDestroy_v2(None) == 1
    assert cu.cuCtxPushCurrent(None) == cu.cuCtxPushCurrent_v2(None) == 1


def test_the_old_form_releases_the_primary_context(gpu: Resources) -> None:
    """Once for each retain."""
    assert value(c_void_p, cu.cuDevicePrimaryCtxRetain, 0) == gpu.context
    assert cu.cuDevicePrimaryCtxRelease(0) == 0
    assert cu.cuCtxSynchronize() == 0
    assert cu.cuDevicePrimaryCtxRelease(1000) == 101


def test_the_old_form_sets_flags_of_the_primary_context(gpu: Resources) -> None:
    """Also while it is active."""
    flags, active = c_uint(), c_int()
    seen = []
    for wanted in (4, 0):
        check(cu.cuDevicePrimaryCtxSetFlags(0, wanted))
        check(cu.cuDevicePrimaryCtxGetState(0, byref(flags), byref(active)))
        seen.append((flags.value, active.value))
    assert seen == [(4, 1), (0, 1)]
    assert cu.cuDevicePrimaryCtxSetFlags(0, 3) == cu.cuDevicePrimaryCtxSetFlags_v2(0, 3) == 1


def _reset(form: str) -> list[int]:
    """Reset the primary context; return codes before and after."""
    start()
    address = allocate(64)
    codes = [getattr(cu, form)(0), cu.cuMemFree_v2(address)]
    return [*codes, cu.cuDevicePrimaryCtxRelease_v2(0), getattr(cu, form)(1000)]


@pytest.mark.parametrize("form", ["cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"])
def test_both_forms_reset_the_primary_context(form: str) -> None:
    """All that it held is gone; it is still to be released."""
    assert fresh(_reset, form) == [0, 709, 0, 101]


def test_a_named_context_tells_its_device(gpu: Resources) -> None:
    """NULL is the current one."""
    assert value(c_int, cu.cuCtxGetDevice_v2, gpu.context) == 0
    assert value(c_int, cu.cuCtxGetDevice_v2, None) == 0
    assert in_thread(lambda: value(c_int, cu.cuCtxGetDevice_v2, gpu.context)) == 0
    assert in_thread(lambda: cu.cuCtxGetDevice_v2(byref(c_int()), None)) == 201
    assert cu.cuCtxGetDevice_v2(None, gpu.context) == 1


def test_a_named_context_is_waited_for(gpu: Resources) -> None:
    """Whichever is current; others are not."""
    stream, gate, out = gpu.stream(), gpu.gate(), gpu.pinned(8)
    other = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    gate.hold(stream)
    assert cu.cuCtxSynchronize_v2(other) == cu.cuCtxSynchronize_v2(None) == 0
    assert cu.cuStreamQuery(stream) == NOT_READY
    gate.open()
    check(cu.cuMemsetD8Async(out, 1, 8, stream))
    assert cu.cuCtxSynchronize_v2(gpu.context) == 0
    assert cu.cuStreamQuery(stream) == 0
    assert current() == other
    check(cu.cuCtxDestroy_v2(other))
    assert in_thread(lambda: cu.cuCtxSynchronize_v2(gpu.context)) == 0


def _peers() -> dict[str, list[int]]:
    """Give the context of one device access to another's, and take it away."""
    check(cu.cuInit(0))
    here, there = [value(c_void_p, cu.cuCtxCreate_v2, 0, device) for device in (0, 1)]
    memory = allocate(64)
    check(cu.cuMemsetD8_v2(memory, 5, 64))
    check(cu.cuCtxSynchronize())
    check(cu.cuCtxSetCurrent(here))
    seen = {"flags": [cu.cuCtxEnablePeerAccess(there, 1)]}
    seen["enable"] = [cu.cuCtxEnablePeerAccess(there, 0) for _ in range(2)]
    seen["bytes"] = list(download(memory, 2))
    seen["disable"] = [cu.cuCtxDisablePeerAccess(there) for _ in range(2)]
    seen["destroy"] = [cu.cuCtxDestroy_v2(context) for context in (there, here)]
    return seen


def test_peer_access_is_given_and_taken_once() -> None:
    """Again is ALREADY_ENABLED, or NOT_ENABLED; there are no flags."""
    assert fresh(_peers, GPULEND_SIM_DEVICES="2") == {
        "flags": [1],
        "enable": [0, 704],
        "bytes": [5, 5],
        "disable": [0, 705],
        "destroy": [0, 0],
    }
