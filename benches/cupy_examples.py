"""Run what CuPy's guide shows of its kernels with CuPy and with gpulend: equal results, and times.

`make bench-cupy` runs it on a machine with a GPU and CuPy. The programs are our own; each does what
one example of the guide is about (https://docs.cupy.dev/en/stable/user_guide/kernel.html), and its
result is compared with NumPy's and with CuPy's. Every program is timed with few elements, where a
call is what counts, and with many, where memory is; on CuPy's arrays, and on leases beside CuPy on
its own arrays. Outputs that are not given are allocated by each.

Batches of both are interleaved. With few elements the GPU is waited for outside of the time, with
many inside of it. The figures are the medians of rounds, in microseconds a call, and the median of
our time divided by CuPy's of the same round; the goal is 1.1. An example that fails is left out,
and the reason is printed. Without a GPU our programs alone run, on the simulated one, as a trial.
"""

from __future__ import annotations

import functools
import gc
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import gpulend
import numpy as np
import record

FEW, MANY, MANY_ON_TRIAL = 1 << 10, 1 << 25, 1 << 14
GOAL = 1.1
BLOCK = 256
OURS, THEIRS = "gpulend", "CuPy"

ADD = """
extern "C" __global__ void my_add(const float *x1, const float *x2, float *y) {
    int at = blockDim.x * blockIdx.x + threadIdx.x;
    y[at] = x1[at] + x2[at];
}
"""
COMPLEX = """
#include <cupy/complex.cuh>
extern "C" __global__ void my_func(const complex<float> *x1, const complex<float> *x2,
                                   complex<float> *y, float a) {
    int at = blockDim.x * blockIdx.x + threadIdx.x;
    y[at] = x1[at] + a * x2[at];
}
"""
# The header is CuPy's.
PAIRS = """
extern "C" __global__ void my_func(const float2 *x1, const float2 *x2, float2 *y, float a) {
    int at = blockDim.x * blockIdx.x + threadIdx.x;
    y[at] = make_float2(x1[at].x + a * x2[at].x, x1[at].y + a * x2[at].y);
}
"""
MODULE = """
extern "C" {
__global__ void test_sum(const float *x1, const float *x2, float *y, unsigned int n) {
    unsigned int at = blockDim.x * blockIdx.x + threadIdx.x;
    if (at < n) y[at] = x1[at] + x2[at];
}
__global__ void test_multiply(const float *x1, const float *x2, float *y, unsigned int n) {
    unsigned int at = blockDim.x * blockIdx.x + threadIdx.x;
    if (at < n) y[at] = x1[at] * x2[at];
}
}
"""
TEMPLATE = """
template <class T> __global__ void fused(const T *x, T *y, T by, int n) {
    int at = blockDim.x * blockIdx.x + threadIdx.x;
    if (at < n) y[at] = x[at] * by + T(1);
}
"""
SHARED = """
extern "C" __global__ void reversed(const int *x, int *y) {
    extern __shared__ int room[];
    int first = blockDim.x * blockIdx.x;
    room[threadIdx.x] = x[first + threadIdx.x];
    __syncthreads();
    y[first + threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}
"""
CONSTANT = """
extern "C" {
__constant__ float weights[4];
__global__ void weigh(const float *x, float *y) {
    int at = blockDim.x * blockIdx.x + threadIdx.x;
    y[at] = x[at] * weights[at % 4];
}
}
"""
STRUCT = """
struct Line { float slope; double offset; };
extern "C" __global__ void follow(const float *x, float *y, Line line) {
    int at = blockDim.x * blockIdx.x + threadIdx.x;
    y[at] = line.slope * x[at] + float(line.offset);
}
"""
LINE = np.array((3.0, 0.5), np.dtype([("slope", "f4"), ("offset", "f8")], align=True))
WEIGHTS = np.array([1, 10, 100, 1000], "float32")
Call = Callable[..., Any]


class Gpulend:
    """How gpulend makes and launches kernels."""

    name = OURS
    sources = {"complex": PAIRS}

    elementwise = staticmethod(gpulend.elementwise)
    reduction = staticmethod(gpulend.reduction)

    def raw(self, source: str, name: str, n: int, shared: int = 0, names: Any = ()) -> Call:
        kernel = gpulend.compile(source, names=names)[name]
        grid = n // BLOCK
        if shared:
            return lambda *arguments: kernel[grid, BLOCK](*arguments, shared=shared)
        return lambda *arguments: kernel[grid, BLOCK](*arguments)

    def weighing(self, n: int) -> Call:
        module = gpulend.compile(CONSTANT)
        module.variable("weights").copy_from(WEIGHTS)
        kernel, grid = module["weigh"], n // BLOCK
        return lambda x, y: kernel[grid, BLOCK](x, y)


class CuPy:
    """How CuPy does."""

    name = THEIRS
    sources = {"complex": COMPLEX}

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.elementwise, self.reduction = cupy.ElementwiseKernel, cupy.ReductionKernel

    def raw(self, source: str, name: str, n: int, shared: int = 0, names: Any = ()) -> Call:
        if names:
            settings = {"options": ("-std=c++17",), "name_expressions": names}
            kernel = self.cupy.RawModule(code=source, **settings).get_function(name)
        else:
            kernel = self.cupy.RawKernel(source, name)
        grid, block = (n // BLOCK,), (BLOCK,)
        if shared:
            return lambda *arguments: kernel(grid, block, arguments, shared_mem=shared)
        return lambda *arguments: kernel(grid, block, arguments)

    def weighing(self, n: int) -> Call:
        module = self.cupy.RawModule(code=CONSTANT)
        place = self.cupy.ndarray(4, "float32", module.get_global("weights"))
        place[...] = self.cupy.asarray(WEIGHTS)
        kernel, grid, block = module.get_function("weigh"), (n // BLOCK,), (BLOCK,)
        return lambda x, y: kernel(grid, block, (x, y))


Library = Gpulend | CuPy


@dataclass
class Example:
    """One example of the guide."""

    name: str
    # The call with a library's kernel, for so many elements.
    make: Callable[[Any, int], Call]
    # Its arguments, as NumPy's arrays and as numbers.
    arguments: Callable[[int], list[Any]]
    # What NumPy computes of them.
    wanted: Callable[..., Any]
    # Where among the arguments the result is; None if the call returns it.
    output: int | None = None
    # How far sums in another order may differ.
    tolerance: float = 0.0


def floats(n: int, first: int = 0, dtype: str = "float32") -> Any:
    """Return small whole numbers, whose products and differences are exact."""
    return ((np.arange(n, dtype="int32") * 7 + first) % 101).astype(dtype)


def complexes(n: int) -> Any:
    """Return complex numbers of small whole ones."""
    return (floats(n) + 1j * floats(n, 3)).astype("complex64")


SQUARE = "float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "squared_diff"
GENERIC = "T x, T y", "T z", "T diff = x - y; z = diff * diff", "squared_diff_generic"
WIDE = "X x, Y y", "Z z", "z = (x - y) * (x - y)", "squared_diff_wide"
REVERSE = "T x, raw T y", "T z", "z = x + y[_ind.size() - i - 1]", "add_reverse"
NORM = "T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm"


def norm(library: Library, axis: int | None) -> Call:
    """Return the Euclidean norm of everything, or along an axis."""
    kernel = library.reduction(*NORM)
    return lambda x: kernel(x, axis=axis)


def both(library: Library, n: int) -> Call:
    """Return a call that launches two kernels of one source."""
    add = library.raw(MODULE, "test_sum", n)
    multiply = library.raw(MODULE, "test_multiply", n)

    def call(x1: Any, x2: Any, y: Any, count: Any) -> None:
        add(x1, x2, y, count)
        multiply(y, x2, y, count)

    return call


EXAMPLES = (
    Example(
        "elementwise",
        lambda library, n: library.elementwise(*SQUARE),
        lambda n: [floats(n), floats(n, 5)],
        lambda x, y: (x - y) ** 2,
    ),
    Example(
        "elementwise, a row is repeated",
        lambda library, n: library.elementwise(*SQUARE),
        lambda n: [floats(n).reshape(-1, 32), floats(32, 5)],
        lambda x, y: (x - y) ** 2,
    ),
    Example(
        "elementwise, a number",
        lambda library, n: library.elementwise(*SQUARE),
        lambda n: [floats(n), 5],
        lambda x, y: (x - y) ** 2,
    ),
    Example(
        "elementwise, the output is given",
        lambda library, n: library.elementwise(*SQUARE),
        lambda n: [floats(n), floats(n, 5), np.zeros(n, "float32")],
        lambda x, y, z: (x - y) ** 2,
        2,
    ),
    Example(
        "elementwise of any type, several statements",
        lambda library, n: library.elementwise(*GENERIC),
        lambda n: [floats(n, dtype="float64"), floats(n, 5, "float64")],
        lambda x, y: (x - y) ** 2,
    ),
    Example(
        "elementwise, each parameter of its own type",
        lambda library, n: library.elementwise(*WIDE),
        lambda n: [floats(n, dtype="int32"), floats(n, 5), np.zeros(n, "float64")],
        lambda x, y, z: (x - y.astype("float64")) ** 2,
        2,
    ),
    Example(
        "elementwise, a raw argument",
        lambda library, n: library.elementwise(*REVERSE),
        lambda n: [floats(n), floats(n, 5)],
        lambda x, y: x + y[::-1],
    ),
    Example(
        "reduction of everything",
        lambda library, n: norm(library, None),
        lambda n: [floats(n)],
        lambda x: np.sqrt(np.sum(x.astype("float64") ** 2)),
        tolerance=1e-4,
    ),
    Example(
        "reduction of rows",
        lambda library, n: norm(library, 1),
        lambda n: [floats(n).reshape(-1, 256)],
        lambda x: np.sqrt(np.sum(x.astype("float64") ** 2, axis=1)),
        tolerance=1e-5,
    ),
    Example(
        "raw kernel",
        lambda library, n: library.raw(ADD, "my_add", n),
        lambda n: [floats(n), floats(n, 5), np.zeros(n, "float32")],
        lambda x1, x2, y: x1 + x2,
        2,
    ),
    Example(
        "raw kernel of complex numbers",
        lambda library, n: library.raw(library.sources["complex"], "my_func", n),
        lambda n: [complexes(n), complexes(n)[::-1].copy(), complexes(n), np.float32(2)],
        lambda x1, x2, y, a: x1 + a * x2,
        2,
    ),
    Example(
        "raw kernel, shared memory",
        lambda library, n: library.raw(SHARED, "reversed", n, shared=4 * BLOCK),
        lambda n: [floats(n, dtype="int32"), np.zeros(n, "int32")],
        lambda x, y: x.reshape(-1, BLOCK)[:, ::-1].ravel(),
        1,
    ),
    Example(
        "raw kernel, a struct by value",
        lambda library, n: library.raw(STRUCT, "follow", n),
        lambda n: [floats(n), np.zeros(n, "float32"), LINE],
        lambda x, y, line: x * np.float32(3) + np.float32(0.5),
        1,
    ),
    Example(
        "raw module, two kernels",
        both,
        lambda n: [floats(n), floats(n, 5), np.zeros(n, "float32"), np.uint32(n)],
        lambda x1, x2, y, n: (x1 + x2) * x2,
        2,
    ),
    Example(
        "raw module, a template",
        lambda library, n: library.raw(TEMPLATE, "fused<float>", n, names=("fused<float>",)),
        lambda n: [floats(n), np.zeros(n, "float32"), np.float32(3), np.int32(n)],
        lambda x, y, by, n: x * by + 1,
        1,
    ),
    Example(
        "raw module, constant memory",
        lambda library, n: library.weighing(n),
        lambda n: [floats(n), np.zeros(n, "float32")],
        lambda x, y: x * np.resize(WEIGHTS, x.shape),
        1,
    ),
)


def is_memory(value: Any) -> bool:
    """Return whether an argument is an array on the GPU, not a number or a struct."""
    return isinstance(value, np.ndarray) and value.ndim > 0


def moved(arguments: Sequence[Any], upload: Callable[[Any], Any]) -> list[Any]:
    """Return arguments with arrays on the GPU."""
    return [upload(one) if is_memory(one) else one for one in arguments]


class Contestant:
    """A library's call on its arguments."""

    def __init__(self, example: Example, library: Library, n: int, arguments: list[Any]) -> None:
        self.run = functools.partial(example.make(library, n), *arguments)
        self.output = None if example.output is None else arguments[example.output]

    def result(self) -> np.ndarray:
        """Call once, and return the result on the host."""
        found = self.run()
        found = found if self.output is None else self.output
        if isinstance(found, gpulend.Lease):
            return found.to_host()
        return found.get()


def contestants(example: Example, cupy: Any, n: int) -> dict[str, dict[str, Contestant]]:
    """Return for each kind of arrays ours and CuPy's, whose results are right."""
    arguments = example.arguments(n)
    leases = moved(arguments, gpulend.from_host)
    found = {"leases": {OURS: Contestant(example, Gpulend(), n, leases)}}
    if cupy is not None:
        arrays = moved(arguments, cupy.asarray)
        theirs = Contestant(example, CuPy(cupy), n, arrays)
        # Not the same output: each would find the other's result there.
        own = moved(arguments, cupy.asarray)
        found["CuPy's arrays"] = {OURS: Contestant(example, Gpulend(), n, own)}
        for pair in found.values():
            pair[THEIRS] = theirs
    wanted = np.asarray(example.wanted(*arguments))
    for arrays_of, pair in found.items():
        for name, one in pair.items():
            np.testing.assert_allclose(
                one.result(),
                wanted,
                rtol=example.tolerance,
                err_msg=f"{name} on {arrays_of if name == OURS else 'its own arrays'}",
            )
    return found


def timed(run: Callable[[], Any], batch: int, wait: Callable[[], Any] | None) -> float:
    """Return nanoseconds a call."""
    start = time.perf_counter_ns()
    for _ in range(batch):
        run()
    if wait is not None:
        wait()
    return (time.perf_counter_ns() - start) / batch


def rounds(pair: dict[str, Contestant], many: bool, wait: Callable[[], Any]) -> dict[str, Any]:
    """Return all rounds of both."""
    batch, count = (10, 15) if many else (200, 40)
    spent: dict[str, list[float]] = {name: [] for name in pair}
    for _ in range(3):
        for one in pair.values():
            one.run()
    wait()
    for _ in range(count):
        for name, one in pair.items():
            spent[name].append(timed(one.run, batch, wait if many else None))
            wait()
    return spent


def with_gpu() -> Any:
    """Return CuPy if it has a GPU."""
    try:
        import cupy

        cupy.zeros(1)
    except Exception as error:
        print(f"without CuPy: {type(error).__name__}: {error}", flush=True)
        return None
    return cupy


def measure() -> dict[str, dict[str, list[float]]]:
    """Return all rounds of all examples, by job."""
    cupy = with_gpu()
    wait = gpulend.synchronize if cupy is None else cupy.cuda.runtime.deviceSynchronize
    spent: dict[str, dict[str, list[float]]] = {}
    gc.disable()
    for n in (FEW, MANY_ON_TRIAL if cupy is None else MANY):
        for example in EXAMPLES:
            try:
                for arrays, pair in contestants(example, cupy, n).items():
                    job = f"{example.name}; {n} elements; {arrays}"
                    spent[job] = rounds(pair, n != FEW, wait)
            except Exception as error:
                reason = "".join(traceback.format_exception_only(error)).strip()
                print(f"left out: {example.name}, {n} elements: {reason[-2000:]}", flush=True)
            gc.collect()
            if cupy is not None:
                cupy.get_default_memory_pool().free_all_blocks()
    gc.enable()
    return spent


def quotient(run: dict[str, list[float]]) -> float:
    """Return the median over all rounds of our time, divided by CuPy's."""
    return median(mine / other for mine, other in zip(run[OURS], run[THEIRS], strict=True))


def show(runs: list[dict[str, dict[str, list[float]]]]) -> None:
    """Print a table, and what became of the goal."""
    print("| example | elements | arrays | gpulend, µs | CuPy, µs | ratio |")
    print("|---|---|---|---|---|---|")
    ratios = {}
    for job, row in runs[0].items():
        times = {name: median(median(run[job][name]) for run in runs) / 1000 for name in row}
        line = [*job.replace(" elements;", ";").split("; "), f"{times[OURS]:.2f}", "", ""]
        if THEIRS in row:
            ratios[job] = median(quotient(run[job]) for run in runs)
            line[-2:] = f"{times[THEIRS]:.2f}", f"{ratios[job]:.2f}"
        print(f"| {' | '.join(line)} |")
    missed = sum(ratio > GOAL for ratio in ratios.values())
    print(f"{len(ratios)} compared with CuPy; {missed} above {GOAL}, the goal")
    print(f"{len({job.split('; ')[0] for job in runs[0]})} of {len(EXAMPLES)} examples ran")


def machine() -> str:
    """Return the name of the GPU, or of the CPU that simulates one."""
    cupy = with_gpu()
    if cupy is None:
        return record.processor()
    return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()


def main() -> None:
    options = record.options("cupy", __doc__)
    runs = record.measured(measure, options.runs)
    show(runs)
    compared = [
        {
            job: {name: median(times) for name, times in row.items()}
            for job, row in run.items()
            if THEIRS in row
        }
        for run in runs
    ]
    record.write(
        options,
        record.rows(compared),
        figure="median of 40 rounds with few elements, of 15 with many",
        machine=machine(),
        packages=("gpulend", "cupy-cuda12x", "cupy-cuda13x", "numpy"),
    )


if __name__ == "__main__":
    main()
