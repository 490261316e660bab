"""Lend memory between frameworks: no copies, checked pointers, one owner.

>>> import gpulend, numpy as np
>>> a = np.zeros(3)
>>> lease = gpulend.borrow(a)
>>> lease.lend("numpy")[1] = 7
>>> a
array([0., 7., 0.])

`borrow` takes an array of any framework, `wrap` a raw address, `lend` hands
either to another framework. `describe` tells what is known about an address,
`ledger` what is held and by whom. `simulate` chooses the simulated GPU.
"""

from gpulend._native import Device, Dtype, Lease, __version__, borrow, lend, simulate, wrap
from gpulend.books import Ledger, LedgerEntry, Passport, describe, ledger
from gpulend.exceptions import (
    AddressError,
    DriverError,
    Error,
    ExportError,
    LayoutError,
    NoDeviceError,
    OutOfMemoryError,
    OutOfRangeError,
    ProtocolError,
    ReleasedError,
    StillLentError,
)

__all__ = [
    "AddressError",
    "Device",
    "DriverError",
    "Dtype",
    "Error",
    "ExportError",
    "LayoutError",
    "Lease",
    "Ledger",
    "LedgerEntry",
    "NoDeviceError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Passport",
    "ProtocolError",
    "ReleasedError",
    "StillLentError",
    "__version__",
    "borrow",
    "describe",
    "ledger",
    "lend",
    "simulate",
    "wrap",
]


def _rebuild_dtype(name: str, padded: bool) -> Dtype:
    """Make a `Dtype` out of what its pickle holds."""
    return Dtype(name, padded=padded)
