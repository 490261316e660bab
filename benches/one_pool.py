"""Train with torch beside CuPy and Numba: three caches of their own, then one pool for all, twice.

A small model is trained for 100 steps. CuPy makes each batch, torch learns from it, and Numba sums
what the model says about it; the data goes from one to the other without a copy. Each way runs in a
process of its own: with one pool, torch keeps a cache inside of it, or each tensor is a block of
the pool (`gpulend.pool.use(..., direct=True)`). Printed are the time of a step, the most memory of
the device that the process took (asked of the driver after each part of a step), what each
allocator had at the end, and whether all ways computed the same.

A framework that is missing, or sees no GPU, is left out; so on the simulated GPU Numba runs alone.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from statistics import median
from typing import Any

import gpulend
import numpy as np
import record

# numba-cuda 0.30 asks NumPy for a function that NumPy 2.5 no longer has.
if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # type: ignore[attr-defined]

STEPS, BATCH, FEATURES, WIDTH = 100, 4096, 512, 2048
# The simulated GPU computes on a CPU.
STEPS_SIMULATED = 10
MEBIBYTE = 1 << 20
OWN, ONE, DIRECT = "caches of their own", "gpulend's pool", "gpulend's pool, torch without a cache"


class Part:
    """What one framework does in a step, and the bytes that its own allocator has."""

    def __init__(self, work: Callable[[int, Any], Any], reserved: Callable[[], int]) -> None:
        self.work, self.reserved = work, reserved


def _cupy() -> Part:
    import cupy

    def work(step: int, _: Any) -> Any:
        # Several arrays of the batch's size, of which one is left.
        rows = cupy.arange(BATCH, dtype=cupy.float32)[:, None] + step
        angles = rows * cupy.arange(1, FEATURES + 1, dtype=cupy.float32) / FEATURES
        batch = cupy.sin(angles) + cupy.cos(angles * 3) / 2
        return (batch - batch.mean(axis=0)) / (batch.std(axis=0) + 1)

    return Part(work, lambda: int(cupy.get_default_memory_pool().total_bytes()))


def _torch() -> Part:
    import torch

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    layers = [torch.nn.Linear(FEATURES, WIDTH), torch.nn.GELU()]
    for _ in range(4):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def work(step: int, batch: Any) -> Any:
        if batch is None:
            batch = torch.full((BATCH, FEATURES), 1.0 + step % 7, device="cuda")
        else:
            batch = gpulend.lend(batch, "torch")
        said = model(batch)
        loss = torch.nn.functional.mse_loss(said, batch.mean(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return said.detach()

    def reserved() -> int:
        try:
            return int(torch.cuda.memory_reserved())
        except RuntimeError:  # torch without a cache of its own counts nothing
            return gpulend.memory().users.get("torch", 0)

    return Part(work, reserved)


def _numba() -> Part:
    from numba import cuda

    host = np.linspace(0, 1, BATCH * FEATURES // 4, dtype=np.float32)

    @cuda.jit  # type: ignore[untyped-decorator]
    def square(values: Any, squares: Any) -> None:
        index = cuda.grid(1)
        if index < values.size:
            squares[index] = values[index] * values[index]

    def squared(weights: Any) -> Any:
        squares = cuda.device_array(host.shape, np.float32)
        square[host.size // 256, 256](weights, squares)
        return squares

    def copied(weights: Any) -> Any:
        squares = cuda.device_array(host.shape, np.float32)
        squares.copy_to_device(weights)
        return squares

    compute = squared
    try:
        squared(cuda.to_device(host))
        cuda.synchronize()
    except Exception as problem:  # Numba's compiler is not on every machine
        print(f"Numba copies and launches nothing: {type(problem).__name__}")
        compute = copied

    def work(step: int, said: Any) -> Any:
        # Arrays of its own beside the one that it was given.
        weights = cuda.to_device(host)
        squares = compute(weights)
        found = np.float64(squares[step % 97])
        if said is not None:
            found += gpulend.borrow(said).to_host().astype(np.float64).sum()
        return found

    return Part(work, lambda: 0)


def _wake_cupy() -> None:
    import cupy

    cupy.zeros(1)
    cupy.get_default_memory_pool().free_all_blocks()


def _wake_torch() -> None:
    import torch

    torch.zeros(1, device="cuda")
    with suppress(RuntimeError):  # torch without a cache of its own has none to empty
        torch.cuda.empty_cache()


def _wake_numba() -> None:
    from numba import cuda

    cuda.to_device(np.zeros(1)).copy_to_host()


# In the order of a step: how each part is made, and how its framework starts on the GPU.
PARTS = {
    "cupy": (_cupy, _wake_cupy),
    "torch": (_torch, _wake_torch),
    "numba": (_numba, _wake_numba),
}


def awake() -> list[str]:
    """Start the frameworks, and return those that see a GPU here."""
    found = []
    for name, (_, wake) in PARTS.items():
        try:
            wake()
        except Exception as problem:  # what is missing differs from framework to framework
            print(f"{name} is left out: {type(problem).__name__}: {str(problem)[:200]}")
        else:
            found.append(name)
    return found


def used() -> int:
    """Return the bytes of the device that all processes use; nothing else runs beside this one."""
    free, total = gpulend.mem_get_info()
    return total - free


def train(way: str) -> dict[str, Any]:
    """Train once, and return the figures."""
    if way == DIRECT:
        # Before torch uses a GPU for the first time; without a torch that sees one it is left out.
        with suppress(ImportError, gpulend.Error):
            gpulend.pool.use("torch", direct=True)
    # Contexts are there before the first question, so they count for no way.
    names = awake()
    if not names:
        raise SystemExit("no framework sees a GPU; on a simulated one: gpulend run -- python …")
    gc.collect()
    before = used()
    with nullcontext() if way == OWN else gpulend.pool.use(*names):  # type: ignore[arg-type]
        here = {name: PARTS[name][0]() for name in names}
        simulated = gpulend.empty(1, "uint8").simulated
        peak, times, results = used(), [], []
        for step in range(STEPS_SIMULATED if simulated else STEPS):
            begun = time.perf_counter()
            result: Any = None
            for part in here.values():
                result = part.work(step, result)
                gpulend.synchronize()
                peak = max(peak, used())
            results.append(float(result.sum()) if hasattr(result, "sum") else float(result))
            times.append(time.perf_counter() - begun)
        reserved = {name: part.reserved() for name, part in here.items()}
        memory = gpulend.memory()
    return {
        "ns": median(times[len(times) // 10 :]) * 1e9,
        "peak": peak - before,
        "end": used() - before,
        "reserved": {**reserved, "gpulend": memory.reserved},
        "users": memory.users,
        "results": results,
    }


def separately() -> dict[str, Any]:
    """Train with a cache for each framework."""
    return train(OWN)


def together() -> dict[str, Any]:
    """Train with one pool for all."""
    return train(ONE)


def directly() -> dict[str, Any]:
    """Train with one pool, and torch without a cache of its own."""
    return train(DIRECT)


def agreement(own: list[float], one: list[float]) -> str:
    """Say how far two lists of results are apart."""
    if own == one:
        return "equal in each bit"
    apart = max(abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in zip(own, one, strict=True))
    if not apart < 1e-2:
        raise SystemExit(f"the two ways computed different results: {apart:.3g} apart")
    return f"at most {apart:.1e} apart"


def main() -> None:
    """Print a table, and write a record."""
    options = record.options("one_pool", __doc__)
    runs = [
        {
            OWN: record.measured(separately, 1)[0],
            ONE: record.measured(together, 1)[0],
            DIRECT: record.measured(directly, 1)[0],
        }
        for _ in range(options.runs)
    ]
    _, _, _, devices = gpulend._native.describe_driver()
    machine = f"{devices[0][0]}, {record.processor()}"
    print(
        f"{machine}\n\n| | ms a step | MiB of the device at most | at the end | reserved, in MiB |"
    )
    print("|---|---|---|---|---|")
    memory = {}
    for way in (OWN, ONE, DIRECT):
        figures = [run[way] for run in runs]
        ns, peak, end = (median(f[key] for f in figures) for key in ("ns", "peak", "end"))
        reserved = {name: size // MEBIBYTE for name, size in figures[0]["reserved"].items()}
        words = ", ".join(f"{name} {size}" for name, size in reserved.items())
        cells = f"{ns / 1e6:.2f} | {peak / MEBIBYTE:.0f} | {end / MEBIBYTE:.0f} | {words}"
        print(f"| {way} | {cells} |")
        memory[way] = {"peak MiB": peak // MEBIBYTE, "end MiB": end // MEBIBYTE, **reserved}
    agreed = "; ".join(
        f"{way}: {agreement(runs[0][OWN]['results'], runs[0][way]['results'])}"
        for way in (ONE, DIRECT)
    )
    print(f"\nresults of all steps: {agreed}")
    row = {
        "job": "a step of training",
        "gpulend": ONE,
        "ns": {way: [round(run[way]["ns"], 1) for run in runs] for way in (ONE, OWN, DIRECT)},
    }
    record.write(
        options,
        [row],
        figure="median step",
        machine=machine,
        packages=("torch", "cupy-cuda12x", "cupy-cuda13x", "numba", "numba-cuda", "gpulend"),
        more={"memory": memory, "results": agreed},
    )


if __name__ == "__main__":
    main()
