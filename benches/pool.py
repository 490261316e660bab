"""Time gpulend's memory pool beside those of torch, CuPy and cuda.core that are installed.

Three tables. The first: an array of 4 KiB and of 1 MiB made and freed by one thread, and by four
threads with a stream each. The second: a trace of allocations and frees, the same for all, is
replayed; the time is for a pair. The third: the most bytes that the trace had in use, the most that
each pool took from the driver for it, and how much of that was not in use. Traces are that of
`--trace`, or all of benches/traces, which training_trace.py records, and always a made-up one. On a
machine without a GPU the simulated one runs without checks, without peers; those figures say
nothing about a GPU.
"""

from __future__ import annotations

import gc
import json
import os
import threading
import timeit
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

os.environ.setdefault("GPULEND_POOL", "on")
os.environ.setdefault("GPULEND_SIM_CHECK", "off")

import gpulend
import record

CALLS, ROUNDS, THREADS, STEPS = 1_000, 15, 4, 4_000
KIBIBYTE, MEBIBYTE = 1 << 10, 1 << 20
TRACES = Path(__file__).with_name("traces")
MADE_UP = "made up"
Make = Callable[[int], Any]
# A slot, the size that is put there or 0 to empty it, and the number of the stream.
Step = tuple[int, int, int]


class Contestant:
    """A pool: how it makes an array of bytes, on which stream, and what it has from the driver."""

    def __init__(self, make: Make, enter: Callable[[], Any], reserved: Callable[[], int]) -> None:
        self.make, self.enter, self.reserved = make, enter, reserved


def contestants() -> dict[str, Contestant]:
    """Return the pools that can be used here."""
    found = {"gpulend": _gpulend()}
    simulated = gpulend.empty(1, "uint8").simulated
    gpulend.pool.trim()
    if not simulated:
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

        def __init__(self) -> None:
            device.set_current()
            self.stream = device.create_stream()

        def __enter__(self) -> None:
            local.stream = self.stream

        def __exit__(self, *_: object) -> None:
            del local.stream

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


def made_up() -> list[Step]:
    """Return a trace as of training: many small arrays, some large ones, a third short-lived."""
    random, held, steps = Random(7), {}, []
    for number in range(STEPS):
        if held and (len(held) > 300 or random.random() < 0.45):
            recent = sorted(held)[-8:] if random.random() < 0.6 else sorted(held)
            slot = random.choice(recent)
            del held[slot]
            steps.append((slot, 0, 0))
            continue
        low, high = random.choice(
            [(64, 4096), (4096, 300_000), (300_000, 4 << 20), (4 << 20, 24 << 20)]
        )
        held[number] = random.randint(low, high)
        steps.append((number, held[number], 0))
    return steps + [(slot, 0, 0) for slot in sorted(held)]


def recorded(file: Path) -> list[Step]:
    """Return a trace that training_trace.py recorded. What it leaves is freed at the end."""
    steps: list[Step] = []
    held: dict[int, int] = {}
    made = 0
    for entry in json.loads(file.read_text(encoding="utf-8"))["steps"]:
        # An allocation: its size, perhaps with its stream. A free: minus the allocation's number.
        size, stream = entry if isinstance(entry, list) else (entry, 0)
        if size > 0:
            steps.append((made, size, stream))
            held[made] = stream
            made += 1
        else:
            steps.append((-size, 0, held.pop(-size)))
    return steps + [(slot, 0, stream) for slot, stream in held.items()]


def traces(file: Path | None) -> dict[str, list[Step]]:
    """Return the traces to replay, by name."""
    files = [file] if file else sorted(TRACES.glob("*.json"))
    return {**{file.stem: recorded(file) for file in files}, MADE_UP: made_up()}


def in_use(steps: list[Step]) -> int:
    """Return the most bytes that a trace has in use."""
    held: dict[int, int] = {}
    now = most = 0
    for slot, size, _ in steps:
        now += size - held.pop(slot, 0)
        if size:
            held[slot] = size
        most = max(most, now)
    return most


def replay(steps: list[Step], pool: Contestant) -> None:
    """Do the steps of a trace."""
    held: dict[int, Any] = {}
    make, streams = pool.make, {0: nullcontext()}
    for number in {stream for _, _, stream in steps} - {0}:
        streams[number] = pool.enter()
    if len(streams) == 1:
        for slot, size, _ in steps:
            if size:
                held[slot] = make(size)
            else:
                del held[slot]
        return
    for slot, size, stream in steps:
        with streams[stream]:
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


def take(file: Path | None, trace: str) -> dict[str, tuple[int, int]]:
    """Return the bytes that each pool took for a trace, in a fresh process, and those in use."""
    steps, taken = traces(file)[trace], {}
    for name, pool in contestants().items():
        before = pool.reserved()
        replay(steps, pool)
        taken[name] = (pool.reserved() - before, in_use(steps))
    return taken


def measure(file: Path | None) -> record.Times:
    """Return the best round of each contestant by job."""
    pools = contestants()
    best: record.Times = {}

    def note(job: str, name: str, ns: float) -> None:
        times = best.setdefault(job, {})
        times[name] = min(times.get(name, ns), ns)

    sizes = {"4 KiB made and freed": 4 * KIBIBYTE, "1 MiB made and freed": MEBIBYTE}
    replayed = traces(file)
    gc.disable()
    for _ in range(ROUNDS):
        for name, pool in pools.items():
            for job, size in sizes.items():
                timer = timeit.Timer(lambda size=size, make=pool.make: make(size))
                note(job, name, timer.timeit(CALLS) / CALLS * 1e9)
            note("4 threads, 4 KiB", name, by_threads(pool))
            for trace, steps in replayed.items():
                pairs = sum(size > 0 for _, size, _ in steps)
                seconds = timeit.Timer(partial(replay, steps, pool)).timeit(1)
                note(f"trace ({trace}), a pair", name, seconds / pairs * 1e9)
    return best


TRACE = {"type": Path, "help": "a file of training_trace.py (default: benches/traces)"}


def main() -> None:
    options = record.options("pool", __doc__, ("--trace", TRACE))
    names = list(traces(options.trace))
    found = record.rows(record.measured(partial(measure, options.trace), options.runs))
    driver = gpulend._native.describe_driver()
    print(f"{driver}\n\n| job | contestant | ns | of gpulend's |\n|---|---|---|---|")
    for row in found:
        ours = min(row["ns"]["gpulend"])
        for name, times in sorted(row["ns"].items(), key=lambda item: min(item[1])):
            print(f"| {row['job']} | {name} | {min(times):.0f} | {min(times) / ours:.2f} |")
    print("\n| trace | pool | MiB in use at most | MiB from the driver | not in use |")
    print("|---|---|---|---|---|")
    memory: dict[str, dict[str, float]] = {}
    for trace in names:
        runs = record.measured(partial(take, options.trace, trace), options.runs)
        memory[trace] = {"in use": round(runs[0]["gpulend"][1] / MEBIBYTE, 1)}
        for name, (_, used) in runs[0].items():
            reserved = median(taken[name][0] for taken in runs)
            share = 1 - used / reserved if reserved else 0.0
            cells = f"{used / MEBIBYTE:.0f} | {reserved / MEBIBYTE:.0f} | {share:.0%}"
            print(f"| {trace} | {name} | {cells} |")
            memory[trace][name] = round(reserved / MEBIBYTE, 1)
    record.write(
        options,
        found,
        figure=f"best of {ROUNDS} rounds",
        machine=str(driver),
        packages=("torch", "cuda-core", "gpulend", "cupy-cuda12x", "cupy-cuda13x"),
        more={"memory": memory},
    )


if __name__ == "__main__":
    main()
