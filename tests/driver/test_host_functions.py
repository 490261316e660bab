"""Host functions and callbacks: when they run, what they get, what they may not do."""

from __future__ import annotations

import ctypes
import threading
import time
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any

import pytest

from .cuda import HOST_FUNCTION, STREAM_CALLBACK, check, cu
from .resources import LEGACY, PER_THREAD, Resources

NOT_PERMITTED = 800


def test_a_host_function_gets_its_argument_on_another_thread(gpu: Resources) -> None:
    """In the stream's order, once."""
    seen: list[Any] = []
    stream = gpu.stream()

    @HOST_FUNCTION
    def note(argument: int | None) -> None:
        seen.append((argument, threading.get_ident()))

    for argument in (1, 1234, None):
        check(cu.cuLaunchHostFunc(stream, note, argument))
    check(cu.cuStreamSynchronize(stream))
    assert [argument for argument, _ in seen] == [1, 1234, None]
    assert threading.get_ident() not in [thread for _, thread in seen]


def test_a_host_function_runs_between_its_neighbours(gpu: Resources) -> None:
    """It sees what came before, and what comes after waits for it."""
    stream, device, out = gpu.stream(), gpu.alloc(8), gpu.pinned(24)
    seen = []

    @HOST_FUNCTION
    def note(_: int | None) -> None:
        time.sleep(0.01)
        seen.append(ctypes.string_at(out, 1)[0])
        ctypes.memset(out + 8, 9, 8)

    check(cu.cuMemsetD8Async(device, 5, 8, stream))
    check(cu.cuMemcpyDtoHAsync_v2(out, device, 8, stream))
    check(cu.cuLaunchHostFunc(stream, note, None))
    check(cu.cuMemcpyHtoDAsync_v2(device, out + 8, 8, stream))
    check(cu.cuMemcpyDtoHAsync_v2(out + 16, device, 8, stream))
    check(cu.cuStreamSynchronize(stream))
    assert seen == [5]
    assert ctypes.string_at(out + 16, 8) == b"\x09" * 8


@pytest.mark.parametrize("stream", [None, LEGACY, PER_THREAD])
def test_the_special_streams_take_host_functions(gpu: Resources, stream: int | None) -> None:
    """As any stream does."""
    seen: list[int | None] = []
    note = HOST_FUNCTION(seen.append)
    check(cu.cuLaunchHostFunc(stream, note, 3))
    check(cu.cuCtxSynchronize())
    assert seen == [3]


def test_a_host_function_may_not_call_the_driver(gpu: Resources) -> None:
    """What makes, frees or waits answers NOT_PERMITTED, and poisons nothing outside."""
    seen: dict[str, int] = {}
    stream, word = gpu.stream(), gpu.pinned(8)

    @HOST_FUNCTION
    def call(_: int | None) -> None:
        seen["cuMemAlloc"] = cu.cuMemAlloc_v2(byref(c_uint64()), 16)
        seen["cuEventCreate"] = cu.cuEventCreate(byref(c_void_p()), 0)
        seen["cuCtxGetCurrent"] = cu.cuCtxGetCurrent(byref(c_void_p()))
        seen["cuCtxSetCurrent"] = cu.cuCtxSetCurrent(gpu.context)
        seen["cuCtxSynchronize"] = cu.cuCtxSynchronize()
        seen["cuDeviceGetCount"] = cu.cuDeviceGetCount(byref(c_int()))
        seen["cuPointerGetAttribute"] = cu.cuPointerGetAttribute(byref(c_int()), 2, word)

    check(cu.cuLaunchHostFunc(stream, call, None))
    check(cu.cuStreamSynchronize(stream))
    assert seen == dict.fromkeys(seen, NOT_PERMITTED)
    assert len(seen) == 7
    assert cu.cuMemsetD8_v2(word, 1, 8) == 0
    assert cu.cuCtxSynchronize() == 0


def test_no_function_is_refused(gpu: Resources) -> None:
    """NULL is INVALID_VALUE."""
    assert cu.cuLaunchHostFunc(gpu.stream(), None, 1) == 1
    assert cu.cuStreamAddCallback(gpu.stream(), None, 1, 0) == 1


def test_a_callback_gets_stream_status_and_argument(gpu: Resources) -> None:
    """The stream as it was named: NULL for the legacy stream. Flags must be zero."""
    seen: list[Any] = []
    stream = gpu.stream()

    @STREAM_CALLBACK
    def note(which: int | None, code: int, argument: int | None) -> None:
        seen.append((which, code, argument, cu.cuMemAlloc_v2(byref(c_uint64()), 16)))

    check(cu.cuStreamAddCallback(stream, note, 99, 0))
    check(cu.cuStreamSynchronize(stream))
    check(cu.cuStreamAddCallback(None, note, 5, 0))
    check(cu.cuCtxSynchronize())
    assert seen == [(stream, 0, 99, NOT_PERMITTED), (None, 0, 5, NOT_PERMITTED)]
    assert cu.cuStreamAddCallback(stream, note, 99, 1) == 1
