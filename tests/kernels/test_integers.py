"""Wide products, division, bits, conversions: against Python's unbounded integers."""

from __future__ import annotations

import math

import numpy as np

from .harness import Kernel

N = 400
EDGES = [1, -1, 2, 7, -7, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63 - 1)]


def signed(number: int, bits: int) -> int:
    """Wrap to a signed number of so many bits."""
    number %= 1 << bits
    return number - (1 << bits) if number >> (bits - 1) else number


def test_wide_arithmetic(random: np.random.Generator) -> None:
    """High words, quotients towards zero, remainders with the dividend's sign."""
    pairs = [(x, y) for x in [0, *EDGES] for y in EDGES]
    some = random.integers(-(2**63), 2**63, (N - len(pairs), 2)) >> random.integers(
        0, 60, (N - len(pairs), 2)
    )
    some[some[:, 1] == 0, 1] = 3
    a, b = np.concatenate([np.array(pairs, np.int64), some]).T.copy()
    out = np.zeros((9, N), np.int64)
    Kernel("integers.cu", "wide_arithmetic").launch(4, 128, a, b, out, N)
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        ux, uy = x % 2**64, y % 2**64
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        expected = [
            *[x * y >> 64, signed(ux * uy >> 64, 64), signed(ux * uy, 64)],
            *[signed(quotient, 64), x - quotient * y, signed(ux // uy, 64), signed(ux % uy, 64)],
            *[signed(x, 32) * signed(y, 32) >> 32, (ux % 2**32) * (uy % 2**32) >> 32],
        ]
        assert out[:, i].tolist() == expected, (x, y)


def test_bit_tricks(random: np.random.Generator) -> None:
    """Each against its definition in words of bits."""
    a, b = random.integers(0, 2**32, (2, N), dtype=np.uint32) >> random.integers(
        0, 32, (2, N)
    ).astype(np.uint32)
    a[:3], b[:3] = [0, 0xFFFFFFFF, 1], [0, 0xFFFFFFFF, 0x80000000]
    out = np.zeros((13, N), np.uint32)
    Kernel("integers.cu", "bit_tricks").launch(4, 128, a, b, out, N)

    def first(number: int) -> int:
        return (number & -number).bit_length()

    def reverse(number: int, bits: int) -> int:
        return int(f"{number:0{bits}b}"[::-1], 2)

    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        wide, pair = x << 32 | y, y << 32 | x
        eight = x.to_bytes(4, "little") + y.to_bytes(4, "little")
        permuted = int.from_bytes(bytes(eight[k] for k in (5, 1, 7, 3)), "little")
        shift, turn = i % 40 % 32, y % 32
        expected = [
            *[x.bit_count(), 32 - x.bit_length(), first(x), reverse(x, 32), permuted],
            *[(pair << shift >> 32) % 2**32, (pair >> shift) % 2**32],
            *[wide.bit_count(), 64 - wide.bit_length(), first(wide), reverse(wide, 64) >> 32],
            *[(x << turn | x >> (32 - turn)) % 2**32, signed(x, 32) >> turn & 0xFFFFFFFF],
        ]
        assert out[:, i].tolist() == expected, (hex(x), hex(y), i)


SPECIAL = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e30, -1e30, math.inf, -math.inf, math.nan]


def test_floats_become_integers(random: np.random.Generator) -> None:
    """In four roundings; what is too large saturates, NaN is 0."""
    some = random.standard_normal(N - len(SPECIAL)) * 10.0 ** random.uniform(
        -1, 11, N - len(SPECIAL)
    )
    values = np.concatenate([SPECIAL, some]).astype(np.float32)
    out, positive = np.zeros((4, N), np.int32), np.zeros((2, N), np.uint32)
    Kernel("integers.cu", "float_to_int").launch(4, 128, values, out, positive, N)
    wide = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30)
    for row, rounding in zip(out, (np.rint, np.trunc, np.floor, np.ceil), strict=True):
        np.testing.assert_array_equal(row, np.clip(rounding(wide), -(2**31), 2**31 - 1))
    for row, rounding in zip(positive, (np.rint, np.trunc), strict=True):
        np.testing.assert_array_equal(row, np.clip(rounding(wide), 0, 2**32 - 1))


def test_doubles_become_integers(random: np.random.Generator) -> None:
    """To 64 bits, and to 32 with saturation."""
    some = random.standard_normal(N) * 10.0 ** random.uniform(-1, 18, N)
    some[:8] = SPECIAL[:8]
    out = np.zeros((4, N), np.int64)
    Kernel("integers.cu", "double_to_long").launch(4, 128, some, out, N)
    low, high = -(2**31), 2**31 - 1
    for i, value in enumerate(some.tolist()):
        down, up = math.floor(value), math.ceil(value)
        expected = [
            round(value),
            math.trunc(value),
            min(max(down, low), high),
            min(max(up, low), high),
        ]
        assert out[:, i].tolist() == expected, value


def test_integers_become_floats_and_narrow(random: np.random.Generator) -> None:
    """To nearest even; narrow types wrap."""
    values = random.integers(-(2**63), 2**63, N) >> random.integers(0, 62, N)
    values[:4] = [2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63)]
    single, wide, narrow = np.zeros(N, np.float32), np.zeros(N), np.zeros((4, N), np.int32)
    Kernel("integers.cu", "int_to_float").launch(4, 128, values, single, wide, narrow, N)
    np.testing.assert_array_equal(single, values.astype(np.float32))
    np.testing.assert_array_equal(wide, values.astype(np.float64))
    types = (np.int8, np.uint8, np.int16, np.uint16)
    np.testing.assert_array_equal(narrow, [values.astype(t).astype(np.int32) for t in types])
