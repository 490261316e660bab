"""Kernels as functions of TensorFlow: results, gradients, programs, Keras, and mistakes."""

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

tf = need("tensorflow")
import gpulend.tensorflow  # noqa: E402  TensorFlow is there

WAYS = {"eager": lambda function: function, "program": tf.function}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def call(name: str, **description: Any) -> Any:
    """Make a function of a kernel."""
    return gpulend.tensorflow.call(kernel(name), **description)


def bias_gelu(of: str = "float") -> Any:
    """Return the fused function with its backward."""
    backward = call(f"bias_gelu_backward<{of}>", **BIAS_GELU_BACKWARD)
    return call(f"bias_gelu<{of}>", backward=backward, **BIAS_GELU)


def differentiable_scale() -> Any:
    """Return x * by with its backward."""
    return call("scale", backward=call("scale_backward", **SCALE_BACKWARD), **SCALE)


def twice_differentiable() -> Any:
    """Return exp(x), whose backward takes the output and has a backward itself."""

    def product(arrays: Any, _outputs: Any, gradients: Any) -> Any:
        (grad_y, y), (gradient,) = arrays, gradients
        return gradient * y, gradient * grad_y

    backward = call("raised_backward", backward=product, **RAISED_BACKWARD)
    return call("raised", backward=backward, **RAISED)


def own(x: Any, bias: Any) -> Any:
    """Do what the fused kernel does, with TensorFlow's own operations."""
    return tf.nn.gelu(x + bias, approximate=False)


def numbers(*shape: int, dtype: str = "float32") -> Any:
    """Return the same tensor for the same shape."""
    return tf.constant(np.random.default_rng(sum(shape)).standard_normal(shape), dtype)


def close(found: Any, wanted: Any, **settings: Any) -> None:
    """Compare tensors that were computed in another order."""
    settings = {"rtol": 2e-5, "atol": 2e-6, **settings}
    several = isinstance(found, (list, tuple))
    for one, other in zip(*((found, wanted) if several else ([found], [wanted])), strict=True):
        np.testing.assert_allclose(one, other, **settings)


def gradients(function: Any, *inputs: Any) -> Any:
    """Return the gradients of the sum of squares."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.reduce_sum(function(*inputs) ** 2)
    return [tf.convert_to_tensor(one) for one in tape.gradient(total, inputs)]


@ways
def test_outputs_have_the_shapes_and_types_that_are_described(way: Any) -> None:
    """As for torch and JAX."""
    x, some = numbers(3, 5), tf.range(4)
    whole, signs = way(call("split", **SPLIT))(x)
    close(whole, tf.floor(x))
    assert (signs.dtype, signs.shape) == (tf.int32, (15,))
    repeated = way(lambda x: call("repeat", **REPEAT)(x, 3, True))(some)
    close(repeated, -tf.repeat(some[:, None], 3, 1))
    close(way(call("rows", **ROWS))(x), tf.reduce_sum(x, 1))
    close(way(lambda x: call("copy", **COPY)(x, is_=2))(x), x + 2)
    pair = one_each("x", outputs={"y": "x"}, values={"pair": bytes([3, 0, 0, 0, 1, 0, 0, 0])})
    close(way(call("paired", **pair))(some), some * 3 + 1)
    half = tf.cast(numbers(6), tf.bfloat16)
    halves = way(call("halves", **HALVES))(half, tf.constant(2.0), half > 0)
    np.testing.assert_array_equal(halves, tf.where(half > 0, half * 2, half))
    rows, columns = np.indices((5, 40))
    close(way(call("places", **PLACES))(tf.zeros((5, 40))), rows * 1000.0 + columns)


@ways
def test_nothing_is_copied(way: Any) -> None:
    """The kernel reads the tensor's memory, and the result is the memory that it wrote."""
    addresses = []
    launch = gpulend.tensorflow.Call._launch

    def seen(self: Any, given: Any, *arrays: Any) -> Any:
        results = launch(self, given, *arrays)
        addresses.extend(gpulend.borrow(one).address for one in (*arrays, *results))
        return results

    x, scale = numbers(1000), differentiable_scale()
    with pytest.MonkeyPatch.context() as patch, tf.GradientTape() as tape:
        patch.setattr(gpulend.tensorflow.Call, "_launch", seen)
        tape.watch(x)
        y = way(lambda x: scale(x, 2.0))(x)
    assert addresses == [gpulend.borrow(x).address, gpulend.borrow(y).address]


@ways
def test_gradients_are_those_of_tensorflow(way: Any) -> None:
    """Of x and of the bias, by a second kernel; also with the tape inside the program."""
    fused = bias_gelu()
    for shape in [(7, 5), (1, 1), (2, 3, 5)]:
        given = numbers(*shape), numbers(shape[-1])
        wanted = gradients(own, *given)
        close(gradients(way(fused), *given), wanted, rtol=2e-4)
        close(way(lambda *given: gradients(fused, *given))(*given), wanted, rtol=2e-4)
    given = numbers(3, 4, dtype="float64"), numbers(4, dtype="float64")
    found, wanted = tf.test.compute_gradient(way(bias_gelu("double")), given)
    close(found, wanted)


@ways
def test_gradients_of_what_is_picked_and_of_what_is_not_used(way: Any) -> None:
    """A gradient of a few rows is made whole, and that of an unused output is zeros."""
    scale = differentiable_scale()
    x = numbers(4, 3)
    picked = way(lambda x: tf.gather(scale(x, 2.0), [1, 1]))
    close(gradients(picked, x), gradients(lambda x: tf.gather(x * 2, [1, 1]), x))
    split = call("split", backward=lambda _arrays, _outputs, given: (given[0] + 1,), **SPLIT)
    close(gradients(way(lambda x: split(x)[0]), x), [2 * tf.floor(x) + 1])


def second(function: Any, x: Any) -> Any:
    """Return first and second derivatives of the sum of squares."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        (first,) = gradients(function, x)
    return first, outer.gradient(first, x)


@ways
def test_second_derivatives(way: Any) -> None:
    """Also through an output that the backward takes; inside a program if it is one."""
    raised, x = twice_differentiable(), numbers(5)
    close(way(lambda x: second(raised, x))(x), second(tf.exp, x), rtol=1e-4)
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as forward:
        y = raised(x)
    close(forward.jvp(y), tf.exp(x))
    once = differentiable_scale()
    with pytest.raises(gpulend.SignatureError, match="scale_backward has no backward"):
        way(lambda x: second(functools.partial(once, by=2.0), x))(x)


def keras_losses(activation: Any, rows: int = 70, **settings: Any) -> list[float]:
    """Train a small model, whose last batch of an epoch is smaller, and return its losses."""
    keras = need("keras")

    class Fused(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.bias = self.add_weight(shape=(shape[-1],), initializer="zeros")

        def call(self, x: Any) -> Any:
            return activation(x, self.bias)

    keras.utils.set_random_seed(0)
    first = keras.layers.Dense(8, use_bias=False)
    model = keras.Sequential([keras.Input((4,)), first, Fused(), keras.layers.Dense(1)])
    assert model.output_shape == (None, 1)
    model.compile(keras.optimizers.SGD(0.1), "mse", **{"jit_compile": False, **settings})
    x = numbers(rows, 4).numpy()
    wanted = np.sin(np.sum(x * x, 1, keepdims=True))
    fitted = model.fit(x, wanted, batch_size=16, epochs=5, shuffle=False, verbose=0)
    losses: list[float] = fitted.history["loss"]
    return losses


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_model_trains(eagerly: bool) -> None:
    """By `model.fit`: each loss is that of TensorFlow's own operations."""
    losses = keras_losses(bias_gelu(), run_eagerly=eagerly)
    close(losses, keras_losses(own, run_eagerly=eagerly), rtol=1e-4)
    assert losses[-1] < losses[0] * 0.9


def test_a_functional_model_has_static_shapes() -> None:
    """Of a `Lambda`, whose batch is unknown."""
    keras, scale = need("keras"), call("scale", **SCALE)
    given = keras.Input((3,))
    model = keras.Model(given, keras.layers.Lambda(lambda x: scale(x, 2.0))(given))
    assert model.output_shape == (None, 3)
    close(model(numbers(2, 3)), numbers(2, 3) * 2)
    with pytest.raises(gpulend.SignatureError, match=r"x is a KerasTensor.*in the layer's `call`"):
        scale(given, 2.0)


# The shape of an input, a rule for the output's, and what is known before the program runs.
STATIC: dict[str, tuple[Any, Any, Any]] = {
    "all": ([4, 3], "x", [4, 3]),
    "batch": ([None, 3], "x", [None, 3]),
    "axes": (None, "x", None),
    "constant": (None, (12,), [12]),
    "one axis": ([None, 3], lambda x: (x.shape[0], x.shape[1] * 4), [None, 12]),
    "computed": ([None, 3], lambda x: (-(-x.size // 2) + 1, 7), [None, 7]),
    "size": ([None, 3], lambda x: x.size, [None]),
    "branch": ([None, 3], lambda x: (12,) if x.shape[0] > 2 else (3, 4), None),
    "equality": ([None, 3], lambda x: (12,) if x.shape[0] == 4 else (3, 4), None),
    "repeated": ([None, 3], lambda x: (2,) * x.shape[0], None),
    "looked up": ([None, 3], lambda x: {4: (2, 6)}[x.shape[0]], None),
    "unknown axis": (None, lambda x: (x.shape[0],), None),
}


@pytest.mark.parametrize("case", STATIC)
def test_shapes_are_known_where_they_can_be(case: str) -> None:
    """And what is not known stays unknown, until the program runs."""
    shape, rule, wanted = STATIC[case]
    described = {**SCALE, "outputs": {"y": rule}, "elements": 1, "values": {"n": 1}}
    scale = call("scale", **described)
    program = tf.function(
        lambda x: scale(x, 2.0), input_signature=[tf.TensorSpec(shape, tf.float32)]
    )
    found = program.get_concrete_function().structured_outputs.shape
    assert found.rank == tf.TensorShape(wanted).rank
    if wanted is not None:
        assert found.as_list() == wanted
    assert tf.TensorShape(wanted).is_compatible_with(program(numbers(4, 3)).shape)


def test_one_program_serves_all_batches() -> None:
    """It is traced once, and nothing is launched for an empty batch."""
    traced = []
    scale = differentiable_scale()

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32)])
    def program(x: Any) -> Any:
        traced.append(1)
        return scale(x, 2.0)

    for rows in (1, 5, 0, 300):
        x = numbers(rows, 3)
        close(gradients(program, x), [x * 8])
        assert program(x).shape == (rows, 3)
    assert len(traced) == 1


def test_loops_branches_maps_and_datasets() -> None:
    """Wherever TensorFlow calls a program."""
    scale, x = differentiable_scale(), numbers(4, 3)

    @tf.function
    def loop(x: Any) -> Any:
        for _ in tf.range(3):
            x = tf.cond(x[0, 0] > 1e6, lambda x=x: scale(x, 9.0), lambda x=x: scale(x, 2.0))
        return x

    close(gradients(loop, x), [x * 128])
    close(tf.map_fn(lambda row: scale(row, 2.0), x), x * 2)
    close(gradients(lambda x: tf.map_fn(lambda row: scale(row, 2.0), x), x), [x * 8])
    rows = tf.data.Dataset.from_tensor_slices(x)
    rows = rows.map(lambda row: scale(row, 2.0), num_parallel_calls=2).batch(4)
    close(next(iter(rows)), x * 2)
    tf.config.run_functions_eagerly(True)
    try:
        close(gradients(tf.function(lambda x: scale(x, 2.0)), x), [x * 8])
    finally:
        tf.config.run_functions_eagerly(False)


def test_vectorized_map_is_a_loop() -> None:
    """One launch for each element; gradients inside it work, and outside they fail or are right."""
    scale, x = differentiable_scale(), numbers(4, 3)
    close(tf.vectorized_map(lambda row: scale(row, 2.0), x), x * 2)
    found = tf.vectorized_map(lambda row: gradients(lambda row: scale(row, 2.0), row)[0], x)
    close(found, x * 8)

    @tf.function
    def jacobian(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = scale(x, 2.0)
        return tape.jacobian(y, x)

    close(jacobian(x[0]), 2 * tf.eye(3))

    def outside(x: Any) -> Any:
        return gradients(lambda x: tf.vectorized_map(lambda row: scale(row, 2.0), x), x)

    close(outside(x[:1]), [x[:1] * 8])
    with pytest.raises(tf.errors.UnknownError, match="KeyError"):
        outside(x)


def test_threads_run_one_program() -> None:
    """Which was traced by one of them, or by several at once; some calls are eager."""
    scale = differentiable_scale()
    program = tf.function(lambda x: scale(x, 3.0), reduce_retracing=True)
    wrong: list[Any] = []

    def work(by: int) -> None:
        for count in range(1, 20):
            x = tf.fill([count % 3 + 1], float(by))
            function = program if count % 4 else lambda x: scale(x, 3.0)
            (gradient,) = gradients(function, x)
            if not np.array_equal(gradient, x * 18):
                wrong.append((by, gradient))

    threads = [threading.Thread(target=work, args=(by,)) for by in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@ways
def test_nothing_is_held_after_a_call(way: Any) -> None:
    """Neither by TensorFlow's programs nor by its tapes, though both live on."""
    before = len(gpulend.ledger())
    scale = differentiable_scale()
    program = way(lambda x: scale(x, 2.0))
    for _ in range(5):
        gradients(program, numbers(100))
    result = program(numbers(100))
    gc.collect()
    assert len(gpulend.ledger()) - before == 2, "the result, lease and export"
    del result
    assert len(gpulend.ledger()) == before


def test_a_program_keeps_its_kernel() -> None:
    """Function, kernel and module may go out of scope, and the program still launches."""
    module = gpulend.compile(SOURCE.replace("x[i] * by", "x[i] * by + 1"))
    scale = gpulend.tensorflow.call(module["scale"], **SCALE)
    program = tf.function(functools.partial(lambda scale, x: scale(x, 2.0), scale))
    program = program.get_concrete_function(tf.ones(2))
    del module, scale
    gc.collect()
    close(program(tf.ones(2)), [3.0, 3.0])


def test_what_becomes_a_tensor_is_taken() -> None:
    """Lists have the kernel's type; variables are differentiated; arrays keep their own type."""
    scale, variable = differentiable_scale(), tf.Variable([1.0, 2.0])
    close(scale([1, 2], 2.0), [2.0, 4.0])
    close(scale(np.ones(3, "float32"), by=2), [2.0] * 3)
    close(scale(3.0, np.float32(2)), 6.0)
    with tf.GradientTape() as tape:
        y = scale(variable, 2.0)
    close(tape.gradient(y, variable), [2.0, 2.0])


def test_a_function_shows_its_kernel() -> None:
    """And both names of the module are there."""
    scale = call("scale", **SCALE)
    assert repr(scale) == f"<gpulend.tensorflow.Call {kernel('scale').signature}>"
    assert isinstance(scale, gpulend.tensorflow.Call)


WRONG: dict[str, tuple[Any, str]] = {
    "element type": (
        lambda scale: scale(tf.ones(4, tf.int32), 2.0),
        r'argument 1 \(x\) is an int32 array.*convert it \(tf.cast\(x, "float32"\)\)',
    ),
    "array of doubles": (
        lambda scale: scale(np.ones(4), 2.0),
        r"argument 1 \(x\) is a float64 array",
    ),
    "no tensor": (
        lambda scale: scale(object(), 2.0),
        r"argument x is a object, of which TensorFlow makes no tensor, and the kernel wants const",
    ),
    "sparse": (
        lambda scale: scale(tf.sparse.eye(3), 2.0),
        "argument x is a SparseTensor.*pass a dense tensor",
    ),
    "tensor for a number": (
        lambda scale: scale(tf.ones(4), tf.constant(2.0)),
        r"argument by is a tensor.*(by.numpy|number of Python).*, or declare const float \*by",
    ),
    "text for a number": (
        lambda scale: scale(tf.ones(4), "two"),
        "by is 'two', and the kernel wants float",
    ),
    "nothing for a number": (lambda scale: scale(tf.ones(4), None), "by is None"),
    "huge number": (lambda scale: scale(tf.ones(4), 10**400), "by is 1000.*kernel wants float"),
    "count": (lambda scale: scale(tf.ones(4)), r"scale takes 2 arguments \(x, by\), and got 1"),
    "name": (lambda scale: scale(tf.ones(4), to=2.0), r"2 arguments \(x, by\), and got 1, to"),
    "too many": (lambda scale: scale(tf.ones(4), 1.0, by=2.0), r"\(x, by\), and got 1, 2, by"),
    "no backward": (
        lambda scale: gradients(lambda x: scale(x, 2.0), tf.ones(4)),
        "scale has no backward; give backward= to gpulend.tensorflow.call",
    ),
    "empty launch": (
        lambda _: call("scale", **{**SCALE, "outputs": {"y": (2,)}})(tf.zeros(0), 2.0),
        r"the launch is empty.*output y of shape \(2,\)",
    ),
    "type of an empty launch": (
        lambda scale: scale(tf.zeros(0, tf.int32), 2.0),
        r"argument 1 \(x\) is an int32 array",
    ),
    "negative shape": (
        lambda _: call("scale", **{**SCALE, "outputs": {"y": (-1,)}})(tf.ones(3), 2.0),
        r"the shape of y is \(-1,\)",
    ),
    "broken shape": (
        lambda _: call("scale", **{**SCALE, "outputs": {"y": lambda x: (x.size / 2,)}})(
            tf.ones(3), 2.0
        ),
        r"the shape of y is \(1.5,\); extents are ints",
    ),
    "rule": (
        lambda _: call("rows", **ROWS)(tf.ones(3)),
        r"cannot be computed for float32\[3\]: IndexError",
    ),
}


@ways
@pytest.mark.parametrize("mistake", WRONG)
def test_an_error_has_a_name(mistake: str, way: Any) -> None:
    """While a program is traced, before anything runs; the next call works."""
    use, said = WRONG[mistake]
    scale = call("scale", **SCALE)

    def mistaken() -> Any:
        return use(scale)

    with pytest.raises(gpulend.SignatureError, match=said) as caught:
        way(mistaken)()
    assert caught.value.code > 0
    close(scale(tf.ones(2), 2.0), [2.0, 2.0])


@ways
def test_text_is_no_number(way: Any) -> None:
    """TensorFlow has tensors of it."""
    with pytest.raises(gpulend.Error, match=r"argument .*x.*elements of type string"):
        way(lambda: call("scale", **SCALE)(tf.constant("text"), 2.0))()


DESCRIBED: dict[str, tuple[str, dict[str, Any], str]] = {
    "in place": (
        "add_to",
        ADD_TO,
        r"add_to: the kernel may change x in place.*immutable; name x in outputs=",
    ),
    "no kernel of a backward": (
        "scale",
        {**SCALE, "backward": 3},
        "backward= is a int; give a function of gpulend.tensorflow.call",
    ),
    "unknown output": ("scale", {**SCALE, "outputs": {"Y": "x"}}, "did you mean 'y'"),
    "no size": ("scale", {**SCALE, "elements": None}, "the size of a launch is given by nothing"),
    "elements of no tensor": (
        "raw",
        one_each("x", outputs={"y": "x"}, dtypes={"y": "float8_e5m2"}),
        "the output y has elements of 'float8_e5m2', which TensorFlow does not take",
    ),
}


@pytest.mark.parametrize("mistake", DESCRIBED)
def test_a_wrong_description_is_refused(mistake: str) -> None:
    """When it is made, with the code of the sibling modules."""
    name, description, said = DESCRIBED[mistake]
    with pytest.raises(gpulend.SignatureError, match=said) as caught:
        call(name, **description)
    assert caught.value.code == 850
    wrong = call("raised_backward", **RAISED_BACKWARD)
    with pytest.raises(gpulend.SignatureError, match="its backward takes 'grad_y'"):
        call("split", backward=wrong, **SPLIT)
    with pytest.raises(gpulend.SignatureError, match="the kernel is a function"):
        gpulend.tensorflow.call(lambda: None)  # type: ignore[arg-type]


def test_a_backward_of_python_is_checked() -> None:
    """It returns one gradient for each array."""
    scale = call("scale", backward=lambda _arrays, _outputs, given: given[0], **SCALE)
    with pytest.raises(gpulend.SignatureError, match=r"backward returned no tuple.*for each of x"):
        gradients(lambda x: scale(x, 2.0), tf.ones(3))


def test_a_program_of_xla_s_is_refused() -> None:
    """By name, and not by `EagerPyFunc`: also where Keras asks for it."""
    scale = differentiable_scale()
    program = tf.function(lambda x: scale(x, 2.0), jit_compile=True)
    for use in (program, tf.function(lambda x: program(x) + 1)):
        with pytest.raises(gpulend.SignatureError, match=r"that XLA compiles.*leave out jit_comp"):
            use(tf.ones(3))
    with pytest.raises(gpulend.SignatureError, match=r"model.compile\(jit_compile=False\)"):
        keras_losses(bias_gelu(), jit_compile=True)
    close(tf.function(lambda x: scale(x, 2.0))(tf.ones(2)), [2.0, 2.0])


def test_what_only_a_launch_knows_is_an_error_of_tensorflow_s() -> None:
    """With gpulend's text; the next call works."""
    scale, rows = call("scale", **SCALE), call("rows", **ROWS)
    wrong = {
        r"SignatureError: scale: argument 3 \(by\) is 1e300": lambda x: scale(x, 1e300),
        r"KernelError: rows.*the grid has -1": call("rows", **{**ROWS, "grid": -1}),
        r"SignatureError: rows: .*cannot be computed for float32\[3\]": tf.function(
            lambda x: rows(tf.reshape(x, [-1])), input_signature=[tf.TensorSpec(None)]
        ),
    }
    for said, function in wrong.items():
        with pytest.raises(tf.errors.OpError, match=said):
            tf.function(function)(tf.ones((1, 3)))
    close(tf.function(rows)(tf.ones((2, 3))), [3.0, 3.0])


@pytest.mark.usefixtures("mistaken")
@pytest.mark.skipif(REAL, reason="a real GPU's context would be lost")
@ways
def test_a_kernel_that_goes_wrong_is_named(way: Any) -> None:
    """By the program that runs it; the next one works."""
    outside = way(call("outside", **one_each("x", outputs={"y": "x"})))
    with pytest.raises((gpulend.Error, tf.errors.OpError), match="kernel outside"):
        outside(numbers(4))
    close(way(lambda x: call("scale", **SCALE)(x, 2.0))(numbers(3)), numbers(3) * 2)


EXIT = """
import gpulend, tensorflow as tf
from operations.kernels import SCALE, kernel
scale = gpulend.tensorflow.call(kernel("scale"), **SCALE)
program = tf.function(lambda x: scale(scale(x, 1.0), 2.0))
kept = [program(tf.ones(1 << 16)) for _ in range(4)]
assert kept[0][0] == 2
"""


def test_a_process_ends_with_results_that_are_held() -> None:
    """After `import gpulend` alone, which imports TensorFlow when it is asked for."""
    folder = Path(__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", EXIT], cwd=folder, timeout=120, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
