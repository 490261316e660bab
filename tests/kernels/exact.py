"""Numbers beyond doubles, as sums of two of them, and how they round to the types of results."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

DIGITS = 70  # of decimals on the way to a sum of two doubles, which has some 32


@dataclass(frozen=True)
class Exact:
    """Numbers to about 106 bits: `high` is the double nearest to each, `low` what is left."""

    high: np.ndarray
    low: np.ndarray


@dataclass(frozen=True)
class Format:
    """A binary type: its bits of precision, and the exponent of its least normal number."""

    precision: int
    least: int
    bits: Any  # NumPy's unsigned type of the same size

    def values(self, raw: np.ndarray) -> np.ndarray:
        """Return as doubles what bits stand for, exactly."""
        if self is FORMATS["bfloat16"]:
            return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return raw.view(f"f{raw.itemsize}").astype(np.float64)

    def spacing(self, numbers: np.ndarray) -> np.ndarray:
        """Return one unit in the last place at each number."""
        exponent = np.frexp(np.abs(numbers))[1] - 1
        return np.ldexp(1.0, np.maximum(exponent, self.least) - (self.precision - 1))

    def rounded(self, exact: Exact) -> np.ndarray:
        """Round once, to nearest, ties to even."""
        if self.precision == 53:
            return exact.high
        # Of the two doubles around a number that is none take the odd one: it is no tie, and on
        # the right side of every tie of a shorter type.
        even = exact.high.view(np.uint64) % 2 == 0
        towards = np.nextafter(exact.high, np.copysign(np.inf, exact.low))
        odd = np.where((exact.low != 0) & even, towards, exact.high)
        unit = self.spacing(odd)
        result = np.rint(odd / unit) * unit
        greatest = (2 - 2.0 ** (1 - self.precision)) * 2.0 ** (1 - self.least)
        return np.where(np.abs(result) > greatest, np.copysign(np.inf, result), result)

    def off(self, raw: np.ndarray, exact: Exact) -> np.ndarray:
        """Return how far bits are from exact numbers, in units in the last place of those."""
        got = self.values(raw)
        same = (got == self.rounded(exact)) & np.isinf(got)
        with np.errstate(invalid="ignore"):
            off = np.abs((got - exact.high) - exact.low) / self.spacing(exact.high)
        return np.where(same, 0.0, off)

    def places(self, raw: np.ndarray) -> list[int]:
        """Number the values of a type one by one, from the least to the greatest."""
        half = 1 << (8 * raw.itemsize - 1)
        return [half - bits if bits >= half else bits for bits in raw.ravel().tolist()]


FORMATS = {
    "float16": Format(11, -14, np.uint16),
    "bfloat16": Format(8, -126, np.uint16),
    "float32": Format(24, -126, np.uint32),
    "float64": Format(53, -1022, np.uint64),
}


def plain(numbers: Any) -> Exact:
    """Take doubles for exact: they are, or are for a result of fewer bits."""
    high = np.asarray(numbers, np.float64)
    return Exact(high, np.zeros_like(high))


def added(a: np.ndarray, b: np.ndarray) -> Exact:
    """Return sums with what rounding left of them (Knuth's two sums)."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    high = a + b
    of_b = high - a
    return Exact(high, (a - (high - of_b)) + (b - of_b))


def multiplied(a: np.ndarray, b: np.ndarray) -> Exact:
    """Return products with what rounding left of them (Dekker's product)."""
    a, b = np.broadcast_arrays(a.astype(np.float64), b.astype(np.float64))
    high = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return Exact(
        high, a_low * b_low - (((high - a_high * b_high) - a_low * b_high) - a_high * b_low)
    )


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split doubles into two of 26 bits."""
    scaled = a * (2.0**27 + 1)
    high = scaled - (scaled - a)
    return high, a - high


def summed(*terms: np.ndarray | Exact) -> Exact:
    """Return sums along the last axis of all terms together."""
    parts: list[np.ndarray] = []
    for term in terms:
        parts += [term.high, term.low] if isinstance(term, Exact) else [term.astype(np.float64)]
    rows = np.concatenate(parts, axis=-1)
    shape, rows = rows.shape[:-1], rows.reshape(-1, rows.shape[-1])
    high = [math.fsum(row) for row in rows.tolist()]
    low = [math.fsum([*row, -top]) for row, top in zip(rows.tolist(), high, strict=True)]
    return Exact(np.array(high).reshape(shape), np.array(low).reshape(shape))


def of_fractions(numbers: Iterable[Fraction | int]) -> Exact:
    """Split fractions: Python rounds them right."""
    pairs = [(float(number), number) for number in numbers]
    low = [float(number - Fraction(high)) for high, number in pairs]
    return Exact(np.array([high for high, _ in pairs]), np.array(low))


def of_decimals(numbers: Iterable[Decimal]) -> Exact:
    """Split decimals."""
    with localcontext() as context:
        context.prec = DIGITS
        pairs = [(float(number), float(number - Decimal(float(number)))) for number in numbers]
    return Exact(*np.array(pairs).T)
