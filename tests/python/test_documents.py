"""The three programs of the first document, done right on host memory."""

from __future__ import annotations

import ctypes

import gpulend
import numpy as np
import pytest
from conftest import need

torch = need("torch")

EXAMPLE = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_a_fabricated_address_is_an_address_error():
    """Program 1: an address that nobody allocated is refused, not followed."""
    with pytest.raises(gpulend.AddressError, match="0x1234567890123456") as caught:
        gpulend.wrap(0x1234567890123456, (2, 3), "float32", unowned=True)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(gpulend.AddressError, match="0x1234567890123456"):
        gpulend.describe(0x1234567890123456)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_address_of_torch_becomes_a_tensor_that_writes_through(dtype):
    """Programs 2 and 3: torch's own address, wrapped and lent, is the same memory both ways."""
    original = torch.empty((2, 3), dtype=getattr(torch, dtype))
    lease = gpulend.wrap(original.data_ptr(), (2, 3), dtype, owner=original)
    tensor = lease.lend("torch")
    assert tensor.data_ptr() == original.data_ptr()
    assert tensor.dtype == original.dtype
    tensor.copy_(torch.tensor(EXAMPLE, dtype=tensor.dtype))
    assert original.tolist() == EXAMPLE
    tensor[0, 0] = 100
    assert original[0, 0].item() == 100
    original[1, 2] = -7
    assert tensor[1, 2].item() == -7


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_example_data_copied_into_an_address_shows_everywhere(dtype):
    """Programs 2 and 3 with our own copy in place of the framework's."""
    original = torch.empty((2, 3), dtype=getattr(torch, dtype))
    lease = gpulend.wrap(original.data_ptr(), (2, 3), dtype, owner=original)
    lease.copy_from(np.array(EXAMPLE, dtype))
    assert original.tolist() == EXAMPLE
    assert lease.to_host().tolist() == EXAMPLE
    back = np.zeros((2, 3), dtype)
    lease.copy_to(back)
    assert back.tolist() == EXAMPLE


@pytest.mark.parametrize(
    ("dtype", "number"), [("float32", ctypes.c_float), ("float64", ctypes.c_double)]
)
def test_memory_of_c_becomes_an_array_and_a_tensor(dtype, number):
    """A ctypes block is seen by NumPy and by torch at once."""
    block = (number * 6)()
    pointer = ctypes.cast(block, ctypes.POINTER(number))
    lease = gpulend.wrap(pointer, (2, 3), owner=block)
    assert lease.dtype == dtype
    array, tensor = lease.lend("numpy"), lease.lend("torch")
    array[...] = EXAMPLE
    tensor[0, 0] = 100
    assert list(block) == [100.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_address_out_for_c_is_the_tensors_own(dtype):
    """The other way: a tensor's address, kept valid for a C library."""
    tensor = torch.tensor(EXAMPLE, dtype=getattr(torch, dtype))
    with gpulend.borrow(tensor).pointer() as pointer:
        assert pointer == tensor.data_ptr()
        assert pointer.ctypes.value == tensor.data_ptr()
        ctypes.memset(pointer.ctypes, 0, tensor.element_size())
    assert tensor[0].tolist() == [0.0, 2.0, 3.0]
