"""Share GPU memory between frameworks without copies: validated pointers, ordered hand-overs.

>>> import gpulend, numpy as np
>>> a = np.zeros(3)
>>> lease = gpulend.borrow(a)
>>> lease.lend("numpy")[1] = 7
>>> a
array([0., 7., 0.])

`borrow` makes a lease of an array of any framework, `wrap` of a raw address;
`lend` hands either to another framework, `register` adds one. `empty`, `zeros`, `full` and
`from_host` make arrays on a GPU, `Stream` and `Event` order work there.
`describe` returns what is known about an address, `ledger` all leases and
their holders, `memory` how much memory there is; `pool` is where it comes
from. A `Ticket` opens a lease's memory in another process, with `claim`; a pickled
lease has one inside. `compile` compiles CUDA C++, whose kernels take arrays of any
framework. `simulate` chooses the simulated GPU.
"""

import sys
from importlib import import_module
from types import ModuleType

# The native half calls these by name. They are imported here: an import at the first call, in one
# thread while another forks, would leave the child waiting for a thread that it does not have.
from gpulend import (  # noqa: F401
    _arguments,
    _elements,
    _notebook,
    _pointers,
    _suggestions,
    _tickets,
    pool,
)
from gpulend._elementwise import Elementwise, elementwise
from gpulend._ledger import Ledger, LedgerEntry, ledger
from gpulend._native import (
    Copy,
    Device,
    Dtype,
    Event,
    Graph,
    Kernel,
    Launcher,
    Lease,
    Module,
    Passport,
    Stream,
    __version__,
    borrow,
    capture,
    claim,
    claims,
    current_stream,
    describe,
    device_count,
    empty,
    empty_like,
    from_host,
    full,
    is_available,
    lend,
    mem_get_info,
    simulate,
    synchronize,
    timed,
    wrap,
    zeros,
    zeros_like,
)
from gpulend._reductions import Reduction, reduction
from gpulend._tickets import Ticket, tickets
from gpulend.adapters import register
from gpulend.exceptions import (
    AddressError,
    CompileError,
    CompileWarning,
    DeviceNotVisibleError,
    DriverError,
    Error,
    ExportError,
    KernelError,
    LayoutError,
    LenderGoneError,
    NoDeviceError,
    NotPermittedError,
    NotShareableError,
    OutOfMemoryError,
    OutOfRangeError,
    ProtocolError,
    ReleasedError,
    SecondModuleWarning,
    SignatureError,
    StillLentError,
    TicketError,
    TicketExpiredError,
    TicketVersionError,
    WrongMachineError,
)
from gpulend.kernels import compile, set_compilers
from gpulend.pool import Memory, memory

__all__ = [
    "AddressError",
    "CompileError",
    "CompileWarning",
    "Copy",
    "Device",
    "DeviceNotVisibleError",
    "DriverError",
    "Dtype",
    "Elementwise",
    "Error",
    "Event",
    "ExportError",
    "Graph",
    "Kernel",
    "KernelError",
    "Launcher",
    "LayoutError",
    "Lease",
    "Ledger",
    "LedgerEntry",
    "LenderGoneError",
    "Memory",
    "Module",
    "NoDeviceError",
    "NotPermittedError",
    "NotShareableError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Passport",
    "ProtocolError",
    "Reduction",
    "ReleasedError",
    "SecondModuleWarning",
    "SignatureError",
    "StillLentError",
    "Stream",
    "Ticket",
    "TicketError",
    "TicketExpiredError",
    "TicketVersionError",
    "WrongMachineError",
    "__version__",
    "borrow",
    "capture",
    "claim",
    "claims",
    "compile",
    "current_stream",
    "describe",
    "device_count",
    "elementwise",
    "empty",
    "empty_like",
    "from_host",
    "full",
    "is_available",
    "ledger",
    "lend",
    "mem_get_info",
    "memory",
    "pool",
    "reduction",
    "register",
    "simulate",
    "synchronize",
    "tickets",
    "timed",
    "wrap",
    "zeros",
    "zeros_like",
]

# Submodules that are there without being imported by name, when they are first asked for.
_SUBMODULES = frozenset(
    (
        *("adapters", "config", "ctypes_api", "dask", "jax", "nixl", "operations", "ray"),
        *("simulator", "tensorflow", "torch"),
    )
)

set_compilers()
if "distributed.protocol" in sys.modules:
    # A process of Dask's that meets a lease first imports this package, and nothing else.
    import_module("gpulend.dask")


def __getattr__(name: str) -> ModuleType:
    if name in _SUBMODULES:
        return import_module(f"gpulend.{name}")
    raise AttributeError(f"module 'gpulend' has no attribute {name!r}")


def _rebuild_dtype(name: str, padded: bool) -> Dtype:
    """Make a `Dtype` out of what its pickle holds."""
    return Dtype(name, padded=padded)
