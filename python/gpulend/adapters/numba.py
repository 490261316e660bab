"""Numba: GPU memory only, any strides; its default stream is the legacy one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from gpulend._native import Consumer

TYPES = [
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("bool", "float16", "float32", "float64", "complex64", "complex128"),
]


def _make(
    address: int, _nbytes: int, device: int, shape: Any, strides: Any, dtype: str, owner: Any
) -> Any:
    description = {
        "version": 3,
        "shape": shape,
        "strides": strides,
        "typestr": np.dtype(dtype).str,
        "data": (address, False),
        # The stream waits already; Numba would have the host wait for it.
        "stream": None,
    }
    # Numba puts an array into the context that is current.
    with cuda.gpus[device]:
        return cuda.from_cuda_array_interface(description, owner=owner, sync=False)


CONSUMER = Consumer(
    "numba",
    types=TYPES,
    readonly=False,
    negative_strides=True,
    array=object,
    make_raw=_make,
    host=False,
    gpu=True,
    simulated_as_cuda=True,
    stream=lambda _index: 1,
    address="device_ctypes_pointer.value",
)
