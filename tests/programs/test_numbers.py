"""Small floats and packed integers, against NumPy and ml_dtypes."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from conftest import HERE, Bench

KINDS = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
CODES = np.arange(256, dtype=np.uint8)
ROW = np.dtype(
    [
        *((name, "u1", 4) for name in ("of_double", "of_float", "of_half", "of_bfloat16")),
        *(
            ("by_class", "u1", 8),
            ("of_int", "u1", 2),
            ("pairs", "u2", 4),
            ("others", "u2", 4),
            ("fours", "u4", 4),
        ),
        *(("back", "f4", 2), ("pair_back", "f4", 4), ("four_back", "f4", 4), ("halves", "u2", 2)),
        *(("whole", "i4", 2), ("wide", "i8"), ("byte", "u1"), ("signed_byte", "i1")),
    ],
    align=True,
)


def decoded(codes: np.ndarray, kind: int) -> np.ndarray:
    """Return the numbers of codes."""
    return codes.astype(np.uint8).view(KINDS[kind]).astype(np.float64)


def encoded(values: np.ndarray, kind: int, saturate: bool) -> np.ndarray:
    """Return the nearest codes, of two as near the even one; each step is exact in doubles."""
    numbers = decoded(CODES[:128], kind)
    finite = numbers[np.isfinite(numbers)]
    # One step after the largest, which stands for all that is too large.
    steps = np.append(finite, 2 * finite[-1] - finite[-2])
    with np.errstate(invalid="ignore"):
        size = np.abs(values.astype(np.float64))
    above = np.searchsorted((steps[1:] + steps[:-1]) / 2, size, side="left")
    tie = np.isin(size, (steps[1:] + steps[:-1]) / 2)
    code = np.where(tie, above + above % 2, above)
    top = len(finite) - 1
    code = np.where(code > top, top if saturate else top + 1, code)
    code = np.where(np.isnan(size), 0x7F, code | np.signbit(values) * 0x80)
    return code.astype(np.uint8)


def test_the_reference_is_that_of_ml_dtypes() -> None:
    """Which rounds floats to fp8 too, without saturation."""
    values = np.random.default_rng(3).normal(size=20000).astype(np.float32) * 300
    for kind, dtype in enumerate(KINDS):
        wanted = decoded(values.astype(dtype).view(np.uint8), kind)
        np.testing.assert_array_equal(decoded(encoded(values, kind, False), kind), wanted)


def words() -> np.ndarray:
    """Return doubles whose low bits are codes, with the borders of codes and their neighbours."""
    random = np.random.default_rng(1)
    steps = [decoded(CODES[:128], kind) for kind in (0, 1)]
    near = np.concatenate([*steps, *((step[1:] + step[:-1]) / 2 for step in steps), [464, 61440.0]])
    near = np.concatenate([near, np.nextafter(near, 0), np.nextafter(near, np.inf), near * 1.001])
    spread = random.normal(size=8000) * 2.0 ** random.integers(-22, 20, 8000)
    patterns = random.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    special = np.array([0.0, np.inf, np.nan, 5e-324, 1e-310, 2.0**-18, 2.0**-10, 1e300])
    values = np.concatenate([near, spread, patterns, special])
    values = np.concatenate([values, -values])
    codes = np.arange(256, dtype=np.uint64)
    return np.concatenate([values, (codes | codes << 8 | 0x4010 << 48).view(np.float64)])


def results(bench: Bench, which: str, given: np.ndarray) -> list[bytes]:
    """Return what the device and the host make of words."""
    (bench.folder / "given").write_bytes(given.tobytes())
    bench.built(str(HERE / "numbers.cu"), "-o", "numbers")
    bench.ran("./numbers", which, "given", "made")
    made = (bench.folder / "made").read_bytes()
    return [made[: len(made) // 2], made[len(made) // 2 :]]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_fp8_is_converted_both_ways_exactly(bench: Bench) -> None:
    """All codes and many numbers, both kinds, both modes, one, two and four, on both sides."""
    given = words()
    assert len(np.unique(given.view(np.uint64) & 0xFF)) == 256
    single = given.astype(np.float32)
    narrow = {
        "of_double": given,
        "of_float": single,
        "of_half": single.astype(np.float16),
        "of_bfloat16": single.astype(ml_dtypes.bfloat16).astype(np.float32),
    }
    bits = given.view(np.uint64)
    with np.errstate(all="ignore"):
        whole = np.where(np.abs(single) <= 1e6, np.trunc(single) + 0, 7)
    for made in results(bench, "floats", given):
        rows = np.frombuffer(made, ROW)
        for kind in (0, 1):
            for name, values in narrow.items():
                for saturate in (False, True):
                    wanted = encoded(values, kind, saturate)
                    np.testing.assert_array_equal(rows[name][:, 2 * kind + saturate], wanted)
            classes = [encoded(values, kind, True) for values in narrow.values()]
            for at, wanted in enumerate(classes):
                np.testing.assert_array_equal(rows["by_class"][:, 4 * kind + at], wanted)
            np.testing.assert_array_equal(rows["of_int"][:, kind], encoded(whole, kind, True))
            minus = encoded(-single, kind, True).astype(np.uint32)
            plus = classes[1].astype(np.uint32)
            np.testing.assert_array_equal(rows["pairs"][:, 2 * kind], plus | minus << 8)
            both = encoded(-given, kind, True).astype(np.uint16), classes[0].astype(np.uint16)
            np.testing.assert_array_equal(rows["pairs"][:, 2 * kind + 1], both[0] | both[1] << 8)
            other = classes[3].astype(np.uint16)
            negative = encoded(-narrow["of_bfloat16"], kind, True).astype(np.uint16)
            for at in (kind, 2 + kind):
                np.testing.assert_array_equal(rows["others"][:, at], other | negative << 8)
            one, two, three, four = (
                int(encoded(np.array([value]), kind, True)[0]) for value in (1, -2, 3, -4)
            )
            wanted = plus | one << 8 | two << 16 | minus << 24
            np.testing.assert_array_equal(rows["fours"][:, 2 * kind], wanted)
            half = classes[2].astype(np.uint32)
            wanted = half | three << 8 | four << 16 | half << 24
            np.testing.assert_array_equal(rows["fours"][:, 2 * kind + 1], wanted)

            back = [decoded(bits >> 8 * byte & 0xFF, kind) for byte in range(4)]
            np.testing.assert_array_equal(rows["back"][:, kind], back[0])
            np.testing.assert_array_equal(rows["pair_back"][:, 2 * kind : 2 * kind + 2].T, back[:2])
            halves = np.where(np.isnan(back[0]), 0x7FFF, back[0].astype(np.float16).view(np.uint16))
            np.testing.assert_array_equal(rows["halves"][:, kind], halves)
            np.testing.assert_array_equal(rows["whole"][:, kind], integers(back[0], np.int32))
            if kind == 0:
                np.testing.assert_array_equal(rows["four_back"].T, back)
                np.testing.assert_array_equal(rows["wide"], integers(back[0], np.int64))
            else:
                np.testing.assert_array_equal(rows["byte"], integers(back[0], np.uint8))
                np.testing.assert_array_equal(rows["signed_byte"], integers(back[0], np.int8))


def integers(values: np.ndarray, dtype: type) -> np.ndarray:
    """Return numbers without their fractions, as near as the type has them; a NaN is 0."""
    limits = np.iinfo(dtype)
    clamped = [
        0 if np.isnan(value) else min(max(value, limits.min), limits.max) for value in values
    ]
    return np.array([int(value) for value in clamped], dtype)


def packed() -> list[tuple[str, Callable[..., np.ndarray]]]:
    """Return each function of packed integers by NumPy, in the order of the program."""
    order: list[tuple[str, Callable[..., np.ndarray]]] = [
        ("s", lambda x, y: np.abs(x)),
        ("S", lambda x, y: np.abs(x)),
        ("s", lambda x, y: -x),
        ("S", lambda x, y: -x),
        *(("u", lambda x, y: x + y), ("S", lambda x, y: x + y), ("U", lambda x, y: x + y)),
        *(("u", lambda x, y: x - y), ("S", lambda x, y: x - y), ("U", lambda x, y: x - y)),
        # Half of a number between two integers is the one that is farther from zero.
        ("s", lambda x, y: np.sign(x + y) * ((np.abs(x + y) + 1) // 2)),
        *(("u", lambda x, y: (x + y + 1) // 2), ("u", lambda x, y: (x + y) // 2)),
        *((sign, lambda x, y: np.abs(x - y)) for sign in "su"),
        *((sign, np.maximum) for sign in "su"),
        *((sign, np.minimum) for sign in "su"),
        *((f"sum {sign}", lambda x, y: np.abs(x - y)) for sign in "su"),
    ]
    comparisons = [("u", np.equal), ("u", np.not_equal)]
    for compare in (np.greater_equal, np.greater, np.less_equal, np.less):
        comparisons += [("s", compare), ("u", compare)]
    for sign, compare in comparisons:
        order.append((sign, lambda x, y, compare=compare: -compare(x, y).astype(np.int64)))
        order.append((sign, lambda x, y, compare=compare: compare(x, y).astype(np.int64)))
    return order


def lanes(numbers: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    """Return the parts of words, by words."""
    dtype = {8: "<u1", 16: "<u2", 32: "<u4"}[bits].replace("u", "i" if signed else "u")
    return numbers.view(dtype).reshape(len(numbers), -1).astype(np.int64)


def extremes(
    a: np.ndarray, b: np.ndarray, signed: bool, pick: Callable[..., np.ndarray], relu: bool
) -> list[np.ndarray]:
    """Return the largest or smallest of words and of halfwords, in the order of the program."""
    by_bits = []
    for bits in (32, 16):
        x, y, z = (lanes(numbers, bits, signed) for numbers in (a, b, a ^ b))
        places, mask = np.arange(0, 32, bits), (1 << bits) - 1
        total = (x + y) & mask
        total -= (total >> (bits - 1) << bits) * signed
        values = [pick(x, y)] if relu else []
        values += [pick(pick(x, y), z), pick(total, z)]
        values += [] if relu else [pick(x, y)]
        if relu:
            values = [np.maximum(value, 0) for value in values]
        words = [((value & mask) << places).sum(axis=1) for value in values]
        if not relu:
            # Whether the first was taken is in the third bit of each.
            words[-1] ^= ((pick(x, y) == x) * 4 << places).sum(axis=1)
        by_bits.append(words)
    return [words[i] for i in range(3) for words in by_bits]


def test_packed_integers_are_calculated_lane_by_lane(bench: Bench) -> None:
    """Each function of halfwords and of bytes, and products of bytes, on both sides."""
    random = np.random.default_rng(2)
    edges = np.array([0, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x80808080, 0x7F80FF01])
    some = np.concatenate([edges, random.integers(0, 2**32, 400)])
    mixed = np.stack([np.repeat(edges, len(some)), np.tile(some, len(edges))])
    a, b = np.concatenate([mixed, random.integers(0, 2**32, (2, 3000))], axis=1).astype("<u4")
    given = np.stack([a, b], axis=1).copy()
    for made in results(bench, "integers", given):
        rows = np.frombuffer(made, "<u4").reshape(len(a), 124)
        at = 0
        for kind, function in packed():
            for bits in (16, 8):
                signed = kind[-1] in "sS"
                x, y = lanes(a, bits, signed), lanes(b, bits, signed)
                value = function(x, y)
                if kind in "SU":
                    least = -(1 << (bits - 1)) if signed else 0
                    value = np.clip(value, least, least + (1 << bits) - 1)
                if kind.startswith("sum"):
                    wanted = value.sum(axis=1)
                else:
                    places = np.arange(0, 32, bits)
                    wanted = ((value & ((1 << bits) - 1)) << places).sum(axis=1)
                np.testing.assert_array_equal(rows[:, at], wanted, f"{at}: {kind} of {bits}")
                at += 1
        for first in (None, 0, 2):
            for signed in (True, False):
                x, y = lanes(a, 8 if first is None else 16, signed), lanes(b, 8, signed)
                y = y if first is None else y[:, first : first + 2]
                wanted = (x * y).sum(axis=1) + a
                np.testing.assert_array_equal(rows[:, at], wanted & 0xFFFFFFFF, str(at))
                at += 1
        for kind, pick, relu in (
            *((kind, pick, False) for kind in "su" for pick in (np.maximum, np.minimum)),
            *(("s", pick, True) for pick in (np.maximum, np.minimum)),
        ):
            for wanted in extremes(a, b, kind == "s", pick, relu):
                np.testing.assert_array_equal(rows[:, at], wanted, f"{at}: {kind} {relu}")
                at += 1
        assert at == 124
