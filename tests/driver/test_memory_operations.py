"""Writing a word in stream order, and waiting for one."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_uint32, c_uint64

import pytest

from .cuda import BatchOperation, check, cu
from .differences import answer
from .resources import JUNK, LEGACY, PER_THREAD, Resources, download, value

GEQ, EQ, AND, NOR = 0, 1, 2, 3
FLUSH = 1 << 30
WAIT_32, WRITE_32, FLUSH_REMOTE_WRITES, WAIT_64, WRITE_64, BARRIER = 1, 2, 3, 4, 5, 6
CAN_FLUSH_REMOTE_WRITES = 98  # CUdevice_attribute
NOT_READY = 600
TOP = 1 << 31


def _batch(stream: int | None, *operations: tuple[int, int, int, int], flags: int = 0) -> int:
    array = (BatchOperation * len(operations))(*[BatchOperation(*each) for each in operations])
    return cu.cuStreamBatchMemOp_v2(stream, len(operations), array, flags)


@pytest.mark.parametrize("stream", [None, LEGACY, PER_THREAD, "own"])
def test_a_word_is_written_in_stream_order(gpu: Resources, stream: int | str | None) -> None:
    """32 and 64 bits, to pinned and to device memory."""
    where = gpu.stream() if stream == "own" else stream
    pinned, device = gpu.pinned(24, fill=0xEE), gpu.alloc(16)
    check(cu.cuMemsetD8_v2(device, 0xEE, 16))
    check(cu.cuCtxSynchronize())
    check(cu.cuStreamWriteValue32_v2(where, pinned, 0x01020304, 0))
    check(cu.cuStreamWriteValue64_v2(where, pinned + 8, 0x0102030405060708, 0))
    check(cu.cuStreamWriteValue32_v2(where, device + 4, 7, 0))
    check(cu.cuCtxSynchronize())
    expected = bytes([4, 3, 2, 1]) + b"\xee" * 4 + bytes(range(8, 0, -1)) + b"\xee" * 8
    assert ctypes.string_at(pinned, 24) == expected
    assert download(device, 16) == b"\xee" * 4 + bytes([7, 0, 0, 0]) + b"\xee" * 8


CASES = [
    (GEQ, 5, [4, 0, 5 + TOP + 1], 5),
    (GEQ, 5, [4], 6),
    (GEQ, 5, [4], 5 + TOP - 1),  # cyclic: at most half the range ahead
    (EQ, 5, [4, 6], 5),
    (AND, 6, [0, 1, 8], 2),
    (NOR, 0xFFFFFFF0, [0xF, 0xFFFFFFFF], 0xE),
]


@pytest.mark.parametrize(("condition", "operand", "no", "yes"), CASES)
def test_a_stream_waits_until_a_condition_on_a_word_holds(
    gpu: Resources, condition: int, operand: int, no: list[int], yes: int
) -> None:
    """At least (cyclic), equal, any bit in common, any bit in neither."""
    stream, address = gpu.stream(), gpu.pinned(4)
    word = c_uint32.from_address(address)
    for held in no:
        word.value = held
        check(cu.cuStreamWaitValue32_v2(stream, address, operand, condition))
        try:
            assert cu.cuStreamQuery(stream) == NOT_READY, held
        finally:
            word.value = yes
            check(cu.cuStreamSynchronize(stream))


@pytest.mark.parametrize(("condition", "operand", "no", "yes"), CASES)
def test_a_stream_waits_for_64_bits_too(
    gpu: Resources, condition: int, operand: int, no: list[int], yes: int
) -> None:
    """The same conditions, with the words scaled so that the upper half decides."""
    stream, address = gpu.stream(), gpu.pinned(8)
    word = c_uint64.from_address(address)
    ones = 0xFFFFFFFF if condition == NOR else 0
    for held in no:
        word.value = (held << 32) + ones
        wanted = (operand << 32) + ones
        check(cu.cuStreamWaitValue64_v2(stream, address, wanted, condition))
        try:
            assert cu.cuStreamQuery(stream) == NOT_READY, held
        finally:
            word.value = (yes << 32) + ones
            check(cu.cuStreamSynchronize(stream))


def test_one_stream_can_wait_for_a_word_of_another(gpu: Resources) -> None:
    """Device memory orders streams as pinned memory does."""
    first, second, gate = gpu.stream(), gpu.stream(), gpu.gate()
    word, out = gpu.alloc(4), gpu.pinned(8)
    check(cu.cuMemsetD32_v2(word, 0, 1))
    check(cu.cuCtxSynchronize())
    gate.hold(first)
    check(cu.cuMemsetD8Async(out, 1, 8, first))
    check(cu.cuStreamWriteValue32_v2(first, word, 1, 0))
    check(cu.cuStreamWaitValue32_v2(second, word, 1, EQ))
    check(cu.cuMemsetD8Async(out, 2, 4, second))
    assert cu.cuStreamQuery(second) == NOT_READY
    gate.open()
    check(cu.cuStreamSynchronize(second))
    assert ctypes.string_at(out, 8) == b"\x02" * 4 + b"\x01" * 4


def test_addresses_are_aligned_memory_of_the_driver(gpu: Resources) -> None:
    """Misaligned, NULL, junk and plain host addresses are refused."""
    stream, pinned, device = gpu.stream(), gpu.pinned(64), gpu.alloc(100)
    plain = (c_uint64 * 4)()
    for wrong in (pinned + 1, pinned + 2, 0, JUNK & ~7, ctypes.addressof(plain), device + 100):
        assert cu.cuStreamWriteValue32_v2(stream, wrong, 1, 0) == 1
        assert cu.cuStreamWaitValue32_v2(stream, wrong, 1, 0) == 1
    assert cu.cuStreamWriteValue64_v2(stream, pinned + 4, 1, 0) == 1
    assert cu.cuStreamWaitValue64_v2(stream, pinned + 4, 1, 0) == 1
    assert cu.cuStreamWriteValue32_v2(stream, device + 96, 1, 0) == 0
    code = cu.cuStreamWriteValue64_v2(stream, device + 96, 1, 0)
    assert code == answer("a 64-bit memory operation across the end of an allocation")
    assert cu.cuStreamSynchronize(stream) == 0


def test_unknown_flags_are_refused(gpu: Resources) -> None:
    """A write takes none, a wait one of four conditions."""
    stream, pinned = gpu.stream(), gpu.pinned(64)
    for flags in (1, 2, 4):
        assert cu.cuStreamWriteValue32_v2(stream, pinned, 1, flags) == 1
        assert cu.cuStreamWriteValue64_v2(stream, pinned, 1, flags) == 1
    for flags in (4, 5, 8):
        assert cu.cuStreamWaitValue32_v2(stream, pinned, 0, flags) == 1
        assert cu.cuStreamWaitValue64_v2(stream, pinned, 0, flags) == 1


def test_a_flush_is_for_devices_that_can(gpu: Resources) -> None:
    """NOT_SUPPORTED elsewhere, as a flag of a wait and as an operation; a barrier always works."""
    stream, pinned = gpu.stream(), gpu.pinned(64)
    code = 0 if value(c_int, cu.cuDeviceGetAttribute, CAN_FLUSH_REMOTE_WRITES, 0) else 801
    assert cu.cuStreamWaitValue32_v2(stream, pinned, 0, FLUSH) == code
    assert cu.cuStreamWaitValue64_v2(stream, pinned, 0, FLUSH | EQ) == code
    assert _batch(stream, (FLUSH_REMOTE_WRITES, 0, 0, 0)) == code
    assert _batch(stream, (BARRIER, 0, 0, 0)) == 0
    assert cu.cuStreamSynchronize(stream) == 0


def test_a_batch_is_its_operations_in_order(gpu: Resources) -> None:
    """Both widths, waits between writes."""
    stream, pinned = gpu.stream(), gpu.pinned(64)
    code = _batch(
        stream,
        (WRITE_32, pinned, 7, 0),
        (WAIT_32, pinned, 7, EQ),
        (WRITE_64, pinned + 8, 1 << 40, 0),
        (WAIT_64, pinned + 8, 1 << 40, GEQ),
        (WRITE_32, pinned, 8, 0),
    )
    assert code == 0
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(pinned, 16) == bytes([8] + [0] * 12 + [1, 0, 0])


def test_a_wrong_batch_does_nothing(gpu: Resources) -> None:
    """One bad operation refuses all; so do unknown operations and flags."""
    stream, pinned = gpu.stream(), gpu.pinned(64)
    assert _batch(stream, (WRITE_32, pinned, 9, 0), (WRITE_32, 0, 9, 0)) == 1
    assert _batch(stream, (WRITE_32, pinned, 9, 0), (99, pinned, 9, 0)) == 1
    assert _batch(stream, (WRITE_32, pinned, 9, 0), flags=1) == 1
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(pinned, 4) == bytes(4)


def test_a_batch_holds_at_most_255_operations(gpu: Resources) -> None:
    """None at all are no error, more are refused."""
    stream, pinned = gpu.stream(), gpu.pinned(64)
    assert _batch(stream, *[(WRITE_32, pinned, 9, 0)] * 255) == 0
    assert _batch(stream, *[(WRITE_32, pinned, 9, 0)] * 256) == 1
    one = BatchOperation(WRITE_32, pinned, 9, 0)
    assert cu.cuStreamBatchMemOp_v2(stream, 0, byref(one), 0) == 0
    check(cu.cuStreamSynchronize(stream))
