"""Kernels that reduce axes by one expression: `gpulend.reduction`."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, SupportsIndex

from gpulend import _generated as made
from gpulend import _native
from gpulend._codes import INDEX_OUTSIDE, NOTHING_TO_REDUCE
from gpulend._generated import TYPES, Argument, Axes
from gpulend.exceptions import LayoutError, OutOfRangeError, ProtocolError

# Threads of a block: they share the memory in which they add up, so the number is fixed.
_BLOCK = 256
# Neighbouring outputs that a block takes at once where those lie side by side.
_ACROSS = 32
# A thread takes at least this many elements before several blocks share an output.
_ENOUGH = 16
# So many are enough for it where fewer threads for each output fill the device too.
_SOME = 8
# Neighbouring threads that share an output at least: less than a sector of memory is not read.
_FEWEST = 8


@dataclass(frozen=True)
class _Kernels:
    """The kernels of one set of types: all at once, or in parts that a second one joins."""

    reduce: _native.Kernel
    join: _native.Kernel
    # Bytes of what is added up.
    size: int
    # How many blocks keep the device busy.
    fill: int


@dataclass(frozen=True)
class _Plan:
    """How arguments of some layouts are reduced."""

    shape: tuple[int, ...]
    device: int
    # The types of the outputs that are to be made.
    new: tuple[str | None, ...]
    # None if there are no outputs.
    reduce: _native.Launcher | None = None
    numbers: tuple[int, ...] = ()
    # Of the parts, if several blocks share an output.
    bytes: int = 0
    join: _native.Launcher | None = None
    join_numbers: tuple[int, ...] = ()


class Reduction:
    """A kernel that reduces axes of its inputs: what `reduction` returns."""

    def __init__(
        self,
        inputs: str,
        outputs: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: str | None = None,
        name: str = "reduction",
        *,
        reduce_type: str | None = None,
        preamble: str = "",
        options: Sequence[str] = (),
    ) -> None:
        made.require_name(name)
        self.name = name
        self.inputs = made.parse(inputs, "inputs")
        self.outputs = made.parse(outputs, "outputs")
        made.check_names(self.inputs, self.outputs)
        if not self.outputs or any(one.raw for one in self.outputs):
            raise made.refused(f"{name} needs an output that is not raw, as in 'T y'")
        if all(one.raw for one in self.inputs):
            raise made.refused(f"{name} needs an input that is not raw, as in 'T x'")
        reserved = {"a", "b"} & {one.name for one in (*self.inputs, *self.outputs)}
        if reserved:
            raise made.refused(f"{name}: a and b are what is reduced; rename {reserved.pop()}")
        self._map, self._reduce, self._post = map_expr, reduce_expr, post_map_expr
        self._identity = None if identity in (None, "") else str(identity)
        self._reduce_type, self._preamble, self._options = reduce_type, preamble, tuple(options)
        self._indexed = re.search(r"\bi\b", map_expr) is not None
        self._kernels: dict[Any, _Kernels] = {}
        self._plans: dict[Any, _Plan] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        written = [
            ", ".join(f"{'raw ' * one.raw}{one.type} {one.name}" for one in group)
            for group in (self.inputs, self.outputs)
        ]
        return f"<gpulend.Reduction {self.name}: {written[0]} -> {written[1]}>"

    def __call__(
        self,
        *args: Any,
        out: Any = None,
        axis: SupportsIndex | Sequence[SupportsIndex] | None = None,
        keepdims: bool = False,
        stream: object | None = None,
    ) -> Any:
        """Reduce.

        `axis` is one or several, or all if it is None; `keepdims` keeps them with extent 1.
        Outputs are given behind the inputs, or as `out`; otherwise they are new leases.
        """
        if out is not None:
            args = (*args, *(out if isinstance(out, tuple) else (out,)))
        axes = tuple(axis) if isinstance(axis, Sequence) else axis
        key = (_native.layouts_of(args), axes, keepdims)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plan(key[0], axes, keepdims)
            made.remember(self._plans, key, plan)
        outputs = args[len(self.inputs) :] or tuple(
            _native.empty(plan.shape, dtype, plan.device) for dtype in plan.new
        )
        partial = None
        if plan.bytes:
            partial = _native.empty(plan.bytes, "uint8", plan.device)
        if plan.reduce is not None:
            inputs = args[: len(self.inputs)]
            plan.reduce(*inputs, *outputs, partial, *plan.numbers, strided=True, stream=stream)
        if plan.join is not None:
            plan.join(*outputs, partial, *plan.join_numbers, strided=True, stream=stream)
        return made.result(outputs)

    def _plan(
        self,
        layouts: Sequence[made.Layout],
        axis: SupportsIndex | Sequence[SupportsIndex] | None,
        keepdims: bool,
    ) -> _Plan:
        """Work out the launches; the same for all arguments with these layouts."""
        parameters = (*self.inputs, *self.outputs)
        given = [made.read(layout) for layout in layouts]
        if len(given) not in (len(self.inputs), len(parameters)):
            raise TypeError(
                f"{self.name} takes {len(self.inputs)} inputs, or those and {len(self.outputs)} "
                f"outputs; {len(given)} arguments were given"
            )
        for parameter, argument in zip(parameters, given, strict=False):
            if (parameter.raw or parameter in self.outputs) and not argument.is_array:
                raise TypeError(f"{self.name}: {parameter.name} is a number; pass an array")
        arguments = [*given, *[None] * (len(parameters) - len(given))]
        types = made.decide_types(parameters, arguments, self.name)
        arrays = [a for p, a in zip(self.inputs, given, strict=False) if a.is_array and not p.raw]
        shape = made.broadcast(self.name, arrays)
        axes = self._axes(axis, len(shape))
        kept = [at for at in range(len(shape)) if at not in axes]
        left = _at(shape, kept)
        result = tuple(
            1 if at in axes else extent
            for at, extent in enumerate(shape)
            if keepdims or at not in axes
        )
        if self._identity is None and 0 in _at(shape, axes) and 0 not in left:
            raise LayoutError(
                f"{self.name} has no identity, and an array of shape {shape} has nothing to reduce "
                f"along {'all axes' if axis is None else f'axis {axis}'}",
                NOTHING_TO_REDUCE,
            )
        device = made.device_of(arguments)
        outputs: list[Argument] = []
        for parameter, found in zip(self.outputs, arguments[len(self.inputs) :], strict=True):
            dtype = types.get(parameter.type, parameter.type)
            output = found or Argument(True, result, made.compact(result), dtype)
            made.require_shape(self.name, parameter, output, result)
            outputs.append(output)
        new = tuple(one.dtype for one in outputs) if len(given) < len(parameters) else ()
        if 0 in result:
            return _Plan(result, device, new)
        # An output that keeps the reduced axes has one element along them.
        steps = [one.strides if not keepdims else _at(one.strides, kept) for one in outputs]
        strides = [made.repeated(one, shape) for one in arrays]
        if self._indexed:
            strides.append(made.compact(shape))
        outer = made.collapse(left, [*(_at(one, kept) for one in strides), *steps])
        inner = made.collapse(_at(shape, axes), [_at(one, axes) for one in strides])
        filled = (*given[: len(self.inputs)], *outputs)
        return _Plan(result, device, new, *self._launchers(filled, types, (outer, inner), device))

    def _axes(
        self, axis: SupportsIndex | Sequence[SupportsIndex] | None, rank: int
    ) -> tuple[int, ...]:
        """Return the axes that are reduced, counted from the first."""
        if axis is None:
            return tuple(range(rank))
        given = tuple(axis) if isinstance(axis, Sequence) else (axis,)
        found = [one.__index__() for one in given]
        for one in found:
            if not -rank <= one < rank:
                raise OutOfRangeError(
                    f"{self.name}: axis {one} of an array of {rank} axes", INDEX_OUTSIDE
                )
        counted = sorted(one % rank for one in found)
        if len(set(counted)) < len(counted):
            raise made.refused(f"{self.name}: axis {axis} names an axis twice")
        return tuple(counted)

    def _launchers(
        self,
        arguments: Sequence[Argument],
        types: dict[str, str],
        axes: tuple[Axes, Axes],
        device: int,
    ) -> tuple[_native.Launcher, tuple[int, ...], int, _native.Launcher | None, tuple[int, ...]]:
        """Return the fields of a plan from `reduce` on."""
        outer, inner = axes
        plain = [
            p for p, a in zip(self.inputs, arguments, strict=False) if a.is_array and not p.raw
        ]
        raw = [(p, made.raw_axes(a)) for p, a in zip(self.inputs, arguments, strict=False) if p.raw]
        wide = made.is_wide(outer, inner)
        arrays = len(plain) + self._indexed
        pattern = (
            device,
            tuple(sorted(types.items())),
            tuple(argument.is_array for argument in arguments),
            tuple(outer.is_dense(array) for array in range(arrays + len(self.outputs))),
            tuple(inner.is_dense(array) for array in range(arrays)),
            tuple(one.rank for _, one in raw),
            (outer.rank, inner.rank, wide),
        )
        found = self._kernels.get(pattern)
        if found is None:
            with self._lock:
                found = self._kernels.get(pattern)
                if found is None:
                    found = self._compile(arguments, types, axes, wide, device)
                    self._kernels[pattern] = found
        outs, reduced = prod(outer.extents), prod(inner.extents)
        # Neighbouring threads take neighbouring elements: of one output, or of several.
        across = outs > 1 and _step(outer) < _step(inner)
        lanes = _lanes(outs, reduced, across, found.fill)
        blocks = -(-outs // (_BLOCK // lanes))
        parts = max(1, min(found.fill // blocks, -(-reduced // (lanes * _ENOUGH)), 2**15))
        chunk = -(-reduced // parts) if reduced else 0
        parts = -(-reduced // chunk) if chunk else 1
        inputs = {array: parameter.name for array, parameter in enumerate(plain)}
        if self._indexed:
            inputs[len(plain)] = "i"
        outputs = {arrays + at: one.name for at, one in enumerate(self.outputs)}
        numbers = [outs, reduced, chunk, parts, lanes, int(across)]
        numbers += made.offset_values(outer, {**inputs, **outputs}, wide)
        numbers += made.offset_values(inner, inputs, wide)
        for _, one in raw:
            numbers += [*one.extents, *one.strides[0]]
        reduce = found.reduce[(blocks, parts), _BLOCK]
        if parts == 1:
            return reduce, tuple(numbers), 0, None, ()
        lanes = min(_BLOCK, _power(parts))
        join = found.join[-(-outs // (_BLOCK // lanes)), _BLOCK]
        joined = (outs, parts, parts, 1, lanes, 0, *made.offset_values(outer, outputs, wide))
        return reduce, tuple(numbers), outs * parts * found.size, join, joined

    def _compile(
        self,
        arguments: Sequence[Argument],
        types: dict[str, str],
        axes: tuple[Axes, Axes],
        wide: bool,
        device: int,
    ) -> _Kernels:
        outer, inner = axes
        declared: list[str] = []
        aliases: list[str] = []
        loads: list[str] = []
        raws: list[str] = []
        raw_numbers: list[str] = []
        inputs: dict[int, str] = {}
        for parameter, argument in zip(self.inputs, arguments, strict=False):
            name, written = parameter.name, parameter.written(types)
            if not argument.is_array:
                declared.append(f"{written} {name}")
                aliases.append(f"const {written} _p_{name} = {name};")
                loads.append(f"{made.OFFERED} {written} {name} = _p_{name};")
                continue
            declared.append(f"const {written} *{name}")
            aliases.append(f"const {written} *const _p_{name} = {name};")
            if parameter.raw:
                rank = made.raw_axes(argument).rank
                code, numbers = made.raw_code(parameter, written, rank, "const ")
                raws.append(code)
                raw_numbers += numbers
            else:
                inputs[len(inputs)] = name
                at = f"_oat_{name} + _rat_{name}"
                loads.append(f"{made.OFFERED} {written} {name} = _p_{name}[{at}];")
        if self._indexed:
            inputs[len(inputs)] = "i"
            loads.append("const ptrdiff_t i = (ptrdiff_t)_oat_i + _rat_i;")
        outputs = {len(inputs) + at: one.name for at, one in enumerate(self.outputs)}
        results = [f"{one.written(types)} *{one.name}" for one in self.outputs]
        shown = [f"{one.written(types)} *const _p_{one.name} = {one.name};" for one in self.outputs]
        named = {**inputs, **outputs}
        outer_code, outer_numbers = made.offsets(outer, "_o", "_o", named, wide)
        inner_code, inner_numbers = made.offsets(inner, "_r", "_r", inputs, wide)
        join_code, join_numbers = made.offsets(outer, "_o", "_o", outputs, wide)
        stores = [
            f"{one.written(types)} &{one.name} = _p_{one.name}[_oat_{one.name}];"
            for one in self.outputs
        ]
        symbol = made.symbol(self.name)
        first = _Stage(
            symbol,
            [*declared, *results],
            [*aliases, *shown, "{", *raws],
            outer_code,
            f"{inner_code}\n{made.OFFERED} ptrdiff_t _J = _r;\n"
            + "\n".join(loads)
            + f"\n_v = (_R)({self._map});",
            [*outer_numbers, *inner_numbers],
            raw_numbers,
        )
        second = _Stage(
            f"{symbol}_join",
            results,
            [*shown, "{"],
            join_code,
            "_v = ((const _R *)_partial)[_o * _reduced + _r];",
            join_numbers,
            [],
        )
        size = f'extern "C" __global__ void {symbol}_size(int *size) {{ *size = sizeof(_R); }}'
        reduced = self._reduced(types)
        text = "\n".join(
            [
                f"typedef {TYPES.get(reduced, reduced)} _R;",
                *(self._stage(one, stores) for one in (first, second)),
                size,
            ]
        )
        used = [types.get(one.type, one.type) for one in (*self.inputs, *self.outputs)]
        module = made.compiled(
            self.name, text, [*used, reduced], types, wide, self._preamble, self._options, device
        )
        found = _native.zeros((), "int32", device=device)
        module[f"{symbol}_size"][1, 1](found)
        kernel = module[symbol]
        grid, block = kernel.best_size()
        return _Kernels(kernel, module[f"{symbol}_join"], found.item(), grid * block // _BLOCK)

    def _reduced(self, types: dict[str, str]) -> str:
        """Return the type of a and b: an element type, or one of the preamble."""
        given = self._reduce_type
        if given is None:
            first = self.outputs[0].type
            return types.get(first, first)
        if given in types:
            return types[given]
        try:
            return made.element_type(given, "reduce_type")
        except ProtocolError:
            return given

    def _stage(self, stage: _Stage, stores: Sequence[str]) -> str:
        """Return the code of one kernel: threads add up, then the block, and one keeps that."""
        numbers = [
            "_I _outs",
            "_I _reduced",
            "_I _chunk",
            "int _parts",
            "int _lanes",
            "int _across",
        ]
        numbers += stage.numbers
        numbers += [f"long long {one}" for one in stage.raw_numbers]
        declared = ", ".join([*stage.declared, "void *_partial", *numbers])
        identity = self._identity or ""
        combine = (
            "if (_empty) { _s = _v; _empty = false; } "
            f"else {{ {made.OFFERED} _R a = _s, b = _v; _s = (_R)({self._reduce}); }}"
        )
        together = ""
        if made.is_short(stage.load, self._reduce, self._preamble):
            together = _together(stage.load, combine)
        join = (
            f"{made.OFFERED} _R a = _shared[_at], b = _shared[_at + _half * _gap]; "
            f"_shared[_at] = (_R)({self._reduce});"
        )
        return f"""
extern "C" __global__ void {stage.name}({declared}) {{
    __shared__ __align__(16) unsigned char _room[{_BLOCK} * sizeof(_R)];
    _R *const _shared = (_R *)_room;
    {" ".join(stage.aliases)}
    // Lanes are a power of two: nothing is divided.
    const int _bits = 31 - __clz(_lanes), _per = {_BLOCK} >> _bits, _thread = threadIdx.x;
    const int _across_bits = {_BLOCK.bit_length() - 1} - _bits;
    const int _lane = _across ? _thread >> _across_bits : _thread & (_lanes - 1);
    const int _slot = _across ? _thread & (_per - 1) : _thread >> _bits;
    const int _gap = _across ? _per : 1, _at = _across ? _thread : _slot * _lanes + _lane;
    const _I _o = (_I)blockIdx.x * _per + _slot;
    const _I _start = (_I)blockIdx.y * _chunk;
    const _I _left = _reduced - _start;
    const _I _count = _left < _chunk ? _left : _chunk;
    const bool _live = _o < _outs;
    {stage.outer}
    if (_live && _lane < _count) {{
        _R _s = _R();
        bool _empty = true;
        _I _k = _lane;
        {together}
        {made.NOT_UNROLLED}
        for (; _k < _count; _k += _lanes) {{
            const _I _r = _start + _k;
            _R _v;
            {{ {stage.load} }}
            {combine}
        }}
        _shared[_at] = _s;
    }}
    // Lanes of one warp need not wait for the others.
    const bool _one_warp = !_across && _lanes <= 32;
    if (_one_warp) __syncwarp(); else __syncthreads();
    for (int _half = _lanes / 2; _half > 0; _half /= 2) {{
        if (_live && _lane < _half && _lane + _half < _count) {{ {join} }}
        if (_one_warp) __syncwarp(); else __syncthreads();
    }}
    if (!_live || _lane != 0) return;
    if (_parts > 1) {{
        ((_R *)_partial)[_o * _parts + blockIdx.y] = _shared[_at];
        return;
    }}
    {made.OFFERED} _R a = _count > 0 ? _shared[_at] : _R({identity});
    {{
    {" ".join(stores)}
    {self._post};
    }}
    }}
}}
"""


@dataclass(frozen=True)
class _Stage:
    """What differs between the kernel that reads the inputs and the one that joins its parts."""

    name: str
    declared: list[str]
    aliases: list[str]
    outer: str
    load: str
    numbers: list[str]
    raw_numbers: list[str]


def _at(values: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(values[axis] for axis in axes)


def _together(load: str, combine: str) -> str:
    """Return the loop in which a thread reads several elements before it adds up the first."""
    many = made.TOGETHER
    return f"""{made.NOT_UNROLLED}
        for (; _k + {many - 1} * _lanes < _count; _k += {many} * _lanes) {{
            _R _w[{many}];
            {made.UNROLLED}
            for (int _u = 0; _u < {many}; ++_u) {{
                const _I _r = _start + _k + _u * _lanes;
                _R _v;
                {{ {load} }}
                _w[_u] = _v;
            }}
            {made.UNROLLED}
            for (int _u = 0; _u < {many}; ++_u) {{
                const _R _v = _w[_u];
                {combine}
            }}
        }}"""


def _lanes(outs: int, reduced: int, across: bool, fill: int) -> int:
    """Return how many threads share an output in a block: a power of two."""
    if across:
        return min(_BLOCK // min(_ACROSS, _power(outs)), _power(reduced))
    lanes = min(_BLOCK, _power(reduced))
    # To add up what threads found costs more than to read one element more.
    while lanes > _FEWEST and reduced < lanes * _SOME and outs * lanes // 2 >= fill * _BLOCK:
        lanes //= 2
    return lanes


def _step(axes: Axes) -> int:
    """Return the distance of neighbours in the first array."""
    return abs(axes.strides[0][-1]) if axes.rank else 2**62


def _power(count: int) -> int:
    """Return the power of two that is not less."""
    return 1 << max(0, count - 1).bit_length()


def reduction(
    inputs: str,
    outputs: str,
    map_expr: str,
    reduce_expr: str,
    post_map_expr: str,
    identity: str | None = None,
    name: str = "reduction",
    *,
    reduce_type: str | None = None,
    preamble: str = "",
    options: Sequence[str] = (),
) -> Reduction:
    """Make a kernel that reduces axes, as CuPy's `ReductionKernel`.

    `map_expr` makes a value of the inputs, `reduce_expr` joins two of them, `a` and `b`, and
    `post_map_expr` assigns the outputs from the result, `a`. `identity` is the result of no
    elements. `reduce_type` is the type of `a` and `b`, if it is not that of the first output: an
    element type, or a struct of the `preamble`. In `map_expr`, `i` is the index of the element in
    the array, and `_J` that along the reduced axes.

    >>> import gpulend, numpy as np
    >>> norm = gpulend.reduction("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    >>> x = gpulend.from_host(np.array([[3, 4], [6, 8]], dtype="float32"))
    >>> norm(x, axis=1).to_host(), norm(x[0]).item()
    (array([ 5., 10.], dtype=float32), 5.0)
    """
    return Reduction(
        inputs,
        outputs,
        map_expr,
        reduce_expr,
        post_map_expr,
        identity,
        name,
        reduce_type=reduce_type,
        preamble=preamble,
        options=options,
    )
