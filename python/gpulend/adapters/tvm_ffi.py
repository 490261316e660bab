"""tvm-ffi: any strides; its tensors cannot be read-only, and it drops the flag without a word.

tvm-ffi has no current stream of its own: say on which one you will use the
tensor, as in `lease.lend("tvm_ffi", stream=s)`, and on which it was written, as
in `borrow(tensor, ready_on=s)`; gpulend's current one is meant otherwise.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi

from gpulend.adapters.interface import (
    PLAIN,
    Adapter,
    Consumer,
    Makes,
    Probe,
    Takes,
)
from gpulend.adapters.numpy import aligned

TYPES = (
    *(name for name in PLAIN if not name.startswith("complex")),
    *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


def _make(lease: Any) -> Any:
    return tvm_ffi.from_dlpack(lease)


ADAPTER = Adapter(
    consumer=Consumer(
        takes=Takes(types=TYPES, negative_strides=True, gpu=True),
        makes=Makes(lease=_make),
        address="data_ptr()",
    ),
    probe=Probe(
        address=lambda tensor: int(tensor.data_ptr()),
        host=lambda shape, dtype: tvm_ffi.from_dlpack(aligned(shape, dtype)),
    ),
)
