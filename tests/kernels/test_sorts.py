"""Sorting: the result is the sorted input, and nothing else can be."""

from __future__ import annotations

import numpy as np

from .harness import Kernel, blocks


def test_bitonic_sort(random: np.random.Generator) -> None:
    """1024 elements in one block."""
    values = random.integers(-(2**31), 2**31, 1024).astype(np.int32)
    expected = np.sort(values)
    Kernel("sorts.cu", "bitonic_sort").launch(1, 512, values)
    np.testing.assert_array_equal(values, expected)


def test_odd_even_sort(random: np.random.Generator) -> None:
    """An odd number of floats, in shared memory of the launch's size."""
    values = random.standard_normal(201, np.float32)
    expected = np.sort(values)
    Kernel("sorts.cu", "odd_even_sort").launch(1, 128, values, 201, shared=4 * 201)
    np.testing.assert_array_equal(values, expected)


def test_radix_sort(random: np.random.Generator) -> None:
    """32 passes of one bit; each alone is stable."""
    values = random.integers(0, 2**32, 256, dtype=np.uint32)
    expected = np.sort(values)
    kernel = Kernel("sorts.cu", "radix_pass")
    for bit in range(32):
        out = np.zeros_like(values)
        kernel.launch(1, 256, values, out, bit)
        order = np.argsort(values >> bit & 1, kind="stable")
        np.testing.assert_array_equal(out, values[order])
        values = out
    np.testing.assert_array_equal(values, expected)


def test_merge_sort(random: np.random.Generator) -> None:
    """Steps of doubled width, with many equal elements and a last run that is short."""
    values = random.integers(0, 100, 1500).astype(np.int32)
    expected = np.sort(values)
    kernel, width = Kernel("sorts.cu", "merge_step"), 1
    while width < values.size:
        out = np.full_like(values, -1)
        kernel.launch(blocks(values.size, 256), 256, values, out, width, values.size)
        values, width = out, 2 * width
    np.testing.assert_array_equal(values, expected)
