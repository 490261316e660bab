"""Time gpulend's memory pool beside those of torch, CuPy and cuda.core that are installed.

Three tables. The first: an array of 4 KiB and of 1 MiB made and freed by one thread, and by four
threads with a stream each. The second: a trace of allocations and frees, the same for all, is
replayed; the time is for a pair. The third: the most bytes that the trace had in use, the most that
each pool took from the driver for it, and how much of that was not in use. On a machine without a
GPU the simulated one runs without checks, without peers; those figures say nothing about a GPU.
"""

from __future__ import annotations

import gc
import os
import threading
import timeit
from collections.abc import Callable
from importlib.util import find_spec
from random import Random
from statistics import median
from typing import Any

os.environ.setdefault("GPULEND_POOL", "on")
os.environ.setdefault("GPULEND_SIM_CHECK", "off")

import gpulend
import record

CALLS, ROUNDS, THREADS, STEPS = 1_000, 15, 4, 4_000
KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20
Make = Callable[[int], Any]


class Contestant:
    """A pool: how it makes an array of bytes, on which stream, and what it has from the driver."""

    def __init__(self, make: Make, enter: Callable[[], Any], reserved: Callable[[], int]) -> None:
        self.make, self.enter, self.reserved = make, enter, reserved


def contestants() -> dict[str, Contestant]:
    """Return the pools that can be used here."""
    found = {"gpulend": _gpulend()}
    if not gpulend.empty(1, "uint8").simulated:
        for name, package, make in (
            ("torch.empty", "torch", _torch),
            ("cupy.empty", "cupy", _cupy),
            ("cuda.core", "cuda.core", _cuda_core),
        ):
            if find_spec(package.split(".")[0]):
                found[name] = make()
    return found


def _gpulend() -> Contestant:
    empty = gpulend.empty
    reserved = lambda: gpulend.memory().reserved  # noqa: E731
    return Contestant(lambda n: empty(n, "uint8"), lambda: gpulend.Stream(), reserved)


def _torch() -> Contestant:
    import torch

    empty, uint8 = torch.empty, torch.uint8
    return Contestant(
        lambda n: empty(n, dtype=uint8, device="cuda"),
        lambda: torch.cuda.stream(torch.cuda.Stream()),
        torch.cuda.memory_reserved,
    )


def _cupy() -> Contestant:
    import cupy

    pool = cupy.get_default_memory_pool()
    return Contestant(
        lambda n: cupy.empty(n, cupy.uint8),
        lambda: cupy.cuda.Stream(non_blocking=True),
        pool.total_bytes,
    )


def _cuda_core() -> Contestant:
    from cuda.core import Device, DeviceMemoryResource

    device = Device(0)
    device.set_current()
    resource = DeviceMemoryResource(device)
    local = threading.local()

    class Entered:
        """A stream for the allocations of one thread."""

        def __enter__(self) -> None:
            device.set_current()
            local.stream = device.create_stream()

        def __exit__(self, *_: object) -> None:
            local.stream.sync()

    default = device.create_stream()

    class Block:
        """A buffer that is freed in the order of its stream."""

        def __init__(self, size: int) -> None:
            self.stream = getattr(local, "stream", default)
            self.buffer = resource.allocate(size, stream=self.stream)

        def __del__(self) -> None:
            self.buffer.close(self.stream)

    used = lambda: int(resource.attributes.reserved_mem_current)  # noqa: E731
    return Contestant(Block, Entered, used)


def trace() -> list[tuple[int, int]]:
    """Return steps: a slot, and the size that is put there, or 0 to empty it.

    As in training: many small arrays, some large ones, a third of them short-lived.
    """
    random, held, steps = Random(7), {}, []
    for number in range(STEPS):
        if held and (len(held) > 300 or random.random() < 0.45):
            recent = sorted(held)[-8:] if random.random() < 0.6 else sorted(held)
            slot = random.choice(recent)
            del held[slot]
            steps.append((slot, 0))
            continue
        low, high = random.choice(
            [(64, 4096), (4096, 300_000), (300_000, 4 << 20), (4 << 20, 24 << 20)]
        )
        held[number] = random.randint(low, high)
        steps.append((number, held[number]))
    return steps + [(slot, 0) for slot in sorted(held)]


def in_use(steps: list[tuple[int, int]]) -> int:
    """Return the most bytes that a trace has in use."""
    held: dict[int, int] = {}
    most = 0
    for slot, size in steps:
        held.pop(slot, None)
        if size:
            held[slot] = size
            most = max(most, sum(held.values()))
    return most


def replay(steps: list[tuple[int, int]], make: Make) -> None:
    """Do the steps of a trace."""
    held: dict[int, Any] = {}
    for slot, size in steps:
        if size:
            held[slot] = make(size)
        else:
            del held[slot]


def by_threads(contestant: Contestant) -> float:
    """Return the nanoseconds of a pair while four threads make them, each on its own stream."""
    ready, times = threading.Barrier(THREADS), []

    def work() -> None:
        with contestant.enter():
            timer = timeit.Timer(lambda: contestant.make(4 * KIBIBYTE))
            contestant.make(4 * KIBIBYTE)
            ready.wait()
            times.append(timer.timeit(CALLS) / CALLS * 1e9)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(times)


def measure() -> tuple[record.Times, dict[str, tuple[int, int]]]:
    """Return the best round of each contestant by job, and what each took for the trace."""
    pools, steps = contestants(), trace()
    taken = {}
    for name, pool in pools.items():
        before = pool.reserved()
        replay(steps, pool.make)
        taken[name] = (pool.reserved() - before, in_use(steps))
    jobs = ("4 KiB made and freed", "1 MiB made and freed", "4 threads, 4 KiB", "trace, a pair")
    best: record.Times = {job: dict.fromkeys(pools, float("inf")) for job in jobs}
    sizes = dict(zip(jobs[:2], (4 * KIBIBYTE, MEBIBYTE), strict=True))
    gc.disable()
    for _ in range(ROUNDS):
        for name, pool in pools.items():
            for job, size in sizes.items():
                timer = timeit.Timer(lambda size=size, make=pool.make: make(size))
                best[job][name] = min(best[job][name], timer.timeit(CALLS) / CALLS * 1e9)
            best[jobs[2]][name] = min(best[jobs[2]][name], by_threads(pool))
            pairs = sum(size > 0 for _, size in steps)
            replayed = timeit.Timer(lambda make=pool.make: replay(steps, make)).timeit(1)
            best[jobs[3]][name] = min(best[jobs[3]][name], replayed / pairs * 1e9)
    return best, taken


def main() -> None:
    options = record.options("pool", __doc__)
    runs = record.measured(measure, options.runs)
    found = record.rows([times for times, _ in runs])
    driver = gpulend._native.describe_driver()
    print(f"{driver}\n\n| job | contestant | ns | of gpulend's |\n|---|---|---|---|")
    for row in found:
        ours = min(row["ns"]["gpulend"])
        for name, times in sorted(row["ns"].items(), key=lambda item: min(item[1])):
            print(f"| {row['job']} | {name} | {min(times):.0f} | {min(times) / ours:.2f} |")
    print("\n| pool | MiB in use at most | MiB from the driver | not in use |\n|---|---|---|---|")
    for name in runs[0][1]:
        reserved = median(taken[name][0] for _, taken in runs)
        used = runs[0][1][name][1]
        share = 1 - used / reserved if reserved else 0.0
        print(f"| {name} | {used / MEBIBYTE:.0f} | {reserved / MEBIBYTE:.0f} | {share:.0%} |")
    record.write(
        options,
        found,
        figure=f"best of {ROUNDS} rounds",
        machine=str(driver),
        packages=("torch", "cuda-core", "gpulend", "cupy-cuda12x", "cupy-cuda13x"),
    )


if __name__ == "__main__":
    main()
