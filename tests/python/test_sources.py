"""What can be borrowed: every protocol of host memory, each read in its own way."""

from __future__ import annotations

import array
import ctypes
import mmap

import gpulend
import numpy as np
import pytest
from capsules import FLOAT32, READ_ONLY, Producer, Sample
from conftest import need


def test_buffers_are_borrowed_with_their_type_and_access():
    """The buffer protocol says type, shape, strides and read-only; all are kept."""
    matrix = memoryview(bytearray(range(24))).cast("B", (4, 6))
    cases = [
        (b"abc", "uint8", (3,), True),
        (bytearray(b"abc"), "uint8", (3,), False),
        (array.array("d", [1, 2]), "float64", (2,), False),
        (array.array("H", [1, 2, 3]), "uint16", (3,), False),
        (memoryview(array.array("i", range(6)))[::-2], "int32", (3,), False),
        (matrix, "uint8", (4, 6), False),
        (matrix.toreadonly(), "uint8", (4, 6), True),
        (mmap.mmap(-1, 16), "uint8", (16,), False),
        ((ctypes.c_int16 * 3)(1, 2, 3), "int16", (3,), False),
        ((ctypes.c_double * 2 * 3)(), "float64", (3, 2), False),
    ]
    for source, dtype, shape, readonly in cases:
        lease = gpulend.borrow(source)
        assert (lease.dtype.name, lease.shape, lease.readonly) == (dtype, shape, readonly)
        assert lease.to_host().tolist() == np.asarray(memoryview(source)).tolist()


def test_a_borrowed_bytearray_cannot_be_resized():
    """The exporter is held, so it cannot move the memory away."""
    source = bytearray(8)
    lease = gpulend.borrow(source)
    with pytest.raises(BufferError):
        source.extend(b"more")
    lease.release()
    source.extend(b"more")


def test_a_ctypes_pointer_to_an_array_knows_how_much_it_points_to():
    """POINTER(array) is borrowed; a pointer to one number is an address, which wrap takes."""
    block = (ctypes.c_float * 3)(1, 2, 3)
    lease = gpulend.borrow(ctypes.pointer(block))
    assert (lease.address, lease.shape) == (ctypes.addressof(block), (3,))
    bare = ctypes.cast(block, ctypes.POINTER(ctypes.c_float))
    for pointer in (bare, ctypes.c_void_p(ctypes.addressof(block))):
        with pytest.raises(gpulend.ProtocolError, match=r"gpulend\.wrap"):
            gpulend.borrow(pointer)


def test_wrap_takes_every_spelling_of_an_address():
    """An int, ctypes pointers, and what has `__int__`, with the pointee's type if none is given."""
    block = (ctypes.c_float * 4)(1, 2, 3, 4)
    address = ctypes.addressof(block)

    class Handle:
        def __int__(self):
            return address

    typed = ctypes.cast(block, ctypes.POINTER(ctypes.c_float))
    spellings = (address, np.uint64(address), ctypes.c_void_p(address), typed, Handle())
    for spelling in spellings:
        lease = gpulend.wrap(spelling, 4, "float32", owner=block)
        assert lease.to_host().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert gpulend.wrap(typed, 4, owner=block).dtype == "float32"
    with pytest.raises(gpulend.Error, match="dtype"):
        gpulend.wrap(address, 4, owner=block)


class OldProducer:
    """A producer from before DLPack 1.0, which knows no other argument than `stream`."""

    def __init__(self, sample):
        self.sample = sample

    def __dlpack__(self, stream=None):
        """Hand out a legacy capsule."""
        return self.sample.capsule()

    def __dlpack_device__(self):
        """Say that it is host memory."""
        return (1, 0)


def test_a_producer_of_before_versions_is_asked_in_its_own_words():
    """`__dlpack__` is called with a version first, and without one where that is unknown."""
    sample = Sample(versioned=False)
    lease = gpulend.borrow(OldProducer(sample))
    assert lease.to_host().tolist() == [0.0, 1.0, 2.0]
    del lease
    assert sample.released == 1


@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])
def test_an_offset_is_honoured_and_absent_strides_are_compact(versioned):
    """Law 11: `byte_offset` counts, and NULL strides mean C order."""
    sample = Sample((2, 3), strides=None, byte_offset=8, versioned=versioned)
    lease = gpulend.borrow(sample.capsule())
    assert (lease.address, lease.strides) == (sample.address + 8, (3, 1))
    assert lease.to_host().tolist() == [[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]


def test_a_scalar_needs_neither_shape_nor_strides():
    """0-d tensors may leave both pointers NULL."""
    sample = Sample(shape=None, strides=None, ndim=0)
    assert gpulend.borrow(sample.capsule()).to_host().tolist() == 0.0


def test_read_only_and_padded_flags_are_read():
    """The flags of a versioned tensor become access and storage of the lease."""
    assert gpulend.borrow(Sample(flags=READ_ONLY).capsule()).readonly
    assert not gpulend.borrow(Sample().capsule()).readonly
    padded = gpulend.borrow(Sample((4,), dtype=(17, 4, 1), flags=4).capsule())
    packed = gpulend.borrow(Sample((4,), dtype=(17, 4, 1)).capsule())
    assert (padded.dtype.padded, padded.storage_shape, padded.nbytes) == (True, (4,), 4)
    assert (packed.dtype.padded, packed.storage_shape, packed.nbytes) == (False, (2,), 2)


def test_an_array_interface_is_read_and_keeps_its_object():
    """The object with the dict is the owner, for the dict has none."""
    block = (ctypes.c_float * 6)(*range(6))

    class Holder:
        __array_interface__ = {
            "version": 3,
            "shape": (3,),
            "strides": (8,),
            "typestr": "<f4",
            "data": (ctypes.addressof(block), True),
        }

    lease = gpulend.borrow(Holder())
    assert (lease.shape, lease.strides, lease.readonly) == ((3,), (2,), True)
    assert lease.to_host().tolist() == [0.0, 2.0, 4.0]


def test_numpy_subclasses_that_mean_more_are_refused_and_others_taken():
    """A masked array would lose its mask; a plain subclass loses nothing."""
    with pytest.raises(gpulend.Error, match="mask"):
        gpulend.borrow(np.ma.masked_array([1.0, 2.0], mask=[True, False]))

    class Plain(np.ndarray):
        pass

    assert gpulend.borrow(np.arange(3.0).view(Plain)).to_host().tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("dtype", [">f4", "U3", "S2", "O", "M8[s]", "m8[s]", "i4,f4"])
def test_numpy_arrays_of_no_plain_numbers_are_refused(dtype):
    """Law 7: other byte orders, text, objects, times and records have no plain type."""
    with pytest.raises(gpulend.Error):
        gpulend.borrow(np.zeros(2, dtype))


def test_bcomplex32_of_ml_dtypes_has_a_code_and_is_borrowed():
    """Law 7: all DLPack codes to 18."""
    ml_dtypes = need("ml_dtypes")
    if not hasattr(ml_dtypes, "bcomplex32"):
        pytest.skip("an older ml_dtypes")
    source = np.zeros(3, ml_dtypes.bcomplex32)
    lease = gpulend.borrow(source)
    assert (lease.dtype.code, lease.dtype.bits) == (18, 32)
    assert lease.lend("numpy").dtype == source.dtype


def test_a_lease_is_borrowed_as_itself():
    """Borrowing a lease adds a holder, and no copy."""
    source = np.arange(3.0)
    lease = gpulend.borrow(gpulend.borrow(source))
    assert lease.address == source.ctypes.data


def test_the_same_class_may_answer_differently_each_time():
    """The route is remembered by type, what it says is read anew each time."""
    for number in range(1, 6):
        sample = Sample((number,), dtype=FLOAT32)
        assert gpulend.borrow(Producer(sample.capsule)).shape == (number,)
        assert sample.released == 1


def test_a_subclass_of_ndarray_is_borrowed_as_an_ndarray(tmp_path):
    """`numpy.memmap` and its like keep what NumPy's own arrays can say."""
    ml_dtypes = need("ml_dtypes")
    narrow = np.memmap(tmp_path / "narrow", ml_dtypes.bfloat16, "w+", shape=(4,))
    assert gpulend.borrow(narrow).dtype == "bfloat16"
    other = np.memmap(tmp_path / "other", ">f4", "w+", shape=(4,))
    with pytest.raises(gpulend.ExportError, match="newbyteorder"):
        gpulend.borrow(other)
    frozen = np.memmap(tmp_path / "narrow", "uint16", "r", shape=(4,))
    assert gpulend.borrow(frozen).readonly


def test_rows_are_leases_and_there_are_as_many_as_the_length():
    """A lease is a sequence of its rows; one of no axes is not."""
    lease = gpulend.borrow(np.arange(6.0).reshape(3, 2))
    assert len(lease) == 3
    assert [row.to_host().tolist() for row in lease] == [[0, 1], [2, 3], [4, 5]]
    scalar = lease[0, 0]
    for use in (len, iter):
        with pytest.raises(TypeError):
            use(scalar)


def test_numbers_beyond_64_bits_are_refused_or_cut_as_numpy_does():
    """No number escapes as a bare OverflowError."""
    array = np.arange(6.0)
    lease = gpulend.borrow(array)
    huge = 2**70
    assert lease[:huge].shape == lease[-huge:].shape == (6,)
    with pytest.raises(gpulend.OutOfRangeError):
        lease[huge]
    for use in (
        lambda: lease.reshape(huge, 1),
        lambda: lease.reshape((huge, 1)),
        lambda: gpulend.wrap(array.ctypes.data, huge, "float64", owner=array),
        lambda: gpulend.wrap(array.ctypes.data, (2,), "float64", strides=(huge,), owner=array),
    ):
        with pytest.raises(gpulend.LayoutError):
            use()
    with pytest.raises(gpulend.ProtocolError, match="shape is a str"):
        gpulend.wrap(array.ctypes.data, "x", "float64", owner=array)


def test_a_passport_is_given_for_a_bare_pointer_too():
    """An address is an address, in whatever it is held."""
    memory = (ctypes.c_float * 6)()
    address = ctypes.addressof(memory)
    pointer = ctypes.cast(memory, ctypes.POINTER(ctypes.c_float))
    for held in (address, ctypes.c_void_p(address), pointer, memory):
        assert gpulend.describe(held).address == address
