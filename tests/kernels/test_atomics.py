"""Every kind of atomic: no update is lost, and what is given back was there."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from .harness import Kernel
from .tolerance import assert_sum

N = 1000
FILE = "atomics.cu"


@pytest.mark.parametrize(
    ("name", "dtype"), [("atomics_int", np.int32), ("atomics_unsigned", np.uint32)]
)
def test_atomics_of_32_bits(random: np.random.Generator, name: str, dtype: type) -> None:
    """Their result does not depend on the order, except exch's: one of the values."""
    limits = np.iinfo(dtype)
    values = random.integers(limits.min, limits.max, N, dtype=dtype, endpoint=True)
    start = [5, 5, limits.max, limits.min, -1 % 2**32 if limits.min == 0 else -1, 0, 77, 0, 0, 3]
    cells = np.array(start, dtype)
    Kernel(FILE, name).launch(4, 256, cells, values, N)
    total, five = values.sum(dtype=dtype), np.array([5], dtype)  # arrays wrap without a warning
    expected = [
        *[*(five + total), *(five - total), values.min(), values.max()],
        *[reduce(np.bitwise_and, values), reduce(np.bitwise_or, values)],
        reduce(np.bitwise_xor, values) ^ dtype(77),
    ]
    np.testing.assert_array_equal(cells[:7], np.array(expected, dtype))
    assert cells[7] in values
    if dtype is np.uint32:  # 1000 threads: 0 … 1000 has 1001 places, and 3 → 0 → 1000 → …
        assert cells[8:].tolist() == [1000, 1000 - (N - 4)]


def test_atomics_of_64_bits(random: np.random.Generator) -> None:
    """The same, wide."""
    values = random.integers(0, 2**64, N, dtype=np.uint64)
    ones = np.uint64(2**64 - 1)
    cells = np.array([1, ones, 0, ones, 0, 0, 0], np.uint64)
    Kernel(FILE, "atomics_long").launch(4, 256, cells, values, N)
    expected = [
        *[values.sum(dtype=np.uint64) + np.uint64(1), values.min(), values.max()],
        *[reduce(op, values) for op in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)],
    ]
    np.testing.assert_array_equal(cells[:6], np.array(expected, np.uint64))
    assert cells[6] in values


def test_atomic_sums_of_floats(random: np.random.Generator) -> None:
    """In any order, hence within the bound of sums."""
    values = random.standard_normal(N, np.float32)
    single, wide = np.zeros(1, np.float32), np.zeros(1)
    Kernel(FILE, "atomics_floating").launch(4, 256, single, wide, values, N)
    assert_sum(single[0], values.astype(np.float64))
    assert_sum(wide[0], values.astype(np.longdouble))


def test_tickets() -> None:
    """Every number is given out once, to one thread."""
    counter, wide = np.zeros(1, np.int32), np.zeros(1, np.uint64)
    seen, wide_seen = np.full((2, N), -1, np.int32)
    Kernel(FILE, "tickets").launch(4, 256, counter, wide, seen, wide_seen, N)
    assert (counter[0], wide[0]) == (N, N)
    np.testing.assert_array_equal(np.sort(seen), np.arange(N))
    np.testing.assert_array_equal(np.sort(wide_seen), np.arange(N))


def test_the_greatest_float_by_compare_and_swap(random: np.random.Generator) -> None:
    """A loop that ends for each thread."""
    values, cell = random.standard_normal(N, np.float32), np.array([-9], np.float32)
    Kernel(FILE, "greatest_by_swap").launch(4, 256, cell, values, N)
    assert cell[0] == values.max()


def test_a_stack_without_locks() -> None:
    """What does not fit is refused, and nothing is lost or twice there."""
    top, refused, stack = np.zeros(1, np.int32), np.zeros(1, np.int32), np.full(600, -1, np.int32)
    values = np.arange(N, dtype=np.int32)
    Kernel(FILE, "push").launch(4, 256, top, stack, 600, refused, values, N)
    assert (top[0], refused[0]) == (600, N - 600)
    assert len(set(stack.tolist())) == 600
    assert set(stack.tolist()) <= set(range(N))


def test_atomics_in_shared_memory() -> None:
    """Halves are exact in floats."""
    total, wide = np.zeros(3, np.int32), np.zeros(3, np.uint64)
    single, swapped = np.zeros(3, np.float32), np.zeros(3, np.int32)
    Kernel(FILE, "atomics_shared").launch(3, 128, total, wide, single, swapped)
    threads = 128 * 127 // 2
    assert total.tolist() == [threads] * 3
    assert wide.tolist() == [threads << 32] * 3
    assert (single.tolist(), swapped.tolist()) == ([64.0] * 3, [1] * 3)
