"""The DLPack C exchange API: the table we publish, and the tables of others."""

from __future__ import annotations

import ctypes
import gc
import os

import gpulend
import numpy as np
import pytest
from capsules import (
    READ_ONLY,
    SUBBYTE_PADDED,
    TABLE_NAME,
    DLTensor,
    Producer,
    Sample,
    SetError,
    Versioned,
    capsule,
    foreign_table,
    in_a_bare_thread,
    release,
    table_of,
)
from conftest import need
from gpulend import _native
from gpulend.adapters import Consumer, Makes, Takes

ours = table_of(gpulend.Lease)


def test_our_table_is_complete_and_of_version_one():
    """The class attribute is a capsule of a 1.3 table with all five functions."""
    assert (ours.header.major, ours.header.minor) == (1, 3)
    assert ours.header.prev_api is None
    for name in ("allocator", "from_py", "to_py", "tensor_from_py", "work_stream"):
        assert getattr(ours, name), name


def test_the_lease_type_is_final():
    """A table on a class speaks for its exact instances, so there can be no others."""
    with pytest.raises(TypeError):
        type("Sub", (gpulend.Lease,), {})


def test_from_py_object_exports_what_the_lease_is():
    """Exported: same address, shape, strides and type, owned by the receiver."""
    array = np.arange(12, dtype="int16").reshape(3, 4)
    lease = gpulend.borrow(array)[1:, ::2]
    out = ctypes.c_void_p()
    assert ours.from_py(lease, ctypes.byref(out)) == 0
    managed = Versioned.from_address(out.value)
    tensor = managed.tensor
    assert (managed.major, managed.minor, managed.flags) == (1, 3, 0)
    assert (tensor.data, tensor.byte_offset) == (array[1:].ctypes.data, 0)
    assert (tensor.device_type, tensor.device_id) == (1, 0)
    assert (tensor.code, tensor.bits, tensor.lanes) == (0, 16, 1)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 2], [4, 2])
    parent = lease
    del lease
    with pytest.raises(gpulend.StillLentError, match="exchange API"):
        parent.release()
    release(out.value)
    parent.release()


def test_from_py_object_says_read_only_and_padded():
    """Law 6 and 7: the flags carry what the type cannot."""
    ml_dtypes = need("ml_dtypes")
    array = np.zeros(4, ml_dtypes.int4)
    array.flags.writeable = False
    out = ctypes.c_void_p()
    assert ours.from_py(gpulend.borrow(array), ctypes.byref(out)) == 0
    managed = Versioned.from_address(out.value)
    assert managed.flags == READ_ONLY | SUBBYTE_PADDED
    assert (managed.tensor.code, managed.tensor.bits) == (0, 4)
    release(out.value)


def test_from_py_object_refuses_what_is_no_lease():
    """Another object is a TypeError and no tensor."""
    out = ctypes.c_void_p()
    with pytest.raises(TypeError):
        ours.from_py(object(), ctypes.byref(out))
    assert out.value is None
    lease = gpulend.borrow(bytearray(3))
    lease.release()
    with pytest.raises(gpulend.ReleasedError):
        ours.from_py(lease, ctypes.byref(out))
    assert out.value is None


def test_to_py_object_takes_the_tensor_over():
    """A managed tensor becomes a lease that releases it once."""
    sample = Sample(flags=READ_ONLY)
    out = ctypes.c_void_p()
    assert ours.to_py(sample.pointer, ctypes.byref(out)) == 0
    lease = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(lease))  # the reference that came with it
    assert type(lease) is gpulend.Lease
    assert (lease.address, lease.shape, lease.readonly) == (sample.address, (3,), True)
    assert sample.released == 0
    del lease
    assert sample.released == 1


@pytest.mark.parametrize(
    ("lie", "error"),
    [
        ({"version": (2, 0)}, gpulend.ProtocolError),
        ({"dtype": (2, 32, 3)}, gpulend.LayoutError),
        ({"ndim": -1}, gpulend.LayoutError),
        ({"device": (2, 0)}, gpulend.NoDeviceError),
    ],
)
def test_to_py_object_refuses_and_releases(lie, error):
    """A refused tensor was handed over, so it is released, once."""
    sample = Sample(**lie)
    out = ctypes.c_void_p()
    with pytest.raises(error):
        ours.to_py(sample.pointer, ctypes.byref(out))
    assert out.value is None
    assert sample.released == 1


def test_to_py_object_refuses_null():
    """No tensor is a named error."""
    out = ctypes.c_void_p()
    with pytest.raises(gpulend.ProtocolError, match="null"):
        ours.to_py(None, ctypes.byref(out))


def test_dltensor_from_py_object_shows_without_owning():
    """The shown tensor is the lease's own, and nothing is to be released."""
    lease = gpulend.borrow(np.zeros((2, 3)))
    held = len(gpulend.ledger())
    tensor = DLTensor()
    assert ours.tensor_from_py(lease, ctypes.byref(tensor)) == 0
    assert (tensor.data, tensor.ndim, tensor.byte_offset) == (lease.address, 2, 0)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 3], [3, 1])
    assert (tensor.code, tensor.bits, tensor.lanes) == (2, 64, 1)
    assert len(gpulend.ledger()) == held
    with pytest.raises(TypeError):
        ours.tensor_from_py(3, ctypes.byref(tensor))


def test_a_shown_tensor_stays_right_until_the_lease_dies():
    """It has no deleter: `release` keeps memory, shape and strides as long as the object."""
    numbers, freed = (ctypes.c_float * 6)(*range(6)), []
    lease = gpulend.wrap(
        ctypes.addressof(numbers), (2, 3), "float32", deleter=lambda *said: freed.append(said)
    )
    tensor = DLTensor()
    assert ours.tensor_from_py(lease, ctypes.byref(tensor)) == 0
    lease.release()
    others = [gpulend.borrow(np.zeros((7, 7))) for _ in range(50)]
    assert lease.released
    assert freed == []
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 3], [3, 1])
    del lease
    assert len(freed) == 1
    del others


def test_the_current_work_stream_of_the_host_is_null():
    """Host memory has no streams; on a GPU it is the legacy one until another is entered."""
    stream = ctypes.c_void_p(7)
    assert ours.work_stream(1, 0, ctypes.byref(stream)) == 0
    assert stream.value is None
    assert ours.work_stream(2, 0, ctypes.byref(stream)) == 0
    assert stream.value == 1
    with pytest.raises(gpulend.NoDeviceError):
        ours.work_stream(4, 0, ctypes.byref(stream))


def prototype(shape, dtype=(2, 32, 1), device=(1, 0)):
    """Return a tensor that describes what to allocate, and what keeps it alive."""
    sample = Sample(shape, dtype=dtype, device=device, data=None)
    return sample.struct.tensor, sample


def test_the_allocator_makes_fresh_memory():
    """Allocated: of the prototype's shape and type, writable, aligned, gone once released."""
    before = len(gpulend.ledger())
    wanted, _kept = prototype((5, 3))
    errors = []
    out = ctypes.c_void_p()
    report = SetError(lambda *arguments: errors.append(arguments))
    assert ours.allocator(ctypes.byref(wanted), ctypes.byref(out), None, report) == 0
    managed = Versioned.from_address(out.value)
    tensor = managed.tensor
    assert (tensor.shape[:2], tensor.strides[:2]) == ([5, 3], [3, 1])
    assert (tensor.code, tensor.bits, tensor.lanes) == (2, 32, 1)
    assert managed.flags & READ_ONLY == 0
    assert tensor.data % 64 == 0
    ctypes.memset(tensor.data, 0xFF, 60)
    assert len(gpulend.ledger()) > before
    release(out.value)
    assert len(gpulend.ledger()) == before
    assert errors == []


@pytest.mark.parametrize(
    ("shape", "dtype", "device", "kind"),
    [
        ((2**45,), (2, 32, 1), (1, 0), b"MemoryError"),
        ((-1,), (2, 32, 1), (1, 0), b"ValueError"),
        ((3,), (99, 32, 1), (1, 0), b"ValueError"),
        ((2**40, 2**40), (2, 32, 1), (1, 0), b"ValueError"),
        ((3,), (2, 32, 1), (2, 0), None),
    ],
)
def test_the_allocator_reports_failure_through_set_error(shape, dtype, device, kind):
    """Failure is -1, one call of SetError with kind and message, and no tensor."""
    wanted, _kept = prototype(shape, dtype, device)
    errors = []
    out = ctypes.c_void_p()
    report = SetError(lambda *arguments: errors.append(arguments))
    assert ours.allocator(ctypes.byref(wanted), ctypes.byref(out), 77, report) == -1
    assert out.value is None
    ((context, found, message),) = errors
    assert context == 77
    assert kind is None or found == kind
    assert message


def test_an_export_may_be_released_by_a_bare_thread():
    """The deleter that `from_py` hands out needs no GIL."""
    sample = Sample()
    out = ctypes.c_void_p()
    assert ours.from_py(gpulend.borrow(sample.capsule()), ctypes.byref(out)) == 0
    in_a_bare_thread(Versioned.from_address(out.value).deleter, out.value)
    assert sample.released == 1


def test_tvm_ffi_takes_a_lease_through_the_table():
    """A real consumer of exchange tables sees the same memory and releases it."""
    tvm_ffi = need("tvm_ffi")
    array = np.arange(6.0).reshape(2, 3)
    lease = gpulend.borrow(array)
    tensor = tvm_ffi.from_dlpack(lease)
    assert np.from_dlpack(tensor).ctypes.data == array.ctypes.data
    assert tuple(tensor.shape) == (2, 3)
    with pytest.raises(gpulend.StillLentError):
        lease.release()
    del tensor
    gc.collect()
    lease.release()


class Foreign(Producer):
    """An array of a framework whose table the tests set."""


def publish(table, attribute="__dlpack_c_exchange_api__", as_int=False):
    """Make a class that publishes a table by capsule or by address."""
    address = ctypes.addressof(table)
    value = address if as_int else capsule(address, TABLE_NAME)
    return type("Foreign", (Foreign,), {attribute: value, "table": table})


SPELLINGS = {
    "capsule": ("__dlpack_c_exchange_api__", False),
    "int": ("__c_dlpack_exchange_api__", True),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_foreign_table_is_used(spelling):
    """A class that publishes a table is read through it, in either spelling."""
    sample = Sample((2, 3))
    kind = publish(foreign_table(lambda thing: thing.sample), *SPELLINGS[spelling])
    thing = kind(None)  # its __dlpack__ returns garbage
    thing.sample = sample
    assert "exchange" in _native.route(thing)
    for _ in range(2):  # the second time by the cached route
        before = sample.released
        lease = gpulend.borrow(thing)
        assert (lease.address, lease.shape) == (sample.address, (2, 3))
        del lease
        assert sample.released == before + 1


def test_a_newer_table_is_walked_back_to_ours():
    """A table of major 2 is asked for its `prev_api` until one of major 1 is found."""
    sample = Sample()
    old = foreign_table(lambda _thing: sample)
    middle = foreign_table(lambda _thing: 1 // 0, version=(2, 5), prev_api=old)
    new = foreign_table(lambda _thing: 1 // 0, version=(3, 0), prev_api=middle)
    lease = gpulend.borrow(publish(new)(None))
    assert lease.address == sample.address
    del lease
    assert sample.released == 1


def test_a_table_of_another_major_only_falls_back_to_dlpack():
    """Where no table of ours is found, the Python protocol is."""
    sample = Sample()
    table = foreign_table(lambda _thing: 1 // 0, version=(2, 0))
    thing = publish(table)(sample.capsule)
    lease = gpulend.borrow(thing)
    assert lease.address == sample.address
    assert "exchange" not in _native.route(thing)
    del lease
    assert sample.released == 1


@pytest.mark.parametrize("garbage", [3.5, "x", None, 0, True, -1, capsule(16, b"other")])
def test_a_table_attribute_of_garbage_falls_back_to_dlpack(garbage):
    """An attribute that is no table is no reason to refuse the array."""
    sample = Sample()
    kind = type("Foreign", (Foreign,), {"__dlpack_c_exchange_api__": garbage})
    lease = gpulend.borrow(kind(sample.capsule))
    assert lease.address == sample.address
    del lease
    assert sample.released == 1


MADE_UP = {
    "unmapped": (4096, 404),
    "past the end": ((1 << 64) - 8, 404),
    "odd": (4097, 203),
}


@pytest.mark.parametrize("case", MADE_UP)
@pytest.mark.parametrize("attribute", ["__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"])
def test_a_made_up_address_of_a_table_is_refused_unread(attribute, case):
    """A number that Python code may have made up is asked for before it is read, everywhere."""
    address, code = MADE_UP[case]
    kind = type("Foreign", (Foreign,), {attribute: address})
    uses = [
        lambda: gpulend.borrow(kind(None)),
        lambda: _native.route(kind(None)),
        lambda: _native.Consumer(
            "foreign", Consumer(takes=Takes(types=["float32"]), makes=Makes(array=kind))
        ),
    ]
    for use in uses:
        with pytest.raises(gpulend.Error) as caught:
            use()
        assert caught.value.code == code


def test_a_table_that_leads_to_a_made_up_address_is_refused_unread():
    """The older tables that a newer one leads to are asked for too."""
    table = foreign_table(lambda _thing: 1 // 0, version=(2, 0))
    table.header.prev_api = 4096
    with pytest.raises(gpulend.AddressError):
        gpulend.borrow(publish(table)(None))


def test_a_table_that_fails_without_an_exception_is_a_named_error():
    """-1 with no exception set does not become a SystemError."""
    thing = publish(foreign_table(lambda _thing: 1 // 0))(None)
    with pytest.raises(gpulend.ProtocolError, match="Foreign"):
        gpulend.borrow(thing)


@pytest.mark.parametrize("lie", [{"version": (2, 0)}, {"dtype": (2, 32, 2)}, {"ndim": 65}])
def test_a_lying_table_is_refused_and_its_tensor_released(lie):
    """What a table hands over is checked as a capsule is."""
    sample = Sample(**lie)
    thing = publish(foreign_table(lambda _thing: sample))(None)
    with pytest.raises(gpulend.Error):
        gpulend.borrow(thing)
    assert sample.released == 1


def test_a_class_with_a_table_is_not_confused_with_another_at_its_address():
    """Routes go with their class, so that of a dead one is never another's."""
    addresses = set()
    for number in range(200):
        sample = Sample((number % 5,))
        kind = publish(foreign_table(lambda _thing, sample=sample: sample))
        addresses.add(id(kind))
        lease = gpulend.borrow(kind(None))
        assert lease.shape == (number % 5,)
        del lease
        assert sample.released == 1
        del kind, sample
        gc.collect()
    # Under valgrind, for which objects come from malloc, memory is not used again so soon.
    assert len(addresses) < 200 or os.environ.get("PYTHONMALLOC") == "malloc"
