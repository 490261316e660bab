"""CuPy: GPU memory only, any strides; its arrays cannot be read-only."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from cupy.cuda import MemoryPointer, UnownedMemory, get_current_stream

from gpulend._native import Consumer

# Element types as the NumPy classes that CuPy takes quickest.
CLASSES: dict[str, Any] = {
    name: getattr(np, "bool_" if name == "bool" else name)
    for name in (
        *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
        *("bool", "float16", "float32", "float64", "complex64", "complex128"),
    )
}
try:
    import ml_dtypes
except ImportError:
    pass
else:
    CLASSES["bfloat16"] = ml_dtypes.bfloat16


def _plain(shape: Any, dtype: Any, memory: Any, strides: Any = None) -> Any:
    return cupy.ndarray(shape, dtype, memory, strides)


def _quick() -> Any:
    """Return how CuPy itself makes an array: without its constructor's checks, in half the time."""
    try:
        from cupy._core.core import _ndarray_base

        new, kind = _ndarray_base.__new__, cupy.ndarray

        def make(shape: Any, dtype: Any, memory: Any, strides: Any = None) -> Any:
            array = new(kind)
            array._init(shape, dtype, memory, strides)
            return array

        sample = make((2, 1), np.int16, MemoryPointer(UnownedMemory(16, 6, None, 0), 0), (4, 2))
        right = (sample.shape, sample.strides, sample.dtype) == ((2, 1), (4, 2), np.int16)
        return make if right and sample.data.ptr == 16 else _plain
    except (AttributeError, ImportError, TypeError):
        # Another CuPy, made otherwise.
        return _plain


_array = _quick()


def _make(lease: Any) -> Any:
    raise TypeError("CuPy has no arrays of the host")  # never asked for: see `host=False`


def _make_on(lease: Any, _stream: int) -> Any:
    address, nbytes, device, shape, strides, dtype, export = lease._raw()
    memory = MemoryPointer(UnownedMemory(address, nbytes, export, device), 0)
    return _array(shape, CLASSES[dtype], memory, strides)


CONSUMER = Consumer(
    "cupy",
    types=sorted(CLASSES),
    readonly=False,
    negative_strides=True,
    array=object,
    make=_make,
    make_on=_make_on,
    host=False,
    gpu=True,
    simulated_as_cuda=True,
    stream=get_current_stream,
    address=lambda array: array.data.ptr,
)
