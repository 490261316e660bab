"""Numbers of 16 bits: each operation is rounded once, so results are exact bits."""

from __future__ import annotations

import numpy as np

from .harness import Kernel
from .lent import Seen

N = 600


def halves(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Give halves of all sizes, subnormal ones and zeros too, that do not overflow in products."""
    sign = random.choice([-1.0, 1.0], shape)
    values = (sign * 2.0 ** random.uniform(-16, 7, shape)).astype(np.float16)
    values.reshape(-1)[:3] = [0, -0.0, 6e-8]
    return values


def test_half_arithmetic(random: np.random.Generator) -> None:
    """NumPy rounds twice, through floats, which changes nothing: 24 bits are at least 2·11 + 2.

    A fused sum would need more bits than a double has: it is made of unbounded integers.
    """
    a, b, c = halves(random, 3, N)
    out = np.zeros((6, N), np.float16)
    Kernel("halves.cu", "half_arithmetic").launch(3, 256, a, b, c, out, N)
    fused = [round_to_half(x, y, z) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(out[:3], [a + b, a - b, a * b])
    np.testing.assert_array_equal(out[3], np.array(fused, np.float16))
    np.testing.assert_array_equal(out[4].view(np.uint16), (-a).view(np.uint16))
    np.testing.assert_array_equal(out[5], np.where(a > b, a, b))


def round_to_half(x: np.float16, y: np.float16, z: np.float16) -> float:
    """Return x·y + z rounded once, by integers."""
    units = [int(float(v) * 2**24) for v in (x, y, z)]
    total = units[0] * units[1] + (units[2] << 24)  # in units of 2^-48
    size = abs(total)
    drop = max(size.bit_length() - 11, 24)  # a half keeps 11 bits, and none below 2^-24
    kept, rest = size >> drop, size & ((1 << drop) - 1)
    if rest * 2 > 1 << drop or (rest * 2 == 1 << drop and kept & 1):
        kept += 1
    return (-1 if total < 0 else 1) * kept * 2.0 ** (drop - 48)


def test_half_conversions(random: np.random.Generator) -> None:
    """To nearest even; too large is infinite; to whole numbers, ties to even."""
    values = np.concatenate(
        [
            (random.standard_normal(N - 8) * 2.0 ** random.uniform(-20, 14, N - 8)),
            [1 + 2**-11, 1 + 3 * 2**-11, 65519.9, -65520.0, 2**-25, 2.5, 3.5, -0.5],
        ]
    ).astype(np.float32)
    out, back = np.zeros(N, np.float16), np.zeros(N, np.float32)
    whole = np.zeros(N, np.int32)
    Kernel("halves.cu", "half_conversions").launch(3, 256, values, out, back, whole, N)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    np.testing.assert_array_equal(out.view(np.uint16), expected.view(np.uint16))
    np.testing.assert_array_equal(back, expected.astype(np.float32))
    wide = np.clip(np.rint(expected.astype(np.float64)), -(2**31), 2**31 - 1)
    np.testing.assert_array_equal(whole, wide.astype(np.int32))


def test_pairs_of_halves(random: np.random.Generator) -> None:
    """Fused, two at a time."""
    x, y = halves(random, 2, N)
    factor, before = np.float16(1.375), y.copy()
    Kernel("halves.cu", "half2_axpy").launch(2, 256, factor, x, y, N // 2)
    expected = [round_to_half(factor, u, v) for u, v in zip(x, before, strict=True)]
    np.testing.assert_array_equal(y, np.array(expected, np.float16))


def test_parts_of_pairs(random: np.random.Generator) -> None:
    """Low and high, and both as floats."""
    pairs = halves(random, N, 2)
    swapped, total = np.zeros_like(pairs), np.zeros_like(pairs)
    wide = np.zeros((N, 2), np.float32)
    Kernel("halves.cu", "half2_parts").launch(3, 256, pairs, swapped, total, wide, N)
    np.testing.assert_array_equal(swapped, pairs[:, ::-1])
    np.testing.assert_array_equal(total, pairs + pairs)
    np.testing.assert_array_equal(wide, pairs.astype(np.float32))


def to_bfloat(values: np.ndarray) -> np.ndarray:
    """Return the upper halves of floats, rounded to nearest even; none of them overflows."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat(values: np.ndarray) -> np.ndarray:
    """Return the floats that begin with these halves."""
    return (values.astype(np.uint32) << 16).view(np.float32)


def test_bfloat16(random: np.random.Generator) -> None:
    """Made in float and rounded again, as the kernel says."""
    a, b = random.standard_normal((2, N), np.float32)
    a[:2] = [1 + 2**-8, 1 + 3 * 2**-8]
    out, back = np.zeros((3, N), np.uint16), np.zeros(N, np.float32)
    words = (a, b, Seen(out, "bfloat16"), back, N)
    Kernel("halves.cu", "bfloat_arithmetic").launch(3, 256, *words)
    wide_x, wide_y = from_bfloat(to_bfloat(a)), from_bfloat(to_bfloat(b))
    np.testing.assert_array_equal(to_bfloat(a[:2]), [0x3F80, 0x3F82])
    np.testing.assert_array_equal(
        out, [to_bfloat(v) for v in (a, wide_x + wide_y, wide_x * wide_y)]
    )
    np.testing.assert_array_equal(back, wide_y)
