"""Elements written from Python: `fill`, `lease[...] = value`, `zeros_like`, `to_host(out=)`."""

from __future__ import annotations

import ctypes

import gpulend
import numpy as np
import pytest

from .resources import need, need_two_devices, stuck

PLACES = ["cuda:0", "cpu"]
INDICES = [
    ...,
    0,
    (slice(None), 1),
    (slice(None, None, 2), slice(1, 3)),
    (slice(None, None, -1), slice(None, None, -2)),
    (1, 2),
    (slice(0, 0),),
    (None, slice(1, None)),
]


def array(device, dtype="float32"):
    """Return 3 x 4 numbers as a lease, and the same for NumPy."""
    host = np.arange(12).reshape(3, 4).astype(dtype)
    lease = gpulend.empty((3, 4), dtype, device=device)
    lease.copy_from(host)
    return lease, host


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "complex128", "bool"])
def test_a_number_is_written_as_numpy_does(gpu, device, index, dtype):
    """Whatever part of the memory it is, and however long an element."""
    lease, host = array(device, dtype)
    lease[index] = 1
    host[index] = 1
    np.testing.assert_array_equal(lease.to_host(), host)
    lease[index].fill(0)
    host[index] = 0
    np.testing.assert_array_equal(lease.to_host(), host)


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("of", ["numpy", "lease", "torch"])
@pytest.mark.parametrize("index", INDICES[:5], ids=str)
def test_an_array_is_written_as_numpy_does(gpu, device, of, index):
    """Of any framework, and repeated along axes that it lacks or that have extent 1."""
    shape = np.zeros((3, 4))[index].shape
    for part in (shape, shape[-1:], (), (1,) * (len(shape) + 1), (*shape[:-1], 1)):
        lease, host = array(device)
        values = np.random.default_rng(5).random(part).astype("float32")
        given = {
            "numpy": lambda values=values: values,
            "lease": lambda values=values: gpulend.from_host(values),
            "torch": lambda values=values: need("torch").tensor(values),
        }[of]()
        lease[index] = given
        host[index] = values
        np.testing.assert_array_equal(lease.to_host(), host)


def test_parts_of_one_memory_may_overlap(gpu):
    """The whole source is read first."""
    lease, host = array("cuda:0")
    lease[:, 1:] = lease[:, :-1]
    host[:, 1:] = host[:, :-1].copy()
    np.testing.assert_array_equal(lease.to_host(), host)


@pytest.mark.parametrize("device", PLACES)
def test_wrong_values_are_refused_by_name(gpu, device):
    """And nothing is written; law 6: read-only memory stays as it is."""
    lease, host = array(device)
    frozen = lease.as_readonly()
    for write in (lambda: frozen.__setitem__(0, 1), lambda: frozen.fill(1)):
        with pytest.raises(gpulend.ExportError, match="read-only"):
            write()
    with pytest.raises(gpulend.ExportError, match="read-only"):
        frozen[:, 1] = np.zeros(3, "float32")
    with pytest.raises(gpulend.LayoutError, match="float64"):
        lease[0] = np.zeros(4)
    with pytest.raises(gpulend.LayoutError, match="5"):
        lease[0] = np.zeros(5, "float32")
    with pytest.raises(gpulend.LayoutError, match="not an element of type float32"):
        lease[0] = 1j
    with pytest.raises(gpulend.ProtocolError):
        lease[0] = "text"
    with pytest.raises(IndexError):
        lease[7] = 1
    with pytest.raises(TypeError, match="indexed by ints"):
        lease[[0, 1]] = 1
    np.testing.assert_array_equal(lease.to_host(), host)


def test_numbers_of_other_libraries_are_numbers(gpu):
    """NumPy's scalars, and what has an index."""
    lease = gpulend.zeros(4, "int32")
    lease[0], lease[1], lease[2] = np.int8(3), np.float64(4), True
    lease[3:] = np.array(6, "int32")
    assert lease.to_host().tolist() == [3, 4, 1, 6]
    with pytest.raises(gpulend.LayoutError, match="not an integer"):
        lease[0] = 1.5
    with pytest.raises(gpulend.LayoutError):
        lease[0] = 2**40


def test_a_write_is_ordered_on_the_current_stream(gpu):
    """The host does not wait."""
    lease, _ = array("cuda:0")
    gpulend.synchronize()
    gate, stream = gpu.gate(), gpulend.Stream()
    gate.hold(stream)
    with stream:
        lease[:, 2] = 5
        lease[0].fill(6)
    assert gate.closed
    assert stuck(stream)
    gate.open()
    assert lease.to_host()[:, 2].tolist() == [6, 5, 5]


def test_autograd_sees_the_write():
    """As an in-place operation of torch: the version counter rises."""
    torch = need("torch")
    tensor = torch.zeros(3)
    lease = gpulend.borrow(tensor)
    before = tensor._version
    lease[1:] = 4
    lease.fill(2)
    assert tensor._version == before + 2
    assert tensor.tolist() == [2, 2, 2]


@pytest.mark.parametrize("device", PLACES)
def test_zeros_like_is_zero(gpu, device):
    """Of the shape, type and device of the other, or as said."""
    like = gpulend.full((2, 3), 7, "int16", device=device)
    zeros = gpulend.zeros_like(like)
    assert (zeros.shape, zeros.dtype, zeros.device) == ((2, 3), "int16", device)
    assert not zeros.to_host().any()
    other = gpulend.zeros_like(np.ones(4), dtype="float32", device="cuda:0")
    assert (other.dtype, other.device) == ("float32", "cuda:0")
    assert not other.to_host().any()


@pytest.mark.parametrize("device", PLACES)
def test_to_host_writes_into_an_array(gpu, device):
    """It is that array which is returned; strides are kept."""
    lease, host = array(device)
    out = np.zeros((3, 8), "float32")
    part = out[:, ::2]
    assert lease.to_host(out=part) is part
    np.testing.assert_array_equal(part, host)
    assert not out[:, 1::2].any()
    ctypes_array = (ctypes.c_float * 12)()
    assert lease.reshape(12).to_host(out=ctypes_array) is ctypes_array
    assert list(ctypes_array) == list(range(12))


def test_to_host_refuses_what_it_cannot_fill(gpu):
    """By name: shape, type, read-only, and memory of a GPU."""
    lease, _ = array("cuda:0")
    with pytest.raises(gpulend.LayoutError):
        lease.to_host(out=np.zeros((4, 3), "float32"))
    with pytest.raises(gpulend.LayoutError):
        lease.to_host(out=np.zeros((3, 4)))
    frozen = np.zeros((3, 4), "float32")
    frozen.flags.writeable = False
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.to_host(out=frozen)
    with pytest.raises(gpulend.ProtocolError, match=r"out is on cuda:0.*copy_to"):
        lease.to_host(out=gpulend.empty((3, 4), "float32"))


def test_to_host_copies_on_the_stream_that_is_named(gpu):
    """It is waited for, and no other stream that is held back."""
    lease, host = array("cuda:0")
    stream, held = gpulend.Stream(), gpulend.Stream()
    gpulend.synchronize()
    gate = gpu.gate()
    gate.hold(held)
    with held:
        np.testing.assert_array_equal(lease.to_host(stream=stream), host)
        assert gpulend.current_stream() == held
    assert gate.closed
    gate.open()


def test_to_host_refuses_the_stream_of_another_device(gpu):
    """It could not copy this memory in its order."""
    need_two_devices()
    lease, _ = array("cuda:0")
    with pytest.raises(gpulend.ProtocolError, match="cuda:1"):
        lease.to_host(stream=gpulend.Stream(device=1))


POINT = np.dtype([("id", "i4"), ("at", "f4", (3,))])


@pytest.mark.parametrize("step", [1, 2, -1])
def test_structured_arrays_are_copied_as_bytes(gpu, step):
    """There and back, contiguous or not."""
    points = np.zeros(8, POINT)[::step]
    points["id"] = np.arange(len(points))
    points["at"] = np.arange(3 * len(points)).reshape(-1, 3)
    lease = gpulend.from_host(points)
    assert (lease.shape, lease.dtype) == ((len(points), POINT.itemsize), "uint8")
    back = np.zeros(8, POINT)[::step]
    assert lease.to_host(out=back) is back
    assert (back == points).all()
    back["id"] = 0
    lease.copy_to(back)
    assert (back == points).all()
    assert (lease.to_host().view(POINT)[:, 0] == points).all()
    points["id"] += 1
    lease.copy_from(points)
    lease[0] = points[-1:]
    assert lease.to_host().view(POINT)["id"][:, 0].tolist() == [
        points["id"][-1],
        *points["id"][1:],
    ]


def test_structured_arrays_with_objects_are_refused(gpu):
    """Their bytes are addresses of Python's; and borrowing stays refused, for its meaning."""
    with pytest.raises(gpulend.ExportError, match="not numbers"):
        gpulend.from_host(np.zeros(3, [("a", object)]))
    with pytest.raises(gpulend.ExportError, match="not numbers"):
        gpulend.borrow(np.zeros(3, POINT))
