"""Warp: arrays of one to four axes, none of them read-only, on streams of its own.

Vectors, matrices, quaternions and transforms are seen as axes after those of the
array, as Warp's own DLPack shows them. Its `__dlpack__` would have streams wait
by itself, also inside captures that this would end; so it is asked for no
order, and its current stream is waited for.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from gpulend._codes import MEANING_LOST, NOT_NUMBERS, UNSUPPORTED_STRIDES
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
)
from gpulend.exceptions import ExportError

TYPES = (*(name for name in PLAIN if not name.startswith("complex")), "bfloat16")
MOST_AXES = 4
LEGACY = 1
_ARRAYS = (wp.array, wp.indexedarray, wp.fabricarray, wp.indexedfabricarray)


def refuse_type(cls: type) -> None:
    """Raise if arrays of a type are not plain."""
    if not issubclass(cls, wp.array):
        raise ExportError(
            f"Warp's {cls.__name__} is not a plain array; borrow a copy: `array.contiguous()`",
            MEANING_LOST,
        )


def refuse(array: Any, used: str) -> None:
    """Raise if a plain array would lose part of what `array` means.

    `used` is what becomes of it: "kept" beyond the call, "written" or "read" during it.
    """
    # Numbers, vectors and matrices are classes, and structs are objects.
    if not isinstance(array.dtype, type):
        raise ExportError(
            "elements of a Warp struct are not numbers; borrow an array of one of its fields",
            NOT_NUMBERS,
        )
    if array.requires_grad and used != "read":
        raise ExportError(
            "the array requires grad, and a plain array has no gradient; borrow `array.grad` for "
            "that, and the values by `gpulend.borrow(array, check=False)`",
            MEANING_LOST,
        )


def _stream(index: int) -> Any:
    """Return the current stream of a device; the legacy one where Warp has none."""
    wp.init()  # type: ignore[no-untyped-call]
    return wp.get_stream(f"cuda:{index}") if wp.is_cuda_available() else LEGACY


def _make(lease: Any) -> Any:
    if not 1 <= lease.ndim <= MOST_AXES:
        raise ExportError(
            f"Warp has arrays of one to {MOST_AXES} axes, and the memory is seen with shape "
            f"{lease.shape}; lend `lease.reshape(-1)`",
            UNSUPPORTED_STRIDES,
        )
    # Nothing may have used Warp yet. At import this would be too early, and prints Warp's devices:
    # a ctypes type of any program is in Warp's package if Warp was the first to make it.
    wp.init()  # type: ignore[no-untyped-call]
    # On a GPU the lease is in order on the stream already; Warp would ask for it once more.
    stream = -1 if lease.device.kind == "cuda" else None
    return wp.from_dlpack(lease.__dlpack__(stream=stream))


def _zeros(device: str, shape: tuple[int, ...], dtype: str) -> Any:
    return wp.zeros(shape, dtype=getattr(wp, dtype), device=device)


def _zeros_on_gpu(shape: tuple[int, ...], dtype: str) -> Any:
    return _zeros("cuda:0", shape, dtype) if wp.is_cuda_available() else None


def _fill(array: Any, byte: int) -> Any:
    array.fill_(byte)
    return array


ADAPTER = Adapter(
    producers=(
        Producer(
            knows=lambda cls: issubclass(cls, _ARRAYS),
            refuse_type=refuse_type,
            refuse=refuse,
            current=_stream,
            stands_in=True,
            conversion="warp.array({name}.numpy(), dtype=warp.{fit})",
        ),
    ),
    stream_type=StreamType(handle="cuda_stream", owns=lambda cls: cls is wp.Stream),
    consumer=Consumer(
        takes=Takes(types=TYPES, gpu=True),
        makes=Makes(lease=_make),
        streams=Streams(current=_stream),
        address="ptr",
    ),
    probe=Probe(
        address=lambda array: int(array.ptr),
        host=lambda shape, dtype: _zeros("cpu", shape, dtype),
        gpu=_zeros_on_gpu,
        stream=lambda: int(wp.get_stream("cuda:0").cuda_stream) or LEGACY,
        copied=lambda host, where: wp.array(host, device="cuda:0" if where == "gpu" else "cpu"),
        fill=_fill,
        values=lambda array: array.numpy(),
    ),
)
