"""Kernels of one expression for each element: `gpulend.elementwise`."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from gpulend import _generated as made
from gpulend import _native
from gpulend._generated import Argument, Parameter

# Threads of a block, unless the caller chooses: larger ones leave room of a multiprocessor unused
# while their last threads end.
_BLOCK = 256
# Words with which an operation can see or end more than its element.
_OF_THREADS = re.compile(r"\b(return|break|goto|asm|\w+(Idx|Dim)|__\w*sync\w*|__activemask)\b")


@dataclass(frozen=True)
class _Made:
    """A compiled kernel."""

    kernel: _native.Kernel
    block: int
    # How many elements a thread can take together.
    together: int
    # How many threads the device runs at once.
    fill: int


@dataclass(frozen=True)
class _Plan:
    """How arguments of some layouts are computed."""

    shape: tuple[int, ...]
    device: int
    # The types of the outputs that are to be made.
    new: tuple[str | None, ...]
    # None if there are no elements.
    launcher: _native.Launcher | None
    numbers: tuple[int, ...]
    strided: bool


class Elementwise:
    """A kernel that computes each element by one expression: what `elementwise` returns.

    Called with its inputs it makes the outputs and returns them, leases; called with the outputs
    behind them it writes those and returns them as they were given.
    """

    def __init__(
        self,
        inputs: str,
        outputs: str,
        operation: str,
        name: str = "elementwise",
        *,
        preamble: str = "",
        loop_prep: str = "",
        after_loop: str = "",
        options: Sequence[str] = (),
    ) -> None:
        made.require_name(name)
        self.name = name
        self.inputs = made.parse(inputs, "inputs")
        self.outputs = made.parse(outputs, "outputs")
        made.check_names(self.inputs, self.outputs)
        if not self.outputs:
            raise made.refused(f"{name} has no outputs; write one, as in 'float32 z'")
        self._operation, self._preamble = operation, preamble
        self._before, self._after, self._options = loop_prep, after_loop, tuple(options)
        self._kernels: dict[Any, _Made] = {}
        self._plans: dict[Any, _Plan] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        written = [
            ", ".join(f"{'raw ' * one.raw}{one.type} {one.name}" for one in group)
            for group in (self.inputs, self.outputs)
        ]
        return f"<gpulend.Elementwise {self.name}: {written[0]} -> {written[1]}>"

    def __call__(
        self,
        *args: Any,
        size: int | None = None,
        block: int | None = None,
        stream: object | None = None,
    ) -> Any:
        """Compute.

        Arrays are of any framework, and are repeated to one shape as NumPy does; numbers are
        passed by value. `size` is the number of elements where all arrays are raw. `block` is the
        number of threads of a block, if you want another than gpulend chooses. `stream` is that of
        the launch.
        """
        key = (_native.layouts_of(args), size, block)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plan(key[0], size, block)
            made.remember(self._plans, key, plan)
        outputs = args[len(self.inputs) :] or [
            _native.empty(plan.shape, dtype, plan.device) for dtype in plan.new
        ]
        if plan.launcher is None:
            pass
        elif stream is None and not plan.strided:
            plan.launcher(*args[: len(self.inputs)], *outputs, *plan.numbers)
        else:
            plan.launcher(
                *args[: len(self.inputs)], *outputs, *plan.numbers, strided=True, stream=stream
            )
        return made.result(outputs)

    def _plan(self, layouts: Sequence[made.Layout], size: int | None, block: int | None) -> _Plan:
        """Work out a launch; the same for all arguments with these layouts."""
        parameters = (*self.inputs, *self.outputs)
        given = [made.read(layout) for layout in layouts]
        if len(given) not in (len(self.inputs), len(parameters)):
            raise TypeError(
                f"{self.name} takes {len(self.inputs)} inputs, or those and {len(self.outputs)} "
                f"outputs; {len(given)} arguments were given"
            )
        arguments = [*given, *[None] * (len(parameters) - len(given))]
        self._refuse_numbers(arguments)
        types = made.decide_types(parameters, arguments, self.name)
        shape = self._shape(arguments, size)
        device = made.device_of(arguments)
        filled = [
            self._output(parameter, argument, shape, types)
            for parameter, argument in zip(parameters, arguments, strict=True)
        ]
        new = () if len(given) == len(parameters) else filled[len(self.inputs) :]
        launcher: _native.Launcher | None = None
        numbers: tuple[int, ...] = ()
        if prod(shape):
            launcher, numbers = self._launcher(filled, types, shape, device, block)
        strided = any(one.strides != made.compact(one.shape) for one in filled)
        made_of = tuple(one.dtype for one in new)
        return _Plan(shape, device, made_of, launcher, numbers, strided)

    def _refuse_numbers(self, arguments: Sequence[Argument | None]) -> None:
        """Refuse a number where memory is needed."""
        for parameter, argument in zip((*self.inputs, *self.outputs), arguments, strict=True):
            needs = parameter.raw or parameter in self.outputs
            if needs and argument is not None and not argument.is_array:
                raise TypeError(f"{self.name}: {parameter.name} is a number; pass an array")
            if needs and argument is None and parameter.raw:
                raise TypeError(
                    f"{self.name}: {parameter.name} is a raw output, of which the shape is not "
                    "known; pass an array for it"
                )

    def _shape(self, arguments: Sequence[Argument | None], size: int | None) -> tuple[int, ...]:
        parameters = (*self.inputs, *self.outputs)
        arrays = [
            argument
            for parameter, argument in zip(parameters, arguments, strict=True)
            if argument is not None and argument.is_array and not parameter.raw
        ]
        if arrays and size is not None:
            raise TypeError(f"{self.name}: size is that of the arrays; leave it out")
        if size is not None:
            return (size,)
        if not arrays and any(parameter.raw for parameter in parameters):
            raise TypeError(f"{self.name}: all arrays are raw; say how many elements: size=")
        return made.broadcast(self.name, arrays)

    def _output(
        self,
        parameter: Parameter,
        argument: Argument | None,
        shape: tuple[int, ...],
        types: dict[str, str],
    ) -> Argument:
        """Return an argument, or that of an output that is still to be made."""
        if argument is None:
            return Argument(
                True, shape, made.compact(shape), types.get(parameter.type, parameter.type)
            )
        if parameter in self.outputs and not parameter.raw:
            made.require_shape(self.name, parameter, argument, shape)
        return argument

    def _launcher(
        self,
        arguments: Sequence[Argument],
        types: dict[str, str],
        shape: tuple[int, ...],
        device: int,
        block: int | None,
    ) -> tuple[_native.Launcher, tuple[int, ...]]:
        """Return a kernel with its size, and the numbers that follow the arguments."""
        parameters = (*self.inputs, *self.outputs)
        pairs = list(zip(parameters, arguments, strict=True))
        plain = [(p, a) for p, a in pairs if a.is_array and not p.raw]
        raw = [(p, made.raw_axes(a)) for p, a in pairs if p.raw]
        axes = made.collapse(shape, [made.repeated(argument, shape) for _, argument in plain])
        wide = made.is_wide(axes)
        # What the code depends on; all else is an argument of the launch.
        pattern = (
            device,
            tuple(sorted(types.items())),
            tuple(argument.is_array for argument in arguments),
            tuple(axes.is_dense(array) for array in range(len(plain))),
            tuple(one.rank for _, one in raw),
            axes.rank,
            wide,
        )
        found = self._kernels.get(pattern)
        if found is None:
            with self._lock:
                found = self._kernels.get(pattern)
                if found is None:
                    found = self._compile(arguments, types, axes, wide, device)
                    self._kernels[pattern] = found
        count = prod(shape)
        threads = found.block if block is None else block
        # Few elements are better spread over all threads that there are.
        each = found.together if count >= found.fill * found.together else 1
        if each > 1 and count > (2**31 - 1) * threads * each:
            each = 1
        # A block that cannot be is refused by the launch.
        grid = min(-(-count // max(threads * each, 1)), 2**31 - 1)
        named = {array: parameter.name for array, (parameter, _) in enumerate(plain)}
        numbers = [count, *made.offset_values(axes, named, wide)]
        for _, one in raw:
            numbers += [*one.extents, *one.strides[0]]
        if found.together > 1:
            numbers.append(each)
        return found.kernel[grid, threads], tuple(numbers)

    def _compile(
        self,
        arguments: Sequence[Argument],
        types: dict[str, str],
        axes: made.Axes,
        wide: bool,
        device: int,
    ) -> _Made:
        declared: list[str] = []
        aliases: list[str] = []
        values: list[str] = []
        arrays: list[_Array] = []
        raws: list[str] = []
        raw_numbers: list[str] = []
        for parameter, argument in zip((*self.inputs, *self.outputs), arguments, strict=True):
            name, written = parameter.name, parameter.written(types)
            const = "const " if parameter in self.inputs else ""
            if not argument.is_array:
                declared.append(f"{written} {name}")
                aliases.append(f"const {written} _p_{name} = {name};")
                values.append(f"{made.OFFERED} {written} {name} = _p_{name};")
                continue
            declared.append(f"{const}{written} *{name}")
            aliases.append(f"{const}{written} *const _p_{name} = {name};")
            if parameter.raw:
                rank = made.raw_axes(argument).rank
                code, numbers = made.raw_code(parameter, written, rank, const)
                raws.append(code)
                raw_numbers += numbers
            else:
                arrays.append(_Array(name, written, bool(const)))
        together = self._together(arrays, raws, types)
        plain = _Arrays(arrays, axes, wide)
        numbers = [*plain.offsets()[1], *(f"long long {one}" for one in raw_numbers)]
        loop = self._loop(plain, values, together)
        symbol = made.symbol(self.name)
        numbers = ["_I _n", *numbers, *["int _each"] * (together > 1)]
        text = "\n".join(
            [
                f'extern "C" __global__ void {symbol}({", ".join([*declared, *numbers])}) {{',
                *aliases,
                "{",
                *raws,
                f"{made.OFFERED} _Index _ind = {{_n}};",
                "const ptrdiff_t n = _n;",
                f"{self._before};",
                *loop,
                f"{self._after};",
                "}",
                "}",
            ]
        )
        used = [types.get(one.type, one.type) for one in (*self.inputs, *self.outputs)]
        module = made.compiled(
            self.name, text, used, types, wide, self._preamble, self._options, device
        )
        kernel = module[symbol]
        grid, block = kernel.best_size()
        return _Made(kernel, min(block, _BLOCK), together, grid * block)

    def _together(
        self, arrays: Sequence[_Array], raws: Sequence[str], types: dict[str, str]
    ) -> int:
        """Return how many elements a thread can read before it computes the first.

        One where an operation may see the difference: it reads what others wrote, by hand, or has
        words that are about the thread. The values have to fit into registers, too.
        """
        code = (self._before, self._operation, self._after)
        inputs = [one for one in arrays if one.read]
        if not inputs or len(inputs) == len(arrays) or raws:
            return 1
        if not made.is_short(*code, self._preamble) or any(map(_OF_THREADS.search, code)):
            return 1
        read = [one for one in self.inputs if any(one.name == other.name for other in inputs)]
        size = sum(made.size_of(types.get(one.type, one.type)) for one in read)
        return made.TOGETHER if size <= 32 else 2 if size <= 64 else 1

    def _loop(self, arrays: _Arrays, values: Sequence[str], together: int) -> list[str]:
        """Return the code of a thread's elements: as many together as can be, then the rest."""
        operation = f"{self._operation};"
        one = [_INDEX, arrays.offsets()[0], *values, *arrays.loaded(), *arrays.stored(), operation]
        if together == 1:
            return [*_EACH_THREAD, made.NOT_UNROLLED, "for (; i < n; i += _step) {", *one, "}"]
        each = [
            made.UNROLLED,
            f"for (int _u = 0; _u < {together}; ++_u) {{",
            "__attribute__((unused)) ptrdiff_t i = _first + _u * _step;",
            _INDEX,
        ]
        return [
            *_EACH_BLOCK,
            made.NOT_UNROLLED,
            f"for (; _first + {together - 1} * _step < _end; _first += {together} * _step) {{",
            *arrays.declared(together),
            *[*each, arrays.offsets(read=True)[0], *arrays.kept(), "}"],
            *[*each, arrays.offsets(read=False)[0], *values],
            *[*arrays.taken(), *arrays.stored(), operation, "}"],
            "}",
            "ptrdiff_t i = _first;",
            made.NOT_UNROLLED,
            "for (; i < _end; i += _step) {",
            *one,
            "}",
        ]


_INDEX = f"{made.OFFERED} _I _k = (_I)i;"
# All threads take an element, then all the next.
_EACH_THREAD = (
    "const ptrdiff_t _step = (ptrdiff_t)gridDim.x * blockDim.x;",
    "ptrdiff_t i = (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x;",
)
# The same if _each is 1; otherwise each block has neighbouring elements, so many for each thread.
_EACH_BLOCK = (
    "const ptrdiff_t _tile = (ptrdiff_t)blockDim.x * _each, _from = blockIdx.x * _tile;",
    "const ptrdiff_t _step = _each > 1 ? blockDim.x : (ptrdiff_t)gridDim.x * blockDim.x;",
    "const ptrdiff_t _end = _each > 1 && n - _from > _tile ? _from + _tile : n;",
    "ptrdiff_t _first = _from + threadIdx.x;",
)


@dataclass(frozen=True)
class _Array:
    """An array that is not raw, as the code sees it."""

    name: str
    written: str
    # Whether it is an input.
    read: bool


@dataclass(frozen=True)
class _Arrays:
    """The code for arrays that are not raw."""

    all: Sequence[_Array]
    axes: made.Axes
    wide: bool

    def offsets(self, read: bool | None = None) -> tuple[str, list[str]]:
        """Return what finds an index in them, or in the inputs or outputs, and its parameters."""
        named = {at: one.name for at, one in enumerate(self.all) if read in (None, one.read)}
        return made.offsets(self.axes, "_k", "_", named, self.wide)

    def loaded(self) -> list[str]:
        """Return what reads the inputs of an element."""
        return [
            f"{made.OFFERED} {one.written} {one.name} = _p_{one.name}[_at_{one.name}];"
            for one in self.all
            if one.read
        ]

    def stored(self) -> list[str]:
        """Return what names the outputs of an element."""
        return [
            f"{one.written} &{one.name} = _p_{one.name}[_at_{one.name}];"
            for one in self.all
            if not one.read
        ]

    def declared(self, together: int) -> list[str]:
        """Return the places for the inputs of several elements."""
        return [f"{one.written} _v_{one.name}[{together}];" for one in self.all if one.read]

    def kept(self) -> list[str]:
        """Return what reads the inputs of one of them there."""
        inputs = [one.name for one in self.all if one.read]
        return [f"_v_{name}[_u] = _p_{name}[_at_{name}];" for name in inputs]

    def taken(self) -> list[str]:
        """Return what takes them from there."""
        return [
            f"{made.OFFERED} {one.written} {one.name} = _v_{one.name}[_u];"
            for one in self.all
            if one.read
        ]


def elementwise(
    inputs: str,
    outputs: str,
    operation: str,
    name: str = "elementwise",
    *,
    preamble: str = "",
    loop_prep: str = "",
    after_loop: str = "",
    options: Sequence[str] = (),
) -> Elementwise:
    """Make a kernel of an expression, as CuPy's `ElementwiseKernel`.

    `inputs` and `outputs` are parameters: a type, of CUDA C or NumPy, and a name. A capital letter
    is the type of the argument. `raw` parameters are indexed by hand. `operation` is CUDA C: it
    assigns the outputs; `i` is the index of the element, `n` their number. `loop_prep` and
    `after_loop` run once for each thread, before and behind its elements; `preamble` stands before
    the kernel. For each set of types it is compiled once.

    >>> import gpulend, numpy as np
    >>> fma = gpulend.elementwise("T x, T y", "T z", "z = x * y + 1", "fma")
    >>> x = gpulend.from_host(np.arange(3, dtype="float32"))
    >>> fma(x, 10).to_host()
    array([ 1., 11., 21.], dtype=float32)
    """
    return Elementwise(
        inputs,
        outputs,
        operation,
        name,
        preamble=preamble,
        loop_prep=loop_prep,
        after_loop=after_loop,
        options=options,
    )
