"""Functions of the mathematical library in decimals, where their arguments lie within ±30.

They are made of the three that `decimal` has itself (exp, ln, sqrt) and of series, so that no
library of the machine is trusted. Cancellation costs erfc up to 29 of the digits, others few.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from .exact import DIGITS, Exact, of_decimals

ONE, TWO = Decimal(1), Decimal(2)
SMALL = Decimal(10) ** -(DIGITS + 5)
FAR = 40  # from where Stirling's series is good for more than 40 digits
STIRLING = 16  # its terms


def _series(term: Decimal, following: Callable[[Decimal, int], Decimal]) -> Decimal:
    """Add terms, each made of the one before and its number, until they change nothing."""
    total, number = term, 0
    while abs(term) > SMALL * abs(total):
        number += 1
        term = following(term, number)
        total += term
    return total


def _sin(x: Decimal) -> Decimal:
    return _series(x, lambda term, n: -term * x * x / (2 * n * (2 * n + 1)))


def _cos(x: Decimal) -> Decimal:
    return _series(ONE, lambda term, n: -term * x * x / (2 * n * (2 * n - 1)))


def _atan(x: Decimal) -> Decimal:
    turns = 4
    for _ in range(turns):  # half the angle
        x = x / (1 + (1 + x * x).sqrt())
    total, power, n = x, x, 1
    while abs(power) > SMALL * abs(x):
        power, n = -power * x * x, n + 2
        total += power / n
    return total * 2**turns


@cache
def _pi() -> Decimal:
    return 4 * _atan(ONE)


def _sinh(x: Decimal) -> Decimal:
    return (x.exp() - (-x).exp()) / 2


def _cosh(x: Decimal) -> Decimal:
    return (x.exp() + (-x).exp()) / 2


def _asinh(x: Decimal) -> Decimal:
    return (abs(x) + (x * x + 1).sqrt()).ln().copy_sign(x)


def _erf(x: Decimal) -> Decimal:
    total = _series(x, lambda term, n: term * 2 * x * x / (2 * n + 1))
    return 2 * (-x * x).exp() * total / _pi().sqrt()


@cache
def _bernoulli(n: int) -> Fraction:
    """Return the n-th of Bernoulli's numbers."""
    if n == 0:
        return Fraction(1)
    binomial, total = 1, Fraction(0)
    for k in range(n):
        total += binomial * _bernoulli(k)
        binomial = binomial * (n + 1 - k) // (k + 1)
    return -total / (n + 1)


def _lgamma(x: Decimal) -> Decimal:
    below = ONE
    while x < FAR:
        below, x = below * x, x + 1
    result = (x - ONE / 2) * x.ln() - x + (2 * _pi()).ln() / 2 - below.ln()
    for k in range(1, STIRLING):
        factor = _bernoulli(2 * k) / (2 * k * (2 * k - 1))
        result += Decimal(factor.numerator) / factor.denominator / x ** (2 * k - 1)
    return result


def _cbrt(x: Decimal) -> Decimal:
    return (abs(x).ln() / 3).exp().copy_sign(x)


def _fmod(x: Decimal, p: Decimal) -> Decimal:
    return (abs(x) - p * (abs(x) // p)).copy_sign(x)


# In the order of the kernels' rows: of any number, of a positive one, of both, of a positive one.
OF_ANY: dict[str, Callable[[Decimal], Decimal]] = {
    "sin": _sin,
    "cos": _cos,
    "tan": lambda x: _sin(x) / _cos(x),
    "atan": _atan,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": lambda x: _sinh(x) / _cosh(x),
    "asinh": _asinh,
    "exp": Decimal.exp,
    "exp2": lambda x: (x * TWO.ln()).exp(),
    "expm1": lambda x: x.exp() - 1,
    "cbrt": _cbrt,
    "erf": _erf,
    "erfc": lambda x: 1 - _erf(x),
}
OF_POSITIVE: dict[str, Callable[[Decimal], Decimal]] = {
    "log": Decimal.ln,
    "log2": lambda p: p.ln() / TWO.ln(),
    "log10": Decimal.log10,
    "log1p": lambda p: (1 + p).ln(),
    "sqrt": Decimal.sqrt,
}
OF_BOTH: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "pow": lambda x, p: (x * p.ln()).exp(),
    "hypot": lambda x, p: (x * x + p * p).sqrt(),
    "atan2": lambda x, p: _atan(x / p),
    "fmod": _fmod,
}
GAMMAS: dict[str, Callable[[Decimal], Decimal]] = {
    "lgamma": _lgamma,
    "tgamma": lambda p: _lgamma(p).exp(),
}


def exactly(function: Callable[..., Decimal], *numbers: np.ndarray) -> Exact:
    """Apply a function to each number, or to each pair of them."""
    with localcontext() as context:
        context.prec = DIGITS
        rows: list[list[Any]] = [list(map(Decimal, row.tolist())) for row in numbers]
        return of_decimals([function(*each) for each in zip(*rows, strict=True)])
