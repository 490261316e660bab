"""The frameworks that are examined: how each makes an array, and how it receives one.

A framework here needs no adapter: without one, what `gpulend.lend` says about it is what is told.
To add one, add a line to `FRAMEWORKS`, and a function that makes an array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import gpulend

SHAPE, TYPE = (3, 4), "float32"
# JAX takes memory of the host at multiples of it only, and where NumPy begins is chance.
ALIGNMENT = 64
LEGACY = 1

Make = Callable[[], Any]


def _by_lend(name: str) -> Callable[..., Any]:
    def receive(array: Any, **stream: Any) -> Any:
        return gpulend.lend(array, name, **stream)

    return receive


@dataclass(frozen=True)
class Framework:
    """One framework: its module, what installs it, its arrays on the host and on a GPU.

    `address` tells, in the framework's own words, where an array lies. `stream` is the number of
    its current stream on device 0; None: nobody can tell. `readonly` makes an array that its own
    framework never writes. `gpu` returns None where the framework has no GPU.
    """

    name: str
    module: str
    install: str
    address: Callable[[Any], int]
    host: Make | None = None
    gpu: Make | None = None
    readonly: Make | None = None
    receive: Callable[..., Any] | None = None
    stream: Callable[[], int] | None = None
    # What must be done before it takes anything.
    prepare: Callable[[], object] | None = None
    # Whether its arrays are read-only by contract, though nothing in them says so.
    immutable: bool = False

    def take(self, array: Any, **stream: Any) -> Any:
        """Hand an array to this framework."""
        return (self.receive or _by_lend(self.name))(array, **stream)


def _numpy() -> Any:
    import numpy as np

    count = SHAPE[0] * SHAPE[1]
    room = np.zeros(count * 4 + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    array = room[start : start + count * 4].view(TYPE).reshape(SHAPE)
    array[...] = np.arange(count).reshape(SHAPE)
    return array


def _numpy_readonly() -> Any:
    array = _numpy()
    array.flags.writeable = False
    return array


def _torch() -> Any:
    import torch

    return torch.arange(12, dtype=torch.float32).reshape(SHAPE)


def _torch_gpu() -> Any:
    import torch

    return _torch().to("cuda:0") if torch.cuda.is_available() else None


def _torch_stream() -> int:
    import torch

    return int(torch.cuda.current_stream(0).cuda_stream) or LEGACY


def _jax() -> Any:
    import jax

    return jax.device_put(_numpy(), jax.devices("cpu")[0])


def _jax_gpu() -> Any:
    import jax

    if jax.default_backend() != "gpu":
        return None
    return jax.device_put(_numpy(), jax.devices("gpu")[0])


def _tensorflow() -> Any:
    import tensorflow as tf

    with tf.device("CPU:0"):
        return tf.constant(_numpy())


def _tensorflow_gpu() -> Any:
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return None
    with tf.device("GPU:0"):
        return tf.constant(_numpy())


def _cupy() -> Any:
    import cupy

    return cupy.asarray(_numpy())


def _cupy_stream() -> int:
    import cupy

    return int(cupy.cuda.get_current_stream().ptr) or LEGACY


def _numba() -> Any:
    from numba import cuda

    return cuda.to_device(_numpy())


def _pycuda_context() -> None:
    # PyCUDA's own context is a stranger to every other library; the primary one is shared.
    import_module("pycuda.autoprimaryctx")


def _pycuda() -> Any:
    _pycuda_context()
    from pycuda import gpuarray

    return gpuarray.to_gpu(_numpy())


def _pyopencl() -> Any:
    import pyopencl as cl
    import pyopencl.array as arrays

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    return arrays.to_device(queue, _numpy())


def _cuda_core() -> Any:
    from cuda.core import LEGACY_DEFAULT_STREAM, Device

    device = Device(0)
    device.set_current()
    return device.allocate(SHAPE[0] * SHAPE[1] * 4, stream=LEGACY_DEFAULT_STREAM)


def _tvm_ffi() -> Any:
    import tvm_ffi

    return tvm_ffi.from_dlpack(_numpy())


def _lease() -> gpulend.Lease:
    # Without NumPy, which need not be here.
    room = (ctypes.c_ubyte * (SHAPE[0] * SHAPE[1] * 4 + ALIGNMENT))()
    address = ctypes.addressof(room)
    return gpulend.wrap(address + -address % ALIGNMENT, SHAPE, TYPE, owner=room)


def _lease_gpu() -> gpulend.Lease:
    return gpulend.full(SHAPE, 1, TYPE, "cuda:0")


def _lease_readonly() -> gpulend.Lease:
    return _lease_gpu().as_readonly()


def _asked(array: Any) -> int:
    """Ask gpulend, where a framework does not tell its addresses."""
    return int(gpulend.borrow(array).address)


FRAMEWORKS = {
    framework.name: framework
    for framework in (
        Framework(
            *("gpulend", "gpulend", "gpulend"),
            address=lambda lease: int(lease.address),
            host=_lease,
            gpu=_lease_gpu,
            readonly=_lease_readonly,
            receive=gpulend.borrow,
            stream=lambda: gpulend.current_stream("cuda:0").handle,
        ),
        Framework(
            *("numpy", "numpy", "numpy"),
            address=lambda array: int(array.ctypes.data),
            host=_numpy,
            readonly=_numpy_readonly,
        ),
        Framework(
            *("torch", "torch", "torch"),
            address=lambda tensor: int(tensor.data_ptr()),
            host=_torch,
            gpu=_torch_gpu,
            stream=_torch_stream,
        ),
        Framework(
            *("jax", "jax", "jax"),
            address=lambda array: int(array.unsafe_buffer_pointer()),
            host=_jax,
            gpu=_jax_gpu,
            immutable=True,
        ),
        Framework(
            *("tensorflow", "tensorflow", "tensorflow"),
            address=_asked,
            host=_tensorflow,
            gpu=_tensorflow_gpu,
            immutable=True,
        ),
        Framework(
            *("cupy", "cupy", "cupy-cuda13x"),
            address=lambda array: int(array.data.ptr),
            gpu=_cupy,
            stream=_cupy_stream,
        ),
        Framework(
            *("numba", "numba.cuda", "numba-cuda"),
            address=lambda array: int(array.device_ctypes_pointer.value),
            gpu=_numba,
            stream=lambda: LEGACY,
        ),
        Framework(
            *("pycuda", "pycuda", "pycuda"),
            address=lambda array: int(array.gpudata),
            gpu=_pycuda,
            prepare=_pycuda_context,
            stream=lambda: LEGACY,
        ),
        Framework(
            *("pyopencl", "pyopencl", "pyopencl[pocl]"),
            address=lambda array: int(array.map_to_host().ctypes.data),
            host=_pyopencl,
        ),
        Framework(
            *("cuda.core", "cuda.core", "cuda-core"),
            address=lambda array: int(getattr(array, "ptr", 0) or array.handle),
            gpu=_cuda_core,
            stream=lambda: gpulend.current_stream("cuda:0").handle,
        ),
        Framework(
            *("tvm_ffi", "tvm_ffi", "apache-tvm-ffi"),
            address=lambda tensor: int(tensor.data_ptr()),
            host=_tvm_ffi,
        ),
    )
}
