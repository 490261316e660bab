"""One element as bytes: what `gpulend.full` repeats."""

from __future__ import annotations

import struct
from typing import Any

from gpulend._codes import NOT_AN_ELEMENT, NOT_FILLABLE
from gpulend.exceptions import LayoutError

_LETTERS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}
_PAIRS = {"complex64": "f", "complex128": "d"}


def encode(value: Any, dtype: str) -> bytes:
    """Return the bytes of one element.

    >>> encode(1, "int16"), encode(-2.0, "bfloat16")
    (b'\\x01\\x00', b'\\x00\\xc0')
    """
    try:
        if dtype in _PAIRS:
            number = complex(value)
            return struct.pack(f"<2{_PAIRS[dtype]}", number.real, number.imag)
        if dtype == "bfloat16":
            return _bfloat16(float(value))
        if dtype in _LETTERS:
            kind = float if dtype.startswith("float") else bool if dtype == "bool" else int
            if kind is int and int(value) != value:
                raise ValueError("it is not an integer")
            return struct.pack("<" + _LETTERS[dtype], kind(value))
    except (struct.error, ValueError, TypeError, OverflowError) as error:
        raise LayoutError(
            f"{value!r} is not an element of type {dtype}: {error}", NOT_AN_ELEMENT
        ) from error
    bits = {"complex32": "uint32", "bcomplex32": "uint32"}.get(dtype, "uint8")
    raise LayoutError(
        f"cannot fill elements of type {dtype}; fill the bits, as in "
        f"`gpulend.full(shape, bits, {bits!r}).view({dtype!r})`",
        NOT_FILLABLE,
    )


def _bfloat16(number: float) -> bytes:
    """Round to nearest, ties to even, as hardware does."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    if number != number:  # a NaN keeps its sign and stays one
        return struct.pack("<H", (bits >> 16) | 0x40)
    return struct.pack("<H", (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 & 0xFFFF)
