"""Kernels as functions of JAX, inside `jit`, `grad` and `vmap`: `gpulend.jax.call`.

>>> import gpulend, jax, jax.numpy as jnp
>>> source = '''
... extern "C" __global__ void scale(const float *x, float *y, float by, int n) {
...     int i = blockIdx.x * blockDim.x + threadIdx.x;
...     if (i < n) y[i] = x[i] * by;
... }
... '''
>>> kernel = gpulend.compile(source)["scale"]
>>> scale = gpulend.jax.call(kernel, outputs={"y": "x"}, values={"n": "x"}, elements="x")
>>> jax.jit(lambda x: scale(x + 1, 2.0).sum())(jnp.ones(3)).item()
12.0
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from gpulend import _arguments, _native
from gpulend._codes import OPERATION, OPERATION_USE
from gpulend._native import Kernel
from gpulend.exceptions import SignatureError
from gpulend.operations import Array, Description, Output, Parameter, Rule, pair

__all__ = ["Call", "call"]

# JAX types some of its functions, more of them in each release.
_ffi: Any = jax.ffi
_struct: Any = jax.ShapeDtypeStruct

# Under which XLA knows the handlers of `crates/python/src/xla`.
_TARGET = "gpulend_launch"


# One handler for the host, and one for GPUs.
for _platform, _handler in zip(("cpu", "CUDA"), _native.xla_handlers(), strict=True):
    _ffi.register_ffi_target(_TARGET, _ffi.pycapsule(_handler), platform=_platform)


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
    vmap: Literal["sequential", "broadcast_all"] | None = "sequential",
) -> Call:
    """Make a function of JAX of a kernel: XLA launches it, also inside `jit`, `grad` and `vmap`.

    The function takes the kernel's parameters in their order, without `outputs` and `values`:
    arrays of JAX, and numbers of Python. It returns its outputs, then a new array for each array
    that the kernel changes in place: donate that argument to `jit`, and nothing is copied.

    `outputs`, `values`, `elements`, `grid`, `block`, `shared`, `dtypes` and `zeroed` are those of
    `gpulend.torch.op`.

    `backward` is another function of `call`, whose parameters are found by name: inputs and outputs
    of the forward, `grad_y` for an output `y`, and results `grad_x` for an input `x`. Or it is a
    function of the tuples of input arrays, of outputs and of gradients, which returns one gradient
    for each input array.

    `vmap` launches once for each element of a batch ("sequential"), or once for all, with every
    array given the batch as its first axis ("broadcast_all"); None refuses it.
    """
    name = kernel.name if isinstance(kernel, Kernel) else "gpulend.jax.call"
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
    return Call(described, backward, vmap)


class _Numbers(tuple[Any, ...]):
    """The numbers of a launch: 0.0 and -0.0 differ here, and a NaN is itself."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class Call:
    """A kernel as a function of JAX: see `call`."""

    def __init__(
        self,
        described: Description,
        backward: Call | Callable[..., Any] | None,
        vmap: Literal["sequential", "broadcast_all"] | None,
    ) -> None:
        """Check how it is differentiated and batched."""
        self._described = described
        self._vmap = vmap
        self._launches: dict[Any, int] = {}
        for output in described.outputs:
            if output.dtype is not None:
                _dtype(described, output.parameter.name, output.dtype)
        if vmap not in ("sequential", "broadcast_all", None):
            raise SignatureError(
                f"{described.what}: vmap={vmap!r}; give 'sequential', 'broadcast_all' or None",
                OPERATION,
            )
        if backward is not None and described.mutated:
            raise SignatureError(
                f"{described.what}: what changes an array in place ({described.mutated[0].name}) "
                "has no backward; write to an output instead",
                OPERATION,
            )
        if backward is not None and not callable(backward):
            raise SignatureError(
                f"{described.what}: backward= is a {type(backward).__name__}; give a function of "
                "gpulend.jax.call, or one of Python",
                OPERATION,
            )
        if isinstance(backward, Call):
            self._pair = pair(described, backward._described)
        self._backward = backward
        # Numbers are part of a launch, so each has a function of arrays alone.
        self._functions: Callable[..., Any] = functools.lru_cache(1024)(self._function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Launch the kernel, or have the program that is being traced launch it."""
        described = self._described
        words = [one.word for one in described.inputs]
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
        results = self._functions(_Numbers(numbers))(*arrays)
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        return f"<gpulend.jax.Call {self._described.kernel.signature}>"

    def _array(self, one: Parameter, argument: Any) -> jax.Array:
        if not isinstance(argument, (jax.Array, np.ndarray)):
            raise SignatureError(
                f"{self._described.what}: argument {one.name} is a {type(argument).__name__}, and "
                f"the kernel wants {one.type}; pass an array, as jnp.asarray({one.name})",
                OPERATION_USE,
            )
        array = jnp.asarray(argument)
        _native.check_array(
            self._described.kernel,
            one.position,
            str(array.dtype),
            array.shape,
            str(self._described.kernel.module.device),
            type(array),
        )
        return array

    def _number(self, one: Parameter, argument: Any) -> Any:
        if isinstance(argument, jax.Array):
            known = not isinstance(argument, jax.core.Tracer)
            fix = (
                f"pass {one.name}.item()" if known else f"make {one.name} a static argument of jit"
            )
            raise SignatureError(
                f"{self._described.what}: argument {one.name} is an array of JAX, and a launch "
                f"needs its number when the program is traced; {fix}, or declare const {one.type} "
                f"*{one.name}",
                OPERATION_USE,
            )
        return _number(self._described, one, argument)

    def _function(self, numbers: _Numbers) -> Callable[..., tuple[jax.Array, ...]]:
        """Return a function of arrays alone, which JAX can differentiate and batch."""
        launch = self._batched(numbers)
        described, backward = self._described, self._backward

        @jax.custom_vjp
        def forward(*arrays: jax.Array) -> tuple[jax.Array, ...]:
            return launch(*arrays)

        def save(*arrays: jax.Array) -> tuple[Any, Any]:
            if backward is None:
                raise SignatureError(
                    f"{described.what} has no backward; give backward= to gpulend.jax.call, or "
                    "stop the gradient before it (jax.lax.stop_gradient)",
                    OPERATION_USE,
                )
            outputs = launch(*arrays)
            return outputs, (arrays, outputs)

        def differentiate(saved: Any, gradients: tuple[jax.Array, ...]) -> tuple[Any, ...]:
            arrays, outputs = saved
            if not isinstance(backward, Call):
                assert backward is not None
                return tuple(backward(arrays, outputs, gradients))
            return self._differentiate(backward, numbers, arrays, outputs, gradients)

        forward.defvjp(save, differentiate)
        return forward

    def _differentiate(
        self,
        backward: Call,
        numbers: Sequence[Any],
        arrays: Sequence[jax.Array],
        outputs: Sequence[jax.Array],
        gradients: Sequence[jax.Array],
    ) -> tuple[Any, ...]:
        inputs = self._joined(arrays, numbers)
        held = {"input": inputs, "output": outputs, "gradient": gradients}
        results = backward(*[held[kind][place] for kind, place in self._pair.sources])
        results = results if isinstance(results, tuple) else (results,)
        found = zip(self._described.inputs, self._pair.results, strict=True)
        return tuple(
            None if place is None else results[place] for one, place in found if one.role == "array"
        )

    def _joined(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return arrays and numbers in the order of the inputs."""
        rest = iter(arrays), iter(numbers)
        return [next(rest[one.role != "array"]) for one in self._described.inputs]

    def _batched(self, numbers: _Numbers) -> Callable[..., tuple[jax.Array, ...]]:
        launch = functools.partial(self._launch, numbers)
        if self._vmap == "sequential":
            # XLA's loop: each of its launches has the shapes of one element.
            return launch
        batched = jax.custom_batching.custom_vmap(launch)

        @batched.def_vmap
        def batch(size: int, in_batched: list[bool], *arrays: jax.Array) -> tuple[Any, Any]:
            if self._vmap is None:
                raise SignatureError(
                    f"{self._described.what} cannot be called inside vmap: it is described with "
                    "vmap=None; call it outside, or describe it otherwise",
                    OPERATION_USE,
                )
            whole = [
                array if has else jnp.broadcast_to(array, (size, *array.shape))
                for array, has in zip(arrays, in_batched, strict=True)
            ]
            results = batched(*whole)
            return results, tuple(True for _ in results)

        return batched

    def _launch(self, numbers: _Numbers, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        """Have XLA launch the kernel on arrays of these shapes."""
        described = self._described
        given = self._joined([Array(one.shape, str(one.dtype)) for one in arrays], numbers)
        shapes = described.shapes(given)
        results = [
            _struct(shape, self._result(output, given))
            for output, shape in zip(described.outputs, shapes, strict=True)
        ]
        size = described.size(given)
        zeros = [output.zeroed for output in described.outputs]
        if size.empty:
            described.check_empty(shapes)
            made = [jnp.zeros(one.shape, one.dtype) for one in results]
            return (*made, *[arrays[at] for at in self._changed()])
        operands = [
            *arrays,
            *[
                jnp.zeros(one.shape, one.dtype)
                for one, zero in zip(results, zeros, strict=True)
                if zero
            ],
        ]
        aliases = {
            len(arrays) + at: place for at, place in enumerate(np.flatnonzero(zeros).tolist())
        }
        for at in self._changed():
            aliases[at] = len(results)
            results.append(_struct(arrays[at].shape, arrays[at].dtype))
        key = (numbers, tuple((one.shape, str(one.dtype)) for one in arrays))
        number = self._launches.get(key)
        if number is None:
            spans = [list(one.shape) for one in (*operands, *results)]
            number = self._numbered(given, size, spans, len(operands), aliases)
            self._launches[key] = number
        run = _ffi.ffi_call(
            _TARGET,
            tuple(results),
            vmap_method="sequential",
            input_output_aliases=aliases,
        )
        return tuple(run(*operands, launch=np.int64(number)))

    def _changed(self) -> list[int]:
        """Return the places, among the arrays, of those that the kernel changes."""
        return [at for at, one in enumerate(self._described.arrays) if one.written]

    def _numbered(
        self,
        given: Sequence[Any],
        size: Any,
        shapes: list[list[int]],
        operands: int,
        aliases: Mapping[int, int],
    ) -> int:
        described = self._described
        arrays = {one.name: (at,) for at, one in enumerate(described.arrays)}
        made = {one.parameter.name: (operands + at,) for at, one in enumerate(described.outputs)}
        places = {**arrays, **made}
        numbers = {one.name: given[at] for at, one in enumerate(described.inputs)}
        sources = []
        for one in described.parameters:
            if one.name in places:
                sources.append(places[one.name])
            elif one.name in described.values:
                sources.append(_number(described, one, described.values[one.name](given)))
            else:
                sources.append(numbers[one.name])
        return _native.xla_launch(
            described.kernel,
            size.elements,
            None if size.grid is None else (size.grid, size.block),
            operator.index(size.shared),
            sources,
            shapes,
            operands,
            list(aliases.items()),
        )

    def _result(self, output: Output, given: Sequence[Any]) -> np.dtype[Any]:
        name = self._described.dtype(output, given)
        dtype = _dtype(self._described, output.parameter.name, name)
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise SignatureError(
                f"{self._described.what}: the output {output.parameter.name} has elements of "
                f"{name}, and "
                'JAX is set to 32 bits; set jax.config.update("jax_enable_x64", True)',
                OPERATION_USE,
            )
        return dtype


def _dtype(described: Description, output: str, name: str) -> np.dtype[Any]:
    """Return NumPy's element type of a name, as JAX has it."""
    try:
        return np.dtype(getattr(jnp, name, name))
    except TypeError as error:
        raise SignatureError(
            f"{described.what}: the output {output} has elements of {name!r}, which JAX does not "
            "have",
            OPERATION,
        ) from error


def _number(described: Description, one: Parameter, given: Any) -> Any:
    """Return a number of Python, or the bytes of a struct, for a parameter."""
    try:
        if one.role == "integer":
            return operator.index(given)
        if one.role == "float" and not isinstance(given, str | bytes | Decimal):
            return float(given)
        if one.role == "bool" and given in (0, 1):
            return bool(given)
        return given if isinstance(given, complex) else _arguments.record(given)
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise SignatureError(
            f"{described.what}: {one.name} is {given!r}, and the kernel wants {one.type}",
            OPERATION_USE,
        ) from error
