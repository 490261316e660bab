"""Contexts: the stack of each thread, created contexts, flags and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import pytest

from .cuda import HOST_FUNCTION, Copy2D, CreateParameters, check, cu
from .resources import Resources, current, in_thread, last, value

NOTHING = HOST_FUNCTION(lambda _: None)


def _v2(out: object, flags: int, device: int) -> int:
    return cu.cuCtxCreate_v2(out, flags, device)


def _v3(out: object, flags: int, device: int) -> int:
    return cu.cuCtxCreate_v3(out, None, 0, flags, device)


def _v4(out: object, flags: int, device: int) -> int:
    return cu.cuCtxCreate_v4(out, None, flags, device)


def _v4_empty(out: object, flags: int, device: int) -> int:
    return cu.cuCtxCreate_v4(out, byref(CreateParameters()), flags, device)


@contextmanager
def created(flags: int = 0) -> Iterator[int]:
    """Create a context, current inside the block, and destroy it after."""
    context = value(c_void_p, cu.cuCtxCreate_v2, flags, 0)
    try:
        yield context
    finally:
        check(cu.cuCtxDestroy_v2(context))


@pytest.mark.parametrize("create", [_v2, _v3, _v4, _v4_empty])
def test_a_created_context_is_current_until_it_is_destroyed(
    gpu: Resources, create: Callable[..., int]
) -> None:
    """Creation pushes; destruction of the current context pops."""
    context = value(c_void_p, create, 0, 0)
    assert current() == context != gpu.context
    assert value(c_int, cu.cuCtxGetDevice) == 0
    check(cu.cuCtxDestroy_v2(context))
    assert current() == gpu.context


@pytest.mark.parametrize("create", [_v2, _v3, _v4])
def test_a_context_that_cannot_be_created_changes_nothing(
    gpu: Resources, create: Callable[..., int]
) -> None:
    """Absent device 101; wrong flags and NULL 1."""
    out = c_void_p()
    assert create(byref(out), 0, 1000) == 101
    assert create(byref(out), 3, 0) == 1
    assert create(byref(out), 0x100, 0) == 1
    assert create(None, 0, 0) == 1
    assert current() == gpu.context


@pytest.mark.parametrize("flags", [0, 1, 2, 4, 8, 0x80])
def test_a_created_context_has_the_flags_it_was_given(gpu: Resources, flags: int) -> None:
    """Scheduling, MAP_HOST and SYNC_MEMOPS come back as given."""
    with created(flags):
        assert value(c_uint, cu.cuCtxGetFlags) == flags


def test_flags_of_a_context_may_change(gpu: Resources) -> None:
    """One scheduling flag at a time; the primary context always maps host memory (8)."""
    assert [cu.cuCtxSetFlags(flags) for flags in (3, 0x100)] == [1, 1]
    seen = []
    for flags in (1, 2, 4, 0):
        check(cu.cuCtxSetFlags(flags))
        seen.append(value(c_uint, cu.cuCtxGetFlags))
    assert seen == [9, 10, 12, 8]


def test_push_and_pop_are_a_stack(gpu: Resources) -> None:
    """The same context may lie on it twice; what is popped is handed out."""
    check(cu.cuCtxPushCurrent_v2(gpu.context))
    with created() as other:
        check(cu.cuCtxPushCurrent_v2(gpu.context))
        assert value(c_void_p, cu.cuCtxPopCurrent_v2) == gpu.context
        assert current() == other
    assert current() == gpu.context
    assert value(c_void_p, cu.cuCtxPopCurrent_v2) == gpu.context
    assert current() == gpu.context


def test_pop_needs_no_place_for_the_result(gpu: Resources) -> None:
    """A NULL out pointer only pops."""
    check(cu.cuCtxPushCurrent_v2(gpu.context))
    assert cu.cuCtxPopCurrent_v2(None) == 0
    assert current() == gpu.context


def test_set_current_replaces_the_top(gpu: Resources) -> None:
    """Setting NULL takes the top away, and what lay below is current."""
    with created() as other:
        check(cu.cuCtxSetCurrent(gpu.context))
        assert current() == gpu.context
        check(cu.cuCtxSetCurrent(other))
        check(cu.cuCtxSetCurrent(None))
        assert current() == gpu.context
        check(cu.cuCtxPushCurrent_v2(other))


def test_null_contexts_are_refused(gpu: Resources) -> None:
    """NULL cannot be pushed or destroyed; NULL results are refused."""
    assert cu.cuCtxPushCurrent_v2(None) == 1
    assert cu.cuCtxDestroy_v2(None) == 1
    assert cu.cuCtxGetCurrent(None) == 1
    assert cu.cuCtxGetDevice(None) == 1
    assert cu.cuCtxGetFlags(None) == 1
    assert cu.cuCtxGetLimit(None, 0) == 1
    assert cu.cuCtxGetApiVersion(gpu.context, None) == 1
    assert cu.cuCtxGetId(gpu.context, None) == 1


def test_a_new_thread_has_no_context(gpu: Resources) -> None:
    """Current is per thread: empty at first, and what a thread sets stays in it."""

    def other() -> list[object]:
        seen: list[object] = [current(), cu.cuCtxPopCurrent_v2(None), cu.cuCtxSetCurrent(None)]
        with created() as context:
            seen.append(current() == context)
        return [*seen, current()]

    assert in_thread(other) == [None, 201, 0, True, None]
    assert current() == gpu.context


def _calls_without_context() -> dict[str, int]:
    out = (c_uint64 * 40)()
    more = byref(out, 128)
    calls = {
        "cuCtxGetDevice": (out,),
        "cuCtxSynchronize": (),
        "cuCtxGetFlags": (out,),
        "cuCtxGetLimit": (out, 0),
        "cuCtxSetLimit": (0, 1024),
        "cuCtxGetApiVersion": (None, out),
        "cuCtxGetId": (None, out),
        "cuCtxGetStreamPriorityRange": (out, more),
        "cuCtxGetCacheConfig": (out,),
        "cuMemAlloc_v2": (out, 16),
        "cuMemAllocPitch_v2": (out, more, 100, 10, 4),
        "cuMemAllocHost_v2": (out, 16),
        "cuMemAllocManaged": (out, 100, 1),
        "cuMemHostRegister_v2": (out, 16, 0),
        "cuMemGetInfo_v2": (out, more),
        "cuMemGetAddressRange_v2": (out, more, 4096),
        "cuMemcpy": (0, 0, 0),
        "cuMemcpyHtoD_v2": (0, None, 0),
        "cuMemcpyHtoDAsync_v2": (0, None, 0, None),
        "cuMemcpy2D_v2": (byref(Copy2D()),),
        "cuMemsetD8_v2": (0, 0, 0),
        "cuStreamCreate": (out, 0),
        "cuStreamQuery": (None,),
        "cuStreamSynchronize": (None,),
        "cuStreamIsCapturing": (None, out),
        "cuStreamBeginCapture_v2": (None, 0),
        "cuStreamGetCtx": (None, out),
        "cuStreamWriteValue32_v2": (None, 4096, 1, 0),
        "cuLaunchHostFunc": (None, NOTHING, None),
        "cuEventCreate": (out, 0),
        "cuModuleLoadData": (out, b"\0"),
        "cuMemAllocAsync": (out, 16, None),
        "cuMemFreeAsync": (0, None),
    }
    return {name: getattr(cu, name)(*arguments) for name, arguments in calls.items()}


def test_calls_that_need_a_context_say_so(gpu: Resources) -> None:
    """INVALID_CONTEXT, even for copies of nothing."""
    codes = in_thread(_calls_without_context)
    assert codes == dict.fromkeys(codes, 201)


def test_calls_that_need_no_context_work_without(gpu: Resources) -> None:
    """Freeing nothing, asking about addresses and modes, and pools of a device."""
    address = gpu.alloc(64)

    def calls() -> list[int]:
        mode, kind = c_int(0), c_uint()
        return [
            cu.cuMemFree_v2(0),
            cu.cuMemFree_v2(4096),
            cu.cuMemFreeHost(None),
            cu.cuMemHostUnregister(byref(kind)),
            cu.cuThreadExchangeStreamCaptureMode(byref(mode)),
            cu.cuPointerGetAttribute(byref(kind), 2, address),
            cu.cuDeviceGetDefaultMemPool(byref(c_void_p()), 0),
        ]

    assert in_thread(calls) == [0, 1, 0, 713, 0, 0, 0]


def test_ids_are_unique_and_null_means_current(gpu: Resources) -> None:
    """A context's id never comes back, not even for a context at the same address."""
    ids = [last(c_uint64, cu.cuCtxGetId, gpu.context)]
    assert last(c_uint64, cu.cuCtxGetId, None) == ids[0]
    for _ in range(2):
        with created() as context:
            ids.append(last(c_uint64, cu.cuCtxGetId, context))
    assert len(set(ids)) == 3


def test_the_api_version_of_a_context_is_3020(gpu: Resources) -> None:
    """Whatever made it: it is the version of the context interface, not of CUDA."""
    assert last(c_uint, cu.cuCtxGetApiVersion, gpu.context) == 3020
    assert last(c_uint, cu.cuCtxGetApiVersion, None) == 3020
    with created() as context:
        assert last(c_uint, cu.cuCtxGetApiVersion, context) == 3020


def test_limits_can_be_read_and_some_set(gpu: Resources) -> None:
    """Stack, printf and heap; a limit the device lacks is 215, an unknown one is 1."""
    with created():
        before = [value(c_size_t, cu.cuCtxGetLimit, limit) for limit in (0, 1, 2)]
        assert all(before)
        check(cu.cuCtxSetLimit(0, 2048))
        check(cu.cuCtxSetLimit(2, 16 << 20))
        assert value(c_size_t, cu.cuCtxGetLimit, 0) == 2048
        assert value(c_size_t, cu.cuCtxGetLimit, 2) == 16 << 20
    out = c_size_t()
    assert cu.cuCtxGetLimit(byref(out), 99) == 1
    assert cu.cuCtxSetLimit(99, 1) == 1


def test_priorities_go_from_zero_downwards(gpu: Resources) -> None:
    """The least is 0, the greatest at most that; either result may be left out."""
    least, greatest = c_int(9), c_int(9)
    check(cu.cuCtxGetStreamPriorityRange(byref(least), byref(greatest)))
    assert least.value == 0 >= greatest.value
    assert cu.cuCtxGetStreamPriorityRange(None, None) == 0


def test_the_cache_preference_is_kept(gpu: Resources) -> None:
    """Four values; nothing else."""
    with created():
        assert value(c_int, cu.cuCtxGetCacheConfig) == 0
        check(cu.cuCtxSetCacheConfig(2))
        assert value(c_int, cu.cuCtxGetCacheConfig) == 2
        assert cu.cuCtxSetCacheConfig(9) == 1


def test_attach_and_detach_count(gpu: Resources) -> None:
    """The last detach of a created context destroys it."""
    context = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    assert value(c_void_p, cu.cuCtxAttach, 0) == context
    check(cu.cuCtxDetach(context))
    assert current() == context
    check(cu.cuCtxDetach(context))
    assert current() == gpu.context
    assert cu.cuCtxDetach(None) == 201


def test_memory_and_streams_of_another_context_can_be_used(gpu: Resources) -> None:
    """Except that an event is recorded only on streams of its own context."""
    stream, event, address = gpu.stream(), gpu.event(), gpu.alloc(64)
    pinned = gpu.pinned(64)
    with created():
        mine = value(c_void_p, cu.cuStreamCreate, 0)
        own = value(c_void_p, cu.cuEventCreate, 0)
        assert last(c_void_p, cu.cuStreamGetCtx, stream) == gpu.context
        assert cu.cuMemcpyHtoDAsync_v2(address, pinned, 64, stream) == 0
        assert cu.cuStreamSynchronize(stream) == 0
        assert cu.cuEventQuery(event) == 0
        assert cu.cuStreamWaitEvent(mine, event, 0) == 0
        assert cu.cuEventRecord(event, mine) == 400
        assert cu.cuEventRecord(own, stream) == 400
        check(cu.cuStreamDestroy_v2(mine))
        check(cu.cuEventDestroy_v2(own))


def test_peer_access_to_oneself_is_unsupported(gpu: Resources) -> None:
    """Nor can it be taken away."""
    assert cu.cuCtxEnablePeerAccess(gpu.context, 0) == 217
    assert cu.cuCtxEnablePeerAccess(None, 0) == 201
    assert cu.cuCtxDisablePeerAccess(gpu.context) == 705
