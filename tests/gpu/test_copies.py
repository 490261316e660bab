"""Copies between host and GPU and within a GPU, of every layout, against NumPy."""

from __future__ import annotations

import gpulend
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .resources import (
    REAL,
    still_works,
)

SHAPE = (4, 5, 6)
LAYOUTS = {
    "contiguous": lambda array: array,
    "one axis": lambda array: array[1, 2],
    "rows": lambda array: array[1:3],
    "pitched": lambda array: array[0, :, 1:5],
    "three axes": lambda array: array[1:, ::2, 1:4],
    "columns": lambda array: array[..., ::3],
    "transposed": lambda array: array.T,
    "transposed part": lambda array: array[1:3, 2:].T,
    "backwards": lambda array: array[::-1],
    "all backwards": lambda array: array[::-1, ::-2, ::-1],
    "one element": lambda array: array[3, 4, 5, ...],
    "nothing": lambda array: array[2:2],
}


def numbers(dtype="int32"):
    """Return elements that all differ."""
    return np.arange(1, 121).astype(dtype).reshape(SHAPE)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "complex128"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_is_read_as_numpy_reads_it(layout, dtype):
    """What a layout reaches must come out, in its order, and nothing else."""
    lease = LAYOUTS[layout](gpulend.from_host(numbers(dtype)))
    wanted = LAYOUTS[layout](numbers(dtype))
    assert lease.shape == wanted.shape
    host = lease.to_host()
    assert host.dtype == wanted.dtype
    assert np.array_equal(host, wanted)


@pytest.mark.parametrize("source", ["host", "gpu"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_view_is_written_as_numpy_writes_it(layout, source):
    """Elements beside the view must keep what they had."""
    target = gpulend.zeros(SHAPE, "int32")
    wanted = np.zeros(SHAPE, np.int32)
    data = np.array(LAYOUTS[layout](numbers()) * 3, order="C")
    view = LAYOUTS[layout](target)
    view.copy_from(data if source == "host" else gpulend.from_host(data))
    LAYOUTS[layout](wanted)[...] = data
    assert np.array_equal(target.to_host(), wanted)


@pytest.mark.parametrize("second_layout", ["contiguous", "backwards", "all backwards"])
@pytest.mark.parametrize("first_layout", ["contiguous", "backwards", "all backwards"])
def test_two_strided_views_of_a_gpu(first_layout, second_layout):
    """Strided on both sides, as when a part of one array becomes a part of another."""
    whole = numbers()
    source = LAYOUTS[first_layout](gpulend.from_host(whole))
    target = gpulend.zeros(source.shape, "int32")
    base = np.zeros(source.shape, np.int32)
    if second_layout != "contiguous":
        target, base = target[::-1], base[::-1]
    target.copy_from(source)
    base[...] = LAYOUTS[first_layout](whole)
    assert np.array_equal(target.to_host(), base)


def test_copy_to_is_copy_from_the_other_way():
    """Both directions share nothing but their meaning."""
    lease = gpulend.from_host(numbers())
    host = np.zeros(SHAPE, np.int32)
    lease.copy_to(host)
    assert np.array_equal(host, numbers())
    part = np.zeros((5, 4), np.int32)
    LAYOUTS["pitched"](lease).copy_to(part)
    assert np.array_equal(part, LAYOUTS["pitched"](numbers()))
    other = gpulend.zeros(SHAPE, "int32")
    lease.copy_to(other)
    assert np.array_equal(other.to_host(), numbers())
    strided = np.zeros((8, 5, 6), np.int32)
    lease.copy_to(strided[::-2])
    assert np.array_equal(strided[::-2], numbers())
    assert not strided[::2].any()


def test_a_broadcast_source_is_copied_out():
    """A stride of 0 repeats elements; as a source that is legal."""
    row = np.arange(5, dtype=np.int32)
    target = gpulend.zeros((4, 5), "int32")
    target.copy_from(np.broadcast_to(row, (4, 5)))
    assert np.array_equal(target.to_host(), np.broadcast_to(row, (4, 5)))
    there = gpulend.from_host(row)
    repeated = gpulend.wrap(there.address, (3, 5), "int32", (0, 1), owner=there)
    assert np.array_equal(repeated.to_host(), np.broadcast_to(row, (3, 5)))
    target = gpulend.zeros((3, 5), "int32")
    target.copy_from(repeated)
    assert np.array_equal(target.to_host(), np.broadcast_to(row, (3, 5)))


def test_a_destination_that_overlaps_itself_is_refused():
    """Which of two writes to an element wins would be chance."""
    there = gpulend.zeros(12, "int32")
    for strides in [(0, 1), (1, 1), (2, 1)]:
        twice = gpulend.wrap(there.address, (3, 3), "int32", strides, owner=there)
        with pytest.raises(gpulend.LayoutError, match="overlap") as caught:
            twice.copy_from(np.zeros((3, 3), np.int32))
        assert caught.value.code == 118
    assert there.to_host().tolist() == [0] * 12


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (np.s_[1:], np.s_[:-1]),
        (np.s_[:-1], np.s_[1:]),
        (np.s_[::-1], np.s_[:]),
        (np.s_[::2], np.s_[:50]),
        (np.s_[:], np.s_[:]),
    ],
)
def test_source_and_destination_that_overlap(target, source):
    """NumPy copies as if through a third array; a bare device copy would spread its own writes."""
    whole = np.arange(100, dtype=np.int32)
    lease = gpulend.from_host(whole)
    lease[target].copy_from(lease[source])
    whole[target] = whole[source].copy()
    assert np.array_equal(lease.to_host(), whole)


def test_large_arrays_survive_both_ways():
    """Beyond what is staged at once, where pieces could be lost or doubled."""
    size = (96 << 20) + 12345 if REAL else (9 << 20) + 12345
    data = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    lease = gpulend.from_host(data)
    assert np.array_equal(lease.to_host(), data)
    assert np.array_equal(lease[::-1].to_host()[:1000], data[::-1][:1000])
    other = gpulend.empty(size, "uint8")
    other[7:].copy_from(lease[:-7])
    assert np.array_equal(other[7:].to_host(), data[:-7])


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((5, 4), np.int32), np.zeros((4, 5), np.float32), np.zeros(20, np.int32)],
)
def test_copies_convert_and_broadcast_nothing(wrong):
    """Shape and type must agree: a silent conversion hides mistakes."""
    lease = gpulend.zeros((4, 5), "int32")
    with pytest.raises(gpulend.LayoutError) as caught:
        lease.copy_from(wrong)
    assert caught.value.code == 117
    with pytest.raises(gpulend.LayoutError):
        lease.copy_to(wrong)
    still_works()


def test_read_only_memory_is_not_written():
    """Read-only holds for our own copies too (law 6)."""
    lease = gpulend.zeros(4, "int32")
    for frozen in (lease.as_readonly(), lease.as_readonly()[1:]):
        with pytest.raises(gpulend.ExportError, match="read-only"):
            frozen.copy_from(np.ones(frozen.shape, np.int32))
    host = np.zeros(4, np.int32)
    host.flags.writeable = False
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.copy_to(host)
    assert lease.to_host().tolist() == [0] * 4


def test_what_to_host_returns_is_a_copy():
    """Changes on either side stay there."""
    lease = gpulend.zeros(4, "int32")
    host = lease.to_host()
    host[:] = 9
    assert lease.to_host().tolist() == [0] * 4
    assert host.flags.writeable


def test_from_host_takes_the_bytes_at_the_call():
    """The source may be changed as soon as the call returned, as with every pageable copy."""
    for size in (100, 1 << 20):
        data = np.full(size, 5, np.int32)
        stream = gpulend.Stream()
        with stream:
            lease = gpulend.from_host(data)
        data[:] = 6
        assert (lease.to_host() == 5).all()


@st.composite
def views(draw):
    """Draw a shape and what NumPy slices and transposes out of it."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    key = tuple(draw(st.slices(extent)) for extent in shape)
    order = draw(st.permutations(range(len(shape))))
    dtype = draw(st.sampled_from(["uint8", "int16", "float32", "int64", "complex128"]))
    return shape, key, order, dtype


def permuted(lease, order):
    """Transpose a lease by its strides: only the full reversal has a name."""
    return gpulend.wrap(
        lease.address,
        tuple(lease.shape[axis] for axis in order),
        lease.dtype,
        tuple(lease.strides[axis] for axis in order),
        device="cuda:0",
        owner=lease,
        ready_on="now",
    )


@settings(deadline=None, max_examples=1500 if REAL else 150)
@given(views(), views())
def test_random_layouts_are_copied_as_numpy_copies_them(read, write):
    """Whatever NumPy slices and transposes out of an array, we read and write the same elements."""
    shape, key, order, dtype = read
    base = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    wanted = base[key].transpose(order)
    lease = permuted(gpulend.from_host(base)[key], order)
    assert np.array_equal(lease.to_host(), wanted)

    shape, key, order, _ = write
    target, oracle = gpulend.zeros(shape, dtype), np.zeros(shape, dtype)
    view, viewed = permuted(target[key], order), oracle[key].transpose(order)
    data = (np.arange(viewed.size) + 1).astype(dtype).reshape(viewed.shape)
    viewed[...] = data
    view.copy_from(data)
    gpulend.synchronize()
    assert np.array_equal(target.to_host(), oracle)
    view.copy_from(gpulend.from_host(data + data.dtype.type(1)))
    viewed[...] = data + data.dtype.type(1)
    assert np.array_equal(target.to_host(), oracle)
    out = np.zeros(viewed.shape, dtype)
    view.copy_to(out)
    assert np.array_equal(out, viewed)
