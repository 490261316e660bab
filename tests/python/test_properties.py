"""Random layouts against NumPy as the oracle."""

from __future__ import annotations

import os

import gpulend
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

BUFFER = 64  # elements of the memory that layouts are drawn over
TYPES = ("uint8", "int16", "float32", "float64", "complex128")

settings.register_profile("short", max_examples=300, deadline=None)
settings.register_profile("long", max_examples=20_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


def memory(dtype):
    """Return a fresh buffer with a different value in each element."""
    return np.arange(BUFFER, dtype=dtype)


@st.composite
def layouts(draw, least=0, most=4):
    """Draw an offset, a shape and strides in elements that stay inside the buffer."""
    shape = draw(st.lists(st.integers(0, 4), min_size=least, max_size=most))
    strides = [draw(st.integers(-7, 7)) for _ in shape]
    ends = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low = sum(end for end in ends if end < 0) if all(shape) else 0
    high = sum(end for end in ends if end > 0) if all(shape) else 0
    assume(high - low < BUFFER)
    return draw(st.integers(-low, BUFFER - 1 - high)), tuple(shape), tuple(strides)


def strided(base, layout):
    """Lay an array over a buffer."""
    offset, shape, strides = layout
    return as_strided(base[offset:], shape, [stride * base.itemsize for stride in strides])


def same(lease, array):
    """The lease is the array: shape, values, address, and strides where they mean something."""
    assert lease.shape == array.shape
    assert lease.to_host().tolist() == array.tolist()
    if array.size:
        assert lease.address == array.ctypes.data
        moving = [axis for axis, extent in enumerate(array.shape) if extent > 1]
        assert [lease.strides[axis] for axis in moving] == [
            array.strides[axis] // array.itemsize for axis in moving
        ]


@given(st.sampled_from(TYPES), layouts())
def test_any_layout_is_borrowed_as_it_is(dtype, layout):
    """A borrowed array has the shape, strides and values that NumPy says."""
    array = strided(memory(dtype), layout)
    lease = gpulend.borrow(array)
    same(lease, array)
    assert lease.dtype == dtype
    assert lease.size == array.size
    assert lease.nbytes == array.nbytes
    assert lease.ndim == array.ndim
    same(gpulend.borrow(lease.lend("numpy")), array)


@given(st.sampled_from(TYPES), layouts())
def test_any_layout_is_wrapped_as_it_is_borrowed(dtype, layout):
    """An address with shape and strides is the same lease as the array."""
    base = memory(dtype)
    array = strided(base, layout)
    lease = gpulend.wrap(array.ctypes.data, layout[1], dtype, layout[2], owner=base)
    same(lease, array)


@given(layouts())
def test_a_transposed_lease_is_the_transposed_array(layout):
    """`T` reverses the axes."""
    array = strided(memory("float32"), layout)
    same(gpulend.borrow(array).T, array.T)


bounds = st.none() | st.integers(-6, 6)
slices = st.builds(slice, bounds, bounds, st.none() | st.integers(-3, 3).filter(bool))
keys = st.lists(st.integers(-5, 5) | slices | st.none(), max_size=5)


@given(layouts(), keys, st.none() | st.integers(0, 5))
@example((0, (3, 4), (4, 1)), [slice(None, None, -1), 0], None)
def test_a_sliced_lease_is_the_sliced_array(layout, key, ellipsis_at):
    """Ints, slices, None and `...` mean what they mean to NumPy, errors included."""
    if ellipsis_at is not None:
        key = [*key[:ellipsis_at], ..., *key[ellipsis_at:]]
    array = strided(memory("int16"), layout)
    lease = gpulend.borrow(array)
    key = tuple(key)
    try:
        expected = array[(*key, ...)] if ellipsis_at is None else array[key]
    except IndexError:
        with pytest.raises(gpulend.LayoutError):
            lease[key]
        return
    same(lease[key], expected)


@given(layouts(), st.lists(st.integers(0, 6), max_size=4), st.none() | st.integers(0, 3))
@example((0, (2, 3), (3, 1)), [3, 2], None)
@example((0, (2, 3), (3, 1)), [3, 2], 0)
@example((0, (2, 3), (1, 2)), [6], None)
@example((0, (0, 3), (3, 1)), [4, 0], None)
def test_a_reshape_is_taken_exactly_where_numpy_needs_no_copy(layout, shape, unknown):
    """A shape is accepted if NumPy can view it so, and refused if it would copy."""
    if unknown is not None and unknown < len(shape):
        shape[unknown] = -1
    array = strided(memory("float32"), layout)
    lease = gpulend.borrow(array)
    try:
        expected = array.reshape(shape, copy=False)
    except ValueError:
        with pytest.raises(gpulend.LayoutError, match=r"reshape|viewed"):
            lease.reshape(shape)
        return
    same(lease.reshape(shape), expected)
    same(lease.reshape(*shape), expected)


@given(st.sampled_from(TYPES), st.sampled_from(TYPES), layouts(least=1))
def test_a_view_as_another_type_is_numpys_view(dtype, other, layout):
    """The bytes read as another type are the array NumPy makes of them, or both refuse."""
    array = strided(memory(dtype), layout)
    lease = gpulend.borrow(array)
    try:
        expected = array.view(other)
    except ValueError:
        with pytest.raises(gpulend.Error):
            lease.view(other)
        return
    misaligned = expected.size and expected.ctypes.data % np.dtype(other).alignment
    broken = any(
        stride % expected.itemsize
        for stride, extent in zip(expected.strides, expected.shape, strict=True)
        if extent > 1
    )
    if not array.size:  # NumPy views an empty array under any strides, which nobody needs
        return
    if misaligned or broken:
        with pytest.raises(gpulend.Error):
            lease.view(other)
        return
    seen = lease.view(other)
    assert seen.dtype == other
    assert seen.shape == expected.shape
    assert seen.to_host().tobytes() == expected.tobytes()


def overlaps_itself(layout):
    """Tell whether two elements of a layout share memory."""
    places = strided(np.arange(BUFFER), layout)
    return len(np.unique(places)) < places.size


def interleaves(layout):
    """Tell whether the steps of some axis fall between those of another: no slice does that."""
    span = 1
    for stride, extent in sorted(zip(map(abs, layout[2]), layout[1], strict=True)):
        if extent > 1 and stride < span:
            return True
        span += stride * (extent - 1)
    return False


@st.composite
def pairs(draw):
    """Draw two layouts of one shape."""
    first = draw(layouts())
    offset, shape, strides = draw(layouts(least=len(first[1]), most=len(first[1])))
    if shape != first[1]:
        strides = draw(st.sampled_from([first[2], first[2][::-1], tuple(-s for s in first[2])]))
    ends = [(extent - 1) * stride for extent, stride in zip(first[1], strides, strict=True)]
    if all(first[1]):
        assume(offset + sum(end for end in ends if end < 0) >= 0)
        assume(offset + sum(end for end in ends if end > 0) < BUFFER)
    return first, (offset, first[1], strides)


@given(st.sampled_from(TYPES), pairs(), st.booleans(), st.booleans())
@example("uint8", ((0, (9,), (1,)), (3, (9,), (1,))), True, False)
@example("uint8", ((3, (9,), (1,)), (0, (9,), (1,))), True, False)
@example("float32", ((0, (9,), (1,)), (8, (9,), (-1,))), True, True)
@example("float64", ((0, (5, 5), (5, 1)), (0, (5, 5), (1, 5))), True, True)
@example("complex128", ((63, (8, 8), (-8, -1)), (0, (8, 8), (8, 1))), True, False)
def test_a_copy_is_numpys_assignment(dtype, pair, overlapping, backwards):
    """`copy_from` and `copy_to` move what an assignment would, overlapping memory included.

    A destination whose elements share memory is refused; so may be one whose
    axes interleave, because whether it does is hard to tell.
    """
    to, source = pair
    expected, actual = memory(dtype), memory(dtype)
    other = (memory(dtype)[::-1] * 3).astype(dtype)
    origin = strided(actual if overlapping else other, source)
    strided(expected, to)[...] = origin.copy()
    destination = strided(actual, to)
    try:
        if backwards:
            gpulend.borrow(origin).copy_to(destination)
        else:
            gpulend.borrow(destination).copy_from(origin)
        refused = ""
    except gpulend.LayoutError as error:
        refused = str(error)
    if refused:
        assert "overlap" in refused
        assert interleaves(to)
        assert actual.tolist() == memory(dtype).tolist()
    else:
        assert not overlaps_itself(to)
        assert actual.tolist() == expected.tolist()


@given(st.sampled_from(TYPES), st.sampled_from(TYPES), layouts(), layouts())
def test_a_copy_converts_and_broadcasts_nothing(one, another, first, second):
    """Another shape or type is refused by name, and nothing is written."""
    assume(one != another or first[1] != second[1])
    base = memory(one)
    lease = gpulend.borrow(strided(base, first))
    with pytest.raises(gpulend.LayoutError, match=r"source is .* destination is|overlap"):
        lease.copy_from(strided(memory(another), second))
    assert base.tolist() == memory(one).tolist()
