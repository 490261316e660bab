"""Time leases sent to another process beside torch's tensors and cuda.core's buffers.

A message of one array, and one of 170, goes to another process by a queue of `multiprocessing`, or
by a pipe of it; the other opens what it got and answers; the time is from the sending to the
answer. A queue has a thread that pickles. "leases" and "tickets" are gpulend's too: pickled leases
by a queue, and tickets that are made and claimed in one call each. "bytes" are as long as the
pickled leases and nobody opens them: what the way takes alone. Cold: the other process has
nothing of that memory open. Kept: it still has an array of the same allocation. The second table
has the parts: a ticket made, and claimed where the allocation is open, by asking the lender. On a
machine without a GPU the simulated one runs without checks and without peers; those figures say
nothing about a GPU.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
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
# By whose processes it sends; what makes a message, and when its time began; what opens it.
Contestant = tuple[Any, Callable[[int], tuple[int, Message]], Callable[[Any], Message]]


def serve(inbox: Any, outbox: Any, opens: Callable[[Any], Message], keep: bool) -> None:
    """Open what comes and answer, until nothing comes; perhaps keep the first of each message."""
    kept: Any = None
    receive = getattr(inbox, "get", None) or inbox.recv
    answer = getattr(outbox, "put", None) or outbox.send
    while True:
        message = receive()
        if message is None:
            return
        message = opens(message)
        answer(len(message))
        if keep:
            kept = message[0]
        one = None
        for one in message:
            if hasattr(one, "close") and one is not kept:
                one.close()
        # The last one too: else it would keep the memory open until the next message.
        del message, one


def channels(context: Any, kind: str) -> tuple[Any, Any, Any, Any]:
    """Return the four ends of the ways there and back: sender, receiver, sender, receiver."""
    if kind == "pipe":
        receiver, sender = context.Pipe(duplex=False)
        back, answerer = context.Pipe(duplex=False)
        return sender, receiver, answerer, back
    there, back = (context.Queue(), context.Queue())
    return there, there, back, back


def answered(contestant: Contestant, kind: str, count: int, keep: bool) -> float:
    """Return the median time of a message and its answer, in nanoseconds."""
    context, message, opens = contestant
    there, inbox, outbox, back = channels(context, kind)
    process = context.Process(target=serve, args=(inbox, outbox, opens, keep), daemon=True)
    process.start()
    send = getattr(there, "put", None) or there.send
    receive = getattr(back, "get", None) or back.recv
    times = []
    for _ in range(WARM + ROUNDS):
        start, arrays = message(count)
        send(arrays)
        receive()
        times.append(time.perf_counter_ns() - start)
        # What the other process drops must be back before the next message.
        time.sleep(0.002)
    send(None)
    process.join()
    return median(times[WARM:])


def as_it_is(message: Message) -> Message:
    """Return a message whose arrays were opened when it was unpickled."""
    return message


def sends(make: Callable[[int], Message]) -> Callable[[int], tuple[int, Message]]:
    """Return what makes arrays before the time begins."""

    def timed(count: int) -> tuple[int, Message]:
        arrays = make(count)
        return time.perf_counter_ns(), arrays

    return timed


def contestants() -> dict[str, Contestant]:
    """Return how each sends: by whose processes, what, and how that is opened."""
    spawn = multiprocessing.get_context("spawn")
    block = gpulend.zeros((MANY, ELEMENTS), "float32", shared=True)
    gpulend.synchronize()

    def batch(count: int) -> tuple[int, Message]:
        leases = [block[index] for index in range(count)]
        start = time.perf_counter_ns()
        return start, [bytes(ticket) for ticket in gpulend.tickets(leases)]

    slices = sends(lambda count: [block[index] for index in range(count)])
    length = len(pickle.dumps(block[0]))
    found: dict[str, Contestant] = {
        "gpulend": (spawn, slices, as_it_is),
        "tickets": (spawn, batch, gpulend.claims),
        "bytes": (spawn, sends(lambda count: [os.urandom(length) for _ in range(count)]), as_it_is),
    }
    if block.simulated:
        return found
    if find_spec("torch"):
        import torch

        tensors = torch.zeros((MANY, ELEMENTS), device="cuda")
        torch.cuda.synchronize()
        context = torch.multiprocessing.get_context("spawn")
        views = sends(lambda count: [tensors[i] for i in range(count)])
        found["torch"] = (context, views, as_it_is)
    if find_spec("cuda"):
        from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions

        device = Device(0)
        device.set_current()
        options = DeviceMemoryResourceOptions(max_size=1 << 30, ipc_enabled=True)
        pool = DeviceMemoryResource(device, options=options)
        buffers = [pool.allocate(4 * ELEMENTS, stream=device.default_stream) for _ in range(MANY)]
        device.sync()
        found["cuda.core"] = (spawn, sends(lambda count: buffers[:count]), as_it_is)
    return found


def measure() -> record.Times:
    """Return the median time of each contestant by job."""
    gc.disable()
    times: record.Times = {}
    # Once: an H200's process crashed where cuda.core's pools were made anew for each job.
    found = contestants()
    for count, words in ((1, "one array"), (MANY, f"{MANY} arrays")):
        for keep in (False, True):
            job = f"{words}, {'mapping kept' if keep else 'cold'}"
            times[job] = {}
            for name, contestant in found.items():
                for kind in ("queue", "pipe"):
                    # One contestant is called gpulend.
                    ours = "leases" if (name, kind) == ("gpulend", "queue") else name
                    way = f"{ours} by {kind}"
                    try:
                        times[job][way] = answered(contestant, kind, count, keep)
                    except Exception as error:
                        print(f"{way} cannot do {job}: {error!r}")
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
    print(f"{driver}\n\n| job | contestant | µs | of gpulend's by pipe |\n|---|---|---|---|")
    for row in found:
        ours = min(row["ns"]["gpulend by pipe"])
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
