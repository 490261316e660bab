"""Operations: a kernel with one description, from which torch, JAX and TensorFlow derive the rest.

The signature of a kernel says which of its pointers are `const` and what they point to. A
`Description` adds what it cannot say: which parameters are outputs and their shapes, which numbers
follow from shapes, and how large a launch is. `gpulend.torch.op`, `gpulend.jax.call` and
`gpulend.tensorflow.call` take the same words.
"""

from __future__ import annotations

import inspect
import keyword
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from gpulend import _native
from gpulend._codes import OPERATION, OPERATION_USE
from gpulend._native import Kernel
from gpulend._suggestions import did_you_mean
from gpulend.exceptions import SignatureError

__all__ = ["Array", "Description", "Rule"]

# More than any memory, and few enough that their bytes are a number of 63 bits.
_MOST_ELEMENTS = 2**56

Rule: TypeAlias = Callable[..., Any] | str | int | tuple[int, ...]
"""A function of inputs by their names, the name of an array, or a constant."""


class Array:
    """What a rule sees of an array: its shape and the name of its element type."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        self.shape = shape
        self.dtype = dtype

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Parameter(NamedTuple):
    """A parameter of a kernel."""

    position: int
    name: str
    type: str
    role: str
    """`array`, `integer`, `float`, `bool` or `other`."""
    written: bool
    dtype: str | None
    fits: list[str]

    @property
    def word(self) -> str:
        """Its name as Python allows it: `in_` for `in`."""
        return f"{self.name}_" if keyword.iskeyword(self.name) else self.name


class Output(NamedTuple):
    """An array that an operation makes."""

    parameter: Parameter
    shape: Compiled
    dtype: str | None
    """The type of its elements, or None for that of the input `like`."""
    like: int
    zeroed: bool


class Given(Protocol):
    """The inputs as rules see them: arrays as `Array`, numbers as they are."""

    def __getitem__(self, place: int, /) -> Any: ...


class Compiled(NamedTuple):
    """A rule as a function of some of the inputs."""

    what: str
    function: Callable[..., Any]
    places: tuple[int, ...]
    asks: str = ""
    """`size` or `shape` if it is that of one array, which a framework may know faster."""

    def __call__(self, given: Given) -> Any:
        """Return what the rule says about the inputs."""
        try:
            return self.function(*[given[place] for place in self.places])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            seen = ", ".join(repr(given[place]) for place in self.places)
            raise SignatureError(
                f"{self.what} cannot be computed for {seen}: {said}; the rule must suit every "
                "shape that the operation is called with",
                OPERATION_USE,
            ) from error


class Size(NamedTuple):
    """How large a launch is: `elements` with one thread each, or a grid of blocks."""

    elements: Any
    grid: Any
    block: Any
    shared: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing to launch."""
        return has_none(self.grid if self.elements is None else self.elements)


class Description:
    """A kernel, and how an operation uses each of its parameters."""

    def __init__(
        self,
        what: str,
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
    ) -> None:
        """Check the description against the kernel's signature. `what` is its name in messages."""
        if not isinstance(kernel, Kernel):
            raise SignatureError(
                f"{what}: the kernel is a {type(kernel).__name__}; "
                'give a gpulend.Kernel, as `gpulend.compile(source)["name"]`',
                OPERATION,
            )
        self.what = what
        self.kernel = kernel
        self.parameters = _parameters(what, kernel)
        outputs, values, dtypes = outputs or {}, values or {}, dtypes or {}
        zeroed = (zeroed,) if isinstance(zeroed, str) else tuple(zeroed)
        for word, names in (("outputs", outputs), ("values", values)):
            known = [parameter.name for parameter in self.parameters]
            self._check_names(word, names, known, kernel.signature)
        for word, named in (("dtypes", dtypes), ("zeroed", zeroed)):
            self._check_names(word, named, list(outputs), "outputs=")
        self.inputs = tuple(
            parameter
            for parameter in self.parameters
            if parameter.name not in outputs and parameter.name not in values
        )
        self.arrays = tuple(one for one in self.inputs if one.role == "array")
        self.mutated = tuple(one for one in self.arrays if one.written)
        by_name = {parameter.name: parameter for parameter in self.parameters}
        self.outputs = tuple(
            self._output(by_name[name], rule, dtypes.get(name), name in zeroed)
            for name, rule in outputs.items()
        )
        self.values = {
            name: self._value(by_name[name], given, outputs) for name, given in values.items()
        }
        self._check_inputs()
        self._set_size(elements, grid, block, shared)

    def _check_names(self, word: str, names: Iterable[str], known: list[str], owner: str) -> None:
        for name in names:
            if name not in known:
                there = ", ".join(known) or "none"
                raise SignatureError(
                    f"{self.what}: {word}= names {name!r}, which {owner} does not have; there is "
                    f"{there}{did_you_mean(name, known)}",
                    OPERATION,
                )

    def _output(self, parameter: Parameter, rule: Rule, dtype: str | None, zeroed: bool) -> Output:
        name = parameter.name
        if parameter.role != "array":
            raise SignatureError(
                f"{self.what}: the output {name} is a {parameter.type}, which is no pointer",
                OPERATION,
            )
        if not parameter.written:
            raise SignatureError(
                f"{self.what}: the output {name} is a {parameter.type}, which the kernel cannot "
                f"write; leave {name} out of outputs=, or declare it without const",
                OPERATION,
            )
        like = -1
        if dtype is not None and dtype in (one.name for one in self.arrays):
            like = [one.name for one in self.inputs].index(dtype)
            dtype = None
        elif dtype is None:
            dtype = parameter.dtype
            if dtype is None:
                raise SignatureError(
                    f"{self.what}: the output {name} is a {parameter.type}, which says nothing "
                    "about "
                    f'its elements; give dtypes={{"{name}": "float32"}}, or the name of an input',
                    OPERATION,
                )
        elif dtype not in parameter.fits:
            raise SignatureError(
                f"{self.what}: dtypes= gives the output {name} elements of {dtype!r}, and "
                f"{parameter.type} takes {' or '.join(parameter.fits)}",
                OPERATION,
            )
        shape = self._rule(f"the shape of {name}", rule, "shape")
        return Output(parameter, shape, dtype, like, zeroed)

    def _value(self, parameter: Parameter, given: Any, outputs: Mapping[str, Rule]) -> Compiled:
        name = parameter.name
        if name in outputs:
            raise SignatureError(
                f"{self.what}: {name} is in outputs= and in values=; it can be one of them",
                OPERATION,
            )
        if parameter.role == "array":
            raise SignatureError(
                f"{self.what}: values= gives {name}, which is a {parameter.type}; an array is an "
                "input or an output",
                OPERATION,
            )
        if isinstance(given, str) or callable(given):
            return self._rule(f"the value of {name}", given, "size")
        return Compiled(f"the value of {name}", lambda: given, ())

    def _rule(self, what: str, rule: Any, asks: str) -> Compiled:
        what = f"{self.what}: {what}"
        names = [one.name for one in self.inputs]
        arrays = [one.name for one in self.arrays]
        if isinstance(rule, str):
            if rule not in arrays:
                raise SignatureError(
                    f"{what} is that of {rule!r}, which is no array that the operation takes; "
                    f"there is {', '.join(arrays) or 'none'}{did_you_mean(rule, arrays)}",
                    OPERATION,
                )
            return Compiled(what, _ASKED[asks], (names.index(rule),), asks)
        if callable(rule):
            words = [one.word for one in self.inputs]
            return Compiled(what, rule, tuple(map(words.index, _asked(what, rule, words))))
        fixed = rule if isinstance(rule, tuple) else (rule,)
        if not all(isinstance(extent, int) and not isinstance(extent, bool) for extent in fixed):
            raise SignatureError(
                f"{what} is {rule!r}; give an int, a tuple of them, the name of an array, or a "
                "function of inputs",
                OPERATION,
            )
        return Compiled(what, lambda: rule, ())

    def _check_inputs(self) -> None:
        for one in self.inputs:
            if one.role == "other":
                raise SignatureError(
                    f"{self.what}: {one.name} is a {one.type}, which no framework has a value for; "
                    f'give it once: values={{"{one.name}": …}}',
                    OPERATION,
                )
        if not self.arrays:
            raise SignatureError(
                f"{self.what}: the operation takes no array, so nothing says on which device it "
                f"works; take one, if only for its shape: {self.kernel.signature}",
                OPERATION,
            )
        if not self.outputs and not self.mutated:
            raise SignatureError(
                f"{self.what}: the operation has no result: every pointer of "
                f"{self.kernel.signature} is const; declare what it writes without const",
                OPERATION,
            )

    def _set_size(
        self, elements: Rule | None, grid: Rule | None, block: Rule | None, shared: Rule
    ) -> None:
        if (elements is None) == (grid is None) or (grid is None) != (block is None):
            words = {"elements": elements, "grid": grid, "block": block}
            given = " and ".join(f"{word}=" for word, rule in words.items() if rule is not None)
            raise SignatureError(
                f"{self.what}: the size of a launch is given by {given or 'nothing'}; give "
                "elements= for one thread an element, or grid= and block=",
                OPERATION,
            )
        self.elements = None if elements is None else self._rule("elements", elements, "size")
        self.extents: tuple[Compiled, Compiled] | None = None
        if grid is not None and block is not None:
            blocks, threads = (("the grid", grid), ("the block", block))
            self.extents = self._rule(*blocks, "size"), self._rule(*threads, "size")
        self.shared = self._rule("shared", shared, "size")

    def shapes(self, given: Given) -> list[tuple[int, ...]]:
        """Return the shapes of the outputs for these inputs."""
        return [self._checked(output, extents(output.shape(given))) for output in self.outputs]

    def _checked(self, output: Output, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Refuse a shape that no array has: frameworks end the process, or say it of themselves."""
        if any(extent < 0 for extent in shape) or math.prod(shape) >= _MOST_ELEMENTS:
            raise SignatureError(
                f"{self.what}: the shape of {output.parameter.name} is {shape}; extents are 0 or "
                "more, and an array has fewer than 2**56 elements",
                OPERATION_USE,
            )
        return shape

    def dtype(self, output: Output, given: Given) -> str:
        """Return the element type of an output for these inputs."""
        found: str = given[output.like].dtype if output.dtype is None else output.dtype
        return found

    def size(self, given: Given) -> Size:
        """Return how large the launch for these inputs is."""
        shared = self.shared(given)
        if self.elements is not None:
            return Size(self.elements(given), None, None, shared)
        assert self.extents is not None
        grid, block = self.extents
        return Size(None, grid(given), block(given), shared)

    def check_empty(self, shapes: Iterable[Sequence[int]]) -> None:
        """Raise if a launch that is empty would leave elements of an output without a value."""
        for output, shape in zip(self.outputs, shapes, strict=True):
            if not output.zeroed and math.prod(shape) > 0:
                name = output.parameter.name
                raise SignatureError(
                    f"{self.what}: the launch is empty, and nothing would write the output {name} "
                    f"of shape {tuple(shape)}; begin with zeros, by zeroed={{{name!r}}}, or give "
                    "another size",
                    OPERATION_USE,
                )


class Pair(NamedTuple):
    """How an operation's backward takes what its forward knows."""

    sources: tuple[tuple[str, int], ...]
    """For each input of the backward: an `input`, `output` or `gradient` of the forward."""
    results: tuple[int | None, ...]
    """For each input of the forward: the output of the backward that is its gradient."""


def pair(forward: Description, backward: Description) -> Pair:
    """Match the parameters of a backward by name: `x`, an output `y`, `grad_y`, and results "
    "`grad_x`."""
    if forward.mutated or backward.mutated:
        changed = (forward if forward.mutated else backward).mutated[0].name
        raise SignatureError(
            f"{forward.what}: what changes an array in place ({changed}) has no backward; "
            "write to an output instead",
            OPERATION,
        )
    known = {one.name: ("input", place) for place, one in enumerate(forward.inputs)}
    for place, output in enumerate(forward.outputs):
        known[output.parameter.name] = ("output", place)
        known[f"grad_{output.parameter.name}"] = ("gradient", place)
    for one in backward.inputs:
        if one.name not in known:
            raise SignatureError(
                f"{forward.what}: its backward takes {one.name!r}, and the forward has "
                f"{', '.join(known)}{did_you_mean(one.name, known)}",
                OPERATION,
            )
    made = {output.parameter.name: place for place, output in enumerate(backward.outputs)}
    wanted = {f"grad_{one.name}": one for one in forward.arrays if _differentiable(one)}
    for name in wanted:
        if name not in made:
            raise SignatureError(
                f"{forward.what}: its backward has no output {name!r}; it has {', '.join(made)}. "
                "If there is no such gradient, give a Python function as backward=",
                OPERATION,
            )
    return Pair(
        tuple(known[one.name] for one in backward.inputs),
        tuple(made.get(f"grad_{one.name}") for one in forward.inputs),
    )


def _differentiable(parameter: Parameter) -> bool:
    return any("float" in fit or "complex" in fit for fit in parameter.fits)


def _parameters(what: str, kernel: Kernel) -> tuple[Parameter, ...]:
    found = []
    for position, parameter in enumerate(_native.kernel_parameters(kernel)):
        name, kind, role, written, dtype, fits = parameter
        if name is None or not kernel.typed:
            raise SignatureError(
                f"{what}: the signature {kernel.signature} lacks the names or types of parameters; "
                "compile the kernel from its source",
                OPERATION,
            )
        found.append(Parameter(position, name, kind, role, written, dtype, fits))
    return tuple(found)


def _asked(what: str, rule: Callable[..., Any], names: list[str]) -> list[str]:
    """Return which inputs a function wants, by the names of its parameters."""
    try:
        parameters = inspect.signature(rule).parameters.values()
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"{what} is {rule!r}, whose parameters Python cannot say; give a lambda", OPERATION
        ) from error
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise SignatureError(
                f"{what} is a function with {parameter}; give one whose parameters are inputs, as "
                f"lambda {names[0] if names else 'x'}: …",
                OPERATION,
            )
        if parameter.name not in names:
            raise SignatureError(
                f"{what} is a function of {parameter.name!r}, which is no input of the operation; "
                f"there is {', '.join(names) or 'none'}{did_you_mean(parameter.name, names)}",
                OPERATION,
            )
    return [parameter.name for parameter in parameters]


_ASKED: dict[str, Callable[[Array], Any]] = {
    "size": operator.attrgetter("size"),
    "shape": operator.attrgetter("shape"),
}


def has_none(count: Any) -> bool:
    """Say whether a number of elements or blocks, or one for each axis, is none."""
    return 0 in count if isinstance(count, tuple) else bool(count == 0)


def extents(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple; a rule may say an int."""
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
