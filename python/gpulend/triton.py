"""Triton's kernels on the simulated GPU: `import gpulend.triton`.

Afterwards `@triton.jit` kernels work on tensors of the host, on NumPy arrays and on leases. Where
gpulend uses a real GPU, the import changes nothing: Triton works there as without it.

>>> import torch, triton, triton.language as tl
>>> import gpulend.triton
>>> @triton.jit
... def scale(x, by, n, block: tl.constexpr):
...     i = tl.program_id(0) * block + tl.arange(0, block)
...     tl.store(x + i, tl.load(x + i, mask=i < n) * by, mask=i < n)  # doctest: +SKIP
"""

from __future__ import annotations

import functools
from typing import Any

import triton.runtime
from triton.runtime.jit import JITFunction

from gpulend import _native, ptxas
from gpulend._native import Lease

__all__ = ["active"]


def active() -> bool:
    """Whether Triton's kernels run on the simulated GPU of this process."""
    from gpulend._triton.driver import Driver

    return isinstance(triton.runtime.driver.active, Driver)


def _tensor(value: Any) -> Any:
    """Return an argument that Triton knows: a tensor over the memory of an array or a lease."""
    if isinstance(value, Lease):
        return value.lend("torch")
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        import torch

        return torch.from_numpy(value)
    return value


def _activate() -> None:
    kind, *_ = _native.describe_driver()
    if kind != "simulated":
        return
    from gpulend._triton.driver import Driver

    triton.knobs.nvidia.ptxas = ptxas.install()
    triton.runtime.driver.set_active(Driver())
    plain = JITFunction.run

    @functools.wraps(plain)
    def run(self: Any, *arguments: Any, **keywords: Any) -> Any:
        given = [_tensor(value) for value in arguments]
        return plain(self, *given, **{name: _tensor(value) for name, value in keywords.items()})

    JITFunction.run = run


_activate()
