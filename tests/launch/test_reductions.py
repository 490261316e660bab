"""`gpulend.reduction`: axes, types, strides and large arrays, beside NumPy."""

from __future__ import annotations

import functools

import gpulend
import numpy as np
import pytest
from gpu.resources import REAL, stuck
from gpulend import _reductions
from hypothesis import given, settings
from hypothesis import strategies as st

from .arrays import MAKERS
from .gated import held_back


@functools.cache
def made(*definition, **more):
    """Make a kernel once; it compiles for each set of types."""
    return gpulend.reduction(*definition, **more)


def total():
    """Return a sum."""
    return made("T x", "T y", "x", "a + b", "y = a", "0", "total")


def highest():
    """Return a maximum, which has no identity."""
    return made("T x", "T y", "x", "a > b ? a : b", "y = a", None, "highest")


@pytest.mark.parametrize("name", MAKERS)
def test_arrays_of_every_framework_are_reduced(gpu, name):
    """To a lease without axes."""
    x = np.arange(12, dtype="float32").reshape(3, 4)
    found = total()(MAKERS[name]().of(x))
    assert (found.shape, found.item()) == ((), 66)


SHAPES = st.lists(st.sampled_from([1, 2, 3, 5, 8, 33]), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_any_axes_of_any_strides_are_reduced(data):
    """As NumPy does, exactly: of whole numbers, and of what is not the same both ways."""
    shape = data.draw(SHAPES)
    host = np.random.default_rng(3).integers(-1000, 1000, shape).astype("int64")
    device = gpulend.from_host(host)
    if data.draw(st.booleans()):
        host, device = host.T, device.T
    step = data.draw(st.sampled_from([1, 2, -1]))
    host, device = host[::step], device[::step]
    axis = data.draw(
        st.none() | st.lists(st.sampled_from(range(host.ndim)), unique=True, max_size=3)
    )
    axes = None if axis is None else tuple(axis)
    keepdims = data.draw(st.booleans())
    found = total()(device, axis=axes, keepdims=keepdims)
    np.testing.assert_array_equal(found.to_host(), host.sum(axis=axes, keepdims=keepdims))
    found = highest()(device, axis=axes, keepdims=keepdims)
    np.testing.assert_array_equal(found.to_host(), host.max(axis=axes, keepdims=keepdims))


@pytest.mark.parametrize("shape", [(100_000,), (3, 20_000), (20_000, 3), (700, 70), (2, 5000, 2)])
def test_large_arrays_are_shared_by_blocks(gpu, shape):
    """In parts, which a second kernel joins; every element counts once."""
    host = np.random.default_rng(4).integers(-1000, 1000, shape).astype("int64")
    device = gpulend.from_host(host)
    for axis in (None, *range(len(shape))):
        np.testing.assert_array_equal(total()(device, axis=axis).to_host(), host.sum(axis=axis))
        np.testing.assert_array_equal(highest()(device, axis=axis).to_host(), host.max(axis=axis))


@pytest.mark.parametrize("width", [1, 2, 7, 31, 33, 64, 100, 256, 257, 1000])
def test_many_rows_share_blocks(gpu, width):
    """A row has part of a warp, a warp or several: every element counts once, along both axes."""
    rows = 300_001 if REAL else 5001
    host = np.random.default_rng(6).integers(-1000, 1000, (rows, width)).astype("int32")
    device = gpulend.from_host(host)
    for axis in (0, 1):
        np.testing.assert_array_equal(total()(device, axis=axis).to_host(), host.sum(axis=axis))
        np.testing.assert_array_equal(highest()(device, axis=axis).to_host(), host.max(axis=axis))


@pytest.mark.parametrize(
    ("outs", "reduced", "across", "lanes"),
    [
        # Many rows: as few threads each as have enough to do, and read whole sectors.
        (131_072, 256, False, 32),
        (1 << 20, 32, False, 8),
        (1 << 20, 4, False, 4),
        (8192, 4096, False, 256),
        # Few: all threads that there are.
        (100, 256, False, 256),
        (1, 1 << 20, False, 256),
        # Columns: no thread without one, where there are few.
        (4096, 4096, True, 8),
        (4, 1 << 20, True, 64),
        (4, 2, True, 2),
    ],
)
def test_how_many_threads_share_an_output(outs, reduced, across, lanes):
    """On a device of 132 multiprocessors, with eight blocks each."""
    assert _reductions._lanes(outs, reduced, across, 132 * 8) == lanes


def test_the_order_of_elements_is_kept_where_lanes_are_joined(gpu):
    """Sums of floats are the same each time, though the device is shared with other work."""
    x = gpulend.from_host(np.random.default_rng(5).random(50_000).astype("float32"))
    kernel = total()
    first = kernel(x).item()
    assert all(kernel(x).item() == first for _ in range(3))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", "float64", "complex64"])
def test_types_follow_the_arguments(gpu, dtype):
    """One definition for all."""
    x = np.arange(10).astype(dtype)
    found = total()(gpulend.from_host(x))
    assert found.dtype == dtype
    assert found.item() == 45


def test_another_type_adds_up(gpu):
    """Bytes, in a wider type than that of the output."""
    x = np.full(1000, 200, "uint8")
    mean = made(
        "T x, float32 n_", "T y", "x", "a + b", "y = a / 1000", "0", "mean", reduce_type="double"
    )
    assert mean(gpulend.from_host(x), 1000.0).item() == 200


def test_a_struct_adds_up(gpu):
    """Of the preamble; the parts of a large array too. `_J` is the place along the axis."""
    preamble = "struct Best { float value; int at; };"
    argmax = made(
        "float32 x",
        "int32 y",
        "Best{x, (int)_J}",
        "a.value > b.value || (a.value == b.value && a.at < b.at) ? a : b",
        "y = a.at",
        None,
        "argmax",
        reduce_type="Best",
        preamble=preamble,
    )
    for shape in ((5, 7), (40_000,), (2, 30_000)):
        x = np.random.default_rng(6).integers(0, 50, shape).astype("float32")
        for axis in (None, *range(len(shape))):
            found = argmax(gpulend.from_host(x), axis=axis).to_host()
            np.testing.assert_array_equal(found, x.argmax(axis=axis))


def test_several_inputs_are_repeated_to_one_shape(gpu):
    """A dot product, along rows; numbers too."""
    dot = made("T x, T o, T s", "T z", "x * o * s", "a + b", "z = a", "0", "dot")
    x = np.arange(12, dtype="int32").reshape(3, 4)
    found = dot(gpulend.from_host(x), gpulend.from_host(x[1]), 2, axis=1)
    np.testing.assert_array_equal(found.to_host(), (x * x[1] * 2).sum(axis=1))


def test_raw_inputs_and_the_index(gpu):
    """`i` is the index of the element in the array, whatever its strides are."""
    weighted = made("T x, raw T w", "T y", "x * w[i % w.size()]", "a + b", "y = a", "0", "weighted")
    x = np.arange(12, dtype="int64").reshape(3, 4)
    w = np.array([1, 10, 100, 1000, 10000], "int64")
    wide = w[np.arange(12) % 5]
    for host, device in ((x, gpulend.from_host(x)), (x.T, gpulend.from_host(x).T)):
        for axis in (None, 0, 1):
            found = weighted(device, gpulend.from_host(w), axis=axis)
            wanted = (host * wide.reshape(host.shape)).sum(axis=axis)
            np.testing.assert_array_equal(found.to_host(), wanted)


def test_several_outputs_and_outputs_that_are_given(gpu):
    """Behind the inputs or by name, of any strides."""
    moments = made("T x", "T y, T z", "x", "a + b", "y = a; z = a * a", "0", "moments")
    x = np.arange(12, dtype="int32").reshape(3, 4)
    lease = gpulend.from_host(x)
    sums, squares = moments(lease, axis=0)
    np.testing.assert_array_equal(sums.to_host(), x.sum(axis=0))
    np.testing.assert_array_equal(squares.to_host(), x.sum(axis=0) ** 2)
    room = gpulend.zeros((4, 2), "int32")
    out = room[:, 1]
    assert total()(lease, out=out, axis=0) is out
    assert total()(lease, out, axis=0) is out
    np.testing.assert_array_equal(room.to_host()[:, 1], x.sum(axis=0))
    assert not room.to_host()[:, 0].any()
    kept = gpulend.zeros((3, 1), "int32")
    total()(lease, out=kept, axis=1, keepdims=True)
    np.testing.assert_array_equal(kept.to_host(), x.sum(axis=1, keepdims=True))


def test_nothing_to_reduce(gpu):
    """Is the identity; without one it is an error, unless there are no outputs either."""
    empty = gpulend.zeros((3, 0), "float32")
    assert total()(empty, axis=1).to_host().tolist() == [0, 0, 0]
    assert total()(empty).item() == 0
    one = made("T x", "T y", "x", "a * b", "y = a", "1", "product")
    assert one(empty, axis=1).to_host().tolist() == [1, 1, 1]
    with pytest.raises(gpulend.LayoutError, match="nothing to reduce along axis 1") as caught:
        highest()(empty, axis=1)
    assert caught.value.code == 154
    assert highest()(empty, axis=0).shape == (0,)


def test_it_is_ordered_like_every_launch(gpu):
    """It waits for its producer, also between its two kernels; the host does not wait."""
    # Before the gate closes: a driver waits for running kernels when it loads others.
    total()(gpulend.zeros(512, "int32")).item()
    gate, stream = gpu.gate(), gpulend.Stream()
    late = held_back(gate, gpulend.Stream(), 5)
    found = total()(late, stream=stream)
    assert gate.closed, "the host waited"
    assert stuck(stream)
    gate.open()
    assert found.item() == 5 * 512


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (("T x", "raw T y", "x", "a + b", "y = a"), "an output that is not raw"),
        (("raw T x", "T y", "x[i]", "a + b", "y = a"), "an input that is not raw"),
        (("T a", "T y", "a", "a + b", "y = a"), "a and b are what is reduced; rename a"),
        (("T x", "T y", "x", "a + b", "y = a", "0", "1st"), "name is '1st'"),
    ],
)
def test_a_wrong_definition_is_refused(definition, text):
    """Before anything is compiled."""
    with pytest.raises(gpulend.ProtocolError, match=text):
        gpulend.reduction(*definition)


def test_wrong_calls_are_refused_by_name(gpu):
    """Before anything is queued, and the next call works."""
    x = gpulend.zeros((2, 3), "float32")
    for axis in (2, -3, (0, 5)):
        with pytest.raises(gpulend.OutOfRangeError, match="of an array of 2 axes"):
            total()(x, axis=axis)
    with pytest.raises(gpulend.ProtocolError, match="names an axis twice"):
        total()(x, axis=(0, -2))
    with pytest.raises(gpulend.LayoutError, match=r"y has the shape .3,., and the result .2,."):
        total()(x, gpulend.zeros(3), axis=1)
    with pytest.raises(TypeError, match="takes 1 inputs, or those and 1 outputs; 3 arguments"):
        total()(x, x, x)
    with pytest.raises(TypeError, match="y is a number"):
        total()(x, 3)
    with pytest.raises(gpulend.SignatureError, match=r"gpulend\.from_host"):
        total()(np.zeros(3, "float32"))
    assert total()(x).item() == 0
    assert repr(total()) == "<gpulend.Reduction total: T x -> T y>"
