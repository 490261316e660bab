"""Time launches of a kernel beside the best peers and the bare driver, in one run.

`make bench-launch` runs it on a machine with a GPU, a C compiler and cuda.core; torch, CuPy and
Triton are timed if they are there. All rows launch the same empty kernel with three arrays and an
int on one stream. Batches of all rows are interleaved; a batch is short enough never to fill the
driver's queue, and is waited for outside of its time. The figures are the best batch, in
nanoseconds a launch, and how it compares with the bare driver: best with best, and the median of
all rounds, in each of which a row's batch is divided by the driver's; of several runs (`--runs`),
the median of their medians. Then a sum of two arrays of a gibibyte each is compared with the
driver's own copy. A record (`--record`) has the median round of each run.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import gpulend
import record

BATCH, ROUNDS = 200, 600
GIBIBYTE = 1 << 30
DRIVER = "the bare driver, in C"
DRIVER_EX = "cuLaunchKernelEx, in C"
DRIVERS = (DRIVER, DRIVER_EX)
# What a record has: ours, then peers that take the same arrays.
JOBS = {
    "launch on leases": ("gpulend, three leases", "cuda.core launch, three addresses"),
    "launch on torch tensors": ("gpulend, three torch tensors", "Triton, three torch tensors"),
    "launch on CuPy arrays": ("gpulend, three CuPy arrays", "CuPy RawKernel, three CuPy arrays"),
}
SOURCE = """
extern "C" __global__ void empty(const float *a, const float *b, float *c, int n) {
    if (n < 0) c[0] = a[0] + b[0];
}
extern "C" __global__ void add(const float4 *a, const float4 *b, float4 *c, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 x = a[i], y = b[i];
        c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
}
"""
Row = Callable[[int], float]


def timed(loop: Callable[[range], None]) -> Row:
    """Return how long a loop of launches takes, in nanoseconds.

    Each row has a loop of its own: a call in between would be counted as part of the launch.
    """

    def run(count: int) -> float:
        calls = range(count)
        start = time.perf_counter_ns()
        loop(calls)
        return time.perf_counter_ns() - start

    return run


def core_options(core: Any) -> Any:
    """Return cuda.core's options to compile for the device."""
    architecture = "".join(map(str, core.Device(0).compute_capability))
    return core.ProgramOptions(arch=f"sm_{architecture}")


def driver_rows(stream: int) -> dict[str, Row]:
    """Return launches by the bare driver, in C, by both of its functions for them."""
    cu = ctypes.CDLL("libcuda.so.1")
    folder = Path(tempfile.mkdtemp())
    source, library = Path(__file__).with_name("launch.c"), folder / "launch.so"
    subprocess.run(
        ["cc", "-O2", "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source],
        check=True,
    )
    loops = ctypes.CDLL(str(library))
    # A module of the driver's own, from the same source.
    from cuda import core

    core.Device(0).set_current()
    image = core.Program(SOURCE, "c++", core_options(core)).compile("cubin").code
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cu.cuModuleLoadData(ctypes.byref(module), bytes(image)) == 0
    assert cu.cuModuleGetFunction(ctypes.byref(function), module, b"empty") == 0
    arrays = [gpulend.zeros(32, "float32") for _ in range(3)]

    def row(many: Any, launch: Any) -> Row:
        many.restype = ctypes.c_double
        many.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_uint64] * 3 + [ctypes.c_int] * 2
        address = ctypes.cast(launch, ctypes.c_void_p)

        def run(count: int) -> float:
            addresses = [array.address for array in arrays]
            spent: float = many(address, function, stream, *addresses, 1, count)
            assert spent > 0
            return spent

        return run

    return {
        DRIVER: row(loops.launch_many, cu.cuLaunchKernel),
        DRIVER_EX: row(loops.launch_many_ex, cu.cuLaunchKernelEx),
    }


def rows(stream: gpulend.Stream) -> dict[str, Row]:
    """Return ours and the peers' launches, as far as their packages are there."""
    empty = gpulend.compile(SOURCE)["empty"]
    a, b, c = (gpulend.zeros(32, "float32") for _ in range(3))
    ready = empty[1, 32]

    def ours(calls: range) -> None:
        for _ in calls:
            empty[1, 32](a, b, c, 1)

    def kept(calls: range) -> None:
        for _ in calls:
            ready(a, b, c, 1)

    found: dict[str, Row] = driver_rows(stream.handle) | {
        "gpulend, three leases": timed(ours),
        "gpulend, three leases, launcher kept": timed(kept),
    }
    for name, add in {
        "torch": torch_rows,
        "cupy": cupy_rows,
        "cuda.core": cuda_core_rows,
        "triton": triton_rows,
    }.items():
        try:
            found |= add(empty, stream)
        except ImportError as error:
            print(f"{name} is not timed: {error}", file=sys.stderr)
    return found


def torch_rows(empty: Any, stream: gpulend.Stream) -> dict[str, Row]:
    """Return launches on torch's tensors."""
    import torch

    a, b, c = (torch.zeros(32, device="cuda") for _ in range(3))
    torch.cuda.set_stream(torch.cuda.ExternalStream(stream.handle))
    # Streams of its pool torch keeps for good; one of another library is asked for at each call.
    own = torch.cuda.Stream()

    def ours(calls: range) -> None:
        for _ in calls:
            empty[1, 32](a, b, c, 1)

    def run(count: int) -> float:
        with torch.cuda.stream(own):
            return timed(ours)(count)

    return {"gpulend, three torch tensors": run}


def cupy_rows(empty: Any, stream: gpulend.Stream) -> dict[str, Row]:
    """Return launches on CuPy's arrays, by us and by CuPy."""
    import cupy
    import numpy as np

    a, b, c = (cupy.zeros(32, cupy.float32) for _ in range(3))
    raw, one = cupy.RawKernel(SOURCE, "empty"), np.int32(1)
    outside = cupy.cuda.ExternalStream(stream.handle)

    def ours(calls: range) -> None:
        for _ in calls:
            empty[1, 32](a, b, c, 1)

    def theirs(calls: range) -> None:
        for _ in calls:
            raw((1,), (32,), (a, b, c, one))

    def inside(loop: Callable[[range], None]) -> Row:
        def run(count: int) -> float:
            with outside:
                return timed(loop)(count)

        return run

    return {
        "gpulend, three CuPy arrays": inside(ours),
        "CuPy RawKernel, three CuPy arrays": inside(theirs),
    }


def cuda_core_rows(_empty: Any, stream: gpulend.Stream) -> dict[str, Row]:
    """Return launches by cuda.core, which takes addresses."""
    import numpy as np
    from cuda import core

    device = core.Device(0)
    device.set_current()
    kernel = core.Program(SOURCE, "c++", core_options(core)).compile("cubin").get_kernel("empty")
    configuration, one = core.LaunchConfig(grid=1, block=32), np.int32(1)
    arrays = [gpulend.zeros(32, "float32") for _ in range(3)]
    a, b, c = (array.address for array in arrays)
    queue = core.Stream.from_handle(stream.handle)

    launch = core.launch

    def theirs(calls: range, _arrays: Any = arrays) -> None:
        for _ in calls:
            launch(queue, configuration, kernel, a, b, c, one)

    return {"cuda.core launch, three addresses": timed(theirs)}


def triton_rows(_empty: Any, _stream: gpulend.Stream) -> dict[str, Row]:
    """Return launches by Triton on torch's tensors."""
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def empty(a, b, c, n, BLOCK: tl.constexpr):  # noqa: N803
        if n < 0:
            at = tl.arange(0, BLOCK)
            tl.store(c + at, tl.load(a + at) + tl.load(b + at))

    x, y, z = (torch.zeros(32, device="cuda") for _ in range(3))
    grid = empty[(1,)]

    def theirs(calls: range) -> None:
        for _ in calls:
            grid(x, y, z, 2, BLOCK=32)

    return {"Triton, three torch tensors": timed(theirs)}


def measure() -> dict[str, list[float]]:
    """Return all rounds of all rows, in nanoseconds a launch."""
    stream = gpulend.Stream()
    with stream:
        found = rows(stream)
        for run in found.values():
            run(BATCH)
            gpulend.synchronize()
        spent: dict[str, list[float]] = {name: [] for name in found}
        gc.disable()
        for _ in range(ROUNDS):
            for name, run in found.items():
                spent[name].append(run(BATCH) / BATCH)
                gpulend.synchronize()
        gc.enable()
    return spent


def launches(runs: list[dict[str, list[float]]]) -> None:
    """Print a table of launches."""
    head = ("launch with three arrays and an int", "ns", "of the driver", "median of rounds")
    print(f"| {head[0]:42} | {' | '.join(head[1:])} |\n|---|---|---|---|")
    driver = min(min(run[DRIVER]) for run in runs)
    for name in runs[0]:
        best = min(min(run[name]) for run in runs)
        usual = median(
            median(row / limit for row, limit in zip(run[name], run[DRIVER], strict=True))
            for run in runs
        )
        print(f"| {name:42} | {best:.0f} | {best / driver:.2f} | {usual:.2f} |")


def by_job(run: dict[str, list[float]]) -> record.Times:
    """Return the median round of our launches and of peers that take the same arrays."""
    return {
        job: {name: median(run[name]) for name in (ours, *peers, *DRIVERS) if name in run}
        for job, (ours, *peers) in JOBS.items()
        if ours in run
    }


def bandwidth() -> None:
    """Print how fast two gibibytes are added, and one is copied."""
    elements = GIBIBYTE // 4
    a, b, c = (gpulend.zeros(elements, "float32") for _ in range(3))
    add = gpulend.compile(SOURCE)["add"]
    vectors = elements // 4

    def best(work: Callable[[], Any], moved: int) -> float:
        work()
        spent = []
        for _ in range(20):
            with gpulend.timed() as t:
                work()
            spent.append(t.milliseconds)
        return moved / min(spent) / 1e6

    copied = best(lambda: c.copy_from(a), 2 * GIBIBYTE)
    added = best(lambda: add[(vectors + 255) // 256, 256](a, b, c, vectors), 3 * GIBIBYTE)
    ratio = added / copied
    print(f"copy {copied:.0f} GB/s, sum of two arrays {added:.0f} GB/s, {ratio:.3f} of the copy")


def main() -> None:
    from cuda import core

    options = record.options("launch", __doc__)
    packages = ("gpulend", "torch", "cupy-cuda13x", "cupy-cuda12x", "cuda-core", "triton")
    for package in packages:
        try:
            print(package, version(package), end="; ")
        except ImportError:
            continue
    print(flush=True)
    runs = record.measured(measure, options.runs)
    launches(runs)
    record.write(
        options,
        record.rows([by_job(run) for run in runs]),
        figure=f"median of {ROUNDS} rounds",
        machine=core.Device(0).name,
        packages=packages,
    )
    bandwidth()


if __name__ == "__main__":
    main()
