"""Time hand-overs of GPU arrays beside the best peers, in one run.

`make bench-gpu` runs it on a machine with a GPU, torch, CuPy, JAX and cuda.core.
Rounds of all rows are interleaved, so that whatever else the machine does
falls on all alike; the figure is the best round, in nanoseconds a call, making
and dropping the result, nothing taken off. All rows work on one stream, and
gpulend's have their guards, their ledger and their checked addresses.
"""

from __future__ import annotations

import gc
import os
import timeit
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import cupy
import gpulend
import jax
import jax.numpy as jnp
import torch
from cuda.core import Device, DeviceMemoryResource
from cuda.core.utils import StridedMemoryView

try:
    import tvm_ffi
except ImportError:
    tvm_ffi = None

CALLS, ROUNDS = 1_000, 15
MEBIBYTE = 1 << 20


class Shown:
    """A raw address as people show it to torch and CuPy today."""

    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (4, 4),
            "typestr": "<f4",
            "data": (address, False),
            "stream": None,
        }


def rows() -> dict[str, tuple[Callable[[], Any], dict[str, Callable[[], Any]], str]]:
    """Return ours and the peers' ways for each job, and the design's target."""
    device = Device(0)
    device.set_current()
    tensor, array = torch.zeros(4, 4, device="cuda"), cupy.zeros((4, 4), cupy.float32)
    traced = jnp.zeros((4, 4), jnp.float32)
    address = tensor.data_ptr()
    memory = DeviceMemoryResource(device)
    stream = device.create_stream()
    strided = StridedMemoryView.from_any_interface

    def unowned() -> Any:
        pointer = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address, 64, tensor, 0), 0)
        return cupy.ndarray((4, 4), cupy.float32, pointer)

    def wrapped() -> Any:
        return gpulend.wrap(address, (4, 4), "float32", owner=tensor)

    handles = {"torch": {}, "cupy": {}}
    if tvm_ffi is not None:
        handles["torch"]["tvm_ffi.from_dlpack"] = lambda: tvm_ffi.from_dlpack(tensor)
        handles["cupy"]["tvm_ffi.from_dlpack"] = lambda: tvm_ffi.from_dlpack(array)
    handles["torch"]["cuda.core StridedMemoryView"] = lambda: strided(tensor, stream_ptr=-1)
    handles["cupy"]["cuda.core StridedMemoryView"] = lambda: strided(array, stream_ptr=-1)
    return {
        "torch → lease": (lambda: gpulend.borrow(tensor), handles["torch"], "0.9 of tvm-ffi"),
        "CuPy → lease": (lambda: gpulend.borrow(array), handles["cupy"], "0.9 of tvm-ffi"),
        "address → lease": (
            wrapped,
            {"cuda.core Buffer (unchecked)": lambda: _buffer(address, tensor)},
            "-",
        ),
        "address → torch": (
            lambda: wrapped().lend("torch"),
            {"torch.as_tensor": lambda: torch.as_tensor(Shown(address), device="cuda")},
            "1500 ns",
        ),
        "address → CuPy": (
            lambda: wrapped().lend("cupy"),
            {"cupy.ndarray over UnownedMemory": unowned},
            "1500 ns",
        ),
        "torch → CuPy": (
            lambda: gpulend.lend(tensor, "cupy"),
            {
                "cupy.asarray": lambda: cupy.asarray(tensor),
                "cupy.from_dlpack": lambda: cupy.from_dlpack(tensor),
            },
            "2500 ns",
        ),
        "CuPy → torch": (
            lambda: gpulend.lend(array, "torch"),
            {
                "torch.as_tensor": lambda: torch.as_tensor(array, device="cuda"),
                "torch.from_dlpack": lambda: torch.from_dlpack(array),
            },
            "1500 ns",
        ),
        "torch → JAX": (
            lambda: gpulend.lend(tensor, "jax"),
            {"jax.dlpack.from_dlpack": lambda: jax.dlpack.from_dlpack(tensor)},
            "15000 ns",
        ),
        "JAX → torch": (
            lambda: gpulend.lend(traced, "torch"),
            {"torch.from_dlpack": lambda: torch.from_dlpack(traced)},
            "4000 ns",
        ),
        "1 MiB made and freed": (
            lambda: gpulend.empty(MEBIBYTE, "uint8"),
            {
                "torch.empty": lambda: torch.empty(MEBIBYTE, dtype=torch.uint8, device="cuda"),
                "cupy.empty": lambda: cupy.empty(MEBIBYTE, cupy.uint8),
                "cuda.core": lambda: memory.allocate(MEBIBYTE, stream=stream).close(stream),
            },
            "500 ns, with a pool of our own",
        ),
    }


def _buffer(address: int, owner: Any) -> Any:
    from cuda.core import Buffer

    return Buffer.from_handle(address, 64, owner=owner)


def main() -> None:
    jobs = rows()
    timers = {}
    for job, (ours, peers, _) in jobs.items():
        for name, function in {"gpulend": ours, **peers}.items():
            function()
            timers[job, name] = timeit.Timer(function)
    best = dict.fromkeys(timers, float("inf"))
    gc.disable()
    for _ in range(ROUNDS):
        for key, timer in timers.items():
            best[key] = min(best[key], timer.timeit(CALLS) / CALLS * 1e9)
            torch.cuda.synchronize()
    packages = ("torch", "cuda-core", "jax", "apache-tvm-ffi", "gpulend")
    found = [f"{name} {version(name)}" for name in packages if name != "apache-tvm-ffi" or tvm_ffi]
    print(f"{torch.cuda.get_device_name()}, CuPy {cupy.__version__}, {', '.join(found)}")
    print("| job | gpulend | best peer | ratio | other peers | target |\n|---|---|---|---|---|---|")
    for job, (_, peers, target) in jobs.items():
        times = sorted((best[job, name], name) for name in peers)
        ours, (peer, name) = best[job, "gpulend"], times[0]
        others = ", ".join(f"{other} {ns:.0f}" for ns, other in times[1:])
        line = f"{job} | {ours:.0f} ns | {peer:.0f} ns ({name}) | {ours / peer:.2f} | {others}"
        print(f"| {line} | {target} |")


if __name__ == "__main__":
    main()
