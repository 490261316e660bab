"""The table of last bits: its references are exact, and it finds what is planted."""

from __future__ import annotations

import base64
import functools
import json
import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from . import exact_functions as functions
from . import last_bits
from .exact import DIGITS, FORMATS, Exact, added, multiplied, of_fractions, plain, summed
from .real_results import Result

PAGE = Path(__file__).parents[2] / "docs/numbers.md"
# As a library of any precision (mpmath) gives them.
KNOWN = {
    ("OF_ANY", "erf"): ((1,), "0.84270079294971486934122063508260925929606699796630"),
    ("OF_ANY", "erfc"): ((3,), "0.00002209049699858544137277612958232037984770708739925"),
    ("OF_ANY", "sin"): ((8,), "0.98935824662338177780812359824528867211641908088576"),
    ("OF_ANY", "exp2"): ((0.5,), "1.41421356237309504880168872420969807856967187537694"),
    ("OF_BOTH", "atan2"): ((3, 3), "0.78539816339744830961566084581987572104929234984378"),
    ("GAMMAS", "lgamma"): ((10,), "12.8018274800814696112077178745667061642811492556631"),
    ("GAMMAS", "tgamma"): ((2.5,), "1.32934038817913702047362561250585888709816209209179"),
}


@functools.cache
def results() -> tuple[Result, ...]:
    """Run everything once for all tests."""
    found, failed = last_bits.collect()
    assert failed == []
    return tuple(found)


@pytest.mark.parametrize(("table", "name"), KNOWN)
def test_functions_have_the_digits_that_another_library_gives(table: str, name: str) -> None:
    """To 38 digits, which is more than two doubles hold."""
    numbers, known = KNOWN[table, name]
    with localcontext() as context:
        context.prec = DIGITS
        got = getattr(functions, table)[name](*map(Decimal, numbers))
        assert abs(got / Decimal(known) - 1) < Decimal(10) ** -38


@pytest.mark.parametrize("name", ["float16", "float32"])
def test_rounding_is_numpys(random: np.random.Generator, name: str) -> None:
    """Of doubles of all sizes, subnormal and infinite results among them."""
    numbers = np.ldexp(random.uniform(-1, 1, 20_000), random.integers(-160, 140, 20_000))
    with np.errstate(over="ignore"):
        expected = numbers.astype(name).astype(np.float64)
    np.testing.assert_array_equal(FORMATS[name].rounded(plain(numbers)), expected)


def test_what_is_left_of_a_double_decides_a_tie() -> None:
    """Which rounding twice would not."""
    tie = np.full(3, 1 + 2.0**-24)
    rounded = FORMATS["float32"].rounded(Exact(tie, np.array([-(2.0**-80), 0, 2.0**-80])))
    assert rounded.tolist() == [1, 1, 1 + 2.0**-23]


def test_sums_and_products_are_exact(random: np.random.Generator) -> None:
    """As fractions say."""
    a, b = random.standard_normal((2, 50))
    for made, operation in [(added, Fraction.__add__), (multiplied, Fraction.__mul__)]:
        found = made(a, b)
        expected = [operation(Fraction(x), Fraction(y)) for x, y in zip(a, b, strict=True)]
        for high, low, fraction in zip(found.high, found.low, expected, strict=True):
            assert Fraction(high) + Fraction(low) == fraction
    found = summed(multiplied(a[None], b[None]))
    expected = of_fractions([sum(Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True))])
    np.testing.assert_array_equal([found.high, found.low], [expected.high, expected.low])


def test_errors_are_counted_in_units_of_the_last_place() -> None:
    """From the exact number, not from the rounded one."""
    form, exact = FORMATS["float32"], plain(np.array([1 + 2.0**-25, 3.0, np.inf, 2.0**-149]))
    got = np.array([1 + 2.0**-23, 3 - 2.0**-22, np.inf, 0], np.float32).view(np.uint32)
    assert form.off(got, exact).tolist() == [0.75, 1, 0, 1]
    assert form.places(np.array([0, -0.0, 1, -1], np.float32).view(np.uint32)) == [
        *[0, 0, 0x3F800000, -0x3F800000]
    ]


# IEEE 754 says what these are, hence all compilers and GPUs agree; products and sums are fused.
CERTAIN = ["vector_add", "add_as_float4", "carve", "half2_parts: sum", "int_to_float: float"]
CERTAIN += ["int_to_float: double", "half_conversions: from float", "half_arithmetic: fused"]
CERTAIN += [f"instructions: {name}" for name in ("fmaf", "a / b", "sqrtf")]
CERTAIN += ["float_functions: sqrtf", "double_functions: sqrt", "double_functions: fmod"]


def test_what_ieee_754_defines_is_rounded_right() -> None:
    """On every GPU."""
    found = {result.name: last_bits.accuracy(result, result.raw) for result in results()}
    assert {name: found[name][0] for name in CERTAIN} == dict.fromkeys(CERTAIN, "0")
    assert all(math.isfinite(float(most)) for _, most in found.values())


def test_two_runs_agree_and_a_planted_bit_is_found(tmp_path: Path) -> None:
    """Also results that are missing, and those of other numbers."""
    file = tmp_path / "other.json"
    last_bits.save(file, list(results()))
    other = json.loads(file.read_text())
    rows = {row[0]: row for row in last_bits.table(list(results()), other)[1:]}
    assert all(row[-2:] == ["0", "0"] for row in rows.values())
    saved = other["results"]
    changed = bytearray(base64.b64decode(saved["carve"]["bits"]))
    changed[8] ^= 2
    saved["carve"]["bits"] = base64.b64encode(changed).decode()
    del saved["saxpy"]
    saved["vector_add"]["given"] = ""
    rows = {row[0]: row for row in last_bits.table(list(results()), other)[1:]}
    assert rows["carve"][-2:] == ["1", "2"]
    assert int(rows["carve"][-4]) == int(rows["carve"][4]) + 1
    assert rows["saxpy"][6] == "not run"
    assert rows["vector_add"][6] == "was given other numbers"


def test_the_page_has_every_row() -> None:
    """Not the numbers: a simulated GPU's functions are those of the C library that there is."""
    written = re.findall(r"^\| ([^|]+) \| (\w+) \| (\d+) \|", PAGE.read_text(), re.M)
    rows = last_bits.table(list(results()), None)[1:]
    assert [tuple(row[:3]) for row in rows] == written


def test_a_page_keeps_what_is_around_the_table(tmp_path: Path) -> None:
    """And one without a place for it is refused."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{last_bits.MARKS[0]}old\n{last_bits.MARKS[1]}after\n")
    last_bits.write(page, "new\n")
    begin, end = last_bits.MARKS
    assert page.read_text() == f"before\n{begin}\nnew\n\n{end}after\n"
    page.write_text("nothing\n")
    with pytest.raises(SystemExit, match="no place for the table"):
        last_bits.write(page, "new\n")
