"""The frameworks of all suites, a class for each: how it makes, writes and reads memory.

`of` gives an array with a copy of NumPy's. The matrix of hand-overs has arrays of 256 bytes: where
a framework works asynchronously, `write` queues the bytes and returns, and the simulated GPU does
what is queued as late as it may, so that a hand-over without order reads old bytes. On the
simulated GPU the CPU arrays of torch, JAX, TensorFlow and Warp take the place of those of a GPU. A
framework is named by what `gpulend.lend` calls it; SVM is memory of PyOpenCL's.

A framework whose streams a test can choose is `OnStreams` too. Most others need no class here:
`Probed` asks the `Probe` of their adapter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gpu.resources import REAL
from gpulend import adapters

from .gpu import CudaCore, CuPy, Gpulend, Jax, Numba, PyCuda, Torch
from .host import NumPy, PyOpenCl, TensorFlow, TvmFfi
from .memory import SIZE, Memory, OnStreams, Probed

__all__ = [
    "HERE",
    "ON_STREAMS",
    "SIZE",
    "Gpulend",
    "Memory",
    "NumPy",
    "OnStreams",
    "TensorFlow",
    "Torch",
]

# Those of which the tests ask more than a probe has: streams, late writes, contexts of their own.
OWN = (NumPy, TensorFlow, TvmFfi, PyOpenCl, CudaCore, PyCuda, Numba, Torch, CuPy, Jax)
adapters.read_entry_points()
# CuPy needs a real GPU. What is not installed there is skipped.
HERE: dict[str, Callable[[], Memory]] = {
    name: partial(Probed, framework) for name, framework in adapters.FRAMEWORKS.items()
} | {kind.name: kind for kind in OWN}
if not REAL:
    del HERE["cupy"]
# On the simulated GPU the others are frameworks of the CPU, which wait as documented.
ON_STREAMS: dict[str, Callable[[], OnStreams]] = {
    kind.name: kind
    for kind in ((Gpulend, CudaCore, Torch, CuPy, Jax) if REAL else (Gpulend, CudaCore))
}
