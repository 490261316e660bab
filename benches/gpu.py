"""Time hand-overs of GPU arrays beside the best peers, in one run.

`make bench-gpu` runs it on a machine with a GPU, torch, CuPy, JAX and cuda.core.
Rounds of all rows are interleaved, so that whatever else the machine does
falls on all alike; the figure is the best round, in nanoseconds a call, making
and dropping the result, nothing taken off. All rows work on one stream, and
gpulend's have their guards, their ledger and their checked addresses. Of
several runs (`--runs`) the best round counts, and the median of their ratios to
the fastest peer of the same run.
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
import numpy as np
import record
import torch
from cuda.core import Device, DeviceMemoryResource
from cuda.core.utils import StridedMemoryView

try:
    import tvm_ffi
except ImportError:
    tvm_ffi = None

CALLS, ROUNDS = 1_000, 15
MEBIBYTE = 1 << 20
TARGETS = {
    "torch → lease": "0.9 of tvm-ffi",
    "CuPy → lease": "0.9 of tvm-ffi",
    "address → lease": "0.9",
    "address → torch": "0.6",
    "address → CuPy": "1.2",
    "torch → CuPy": "0.25",
    "CuPy → torch": "0.4",
    "torch → JAX": "0.25",
    "JAX → torch": "0.5",
    "describe(address)": "1000 ns",
    "4 KiB up": "1.0",
    "4 KiB down": "1.0",
    "1 MiB made and freed": "500 ns, with a pool of our own",
}


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


def rows() -> dict[str, tuple[Callable[[], Any], dict[str, Callable[[], Any]]]]:
    """Return our function and the peers' functions for each job."""
    device = Device(0)
    device.set_current()
    tensor, array = torch.zeros(4, 4, device="cuda"), cupy.zeros((4, 4), cupy.float32)
    traced = jnp.zeros((4, 4), jnp.float32)
    address = tensor.data_ptr()
    memory = DeviceMemoryResource(device)
    stream = device.create_stream()
    strided = StridedMemoryView.from_any_interface
    page = np.zeros(4096, np.uint8)
    tensor_page = torch.from_numpy(page)
    lease, on_gpu, at_torch = gpulend.from_host(page), cupy.asarray(page), tensor_page.cuda()

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
        "torch → lease": (lambda: gpulend.borrow(tensor), handles["torch"]),
        "CuPy → lease": (lambda: gpulend.borrow(array), handles["cupy"]),
        "address → lease": (
            wrapped,
            {"cuda.core Buffer (unchecked)": lambda: _buffer(address, tensor)},
        ),
        "address → torch": (
            lambda: wrapped().lend("torch"),
            {"torch.as_tensor": lambda: torch.as_tensor(Shown(address), device="cuda")},
        ),
        "address → CuPy": (
            lambda: wrapped().lend("cupy"),
            {"cupy.ndarray over UnownedMemory": unowned},
        ),
        "torch → CuPy": (
            lambda: gpulend.lend(tensor, "cupy"),
            {
                "cupy.asarray": lambda: cupy.asarray(tensor),
                "cupy.from_dlpack": lambda: cupy.from_dlpack(tensor),
            },
        ),
        "CuPy → torch": (
            lambda: gpulend.lend(array, "torch"),
            {
                "torch.as_tensor": lambda: torch.as_tensor(array, device="cuda"),
                "torch.from_dlpack": lambda: torch.from_dlpack(array),
            },
        ),
        "torch → JAX": (
            lambda: gpulend.lend(tensor, "jax"),
            {"jax.dlpack.from_dlpack": lambda: jax.dlpack.from_dlpack(tensor)},
        ),
        "JAX → torch": (
            lambda: gpulend.lend(traced, "torch"),
            {"torch.from_dlpack": lambda: torch.from_dlpack(traced)},
        ),
        "describe(address)": (
            lambda: gpulend.describe(address),
            {"cupy pointerGetAttributes": lambda: cupy.cuda.runtime.pointerGetAttributes(address)},
        ),
        "4 KiB up": (
            lambda: gpulend.from_host(page),
            {
                "cupy.asarray": lambda: cupy.asarray(page),
                "Tensor.cuda": lambda: tensor_page.cuda(),
            },
        ),
        "4 KiB down": (
            lambda: lease.to_host(),
            {"cupy.asnumpy": lambda: cupy.asnumpy(on_gpu), "Tensor.cpu": lambda: at_torch.cpu()},
        ),
        "1 MiB made and freed": (
            lambda: gpulend.empty(MEBIBYTE, "uint8"),
            {
                "torch.empty": lambda: torch.empty(MEBIBYTE, dtype=torch.uint8, device="cuda"),
                "cupy.empty": lambda: cupy.empty(MEBIBYTE, cupy.uint8),
                "cuda.core": lambda: memory.allocate(MEBIBYTE, stream=stream).close(stream),
            },
        ),
    }


def _buffer(address: int, owner: Any) -> Any:
    from cuda.core import Buffer

    return Buffer.from_handle(address, 64, owner=owner)


def measure() -> record.Times:
    """Return the best round of each contestant, by job."""
    best: record.Times = {}
    timers = []
    for job, (ours, peers) in rows().items():
        contestants = {"gpulend": ours, **peers}
        best[job] = dict.fromkeys(contestants, float("inf"))
        for name, function in contestants.items():
            function()
            timers.append((best[job], name, timeit.Timer(function)))
    gc.disable()
    for _ in range(ROUNDS):
        for times, name, timer in timers:
            times[name] = min(times[name], timer.timeit(CALLS) / CALLS * 1e9)
            torch.cuda.synchronize()
    return best


def main() -> None:
    options = record.options("gpu", __doc__)
    found = record.rows(record.measured(measure, options.runs))
    packages = ("torch", "cuda-core", "jax", "apache-tvm-ffi", "gpulend")
    there = [f"{name} {version(name)}" for name in packages if name != "apache-tvm-ffi" or tvm_ffi]
    machine = torch.cuda.get_device_name()
    print(f"{machine}, CuPy {cupy.__version__}, {', '.join(there)}")
    head = ["job", "gpulend", "best peer", "ratio", "other peers", "target"]
    if options.runs > 1:
        head.insert(4, f"median of {options.runs} runs")
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for row in found:
        best = {name: min(times) for name, times in row["ns"].items()}
        ours = best.pop("gpulend")
        times = sorted((ns, name) for name, ns in best.items())
        peer, name = times[0]
        others = ", ".join(f"{other} {ns:.0f}" for ns, other in times[1:])
        line = [row["job"], f"{ours:.0f} ns", f"{peer:.0f} ns ({name})", f"{ours / peer:.2f}"]
        if options.runs > 1:
            line.append(f"{record.ratio(row):.2f}")
        print(f"| {' | '.join([*line, others, TARGETS[row['job']]])} |")
    record.write(
        options,
        found,
        figure=f"best of {ROUNDS} rounds",
        machine=machine,
        packages=(*packages, "cupy-cuda12x", "cupy-cuda13x"),
    )


if __name__ == "__main__":
    main()
