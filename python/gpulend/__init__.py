"""Share GPU memory between frameworks without copies: validated pointers, ordered hand-overs.

>>> import gpulend, numpy as np
>>> a = np.zeros(3)
>>> lease = gpulend.borrow(a)
>>> lease.lend("numpy")[1] = 7
>>> a
array([0., 7., 0.])

`borrow` makes a lease of an array of any framework, `wrap` of a raw address;
`lend` hands either to another framework. `empty`, `zeros`, `full` and
`from_host` make arrays on a GPU, `Stream` and `Event` order work there.
`describe` returns what is known about an address, `ledger` all leases and
their holders. `compile` compiles CUDA C++, whose kernels take arrays of any
framework. `simulate` chooses the simulated GPU.
"""

from importlib import import_module
from types import ModuleType

from gpulend._ledger import Ledger, LedgerEntry, Passport, describe, ledger
from gpulend._native import (
    Device,
    Dtype,
    Event,
    Kernel,
    Launcher,
    Lease,
    Module,
    Stream,
    __version__,
    borrow,
    current_stream,
    empty,
    empty_like,
    from_host,
    full,
    lend,
    simulate,
    synchronize,
    timed,
    wrap,
    zeros,
)
from gpulend.exceptions import (
    AddressError,
    CompileError,
    CompileWarning,
    DriverError,
    Error,
    ExportError,
    KernelError,
    LayoutError,
    NoDeviceError,
    OutOfMemoryError,
    OutOfRangeError,
    ProtocolError,
    ReleasedError,
    SecondModuleWarning,
    SignatureError,
    StillLentError,
)
from gpulend.kernels import compile, tell_compilers

__all__ = [
    "AddressError",
    "CompileError",
    "CompileWarning",
    "Device",
    "DriverError",
    "Dtype",
    "Error",
    "Event",
    "ExportError",
    "Kernel",
    "KernelError",
    "Launcher",
    "LayoutError",
    "Lease",
    "Ledger",
    "LedgerEntry",
    "Module",
    "NoDeviceError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Passport",
    "ProtocolError",
    "ReleasedError",
    "SecondModuleWarning",
    "SignatureError",
    "StillLentError",
    "Stream",
    "__version__",
    "borrow",
    "compile",
    "current_stream",
    "describe",
    "empty",
    "empty_like",
    "from_host",
    "full",
    "ledger",
    "lend",
    "simulate",
    "synchronize",
    "timed",
    "wrap",
    "zeros",
]

# Submodules that are there without being imported by name, when they are first asked for.
_SUBMODULES = frozenset(("adapters", "config", "ctypes_api", "simulator"))

tell_compilers()


def __getattr__(name: str) -> ModuleType:
    if name in _SUBMODULES:
        return import_module(f"gpulend.{name}")
    raise AttributeError(f"module 'gpulend' has no attribute {name!r}")


def _rebuild_dtype(name: str, padded: bool) -> Dtype:
    """Make a `Dtype` out of what its pickle holds."""
    return Dtype(name, padded=padded)
