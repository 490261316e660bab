"""One thread an element: sums, copies, loops, grids of three axes, parameters."""

from __future__ import annotations

import numpy as np
import pytest

from .harness import Kernel, blocks

FILE = "vectors.cu"


@pytest.mark.parametrize("n", [1, 255, 256, 257, 10_000])
def test_vector_add(random: np.random.Generator, n: int) -> None:
    """One rounding an element, as NumPy's: equal bits."""
    a, b = random.standard_normal((2, n), np.float32)
    out = np.zeros(n, np.float32)
    Kernel(FILE, "vector_add").launch(blocks(n, 256), 256, a, b, out, n)
    np.testing.assert_array_equal(out, a + b)


def test_saxpy(random: np.random.Generator) -> None:
    """At most two roundings, of the product and of the sum; fused, one."""
    n = 3000
    x, y = random.standard_normal((2, n), np.float32)
    before = y.astype(np.float64)
    Kernel(FILE, "saxpy").launch(blocks(n, 128), 128, 2.5, x, y, n)
    product = 2.5 * x.astype(np.float64)
    bound = 2.0**-24 * (np.abs(product) + np.abs(product + before)) * 1.001
    assert np.all(np.abs(y - (product + before)) <= bound)


@pytest.mark.parametrize("grid", [1, 3, 200])
def test_grid_stride_loop(random: np.random.Generator, grid: int) -> None:
    """Whatever the grid, each element is taken once."""
    values = random.integers(-(2**31), 2**31, 5000)
    expected = values * values
    Kernel(FILE, "grid_stride_square").launch(grid, 64, values, values.size)
    np.testing.assert_array_equal(values, expected)


def test_strided_copy() -> None:
    """Only every third place is written, and the last one is the array's last."""
    n = 1000
    source = np.arange(2 * n - 1, dtype=np.int16)
    target = np.full(3 * n - 2, -1, np.int16)
    Kernel(FILE, "strided_copy").launch(blocks(n, 96), 96, source, 2, target, 3, n)
    expected = np.full(3 * n - 2, -1, np.int16)
    expected[::3] = source[::2]
    np.testing.assert_array_equal(target, expected)


def test_four_floats_at_a_time(random: np.random.Generator) -> None:
    """Vectors of 16 bytes; equal bits."""
    a, b = random.standard_normal((2, 4 * 333), np.float32)
    out = np.zeros_like(a)
    Kernel(FILE, "add_as_float4").launch(3, 128, a, b, out, 333)
    np.testing.assert_array_equal(out, a + b)


def test_nothing() -> None:
    """An empty kernel, on the smallest and on a large grid."""
    kernel = Kernel(FILE, "nothing")
    kernel.launch(1, 1)
    kernel.launch((100, 20, 3), (8, 8, 4))


def test_threads_leave_early(random: np.random.Generator) -> None:
    """Each at its own step, with no barrier behind."""
    values = random.integers(-100, 100_000, 700).astype(np.int32)
    steps = np.full(700, -7, np.int32)
    Kernel(FILE, "leave_early").launch(3, 256, values, steps, 700)
    expected = []
    for left in values.tolist():
        count = 0
        while left > 0:
            left, count = left // 3, count + 1
        expected.append(-1 if left < 0 else count)
    np.testing.assert_array_equal(steps, expected)


def test_grids_and_blocks_of_three_axes() -> None:
    """Block and thread numbers on every axis, with blocks that hang over the edge."""
    width, height, depth = 13, 7, 5
    threads = np.zeros((depth, height, width, 3), np.uint32)
    blocks_ = np.zeros_like(threads)
    grid, block = (4, 3, 2), (4, 3, 4)
    Kernel(FILE, "coordinates").launch(grid, block, threads, blocks_, width, height, depth)
    z, y, x = np.indices((depth, height, width))
    np.testing.assert_array_equal(threads, np.stack([x % 4, y % 3, z % 4], -1))
    np.testing.assert_array_equal(blocks_, np.stack([x // 4, y // 3, z // 4], -1))


def test_thirty_parameters() -> None:
    """Each lies where its type's alignment puts it; all values are exact in a double."""
    types = ["int8", "int16", "int32", "int64", "float32", "float64", "uint8", "uint16", "uint32"]
    types += ["uint64", "bool", "int8", "float32", "int16", "float64", "int8", "int32", "int8"]
    types += ["int64", "int16", "float32", "bool", "float64", "uint8", "float32", "uint16"]
    types += ["uint32", "int8"]
    signed = [(-1) ** i * (i + 1) for i in range(len(types))]
    words = []
    for name, number in zip(types, signed, strict=True):
        number = abs(number) if name[0] == "u" else number
        words.append(np.bool_(True) if name == "bool" else np.dtype(name).type(number))
    out = np.zeros(29)
    Kernel(FILE, "many_parameters").launch(1, 1, out, *words, np.array([1.25, 77.5]))
    np.testing.assert_array_equal(out, [*map(float, words), 77.5])
