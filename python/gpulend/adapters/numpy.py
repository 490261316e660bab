"""NumPy: any strides, read-only kept, versioned capsules; narrow floats through ml_dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpulend._codes import (
    NO_DLPACK_CODE,
    NO_ELEMENT_TYPE,
    NOT_NUMBERS,
    OTHER_BYTE_ORDER,
    PACKED_ELEMENTS,
)
from gpulend._native import Consumer
from gpulend.adapters import PLAIN
from gpulend.exceptions import ExportError, ProtocolError

if TYPE_CHECKING:
    from gpulend._native import Lease

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


CONSUMER = Consumer(
    "numpy",
    types=sorted(TYPES),
    readonly=True,
    negative_strides=True,
    array=np.ndarray,
    make=np.from_dlpack,
    other=_other,
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
