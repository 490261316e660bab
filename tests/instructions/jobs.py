"""The jobs of Python: run under callgrind by `counting.py`.

    python jobs.py COUNTER

COUNTER is the shared library made of `count.c`.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpulend
import numpy as np

CALLS = 20
WARM_UP = 5
ROUNDS = 3
LEGACY = 1
Call = Callable[[], object]


class Foreign:
    """An array of a GPU by an interface, of a library without a route of its own."""

    def __init__(self, address: int) -> None:
        data = (address, False)
        plain = {"shape": (4, 4), "typestr": "<f4", "strides": None, "version": 3}
        self.__cuda_array_interface__ = {**plain, "data": data, "stream": LEGACY}


class Producer:
    """An array of the host that speaks DLPack and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        """Export as the array does."""
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the host."""
        return (1, 0)


class Counter:
    """Counts jobs, one after the other, in this thread."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)
        self.gpu = False

    def count(self, name: str, call: Call, drop: bool = False) -> None:
        """Count calls whose results are kept, and with `drop` what dropping those costs."""
        live, calls = gpulend._native.live(), range(CALLS)
        kept: list[object] = [None] * CALLS
        for round in range(WARM_UP + ROUNDS):
            if round >= WARM_UP:
                self.library.count_start()
            for i in calls:
                kept[i] = call()
            if round >= WARM_UP:
                self.library.count_stop(name.encode())
            if round >= WARM_UP and drop:
                self.library.count_start()
            for i in calls:
                kept[i] = None
            if round >= WARM_UP and drop:
                self.library.count_stop(f"{name}, dropped".encode())
            self.settle(live, name)

    def spend(self, name: str, make: Call, call: Callable[[Any], object]) -> None:
        """Count calls that each need something new."""
        live = gpulend._native.live()
        for round in range(WARM_UP + ROUNDS):
            made = [make() for _ in range(CALLS)]
            if round >= WARM_UP:
                self.library.count_start()
            for one in made:
                call(one)
            if round >= WARM_UP:
                self.library.count_stop(name.encode())
            del made, one
            self.settle(live, name)

    def settle(self, live: int, name: str) -> None:
        """Wait until all that a job dropped is released, which on a GPU other threads do."""
        if self.gpu:
            gpulend.synchronize()
        deadline = time.monotonic() + 20
        while gpulend._native.live() > live:
            if time.monotonic() > deadline:
                sys.exit(f"{name}: it keeps {gpulend._native.live() - live} leases")
            time.sleep(0.001)


def borrow(counter: Counter, name: str, array: object) -> None:
    """Count what an array costs on its way in, and its lease when it is dropped."""
    counter.count(name, lambda: gpulend.borrow(array), drop=True)


def on_the_host(counter: Counter) -> None:
    """Count what needs no GPU."""
    array = np.zeros((4, 4), np.float32)
    borrow(counter, "borrow NumPy", array)
    borrow(counter, "borrow bytearray", bytearray(64))
    borrow(counter, "borrow DLPack", Producer(array))
    lease = gpulend.borrow(array)
    counter.count("lend NumPy", lambda: lease.lend("numpy"), drop=True)
    counter.count("lend DLPack", lambda: lease.__dlpack__(max_version=(1, 0)), drop=True)
    wrap = lambda: gpulend.wrap(array.ctypes.data, (4, 4), "float32", owner=array)  # noqa: E731
    counter.count("wrap", wrap, drop=True)
    # No `describe`: of memory of the host it reads the list of all mappings, of any number.
    counter.spend("release", lambda: gpulend.borrow(array), gpulend.Lease.release)
    import jax
    import torch
    import tvm_ffi

    borrow(counter, "borrow tvm-ffi", tvm_ffi.from_dlpack(array))
    borrow(counter, "borrow torch", torch.zeros(4, 4))
    counter.count("lend torch", lambda: lease.lend("torch"), drop=True)
    borrow(counter, "borrow JAX", jax.device_put(array))


def on_a_gpu(counter: Counter) -> None:
    """Count the same on the simulated GPU, and launches."""
    leases = [gpulend.zeros((4, 4), "float32") for _ in range(12)]
    lease, address = leases[0], leases[0].address
    owner = Foreign(address)
    borrow(counter, "borrow __cuda_array_interface__, GPU", owner)
    counter.count("empty, GPU", lambda: gpulend.empty((4, 4), "float32"), drop=True)
    wrap = lambda: gpulend.wrap(address, (4, 4), "float32", owner=owner)  # noqa: E731
    counter.count("wrap, GPU", wrap, drop=True)
    counter.count("describe, GPU", lambda: gpulend.describe(address))
    counter.count("lend DLPack, GPU", lambda: lease.__dlpack__(max_version=(1, 0)), drop=True)
    counter.spend("release, GPU", wrap, gpulend.Lease.release)
    counter.count("lend torch, GPU", lambda: lease.lend("torch"), drop=True)
    # They look for a driver when they are imported.
    from cuda import core
    from numba import cuda

    borrow(counter, "borrow Numba, GPU", cuda.to_device(np.zeros((4, 4), np.float32)))
    counter.count("lend Numba, GPU", lambda: lease.lend("numba"), drop=True)
    core.Device(0).set_current()
    buffer = core.Device(0).allocate(64, stream=core.Device(0).create_stream())
    borrow(counter, "borrow cuda.core, GPU", buffer)


def launches(counter: Counter) -> None:
    """Count launches with few and many arguments, on a stream of its own and on the legacy one."""
    import torch

    module = gpulend.compile(Path(__file__).with_name("kernels.ptx").read_text())
    tensors = [torch.zeros(4, 4) for _ in range(3)]
    one, three, twelve = (module[name][1, 32] for name in ("one", "three", "twelve"))
    a, b, c = (gpulend.zeros((4, 4), "float32") for _ in range(3))
    counter.count("launch, 3 leases, legacy stream", lambda: three(a, b, c))
    with gpulend.Stream():
        counter.count("launch, 3 leases, of another stream", lambda: three(a, b, c))
        leases = [gpulend.zeros((4, 4), "float32") for _ in range(12)]
        d, e, f = leases[:3]
        counter.count("launch, 1 lease", lambda: one(d))
        counter.count("launch, 3 leases", lambda: three(d, e, f))
        counter.count("launch, 12 leases", lambda: twelve(*leases))
        counter.count("launch, 3 torch", lambda: three(*tensors))


def main() -> None:
    """Count everything."""
    gc.disable()
    counter = Counter(sys.argv[1])
    on_the_host(counter)
    gpulend.simulate(expose=True, check="off")
    counter.gpu = True
    on_a_gpu(counter)
    launches(counter)


if __name__ == "__main__":
    main()
