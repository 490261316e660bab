"""What the tests of staged copies share."""

from __future__ import annotations

import numpy as np

from .resources import driver_calls

MEBIBYTE = 1 << 20
SMALLEST = 4 * MEBIBYTE  # what threads copy, and how much a buffer of theirs holds
THREADS = 3
VARIABLE = "GPULEND_COPY_THREADS"


def numbers(size, seed=1):
    """Return bytes that repeat nowhere a piece could begin."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def copies_made(call, function="cuMemcpyDtoHAsync_v2"):
    """Return how many pieces the driver copied during a call."""
    before = driver_calls().get(function, 0)
    call()
    return driver_calls().get(function, 0) - before
