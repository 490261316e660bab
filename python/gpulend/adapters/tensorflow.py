"""TensorFlow: immutable eager tensors, row-major, on streams that it hides.

A tensor says neither its address nor its stream: both come by its DLPack
capsule, for which TensorFlow itself waits for the tensor's device. What it is
lent it never writes, not even where its own tensors are written in place.
Where nothing stands against it here, TensorFlow would end the process: on
capsules of strings, and on memory that begins where its kernels cannot read.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.experimental import dlpack
from tensorflow.python.framework.ops import EagerTensor

from gpulend._codes import (
    MEANING_LOST,
    NO_ELEMENT_TYPE,
    NOT_NUMBERS,
    UNALIGNED_FOR_FRAMEWORK,
    UNSUPPORTED_STRIDES,
)
from gpulend._native import borrow
from gpulend.adapters import count_wait
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
from gpulend.exceptions import ExportError

TYPES = (*PLAIN, "bfloat16")
# Where the arguments of TensorFlow's kernels may begin.
ALIGNMENT = 64

_KNOWN = frozenset(getattr(tf, name) for name in TYPES)
# What is not a plain array of numbers, and what to borrow instead.
_OTHERS = {
    "Variable": ("is written in place", "borrow its value: `tf.convert_to_tensor(t)`"),
    "BaseResourceVariable": ("is written in place", "borrow its value: `tf.convert_to_tensor(t)`"),
    "KerasTensor": ("has no memory: it stands for others", "borrow what the model returns"),
    "RaggedTensor": ("is not a plain array", "borrow its parts: `t.flat_values`, `t.row_splits`"),
    "SparseTensor": ("is not a plain array", "borrow its parts or `tf.sparse.to_dense(t)`"),
    "IndexedSlices": ("is not a plain array", "borrow its parts: `t.values`, `t.indices`"),
    "TensorArray": ("is not a plain array", "borrow `array.stack()`"),
}


def place(tensor: Any) -> int | None:
    """Return the index of the GPU that a tensor is on, None for the host's, or refuse it."""
    if not isinstance(tensor, EagerTensor):
        found, fix = _other(tensor)
        raise ExportError(f"{found}; {fix}", MEANING_LOST)
    if tensor.dtype not in _KNOWN:
        _refuse_type(tensor.dtype)
    device = tf.DeviceSpec.from_string(tensor.backing_device)
    return None if device.device_type == "CPU" else int(device.device_index)


def _refuse_type(dtype: Any) -> None:
    """Say what to borrow instead of elements that TensorFlow's DLPack cannot name."""
    if dtype in (tf.string, tf.resource, tf.variant):
        fix = "; decode it first: `tf.io.decode_raw(t, …)`" if dtype == tf.string else ""
        raise ExportError(f"elements of type {dtype.name} are not numbers{fix}", NOT_NUMBERS)
    # What bits are behind a quantized number is in its name: `qint8`, `quint16`.
    fix = f"the bits: `tf.bitcast(t, tf.{dtype.name[1:]})`" if dtype.is_quantized else "`t.numpy()`"
    raise ExportError(
        f"TensorFlow's DLPack has no element type {dtype.name}; borrow {fix}", NO_ELEMENT_TYPE
    )


def _other(tensor: Any) -> tuple[str, str]:
    """Say what a tensor is that is not an eager one, and what to do."""
    name = type(tensor).__name__
    for base in type(tensor).__mro__:
        if base.__name__ in _OTHERS:
            found, fix = _OTHERS[base.__name__]
            return f"TensorFlow's {name} {found}", fix
    return (
        f"TensorFlow's {name} has no memory: it stands for others inside tf.function",
        "borrow eager tensors, outside of it or by `tf.py_function`",
    )


def stand_in(tensor: Any, stream: int | None, _ready_on: object) -> Any:
    """Export a tensor; TensorFlow has the host wait for its GPU."""
    if stream is not None:
        count_wait("tensorflow")
    return dlpack.to_dlpack(tensor)


def _make(lease: Any) -> Any:
    if lease.size and lease.address % ALIGNMENT:
        raise ExportError(
            f"the memory begins at {lease.address:#x}, and TensorFlow wants a multiple of "
            f"{ALIGNMENT}; lend a copy (`copy=True`)",
            UNALIGNED_FOR_FRAMEWORK,
        )
    if not lease._is_row_major():
        raise ExportError(
            f"TensorFlow has row-major tensors only, and the memory is seen with strides "
            f"{lease.strides}; lend a copy (`copy=True`)",
            UNSUPPORTED_STRIDES,
        )
    return dlpack.from_dlpack(lease.__dlpack__(stream=-1 if lease.device.kind == "cuda" else None))


def _address(tensor: Any) -> int:
    """Ask gpulend: TensorFlow does not say its addresses."""
    return borrow(tensor).address


def _on(device: str, shape: tuple[int, ...], dtype: str) -> Any:
    with tf.device(device):
        return tf.zeros(shape, dtype)


def _on_gpu(shape: tuple[int, ...], dtype: str) -> Any:
    return _on("GPU:0", shape, dtype) if tf.config.list_logical_devices("GPU") else None


ADAPTER = Adapter(
    producers=(
        Producer(
            knows=made_of(
                ("tensorflow", "Tensor"),
                ("tensorflow", "CompositeTensor"),
                ("tensorflow", "TensorArray"),
                ("keras", "KerasTensor"),
            ),
            place=place,
            stand_in=stand_in,
            call="__dlpack__",
            immutable=True,
            stands_in=True,
            conversion='tf.cast({name}, "{fit}")',
        ),
    ),
    consumer=Consumer(
        takes=Takes(
            types=TYPES,
            readonly=True,
            never_writes=True,
            # A build for CUDA that finds no GPU, or not all of CUDA's libraries, works on the host.
            gpu=bool(tf.config.list_physical_devices("GPU")),
        ),
        makes=Makes(lease=_make),
        streams=Streams(kind="hidden"),
        address=_address,
    ),
    probe=Probe(
        address=_address, host=lambda shape, dtype: _on("CPU:0", shape, dtype), gpu=_on_gpu
    ),
)
