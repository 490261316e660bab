"""cuda.core: a `StridedMemoryView`, on the host or a GPU, of any strides.

cuda.core has no current stream: say on which one you will use the view, as in
`lease.lend("cuda.core", stream=s)`; gpulend's current one is meant otherwise.
"""

from __future__ import annotations

from typing import Any

from cuda.core.utils import StridedMemoryView

from gpulend._native import Consumer

# What its views have names for; bfloat16 only with ml_dtypes.
TYPES = [
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("bool", "float16", "float32", "float64", "complex64", "complex128"),
]


def _make(lease: Any) -> Any:
    # On a GPU the lease is in order on the stream already; cuda.core would ask for it once more.
    return StridedMemoryView.from_dlpack(lease, stream_ptr=-1)


CONSUMER = Consumer(
    "cuda.core",
    types=TYPES,
    readonly=True,
    negative_strides=True,
    array=object,
    make=_make,
    gpu=True,
    simulated_as_cuda=True,
    address="ptr",
)
