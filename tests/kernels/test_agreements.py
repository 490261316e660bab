"""Threads that write the same value to the same shared memory: no race, on no GPU."""

from __future__ import annotations

import numpy as np

from .harness import Kernel


def test_tiles_may_overlap(random: np.random.Generator) -> None:
    """What two threads bring is the same."""
    n = 300
    x, out = random.integers(0, 1000, n + 2).astype(np.float32), np.zeros(n, np.float32)
    Kernel("agreements.cu", "overlapping_tiles").launch(3, 128, x, out, n)
    np.testing.assert_array_equal(out, x[:-2] + x[1:-1] + x[2:])


def test_several_threads_may_set_a_flag(random: np.random.Generator) -> None:
    """In one block of three nobody does."""
    x, out = random.integers(-9, 9, 192).astype(np.int32), np.zeros(3, np.int32)
    x[64:128] = np.abs(x[64:128])
    Kernel("agreements.cu", "any_negative").launch(3, 64, x, out, 192)
    assert out.tolist() == [201, 0, 201]


def test_threads_read_the_same_number_that_they_wrote() -> None:
    """Before a barrier and after it."""
    x, out = np.array([7, 11, 13], np.int32), np.zeros(96, np.int32)
    Kernel("agreements.cu", "same_number").launch(1, 96, x, out)
    assert set(out.tolist()) == {21024}
