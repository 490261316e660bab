"""What kernels print, as a program of its own sees it."""

from __future__ import annotations

import numpy as np
from driver.cuda import check, cu
from driver.resources import start

from .harness import Kernel, alone


def say() -> None:
    """Launch, wait, and end; for a process of its own."""
    start()
    Kernel("printing.cu", "say").launch(2, 3, -7, np.float64(2.125), np.int64(2**40))
    check(cu.cuDevicePrimaryCtxRelease_v2(0))


def test_printf_reaches_the_output() -> None:
    """Every line whole, of every thread; the order of threads is nobody's promise."""
    printed = alone(say)
    expected = [
        f"thread {thread} of block {block}: {-7 + thread}  2.12 1099511627776 word! ff%"
        for block in range(2)
        for thread in range(3)
    ]
    assert sorted(printed.splitlines()) == sorted(expected)
