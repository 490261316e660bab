"""Streams through the per-thread variants and the old forms."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any

import pytest

from .bench import hold_legacy, peek
from .control import only_simulated
from .cuda import HOST_FUNCTION, STREAM_CALLBACK, BatchOperation, check
from .resources import LEGACY, PER_THREAD, Resources, in_thread, last, value
from .variants import cu

pytestmark = only_simulated

NOT_READY = 600
WAIT_32, WRITE_32, WRITE_64 = 1, 2, 5
FORMS = pytest.mark.parametrize("form", ["", "_v2", "_ptsz", "_v2_ptsz"])


def _id(function: Any, stream: int | None) -> int:
    return last(c_uint64, function, stream)


def test_stream_zero_of_a_variant_is_the_threads_own(gpu: Resources) -> None:
    """One for each thread, and not the legacy one; other handles mean what they always do."""
    own = _id(cu.cuStreamGetId_ptsz, None)
    assert own == _id(cu.cuStreamGetId, PER_THREAD) != _id(cu.cuStreamGetId, None)

    def elsewhere() -> int:
        check(cu.cuCtxSetCurrent(gpu.context))
        return _id(cu.cuStreamGetId_ptsz, None)

    assert in_thread(elsewhere) != own
    for stream in (LEGACY, PER_THREAD, gpu.stream(0), gpu.stream()):
        assert _id(cu.cuStreamGetId_ptsz, stream) == _id(cu.cuStreamGetId, stream)


def test_variants_answer_questions_as_the_plain_forms_do(gpu: Resources) -> None:
    """About any stream."""
    low = value(c_void_p, cu.cuStreamCreateWithPriority, 1, 100)
    for stream in (None, LEGACY, PER_THREAD, low, gpu.stream(0)):
        for question in ("cuStreamGetPriority", "cuStreamGetFlags", "cuStreamGetDevice"):
            plain, variant = getattr(cu, question), getattr(cu, f"{question}_ptsz")
            assert last(c_int, variant, stream) == last(c_int, plain, stream)
        assert last(c_void_p, cu.cuStreamGetCtx_ptsz, stream) == gpu.context
    check(cu.cuStreamDestroy(low))


@pytest.mark.parametrize("form", ["_v2", "_v2_ptsz"])
def test_a_stream_has_a_context_and_no_green_context(gpu: Resources, form: str) -> None:
    """The second form of the question asks for both."""
    context, green = c_void_p(99), c_void_p(99)
    for stream in (None, gpu.stream()):
        check(getattr(cu, f"cuStreamGetCtx{form}")(stream, byref(context), byref(green)))
        assert (context.value, green.value) == (gpu.context, None)


def test_a_variant_asks_and_waits_for_the_threads_own_stream_only(gpu: Resources) -> None:
    """The legacy stream is not ready: it stands behind a blocking stream that is held."""
    hold_legacy(gpu)
    assert cu.cuStreamQuery(None) == NOT_READY
    assert cu.cuStreamQuery_ptsz(None) == 0
    assert cu.cuStreamSynchronize_ptsz(None) == 0


def test_a_variant_is_not_ready_until_the_threads_work_is_done(gpu: Resources) -> None:
    """Query says so, synchronise waits for it."""
    gate = gpu.gate()
    gate.hold(PER_THREAD)
    assert cu.cuStreamQuery_ptsz(None) == NOT_READY
    gate.open()
    assert cu.cuStreamSynchronize_ptsz(None) == 0
    assert cu.cuStreamQuery_ptsz(None) == 0


def test_the_threads_own_stream_waits_for_an_event(gpu: Resources) -> None:
    """The legacy one does not, or other blocking streams would stand behind it."""
    stream, event, gate, out = gpu.stream(), gpu.event(), gpu.gate(), gpu.pinned(8)
    blocking = gpu.stream(0)
    gate.hold(stream)
    check(cu.cuEventRecord(event, stream))
    check(cu.cuStreamWaitEvent_ptsz(None, event, 0))
    check(cu.cuMemsetD8Async_ptsz(out, 1, 4, None))
    check(cu.cuMemsetD8Async(out + 4, 2, 4, blocking))
    check(cu.cuStreamSynchronize(blocking))
    assert cu.cuStreamQuery_ptsz(None) == NOT_READY
    assert ctypes.string_at(out, 8) == bytes(4) + b"\2" * 4
    gate.open()
    check(cu.cuStreamSynchronize_ptsz(None))
    assert ctypes.string_at(out, 8) == b"\1" * 4 + b"\2" * 4


@FORMS
def test_a_host_function_runs_in_every_form(gpu: Resources, form: str) -> None:
    """Once, with its argument; of the variants on the thread's own stream."""
    seen: list[int | None] = []
    note = HOST_FUNCTION(seen.append)
    own = form.endswith("_ptsz")
    stream = None if own else gpu.stream()
    hold_legacy(gpu)
    more = [0] if "_v2" in form else []
    check(getattr(cu, f"cuLaunchHostFunc{form}")(stream, note, 7, *more))
    check(cu.cuStreamSynchronize(PER_THREAD if own else stream))
    assert seen == [7]


def test_a_callback_runs_on_the_threads_own_stream(gpu: Resources) -> None:
    """While the legacy stream cannot run."""
    seen: list[tuple[int, int | None]] = []
    note = STREAM_CALLBACK(lambda _, code, argument: seen.append((code, argument)))
    hold_legacy(gpu)
    check(cu.cuStreamAddCallback_ptsz(None, note, 5, 0))
    check(cu.cuStreamSynchronize(PER_THREAD))
    assert seen == [(0, 5)]


@FORMS
@pytest.mark.parametrize("bits", [32, 64])
def test_a_word_is_written_and_waited_for_in_every_form(
    gpu: Resources, form: str, bits: int
) -> None:
    """In the order of the stream, which of the variants is the thread's own."""
    own = form.endswith("_ptsz")
    stream = None if own else gpu.stream()
    device, word = gpu.alloc(16), gpu.pinned(8)
    check(cu.cuMemsetD8_v2(device, 0, 16))
    check(cu.cuCtxSynchronize())
    hold_legacy(gpu)
    check(getattr(cu, f"cuStreamWaitValue{bits}{form}")(stream, word, 3, 1))
    check(getattr(cu, f"cuStreamWriteValue{bits}{form}")(stream, device, 0x0102, 0))
    handle = PER_THREAD if own else stream
    assert cu.cuStreamQuery(handle) == NOT_READY
    assert peek(gpu, device, 16) == bytes(16)
    ctypes.memset(word, 3, 1)
    check(cu.cuStreamSynchronize(handle))
    assert peek(gpu, device, 16) == b"\2\1" + bytes(14)


@FORMS
def test_a_batch_runs_in_every_form(gpu: Resources, form: str) -> None:
    """All its operations, in order."""
    own = form.endswith("_ptsz")
    stream = None if own else gpu.stream()
    word = gpu.pinned(16)
    each = [(WRITE_32, word, 7, 0), (WAIT_32, word, 7, 1), (WRITE_64, word + 8, 8, 0)]
    batch = (BatchOperation * 3)(*[BatchOperation(*operation) for operation in each])
    hold_legacy(gpu)
    check(getattr(cu, f"cuStreamBatchMemOp{form}")(stream, 3, batch, 0))
    check(cu.cuStreamSynchronize(PER_THREAD if own else stream))
    assert ctypes.string_at(word, 16) == bytes([7] + [0] * 7 + [8] + [0] * 7)


def test_a_stream_is_destroyed_by_the_old_form(gpu: Resources) -> None:
    """As by the new one."""
    stream = value(c_void_p, cu.cuStreamCreate, 1)
    assert cu.cuStreamDestroy(stream) == 0
    assert cu.cuStreamQuery(stream) == 400
    assert cu.cuStreamDestroy(None) == 400
