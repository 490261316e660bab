"""Kernels as functions of TensorFlow, eager and inside `tf.function`: `gpulend.tensorflow.call`.

>>> import gpulend, tensorflow as tf
>>> source = '''
... extern "C" __global__ void scale(const float *x, float *y, float by, int n) {
...     int i = blockIdx.x * blockDim.x + threadIdx.x;
...     if (i < n) y[i] = x[i] * by;
... }
... '''
>>> kernel = gpulend.compile(source)["scale"]
>>> scale = gpulend.tensorflow.call(kernel, outputs={"y": "x"}, values={"n": "x"}, elements="x")
>>> tf.function(lambda x: tf.reduce_sum(scale(x + 1, 2.0)))(tf.ones(3)).numpy().item()
12.0

TensorFlow takes operations of other packages only as C++ libraries built for its version. So a
program calls back into Python, by `tf.py_function`: it hands tensors over as they are, where
`tf.numpy_function` would copy those of a GPU to the host.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from gpulend import _native
from gpulend._codes import OPERATION, OPERATION_USE
from gpulend._native import Kernel
from gpulend.adapters.tensorflow import TYPES
from gpulend.exceptions import Error, SignatureError
from gpulend.operations import Array, Description, Output, Parameter, Rule, extents, pair

_compiled_by_xla: Callable[[Any], bool] | None
_could_record: Callable[[], bool] | None
# TensorFlow's public functions do not say either. Without them calls work, with a worse message and
# a little slower.
try:
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

    _compiled_by_xla = GraphOrParentsInXlaContext
except ImportError:
    _compiled_by_xla = None
try:
    from tensorflow.python.eager.record import could_possibly_record

    _could_record = could_possibly_record
except ImportError:
    _could_record = None

__all__ = ["Call", "call"]


def call(
    kernel: Kernel,
    *,
    outputs: Mapping[str, Rule] | None = None,
    values: Mapping[str, Any] | None = None,
    elements: Rule | None = None,
    grid: Rule | None = None,
    block: Rule | None = None,
    shared: Rule = 0,
    dtypes: Mapping[str, str] | None = None,
    zeroed: Iterable[str] = (),
    backward: Call | Callable[..., Any] | None = None,
) -> Call:
    """Make a function of TensorFlow of a kernel, for eager tensors, `tf.function` and Keras.

    The function takes the kernel's parameters in their order, without `outputs` and `values`:
    tensors, or what `tf.convert_to_tensor` takes, and numbers of Python. It returns its outputs:
    one tensor, or a tuple. TensorFlow's tensors are immutable, so a kernel that changes an array in
    place is refused.

    Inside `tf.function` a call is a `tf.py_function`: it takes the GIL, the host waits for it, and
    neither `jit_compile=True` nor a saved program can contain it. Outputs have the static shapes
    that follow from those of the inputs.

    `outputs`, `values`, `elements`, `grid`, `block`, `shared`, `dtypes` and `zeroed` are those of
    `gpulend.torch.op`.

    `backward` is another function of `call`, whose parameters are found by name: inputs and outputs
    of the forward, `grad_y` for an output `y`, and results `grad_x` for an input `x`. Or it is a
    function of the tuples of input tensors, of outputs and of gradients, which returns one gradient
    for each input tensor, or None. Second derivatives are those of the backward.
    """
    name = kernel.name if isinstance(kernel, Kernel) else "gpulend.tensorflow.call"
    described = Description(
        name,
        kernel,
        outputs=outputs,
        values=values,
        elements=elements,
        grid=grid,
        block=block,
        shared=shared,
        dtypes=dtypes,
        zeroed=zeroed,
    )
    return Call(described, backward)


class Call:
    """A kernel as a function of TensorFlow: see `call`."""

    # AutoGraph would rewrite this class and what it calls, for each program anew.
    autograph_info__: Mapping[str, Any] = {}

    def __init__(self, described: Description, backward: Call | Callable[..., Any] | None) -> None:
        """Check what it writes, and how it is differentiated."""
        self._described: Description = described
        if described.mutated:
            changed = described.mutated[0]
            raise SignatureError(
                f"{described.what}: the kernel may change {changed.name} in place, a "
                f"{changed.type}, and TensorFlow's tensors are immutable; name {changed.name} in "
                "outputs=, or declare it const",
                OPERATION,
            )
        for output in described.outputs:
            if output.dtype is not None:
                _dtype(described, output, output.dtype)
        if backward is not None and not callable(backward):
            raise SignatureError(
                f"{described.what}: backward= is a {type(backward).__name__}; give a function of "
                "gpulend.tensorflow.call, or one of Python",
                OPERATION,
            )
        if isinstance(backward, Call):
            self._pair = pair(described, backward._described)
        self._backward = backward
        self._words = [one.word for one in described.inputs]
        # A launch takes inputs, outputs and values in the kernel's own order.
        names = [one.name for one in described.inputs]
        names += [one.parameter.name for one in described.outputs]
        self._places = [[*names, *described.values].index(one.name) for one in described.parameters]
        # What TensorFlow calls it in its messages and profiles.
        self._name = re.sub(r"\W", "_", f"gpulend_{described.kernel.name}", flags=re.ASCII)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Launch the kernel, or have the program that is being traced launch it."""
        try:
            results = self._called(arguments, named)
        except Error as error:
            _let_pass(error)
            raise
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self) -> str:
        return f"<gpulend.tensorflow.Call {self._described.kernel.signature}>"

    def _called(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Sequence[Any]:
        described, words = self._described, self._words
        rest = words[len(arguments) :]
        if len(arguments) > len(words) or set(named) != set(rest):
            found = ", ".join([*map(str, range(1, len(arguments) + 1)), *named]) or "none"
            raise SignatureError(
                f"{described.what} takes {len(words)} arguments ({', '.join(words)}), and got "
                f"{found}",
                OPERATION_USE,
            )
        arguments = (*arguments, *[named[word] for word in rest])
        arrays, numbers = [], []
        for one, argument in zip(described.inputs, arguments, strict=True):
            if one.role == "array":
                arrays.append(self._array(one, argument))
            else:
                numbers.append(self._number(one, argument))
        if tf.executing_eagerly():
            return self._eager(numbers, *arrays)
        self._check_program()
        return self._differentiable(self._traced, numbers, arrays)

    def _array(self, one: Parameter, argument: Any) -> Any:
        if isinstance(argument, tf.Tensor):
            return argument
        # A list has no type of its own. What has one keeps it, and a launch refuses a wrong one.
        own = hasattr(argument, "dtype") or one.dtype not in TYPES
        try:
            return tf.convert_to_tensor(argument, dtype_hint=None if own else one.dtype)
        except (TypeError, ValueError) as error:
            keras = type(argument).__name__ == "KerasTensor"
            fix = "call it in the layer's `call`, or in keras.layers.Lambda" if keras else ""
            raise SignatureError(
                f"{self._described.what}: argument {one.name} is a {type(argument).__name__}, of "
                f"which TensorFlow makes no tensor, and the kernel wants {one.type}; "
                f"{fix or 'pass a dense tensor of numbers'}",
                OPERATION_USE,
            ) from error

    def _number(self, one: Parameter, argument: Any) -> Any:
        what = self._described.what
        if tf.is_tensor(argument) or isinstance(argument, tf.Variable):
            known = hasattr(argument, "numpy")
            fix = f"pass {one.name}.numpy().item()" if known else "pass a number of Python"
            raise SignatureError(
                f"{what}: argument {one.name} is a tensor, and the kernel wants a number "
                f"({one.type}); {fix}, or declare const {one.type} *{one.name}",
                OPERATION_USE,
            )
        try:
            if one.role == "integer":
                return operator.index(argument)
            if one.role == "float" and hasattr(argument, "__float__"):
                return float(argument)
            if one.role == "bool" and argument in (0, 1):
                return bool(argument)
        except (ArithmeticError, TypeError, ValueError):
            pass
        raise SignatureError(
            f"{what}: {one.name} is {argument!r}, and the kernel wants {one.type}", OPERATION_USE
        )

    def _joined(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return arrays and numbers in the order of the inputs."""
        rest = iter(arrays), iter(numbers)
        return [next(rest[one.role != "array"]) for one in self._described.inputs]

    def _shapes(self, given: Sequence[Any]) -> list[tuple[int, ...]]:
        """Return the shapes of the outputs; TensorFlow says of an extent of 2.5 what it likes."""
        shapes = self._described.shapes(given)
        for output, shape in zip(self._described.outputs, shapes, strict=True):
            if not all(hasattr(extent, "__index__") for extent in shape):
                raise SignatureError(
                    f"{self._described.what}: the shape of {output.parameter.name} is {shape}; "
                    "extents are ints (`//` divides so that they stay so)",
                    OPERATION_USE,
                )
        return shapes

    def _eager(self, numbers: Sequence[Any], *arrays: Any) -> Sequence[Any]:
        if _could_record is not None and not _could_record():
            return self._launch(numbers, *arrays)
        return self._differentiable(self._launch, numbers, arrays)

    def _launch(self, numbers: Sequence[Any], *arrays: Any) -> Sequence[Any]:
        """Launch the kernel on eager tensors, and lend TensorFlow what it wrote."""
        described, kernel = self._described, self._described.kernel
        given = self._joined([Array(tuple(one.shape), one.dtype.name) for one in arrays], numbers)
        size = described.size(given)
        shapes = self._shapes(given)
        values = [rule(given) for rule in described.values.values()]
        launcher: Any = None
        if size.empty:
            self._check(arrays)
            described.check_empty(shapes)
        elif size.elements is not None:
            launcher = kernel.forall(size.elements)
        else:
            launcher = kernel[size.grid, size.block]
        device = kernel.module.device
        made = []
        for output, shape in zip(described.outputs, shapes, strict=True):
            make = _native.zeros if output.zeroed else _native.empty
            name = described.dtype(output, given)
            _dtype(described, output, name)
            made.append(make(shape, name, device=device))
        if launcher is not None:
            held = [*self._joined(arrays, numbers), *made, *values]
            launcher(*[held[place] for place in self._places], shared=size.shared)
        return [one.lend("tensorflow") for one in made]

    def _traced(self, numbers: Sequence[Any], *arrays: Any) -> Sequence[Any]:
        """Have a program launch the kernel when it runs."""
        described = self._described
        self._check(arrays)
        given = self._joined([_seen(one) for one in arrays], numbers)
        if all(one.shape.is_fully_defined() for one in arrays):
            # What a launch would raise, while it is known which line is wrong.
            size = described.size(given)
            for rule in described.values.values():
                rule(given)
            shapes: list[Any] = list(self._shapes(given))
            if size.empty:
                described.check_empty(shapes)
            elif size.elements is not None:
                described.kernel.forall(size.elements)
        else:
            shapes = [_static(output, given) for output in described.outputs]
        types = [
            _dtype(described, output, described.dtype(output, given))
            for output in described.outputs
        ]
        # Where TensorFlow loses the gradient of this call (`tf.vectorized_map`), it differentiates
        # what ran by a tape of its own, and takes what is not on it for constant.
        launch = functools.partial(self._eager, numbers)
        results = tf.py_function(launch, arrays, types, name=self._name)
        for result, shape in zip(results, shapes, strict=True):
            result.set_shape(shape)
        return list(results)

    def _check(self, arrays: Sequence[Any]) -> None:
        """Raise what a launch would raise about the types of tensors."""
        kernel = self._described.kernel
        place = str(kernel.module.device)
        for one, array in zip(self._described.arrays, arrays, strict=True):
            if array.dtype.name not in TYPES:
                raise SignatureError(
                    f"{self._described.what}: argument {one.name} has elements of type "
                    f"{array.dtype.name}, and the kernel wants {one.type}",
                    OPERATION_USE,
                )
            _native.check_array(kernel, one.position, array.dtype.name, [0], place, type(array))

    def _check_program(self) -> None:
        """Refuse a program that XLA compiles: its own error names no kernel and no way out."""
        if _compiled_by_xla is not None and _compiled_by_xla(tf.compat.v1.get_default_graph()):
            raise SignatureError(
                f"{self._described.what} cannot be called in a program that XLA compiles: "
                "TensorFlow calls back into Python for it, and XLA does not; leave out "
                "jit_compile=True. In Keras give model.compile(jit_compile=False), or set "
                "supports_jit = False in the layer",
                OPERATION_USE,
            )

    def _differentiable(
        self, launch: Callable[..., Sequence[Any]], numbers: Sequence[Any], arrays: Sequence[Any]
    ) -> Sequence[Any]:
        """Launch in a way that TensorFlow can differentiate."""
        recorded: list[Any] = []

        def forward(*arrays: Any) -> tuple[tuple[Any, ...], Callable[..., Any]]:
            outputs = tuple(launch(numbers, *arrays))

            def differentiate(*gradients: Any) -> tuple[Any, ...]:
                # The outputs as callers have them: a second derivative goes through them too. In
                # forward mode TensorFlow asks before they have them.
                known = tuple(recorded) or outputs
                try:
                    return self._gradients(numbers, arrays, known, gradients)
                except Error as error:
                    _let_pass(error)
                    raise

            return outputs, differentiate

        recorded.extend(tf.custom_gradient(forward)(*arrays))
        return recorded

    def _gradients(
        self,
        numbers: Sequence[Any],
        arrays: tuple[Any, ...],
        outputs: tuple[Any, ...],
        given: Sequence[Any],
    ) -> tuple[Any, ...]:
        """Return the gradient of each input array."""
        described, backward = self._described, self._backward
        if backward is None:
            raise SignatureError(
                f"{described.what} has no backward; give backward= to gpulend.tensorflow.call, or "
                "stop the gradient before it (tf.stop_gradient)",
                OPERATION_USE,
            )
        # There is none where nothing depends on an output, and a few rows after `tf.gather`.
        gradients = tuple(
            tf.zeros_like(output) if gradient is None else tf.convert_to_tensor(gradient)
            for output, gradient in zip(outputs, given, strict=True)
        )
        if not isinstance(backward, Call):
            found = backward(arrays, outputs, gradients)
            if not isinstance(found, (tuple, list)) or len(found) != len(arrays):
                count = f"{len(found)}" if isinstance(found, (tuple, list)) else "no tuple"
                raise SignatureError(
                    f"{described.what}: its backward returned {count}, and one gradient for each "
                    f"of {', '.join(one.name for one in described.arrays)} is wanted, in a tuple",
                    OPERATION_USE,
                )
            return tuple(found)
        held = {"input": self._joined(arrays, numbers), "output": outputs, "gradient": gradients}
        results = backward(*[held[kind][place] for kind, place in self._pair.sources])
        results = results if isinstance(results, tuple) else (results,)
        pairs = zip(described.inputs, self._pair.results, strict=True)
        return tuple(
            None if place is None else results[place] for one, place in pairs if one.role == "array"
        )


class _Unknown:
    """An extent that a program knows only when it runs; what is computed of it is unknown too."""

    def _computed(self, *others: Any) -> Any:
        # A tuple times an extent has an unknown number of axes.
        if all(isinstance(other, int | float | _Unknown) for other in others):
            return self
        return NotImplemented

    def _refused(self, *_: Any) -> Any:
        raise TypeError("this extent is known when the program runs")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __pow__ = __rpow__ = _computed
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _computed
    __and__ = __rand__ = __or__ = __ror__ = __lshift__ = __rshift__ = __rlshift__ = _computed
    __neg__ = __pos__ = __abs__ = __invert__ = __ceil__ = __floor__ = __round__ = _computed
    # A branch that is taken for one extent may be wrong for the next.
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __bool__ = _refused
    __int__ = __index__ = __float__ = _refused

    def __repr__(self) -> str:
        return "?"


_UNKNOWN: Any = _Unknown()


def _seen(tensor: Any) -> Array | None:
    """Return what rules see of a tensor, or None if its number of axes is unknown."""
    if tensor.shape.rank is None:
        return None
    shape = [_UNKNOWN if extent is None else extent for extent in tensor.shape]
    return Array(tuple(shape), tensor.dtype.name)


def _static(output: Output, given: Sequence[Any]) -> Any:
    """Return the extents of an output that are known before the program runs."""
    if any(given[place] is None for place in output.shape.places):
        return tf.TensorShape(None)
    try:
        shape = extents(output.shape(given))
    except SignatureError:
        # It may depend on what is unknown. If it is wrong, the launch says so.
        return tf.TensorShape(None)
    return tf.TensorShape([one if isinstance(one, int) and one >= 0 else None for one in shape])


def _let_pass(error: Error) -> None:
    """Mark an error, so that AutoGraph raises it as it is: its own would have no code."""
    vars(error)["ag_pass_through"] = True


def _dtype(described: Description, output: Output, name: str) -> Any:
    """Return TensorFlow's element type of a name."""
    if name not in TYPES:
        raise SignatureError(
            f"{described.what}: the output {output.parameter.name} has elements of {name!r}, which "
            f"TensorFlow does not take; it takes {', '.join(TYPES)}",
            OPERATION,
        )
    return tf.as_dtype(name)
