"""Arrays of NumPy and torch in every layout, and how to look at their elements."""

from __future__ import annotations

import ctypes

import numpy as np
from conftest import need

torch = need("torch")
ml_dtypes = need("ml_dtypes")

BOTH = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
# Types that NumPy has from ml_dtypes only, and that torch has too.
BOTH_NARROW = (
    *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    "float8_e8m0fnu",
)
NUMPY_ONLY = (
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float6_e2m3fn", "float6_e3m2fn"),
    *("float4_e2m1fn", "int2", "int4", "uint2", "uint4"),
)
SMALL = NUMPY_ONLY[3:]  # less than a byte each
# Types that only newer ml_dtypes have.
TORCH_ONLY = ("complex32",) if not hasattr(ml_dtypes, "complex32") else ()
BOTH_NARROW += ("complex32",) if hasattr(ml_dtypes, "complex32") else ()
NUMPY_ONLY += ("bcomplex32",) if hasattr(ml_dtypes, "bcomplex32") else ()
NUMPY_TYPES = BOTH + BOTH_NARROW + NUMPY_ONLY
TORCH_TYPES = BOTH + BOTH_NARROW + TORCH_ONLY

LAYOUTS = {
    "0-d": lambda a: a[5:6].reshape(()),
    "(0,)": lambda a: a[:0],
    "(0, 3)": lambda a: a[:0].reshape(0, 3),
    "1-d": lambda a: a,
    "sliced": lambda a: a.reshape(4, 6)[1::2, 2:],
    "transposed": lambda a: a.reshape(4, 6).T,
    "broadcast": lambda a: _broadcast(a[:3]),
    "backwards": lambda a: a.reshape(4, 6)[::-1, ::-2],
}
# Up to 2.12 torch throws where C++ does not allow it.
TORCH_ABORTS_ON_BACKWARDS = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)
TORCH_LAYOUTS = [layout for layout in LAYOUTS if layout != "backwards"]  # torch has none


def _broadcast(array):
    if isinstance(array, torch.Tensor):
        return array.expand(4, 3)
    return np.ndarray((4, 3), array.dtype, array.view(np.uint8), strides=(0, array.itemsize))


def make(framework, dtype, layout):
    """Make an array of a framework over 24 elements whose bytes all differ where they may."""
    if framework == "numpy":
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        base = _pattern(dtype, kind.itemsize).view(kind)
    else:
        kind = getattr(torch, dtype)
        base = torch.from_numpy(_pattern(dtype, kind.itemsize)).view(kind)
    return LAYOUTS[layout](base)


def _pattern(dtype, itemsize):
    """Return bytes for 24 elements: all different, or 0 and 1 where an element holds no more."""
    pattern = np.arange(1, 24 * itemsize + 1, dtype=np.uint64).astype(np.uint8)
    return pattern % 2 if dtype == "bool" or dtype in SMALL else pattern


def address(array):
    """Return where the first element of an array lies."""
    if isinstance(array, torch.Tensor):
        return array.data_ptr()
    if isinstance(array, memoryview):
        return np.asarray(array).ctypes.data
    return array.ctypes.data


def dtype_name(array):
    """Return the name of an array's element type, without the framework's."""
    return str(array.dtype).removeprefix("torch.")


def elements(array):
    """Return the bytes of every element, one by one, by the array's own indexing."""
    return {index: _element(array, index) for index in np.ndindex(tuple(array.shape))}


def _element(array, index):
    if isinstance(array, torch.Tensor):
        one = array[index]
        return ctypes.string_at(one.data_ptr(), one.element_size())
    return array[index].tobytes()
