"""Filling memory: 8, 16 and 32 bits, one and two dimensions, at once or in a stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from .cuda import check, cu
from .resources import JUNK, Resources, allocate, download

SIZE = 1000
VALUES = {8: 0xA1, 16: 0xB2C3, 32: 0xD4E5F607}


def _line(gpu: Resources, bits: int, form: str) -> Callable[[int, int, int], int]:
    """Return fill(address, value, count)."""
    if form == "sync":
        return getattr(cu, f"cuMemsetD{bits}_v2")
    stream, fill = gpu.stream(), getattr(cu, f"cuMemsetD{bits}Async")
    return lambda address, value, count: fill(address, value, count, stream)


def _rectangle(gpu: Resources, bits: int, form: str) -> Callable[[int, int, int, int, int], int]:
    """Return fill(address, pitch, value, width, height)."""
    if form == "sync":
        return getattr(cu, f"cuMemsetD2D{bits}_v2")
    stream, fill = gpu.stream(), getattr(cu, f"cuMemsetD2D{bits}Async")
    return lambda *arguments: fill(*arguments, stream)


@pytest.fixture
def block(gpu: Resources) -> int:
    """Give 1000 bytes of 0xEE."""
    address = gpu.alloc(SIZE)
    check(cu.cuMemsetD8_v2(address, 0xEE, SIZE))
    check(cu.cuCtxSynchronize())
    return address


FORMS = pytest.mark.parametrize("form", ["sync", "async"])
WIDTHS = pytest.mark.parametrize("bits", [8, 16, 32])


@FORMS
@WIDTHS
def test_a_line_is_filled_with_elements(gpu: Resources, block: int, bits: int, form: str) -> None:
    """Little-endian, as many elements as asked for, not a byte more."""
    assert _line(gpu, bits, form)(block + 8, VALUES[bits], 50) == 0
    check(cu.cuCtxSynchronize())
    filled = VALUES[bits].to_bytes(bits // 8, "little") * 50
    assert download(block, SIZE) == b"\xee" * 8 + filled + b"\xee" * (SIZE - 8 - len(filled))


@FORMS
@WIDTHS
def test_a_rectangle_is_filled_between_the_pitches(
    gpu: Resources, block: int, bits: int, form: str
) -> None:
    """Width counts elements, pitch counts bytes."""
    assert _rectangle(gpu, bits, form)(block + 4, 100, VALUES[bits], 5, 7) == 0
    check(cu.cuCtxSynchronize())
    filled = VALUES[bits].to_bytes(bits // 8, "little") * 5
    expected = bytearray(b"\xee" * SIZE)
    for row in range(7):
        start = 4 + 100 * row
        expected[start : start + len(filled)] = filled
    assert download(block, SIZE) == bytes(expected)


@FORMS
@pytest.mark.parametrize(("bits", "offset"), [(16, 1), (32, 1), (32, 2), (32, 3)])
def test_a_misaligned_element_is_refused(
    gpu: Resources, block: int, bits: int, offset: int, form: str
) -> None:
    """The address, and the pitch where there are rows, are multiples of the element."""
    assert _line(gpu, bits, form)(block + offset, 1, 2) == 1
    assert _rectangle(gpu, bits, form)(block + offset, 20, 1, 2, 2) == 1
    assert _rectangle(gpu, bits, form)(block, 20 + offset, 1, 2, 2) == 1
    check(cu.cuCtxSynchronize())
    assert download(block, SIZE) == b"\xee" * SIZE


@FORMS
def test_a_fill_out_of_range_writes_nothing(gpu: Resources, block: int, form: str) -> None:
    """Not one byte past the end, in one or two dimensions."""
    assert _line(gpu, 8, form)(block, 1, SIZE + 1) == 1
    assert _line(gpu, 32, form)(block, 1, SIZE // 4 + 1) == 1
    assert _line(gpu, 8, form)(block + SIZE, 1, 1) == 1
    assert _line(gpu, 8, form)(block - 1, 1, 1) == 1
    assert _rectangle(gpu, 8, form)(block, 500, 1, 500, 3) == 1
    assert _rectangle(gpu, 8, form)(block, 600, 1, 401, 2) == 1
    check(cu.cuCtxSynchronize())
    assert download(block, SIZE) == b"\xee" * SIZE


@FORMS
def test_a_fill_may_end_at_the_last_byte(gpu: Resources, block: int, form: str) -> None:
    """The last row needs no full pitch behind it."""
    assert _line(gpu, 8, form)(block, 1, SIZE) == 0
    check(cu.cuCtxSynchronize())  # each fill is in a stream of its own
    assert _rectangle(gpu, 8, form)(block, 600, 2, 400, 2) == 0
    check(cu.cuCtxSynchronize())
    assert download(block, SIZE) == b"\x02" * 400 + b"\x01" * 200 + b"\x02" * 400


@FORMS
def test_filling_nothing_looks_at_nothing(gpu: Resources, block: int, form: str) -> None:
    """No elements: success, whatever the address."""
    for bits in (8, 16, 32):
        line, rectangle = _line(gpu, bits, form), _rectangle(gpu, bits, form)
        for address in (0, block, block + 1, block + SIZE):
            assert line(address, 1, 0) == 0
        assert rectangle(0, 0, 1, 0, 0) == 0
        assert rectangle(block, 100, 1, 5, 0) == 0
        assert rectangle(block, 100, 1, 0, 5) == 0
    assert download(block, SIZE) == b"\xee" * SIZE


@FORMS
def test_the_pitch_matters_only_between_rows(gpu: Resources, block: int, form: str) -> None:
    """Below the width it is refused for two rows, and ignored for one."""
    rectangle = _rectangle(gpu, 8, form)
    assert rectangle(block, 5, 1, 10, 2) == 1
    assert rectangle(block, 5, 1, 10, 1) == 0
    assert rectangle(block, 0, 1, 10, 1) == 0
    check(cu.cuCtxSynchronize())
    assert download(block, 11) == b"\x01" * 10 + b"\xee"


@FORMS
def test_only_memory_of_the_driver_can_be_filled(gpu: Resources, block: int, form: str) -> None:
    """NULL, junk, freed and plain host memory are refused; pinned memory is filled."""
    fill = _line(gpu, 8, form)
    freed = allocate(4000)
    check(cu.cuMemFree_v2(freed))
    plain, pinned = ctypes.create_string_buffer(16), gpu.pinned(64)
    for wrong in (0, JUNK, freed, ctypes.addressof(plain)):
        assert fill(wrong, 1, 1) == 1
    assert fill(pinned, 7, 64) == 0
    check(cu.cuCtxSynchronize())
    assert ctypes.string_at(pinned, 64) == b"\x07" * 64
