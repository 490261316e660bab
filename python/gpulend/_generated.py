"""What `elementwise` and `reduction` share: parameters, types, shapes, pieces of CUDA C."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from gpulend import _native, kernels
from gpulend._codes import BAD_ARGUMENT, GENERIC_TYPE, SHAPES_DISAGREE
from gpulend.exceptions import LayoutError, ProtocolError

# What CUDA C calls the elements of arrays.
TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "thrust::complex<float>",
    "complex128": "thrust::complex<double>",
}
# Names of C that are not names of NumPy, or mean something else there.
_NAMES_OF_C = {written: name for name, written in TYPES.items()} | {
    "char": "int8",
    "unsigned": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "half": "float16",
    "complex<float>": "complex64",
    "complex<double>": "complex128",
}
_HEADERS = {
    "float16": "cuda_fp16.h",
    "bfloat16": "cuda_bf16.h",
    "complex64": "_complex.h",
    "complex128": "_complex.h",
}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")
_OF_PYTHON = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
# Beyond, an index takes 64 bits.
_NARROW = 2**31 - 2**12
# What generated code declares for expressions that may not use it: NVRTC warns of what is unused.
OFFERED = "__attribute__((unused)) const"
# Plans that a kernel keeps.
_MANY = 1024
# Before a loop over all or none of its elements. Left alone, NVRTC divides to count the rounds, for
# each thread, and most have one.
UNROLLED, NOT_UNROLLED = '_Pragma("unroll")', '_Pragma("unroll 1")'
# Elements that a thread reads before it computes the first: one alone does not keep memory busy.
TOGETHER = 4
# Characters of code that there may be for that, because it is written as often.
_SHORT = 1000


def refused(message: str) -> ProtocolError:
    """Return the error for a definition that cannot be."""
    return ProtocolError(message, BAD_ARGUMENT)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: `raw T x`."""

    name: str
    type: str
    raw: bool

    @property
    def generic(self) -> bool:
        """Whether the argument decides the type."""
        return len(self.type) == 1

    def written(self, types: dict[str, str]) -> str:
        """Return its type in CUDA C."""
        return TYPES[types.get(self.type, self.type)]


def parse(text: str, what: str) -> tuple[Parameter, ...]:
    """Read a list of parameters, as `"T x, raw float32 y"`."""
    parts = [part.split() for part in re.sub(r"\s+", " ", text).split(",") if part.strip()]
    return tuple(_parameter(words, what) for words in parts)


def _parameter(words: list[str], what: str) -> Parameter:
    text = " ".join(words)
    raw = words[0] == "raw"
    words = words[1:] if raw else words
    if len(words) < 2:
        raise refused(f"{what} has {text!r}; write a type and a name, as in 'float32 x'")
    name, written = words[-1], " ".join(words[:-1])
    if not _IDENTIFIER.match(name) or name in ("i", "n") or name.startswith("_"):
        raise refused(
            f"{what} has the name {name!r}; i is the index, n the number of elements, and names "
            "that begin with an underscore are gpulend's"
        )
    return Parameter(name, _type(written, what), raw)


def _type(written: str, what: str) -> str:
    if re.fullmatch("[A-Z]", written):
        return written
    return element_type(written, what)


def element_type(written: str, what: str) -> str:
    """Return the name of an element type that is written in CUDA C or as NumPy does."""
    found = _NAMES_OF_C.get(written)
    if found is None and written in TYPES:
        found = written
    if found is None:
        raise refused(
            f"{what} has the type {written!r}; write one of NumPy's ({', '.join(TYPES)}), of "
            "CUDA C's, as 'float', or a capital letter for the type of the argument"
        )
    return found


def check_names(*groups: tuple[Parameter, ...]) -> None:
    """Refuse two parameters of one name."""
    names = [parameter.name for group in groups for parameter in group]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise refused(f"two parameters are called {twice.pop()!r}")


# What `_native.layouts_of` returns: of an array its layout as bytes, of a number its class.
Layout = bytes | type
# How such bytes begin: the index of the GPU, or -1, and the number of axes.
_HEAD = struct.Struct("=2q")


@dataclass(frozen=True)
class Argument:
    """An argument as the code sees it: an array with its layout, or a number."""

    is_array: bool
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: str | None = None
    # The index of its GPU; None if it has none.
    device: int | None = None
    # A number of Python's: every other argument decides before it.
    weak: bool = False


def read(found: Layout) -> Argument:
    """Return what a layout says."""
    if isinstance(found, bytes):
        device, rank = _HEAD.unpack_from(found)
        numbers = struct.Struct(f"={2 * rank}q")
        both = numbers.unpack_from(found, _HEAD.size)
        dtype = found[_HEAD.size + numbers.size :].decode()
        return Argument(True, both[:rank], both[rank:], dtype, device if device >= 0 else None)
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(found, numpy.generic):
        return Argument(False, dtype=numpy.dtype(found).name)
    known = (name for cls, name in _OF_PYTHON.items() if issubclass(found, cls))
    return Argument(False, dtype=next(known, "float64"), weak=True)


def remember(plans: dict[Any, Any], key: Any, plan: Any) -> None:
    """Keep a plan for arguments of the same layouts; not too many, and none that may change."""
    if any(isinstance(one, bytes) and read(one).device is not None for one in key[0]):
        if len(plans) >= _MANY:
            plans.clear()
        plans[key] = plan


def decide_types(
    parameters: Sequence[Parameter], arguments: Sequence[Argument | None], name: str
) -> dict[str, str]:
    """Return which type each letter stands for: arrays decide, then NumPy's numbers, then others.

    `None` is an output that is still to be made.
    """
    types: dict[str, str] = {}
    pairs = [(p, a) for p, a in zip(parameters, arguments, strict=True) if a is not None]
    for parameter, argument in pairs:
        if not argument.is_array or not parameter.generic:
            continue
        found = argument.dtype
        assert found is not None
        if types.setdefault(parameter.type, found) != found:
            raise LayoutError(
                f"{name}: {parameter.name} is a {found} array, and {parameter.type} is "
                f"{types[parameter.type]} by an argument before; convert one of them, or give "
                "the parameters two letters",
                GENERIC_TYPE,
            )
    for parameter, argument in sorted(pairs, key=lambda pair: pair[1].weak):
        if parameter.generic:
            assert argument.dtype is not None
            types.setdefault(parameter.type, argument.dtype)
    for parameter in parameters:
        letter = types.get(parameter.type, parameter.type)
        if letter not in TYPES:
            known = ", ".join(TYPES)
            raise LayoutError(
                f"{name}: the type {parameter.type} of {parameter.name} "
                + (
                    "follows from no argument; pass an array for it, as an output too"
                    if len(letter) == 1
                    else f"is {letter}, and kernels are made for {known}"
                ),
                GENERIC_TYPE,
            )
    return types


def broadcast(name: str, arguments: Sequence[Argument]) -> tuple[int, ...]:
    """Return the shape to which arrays are repeated."""
    rank = max((len(argument.shape) for argument in arguments), default=0)
    shape = [1] * rank
    for argument in arguments:
        for axis, extent in enumerate(argument.shape, rank - len(argument.shape)):
            if extent != 1 and shape[axis] not in (1, extent):
                found = ", ".join(str(other.shape) for other in arguments)
                raise LayoutError(
                    f"{name}: arrays of shapes {found} cannot be repeated to one shape; axes from "
                    "the last on must be equal, or 1",
                    SHAPES_DISAGREE,
                )
            shape[axis] = extent if extent != 1 else shape[axis]
    return tuple(shape)


def repeated(argument: Argument, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array that is repeated to a shape."""
    new = len(shape) - len(argument.shape)
    steps = zip(argument.shape, argument.strides, strict=True)
    return (0,) * new + tuple(0 if extent == 1 else stride for extent, stride in steps)


def compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array without gaps, row after row."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def require_shape(name: str, parameter: Parameter, argument: Argument, shape: Any) -> None:
    """Refuse an output of another shape."""
    if argument.shape != tuple(shape):
        raise LayoutError(
            f"{name}: {parameter.name} has the shape {argument.shape}, and the result "
            f"{tuple(shape)}",
            SHAPES_DISAGREE,
        )


@dataclass(frozen=True)
class Axes:
    """Axes over which one index runs, with the strides of each array along them."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...] = field(repr=False)

    @property
    def rank(self) -> int:
        """How many axes are left."""
        return len(self.extents)

    @property
    def reach(self) -> int:
        """Return the largest index and offset that occur."""
        far = [
            sum(abs(step) * (extent - 1) for step, extent in zip(steps, self.extents, strict=True))
            for steps in self.strides
        ]
        return max([prod(self.extents), *far])

    def is_dense(self, array: int) -> bool:
        """Whether the index is an array's offset."""
        return self.strides[array] in ((), (1,)) and self.rank <= 1


def collapse(extents: Sequence[int], strides: Sequence[Sequence[int]]) -> Axes:
    """Join axes that all arrays run through as one: indices are then cheaper to divide."""
    left: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        here = [stride[axis] for stride in strides]
        if left and all(one[-1] == step * extent for one, step in zip(steps, here, strict=True)):
            left[-1] *= extent
            for one, step in zip(steps, here, strict=True):
                one[-1] = step
            continue
        left.append(extent)
        for one, step in zip(steps, here, strict=True):
            one.append(step)
    return Axes(tuple(left), tuple(map(tuple, steps)))


def offsets(
    axes: Axes, index: str, prefix: str, named: dict[int, str], wide: bool
) -> tuple[str, list[str]]:
    """Return code that finds where an index is in each named array, and its parameters.

    The parameters are the extents of all axes but the first, each with what divides by it, then
    the strides of each array.
    """
    parameters: list[str] = []
    for axis in range(1, axes.rank):
        parameters.append(f"_I {prefix}e{axis}")
        if not wide:
            parameters += [f"unsigned int {prefix}m{axis}", f"int {prefix}h{axis}"]
    lines: list[str] = []
    rest = index
    for axis in reversed(range(axes.rank)):
        if axis > 0:
            at, next_rest = f"{prefix}i{axis}", f"{prefix}r{axis}"
            factor = "" if wide else f", {prefix}m{axis}, {prefix}h{axis}"
            lines.append(f"const _I {next_rest} = _divided({rest}, {prefix}e{axis}{factor});")
            lines.append(f"const _I {at} = {rest} - {next_rest} * {prefix}e{axis};")
            rest = next_rest
        else:
            lines.append(f"{OFFERED} _I {prefix}i0 = {rest};")
    for array, name in named.items():
        if axes.is_dense(array):
            terms = [index] if axes.rank else ["0"]
        else:
            steps = [f"{prefix}s{array}_{axis}" for axis in range(axes.rank)]
            parameters += [f"_I {step}" for step in steps]
            terms = [f"{prefix}i{axis} * {step}" for axis, step in enumerate(steps)]
        lines.append(f"const _I {prefix}at_{name} = {' + '.join(terms)};")
    return "\n".join(lines), parameters


def offset_values(axes: Axes, named: dict[int, str], wide: bool) -> list[int]:
    """Return the values of the parameters of `offsets`."""
    values: list[int] = []
    for extent in axes.extents[1:]:
        values += [extent] if wide else [extent, *divisor(extent)]
    for array in named:
        if not axes.is_dense(array):
            values += axes.strides[array]
    return values


def divisor(extent: int) -> tuple[int, int]:
    """Return by what to multiply, and how far to shift, instead of dividing a number of 31 bits.

    The quotient is `(high word of (number * factor) + number) >> shift`: exact, because the factor
    is `2**32 * (2**shift / extent - 1)` and at most one more.
    """
    if extent == 0:
        return 0, 0  # nothing has an index there
    shift = (extent - 1).bit_length()
    return (((1 << shift) - extent) << 32) // extent + 1, shift


# Division by an extent: NVRTC writes twenty instructions for `/` where three do.
DIVIDED = """
__device__ __forceinline__ int _divided(int index, int, unsigned int factor, int shift) {
    return (int)((__umulhi((unsigned int)index, factor) + (unsigned int)index) >> shift);
}
"""
DIVIDED_WIDE = """
__device__ __forceinline__ long long _divided(long long index, long long extent) {
    return index / extent;
}
"""
RAW = """
template <class E, int R> struct _Raw {
    E *_data;
    ptrdiff_t _extents[R], _strides[R], _size;
    __device__ E &operator[](ptrdiff_t index) const {
        ptrdiff_t offset = 0;
        for (int axis = R - 1; axis > 0; --axis) {
            offset += index % _extents[axis] * _strides[axis];
            index /= _extents[axis];
        }
        return _data[offset + index * _strides[0]];
    }
    __device__ ptrdiff_t size() const { return _size; }
};
struct _Index {
    ptrdiff_t _size;
    __device__ ptrdiff_t size() const { return _size; }
};
"""


def raw_axes(argument: Argument) -> Axes:
    """Return the axes of a raw array, at least one."""
    axes = collapse(argument.shape, [argument.strides])
    return axes if axes.rank else Axes((prod(argument.shape),), ((1,),))


def raw_code(parameter: Parameter, written: str, rank: int, const: str) -> tuple[str, list[str]]:
    """Return the declaration of a raw array, and its parameters: extents, then strides."""
    name = parameter.name
    extents = [f"_p_{name}_e{axis}" for axis in range(rank)]
    strides = [f"_p_{name}_s{axis}" for axis in range(rank)]
    size = " * ".join(extents)
    code = (
        f"{OFFERED} _Raw<{const}{written}, {rank}> {name} = {{_p_{name}, {{{', '.join(extents)}}}, "
        f"{{{', '.join(strides)}}}, {size}}};"
    )
    return code, extents + strides


def is_wide(*axes: Axes) -> bool:
    """Whether an index needs 64 bits."""
    return any(one.reach > _NARROW for one in axes)


def compiled(
    name: str,
    text: str,
    types: Sequence[str],
    letters: dict[str, str],
    wide: bool,
    preamble: str,
    options: Sequence[str],
    device: int,
) -> _native.Module:
    """Compile a generated source, with the headers that its types need."""
    wanted = {_HEADERS[found] for found in types if found in _HEADERS}
    headers = {}
    if "_complex.h" in wanted:
        if "thrust/complex.h" in preamble:
            wanted.remove("_complex.h")
        else:
            headers["_complex.h"] = Path(__file__).with_name("_complex.h").read_text()
    lines = [
        *(f"#include <{header}>" for header in sorted(wanted)),
        f"typedef {'long long' if wide else 'int'} _I;",
        *(f"typedef {TYPES[found]} {letter};" for letter, found in sorted(letters.items())),
        preamble,
        RAW,
        DIVIDED_WIDE if wide else DIVIDED,
        text,
    ]
    source = "\n".join(lines).replace("ptrdiff_t", "long long") + "\n"
    return kernels.compile(
        source, device=device, options=options, headers=headers, file=f"{name}.cu"
    )


def size_of(dtype: str) -> int:
    """Return the bytes of an element."""
    bits = re.search(r"\d+\Z", dtype)
    return int(bits[0]) // 8 if bits else 1


def is_short(*code: str) -> bool:
    """Whether code may be there once for each of the elements that a thread takes together."""
    return sum(map(len, code)) <= _SHORT


def device_of(arguments: Sequence[Argument | None]) -> int:
    """Return the device of the first array of a GPU, or the current one."""
    for argument in arguments:
        if argument is not None and argument.device is not None:
            return argument.device
    return _native.current_stream().device.index


def result(outputs: Sequence[Any]) -> Any:
    """Return the only output, or all."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def symbol(name: str) -> str:
    """Return what CUDA C calls a kernel: no function of CUDA's and no keyword is called so."""
    return f"{name}_kernel"


def require_name(name: str) -> None:
    """Refuse a name that no kernel can have."""
    if not _IDENTIFIER.match(name) or name.startswith("_"):
        raise refused(f"name is {name!r}; a kernel's name is a word of CUDA C")
