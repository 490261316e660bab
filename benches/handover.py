"""Time hand-overs of host arrays beside the best peers, in one run.

`make bench` runs it. Rounds of all rows are interleaved, so that whatever else
the machine does falls on all alike; the figure is the best round, in
nanoseconds a call, nothing taken off. Before anything is timed, each gpulend
callable proves that its guards are on. Of several runs (`--runs`) the best
round counts, and the median of their ratios.
"""

from __future__ import annotations

import platform
import timeit
from collections.abc import Callable
from statistics import median
from typing import Any

import gpulend
import numpy as np
import record
import torch
import tvm_ffi

CALLS, ROUNDS = 20_000, 31


def measure() -> record.Times:
    """Return the best round of each contestant, by job."""
    array = np.ones((4, 4), np.float32)
    tensor = torch.ones(4, 4)

    jobs: dict[str, dict[str, tuple[Callable[[Any], Any], Any]]] = {
        "torch → lease": {
            "tvm_ffi.from_dlpack(torch)": (tvm_ffi.from_dlpack, tensor),
            "gpulend.borrow(torch)": (gpulend.borrow, tensor),
        },
        "NumPy → lease": {
            "tvm_ffi.from_dlpack(numpy)": (tvm_ffi.from_dlpack, array),
            "gpulend.borrow(numpy)": (gpulend.borrow, array),
        },
        "NumPy → torch": {
            "torch.from_dlpack(numpy)": (torch.from_dlpack, array),
            "torch.from_numpy(numpy)": (torch.from_numpy, array),
            "gpulend.lend(numpy, 'torch')": (lend_to_torch, array),
        },
        "torch → NumPy": {
            "np.from_dlpack(torch)": (np.from_dlpack, tensor),
            "torch.Tensor.numpy(torch)": (torch.Tensor.numpy, tensor),
            "gpulend.lend(torch, 'numpy')": (lend_to_numpy, tensor),
        },
    }
    for callable_ in (gpulend.borrow, lend_to_numpy):
        refuses_what_it_must(callable_)

    best: record.Times = {}
    timers = []
    for job, contestants in jobs.items():
        best[job] = dict.fromkeys(contestants, float("inf"))
        for name, (function, argument) in contestants.items():
            names = {"function": function, "argument": argument}
            timers.append((best[job], name, timeit.Timer("function(argument)", globals=names)))
    for _ in range(ROUNDS):
        for times, name, timer in timers:
            times[name] = min(times[name], timer.timeit(CALLS) / CALLS * 1e9)
    return best


def main() -> None:
    options = record.options("handover", __doc__)
    rows = record.rows(record.measured(measure, options.runs))
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, NumPy {np.__version__}, "
        f"tvm-ffi {tvm_ffi.__version__}, gpulend {gpulend.__version__}"
    )
    found = {name: times for row in rows for name, times in row["ns"].items()}
    for name, times in found.items():
        print(f"{name:<36} {min(times):8.0f} ns")
    print()
    for ours, peer, limit in TARGETS:
        ratio = median(a / b for a, b in zip(found[ours], found[peer], strict=True))
        verdict = "met" if ratio <= limit else "MISSED"
        print(f"{ours} / {peer} = {ratio:.2f} (at most {limit}): {verdict}")
    record.write(
        options,
        rows,
        figure=f"best of {ROUNDS} rounds",
        machine=record.processor(),
        packages=("torch", "numpy", "apache-tvm-ffi", "gpulend"),
    )


TARGETS = [
    ("gpulend.borrow(torch)", "tvm_ffi.from_dlpack(torch)", 0.9),
    ("gpulend.lend(numpy, 'torch')", "torch.from_dlpack(numpy)", 1.0),
    ("gpulend.lend(torch, 'numpy')", "np.from_dlpack(torch)", 0.5),
]


def lend_to_torch(array: Any) -> Any:
    return gpulend.lend(array, "torch")


def lend_to_numpy(array: Any) -> Any:
    return gpulend.lend(array, "numpy")


def refuses_what_it_must(function: Callable[[Any], Any]) -> None:
    """Fail unless `function` refuses tensors that mean more than their bytes."""
    for tensor in (
        torch._neg_view(torch.ones(4, 4)),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(4, 4, requires_grad=True),
    ):
        try:
            function(tensor)
        except gpulend.ExportError:
            continue
        raise SystemExit(f"{function} took a tensor that it must refuse: {tensor}")


if __name__ == "__main__":
    main()
