"""Kernels as functions of JAX: results, gradients, compiled programs, batches, and mistakes."""

from __future__ import annotations

import functools
import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gpulend
import numpy as np
import pytest

from .conftest import REAL, need
from .kernels import (
    ADD_TO,
    BIAS_GELU,
    BIAS_GELU_BACKWARD,
    COPY,
    HALVES,
    PLACES,
    RAISED,
    RAISED_BACKWARD,
    REPEAT,
    ROWS,
    SCALE,
    SCALE_BACKWARD,
    SOURCE,
    SPLIT,
    kernel,
    one_each,
)

jax = need("jax")
import gpulend.jax  # noqa: E402  JAX is there
import jax.numpy as jnp  # noqa: E402


def call(name: str, **description: Any) -> Any:
    """Make a function of a kernel."""
    return gpulend.jax.call(kernel(name), **description)


def bias_gelu(of: str = "float", **settings: Any) -> Any:
    """Return the fused function with its backward."""
    backward = call(f"bias_gelu_backward<{of}>", **BIAS_GELU_BACKWARD, **settings)
    return call(f"bias_gelu<{of}>", backward=backward, **BIAS_GELU, **settings)


def differentiable_scale(**settings: Any) -> Any:
    """Return x * by with its backward."""
    backward = call("scale_backward", **SCALE_BACKWARD, **settings)
    return call("scale", backward=backward, **SCALE, **settings)


def own(x: Any, bias: Any) -> Any:
    """Do what the fused kernel does, with JAX's own operations."""
    return jax.nn.gelu(x + bias, approximate=False)


def numbers(*shape: int, dtype: str = "float32") -> Any:
    """Return the same array for the same shape."""
    return jnp.asarray(np.random.default_rng(sum(shape)).standard_normal(shape), dtype)


def close(found: Any, wanted: Any, **settings: Any) -> None:
    """Compare arrays that were computed in another order."""
    settings = {"rtol": 2e-5, "atol": 2e-6, **settings}
    jax.tree.map(lambda *pair: np.testing.assert_allclose(*pair, **settings), found, wanted)


def test_outputs_have_the_shapes_and_types_that_are_described() -> None:
    """As for torch, inside `jit` and outside."""
    x, some = numbers(3, 5), jnp.arange(4, dtype="int32")
    for way in (jax.jit, lambda function: function):
        whole, signs = way(call("split", **SPLIT))(x)
        np.testing.assert_array_equal(whole, jnp.floor(x))
        assert (signs.dtype, signs.shape) == (jnp.int32, (15,))
        repeated = way(lambda x: call("repeat", **REPEAT)(x, 3, True))(some)
        np.testing.assert_array_equal(repeated, -jnp.repeat(some[:, None], 3, 1))
        close(way(call("rows", **ROWS))(x), x.sum(1))
        close(way(lambda x: call("copy", **COPY)(x, is_=2))(x), x + 2)
        described = one_each(
            "x", outputs={"y": "x"}, values={"pair": bytes([3, 0, 0, 0, 1, 0, 0, 0])}
        )
        np.testing.assert_array_equal(way(call("paired", **described))(some), some * 3 + 1)


def test_gradients_are_those_of_jax() -> None:
    """Of x and of the bias, by a second kernel, in one compiled program."""
    fused = bias_gelu()
    for shape in [(7, 5), (1, 1), (2, 3, 5)]:
        x, bias = numbers(*shape), numbers(shape[-1])

        def differentiated(function: Any, x: Any = x, bias: Any = bias) -> Any:
            square = jax.value_and_grad(lambda *both: (function(*both) ** 2).sum(), (0, 1))
            return jax.jit(square)(x, bias)

        close(differentiated(fused), differentiated(own), rtol=2e-4)


def test_a_backward_takes_the_forward_s_output() -> None:
    """Which JAX keeps for it."""
    raised = call("raised", backward=call("raised_backward", **RAISED_BACKWARD), **RAISED)
    x = numbers(5)
    close(jax.jit(jax.grad(lambda x: raised(x).sum()))(x), jnp.exp(x))


def test_elements_of_16_bits_and_numbers_in_memory() -> None:
    """An array without axes, traced, and one of bools."""
    x = numbers(6).astype("bfloat16")
    found = jax.jit(call("halves", **HALVES))(x, jnp.float32(2), x > 0)
    np.testing.assert_array_equal(found, jnp.where(x > 0, x * 2, x))


def test_zero_has_a_sign() -> None:
    """Numbers are part of a launch, and launches that only look alike are not taken for one."""
    scale = call("scale", **SCALE)
    signs = [np.signbit(scale(jnp.ones(1), by)).item() for by in (0.0, -0.0, 0.0)]
    assert signs == [False, True, False]
    assert np.isnan(scale(jnp.ones(1), float("nan"))).all()


def test_gradients_agree_with_differences() -> None:
    """By JAX's own check, with double precision."""
    from jax.test_util import check_grads

    with jax.enable_x64(True):
        fused = bias_gelu("double")
        given = numbers(3, 4, dtype="float64"), numbers(4, dtype="float64")
        check_grads(fused, given, order=1, modes=["rev"])


def test_a_backward_of_python() -> None:
    """It gets inputs, outputs and gradients."""

    def backward(arrays: Any, outputs: Any, gradients: Any) -> Any:
        (x,), (y,), (gradient,) = arrays, outputs, gradients
        return (gradient * y / x,)

    scale = call("scale", backward=backward, **SCALE)
    gradient = jax.jit(jax.grad(lambda x: scale(x, 3.0).sum()))(jnp.arange(1.0, 5.0))
    close(gradient, np.full(4, 3.0))


def test_a_model_trains_in_a_compiled_program() -> None:
    """One program a step: each loss is that of JAX's own operations."""
    x = numbers(64, 4)
    wanted = jnp.sin(jnp.sum(x * x, 1, keepdims=True))

    def train(activation: Any) -> list[float]:
        weights = {"first": numbers(4, 8), "bias": jnp.zeros(8), "second": numbers(8, 1) / 3}

        def loss(weights: Any) -> Any:
            hidden = activation(x @ weights["first"], weights["bias"])
            return ((hidden @ weights["second"] - wanted) ** 2).mean()

        @jax.jit
        def step(weights: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(weights)
            return value, jax.tree.map(lambda w, g: w - 0.03 * g, weights, gradients)

        losses = []
        for _ in range(12):
            value, weights = step(weights)
            losses.append(float(value))
        return losses

    losses = train(bias_gelu())
    close(losses, train(own), rtol=1e-4)
    assert losses[-1] < losses[0] * 0.9


def test_a_program_calls_no_python() -> None:
    """XLA's handler alone launches: the compiled program has its target, and no callback."""
    scale = call("scale", **SCALE)
    program = jax.jit(lambda x: scale(x, 2.0) + 1).lower(numbers(4)).compile()
    text = program.as_text()
    assert 'custom_call_target="gpulend_launch"' in text
    assert "callback" not in text
    # Python cannot run while a thread holds the GIL and waits, and the program still ends.
    close(program(numbers(4)), numbers(4) * 2 + 1)


@pytest.mark.parametrize("method", ["sequential", "broadcast_all"])
def test_vmap(method: Any) -> None:
    """Over any axis, nested, with gradients, inside `jit` and outside."""
    scale = differentiable_scale(vmap=method)
    x = numbers(2, 3, 4)
    for axis in (0, 1, 2):
        mapped = jax.vmap(lambda x: scale(x, 2.0), in_axes=axis, out_axes=axis)
        close(mapped(x), x * 2)
        close(jax.jit(mapped)(x), x * 2)
    close(jax.vmap(jax.vmap(lambda x: scale(x, 2.0)))(x), x * 2)
    gradient = jax.vmap(jax.grad(lambda x: (scale(x, 2.0) ** 2).sum()))
    close(jax.jit(gradient)(x), x * 8)
    close(jax.grad(lambda x: jax.vmap(lambda x: scale(x, 2.0) ** 2)(x).sum())(x), x * 8)


def test_vmap_with_what_has_no_batch() -> None:
    """One bias for all; or one factor, which is repeated where one launch does it all."""
    product = call("raised_backward", vmap="broadcast_all", **RAISED_BACKWARD)
    some, factor = numbers(3, 5), numbers(5)
    close(jax.vmap(product, (0, None))(some, factor), some * factor)
    close(jax.vmap(product, (None, 0))(factor, some), some * factor)
    x, bias = numbers(3, 2, 5), numbers(5)
    close(jax.vmap(bias_gelu(), (0, None))(x, bias), own(x, bias))


def test_arrays_are_changed_in_place_only_if_they_are_given_away() -> None:
    """XLA copies an array that is still needed, and uses the memory of one that is donated."""
    add_to = call("add_to", **ADD_TO)
    x, y = numbers(1000), numbers(1000) + 1
    before = np.array(x)
    changed = jax.jit(add_to)(x, y)
    np.testing.assert_array_equal(x, before)
    close(changed, before + y)
    close(jax.jit(lambda x, y: add_to(add_to(x, y), y) + x)(x, y), before * 2 + y * 2)
    step = jax.jit(add_to, donate_argnums=0)
    mine = jnp.array(x)
    address = mine.unsafe_buffer_pointer()
    after = step(mine, y)
    assert mine.is_deleted()
    assert after.unsafe_buffer_pointer() == address
    close(after, before + y)
    close(jax.vmap(add_to)(x.reshape(10, 100), y.reshape(10, 100)), (before + y).reshape(10, 100))


def test_loops_and_branches() -> None:
    """Inside scan and cond, where XLA calls the handler as often as it likes."""
    scale = differentiable_scale()

    def loop(x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            return jax.lax.cond(x[0] > 0, lambda x: scale(x, 2.0), lambda x: scale(x, 3.0), x), x[0]

        return jax.lax.scan(step, x, length=5)[0]

    close(jax.jit(loop)(jnp.ones(3)), np.full(3, 32.0))
    close(jax.jit(jax.grad(lambda x: loop(x).sum()))(-jnp.ones(3)), np.full(3, 243.0))


@pytest.mark.skipif(REAL, reason="a kernel is compiled for one GPU")
def test_devices_share_the_work() -> None:
    """Two of the host's, each with the shapes of its own part."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    assert len(jax.devices()) == 2
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    rows = PartitionSpec("rows")
    x = jax.device_put(numbers(6, 5), NamedSharding(mesh, rows))
    fused = bias_gelu()
    spread = jax.jit(
        jax.shard_map(fused, mesh=mesh, in_specs=(rows, PartitionSpec()), out_specs=rows)
    )
    close(spread(x, numbers(5)), own(numbers(6, 5), numbers(5)))


def test_threads_run_one_program() -> None:
    """Which was traced by one of them, or by several at once."""
    scale = differentiable_scale()
    program = jax.jit(jax.value_and_grad(lambda x: scale(x, 3.0).sum()))
    wrong: list[Any] = []

    def work(by: int) -> None:
        for count in range(1, 30):
            value, gradient = program(jnp.full(count % 3 + 1, float(by)))
            if float(value) != 3.0 * by * (count % 3 + 1) or float(gradient[0]) != 3.0:
                wrong.append((by, value))

    threads = [threading.Thread(target=work, args=(by,)) for by in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_program_keeps_its_kernel() -> None:
    """Function, kernel and module may go out of scope, and XLA still launches."""
    module = gpulend.compile(SOURCE.replace("x[i] * by", "x[i] * by + 1"))
    scale = gpulend.jax.call(module["scale"], **SCALE)
    program = jax.jit(functools.partial(lambda scale, x: scale(x, 2.0), scale))
    program = program.lower(jnp.ones(2)).compile()
    del module, scale
    gc.collect()
    assert program(jnp.ones(2)).tolist() == [3.0, 3.0]


WRONG: dict[str, tuple[Any, str]] = {
    "element type": (
        lambda scale: scale(jnp.ones(4, "int32"), 2.0),
        r'argument 1 \(x\) is an int32 array.*convert it \(x.astype\("float32"\)\)',
    ),
    "no array": (
        lambda scale: scale([1.0], 2.0),
        "argument x is a list, and the kernel wants const",
    ),
    "array for a number": (
        lambda scale: scale(jnp.ones(4), jnp.float32(2)),
        r"argument by is an array of JAX, and a launch needs its number.*(pass by.item|static)",
    ),
    "traced number": (
        lambda scale: jax.jit(scale)(jnp.ones(4), 2.0),
        r"make by a static argument of jit, or declare const float \*by",
    ),
    "text for a number": (
        lambda scale: scale(jnp.ones(4), "two"),
        "by is 'two', and the kernel wants",
    ),
    "range": (
        lambda scale: scale(jnp.ones(4), 1e300),
        r"argument 3 \(by\) is 1e300, which is infinite",
    ),
    "count": (lambda scale: scale(jnp.ones(4)), r"scale takes 2 arguments \(x, by\), and got 1"),
    "name": (lambda scale: scale(jnp.ones(4), to=2.0), r"2 arguments \(x, by\), and got 1, to"),
    "too many": (lambda scale: scale(jnp.ones(4), 1.0, by=2.0), r"\(x, by\), and got 1, 2, by"),
    "no backward": (
        lambda scale: jax.grad(lambda x: scale(x, 2.0).sum())(jnp.ones(4)),
        "scale has no backward; give backward= to gpulend.jax.call",
    ),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("mistake", WRONG)
def test_an_error_has_a_name(mistake: str, compiled: bool) -> None:
    """While a program is traced, before anything runs; the next call works."""
    use, said = WRONG[mistake]
    scale = call("scale", **SCALE)
    with pytest.raises(gpulend.SignatureError, match=said):
        jax.jit(lambda: use(scale))() if compiled else use(scale)
    close(scale(jnp.ones(3), 2.0), np.full(3, 2.0))


def test_vmap_is_refused_by_name() -> None:
    """Where the description says so."""
    scale = call("scale", vmap=None, **SCALE)
    with pytest.raises(gpulend.SignatureError, match=r"cannot be called inside vmap.*vmap=None"):
        jax.vmap(lambda x: scale(x, 2.0))(numbers(3, 4))
    close(scale(numbers(3), 2.0), numbers(3) * 2)


def test_nothing_is_launched_for_nothing() -> None:
    """Empty outputs are empty, and no output stays unwritten."""
    scale, whole = call("scale", **SCALE), one_each("x", outputs={"y": (2,)})
    assert jax.jit(lambda x: scale(x, 2.0))(jnp.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(
        gpulend.SignatureError, match=r"the launch is empty.*output y of shape \(2,\)"
    ):
        call("scale", **whole)(jnp.zeros(0), 2.0)
    assert call("scale", zeroed="y", **whole)(jnp.zeros(0), 2.0).tolist() == [0, 0]
    assert call("add_to", **ADD_TO)(jnp.zeros(0), jnp.zeros(0)).shape == (0,)


def test_sizes_are_checked_while_a_program_is_traced() -> None:
    """Grids, blocks and rules."""
    with pytest.raises(gpulend.KernelError, match=r"rows.*grid"):
        call("rows", **{**ROWS, "grid": -1})(numbers(2, 3))
    with pytest.raises(gpulend.KernelError, match=r"rows.*the block has 4096 along x"):
        call("rows", **{**ROWS, "block": 4096})(numbers(2, 3))
    with pytest.raises(
        gpulend.SignatureError, match=r"cannot be computed for float32\[3\]: IndexError"
    ):
        call("rows", **ROWS)(numbers(3))


def test_results_of_64_bits_need_a_setting() -> None:
    """Else JAX would have an array that it does not allow."""
    described = one_each("x", outputs={"y": "x"}, dtypes={"y": "float64"})
    with pytest.raises(gpulend.SignatureError, match=r"elements of float64.*jax_enable_x64"):
        call("raw", **described)(numbers(3))


@pytest.mark.usefixtures("mistaken")
@pytest.mark.skipif(REAL, reason="a real GPU's context would be lost")
def test_a_kernel_that_goes_wrong_is_named() -> None:
    """By the program that XLA runs; the next program works."""
    outside = jax.jit(call("outside", **one_each("x", outputs={"y": "x"})))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"gpulend error 810: .*outside"):
        outside(numbers(4)).block_until_ready()
    close(call("scale", **SCALE)(numbers(3), 2.0), numbers(3) * 2)


EXPORTED = """
import sys, jax, jax.numpy as jnp, gpulend, gpulend.jax
from operations.kernels import SCALE, kernel
# The first launch of this process, as the exported program's was of its own.
scale = gpulend.jax.call(kernel("scale"), **SCALE)
assert scale(jnp.ones(3), 5.0).tolist() == [5.0] * 3
program = jax.export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
try:
    print(program.call(jnp.ones(3)))
except jax.errors.JaxRuntimeError as error:
    print(error)
"""


def test_an_exported_program_does_not_find_another_process_s_kernel(tmp_path: Path) -> None:
    """It works here. Elsewhere there is no such launch, and no other is taken for it."""
    from jax import export

    scale = call("scale", **SCALE)
    known = [export.DisabledSafetyCheck.custom_call("gpulend_launch")]
    program = export.export(jax.jit(lambda x: scale(x, 2.0)), disabled_checks=known)(jnp.ones(3))
    assert program.call(jnp.ones(3)).tolist() == [2.0] * 3
    (tmp_path / "program").write_bytes(program.serialize())
    ended = subprocess.run(
        [sys.executable, "-c", EXPORTED, str(tmp_path / "program")],
        cwd=Path(__file__).parents[1],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "launches a kernel of another process" in ended.stdout


EXIT = """
import jax, jax.numpy as jnp, gpulend
from operations.kernels import SCALE, kernel
scale = gpulend.jax.call(kernel("scale"), **SCALE)
program = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, x: scale(x, 1.0), x))
x = jnp.ones(1 << 16)
for _ in range(8):
    x = program(x)
"""


def test_a_program_may_end_while_launches_are_queued() -> None:
    """XLA runs them on threads of its own."""
    folder = Path(__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", EXIT], cwd=folder, timeout=60, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("shape", [(2, 3), (5, 40), (3, 2000)])
def test_elements_may_be_a_shape(shape: tuple[int, int]) -> None:
    """With a thread for each, of which the last axis is x."""
    rows, columns = np.indices(shape)
    found = jax.jit(call("places", **PLACES))(jnp.zeros(shape, "float32"))
    np.testing.assert_array_equal(found, rows * 1000 + columns)


def test_no_elements_along_an_axis_are_no_launch() -> None:
    """Nothing would write the output."""
    assert call("places", **PLACES)(jnp.zeros((0, 3), "float32")).shape == (0, 3)
    unwritten = call("scale", **{**SCALE, "outputs": {"y": (5,)}, "elements": (0, 4)})
    with pytest.raises(gpulend.SignatureError, match="the launch is empty"):
        unwritten(jnp.zeros(3, "float32"), 2.0)


@pytest.mark.parametrize("elements", [-3, 2**70, lambda x: -1, (1, 2, 3, 4)])
def test_elements_that_cannot_be_are_refused(elements: Any) -> None:
    """As `forall` refuses them."""
    wrong = call("scale", **{**SCALE, "elements": elements})
    with pytest.raises(gpulend.KernelError, match="scale"):
        wrong(jnp.zeros(3, "float32"), 2.0)


@pytest.mark.parametrize("shape", [(-1,), (2**40, 2**40)])
def test_an_output_that_cannot_be_is_refused(shape: tuple[int, ...]) -> None:
    """XLA would end the process."""
    wrong = call("scale", **{**SCALE, "outputs": {"y": shape}})
    with pytest.raises(gpulend.SignatureError, match=r"the shape of y is \("):
        wrong(jnp.zeros(3, "float32"), 2.0)


@pytest.mark.parametrize("number", ["2", b"2.5", 10**400, None])
def test_a_number_is_one_as_in_a_launch(number: Any) -> None:
    """Not what Python could make of it."""
    with pytest.raises(gpulend.SignatureError):
        call("scale", **SCALE)(jnp.zeros(3, "float32"), number)
    with pytest.raises(gpulend.SignatureError):
        call("repeat", **REPEAT)(jnp.zeros(3, "int32"), 2, number or 2)
