"""Functions of the mathematical library, within the bounds that CUDA's programming guide gives."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from .harness import Kernel, needs_library
from .tolerance import assert_ulps

N = 500


def _log_gamma(x: np.ndarray) -> np.ndarray:
    """Stirling's series beyond 22, where its sixth term is below 2^-57, and steps down."""
    far = x + 20
    series = 1 / (12 * far) - 1 / (360 * far**3) + 1 / (1260 * far**5) - 1 / (1680 * far**7)
    series += 1 / (1188 * far**9)
    half_log = np.log(2 * np.arccos(np.longdouble(-1))) / 2
    high = (far - 0.5) * np.log(far) - far + half_log + series
    return high - np.log(np.prod([x + k for k in range(20)], axis=0))


def _each(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array([function(float(value)) for value in x], np.longdouble)


# Each function on 80-bit floats, which are exact enough for both types, and the greatest error in
# ulps for double and float: what the programming guide's tables allow a GPU or the GNU C library
# documents for itself, whichever is more; log2 of doubles was seen off by 1.107 on an H200, where
# the guide has 1. The references of erf and erfc, doubles, are off by one themselves; that of
# lgamma loses a quarter where the steps down cancel.
OF_ANY = {
    "sin": (np.sin, 2, 2),
    "cos": (np.cos, 2, 2),
    "tan": (np.tan, 2, 4),
    "atan": (np.arctan, 2, 2),
    "sinh": (np.sinh, 2, 3),
    "cosh": (np.cosh, 2, 2),
    "tanh": (np.tanh, 2, 2),
    "asinh": (np.arcsinh, 3, 3),
    "exp": (np.exp, 1, 2),
    "exp2": (np.exp2, 1, 2),
    "expm1": (np.expm1, 1, 1),
    "cbrt": (np.cbrt, 4, 1),
    "erf": (_each(math.erf), 3, 2),
    "erfc": (_each(math.erfc), 6, 4),
}
OF_POSITIVE = {
    "log": (np.log, 1, 1),
    "log2": (np.log2, 1.25, 1),
    "log10": (np.log10, 2, 2),
    "log1p": (np.log1p, 1, 1),
    "sqrt": (np.sqrt, 0.5, 0.5),
}
OF_BOTH = {
    "pow": (lambda x, p: p**x, 2, 4),
    "hypot": (np.hypot, 2, 3),
    "atan2": (np.arctan2, 2, 3),
    "fmod": (np.fmod, 0, 0),
}
GAMMAS = {
    "lgamma": (_log_gamma, 4.25, 7),
    "tgamma": (lambda p: np.exp(_log_gamma(p)), 10, 8),
}


def _inputs(random: np.random.Generator, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Give numbers of both signs within ±8 and of many sizes, and positive ones up to 30.

    lgamma has zeros at 1 and 2, where its error is absolute: positive numbers begin at 2.25.
    """
    x = random.uniform(-8, 8, N)
    x[:100] *= 2.0 ** random.uniform(-20, 0, 100)
    return x.astype(dtype), random.uniform(2.25, 30, N).astype(dtype)


@needs_library
@pytest.mark.parametrize(
    ("kernel", "dtype"), [("double_functions", np.float64), ("float_functions", np.float32)]
)
def test_functions_of_the_library(random: np.random.Generator, kernel: str, dtype: type) -> None:
    """In the order of the kernel's rows."""
    x, positive = _inputs(random, dtype)
    rows = [OF_ANY, OF_POSITIVE, OF_BOTH, GAMMAS]
    out = np.zeros((sum(map(len, rows)), N), dtype)
    Kernel("functions.cu", kernel).launch(4, 128, x, positive, out, N)
    wide, wide_positive = x.astype(np.longdouble), positive.astype(np.longdouble)
    arguments = [(wide,), (wide_positive,), (wide, wide_positive), (wide_positive,)]
    got = iter(out)
    for functions, words in zip(rows, arguments, strict=True):
        for name, (function, double, single) in functions.items():
            ulps = single if dtype is np.float32 else double
            # An 80-bit reference is off by half a thousandth of an ulp of a double.
            assert_ulps(next(got), function(*words), ulps + 2.0**-10, name)


def test_functions_that_are_instructions(random: np.random.Generator) -> None:
    """Rounding, signs, quotients and roots are exact; rsqrtf and __fdividef have 2 ulps."""
    x, positive = _inputs(random, np.float32)
    x[:6] = [0.5, 1.5, -0.5, -2.5, 8388609.0, -0.0]
    out = np.zeros((13, N), np.float32)
    Kernel("instructions.cu", "instructions").launch(4, 128, x, positive, out, N)
    wide, w = x.astype(np.float64), positive.astype(np.float64)
    exact = [np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.abs(x), np.copysign(positive, x)]
    exact += [np.minimum(x, positive), np.maximum(x, positive)]
    for row, expected in zip(out, exact, strict=False):
        np.testing.assert_array_equal(row.view(np.int32), expected.view(np.int32))
    # The double reference is off by 2^-29 ulps of a float at most; not fused it would be 0.5 more.
    assert_ulps(out[8], wide * w + wide, 0.5 + 2.0**-20, "fmaf")
    np.testing.assert_array_equal(out[9], x / positive)
    np.testing.assert_array_equal(out[10], np.sqrt(positive))
    assert_ulps(out[11], 1 / np.sqrt(w), 2, "rsqrtf")
    assert_ulps(out[12], wide / w, 2, "__fdividef")
