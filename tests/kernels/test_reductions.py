"""Sums, the greatest, running sums, counts."""

from __future__ import annotations

import numpy as np
import pytest

from .harness import Kernel, blocks
from .tolerance import assert_sum


def test_sum_by_a_tree_in_shared_memory(random: np.random.Generator) -> None:
    """A sum a block; the last block is not full."""
    n = 256 * 7 - 100
    values = random.standard_normal(n, np.float32)
    sums = np.zeros(7, np.float32)
    Kernel("reductions.cu", "sum_by_tree").launch(7, 256, values, sums, n)
    padded = np.pad(values.astype(np.float64), (0, 100)).reshape(7, 256)
    assert_sum(sums, padded, axis=1)


@pytest.mark.parametrize("block", [32, 96, 256, 1024])
def test_sum_by_shuffles_in_two_passes(random: np.random.Generator, block: int) -> None:
    """Blocks first, then their sums."""
    values = random.standard_normal(5000, np.float32)
    parts, total = np.zeros(9, np.float32), np.zeros(1, np.float32)
    kernel = Kernel("reductions.cu", "sum_by_shuffles")
    kernel.launch(9, block, values, parts, values.size)
    kernel.launch(1, 32, parts, total, parts.size)
    assert_sum(total[0], values.astype(np.float64))


def test_sum_by_atomics(random: np.random.Generator) -> None:
    """In whatever order they come."""
    values, total = random.standard_normal(2000, np.float32), np.zeros(1, np.float32)
    Kernel("reductions.cu", "sum_by_atomics").launch(8, 256, values, total, values.size)
    assert_sum(total[0], values.astype(np.float64))


def test_sum_of_doubles(random: np.random.Generator) -> None:
    """Against sums of 80 bits."""
    values, total = random.standard_normal(4000), np.zeros(1)
    Kernel("reductions.cu", "sum_double").launch(1, 512, values, total, values.size)
    assert_sum(total[0], values.astype(np.longdouble))


def test_dot_product(random: np.random.Generator) -> None:
    """A rounding for each product, or none when fused."""
    a, b = random.standard_normal((2, 6000), np.float32)
    total = np.zeros(1, np.float32)
    Kernel("reductions.cu", "dot_product").launch(5, 128, a, b, total, a.size)
    assert_sum(total[0], a.astype(np.float64) * b)


def test_the_greatest_and_its_first_place(random: np.random.Generator) -> None:
    """Among many equal ones."""
    n = 256 * 5 - 30
    values = random.integers(-50, 50, n).astype(np.int32)
    best, place = np.zeros((2, 5), np.int32)
    Kernel("reductions.cu", "greatest").launch(5, 256, values, best, place, n)
    parts = [values[start : start + 256] for start in range(0, n, 256)]
    np.testing.assert_array_equal(best, [part.max() for part in parts])
    np.testing.assert_array_equal(place, [256 * i + p.argmax() for i, p in enumerate(parts)])


def test_scan_by_hillis_and_steele(random: np.random.Generator) -> None:
    """Inclusive, one block."""
    values, sums = random.integers(-1000, 1000, 512).astype(np.int32), np.zeros(512, np.int32)
    Kernel("scans.cu", "scan_hillis_steele").launch(1, 512, values, sums)
    np.testing.assert_array_equal(sums, np.cumsum(values))


def test_scan_by_blelloch(random: np.random.Generator) -> None:
    """Exclusive, and sums wrap as unsigned ones do."""
    values = random.integers(0, 2**32, 512, dtype=np.uint32)
    sums = np.zeros(512, np.uint32)
    Kernel("scans.cu", "scan_blelloch").launch(1, 256, values, sums)
    np.testing.assert_array_equal(sums, np.cumsum(values, dtype=np.uint32) - values)


def test_scan_of_warps(random: np.random.Generator) -> None:
    """Each warp by itself."""
    values = random.integers(-1000, 1000, 384).astype(np.int32)
    sums = np.zeros_like(values)
    Kernel("scans.cu", "scan_warps").launch(3, 128, values, sums)
    np.testing.assert_array_equal(sums.reshape(-1, 32), np.cumsum(values.reshape(-1, 32), axis=1))


def test_scan_of_many_blocks(random: np.random.Generator) -> None:
    """Three launches: blocks, their totals, both together."""
    n, grid = 20_000, blocks(20_000, 256)
    values = random.integers(-1000, 1000, n).astype(np.int32)
    sums, totals, running = (
        np.zeros(n, np.int32),
        np.zeros(grid, np.int32),
        np.zeros(grid, np.int32),
    )
    scan = Kernel("scans.cu", "scan_blocks")
    scan.launch(grid, 256, values, sums, totals, n)
    scan.launch(1, 256, totals, running, None, grid)
    Kernel("scans.cu", "add_totals").launch(grid, 256, sums, running, n)
    np.testing.assert_array_equal(sums, np.cumsum(values))


def test_histogram_in_global_memory(random: np.random.Generator) -> None:
    """All threads on 13 bins."""
    values, bins = random.integers(0, 10**6, 3000).astype(np.int32), np.zeros(13, np.uint32)
    Kernel("histograms.cu", "histogram_global").launch(12, 256, values, bins, 13, values.size)
    np.testing.assert_array_equal(bins, np.bincount(values % 13, minlength=13))


def test_histogram_in_shared_memory(random: np.random.Generator) -> None:
    """A histogram a block, added up."""
    data, bins = random.integers(0, 256, 20_000, dtype=np.uint8), np.zeros(256, np.uint32)
    Kernel("histograms.cu", "histogram_shared").launch(4, 96, data, bins, data.size)
    np.testing.assert_array_equal(bins, np.bincount(data, minlength=256))


def test_histogram_in_bytes(random: np.random.Generator) -> None:
    """Neighbouring bytes of shared memory belong to different threads: that is no race."""
    data, bins = random.integers(0, 256, 64 * 200, dtype=np.uint8), np.zeros(16, np.uint32)
    Kernel("histograms.cu", "histogram_byte_bins").launch(1, 64, data, bins, 200)
    np.testing.assert_array_equal(bins, np.bincount(data & 15, minlength=16))
