"""Nothing grows: launches by the ten thousand leave ledger, objects and memory as they were."""

from __future__ import annotations

import gc
import os
import sys
import threading
from pathlib import Path

import gpulend
import numpy as np
import pytest
from gpu.resources import REAL, SIMULATED, at_rest, eventually, free_bytes, need, pool_of
from gpulend import simulator

from .arrays import compiled

LAUNCHES = 10_000
WARM = 1_000
TOGETHER = 250  # launches between two waits: what is queued is memory in use, not lost
SLACK_BLOCKS = 200
SLACK_BYTES = 8 << 20  # less than 1 KiB a launch; allocators round and keep
SOURCE = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
struct Pair { double x; float y; };
extern "C" __global__ void mixed(bool yes, float by, Pair pair, double2 z, const void *p,
                                 float *c) {
    if (threadIdx.x == 0) c[0] = yes ? by + pair.y + z.x : 0;
}
"""


class Ways:
    """One launch each, by arrays of one kind."""

    def __init__(self) -> None:
        module = compiled(SOURCE)
        self.add, self.mixed, self.kernel = (
            module["add"][1, 32],
            module["mixed"][1, 32],
            module["add"],
        )
        self.a, self.b, self.c = (gpulend.full(32, k, "float32") for k in (1, 2, 0))
        self.streams = [gpulend.Stream(), gpulend.current_stream()]
        self.turn = 0

    def leases(self) -> None:
        """Launch on three leases."""
        self.add(self.a, self.b, self.c, 32)

    def streamed(self) -> None:
        """Launch on two streams in turns, so that each waits for the other."""
        self.turn ^= 1
        self.add(self.a, self.b, self.c, 32, stream=self.streams[self.turn])

    def slices(self) -> None:
        """Launch on leases made for the call."""
        self.add(self.a[:16], self.b[16:], self.c[4:20], 16)

    def fresh(self) -> None:
        """Launch on memory that is dropped in the call."""
        self.add(self.a, self.b, gpulend.empty(32, "float32"), 32)

    def method(self) -> None:
        """Launch by the other spellings."""
        self.kernel.launch((1,), (32, 1), (self.a, self.b, self.c, 32))
        self.kernel.forall(32)(self.a, self.b, self.c, 32)

    def words(self) -> None:
        """Launch with arguments of every kind."""
        self.mixed(True, 1.5, bytes(16), 1 + 2j, None, self.c)

    def refused(self) -> None:
        """Fail in several checks."""
        for wrong in ((self.a, self.b, self.c), (self.a, self.b, self.c, 1.5), (1, 2, 3, 4)):
            try:
                self.add(*wrong)
            except gpulend.SignatureError:
                continue
            raise AssertionError("not refused")

    def torch(self) -> None:
        """Launch on three tensors."""
        if not hasattr(self, "tensors"):
            torch = need("torch")
            self.tensors = [torch.ones(32, device="cuda" if REAL else "cpu") for _ in range(3)]
        self.add(*self.tensors, 32)

    def jax(self) -> None:
        """Launch on two arrays of JAX and a lease."""
        if not hasattr(self, "arrays"):
            self.arrays = [need("jax").numpy.ones(32) for _ in range(2)]
        self.add(*self.arrays, self.c, 32)


WAYS = [name for name in vars(Ways) if not name.startswith("_")]


def resident() -> int:
    """Return the bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def settle() -> None:
    """Let all that was dropped be gone."""
    gpulend.synchronize()
    gc.collect()
    at_rest(pool_of())


def live() -> dict[str, int]:
    """Return what the simulated GPU holds; a real one does not say."""
    counts = simulator.report()["live"] if SIMULATED else {}
    names = ("allocations", "bytes", "streams", "modules", "libraries")
    return {name: counts[name] for name in names if name in counts}


@pytest.mark.parametrize("way", WAYS)
def test_launches_leave_nothing(way):
    """Ten thousand of each kind."""
    ways = Ways()
    once = getattr(ways, way)

    def rounds(count: int) -> None:
        for number in range(1, count + 1):
            once()
            if number % TOGETHER == 0:
                gpulend.synchronize()

    rounds(WARM)
    settle()
    entries, leaked, counts = len(gpulend.ledger()), gpulend.ledger().leaked, live()
    memory, blocks = resident(), sys.getallocatedblocks()
    rounds(LAUNCHES)
    settle()
    grown, more = sys.getallocatedblocks() - blocks, resident() - memory
    assert len(gpulend.ledger()) == entries, gpulend.ledger()
    assert gpulend.ledger().leaked == leaked
    # What tests before left may have gone meanwhile.
    less = lambda: all(left <= counts[name] for name, left in live().items())  # noqa: E731
    eventually(less, f"the driver holds no more than {counts}")
    assert grown < SLACK_BLOCKS, f"{grown} more blocks of Python after {LAUNCHES} launches"
    # The simulated GPU lets freed memory rest for a while: there what it holds was asked above.
    if way != "fresh" or REAL:
        assert more < SLACK_BYTES, f"{more} more bytes after {LAUNCHES} launches"


def test_a_launch_makes_no_lease():
    """Arrays of other frameworks are arguments without an entry of the ledger."""
    torch = need("torch")
    module = compiled(SOURCE)
    tensors = [torch.ones(32, device="cuda" if REAL else "cpu") for _ in range(3)]
    before = {entry.serial for entry in gpulend.ledger()}
    for _ in range(10):
        module["add"][1, 32](*tensors, 32)
        gpulend.synchronize()
    after = gpulend.ledger()
    assert {entry.serial for entry in after} == before
    probe = gpulend.borrow(np.zeros(1))
    newest = max(entry.serial for entry in gpulend.ledger())
    module["add"][1, 32](*tensors, 32)
    other = gpulend.borrow(np.zeros(1))
    assert max(entry.serial for entry in gpulend.ledger()) == newest + 1
    del probe, other


def test_modules_come_and_go():
    """A module that nobody holds is unloaded: its variables' memory comes back."""
    source = "__device__ float table[1 << 16]; __global__ void touch() { table[threadIdx.x] = 1; }"

    def once() -> None:
        module = gpulend.compile(source)
        module["touch"][1, 32]()
        assert module.variable("table")[:2].to_host().tolist() == [1, 1]

    once()
    settle()
    before, free, counts = len(gpulend.ledger()), free_bytes(), live()
    for _ in range(60):
        once()
    settle()
    assert len(gpulend.ledger()) == before
    # What tests before left may have gone meanwhile.
    less = lambda: all(left <= counts[name] for name, left in live().items())  # noqa: E731
    eventually(less, f"the driver holds no more than {counts}")
    assert free - free_bytes() < 30 << 18, "modules are kept"


FRESH = {
    "own": lambda go, stream, *arrays: go(*arrays, stream=stream),
    "with": lambda go, stream, *arrays: _within(go, stream, arrays),
    "number": lambda go, stream, *arrays: go(*arrays, stream=stream.handle),
}
HELD = {
    "nothing": lambda lease: None,
    "slice": lambda lease: lease[4:],
    "capsule": lambda lease: lease.__dlpack__(stream=-1, dl_device=(2, 0)),
    **({"numpy": lambda lease: lease.lend("numpy")} if SIMULATED else {}),
}
TURNS, MOST = 300, {"streams": 8, "events": 40}


def _within(go, stream, arrays):
    with stream:
        go(*arrays)


def trail() -> dict[str, int]:
    """Return what hand-overs leave behind where they leave anything."""
    counts = simulator.report()["live"] if SIMULATED else dict.fromkeys(MOST, 0)
    return {name: counts[name] for name in MOST}


def assert_short(before: dict[str, int]) -> None:
    """See that streams and events did not grow with the number of launches."""
    short = lambda: all(trail()[name] <= before[name] + most for name, most in MOST.items())  # noqa: E731
    eventually(short, f"{trail()}, {before} before, at most {MOST} more")


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("how", FRESH)
def test_launches_on_fresh_streams_leave_no_trail(how, held):
    """An input and an output that live long, and three hundred streams that do not."""
    go = compiled(SOURCE)["add"][1, 32]
    a, b, c = (gpulend.full(32, k, "float32") for k in (1, 2, 0))
    settle()
    before, keep = trail(), HELD[held](a)
    for _ in range(TURNS):
        stream = gpulend.Stream()
        FRESH[how](go, stream, a, b, c, 32)
        stream.synchronize()
        del stream
    assert_short(before)
    assert set(c.to_host().tolist()) == {3.0}
    del keep


def test_launches_on_the_per_thread_streams_of_many_threads_leave_no_trail():
    """Each thread has a per-thread stream of its own, which goes with it."""
    go = compiled(SOURCE)["add"][1, 32]
    a, b, c = (gpulend.full(32, k, "float32") for k in (1, 2, 0))
    settle()
    before = trail()

    def work():
        go(a, b, c, 32, stream=2)
        gpulend.Stream(2).synchronize()

    for _ in range(200):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert_short(before)
    assert set(c.to_host().tolist()) == {3.0}


def test_launches_of_a_borrowed_module_leave_no_trail():
    """Its variable is an array like the others."""
    module = gpulend.compile("__device__ int n; __global__ void count() { n += 1; }")
    count, lease = module["count"][1, 1], module.variable("n")
    settle()
    before = trail()
    for _ in range(TURNS):
        stream = gpulend.Stream()
        count(stream=stream)
        stream.synchronize()
        del stream
    assert_short(before)
    assert lease.to_host() == TURNS
