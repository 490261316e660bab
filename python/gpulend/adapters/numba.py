"""Numba: GPU memory only, any strides; its default stream is the legacy one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

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


ADAPTER = Adapter(
    producers=(
        Producer(
            knows=made_of(("numba", None)),
            # Its arrays say "nothing to wait for" with work on the legacy default stream.
            forgetful=True,
            conversion='cuda.to_device({name}.copy_to_host().astype("{fit}"))',
        ),
    ),
    stream_type=StreamType(handle="handle"),
    consumer=Consumer(
        takes=Takes(
            types=PLAIN, negative_strides=True, host=False, gpu=True, simulated_as_cuda=True
        ),
        makes=Makes(values=_make, protocol="__cuda_array_interface__"),
        streams=Streams(current=lambda _index: LEGACY),
        address="device_ctypes_pointer.value",
    ),
    probe=Probe(
        address=lambda array: int(array.device_ctypes_pointer.value),
        gpu=lambda shape, dtype: cuda.to_device(np.zeros(shape, dtype)),
        stream=lambda: LEGACY,
    ),
)
