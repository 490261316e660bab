"""Halide's pictures are those of NumPy, on a real GPU or the simulated one."""

from __future__ import annotations

import numpy as np
from sharpen import columns, sharpen


def test_a_picture_is_sharpened() -> None:
    """Of a size that no tile divides."""
    picture = np.random.default_rng(1).random((45, 70), dtype=np.float32)
    wide = np.pad(picture, 1, mode="edge")
    across = (wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]) / 4
    down = (across[:-2] + 2 * across[1:-1] + across[2:]) / 4
    np.testing.assert_allclose(sharpen(picture), 2 * picture - down, rtol=1e-5, atol=1e-6)


def test_columns_are_added() -> None:
    """Without a rounding, because they are integers."""
    picture = np.random.default_rng(1).integers(0, 1000, (30, 50), dtype=np.int32)
    np.testing.assert_array_equal(columns(picture), picture.sum(axis=0))
