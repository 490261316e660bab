"""PyCUDA: GPU memory of primary contexts, any strides; its default stream is the legacy one.

PyCUDA's arrays say `__cuda_array_interface__`; its bare allocations say their
address, and the driver how long they are. `pycuda.autoinit` makes a context of
its own, in which memory of no other library is valid, nor its memory elsewhere;
`pycuda.autoprimaryctx` takes the one that all others use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from pycuda import driver, gpuarray
from pycuda.gpuarray import GPUArray

from gpulend._codes import NO_PYCUDA_CONTEXT
from gpulend._native import describe, wrap
from gpulend.adapters.interface import (
    PLAIN,
    Adapter,
    Consumer,
    Makes,
    Probe,
    Producer,
    Streams,
    StreamType,
    Takes,
    made_of,
)
from gpulend.exceptions import AddressError

LEGACY = 1
# The devices of the primary contexts that PyCUDA was met in.
_CONTEXTS: dict[int, int] = {}


class _Bytes:
    """An allocation as bytes, kept as long as this object."""

    def __init__(self, allocation: Any, address: int, size: int) -> None:
        self.allocation = allocation
        self._interface = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "stream": LEGACY,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._interface


def place(allocation: Any) -> int:
    """Return the index of the GPU that an allocation is on."""
    return describe(int(allocation)).device.index


def stand_in(allocation: Any, _stream: int | None, _ready_on: object) -> Any:
    """Return an allocation as an array of its bytes."""
    passport = describe(int(allocation))
    return _Bytes(allocation, passport.address, passport.size - passport.offset)


def _check_context(device: int) -> None:
    """Refuse to make an array that PyCUDA would use in another context than the memory's."""
    context = driver.Context.get_current()
    if context is None:
        raise AddressError(
            "PyCUDA has no current context in this thread; `import pycuda.autoprimaryctx` first, "
            "or push one of `pycuda.driver.Device(…).retain_primary_context()`",
            NO_PYCUDA_CONTEXT,
        )
    if context.handle not in _CONTEXTS:
        # The core distinguishes memory of a primary context from other memory; PyCUDA does not.
        probe = driver.mem_alloc(1)
        try:
            lease = wrap(int(probe), 1, "uint8", owner=probe, ready_on="now")
        except AddressError as error:
            raise AddressError(
                "PyCUDA's current context is one of its own, in which other libraries' memory is "
                "not valid: `import pycuda.autoprimaryctx` instead of pycuda.autoinit, "
                "`retain_primary_context()` instead of `make_context()`",
                error.code,
            ) from error
        _CONTEXTS[context.handle] = lease.device.index
    if _CONTEXTS[context.handle] != device:
        raise AddressError(
            f"the memory is on cuda:{device}, and PyCUDA's current context is that of "
            f"cuda:{_CONTEXTS[context.handle]}; push the other's primary context first",
            NO_PYCUDA_CONTEXT,
        )


def _make(
    address: int, _nbytes: int, device: int, shape: Any, strides: Any, dtype: str, owner: Any
) -> Any:
    _check_context(device)
    return GPUArray(shape, np.dtype(dtype), gpudata=address, base=owner, strides=strides)


def _use_primary_context() -> None:
    # PyCUDA's own context is a stranger to every other library; the primary one is shared.
    import_module("pycuda.autoprimaryctx")


def _zeros(shape: tuple[int, ...], dtype: str) -> Any:
    _use_primary_context()
    return gpuarray.to_gpu(np.zeros(shape, dtype))


ADAPTER = Adapter(
    producers=(
        Producer(
            knows=made_of(("pycuda", "DeviceAllocation"), ("pycuda", "PooledDeviceAllocation")),
            place=place,
            stand_in=stand_in,
            protocol="__cuda_array_interface__",
            call="__int__",
        ),
        Producer(
            knows=made_of(("pycuda", None)),
            # Its arrays say "nothing to wait for" with work on the legacy default stream.
            forgetful=True,
            conversion='{name}.astype("{fit}")',
        ),
    ),
    stream_type=StreamType(handle="handle"),
    consumer=Consumer(
        takes=Takes(
            types=PLAIN, negative_strides=True, host=False, gpu=True, simulated_as_cuda=True
        ),
        makes=Makes(values=_make),
        streams=Streams(current=lambda _index: LEGACY),
        address="ptr",
    ),
    probe=Probe(
        address=lambda array: int(array.gpudata),
        gpu=_zeros,
        prepare=_use_primary_context,
        stream=lambda: LEGACY,
    ),
)
