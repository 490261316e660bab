"""cuda.core: a `StridedMemoryView`, on the host or a GPU, of any strides.

cuda.core has no current stream: say on which one you will use the view, as in
`lease.lend("cuda.core", stream=s)`; gpulend's current one is meant otherwise.
"""

from __future__ import annotations

from typing import Any

from cuda.core.utils import StridedMemoryView

from gpulend._native import Consumer
from gpulend.adapters import PLAIN


def _make(lease: Any) -> Any:
    # On a GPU the lease is in order on the stream already; cuda.core would ask for it once more.
    return StridedMemoryView.from_dlpack(lease, stream_ptr=-1)


CONSUMER = Consumer(
    "cuda.core",
    types=PLAIN,
    readonly=True,
    negative_strides=True,
    array=object,
    make=_make,
    gpu=True,
    simulated_as_cuda=True,
    address="ptr",
)
