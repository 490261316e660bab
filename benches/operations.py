"""Time one call of a kernel as an operation of torch, JAX or TensorFlow beside what is written by
hand.

`make bench-operations` runs it. Every row computes `x * 2` on 64 floats; all but frameworks' own
launch the same kernel. Rows of torch allocate their result. Rows of JAX are compiled programs,
waited for one by one, or all of a batch together. Rows of TensorFlow are eager or a `tf.function`,
and lend it the result. Rows of a CUDA graph are replays of a hundred calls, waited for. On the
simulated GPU a call waits for its kernel: there the differences between rows say more than their
ratios.

The peers in C++ are built once (`--folder`). A peer that cannot be made, or whose result is wrong,
is left out, and the reason is printed. Batches of all rows are interleaved; the figures are the
best batch and the median, in microseconds a call, and the median of our time divided by the row's
in the same round. A record (`--record`) has the medians.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

# JAX would take most of the GPU's memory at its first array.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import gpulend
import numpy as np
import peers
import record
import torch
from gpulend import _native

BATCH, ROUNDS, IN_GRAPH = 200, 60, 100
FOLDER = Path(__file__).parents[1] / "target/bench-operations"
SOURCE = """
extern "C" __global__ void scale(const float *x, float *y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""
SCALE: dict[str, Any] = {"outputs": {"y": "x"}, "values": {"n": "x"}}
OURS, SIZED = "gpulend.torch.op, elements=", "gpulend.torch.op, grid= and block="
EXTENSION, DERIVED = "C++ extension", "C++ extension, register_autograd"
TRITON, PLAIN = "Triton, triton_op", "Triton, no operation"
LIBRARY, CUSTOM = "torch.library.Library, by hand", "torch.library.custom_op, by hand"
LAUNCH = "launch, no operation"
JAX, HANDLER = "gpulend.jax.call", "jax.ffi, C++ handler"
# The peer that a job is held against, and how much of its time ours may take.
GOALS = {
    "torch": (EXTENSION, 1.2),
    "torch, a grid": (EXTENSION, 1.2),
    "torch.compile": (EXTENSION, 1.2),
    "a CUDA graph": (EXTENSION, 1.0),
    "JAX": (HANDLER, 1.2),
    "JAX, queued": (HANDLER, 1.2),
}
# Not peers: they do less. They are printed and not recorded.
LIMITS = (LAUNCH, "its own x * 2")


@dataclass
class Row:
    """A way to call the kernel."""

    call: Callable[[], Any]
    batch: int = BATCH
    # How many operations a call is.
    count: int = 1
    # Waits for what the last call returned; part of the time.
    finish: Callable[[Any], Any] | None = None


Rows = dict[str, Row]
Spent = dict[str, dict[str, list[float]]]


def left_out(what: str, error: Exception) -> None:
    """Say why a peer is not timed."""
    reason = "".join(traceback.format_exception_only(error)).strip()
    print(f"left out: {what}: {reason[-3000:]}", flush=True)


def made(what: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a function makes, or nothing if it cannot."""
    try:
        return make()
    except Exception as error:
        left_out(what, error)
        return {}


def architecture() -> str | None:
    """Return what nvcc calls the GPU, None without one."""
    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def by_hand() -> dict[str, Callable[[Any], Any]]:
    """Return our operations of torch, and the same written with torch.library."""
    kernel = gpulend.compile(SOURCE)["scale"]

    def launch(x: Any, by: float) -> Any:
        n = x.numel()
        y = torch.empty_like(x)
        kernel[(n + 255) // 256, 256](x, y, by, n)
        return y

    def blocks(x: gpulend.operations.Array) -> int:
        return (x.size + 255) // 256

    ours = gpulend.torch.op("bench::elements", kernel, elements="x", **SCALE)
    sized = gpulend.torch.op("bench::grid", kernel, grid=blocks, block=256, **SCALE)

    library = torch.library.Library("bench", "FRAGMENT")
    library.define("library(Tensor x, float by) -> Tensor")
    for key in ("CPU", "CUDA"):
        library.impl("library", launch, key)
    by_library = torch.ops.bench.library.default
    torch.library.register_autograd(by_library, lambda ctx, gradient: (gradient, None), lib=library)
    schema = "(Tensor x, float by) -> Tensor"
    custom = torch.library.custom_op("bench::custom", launch, mutates_args=(), schema=schema)
    custom.register_autograd(lambda ctx, gradient: (gradient, None))
    # The library would be forgotten with its last name.
    return {
        LAUNCH: lambda x, _kept=library: launch(x, 2.0),
        LIBRARY: lambda x: by_library(x, 2.0),
        CUSTOM: lambda x: custom(x, 2.0),
        SIZED: lambda x: sized(x, 2.0),
        OURS: lambda x: ours(x, 2.0),
    }


def extension(folder: Path) -> dict[str, Callable[[Any], Any]]:
    """Return the operations of a C++ extension, without and with a formula of autograd."""
    torch.ops.load_library(str(peers.torch_operation(folder, architecture())))
    plain = torch.ops.bench_extension.scale.default
    derived = torch.ops.bench_extension.scale_autograd.default
    for one in (plain, derived):
        torch.library.register_fake(one, lambda x, by: torch.empty_like(x))
    torch.library.register_autograd(derived, lambda ctx, gradient: (gradient, None))
    return {EXTENSION: lambda x: plain(x, 2.0), DERIVED: lambda x: derived(x, 2.0)}


def triton() -> dict[str, Callable[[Any], Any]]:
    """Return the kernel in Triton."""
    if not torch.cuda.is_available():
        raise RuntimeError("it needs a GPU")
    from peers import triton_op

    return {
        TRITON: lambda x: triton_op.operation(x, 2.0),
        PLAIN: lambda x: triton_op.plain(x, 2.0),
    }


def compiled(call: Callable[[Any], Any], x: Any) -> Row:
    """Return a call inside of a compiled function."""
    function = torch.compile(call, fullgraph=True)
    return Row(lambda: function(x))


def replayed(call: Callable[[Any], Any], x: Any) -> Row:
    """Return replays of a graph of calls."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(IN_GRAPH):
            result = call(x)

    def replay() -> Any:
        graph.replay()
        return result

    return Row(replay, 10, IN_GRAPH, lambda _: torch.cuda.synchronize())


def torch_jobs(folder: Path) -> dict[str, Rows]:
    """Return all rows of torch."""
    x = torch.ones(64, device="cuda" if torch.cuda.is_available() else "cpu")
    calls = by_hand()
    calls |= made("the C++ extension", functools.partial(extension, folder))
    calls |= made("Triton", triton)
    eager = {name: Row(functools.partial(call, x)) for name, call in calls.items()}
    jobs = {
        "torch": {name: row for name, row in eager.items() if name != SIZED},
        "torch, a grid": {name: eager[name] for name in (SIZED, EXTENSION) if name in eager},
    }
    wanted = {name: calls[name] for name in (OURS, EXTENSION, TRITON) if name in calls}
    making = {"torch.compile": compiled}
    if torch.cuda.is_available():
        making["a CUDA graph"] = replayed
    for job, make in making.items():
        jobs[job] = {}
        for name, call in wanted.items():
            one = functools.partial(make, call, x)
            jobs[job] |= made(f"{job}, {name}", lambda name=name, one=one: {name: one()})
    return jobs


def handler(folder: Path) -> dict[str, Callable[[Any], Any]]:
    """Return a compiled program that calls a handler written in C++."""
    import jax

    gpu = jax.default_backend() == "gpu"
    library = ctypes.CDLL(str(peers.xla_handler(folder, architecture() if gpu else None)))
    capsule = jax.ffi.pycapsule(library.BenchScale)
    jax.ffi.register_ffi_target("bench_scale", capsule, platform="CUDA" if gpu else "cpu")

    def scale(x: Any) -> Any:
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call("bench_scale", like)(x, by=np.float32(2))

    return {HANDLER: jax.jit(scale)}


def jax_jobs(folder: Path) -> dict[str, Rows]:
    """Return all rows of JAX."""
    import jax
    import jax.numpy as jnp

    kernel = gpulend.compile(SOURCE)["scale"]
    scale = gpulend.jax.call(kernel, elements="x", **SCALE)
    like = jax.ShapeDtypeStruct((64,), jnp.float32)
    programs = {
        "its own x * 2": jax.jit(lambda x: x * 2),
        JAX: jax.jit(lambda x: scale(x, 2.0)),
        **made("the C++ handler", functools.partial(handler, folder)),
        "pure_callback of x * 2": jax.jit(
            lambda x: jax.pure_callback(lambda x: np.asarray(x) * 2, like, x)
        ),
    }
    x = jnp.ones(64)

    def waiting(program: Callable[[Any], Any]) -> Row:
        return Row(lambda: program(x).block_until_ready())

    def queueing(program: Callable[[Any], Any]) -> Row:
        return Row(lambda: program(x), finish=lambda result: result.block_until_ready())

    return {
        "JAX": {name: waiting(program) for name, program in programs.items()},
        "JAX, queued": {
            name: queueing(program)
            for name, program in programs.items()
            if not name.startswith("pure_callback")
        },
    }


def tensorflow_jobs() -> dict[str, Rows]:
    """Return all rows of TensorFlow."""
    if find_spec("triton") is not None:
        # After TensorFlow, Triton, which torch may import, ends the process.
        import_module("triton._C.libtriton")
    import tensorflow as tf

    kernel = gpulend.compile(SOURCE)["scale"]

    def launch(x: Any) -> Any:
        n = x.shape[0]
        y = gpulend.empty(n, "float32")
        kernel[(n + 255) // 256, 256](x, y, 2.0, n)
        return y.lend("tensorflow")

    @tf.custom_gradient
    def by_hand(x: Any) -> Any:
        return tf.py_function(launch, [x], tf.float32), lambda gradient: gradient

    scale = gpulend.tensorflow.call(kernel, elements="x", **SCALE)
    x = tf.ones(64)
    own = tf.function(lambda x: x * 2)
    back = tf.function(lambda x: tf.py_function(lambda one: one * 2, [x], tf.float32))
    program = tf.function(by_hand)
    ours = tf.function(lambda x: scale(x, 2.0))

    def taped() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            return scale(x, 2.0)

    return {
        "TensorFlow, eager": {
            LAUNCH: Row(lambda: launch(x)),
            "gpulend.tensorflow.call": Row(lambda: scale(x, 2.0)),
            "the same under a tape": Row(taped),
        },
        "tf.function": {
            "its own x * 2": Row(lambda: own(x)),
            "py_function of x * 2": Row(lambda: back(x)),
            "py_function by hand": Row(lambda: program(x)),
            "gpulend.tensorflow.call": Row(lambda: ours(x)),
        },
    }


def on_host(result: Any) -> np.ndarray:
    """Return a framework's array as NumPy's."""
    return result.cpu().numpy() if isinstance(result, torch.Tensor) else np.asarray(result)


def tried(jobs: dict[str, Rows]) -> dict[str, Rows]:
    """Return the rows whose first calls give what they should."""
    found: dict[str, Rows] = {}
    for job, rows in jobs.items():
        for name, row in rows.items():
            try:
                for _ in range(3):
                    np.testing.assert_array_equal(on_host(row.call()), np.full(64, 2, "float32"))
            except Exception as error:
                left_out(f"{job}, {name}", error)
            else:
                found.setdefault(job, {})[name] = row
    return found


def timed(row: Row) -> float:
    """Return nanoseconds an operation, of one batch."""
    call, result = row.call, None
    start = time.perf_counter_ns()
    for _ in range(row.batch):
        result = call()
    if row.finish is not None:
        row.finish(result)
    return (time.perf_counter_ns() - start) / row.batch / row.count


def measure(folder: Path, without: tuple[str, ...], rounds: int) -> Spent:
    """Return all rounds of all rows, by job, in nanoseconds a call."""
    making: dict[str, Callable[[], dict[str, Rows]]] = {
        "torch": functools.partial(torch_jobs, folder),
        "jax": functools.partial(jax_jobs, folder),
        "tensorflow": tensorflow_jobs,
    }
    jobs: dict[str, Rows] = {}
    for framework, make in making.items():
        if framework not in without and find_spec(framework) is not None:
            jobs |= made(framework, make)
    jobs = tried(jobs)
    spent: Spent = {job: {name: [] for name in rows} for job, rows in jobs.items()}
    gc.disable()
    for _ in range(rounds):
        for job, rows in jobs.items():
            for name, row in rows.items():
                row.call()
                spent[job][name].append(timed(row))
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
    gc.enable()
    counts = _native.route_counts()
    for route in ("torch operation: native", "torch operation: dispatcher"):
        print(f"{route}: {counts[route]} calls", flush=True)
    return spent


def ours_of(names: Any) -> str | None:
    """Return the row of a job that is ours."""
    return next((name for name in names if name.startswith("gpulend")), None)


def quotient(run: dict[str, list[float]], ours: str, peer: str) -> float:
    """Return the median over all rounds of our time, divided by the peer's."""
    return median(mine / other for mine, other in zip(run[ours], run[peer], strict=True))


def show(runs: list[Spent]) -> None:
    """Print a table of all rows, and what became of the goals."""
    print("| job | call | best, µs | median, µs | ours / this |\n|---|---|---|---|---|")
    for job, rows in runs[0].items():
        ours = ours_of(rows)
        for name in rows:
            times = [run[job][name] for run in runs]
            best, usual = min(map(min, times)), median(map(median, times))
            ratio = ""
            if ours is not None and name != ours:
                ratio = f"{median(quotient(run[job], ours, name) for run in runs):.2f}"
            print(f"| {job} | {name} | {best / 1000:.2f} | {usual / 1000:.2f} | {ratio} |")
    # Of a simulated GPU, on which the peers have a loop in place of the kernel, ratios say nothing.
    for job, (peer, goal) in GOALS.items() if torch.cuda.is_available() else ():
        rows = runs[0].get(job, {})
        ours = ours_of(rows)
        if ours is None or peer not in rows:
            print(f"{job}: not compared with {peer}, which is missing, or ours is")
            continue
        ratio = median(quotient(run[job], ours, peer) for run in runs)
        # What the clock and a noisy machine cannot tell apart is none of our time.
        met = "met" if ratio <= max(goal, 1.05) else "missed"
        print(f"{job}: {ratio:.2f} of {peer}, goal {goal}: {met}")


def recorded(run: Spent) -> record.Times:
    """Return the median round of ours and of peers that do the same."""
    found: record.Times = {}
    for job, rows in run.items():
        kept = {name: median(times) for name, times in rows.items() if name not in LIMITS}
        if ours_of(kept) is not None and len(kept) > 1:
            found[job] = kept
    return found


def main() -> None:
    options = record.options(
        "operations",
        __doc__,
        ("--rounds", {"type": int, "default": ROUNDS, "help": "batches of each row"}),
        ("--folder", {"type": Path, "default": FOLDER, "help": "where peers in C++ are built"}),
        (
            "--without",
            {
                "nargs": "*",
                "default": [],
                "choices": ("torch", "jax", "tensorflow"),
                "help": "frameworks that are left out",
            },
        ),
    )
    runs = record.measured(
        functools.partial(
            measure, options.folder.resolve(), tuple(options.without), options.rounds
        ),
        options.runs,
    )
    show(runs)
    packages = ("gpulend", "torch", "triton", "jax", "jaxlib", "tensorflow")
    record.write(
        options,
        record.rows([recorded(run) for run in runs]),
        figure=f"median of {options.rounds} rounds",
        machine=torch.cuda.get_device_name() if torch.cuda.is_available() else record.processor(),
        packages=packages,
    )


if __name__ == "__main__":
    main()
