"""CuPy: GPU memory only, any strides; its arrays cannot be read-only."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from cupy.cuda import MemoryPointer, UnownedMemory, get_current_stream

from gpulend.adapters.interface import (
    PLAIN,
    Adapter,
    Consumer,
    Makes,
    Probe,
    Producer,
    Streams,
    StreamType,
    Takes,
    made_of,
)

LEGACY = 1
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


def _fill(array: Any, byte: int) -> Any:
    array.fill(byte)
    return array


ADAPTER = Adapter(
    producers=(
        Producer(
            knows=made_of(("cupy", "ndarray")), native="cupy", conversion='{name}.astype("{fit}")'
        ),
    ),
    stream_type=StreamType(handle="ptr", owns=lambda cls: cls is cupy.cuda.Stream),
    consumer=Consumer(
        takes=Takes(
            types=sorted(CLASSES),
            negative_strides=True,
            host=False,
            gpu=True,
            simulated_as_cuda=True,
        ),
        makes=Makes(values=_quick() or _plain, protocol="address"),
        streams=Streams(current=get_current_stream),
        address="data.ptr",
    ),
    probe=Probe(
        address=lambda array: int(array.data.ptr),
        gpu=lambda shape, dtype: cupy.zeros(shape, dtype),
        stream=lambda: int(get_current_stream().ptr) or LEGACY,
        copied=lambda host, _where: cupy.array(host),
        fill=_fill,
        values=lambda array: array.get(),
    ),
)
