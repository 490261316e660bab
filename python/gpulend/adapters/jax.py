"""JAX: immutable arrays, compact in some order of their axes, on streams that it hides.

JAX writes what it was lent only where a program donates it (`donate_argnums`);
its DLPack cannot say read-only, and need not. JAX releases memory only when its
own work on it is done, so there is nothing to wait for at the exit. At the
entry a stream of JAX's waits for ours, unless the bytes are there already.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.dlpack
import numpy as np

from gpulend._codes import (
    MEANING_LOST,
    OTHER_DEVICE_WANTED,
    UNALIGNED_FOR_FRAMEWORK,
    UNSUPPORTED_STRIDES,
)
from gpulend.adapters.interface import (
    PLAIN,
    Adapter,
    Consumer,
    Makes,
    Probe,
    Producer,
    Streams,
    Takes,
    made_of,
)
from gpulend.adapters.numpy import aligned
from gpulend.exceptions import ExportError

TYPES = [*PLAIN, "bfloat16", "float8_e4m3fn", "float8_e5m2"]
# Where XLA's arguments may begin, on the host and on a GPU; of the latter JAX learns when it runs.
HOST_ALIGNMENT, GPU_ALIGNMENT = 64, 16
LEGACY = 1
_DEVICES: dict[int, Any] = {}

try:
    # What `jax.dlpack.from_dlpack` ends in; the call itself costs 80 microseconds more.
    from jax._src.lib import _jax  # type: ignore[attr-defined]

    _import = _jax.dlpack_managed_tensor_to_buffer
    _export = _jax.buffer_to_dlpack_managed_tensor
except (ImportError, AttributeError):
    _import = _export = None


def _make(lease: Any) -> Any:
    """Make an array of the host."""
    _check(lease, HOST_ALIGNMENT)
    return jax.dlpack.from_dlpack(lease, copy=False)


def _device(index: int) -> Any:
    """Return JAX's name of a GPU; asking JAX each time costs as much as a hand-over to torch."""
    if index not in _DEVICES:
        if jax.default_backend() == "cpu":
            raise ExportError(
                f"the memory is on cuda:{index}, and this JAX has no GPU; install one that has: "
                "`pip install jax[cuda13]`",
                OTHER_DEVICE_WANTED,
            )
        found = {device.local_hardware_id: device for device in jax.devices("gpu")}
        _DEVICES.update(found)
    return _DEVICES[index]


def _stream(index: int) -> int:
    """Return a stream that JAX waits for; the legacy one for a JAX of the CPU, which has none."""
    if index not in _DEVICES and jax.default_backend() == "cpu":
        return LEGACY
    stream: int = _device(index).get_stream_for_external_ready_events()
    return stream


def _make_on(lease: Any, stream: int) -> Any:
    """Make an array of a GPU; `stream` is one of the few that JAX waits for."""
    _check(lease, GPU_ALIGNMENT)
    if _import is None:
        return jax.dlpack.from_dlpack(lease, copy=False)
    ready = None if lease._is_ready() else stream
    return _import(lease.__dlpack__(stream=-1), _device(lease.device.index), ready)


def _check(lease: Any, alignment: int) -> None:
    """Refuse what JAX would copy, or take and then fail on."""
    if lease.size and lease.address % alignment:
        raise ExportError(
            f"the memory begins at {lease.address:#x}, and JAX wants a multiple of {alignment}; "
            "lend a copy (`copy=True`)",
            UNALIGNED_FOR_FRAMEWORK,
        )
    if not lease._is_permuted():
        raise ExportError(
            f"JAX has compact arrays only, and the memory is seen with strides {lease.strides}; "
            "lend a copy (`copy=True`)",
            UNSUPPORTED_STRIDES,
        )


def place(array: Any) -> int | None:
    """Return the index of the GPU that an array is on, None for the host's, or refuse it."""
    if isinstance(array, jax.core.Tracer):
        raise ExportError(
            "inside jit, grad or vmap an array stands for others; borrow it outside of them",
            MEANING_LOST,
        )
    if array.is_deleted():
        raise ExportError(
            "the array was deleted or donated, so it has no memory; borrow it before", MEANING_LOST
        )
    devices = array.sharding.device_set
    if len(devices) != 1:
        raise ExportError(
            "the array is spread over several devices; borrow its parts: "
            "`[shard.data for shard in array.addressable_shards]`",
            MEANING_LOST,
        )
    (device,) = devices
    return None if device.platform == "cpu" else int(device.local_hardware_id)


def stand_in(array: Any, stream: int | None, _ready_on: object) -> Any:
    """Export an array, so that `stream` waits for it; None for memory of the host."""
    if _export is None or stream is None:
        return array.__dlpack__() if stream is None else array.__dlpack__(stream=stream)
    # Of the array itself, JAX would free the memory at `array.delete()`.
    return _export(array.addressable_data(0), stream)


def _on(platform: str, shape: tuple[int, ...], dtype: str) -> Any:
    return jax.device_put(aligned(shape, dtype), jax.devices(platform)[0])


def _on_gpu(shape: tuple[int, ...], dtype: str) -> Any:
    return _on("gpu", shape, dtype) if jax.default_backend() == "gpu" else None


def _copied(host: Any, where: str) -> Any:
    # Of the CPU, JAX would otherwise keep NumPy's own memory.
    device = jax.devices("gpu" if where == "gpu" else "cpu")[0]
    return jax.numpy.array(host, copy=True, device=device)


@jax.jit
def _filled(array: Any, byte: Any) -> Any:
    return array * 0 + byte.astype(array.dtype)


ADAPTER = Adapter(
    producers=(
        Producer(
            knows=made_of(("jaxlib", "ArrayImpl"), ("jax", "Array"), ("jax", "Tracer")),
            place=place,
            stand_in=stand_in,
            call="__dlpack__",
            immutable=True,
            stands_in=True,
            conversion='{name}.astype("{fit}")',
        ),
    ),
    consumer=Consumer(
        takes=Takes(types=TYPES, readonly=True, never_writes=True, gpu=True),
        makes=Makes(lease=_make, on_stream=_make_on),
        streams=Streams(current=_stream, kind="own"),
        address="unsafe_buffer_pointer()",
    ),
    probe=Probe(
        address=lambda array: int(array.unsafe_buffer_pointer()),
        host=lambda shape, dtype: _on("cpu", shape, dtype),
        gpu=_on_gpu,
        copied=_copied,
        # Another array, which JAX computes while this returns.
        fill=_filled,
        values=np.array,
    ),
)
