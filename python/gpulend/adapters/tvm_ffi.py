"""tvm-ffi: any strides; its tensors cannot be read-only, and it drops the flag without a word.

tvm-ffi has no current stream of its own: say on which one you will use the
tensor, as in `lease.lend("tvm_ffi", stream=s)`, and on which it was written, as
in `borrow(tensor, ready_on=s)`; gpulend's current one is meant otherwise.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi

from gpulend._native import Consumer
from gpulend.adapters import PLAIN

TYPES = (
    *(name for name in PLAIN if not name.startswith("complex")),
    *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)


def _make(lease: Any) -> Any:
    return tvm_ffi.from_dlpack(lease)


CONSUMER = Consumer(
    "tvm_ffi",
    types=TYPES,
    readonly=False,
    negative_strides=True,
    array=object,
    make=_make,
    gpu=True,
    address="data_ptr()",
)
