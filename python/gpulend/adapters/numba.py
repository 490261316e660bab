"""Numba: GPU memory only, any strides; its default stream is the legacy one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from gpulend._native import Consumer
from gpulend.adapters import PLAIN


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


# How its arrays are made; `CONSUMER.protocol` knows DLPack only.
PROTOCOL = "__cuda_array_interface__"
CONSUMER = Consumer(
    "numba",
    types=PLAIN,
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
