"""CuPy: GPU memory only, any strides; its arrays cannot be read-only."""

from __future__ import annotations

from collections.abc import Callable
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
MADE_UP = 4096
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


def samples() -> list[Any]:
    """Return arrays that differ in all that the native reader reads; their memory is never touched.

    The reader is used only if it finds in each of them what its attributes say.
    """
    layouts: list[tuple[tuple[int, ...], tuple[int, ...] | None, str]] = [
        ((), None, "float64"),
        ((3,), None, "int8"),
        ((4,), (-2,), "int16"),
        ((2, 3), (40, 8), "float32"),
        ((5, 3, 2), None, "complex128"),
        ((2, 1, 4, 3), (48, 96, 12, 4), "uint32"),
        ((2, 3, 1, 5, 7), None, "bool"),
        ((0, 6), None, "float16"),
        (tuple(range(2, 14)), tuple(range(8, 104, 8)), "int64"),
    ]
    made = []
    for number, (shape, strides, dtype) in enumerate(layouts):
        # No two have an address, a device or a length in common.
        memory = UnownedMemory((number + 1) << 20, 1 << 19, None, number)
        pointer = MemoryPointer(memory, 512 * number)
        made.append(cupy.ndarray(shape, CLASSES[dtype], pointer, strides))
    return made


def proves_stream(handle: Callable[[int], int]) -> bool:
    """Return whether a function knows the current stream, also one that a program makes current."""
    device = cupy.cuda.runtime.getDevice()
    before = get_current_stream(device).ptr
    with _made_up():
        within = handle(device)
    return (handle(device), within, get_current_stream(device).ptr) == (before, MADE_UP, before)


def _made_up() -> Any:
    # CuPy takes any handle, and nothing is queued there: making a stream would disturb captures.
    if hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.Stream.from_external(_MadeUp())
    return cupy.cuda.ExternalStream(MADE_UP)


class _MadeUp:
    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, MADE_UP)


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
        streams=Streams(current=get_current_stream, native="cupy"),
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
