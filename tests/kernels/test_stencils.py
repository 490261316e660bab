"""Cells and their neighbours."""

from __future__ import annotations

import numpy as np

from .harness import Kernel, blocks
from .tolerance import assert_sum


def test_stencil_of_one_axis(random: np.random.Generator) -> None:
    """Seven cells, the edges repeated."""
    n = 1000
    cells, out = random.integers(-99, 99, n).astype(np.int32), np.zeros(n, np.int32)
    Kernel("stencils.cu", "stencil_1d").launch(blocks(n, 128), 128, cells, out, n)
    padded = np.pad(cells, 3, mode="edge")
    np.testing.assert_array_equal(out, sum(padded[k : k + n] for k in range(7)))


def test_stencil_of_two_axes(random: np.random.Generator) -> None:
    """Whole numbers below 2^10 times eighths: exact in floats."""
    height, width = 45, 70
    cells = random.integers(0, 1000, (height, width)).astype(np.float32)
    out = np.zeros_like(cells)
    grid = (blocks(width, 16), blocks(height, 16))
    Kernel("stencils.cu", "stencil_2d").launch(grid, (16, 16), cells, out, width, height)
    p = np.pad(cells, 1, mode="edge")
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    np.testing.assert_array_equal(out, 0.5 * cells + 0.125 * around)


def test_stencil_of_three_axes(random: np.random.Generator) -> None:
    """Whole numbers in doubles: exact."""
    depth, height, width = 8, 16, 24
    cells = random.integers(-99, 99, (depth, height, width)).astype(np.float64)
    out = np.zeros_like(cells)
    Kernel("stencils.cu", "stencil_3d").launch(
        (3, 2, 2), (8, 8, 4), cells, out, width, height, depth
    )
    p = np.pad(cells, 1)
    middle = slice(1, -1)
    expected = -6 * cells
    for axis in range(3):
        for shifted in (slice(None, -2), slice(2, None)):
            index = [middle] * 3
            index[axis] = shifted
            expected = expected + p[tuple(index)]
    np.testing.assert_array_equal(out, expected)


def test_convolution_with_constant_weights(random: np.random.Generator) -> None:
    """The weights are set by the host, twice."""
    n = 777
    cells, out = random.standard_normal(n, np.float32), np.zeros(n, np.float32)
    kernel = Kernel("stencils.cu", "convolve")
    for _ in range(2):
        weights = random.standard_normal(9, np.float32)
        kernel.write("weights", weights)
        kernel.launch(blocks(n, 128), 128, cells, out, n)
        padded = np.pad(cells.astype(np.float64), 4)
        assert_sum(out, np.stack([weights[k] * padded[k : k + n] for k in range(9)]), axis=0)


def test_game_of_life() -> None:
    """A glider on a torus comes back to where it was after 4·height steps on a square one."""
    height = width = 12
    world = np.zeros((height, width), np.uint8)
    world[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = 1
    first, kernel = world.copy(), Kernel("stencils.cu", "game_of_life")
    for step in range(4 * height):
        after = np.full_like(world, 9)
        kernel.launch((2, 2), (8, 8), world, after, width, height)
        shifts = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
        near = sum(np.roll(world, shift, (0, 1)) for shift in shifts)
        np.testing.assert_array_equal(after, (near == 3) | (world == 1) & (near == 2), f"{step}")
        world = after
    np.testing.assert_array_equal(world, first)


def test_box_blur(random: np.random.Generator) -> None:
    """Means of bytes, of fewer at the edges."""
    height, width, radius = 30, 41, 2
    image = random.integers(0, 256, (height, width), dtype=np.uint8)
    out = np.zeros_like(image)
    grid = (blocks(width, 16), blocks(height, 8))
    Kernel("stencils.cu", "box_blur").launch(grid, (16, 8), image, out, width, height, radius)
    for y in range(height):
        for x in range(width):
            window = image[max(y - 2, 0) : y + 3, max(x - 2, 0) : x + 3]
            assert out[y, x] == int(window.sum(dtype=int)) // window.size
