"""`mma.h`: matrices of a warp, against NumPy."""

from __future__ import annotations

import numpy as np
from conftest import HERE, Bench


def test_matrices_of_a_warp_are_multiplied(bench: Bench) -> None:
    """Each shape, type and order; numbers so small that every sum is exact."""
    bench.built(str(HERE / "matrices.cu"), "-o", "matrices")
    assert b".version 6.5" in (bench.folder / "matrices").read_bytes()
    assert bench.ran("./matrices", "made") == "2147483647 cudaSuccess\n"
    numbers = np.fromfile(bench.folder / "made")
    at = count = 0

    def matrix(rows: int, columns: int, by_rows: int, stride: int) -> np.ndarray:
        nonlocal at
        shape = (rows, stride) if by_rows else (columns, stride)
        found = numbers[at : at + shape[0] * stride].reshape(shape)
        at += found.size
        return found[:, :columns] if by_rows else found[:, :rows].T

    while at < len(numbers):
        m, n, k, rows_a, rows_b, rows, *strides = numbers[at : at + 9].astype(int).tolist()
        at += 9
        a, b = matrix(m, k, rows_a, strides[0]), matrix(k, n, rows_b, strides[1])
        c, d = matrix(m, n, rows, strides[2]), matrix(m, n, rows, strides[2])
        np.testing.assert_array_equal(d, 2 * (a @ b) + c, f"{count}: {m} {n} {k}")
        assert np.abs(d).max() > 200
        count += 1
    assert count == 45
