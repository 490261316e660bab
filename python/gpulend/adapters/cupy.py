"""CuPy: GPU memory only, any strides; its arrays cannot be read-only."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from cupy.cuda import MemoryPointer, UnownedMemory, get_current_stream

from gpulend._native import Consumer
from gpulend.adapters import PLAIN

# Element types as the NumPy classes that CuPy takes quickest.
CLASSES: dict[str, Any] = {name: getattr(np, "bool_" if name == "bool" else name) for name in PLAIN}
try:
    import ml_dtypes
except ImportError:
    pass
else:
    CLASSES["bfloat16"] = ml_dtypes.bfloat16


def _plain(
    address: int, nbytes: int, device: int, shape: Any, strides: Any, dtype: str, owner: Any
) -> Any:
    memory = MemoryPointer(UnownedMemory(address, nbytes, owner, device), 0)
    return cupy.ndarray(shape, CLASSES[dtype], memory, strides)


def _quick() -> Any:
    """Return how CuPy itself makes an array: without its constructor's checks, in half the time."""
    try:
        from cupy._core.core import _ndarray_base
    except ImportError:
        return None
    new, kind = _ndarray_base.__new__, cupy.ndarray
    pointer, unowned, classes = MemoryPointer, UnownedMemory, CLASSES

    def make(
        address: int, nbytes: int, device: int, shape: Any, strides: Any, dtype: str, owner: Any
    ) -> Any:
        array = new(kind)
        memory = pointer(unowned(address, nbytes, owner, device), 0)
        array._init(shape, classes[dtype], memory, strides)
        return array

    try:
        sample = make(16, 6, 0, (2, 1), (4, 2), "int16", None)
        right = (sample.shape, sample.strides, sample.dtype) == ((2, 1), (4, 2), np.int16)
        return make if right and sample.data.ptr == 16 else None
    except (AttributeError, TypeError):
        # Another CuPy, made otherwise.
        return None


# How its arrays are made; `CONSUMER.protocol` knows DLPack only.
PROTOCOL = "address"
CONSUMER = Consumer(
    "cupy",
    types=sorted(CLASSES),
    readonly=False,
    negative_strides=True,
    array=object,
    make_raw=_quick() or _plain,
    host=False,
    gpu=True,
    simulated_as_cuda=True,
    stream=get_current_stream,
    address="data.ptr",
)
