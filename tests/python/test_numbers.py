"""A lease of one element as a number of Python's."""

from __future__ import annotations

import gpulend
import numpy as np
import pytest
from conftest import need

ml_dtypes = need("ml_dtypes")

NUMBERS = {
    "float32": (1.5, float),
    "float64": (-2.25, float),
    "int8": (-7, int),
    "uint64": (2**64 - 1, int),
    "bool": (True, bool),
    "complex64": (1 + 2j, complex),
}


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_one_element_is_a_number(dtype, shape):
    """As NumPy's `item` gives it."""
    value, kind = NUMBERS[dtype]
    lease = gpulend.borrow(np.full(shape, value, dtype))
    assert (lease.item(), type(lease.item())) == (value, kind)
    assert bool(lease) is bool(value or shape)
    assert complex(lease) == complex(value)
    if kind is complex:
        with pytest.raises(TypeError):
            float(lease)
    else:
        assert (float(lease), int(lease)) == (float(value), int(value))


def test_an_element_of_many_is_a_number():
    """An index leaves a lease of no axes."""
    lease = gpulend.borrow(np.arange(6.0).reshape(2, 3))
    assert [float(lease[1, i]) for i in range(3)] == [3.0, 4.0, 5.0]
    assert not lease[0, 0]
    assert float(gpulend.borrow(np.full(2, 0.5, ml_dtypes.bfloat16))[1]) == 0.5


@pytest.mark.parametrize("ask", [float, int, complex, lambda lease: lease.item()])
@pytest.mark.parametrize("shape", [(2,), (0,), (1, 3)])
def test_more_than_one_element_is_no_number(shape, ask):
    """The error says what to do: an index, or all of them."""
    lease = gpulend.borrow(np.zeros(shape))
    with pytest.raises(TypeError, match=r"lease\[0\].*to_host\(\)"):
        ask(lease)


def test_the_truth_of_an_array_is_whether_it_has_rows():
    """As of every sequence: `if lease` asks for no element, and copies nothing."""
    assert gpulend.borrow(np.zeros((2, 3)))
    assert not gpulend.borrow(np.zeros((0, 3)))
    assert not gpulend.borrow(np.zeros(()))


def test_a_number_is_no_address():
    """Though it has an int: what is wrapped by mistake is refused."""
    lease = gpulend.borrow(np.full(1, 4096, "int64"))
    with pytest.raises(gpulend.ProtocolError, match="Lease is not an address"):
        gpulend.wrap(lease, 1, "float32", unowned=True)


def test_a_lease_that_has_ended_is_no_number():
    """As for everything else that is asked of it."""
    lease = gpulend.borrow(np.zeros(1))
    lease.release()
    with pytest.raises(gpulend.ReleasedError):
        float(lease)
