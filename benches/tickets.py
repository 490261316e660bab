"""Time leases sent to another process beside torch's queue and cuda.core's buffers.

A message of one array, and one of 170, goes to another process, which opens what it got and
answers; the time is from the sending to the answer. Cold: the other process has nothing of that
memory open. Kept: it still has an array of the same allocation. The second table has the parts: a
ticket made, and claimed where the allocation is open. On a machine without a GPU the simulated one
runs without checks and without peers; those figures say nothing about a GPU.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median
from typing import Any

os.environ.setdefault("GPULEND_SIM_CHECK", "off")

import gpulend
import record

ROUNDS, WARM = 60, 10
MANY = 170
ELEMENTS = 1 << 18  # 1 MiB of float32
Message = list[Any]


def serve(inbox: Any, outbox: Any, keep: bool) -> None:
    """Open what comes and answer, until nothing comes; perhaps keep the first of each message."""
    kept: Any = None
    while True:
        message = inbox.get()
        if message is None:
            return
        outbox.put(len(message))
        if keep:
            kept = message[0]
        for one in message:
            if hasattr(one, "close") and one is not kept:
                one.close()
        del message


def answered(context: Any, message: Callable[[int], Message], count: int, keep: bool) -> float:
    """Return the median time of a message and its answer, in nanoseconds."""
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=serve, args=(inbox, outbox, keep), daemon=True)
    process.start()
    times = []
    for _ in range(WARM + ROUNDS):
        arrays = message(count)
        start = time.perf_counter_ns()
        inbox.put(arrays)
        outbox.get()
        times.append(time.perf_counter_ns() - start)
        # What the other process drops must be back before the next message.
        time.sleep(0.002)
    inbox.put(None)
    process.join()
    return median(times[WARM:])


def contestants() -> dict[str, tuple[Any, Callable[[int], Message]]]:
    """Return how each sends: by whose processes, and of what memory."""
    spawn = multiprocessing.get_context("spawn")
    block = gpulend.zeros((MANY, ELEMENTS), "float32", shared=True)
    gpulend.synchronize()
    found = {"gpulend": (spawn, lambda count: [block[index] for index in range(count)])}
    if block.simulated:
        return found
    if find_spec("torch"):
        import torch

        tensors = torch.zeros((MANY, ELEMENTS), device="cuda")
        torch.cuda.synchronize()
        context = torch.multiprocessing.get_context("spawn")
        found["torch's queue"] = (context, lambda count: [tensors[i] for i in range(count)])
    if find_spec("cuda"):
        from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions

        device = Device(0)
        device.set_current()
        options = DeviceMemoryResourceOptions(max_size=1 << 30, ipc_enabled=True)
        pool = DeviceMemoryResource(device, options=options)
        buffers = [pool.allocate(4 * ELEMENTS, stream=device.default_stream) for _ in range(MANY)]
        device.sync()
        found["cuda.core's buffer"] = (spawn, lambda count: buffers[:count])
    return found


def measure() -> record.Times:
    """Return the median time of each contestant by job."""
    gc.disable()
    times: record.Times = {}
    for count, words in ((1, "one array"), (MANY, f"{MANY} arrays")):
        for keep in (False, True):
            job = f"{words}, {'mapping kept' if keep else 'cold'}"
            times[job] = {}
            for name, (context, message) in contestants().items():
                try:
                    times[job][name] = answered(context, message, count, keep)
                except Exception as error:
                    print(f"{name} cannot do {job}: {error!r}")
    return times


def claim_times(inbox: Any, outbox: Any) -> None:
    """Claim tickets one by one, with the allocation open, and answer with the times."""
    kept = gpulend.claim(inbox.get())
    times = []
    for ticket in inbox.get():
        start = time.perf_counter_ns()
        lease = gpulend.claim(ticket)
        times.append(time.perf_counter_ns() - start)
        del lease
    outbox.put(times)
    del kept


def parts() -> dict[str, float]:
    """Return the median time to make a ticket and to claim it, in nanoseconds."""
    context = multiprocessing.get_context("spawn")
    lease = gpulend.zeros(ELEMENTS, "float32", shared=True)
    gpulend.synchronize()
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=claim_times, args=(inbox, outbox), daemon=True)
    process.start()
    inbox.put(lease.ticket())
    made, tickets = [], []
    for _ in range(500):
        start = time.perf_counter_ns()
        tickets.append(lease.ticket(claims=1))
        made.append(time.perf_counter_ns() - start)
    inbox.put(tickets)
    claimed = outbox.get()
    process.join()
    return {"a ticket made": median(made), "claimed, allocation open": median(claimed[50:])}


def main() -> None:
    options = record.options("tickets", __doc__)
    # Daemonic processes have no children, so the runs are here.
    runs = [measure() for _ in range(options.runs)]
    found = record.rows(runs)
    driver = gpulend._native.describe_driver()
    print(f"{driver}\n\n| job | contestant | µs | of gpulend's |\n|---|---|---|---|")
    for row in found:
        ours = min(row["ns"]["gpulend"])
        for name, times in sorted(row["ns"].items(), key=lambda item: min(item[1])):
            best = min(times)
            print(f"| {row['job']} | {name} | {best / 1000:.1f} | {best / ours:.2f} |")
    print("\n| part | µs |\n|---|---|")
    for part, ns in parts().items():
        print(f"| {part} | {ns / 1000:.1f} |")
    record.write(
        options,
        found,
        figure=f"median of {ROUNDS} messages",
        machine=str(driver),
        packages=("torch", "cuda-core", "gpulend"),
    )


if __name__ == "__main__":
    main()
