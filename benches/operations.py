"""Time one call of a kernel as an operation of torch, JAX or TensorFlow beside what is written by
hand.

`make bench-operations` runs it; rows of JAX and TensorFlow are timed if they are there. Every row
of torch allocates its result and launches the same kernel on the same tensor, so what differs is
the way there. Rows of JAX are compiled programs, each waited for. Rows of TensorFlow are eager or a
`tf.function`, and lend it the result. On the simulated GPU a call waits for its kernel:
there the differences between rows say more than their ratios. Batches of all rows are interleaved;
the figures are the best batch and the median, in microseconds a call.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

import gpulend
import torch

BATCH, ROUNDS = 200, 60
SOURCE = """
extern "C" __global__ void scale(const float *x, float *y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""


def rows() -> dict[str, Callable[[Any], Any]]:
    kernel = gpulend.compile(SOURCE)["scale"]

    def launch(x: Any, by: float) -> Any:
        n = x.numel()
        y = torch.empty_like(x)
        kernel[(n + 255) // 256, 256](x, y, by, n)
        return y

    def blocks(x: gpulend.operations.Array) -> int:
        return (x.size + 255) // 256

    scale = {"outputs": {"y": "x"}, "values": {"n": "x"}}
    ours = gpulend.torch.op("bench::elements", kernel, elements="x", **scale)
    sized = gpulend.torch.op("bench::grid", kernel, grid=blocks, block=256, **scale)

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
        "launch, no operation": lambda x, _kept=library: launch(x, 2.0),
        "torch.library.Library, by hand": lambda x: by_library(x, 2.0),
        "torch.library.custom_op, by hand": lambda x: custom(x, 2.0),
        "gpulend.torch.op, grid= and block=": lambda x: sized(x, 2.0),
        "gpulend.torch.op, elements=": lambda x: ours(x, 2.0),
    }


def rows_of_jax() -> dict[str, Callable[[Any], Any]]:
    if find_spec("jax") is None:
        return {}
    import jax
    import jax.numpy as jnp

    kernel = gpulend.compile(SOURCE)["scale"]
    scale = gpulend.jax.call(kernel, outputs={"y": "x"}, values={"n": "x"}, elements="x")
    ours = jax.jit(lambda x: scale(x, 2.0))
    own = jax.jit(lambda x: x * 2)
    like = jax.ShapeDtypeStruct((64,), jnp.float32)
    back = jax.jit(lambda x: jax.pure_callback(lambda x: x * 2, like, x))
    x = jnp.ones(64)
    return {
        "JAX, its own x * 2": lambda _: own(x).block_until_ready(),
        "JAX, gpulend.jax.call": lambda _: ours(x).block_until_ready(),
        "JAX, pure_callback of x * 2": lambda _: back(x).block_until_ready(),
    }


def rows_of_tensorflow() -> dict[str, Callable[[Any], Any]]:
    if find_spec("tensorflow") is None:
        return {}
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

    scale = gpulend.tensorflow.call(kernel, outputs={"y": "x"}, values={"n": "x"}, elements="x")
    x = tf.ones(64)
    own = tf.function(lambda x: x * 2)
    back = tf.function(lambda x: tf.py_function(lambda one: one * 2, [x], tf.float32))
    program = tf.function(by_hand)
    ours = tf.function(lambda x: scale(x, 2.0))

    def taped(_: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            return scale(x, 2.0)

    return {
        "TensorFlow, launch, no operation": lambda _: launch(x),
        "TensorFlow, gpulend.tensorflow.call": lambda _: scale(x, 2.0),
        "TensorFlow, the same under a tape": taped,
        "tf.function, its own x * 2": lambda _: own(x),
        "tf.function, py_function of x * 2": lambda _: back(x),
        "tf.function, py_function by hand": lambda _: program(x),
        "tf.function, gpulend.tensorflow.call": lambda _: ours(x),
    }


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.ones(64, device=device)
    calls = {**rows(), **rows_of_jax(), **rows_of_tensorflow()}
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call(x)
            start = time.perf_counter_ns()
            for _ in range(BATCH):
                call(x)
            found[name].append((time.perf_counter_ns() - start) / BATCH / 1000)
            if device == "cuda":
                torch.cuda.synchronize()
    for name, times in found.items():
        print(f"{name:40} {min(times):8.2f} {median(times):8.2f}")


if __name__ == "__main__":
    main()
