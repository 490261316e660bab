"""Time copies between host and GPU beside torch, CuPy and the driver's own, in one run.

Jobs are up (a new array on the GPU), down into a new array, down into an old one, and from GPU to
GPU, of 4 KiB to 512 MiB of pageable memory. Peers are those that can be imported and see the GPU;
"one thread" is gpulend without its copying threads, so the driver's own way, and "pinned" is
what the bus carries, for which the program has to keep pinned memory. Rounds of all contestants of
a job are interleaved, and the best round counts. The first call of each is not in it: it starts
threads and pins buffers, and is printed at the end for gpulend.

On the simulated GPU (`GPULEND_DEVICE=simulated`) it shows that all of it runs, and no more.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import gpulend
import numpy as np
import record
from gpulend._native import describe_driver

THREADS = "GPULEND_COPY_THREADS"
SIZES = [4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 512 << 20]
JOBS = ("up", "down into new", "down into old", "GPU to GPU")
# Seconds for each contestant of a job, and the fewest and the most rounds.
PATIENCE, FEWEST, MOST = 0.4, 4, 400
PINNED, ALONE = "pinned", "one thread"
Contestants = dict[str, dict[str, Callable[[], Any]]]


def in_words(size: int) -> str:
    """Return a size as people write it."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def alone(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a call that leaves its copy to the driver."""

    def called() -> Any:
        before = os.environ.get(THREADS)
        os.environ[THREADS] = "0"
        try:
            return call()
        finally:
            os.environ.pop(THREADS)
            if before is not None:
                os.environ[THREADS] = before

    return called


def of_gpulend(host: Any, old: Any) -> Contestants:
    """Return gpulend's calls, with and without its threads, and those with pinned memory."""
    lease, other = gpulend.from_host(host), gpulend.empty(host.shape, host.dtype)
    pinned = lease.to_host(pinned=True)

    def across() -> None:
        other.copy_from(lease)
        gpulend.synchronize()

    return {
        "gpulend": {
            "up": lambda: gpulend.from_host(host),
            "down into new": lease.to_host,
            "down into old": lambda: lease.to_host(out=old),
            "GPU to GPU": across,
        },
        ALONE: {
            "up": alone(lambda: gpulend.from_host(host)),
            "down into new": alone(lease.to_host),
            "down into old": alone(lambda: lease.to_host(out=old)),
        },
        PINNED: {
            "up": lambda: gpulend.from_host(pinned),
            "down into new": lambda: lease.to_host(pinned=True),
            "down into old": lambda: lease.to_host(out=pinned),
        },
    }


def of_torch(host: Any, old: Any) -> Contestants:
    """Return torch's calls."""
    torch = import_module("torch")
    source, target = torch.from_numpy(host), torch.from_numpy(old)
    tensor = source.cuda()
    other = torch.empty_like(tensor)

    def across() -> None:
        other.copy_(tensor)
        torch.cuda.synchronize()

    calls = {
        "up": source.cuda,
        "down into new": tensor.cpu,
        "down into old": lambda: target.copy_(tensor),
        "GPU to GPU": across,
    }
    return {"torch": calls}


def of_cupy(host: Any, old: Any) -> Contestants:
    """Return CuPy's calls."""
    cupy = import_module("cupy")
    array = cupy.asarray(host)
    other = cupy.empty_like(array)
    stream = cupy.cuda.get_current_stream()

    def up() -> Any:
        made = cupy.asarray(host)
        stream.synchronize()
        return made

    def across() -> None:
        other[...] = array
        stream.synchronize()

    calls = {
        "up": up,
        "down into new": array.get,
        "down into old": lambda: array.get(out=old),
        "GPU to GPU": across,
    }
    return {"CuPy": calls}


def of_driver(host: Any, old: Any) -> Contestants:
    """Return the bare driver's calls, by cuda.bindings, on memory of gpulend's."""
    driver = import_module("cuda.bindings.driver")
    lease, other = gpulend.from_host(host), gpulend.empty(host.shape, host.dtype)
    gpulend.synchronize()
    there, here, into, size = lease.address, host.ctypes.data, old.ctypes.data, host.nbytes
    kept = (lease, other)

    def across() -> None:
        driver.cuMemcpyDtoD(kept[1].address, there, size)
        driver.cuCtxSynchronize()

    calls = {
        "up": lambda: driver.cuMemcpyHtoD(there, here, size),
        "down into old": lambda: driver.cuMemcpyDtoH(into, there, size),
        "GPU to GPU": across,
    }
    return {"driver": calls}


def contestants(host: Any, old: Any) -> Contestants:
    """Return who is here and has a GPU."""
    found = of_gpulend(host, old)
    if gpulend.empty(1).simulated:
        return found
    for peer in (of_torch, of_cupy, of_driver):
        try:
            found |= peer(host, old)
        except ImportError:
            continue
    return found


def best_of(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the best round of each, in nanoseconds; rounds are interleaved."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    begun, rounds = time.perf_counter(), 0
    while rounds < FEWEST or (
        rounds < MOST and time.perf_counter() - begun < PATIENCE * len(calls)
    ):
        for name, call in calls.items():
            before = time.perf_counter_ns()
            made = call()
            best[name] = min(best[name], time.perf_counter_ns() - before)
            # What a call made is dropped outside of the time, as the others' is.
            del made
        rounds += 1
    return best


def measure() -> tuple[record.Times, float]:
    """Measure each job once; return also the seconds of gpulend's first large copy."""
    lease = gpulend.zeros(64 << 20, "uint8")
    gpulend.synchronize()
    before = time.perf_counter()
    lease.to_host()
    first = time.perf_counter() - before
    del lease
    gc.disable()
    found: record.Times = {}
    for size in SIZES:
        host = np.random.default_rng(0).integers(0, 256, size, np.uint8)
        old = np.ones_like(host)
        here = contestants(host, old)
        for job in JOBS:
            calls = {name: calls[job] for name, calls in here.items() if job in calls}
            found[f"{in_words(size)} {job}"] = best_of(calls)
    return found, first


def main() -> None:
    """Print a table, and write a record."""
    options = record.options("copies", __doc__)
    runs = record.measured(measure, options.runs)
    found = record.rows([times for times, _ in runs])
    _, _, _, devices = describe_driver()
    machine = f"{devices[0][0]}, {record.processor()}"
    print(f"{machine}; times in µs, rates in GB/s; the ratio is to the best of torch, CuPy, driver")
    print("| job | gpulend | rate | best peer | ratio | others |\n|---|---|---|---|---|---|")
    for row in found:
        best = {name: min(times) for name, times in row["ns"].items()}
        ours = best.pop("gpulend")
        number, unit, _ = row["job"].split(" ", 2)
        size = int(number) << (20 if unit == "MiB" else 10)
        peers = sorted((ns, name) for name, ns in best.items() if name not in (PINNED, ALONE))
        peer = f"{peers[0][0] / 1e3:.1f} ({peers[0][1]})" if peers else ""
        ratio = f"{ours / peers[0][0]:.2f}" if peers else ""
        others = [name for name in best if not peers or name != peers[0][1]]
        words = ", ".join(f"{name} {best[name] / 1e3:.1f}" for name in others)
        cells = [row["job"], f"{ours / 1e3:.1f}", f"{size / ours:.1f}", peer, ratio, words]
        print(f"| {' | '.join(cells)} |")
    print(f"first copy of 64 MiB, threads and buffers included: {runs[0][1] * 1e3:.1f} ms")
    record.write(
        options,
        found,
        figure="best round",
        machine=machine,
        packages=("torch", "cupy-cuda12x", "cupy-cuda13x", "cuda-bindings", "gpulend"),
    )


if __name__ == "__main__":
    main()
