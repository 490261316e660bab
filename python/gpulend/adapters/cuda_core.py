"""cuda.core: a `StridedMemoryView`, on the host or a GPU, of any strides.

cuda.core has no current stream: say on which one you will use the view, as in
`lease.lend("cuda.core", stream=s)`; gpulend's current one is meant otherwise.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from cuda.core import LEGACY_DEFAULT_STREAM, Device
from cuda.core.utils import StridedMemoryView

from gpulend._native import current_stream
from gpulend.adapters.interface import (
    PLAIN,
    Adapter,
    Consumer,
    Makes,
    Probe,
    Producer,
    Takes,
    made_of,
)


def _make(lease: Any) -> Any:
    # On a GPU the lease is in order on the stream already; cuda.core would ask for it once more.
    return StridedMemoryView.from_dlpack(lease, stream_ptr=-1)


def _buffer(shape: tuple[int, ...], dtype: str) -> Any:
    device = Device(0)
    device.set_current()
    size = prod(shape) * np.dtype(dtype).itemsize
    return device.allocate(size, stream=LEGACY_DEFAULT_STREAM)


ADAPTER = Adapter(
    # Its buffers' `__dlpack__` orders nothing, whatever stream it is given.
    producers=(Producer(knows=made_of(("cuda.core", "Buffer")), forgetful=True),),
    consumer=Consumer(
        takes=Takes(
            types=PLAIN, readonly=True, negative_strides=True, gpu=True, simulated_as_cuda=True
        ),
        makes=Makes(lease=_make),
        address="ptr",
    ),
    probe=Probe(
        address=lambda array: int(getattr(array, "ptr", 0) or array.handle),
        gpu=_buffer,
        stream=lambda: current_stream("cuda:0").handle,
    ),
)
