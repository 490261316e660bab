"""Allocate from the pool on four threads and streams: `python tests/gpu/pool_soak.py COUNT [SEED]`.

Arrays of random sizes come and go, some with work on them. Memory runs out at random: by a lower
limit, and on the simulated GPU in the driver. Prints as JSON what must not grow or be lost.
"""

from __future__ import annotations

import gc
import json
import re
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import gpulend
from gpulend import _native

THREADS, SLOTS, CHUNK = 4, 24, 2_000
MEBIBYTE = 1 << 20
# More than all threads hold; what they are left with now and then.
LIMIT, LOW = 512 * MEBIBYTE, 4 * MEBIBYTE
# An array that is written in one chunk is read in a later one.
WRITTEN = 60_000


def resident() -> int:
    """Return the bytes of the process that are in memory."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) << 10


def plan(random: Random) -> list[tuple[int, int]]:
    """Return slots and sizes of a chunk, from a byte to 4 MiB, small ones most often."""
    return [(random.randrange(SLOTS), int(2 ** random.uniform(0, 22))) for _ in range(CHUNK)]


class Soak:
    """What the threads share."""

    def __init__(self, count: int, seed: int) -> None:
        self.chunks, self.seed = max(count // THREADS // CHUNK, 10), seed
        self.exhausted = self.wrong = self.most = 0
        self.failures: list[str] = []
        self.early = 0
        self.simulated = gpulend.empty(1, "uint8").simulated

    def work(self, number: int) -> None:
        """Do the chunks of one thread."""
        try:
            with gpulend.Stream():
                self.allocate(number, Random(self.seed * THREADS + number))
        except BaseException as problem:
            self.failures.append(repr(problem))

    def allocate(self, number: int, random: Random) -> None:
        """Make and drop arrays on the current stream."""
        held: list[Any] = [None] * SLOTS
        written: list[tuple[Any, int]] = []
        empty, plans = gpulend.empty, [plan(random) for _ in range(8)]
        done = 0
        while done < self.chunks:
            try:
                # Nothing else is done for an allocation; what was in the slot is freed.
                for slot, size in plans[random.randrange(8)]:
                    held[slot] = empty(size, "uint8")
                value = random.randrange(256)
                written.append((gpulend.full(WRITTEN, value, "uint8"), value))
                done += 1
            except gpulend.OutOfMemoryError:
                self.exhausted += 1
                held = [None] * SLOTS
                self.lift()
            if len(written) > 3:
                array, value = written.pop(random.randrange(4))
                self.wrong += not bool((array.to_host() == value).all())
            self.most = max(self.most, gpulend.memory().reserved)
            if random.random() < 0.1 or done == 1:
                self.run_out(random)
            if number == 0 and done == self.chunks // 10:
                self.early = resident()

    def run_out(self, random: Random) -> None:
        """Let the next new segment fail, for one reason or the other."""
        if self.simulated and random.random() < 0.5:
            # All of them, until `lift`: the cache is given back, and the driver is asked again.
            _native.set_faults("cuMemAlloc_v2#*=OUT_OF_MEMORY")
            gpulend.pool.trim()
        else:
            gpulend.pool.set_limit(LOW)
        # More than is cached: the others meet the same sooner or later.
        try:
            gpulend.empty(2 * LOW, "uint8").release()
        except gpulend.OutOfMemoryError:
            self.exhausted += 1

    def lift(self) -> None:
        """Let there be memory again."""
        gpulend.pool.set_limit(LIMIT)
        if self.simulated:
            _native.set_faults("")


def main(count: int, seed: int) -> None:
    """Run, wait for the last release, and report."""
    gpulend.pool.set_mode("on")
    soak = Soak(count, seed)
    soak.lift()
    begun = time.perf_counter()
    threads = [threading.Thread(target=soak.work, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    soak.lift()
    gc.collect()
    end = time.monotonic() + 30
    while gpulend.memory().live and time.monotonic() < end:
        gpulend.synchronize()
        time.sleep(0.001)
    cached = gpulend.memory().cached
    trimmed = gpulend.pool.trim()
    memory, ledger = gpulend.memory(), gpulend.ledger()
    report = {
        "allocations": soak.chunks * THREADS * CHUNK,
        "seconds": round(seconds, 1),
        "failures": soak.failures,
        "wrong": soak.wrong,
        "exhausted": soak.exhausted,
        "live": memory.live,
        "blocks": memory.blocks,
        "kept": cached - trimmed,
        "reserved": memory.reserved,
        "most": soak.most,
        "peak": memory.peak,
        "leaked": ledger.leaked,
        "waiting": ledger.waiting,
        "grown": resident() - soak.early,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
