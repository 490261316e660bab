"""Descriptions of arrays whose keeper or length is not what it seems."""

from __future__ import annotations

import gpulend
import numpy as np
import pytest


def test_what_a_dict_holds_is_kept():
    """It may keep the memory where the object that showed it does not."""

    class Shown:
        @property
        def __array_interface__(self):
            temporary = np.array([1.0, 2.0])
            return {**temporary.__array_interface__, "__ref": temporary}

    lease = gpulend.borrow(Shown())
    others = [np.array([8.0, 9.0]) for _ in range(100)]
    assert lease.address not in {other.ctypes.data for other in others}
    assert lease.to_host().tolist() == [1, 2]


class Endless:
    """A sequence that says that it is longer than memory."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return 1


@pytest.mark.parametrize("numbers", [range(2**57), range(2**60), Endless(2**62), Endless(0)])
@pytest.mark.parametrize("use", ["wrap", "strides", "reshape", "zeros", "dict", "dict strides"])
def test_a_shape_of_any_length_is_refused(numbers, use):
    """Room for so many numbers is not asked for."""
    array = np.zeros(8)
    dict_of = array.__array_interface__
    uses = {
        "wrap": lambda: gpulend.wrap(array.ctypes.data, numbers, "f8", owner=array),
        "strides": lambda: gpulend.wrap(array.ctypes.data, 8, "f8", numbers, owner=array),
        "reshape": lambda: gpulend.borrow(array).reshape(numbers),
        "zeros": lambda: gpulend.zeros(numbers, "f8", device="cpu"),
        "dict": lambda: gpulend.borrow(
            type("Liar", (), {"__array_interface__": {**dict_of, "shape": numbers}})()
        ),
        "dict strides": lambda: gpulend.borrow(
            type("Liar", (), {"__array_interface__": {**dict_of, "strides": numbers}})()
        ),
    }
    with pytest.raises(gpulend.LayoutError, match="at most 64"):
        uses[use]()
