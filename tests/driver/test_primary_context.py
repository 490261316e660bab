"""The primary context of a device: retain, release, state, flags, reset; in fresh processes."""

from __future__ import annotations

import threading
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p
from typing import Any

from .cuda import check, cu
from .resources import Resources, allocate, alone, current, start, value


def _state() -> list[int]:
    flags, active = c_uint(), c_int()
    check(cu.cuDevicePrimaryCtxGetState(0, byref(flags), byref(active)))
    return [flags.value, active.value]


def _alloc_code() -> int:
    return cu.cuMemAlloc_v2(byref(c_uint64()), 16)


def _life() -> dict[str, Any]:
    check(cu.cuInit(0))
    seen: dict[str, Any] = {"at first": _state(), "release at first": _release()}
    first = value(c_void_p, cu.cuDevicePrimaryCtxRetain, 0)
    seen["retain does not make it current"] = current()
    second = value(c_void_p, cu.cuDevicePrimaryCtxRetain, 0)
    seen["same handle"] = first == second
    seen["retained"] = _state()
    seen["releases"] = [_release(), _state()[1], _release(), _state()[1], _release()]
    seen["same handle again"] = value(c_void_p, cu.cuDevicePrimaryCtxRetain, 0) == first
    return seen


def _release() -> int:
    return cu.cuDevicePrimaryCtxRelease_v2(0)


def test_the_primary_context_lives_while_it_is_retained() -> None:
    """Counted; released once too often is INVALID_CONTEXT; the handle stays the same."""
    assert alone(_life) == {
        "at first": [0, 0],
        "release at first": 201,
        "retain does not make it current": None,
        "same handle": True,
        "retained": [0, 1],
        "releases": [0, 1, 0, 0, 201],
        "same handle again": True,
    }


def _dead_after_release() -> dict[str, Any]:
    context = start()
    address = allocate(1000)
    check(_release())
    dead = _answers_of_a_dead_context(context)
    dead["free"] = cu.cuMemFree_v2(address)
    dead["revived"] = value(c_void_p, cu.cuDevicePrimaryCtxRetain, 0) == context
    return {**dead, "allocate again": _alloc_code()}


def _answers_of_a_dead_context(context: int) -> dict[str, Any]:
    return {
        "still current": current() == context,
        "device": value(c_int, cu.cuCtxGetDevice),
        "allocate": _alloc_code(),
        "synchronize": cu.cuCtxSynchronize(),
        "version": cu.cuCtxGetApiVersion(context, byref(c_uint())),
        "id": cu.cuCtxGetId(context, byref(c_uint64())),
    }


DEAD = {
    "still current": True,
    "device": 0,
    "allocate": 709,
    "synchronize": 709,
    "version": 201,
    "id": 709,
}


def test_a_released_primary_context_stays_current_but_dead() -> None:
    """Calls say CONTEXT_IS_DESTROYED until someone retains it again; its memory is gone."""
    revived = {"free": 709, "revived": True, "allocate again": 0}
    assert alone(_dead_after_release) == {**DEAD, **revived}


def _reset() -> dict[str, Any]:
    check(cu.cuInit(0))
    seen: dict[str, Any] = {"inactive": cu.cuDevicePrimaryCtxReset_v2(0)}
    context = start()
    address = allocate(1000)
    check(cu.cuDevicePrimaryCtxReset_v2(0))
    seen["state"] = _state()
    seen["memory"] = cu.cuPointerGetAttribute(byref(c_uint()), 2, address)
    seen.update(_answers_of_a_dead_context(context))
    seen["releases"] = [_release(), _release()]
    seen["absent"] = cu.cuDevicePrimaryCtxReset_v2(1000)
    return seen


def test_reset_ends_the_context_whoever_holds_it() -> None:
    """The count of retains is kept: each is still to be released."""
    expected = {"inactive": 0, "state": [0, 0], "memory": 1, "releases": [0, 201], "absent": 101}
    assert alone(_reset) == {**DEAD, **expected}


def _flags() -> dict[str, Any]:
    check(cu.cuInit(0))
    seen: dict[str, Any] = {"set": [], "read": []}
    for flags in (1, 2, 4, 3, 8, 0x100, 0):
        seen["set"].append(cu.cuDevicePrimaryCtxSetFlags_v2(0, flags))
        seen["read"].append(_state()[0])
    start()
    seen["while active"] = [cu.cuDevicePrimaryCtxSetFlags_v2(0, 4), _state()]
    seen["context"] = value(c_uint, cu.cuCtxGetFlags)
    seen["absent"] = cu.cuDevicePrimaryCtxSetFlags_v2(1000, 0)
    flags, active = c_uint(), c_int()
    seen["null"] = [
        cu.cuDevicePrimaryCtxGetState(0, None, byref(active)),
        cu.cuDevicePrimaryCtxGetState(0, byref(flags), None),
        cu.cuDevicePrimaryCtxGetState(1000, byref(flags), byref(active)),
    ]
    return seen


def test_flags_can_be_set_before_and_while_it_is_active() -> None:
    """One scheduling flag; MAP_HOST (8) is refused here, yet the context always has it."""
    assert alone(_flags) == {
        "set": [0, 0, 0, 1, 1, 1, 0],
        "read": [1, 2, 4, 4, 4, 4, 0],
        "while active": [0, [4, 1]],
        "context": 12,
        "absent": 101,
        "null": [1, 1, 101],
    }


def test_the_primary_context_cannot_be_destroyed(gpu: Resources) -> None:
    """It belongs to the device."""
    assert cu.cuCtxDestroy_v2(gpu.context) == 201
    assert current() == gpu.context
    assert cu.cuCtxSynchronize() == 0


def _destroyed_elsewhere() -> dict[str, Any]:
    check(cu.cuInit(0))
    context = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    ready, gone = threading.Event(), threading.Event()
    seen: dict[str, Any] = {}

    def other() -> None:
        check(cu.cuCtxSetCurrent(context))
        ready.set()
        gone.wait()
        seen.update(still=current() == context, allocate=_alloc_code())
        seen.update(pop=cu.cuCtxPopCurrent_v2(None), current=current())

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    address = allocate(100)
    seen["destroy"] = cu.cuCtxDestroy_v2(context)
    gone.set()
    thread.join()
    seen["here"] = [current(), _alloc_code()]
    seen["memory"] = cu.cuPointerGetAttribute(byref(c_uint()), 2, address)
    return seen


def test_a_context_destroyed_here_stays_current_elsewhere_but_dead() -> None:
    """The destroying thread pops it; another thread keeps a dead one. Its memory is freed."""
    assert alone(_destroyed_elsewhere) == {
        "destroy": 0,
        "here": [None, 201],
        "memory": 1,
        "still": True,
        "allocate": 709,
        "pop": 0,
        "current": None,
    }


def test_retaining_again_gives_the_same_context(gpu: Resources) -> None:
    """One primary context per device and process."""
    assert value(c_void_p, cu.cuDevicePrimaryCtxRetain, 0) == gpu.context
    check(_release())
