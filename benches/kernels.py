"""Time kernels on the simulated GPU beside NumPy and numba's simulator, in one run.

The simulated GPU reads what it checks when it starts, so each mode is a process of its own, which
waits for its turn: rounds of all rows are interleaved, so that whatever else the machine does falls
on all alike. The figure is the best round. Every result is compared before it is timed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
TESTS = HERE.parents[1] / "tests"
ROUNDS = 7
ELEMENTS, BLOCK = 1 << 24, 256
SIDE = 512
MODES = ("off", "memory", "races")  # of GPULEND_SIM_CHECK; the last is the default
NUMBA_THREADS = 1 << 13

# A kernel of each kind: small and large, with and without barriers, calls and tables.
COMPILED = {
    "vectors.cu": "vector_add",
    "reductions.cu": "sum_by_shuffles",
    "scans.cu": "scan_blelloch",
    "matrices.cu": "multiply_float",
    "sorts.cu": "bitonic_sort",
    "numbers.cu": "mandelbrot",
    "texts.cu": "sha256",
    "stencils.cu": "stencil_3d",
    "warps.cu": "votes",
    "languages.cu": "run_programs",
}


PRODUCTS = {"square": "of whole tiles", "multiply": "with guards at the edges"}


def main() -> None:
    workers = {mode: Worker("ours", GPULEND_SIM_CHECK=mode) for mode in MODES}
    workers["numba"] = Worker("numba", NUMBA_ENABLE_CUDASIM="1")
    a, b = np.random.default_rng(1).standard_normal((2, ELEMENTS), np.float32)
    out = np.empty_like(a)
    best: dict[tuple[str, str], float] = {}

    def note(row: tuple[str, str], seconds: float) -> None:
        best[row] = min(best.get(row, seconds), seconds)

    for _ in range(ROUNDS):
        started = time.perf_counter()
        np.add(a, b, out=out)
        note(("add", "numpy"), time.perf_counter() - started)
        for mode in MODES:
            note(("add", mode), workers[mode].ask("add"))
            note(("few", mode), workers[mode].ask("few"))
            for job in PRODUCTS:
                note((job, mode), workers[mode].ask(job))
        note(("few", "numba"), workers["numba"].ask("few"))
    print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}, {os.cpu_count()} cores")
    vector_rows(best)
    matrix_rows(best)
    numba_rows(best)
    for worker in workers.values():
        worker.end()
    fresh = {mode: Worker("compile", GPULEND_SIM_CHECK=mode) for mode in ("off", "races")}
    compile_rows({mode: worker.tell("compile") for mode, worker in fresh.items()})
    for worker in fresh.values():
        worker.end()


def vector_rows(best: dict[tuple[str, str], float]) -> None:
    print(f"\nvector add, {ELEMENTS:,} floats")
    for name in ("numpy", *MODES):
        seconds = best["add", name]
        rate = 12 * ELEMENTS / seconds / 1e9
        label = "np.add(out=)" if name == "numpy" else f"checks {name}"
        ratio = seconds / best["add", "numpy"]
        print(f"  {label:<16} {seconds * 1e3:9.2f} ms {rate:7.2f} GB/s {ratio:7.2f} x NumPy")


def matrix_rows(best: dict[tuple[str, str], float]) -> None:
    for job, words in PRODUCTS.items():
        print(f"\ntiled product of matrices, {SIDE}³, {words}")
        for mode in MODES:
            seconds = best[job, mode]
            rate = 2 * SIDE**3 / seconds / 1e9
            print(f"  checks {mode:<9} {seconds * 1e3:9.2f} ms {rate:7.2f} GFLOP/s")


def numba_rows(best: dict[tuple[str, str], float]) -> None:
    print(f"\nvector add, {NUMBA_THREADS:,} threads, beside numba's simulator")
    for name in ("numba", *MODES):
        seconds = best["few", name]
        label = "numba CUDASIM" if name == "numba" else f"checks {name}"
        each, ratio = seconds / NUMBA_THREADS * 1e9, best["few", "numba"] / seconds
        print(f"  {label:<16} {each:10.1f} ns a thread {ratio:10.1f} x faster than numba")


def compile_rows(costs: dict[str, dict[str, float]]) -> None:
    print("\nfrom cuModuleLoadData to the end of the first launch, less a second launch")
    for name in COMPILED.values():
        figures = "  ".join(f"{mode} {cost[name] * 1e3:8.2f} ms" for mode, cost in costs.items())
        print(f"  {name:<20} {figures}")


class Worker:
    """A process that does a job when it is asked, and says how long that took."""

    def __init__(self, kind: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE), kind],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, job: str) -> dict[str, float]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(job + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"the process for {job} ended with {self._process.wait()}")
        return json.loads(answer)

    def ask(self, job: str) -> float:
        return self.tell(job)["seconds"]

    def end(self) -> None:
        self._process.communicate()


def ours() -> None:
    """Do jobs on the simulated GPU."""
    sys.path[0] = str(TESTS)  # in the place of this file's folder, where `kernels` is this file
    from driver.cuda import check, cu
    from driver.resources import start
    from kernels.harness import Kernel, blocks, to_device

    start()
    random = np.random.default_rng(1)

    def timed(kernel: Kernel, grid, block, *words) -> float:
        started = time.perf_counter()
        check(kernel.start(grid, block, *words))
        check(cu.cuCtxSynchronize())
        return time.perf_counter() - started

    add = Kernel("vectors.cu", "vector_add")
    arrays = [*random.standard_normal((2, ELEMENTS), np.float32), np.empty(ELEMENTS, np.float32)]
    vectors = [np.uint64(to_device(array)) for array in arrays]

    def add_job(n: int) -> float:
        return timed(add, blocks(n, BLOCK), BLOCK, *vectors, n)

    add_job(ELEMENTS)
    check(cu.cuMemcpyDtoH_v2(arrays[2].ctypes.data, int(vectors[2]), arrays[2].nbytes))
    assert np.array_equal(arrays[2], arrays[0] + arrays[1])

    multiply = Kernel("matrices.cu", "multiply_float")
    squares = [*random.standard_normal((2, SIDE, SIDE), np.float32)]
    squares.append(np.empty((SIDE, SIDE), np.float32))
    matrices = [np.uint64(to_device(square)) for square in squares]
    sides = (SIDE, SIDE, SIDE)

    def multiply_job() -> float:
        return timed(multiply, (SIDE // 16, SIDE // 16), (16, 16), *matrices, *sides)

    square = Kernel("matrices.cu", "multiply_square")

    def square_job() -> float:
        return timed(square, (SIDE // 16, SIDE // 16), (16, 16), *matrices, SIDE)

    multiply_job()
    check(cu.cuMemcpyDtoH_v2(squares[2].ctypes.data, int(matrices[2]), squares[2].nbytes))
    assert np.allclose(squares[2], squares[0] @ squares[1], atol=1e-2)

    jobs = {
        "add": lambda: {"seconds": add_job(ELEMENTS)},
        "few": lambda: {"seconds": add_job(NUMBA_THREADS)},
        "multiply": lambda: {"seconds": multiply_job()},
        "square": lambda: {"seconds": square_job()},
    }
    for line in sys.stdin:
        print(json.dumps(jobs[line.strip()]()), flush=True)


def compile_costs() -> None:
    """Load and launch each kernel for one block, twice, in a process that never had it."""
    sys.path[0] = str(TESTS)
    from ctypes import c_void_p

    from driver.cuda import check, cu
    from driver.resources import start, value
    from kernels.harness import CORPUS, Kernel, ptx_of

    start()
    costs = {}
    for file, name in COMPILED.items():
        ptx_of(CORPUS / file)
        # Enough for all that one block of any of them reads and writes.
        room = value(c_void_p, cu.cuMemAlloc_v2, 1 << 20)
        check(cu.cuMemsetD8_v2(room, 0, 1 << 20))
        check(cu.cuCtxSynchronize())
        grid, block, words = arguments(name, np.uint64(room))
        started = time.perf_counter()
        kernel = Kernel(file, name)
        check(kernel.start(grid, block, *words))
        check(cu.cuCtxSynchronize())
        first = time.perf_counter()
        check(kernel.start(grid, block, *words))
        check(cu.cuCtxSynchronize())
        second = time.perf_counter()
        costs[name] = (first - started) - (second - first)
        check(cu.cuMemFree_v2(room))
    sys.stdin.readline()
    print(json.dumps(costs), flush=True)


def arguments(name: str, room: np.uint64) -> tuple:
    """Say how to launch a kernel on one block and `room` for whatever it reads and writes."""
    return {
        "vector_add": (1, 256, (room, room, room, 256)),
        "sum_by_shuffles": (1, 256, (room, room, 256)),
        "scan_blelloch": (1, 256, (room, room)),
        "multiply_float": (1, (16, 16), (room, room, room, 16, 16, 16)),
        "bitonic_sort": (1, 512, (room,)),
        "mandelbrot": (1, (8, 8), (room, 8, 8, 50)),
        "sha256": (1, 32, (room, 3, room, 32)),
        "stencil_3d": (1, (8, 8, 4), (room, room, 8, 8, 4)),
        "votes": (1, 96, (room, room, 96)),
        "run_programs": (1, 96, (room, 30, room, 96)),
    }[name]


def numba() -> None:
    """Do the small job on numba's simulator."""
    global cuda  # the simulator looks for it among the kernel's globals only
    from numba import cuda

    @cuda.jit
    def add(a, b, out, n):
        i = cuda.grid(1)
        if i < n:
            out[i] = a[i] + b[i]

    a, b = np.random.default_rng(1).standard_normal((2, NUMBA_THREADS), np.float32)
    words = [cuda.to_device(a), cuda.to_device(b), cuda.to_device(np.zeros_like(a))]
    grid = NUMBA_THREADS // BLOCK
    add[grid, BLOCK](*words, NUMBA_THREADS)
    assert np.array_equal(words[2].copy_to_host(), a + b)
    for _ in sys.stdin:
        started = time.perf_counter()
        add[grid, BLOCK](*words, NUMBA_THREADS)
        print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)


if __name__ == "__main__":
    {"ours": ours, "compile": compile_costs, "numba": numba, "main": main}[
        (*sys.argv[1:], "main")[0]
    ]()
