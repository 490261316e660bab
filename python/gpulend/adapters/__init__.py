"""One file a framework: how it takes a lease, and what it cannot take.

A framework's file describes it by one `CONSUMER`: the element types it takes,
whether its arrays can be read-only and run backwards, and how one is made.
Files are imported when they are first asked for, so that `import gpulend`
imports no framework. Frameworks whose arrays no protocol describes also have
`place(array)` and `stand_in(array, stream, ready_on)`, by which `borrow` takes
them: see `ADAPTED` in the native half's `routes`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from importlib import import_module

from gpulend._native import Consumer
from gpulend.exceptions import ProtocolError

# Names to lend to, with what to install for each.
FRAMEWORKS = {
    "numpy": "numpy",
    "torch": "torch",
    "jax": "jax",
    "cupy": "cupy-cuda13x",
    "numba": "numba-cuda",
    "cuda.core": "cuda-core",
    "tensorflow": "tensorflow",
    "pyopencl": "pyopencl",
    "pycuda": "pycuda",
    "tvm_ffi": "apache-tvm-ffi",
}
CONSUMERS: dict[str, Consumer] = {}
# How often the host waited in hand-overs from and to frameworks that do not tell their streams.
HOST_WAITS: Counter[str] = Counter()
# Element types that every framework has.
PLAIN = (
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("bool", "float16", "float32", "float64", "complex64", "complex128"),
)


def load(target: str) -> Consumer:
    """Import the adapter of a framework and remember what it says."""
    if target not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise ProtocolError(f"{target!r} is no framework we can lend to; known are {known}", 254)
    try:
        adapter = import_module(f"gpulend.adapters.{target.replace('.', '_')}")
    except ImportError as error:
        raise ProtocolError(
            f"lending to {target} needs {target}, which cannot be imported ({error}); "
            f"install it: `pip install {FRAMEWORKS[target]}`",
            255,
        ) from error
    consumer: Consumer = adapter.CONSUMER
    CONSUMERS[target] = consumer
    return consumer


def count_wait(framework: str) -> None:
    """Count that the host waits for a framework, or for it."""
    HOST_WAITS[framework] += 1


def warn_immutable(consumer: str) -> None:
    """Warn that an immutable array must not be written by a framework that cannot mark it."""
    warnings.warn(
        f"an array that its framework never writes again is lent to {consumer}, which cannot "
        "mark it read-only: do not write it there, or lend a copy (copy=True)",
        stacklevel=3,
    )
