"""Wrap, lend, work and drop from many threads: `python tests/gpu/soak.py ROUNDS THREADS`.

Prints as JSON what must not grow: how often each deleter ran, what the ledger and the driver hold,
and the resident memory of the process after a tenth of the rounds and at their end.
"""

from __future__ import annotations

import gc
import json
import re
import sys
import threading
import time
from functools import partial
from pathlib import Path

import gpulend
from gpulend import simulator

SIZE = 256
# Slots of one allocation: each round uses one, and they are used again.
SLOTS = 4096


def resident() -> int:
    """Return the bytes of the process that are in memory."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) << 10


def main(rounds: int, threads: int) -> None:
    """Make the rounds, wait for the last release, and report."""
    memory = gpulend.zeros(SLOTS * SIZE, "uint8")
    base = memory.address
    streams = [gpulend.Stream() for _ in range(4)]
    calls = bytearray(b"\0" * rounds)  # touched, so that it does not grow later
    failures: list[BaseException] = []
    warm = rounds // 10
    consumer = "numpy" if memory.simulated else "torch"

    def of_driver() -> dict[str, int]:
        """Return the number of objects of each kind that a simulated driver holds."""
        return simulator.report()["live"] if memory.simulated else {}

    def deleted(number: int, _address: int, _nbytes: int) -> None:
        calls[number] += 1

    def one(number: int, thread: int) -> None:
        address = base + number % SLOTS * SIZE
        lease = gpulend.wrap(address, SIZE, "uint8", deleter=partial(deleted, number))
        stream = streams[(number + thread) % len(streams)]
        kind = number % 4
        if kind == 1:
            lease.lend(consumer)
        elif kind == 2:
            lease.__dlpack__(stream=stream.handle, dl_device=(2, 0), max_version=(1, 0))
        elif kind == 3:
            # Work that is late on the simulated GPU: the release must wait for it.
            with stream:
                lease[:8].copy_from(lease[8:16])

    def work(thread: int, begin: int, end: int) -> None:
        try:
            for number in range(begin + thread, end, threads):
                one(number, thread)
                # A driver's queues are of this length; those of the simulated GPU have no end.
                if number % 1024 < threads:
                    gpulend.synchronize()
        except BaseException as error:
            failures.append(error)

    def run(begin: int, end: int) -> int:
        workers = [threading.Thread(target=work, args=(it, begin, end)) for it in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        gpulend.synchronize()
        deadline = time.monotonic() + 60
        while sum(calls) < end and not failures and time.monotonic() < deadline:
            time.sleep(0.001)
        gc.collect()
        return resident()

    before = run(0, warm)
    held, live = len(gpulend.ledger()), of_driver()
    after = run(warm, rounds)
    report = {
        "failures": [repr(error) for error in failures],
        "never": calls.count(0),
        "twice": rounds - calls.count(0) - calls.count(1),
        "held": len(gpulend.ledger()) - held,
        "live": {key: value - live[key] for key, value in of_driver().items()},
        "leaked": gpulend.ledger().leaked,
        "waiting": gpulend.ledger().waiting,
        "grown": after - before,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
