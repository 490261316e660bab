"""Memory of our own: every element type, out of memory, and two devices."""

from __future__ import annotations

import threading

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import current

from .resources import (
    eventually,
    in_use,
    need,
    nothing_stays,
    pool_of,
    still_works,
    used_by,
)

PLAIN = [
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("bool", "float16", "float32", "float64", "complex64", "complex128"),
]
NARROW = [
    *("bfloat16", "complex32", "bcomplex32", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]
PACKED = {"int2": 1, "uint2": 1, "int4": 2, "uint4": 2, "float4_e2m1fn": 2, "float6_e2m3fn": 3}
VALUES = {"bool": True, "complex64": 1.5 - 2j, "complex128": -0.5 + 3j}


def value_of(dtype):
    """Return an element with several bytes that are not zero, where the type has room for it."""
    if dtype in VALUES:
        return VALUES[dtype]
    if dtype.startswith("float"):
        return -1.171875
    if dtype.startswith("u"):
        return (1 << (int(dtype[4:]) - 1)) + 3
    return -(1 << (int(dtype[3:]) - 2)) - 3


@pytest.mark.parametrize("dtype", PLAIN)
def test_full_and_zeros_of_every_plain_type(dtype):
    """The driver fills 1, 2 and 4 bytes only; all types must come out right, in each shape."""
    for shape in [(), (1,), (7,), (3, 5), (0, 4), (2, 1, 3)]:
        wanted = np.full(shape, value_of(dtype), dtype)
        lease = gpulend.full(shape, value_of(dtype), dtype)
        assert (lease.shape, lease.dtype, lease.nbytes) == (shape, dtype, wanted.nbytes)
        host = lease.to_host()
        assert host.dtype == wanted.dtype
        assert host.tobytes() == wanted.tobytes()
        assert gpulend.zeros(shape, dtype).to_host().tobytes() == bytes(wanted.nbytes)


@pytest.mark.parametrize("dtype", NARROW)
def test_zeros_of_narrow_types_keep_their_type(dtype):
    """Types that NumPy has no name for keep it through ml_dtypes, and not as an integer or half."""
    ml_dtypes = need("ml_dtypes")
    if not hasattr(ml_dtypes, dtype):
        pytest.skip(f"this ml_dtypes has no {dtype}")
    host = gpulend.zeros((3, 4), dtype).to_host()
    assert host.dtype.name == dtype
    assert host.tobytes() == bytes(host.nbytes)


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_types_travel_with_all_their_bits(dtype):
    """Each bit pattern comes back as it was, also those that are no number."""
    ml_dtypes = need("ml_dtypes")
    if not hasattr(ml_dtypes, dtype):
        pytest.skip(f"this ml_dtypes has no {dtype}")
    kind = np.dtype(getattr(ml_dtypes, dtype))
    bits = np.arange(65536, dtype=np.uint16).view(np.uint8).view(kind)
    lease = gpulend.from_host(bits)
    assert lease.dtype == dtype
    assert lease.to_host().tobytes() == bits.tobytes()


@pytest.mark.parametrize(("dtype", "bytes_a_row"), PACKED.items())
def test_packed_types_say_how_they_are_stored(dtype, bytes_a_row):
    """Four elements of less than a byte lie in fewer than four bytes: the error has both shapes."""
    lease = gpulend.zeros((2, 4), dtype)
    assert (lease.shape, lease.storage_shape) == ((2, 4), (2, bytes_a_row))
    assert lease.view("uint8").to_host().tolist() == [[0] * bytes_a_row] * 2
    with pytest.raises(gpulend.ExportError, match="packed"):
        lease.to_host()


def test_full_of_bfloat16_rounds_as_ml_dtypes_does():
    """bfloat16 is no NumPy type, but the type most often filled."""
    ml_dtypes = need("ml_dtypes")
    host = gpulend.full(5, 3.14159, "bfloat16").to_host()
    assert host.tobytes() == np.full(5, 3.14159, ml_dtypes.bfloat16).tobytes()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(300, "uint8"), (-1, "uint16"), (1.5, "int32"), ("x", "float32"), (1j, "float64")],
)
def test_a_value_that_is_no_element_is_refused(value, dtype):
    """A value that does not fit must not be cut down to one that does."""
    with nothing_stays(), pytest.raises(gpulend.LayoutError) as caught:
        gpulend.full(3, value, dtype)
    assert caught.value.code == 150
    assert dtype in str(caught.value)


@pytest.mark.parametrize("shape", [-1, (2, -3), (2**40, 2**40), 2**63])
def test_a_shape_that_cannot_be_is_refused(shape):
    """Negative extents and sizes beyond 64 bits are found before the driver is asked."""
    with pytest.raises((gpulend.LayoutError, OverflowError)):
        gpulend.empty(shape, "float64")
    still_works()


@pytest.mark.parametrize("size", [1 << 45, 1 << 50])
def test_out_of_memory_says_how_much_there_is(size):
    """Who runs out of memory needs the numbers: wanted, free, in all, and held by us."""
    kept = gpulend.zeros(1000, "uint8")
    with pytest.raises(gpulend.OutOfMemoryError) as caught:
        gpulend.empty(size, "uint8")
    error = caught.value
    assert isinstance(error, MemoryError)
    assert isinstance(error, gpulend.DriverError)
    assert error.code == 1020
    for part in (str(size), "cuda:0", "free", "empty_cache"):
        assert part in str(error)
    assert gpulend.empty(1 << 20, "uint8").nbytes == 1 << 20
    assert kept.to_host().tobytes() == bytes(1000)


def test_memory_comes_back_after_out_of_memory():
    """A failed allocation must not keep the room that the next one needs (law 12)."""
    with nothing_stays():
        for _ in range(20):
            with pytest.raises(gpulend.OutOfMemoryError):
                gpulend.zeros(1 << 45, "uint8")
            assert gpulend.full(10, 3, "uint8").to_host().tolist() == [3] * 10


def test_released_memory_is_given_back_to_the_pool():
    """`release()` ends the lease now, not when Python drops the object."""
    pool = pool_of()
    before = in_use()
    lease = gpulend.zeros(1 << 20, "uint8")
    assert used_by(pool) >= before + (1 << 20)
    lease.release()
    eventually(lambda: used_by(pool) <= before, "the memory was given back")
    assert lease.released
    with pytest.raises(gpulend.ReleasedError):
        lease.to_host()
    lease.release()


def test_a_with_block_releases():
    """`with` is the short form of release()."""
    with nothing_stays(), gpulend.zeros(1 << 20, "uint8") as lease:
        assert not lease.released
    assert lease.released


def test_a_lease_with_slices_cannot_be_released():
    """A lease cannot be pulled away under a borrower (law 13)."""
    lease = gpulend.zeros((4, 4), "int32")
    row = lease[1]
    with pytest.raises(gpulend.StillLentError):
        lease.release()
    assert row.to_host().tolist() == [0] * 4
    del row
    lease.release()


def test_empty_like_takes_shape_type_and_device(second):
    """Of any framework's array, and elsewhere if asked."""
    lease = gpulend.empty((3, 4), "int16", device=f"cuda:{second}")
    like = gpulend.empty_like(lease.T)
    assert (like.shape, like.dtype, like.device) == ((4, 3), "int16", f"cuda:{second}")
    like = gpulend.empty_like(np.zeros(5, np.complex64), device="cuda:0")
    assert (like.shape, like.dtype, like.device) == ((5,), "complex64", "cuda:0")
    assert gpulend.empty_like(lease, dtype="float64").dtype == "float64"


def test_memory_of_a_second_device_lies_there(second, context):
    """`device=` decides, not what is current, and the caller's context stays."""
    lease = gpulend.full(100, 5, "int32", device=f"cuda:{second}")
    assert gpulend.describe(lease).device == f"cuda:{second}"
    assert lease.device == f"cuda:{second}"
    assert lease.to_host().tolist() == [5] * 100
    assert current() == context


@pytest.mark.parametrize("layout", [np.s_[:], np.s_[::2], np.s_[::-1], np.s_[:, ::-3]])
def test_two_devices_copy_to_each_other(second, layout):
    """Between devices a copy must be ordered after both, and reach strided memory too."""
    source = np.arange(60, dtype=np.int32).reshape(6, 10)
    here = gpulend.from_host(source)
    there = gpulend.zeros((6, 10), "int32", device=f"cuda:{second}")
    there[layout].copy_from(here[layout])
    wanted = np.zeros_like(source)
    wanted[layout] = source[layout]
    assert np.array_equal(there.to_host(), wanted)
    back = gpulend.zeros((6, 10), "int32")
    there[layout].copy_to(back[layout])
    assert np.array_equal(back.to_host(), wanted)


def test_memory_is_freed_from_a_thread_without_a_context():
    """The last reference often dies on a worker thread, which has no context of its own."""
    with nothing_stays():
        box = [gpulend.zeros(1 << 16, "uint8")]
        seen = []

        def drop():
            seen.append(current())
            box.clear()
            seen.append(current())

        thread = threading.Thread(target=drop)
        thread.start()
        thread.join()
        assert seen == [None, None]


def test_memory_is_freed_after_its_device_context_was_left(context):
    """Also where the dropping thread has no context because somebody took it away."""
    with nothing_stays():
        lease = gpulend.zeros(1 << 16, "uint8")
        check(cu.cuCtxSetCurrent(None))
        try:
            del lease
            assert current() is None
        finally:
            check(cu.cuCtxSetCurrent(context))


@pytest.mark.parametrize("number", [0, np.int32(0)])
def test_a_device_is_named_by_its_number(number):
    """Wherever `device` is taken."""
    arrays = [
        gpulend.empty(3, device=number),
        gpulend.zeros(3, "float32", number),
        gpulend.full(3, 0, "float32", device=number),
        gpulend.empty_like(np.zeros(3), device=number),
        gpulend.from_host(np.zeros(3), device=number),
    ]
    arrays.append(gpulend.wrap(arrays[0].address, 3, "float32", owner=arrays[0], device=number))
    assert {str(array.device) for array in arrays} == {"cuda:0"}
    assert gpulend.Stream(device=number).device == "cuda:0"
    assert gpulend.current_stream(number).device == "cuda:0"
    gpulend.synchronize(number)


def test_an_element_is_copied_to_the_host_as_a_number():
    """After the work that makes it."""
    array = gpulend.full((2, 3), 1.5, "float32")
    assert (float(array[1, 2]), int(array[0, 0]), bool(array[0, 1])) == (1.5, 1, True)
    assert array[0, 0].item() == 1.5
