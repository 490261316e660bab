"""Tests of the project: on a GPU if there is one, and on the simulated GPU elsewhere."""

from __future__ import annotations

import pytest
import torch
from gpulend.exceptions import KernelError
from kernels import matmul, softmax, softmax_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_softmax_of_rows_that_are_no_power_of_two():
    """Triton's sums are those of torch."""
    x = torch.randn(7, 100, device=DEVICE)
    torch.testing.assert_close(softmax(x), torch.softmax(x, dim=1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_products_of_sizes_that_no_tile_divides(dtype):
    """Products of halves are exact, and sums of floats are near those of doubles."""
    a = torch.randn(50, 70, device=DEVICE).to(dtype)
    b = torch.randn(70, 45, device=DEVICE).to(dtype)
    wanted = (a.double() @ b.double()).float()
    # A newer processor multiplies floats with ten binary digits.
    allowed = 0.1 if dtype == torch.float32 else 1e-4
    torch.testing.assert_close(matmul(a, b), wanted, atol=allowed, rtol=0)


@pytest.mark.skipif(DEVICE == "cuda", reason="a GPU does not check")
def test_a_mask_that_is_one_too_wide_is_found():
    """The error names the kernel, the line and the argument."""
    x = torch.randn(1, 100)
    with pytest.raises(KernelError, match=r"softmax_kernel at .*kernels.py:1\d, .* reads"):
        softmax_kernel[(1,)](x, torch.empty(101), 101, block=128)
