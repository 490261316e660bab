"""NumPy: any strides, read-only kept, versioned capsules; narrow floats through ml_dtypes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gpulend._codes import (
    MEANING_LOST,
    NO_DLPACK_CODE,
    NO_ELEMENT_TYPE,
    NOT_NUMBERS,
    OTHER_BYTE_ORDER,
    PACKED_ELEMENTS,
)
from gpulend.adapters.interface import (
    PLAIN,
    Adapter,
    Consumer,
    Makes,
    Probe,
    Producer,
    Takes,
    made_of,
)
from gpulend.exceptions import ExportError, ProtocolError

if TYPE_CHECKING:
    from gpulend._native import Lease

# JAX takes memory of the host at multiples of it only.
ALIGNMENT = 64
# What NumPy takes through DLPack.
TYPES = frozenset(PLAIN)

# What only ml_dtypes names in NumPy, carried as unsigned bits of the same width.
BITS = {"bfloat16": "uint16", "complex32": "uint32", "bcomplex32": "uint32"} | dict.fromkeys(
    (
        *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
        *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
        *("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "int2", "int4", "uint2", "uint4"),
    ),
    "uint8",
)


def _other(lease: Lease) -> Any:
    """Return a read-only array without elements, or one of a type that NumPy has from ml_dtypes."""
    dtype = lease.dtype
    if dtype.name in TYPES:
        # NumPy makes an array of its own when there are no elements, and forgets the flag.
        array = np.from_dlpack(lease)
        array.flags.writeable = False
        return array
    bits = BITS.get(dtype.name)
    if bits is not None and (dtype.padded or dtype.bits >= 8):
        try:
            import ml_dtypes
        except ImportError:
            pass
        else:
            array = lease.view(bits).lend("numpy")
            return array.view(getattr(ml_dtypes, dtype.name))
    if bits is not None and dtype.bits < 8 and not dtype.padded:
        raise ExportError(
            f"the {dtype} elements are packed, several to a byte, and NumPy stores each in a "
            "byte of its own; lend `lease.view('uint8')` for the bytes",
            PACKED_ELEMENTS,
        )
    raise ExportError(
        f"numpy has no element type {dtype}; install ml_dtypes if that has it, or lend the bits: "
        f"`lease.view('uint{max(8, min(dtype.bits, 64))}')`",
        NO_ELEMENT_TYPE,
    )


def describe(array: np.ndarray[Any, Any]) -> tuple[int, list[int], list[int], str, bool, bool]:
    """Return what NumPy's own DLPack export cannot say about an array.

    That is arrays of ml_dtypes, and read-only ones before NumPy 2.1.
    """
    dtype = array.dtype
    if dtype.names is not None or dtype.hasobject or dtype.kind in "SUMm":
        raise ExportError(
            f"elements of type {dtype} are not numbers; borrow a numeric view or one field "
            "(`array['field']`, `array.view('int64')`)",
            NOT_NUMBERS,
        )
    if not dtype.isnative:
        raise ExportError(
            f"elements of type {dtype.str!r} have the other byte order; convert first: "
            "`array.astype(array.dtype.newbyteorder('='))`",
            OTHER_BYTE_ORDER,
        )
    # Types of ml_dtypes have a name only; NumPy stores each element in bytes of its own.
    name = dtype.name if dtype.name in BITS else dtype.str
    if name not in BITS and dtype.kind not in "biufc":
        raise ProtocolError(
            f"elements of NumPy type {dtype} have no DLPack type code", NO_DLPACK_CODE
        )
    address = array.__array_interface__["data"][0]
    shape, strides = list(array.shape), list(array.strides)
    return address, shape, strides, name, name in BITS, not array.flags.writeable


def samples() -> list[tuple[Any, tuple[int, list[int], list[int], str, int, bool]]]:
    """Return arrays, each with what NumPy says of it: the native reader must read the same.

    That is address, shape, strides in elements, element type, NumPy's number of it, read-only.
    """
    arrays: list[Any] = [np.zeros((2, 3), name) for name in PLAIN]
    # C's integers: two of them are the same type under different numbers.
    arrays += [np.zeros(2, letter) for letter in "bBhHiIlLqQ"]
    base = np.arange(24, dtype="float32").reshape(2, 3, 4)
    arrays += [base.T, base[:, ::-1, 1:3], base[0, 0, 0:0], base.reshape(24)[5:6].reshape(())]
    arrays += [np.broadcast_to(base, (5, 2, 3, 4)), np.zeros((1,) * 32, "int8")]
    return [(array, _said(array)) for array in arrays]


def _said(array: Any) -> tuple[int, list[int], list[int], str, int, bool]:
    strides = [stride // array.itemsize for stride in array.strides]
    element = array.dtype
    address = array.__array_interface__["data"][0]
    readonly = not array.flags.writeable
    return address, list(array.shape), strides, element.name, element.num, readonly


def _refuse_masked(cls: type) -> None:
    """Refuse masked arrays, and types made of them: they export their data and forget the mask."""
    if _is_masked(cls):
        raise ExportError(
            "a masked array would lose its mask; borrow `array.filled(value)` or `array.data`",
            MEANING_LOST,
        )


_is_masked = made_of(("numpy.ma", "MaskedArray"))


def _buffer_of(scalar: Any, _stream: int | None, _ready_on: object) -> memoryview:
    """Return the memory of a scalar itself: its `__array_interface__` shows that of a copy."""
    if scalar.dtype.name not in TYPES:
        raise ExportError(
            f"a NumPy scalar of type {scalar.dtype} cannot be borrowed; borrow an array of it: "
            "`numpy.asarray(scalar)`",
            NOT_NUMBERS,
        )
    return memoryview(scalar)


def aligned(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return zeros that begin where every framework takes memory; NumPy's begin anywhere."""
    size = prod(shape) * np.dtype(dtype).itemsize
    room = np.zeros(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size].view(dtype).reshape(shape)


def _readonly(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    array = aligned(shape, dtype)
    array.flags.writeable = False
    return array


ADAPTER = Adapter(
    producers=(
        Producer(
            knows=made_of(("numpy", "ndarray")),
            native="numpy",
            refuse_type=_refuse_masked,
            conversion='{name}.astype("{fit}")',
        ),
        Producer(
            knows=made_of(("numpy", "generic")),
            place=lambda _scalar: None,
            stand_in=_buffer_of,
            protocol="buffer protocol",
        ),
    ),
    consumer=Consumer(
        takes=Takes(types=sorted(TYPES), readonly=True, negative_strides=True),
        makes=Makes(array=np.ndarray, lease=np.from_dlpack, other=_other),
    ),
    probe=Probe(address=lambda array: int(array.ctypes.data), host=aligned, readonly=_readonly),
)
