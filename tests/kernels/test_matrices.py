"""Products, transposes, determinants."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from .harness import Kernel, blocks
from .tolerance import assert_sum

ROWS, COLUMNS, INNER = 37, 50, 61


@pytest.mark.parametrize(
    ("name", "dtype", "exact"),
    [
        ("multiply_float", np.float32, np.float64),
        ("multiply_naive", np.float32, np.float64),
        ("multiply_double", np.float64, np.longdouble),
    ],
)
def test_product_of_matrices(
    random: np.random.Generator, name: str, dtype: type, exact: type
) -> None:
    """Of no whole number of tiles. What is added beyond the edge is 0 and exact."""
    a = random.standard_normal((ROWS, INNER)).astype(dtype)
    b = random.standard_normal((INNER, COLUMNS)).astype(dtype)
    c = np.zeros((ROWS, COLUMNS), dtype)
    grid = (blocks(COLUMNS, 16), blocks(ROWS, 16))
    Kernel("matrices.cu", name).launch(grid, (16, 16), a, b, c, ROWS, COLUMNS, INNER)
    assert_sum(c, a.astype(exact)[:, :, None] * b.astype(exact)[None, :, :], axis=1)


def test_product_of_whole_tiles(random: np.random.Generator) -> None:
    """Sums of 48 products, in the order of the row."""
    a, b = random.standard_normal((2, 48, 48)).astype(np.float32)
    c = np.zeros((48, 48), np.float32)
    Kernel("matrices.cu", "multiply_square").launch((3, 3), (16, 16), a, b, c, 48)
    terms = a.astype(np.float64)[:, :, None] * b.astype(np.float64)[None, :, :]
    assert_sum(c, terms, axis=1)


def test_product_of_whole_matrices(random: np.random.Generator) -> None:
    """Which wraps at 32 bits, as NumPy's does."""
    a = random.integers(-(2**31), 2**31, (ROWS, INNER)).astype(np.int32)
    b = random.integers(-(2**31), 2**31, (INNER, COLUMNS)).astype(np.int32)
    c = np.zeros((ROWS, COLUMNS), np.int32)
    grid = (blocks(COLUMNS, 16), blocks(ROWS, 16))
    Kernel("matrices.cu", "multiply_int").launch(grid, (16, 16), a, b, c, ROWS, COLUMNS, INNER)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize(
    ("name", "dtype", "block", "tile"),
    [
        ("transpose_naive", np.float64, (8, 16), (8, 16)),
        ("transpose_tiled", np.float32, (32, 8), (32, 32)),
    ],
)
def test_transpose(name: str, dtype: type, block: tuple[int, int], tile: tuple[int, int]) -> None:
    """Of no whole number of tiles."""
    rows, columns = 70, 45
    source = np.arange(rows * columns, dtype=dtype).reshape(rows, columns)
    target = np.zeros((columns, rows), dtype)
    grid = (blocks(columns, tile[0]), blocks(rows, tile[1]))
    Kernel("matrices.cu", name).launch(grid, block, source, target, rows, columns)
    np.testing.assert_array_equal(target, source.T)


class Matrix3(ctypes.Structure):
    """The kernel's structure of 72 bytes, by value."""

    _fields_ = [("at", ctypes.c_double * 9)]


def test_determinants_of_structs_by_value(random: np.random.Generator) -> None:
    """Small whole numbers: every step is exact, fused or not. The factor's determinant is 23."""
    matrices = random.integers(-9, 10, (200, 3, 3)).astype(np.float64)
    factor = np.array([[2, 1, 0], [0, 3, -1], [1, 0, 4]], np.float64)
    out = np.zeros(200)
    struct = Matrix3((ctypes.c_double * 9)(*factor.ravel()))
    Kernel("matrices.cu", "determinants").launch(2, 128, matrices, struct, out, 200)
    np.testing.assert_array_equal(out, np.round(np.linalg.det(matrices)) * 23)
