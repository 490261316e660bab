"""The kernels of the corpus that round, each with numbers that make it, and the exact results.

What only moves, compares or counts is not here: it has no last bits. The numbers are made of random
integers by steps that IEEE 754 makes exact, so that every machine gives its GPU the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from .exact import FORMATS, Exact, added, multiplied, of_fractions, plain, summed
from .exact_functions import GAMMAS, OF_ANY, OF_BOTH, OF_POSITIVE, exactly
from .lent import CORPUS, Lent, Seen, Size

N = 500
Random = np.random.Generator


@dataclass(frozen=True)
class Result:
    """Numbers that a kernel gave, beside what they are exactly."""

    name: str
    compiler: str
    given: str  # the hash of the arguments
    format: str
    raw: np.ndarray  # the bits
    exact: Exact


@dataclass(frozen=True)
class Launch:
    """A launch that is done."""

    name: str
    compiler: str
    given: str

    def result(self, got: np.ndarray, exact: Exact, row: str = "", format: str = "") -> Result:
        """Put results beside exact ones of the same shape."""
        format = format or got.dtype.name
        raw = np.ascontiguousarray(got).view(FORMATS[format].bits).ravel()
        exact = Exact(exact.high.ravel(), exact.low.ravel())
        assert raw.shape == exact.high.shape
        name = f"{self.name}: {row}" if row else self.name
        return Result(name, self.compiler, self.given, format, raw, exact)


def launch(file: str, name: str, grid: Size, block: Size, *arguments: Any, **more: Any) -> Launch:
    """Launch a kernel through gpulend, and remember what it was given."""
    kernel, given = Lent(CORPUS / file, name), hashlib.sha256()
    for variable, values in more.items():
        if variable != "shared":
            kernel.write(variable, values)
    for argument in (*arguments, *more.values()):
        array = argument.array if isinstance(argument, Seen) else np.asarray(argument)
        given.update(array.tobytes())
    kernel.launch(grid, block, *arguments, shared=more.get("shared", 0))
    return Launch(name, kernel.module.compiler, given.hexdigest())


def reals(random: Random, *shape: int, dtype: Any = np.float32, bits: int = 2) -> np.ndarray:
    """Give numbers of both signs below 2 to the power of `bits`."""
    return np.ldexp(random.integers(-(2**52), 2**52, shape), bits - 52).astype(dtype)


def positive(random: Random, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Give numbers between 0 and 4, so that sums have all their bits: nothing cancels."""
    return np.abs(reals(random, *shape, dtype=dtype))


def sized(random: Random, *shape: int, least: int, most: int, dtype: Any) -> np.ndarray:
    """Give numbers of both signs and of all sizes between two powers of two."""
    exponents = random.integers(least, most, shape)
    signs = random.choice([-1.0, 1.0], shape)
    return (signs * np.ldexp(1 + reals(random, *shape, dtype="f8", bits=0) ** 2, exponents)).astype(
        dtype
    )


def vectors(random: Random) -> Iterator[Result]:
    """One or two roundings an element."""
    (a, b), out = reals(random, 2, 10_000), np.zeros(10_000, np.float32)
    yield launch("vectors.cu", "vector_add", 40, 256, a, b, out, a.size).result(out, added(a, b))
    (x, y), before = reals(random, 2, 3000), np.zeros(3000, np.float32)
    before[:] = y
    done = launch("vectors.cu", "saxpy", 24, 128, 2.3, x, y, x.size)
    factor = np.array(2.3, np.float32)
    terms = np.stack([multiplied(factor, x).high, before.astype("f8")], -1)
    yield done.result(y, summed(terms))
    (a, b), out = reals(random, 2, 1332), np.zeros(1332, np.float32)
    yield launch("vectors.cu", "add_as_float4", 3, 128, a, b, out, 333).result(out, added(a, b))


def sums(random: Random) -> Iterator[Result]:
    """In trees, and by atomics in whatever order they come."""
    file, total = "reductions.cu", np.zeros(1, np.float32)
    values, parts = positive(random, 256 * 40), np.zeros(40, np.float32)
    done = launch(file, "sum_by_tree", 40, 256, values, parts, values.size)
    yield done.result(parts, summed(values.reshape(40, 256)))
    values, parts = positive(random, 96 * 30, 10), np.zeros(30, np.float32)
    done = launch(file, "sum_by_shuffles", 30, 96, values.ravel(), parts, values.size)
    yield done.result(parts, summed(values.reshape(10, 30, 96).swapaxes(0, 1).reshape(30, 960)))
    values = positive(random, 2000)
    done = launch(file, "sum_by_atomics", 8, 256, values, total, values.size)
    yield done.result(total, summed(values[None]))
    wide, wide_total = positive(random, 4000, dtype="f8"), np.zeros(1)
    done = launch(file, "sum_double", 1, 512, wide, wide_total, wide.size)
    yield done.result(wide_total, summed(wide[None]))
    (a, b), total = positive(random, 2, 6000), np.zeros(1, np.float32)
    done = launch(file, "dot_product", 5, 128, a, b, total, a.size)
    yield done.result(total, summed(multiplied(a, b).high[None]))


def atomics(random: Random) -> Iterator[Result]:
    """Of floats and doubles, in whatever order they come."""
    values, single, wide = positive(random, 1000), np.zeros(1, np.float32), np.zeros(1)
    done = launch("atomics.cu", "atomics_floating", 4, 256, single, wide, values, values.size)
    yield done.result(single, summed(values[None]), "float")
    yield done.result(wide, summed(values[None]), "double")


def matrices(random: Random) -> Iterator[Result]:
    """Products, of whole tiles and of others, and determinants."""
    for name, dtype in [
        ("multiply_float", "f4"),
        ("multiply_naive", "f4"),
        ("multiply_double", "f8"),
    ]:
        a, b = positive(random, 37, 61, dtype=dtype), positive(random, 61, 50, dtype=dtype)
        c = np.zeros((37, 50), dtype)
        done = launch("matrices.cu", name, (4, 3), (16, 16), a, b, c, 37, 50, 61)
        yield done.result(c, summed(multiplied(a[:, None, :], b.T[None, :, :])))
    (a, b), c = positive(random, 2, 48, 48), np.zeros((48, 48), np.float32)
    done = launch("matrices.cu", "multiply_square", (3, 3), (16, 16), a, b, c, 48)
    yield done.result(c, summed(multiplied(a[:, None, :], b.T[None, :, :])))
    all_, out = reals(random, 200, 3, 3, dtype="f8"), np.zeros(200)
    factor = np.zeros((), np.dtype([("at", "f8", (3, 3))]))
    factor["at"] = [[2, 1, 0], [0, 3, -1], [1, 0, 4]]
    done = launch("matrices.cu", "determinants", 2, 128, all_, factor[()], out, 200)
    yield done.result(out, of_fractions(23 * _determinant(one) for one in all_.tolist()))


def _determinant(rows: list[list[float]]) -> Fraction:
    (a, b, c), (d, e, f), (g, h, i) = [list(map(Fraction, row)) for row in rows]
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def stencils(random: Random) -> Iterator[Result]:
    """Neighbours with weights."""
    cells, out = positive(random, 45, 70), np.zeros((45, 70), np.float32)
    done = launch("stencils.cu", "stencil_2d", (5, 3), (16, 16), cells, out, 70, 45)
    p = np.pad(cells.astype("f8"), 1, mode="edge")
    around = [p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:], 4 * p[1:-1, 1:-1]]
    yield done.result(out, summed(np.stack(around, -1) / 8))
    cube, wide = reals(random, 8, 16, 24, dtype="f8"), np.zeros((8, 16, 24))
    done = launch("stencils.cu", "stencil_3d", (3, 2, 2), (8, 8, 4), cube, wide, 24, 16, 8)
    p = np.pad(cube, 1)
    sides = [np.roll(p, by, axis)[1:-1, 1:-1, 1:-1] for axis in range(3) for by in (-1, 1)]
    yield done.result(wide, summed(np.stack([*sides, -4 * cube, -2 * cube], -1)))
    line, weights, out = positive(random, 777), positive(random, 9), np.zeros(777, np.float32)
    done = launch("stencils.cu", "convolve", 7, 128, line, out, 777, weights=weights)
    p = np.pad(line, 4)
    windows = np.stack([p[k : k + 777] for k in range(9)], -1)
    yield done.result(out, summed(multiplied(windows, weights)))


def learning(random: Random) -> Iterator[Result]:
    """Norms, softmax and sums of clusters; doubles are exact enough for floats."""
    values, out = reals(random, 4, 500), np.zeros((4, 500), np.float32)
    scale, shift = reals(random, 2, 500)
    done = launch("learning.cu", "layer_norm", 4, 128, values, scale, shift, out, 500)
    wide = values.astype("f8")
    root = np.sqrt(wide.var(1, keepdims=True) + np.float32(1e-5))
    yield done.result(out, plain((wide - wide.mean(1, keepdims=True)) / root * scale + shift))
    values, out = reals(random, 5, 300, bits=3), np.zeros((5, 300), np.float32)
    done = launch("softmax.cu", "softmax", 5, 128, values, out, 300)
    powers = np.exp(values.astype("f8") - values.max(1, keepdims=True))
    yield done.result(out, plain(powers / powers.sum(1, keepdims=True)))
    points, centres, sums = (
        positive(random, N, 2),
        positive(random, 7, 2),
        np.zeros((7, 2), np.float32),
    )
    nearest, counts = np.zeros(N, np.int32), np.zeros(7, np.int32)
    words = (points, N, centres, 7, nearest, sums, counts)
    done = launch("learning.cu", "nearest_centre", 4, 128, *words)
    clusters = np.where((nearest[:, None] == np.arange(7)).T[:, None, :], points.T[None], 0)
    yield done.result(sums, summed(clusters))


def graphs(random: Random) -> Iterator[Result]:
    """Sparse rows, by a thread and by a warp each."""
    dense = np.where(random.integers(0, 3, (90, 200)), np.float32(0), positive(random, 90, 200))
    where, x = np.nonzero(dense), positive(random, 200)
    starts = np.searchsorted(where[0], np.arange(91)).astype(np.int32)
    for name, grid in [("sparse_row_per_thread", 1), ("sparse_row_per_warp", 23)]:
        y = np.zeros(90, np.float32)
        words = (starts, where[1].astype(np.int32), dense[where], x, y, 90)
        done = launch("graphs.cu", name, grid, 128, *words)
        yield done.result(y, summed(multiplied(dense, x[None])))


def numbers(random: Random) -> Iterator[Result]:
    """Bodies that pull each other, and complex products."""
    bodies, pull = reals(random, 150, 4, bits=0), np.zeros((150, 4), np.float32)
    done = launch("numbers.cu", "n_body", 3, 64, bodies, pull, 150)
    wide = bodies.astype("f8")
    apart = wide[None, :, :3] - wide[:, None, :3]
    cubes = ((apart**2).sum(-1) + np.float32(0.01)) ** 1.5
    yield done.result(pull[:, :3], plain((apart * (wide[None, :, 3] / cubes)[:, :, None]).sum(1)))
    (a, b), out = reals(random, 2, N, 2, dtype="f8"), np.zeros((N, 2))
    done = launch("numbers.cu", "complex_multiply", 4, 128, a, b, out, N)
    left = np.stack([a * [1, -1], a], 1)
    yield done.result(out, summed(multiplied(left, np.stack([b, b[:, ::-1]], 1))))


def memories(random: Random) -> Iterator[Result]:
    """A product through shared memory, and a field of a struct."""
    values, out = reals(random, 3, 50, dtype="f8"), np.zeros((3, 50))
    small = random.integers(0, 256, (3, 50), dtype=np.uint8)
    done = launch("memories.cu", "carve", 3, 50, values, small, out, 50, shared=450)
    yield done.result(out, multiplied(values[:, ::-1], np.roll(small, -1, 1)))
    fields = [("position", "f8"), ("speed", "f4"), ("kind", "i2"), ("flag", "u1")]
    particles = np.zeros(200, np.dtype(fields, align=True))
    particles["position"], particles["speed"] = reals(random, 2, 200, dtype="f8")
    before, time = particles.copy(), np.float64(0.3)
    done = launch("memories.cu", "move_particles", 2, 128, particles, time, 200)
    way = multiplied(before["speed"], time)
    pairs = Exact(way.high[:, None], way.low[:, None])
    yield done.result(particles["position"], summed(pairs, before["position"][:, None]))


def halves(random: Random) -> Iterator[Result]:
    """Numbers of 16 bits, of all sizes."""
    file, dtype = "halves.cu", np.float16
    a, b, c = sized(random, 3, N, least=-14, most=7, dtype=dtype)
    out = np.zeros((6, N), dtype)
    done = launch(file, "half_arithmetic", 4, 128, a, b, c, out, N)
    fused = summed(np.stack([multiplied(a, b).high, c.astype("f8")], -1))
    exact = [added(a, b), added(a, -b), multiplied(a, b), fused]
    for row, got, right in zip(["sum", "difference", "product", "fused"], out, exact, strict=False):
        yield done.result(got, right, row)
    values = sized(random, N, least=-28, most=18, dtype=np.float32)
    out, back, whole = np.zeros(N, dtype), np.zeros(N, np.float32), np.zeros(N, np.int32)
    done = launch(file, "half_conversions", 4, 128, values, out, back, whole, N)
    yield done.result(out, plain(values), "from float")
    x, y = sized(random, 2, N, least=-14, most=7, dtype=dtype)
    before, factor = y.copy(), np.float16(1.375)
    done = launch(file, "half2_axpy", 2, 128, factor, x, y, N // 2)
    terms = [multiplied(np.asarray(factor), x).high, before.astype("f8")]
    yield done.result(y, summed(np.stack(terms, -1)))
    pairs = sized(random, N, 2, least=-14, most=7, dtype=dtype)
    swapped, total, wide = np.zeros_like(pairs), np.zeros_like(pairs), np.zeros((N, 2), np.float32)
    done = launch(file, "half2_parts", 4, 128, pairs, swapped, total, wide, N)
    yield done.result(total, added(pairs, pairs), "sum")
    (u, v), short, back = reals(random, 2, N), np.zeros((3, N), np.uint16), np.zeros(N, np.float32)
    done = launch(file, "bfloat_arithmetic", 4, 128, u, v, Seen(short, "bfloat16"), back, N)
    bfloat = FORMATS["bfloat16"]
    p, q = bfloat.rounded(plain(u)), bfloat.rounded(plain(v))
    rows = {"from float": plain(u), "sum": added(p, q), "product": multiplied(p, q)}
    for (row, right), got in zip(rows.items(), short, strict=True):
        yield done.result(got, right, row, "bfloat16")


def conversions(random: Random) -> Iterator[Result]:
    """Integers of 64 bits become floats."""
    values = random.integers(-(2**63), 2**63 - 1, N) >> random.integers(0, 62, N)
    single, wide, narrow = np.zeros(N, np.float32), np.zeros(N), np.zeros((4, N), np.int32)
    done = launch("integers.cu", "int_to_float", 4, 128, values, single, wide, narrow, N)
    exact = of_fractions(values.tolist())
    yield done.result(single, exact, "float")
    yield done.result(wide, exact, "double")


def _arguments(random: Random, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Give numbers of both signs below 8, a fifth of them small, and positive ones up to 30."""
    x = reals(random, N, dtype="f8", bits=3)
    x[: N // 5] = np.ldexp(x[: N // 5], -random.integers(0, 20, N // 5))
    above = np.ldexp(random.integers(9 << 50, 120 << 50, N), -52)
    return x.astype(dtype), above.astype(dtype)


def instructions(random: Random) -> Iterator[Result]:
    """Functions that are instructions and round."""
    (x, p), out = _arguments(random, np.float32), np.zeros((13, N), np.float32)
    done = launch("instructions.cu", "instructions", 4, 128, x, p, out, N)
    yield done.result(out[8], exactly(lambda a, b: a * b + a, x, p), "fmaf")
    yield done.result(out[9], exactly(lambda a, b: a / b, x, p), "a / b")
    yield done.result(out[10], exactly(Decimal.sqrt, p), "sqrtf")
    yield done.result(out[11], exactly(lambda b: 1 / b.sqrt(), p), "rsqrtf")
    yield done.result(out[12], exactly(lambda a, b: a / b, x, p), "__fdividef")


def functions(random: Random) -> Iterator[Result]:
    """All of the mathematical library."""
    for name, dtype, ending in [("float_functions", "f4", "f"), ("double_functions", "f8", "")]:
        x, p = _arguments(random, dtype)
        out = np.zeros((25, N), dtype)
        done = launch("functions.cu", name, 4, 128, x, p, out, N)
        rows: list[tuple[str, Exact]] = []
        for table, words in [
            (OF_ANY, (x,)),
            (OF_POSITIVE, (p,)),
            (OF_BOTH, (x, p)),
            (GAMMAS, (p,)),
        ]:
            rows += [(row + ending, exactly(each, *words)) for row, each in table.items()]
        for (row, exact), got in zip(rows, out, strict=True):
            yield done.result(got, exact, row)


FAMILIES: tuple[Callable[[Random], Iterator[Result]], ...] = (
    *(vectors, sums, atomics, matrices, stencils, learning, graphs, numbers, memories, halves),
    *(conversions, instructions, functions),
)
# Where terms of both signs cancel few bits are left, and an error is many units of the last.
CANCELLING = ("determinants", "stencil_3d", "layer_norm", "n_body", "complex_multiply")
# Their sums come in the order in which blocks do: another run may give other last bits.
UNORDERED = ("sum_by_atomics", "dot_product", "atomics_floating", "nearest_centre")
