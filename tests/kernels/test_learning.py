"""Clusters, rows of networks, colours."""

from __future__ import annotations

import numpy as np

from .harness import Kernel, blocks, needs_library

U = 2.0**-24


def test_nearest_centre(random: np.random.Generator) -> None:
    """Small whole numbers: distances and sums are exact, ties go to the first."""
    n, k = 500, 7
    points = random.integers(-100, 100, (n, 2)).astype(np.float32)
    centres = random.integers(-100, 100, (k, 2)).astype(np.float32)
    nearest, counts = np.full(n, -1, np.int32), np.zeros(k, np.int32)
    sums = np.zeros((k, 2), np.float32)
    words = (points, n, centres, k, nearest, sums, counts)
    Kernel("learning.cu", "nearest_centre").launch(blocks(n, 128), 128, *words)
    distances = ((points[:, None] - centres[None]) ** 2).sum(-1)
    expected = distances.argmin(1)
    np.testing.assert_array_equal(nearest, expected)
    np.testing.assert_array_equal(counts, np.bincount(expected, minlength=k))
    np.testing.assert_array_equal(sums, [points[expected == c].sum(0) for c in range(k)])


@needs_library
def test_softmax(random: np.random.Generator) -> None:
    """Relative error: of x - max, u·|x - max| in the exponent; expf, 2 ulps = 4u; the sum, n·u.

    Both the term and the terms of the sum have the first two; the quotient adds u.
    """
    rows, columns = 5, 300
    values = (3 * random.standard_normal((rows, columns))).astype(np.float32)
    out = np.zeros_like(values)
    Kernel("softmax.cu", "softmax").launch(rows, 128, values, out, columns)
    wide = values.astype(np.float64)
    shifted = wide - wide.max(1, keepdims=True)
    expected = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    bound = (2 * (np.abs(shifted).max() + 4) + columns + 1) * U * expected * 1.01
    assert np.all(np.abs(out - expected) <= bound)


def test_layer_norm(random: np.random.Generator) -> None:
    """The mean is off by at most n·u·mean|x| = m; so is each difference, and u of itself more.

    The variance is off by (n + 4)·u of itself, and by m·m at most, since the first order of the
    mean's error cancels; its root by half of that. Quotient, product and sum: 3u of what they give.
    """
    rows, columns = 4, 500
    values = (random.standard_normal((rows, columns)) + 2).astype(np.float32)
    scale, shift = random.standard_normal((2, columns), np.float32)
    out = np.zeros_like(values)
    Kernel("learning.cu", "layer_norm").launch(rows, 128, values, scale, shift, out, columns)
    wide = values.astype(np.float64)
    mean, variance = wide.mean(1, keepdims=True), wide.var(1, keepdims=True) + np.float32(1e-5)
    normal = (wide - mean) / np.sqrt(variance) * scale
    of_mean = columns * U * np.abs(wide).mean(1, keepdims=True)
    of_root = ((columns + 4) * U + of_mean**2 / variance) / 2
    bound = of_mean / np.sqrt(variance) * np.abs(scale) + (of_root + 4 * U) * np.abs(normal)
    assert np.all(np.abs(out - (normal + shift)) <= (bound + U * np.abs(normal + shift)) * 1.01)


def test_grey_of_three_bytes(random: np.random.Generator) -> None:
    """Elements of three bytes lie at odd addresses."""
    colours, grey = random.integers(0, 256, (1000, 3), dtype=np.uint8), np.zeros(1000, np.uint8)
    Kernel("images.cu", "grey_of_three").launch(8, 128, colours, grey, 1000)
    np.testing.assert_array_equal(grey, colours.astype(int) @ [77, 150, 29] >> 8)


def test_grey_of_four_bytes(random: np.random.Generator) -> None:
    """The fourth stays."""
    colours = random.integers(0, 256, (1000, 4), dtype=np.uint8)
    out = np.zeros_like(colours)
    Kernel("images.cu", "grey_of_four").launch(8, 128, colours, out, 1000)
    grey = colours[:, :3].astype(int) @ [77, 150, 29] >> 8
    np.testing.assert_array_equal(out, np.stack([grey, grey, grey, colours[:, 3]], 1))
