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
from types import ModuleType

from gpulend._codes import NO_FRAMEWORK, NOT_INSTALLED
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
CONSUMERS: dict[str | ModuleType, Consumer] = {}
# How often the host waited in hand-overs from and to frameworks that do not name their streams.
HOST_WAITS: Counter[str] = Counter()
# Element types that every framework has.
PLAIN = (
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("bool", "float16", "float32", "float64", "complex64", "complex128"),
)


def load(target: str | ModuleType) -> Consumer:
    """Import the adapter of a framework, by its name or its module, and remember what it says."""
    name = _name(target)
    if name not in FRAMEWORKS:
        known = ", ".join(FRAMEWORKS)
        raise ProtocolError(
            f"{target!r} is not a framework that gpulend lends to; known by name or module are "
            f"{known}",
            NO_FRAMEWORK,
        )
    try:
        adapter = import_module(f"gpulend.adapters.{name.replace('.', '_')}")
    except ImportError as error:
        raise ProtocolError(
            f"lending to {name} needs {name}, which cannot be imported ({error}); "
            f"install it: `pip install {FRAMEWORKS[name]}`",
            NOT_INSTALLED,
        ) from error
    consumer: Consumer = adapter.CONSUMER
    CONSUMERS[target] = consumer
    return consumer


def _name(target: object) -> str:
    """Return the framework's name; of a module like `jax.numpy`, that of the package it is in."""
    if not isinstance(target, ModuleType):
        return target if isinstance(target, str) else ""
    parts = target.__name__.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in names if name in FRAMEWORKS), "")


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
