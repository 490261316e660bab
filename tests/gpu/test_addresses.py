"""Raw addresses: what is no live memory of the right place is refused by name."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import JUNK, allocate, current, download, upload, value

from .resources import (
    SIMULATED,
    eventually,
    only_simulated,
    still_works,
)


def refused(address, shape=(16,), dtype="float32", strides=None, **options):
    """Wrap what must be refused; return the error after showing that nothing else broke."""
    context = current()
    with pytest.raises(gpulend.AddressError) as caught:
        gpulend.wrap(address, shape, dtype, strides, unowned=True, **options)
    assert current() == context
    still_works()
    return caught.value


def test_a_fabricated_address_is_refused(gpu):
    """An address that nobody allocated must not reach a framework, which would crash later."""
    error = refused(JUNK)
    assert error.code == 404
    assert f"{JUNK:#x}" in str(error)
    assert "still allocated" in str(error)


def test_a_fabricated_address_of_a_named_device_is_refused(gpu):
    """The same where the caller says that it is memory of a GPU: the driver is asked."""
    error = refused(JUNK, device="cuda:0")
    assert error.code == 407
    assert f"{JUNK:#x}" in str(error)
    assert "cuda:0" in str(error)


@pytest.mark.parametrize("device", [None, "cuda:0"])
def test_a_freed_address_is_refused(gpu, device):
    """Freed memory may have another owner by the time it is read."""
    address = allocate(4096)
    check(cu.cuMemFree_v2(address))
    error = refused(address, device=device)
    wanted = 406 if SIMULATED else (407 if device else 404)
    assert error.code == wanted
    assert f"{address:#x}" in str(error)
    assert "freed" in str(error) or "still allocated" in str(error)


@pytest.mark.parametrize(
    ("shape", "dtype", "bytes_needed"), [((65,), "uint8", 65), ((17,), "float32", 68)]
)
def test_an_allocation_that_is_too_short_is_refused(gpu, shape, dtype, bytes_needed):
    """One byte past the end is somebody else's memory; the numbers say how many are missing."""
    address = gpu.alloc(64)
    error = refused(address, shape, dtype)
    assert error.code == 408
    for number in (str(bytes_needed), "64", f"{address:#x}", "shape"):
        assert number in str(error)


def test_the_last_byte_of_an_allocation_is_accepted(gpu):
    """The check must not refuse what just fits."""
    address = gpu.alloc(64)
    assert gpulend.wrap(address, (64,), "uint8", unowned=True).nbytes == 64
    assert gpulend.wrap(address + 63, (1,), "uint8", unowned=True).address == address + 63


def test_an_address_inside_an_allocation_counts_from_there(gpu):
    """Frameworks hand out addresses inside their blocks: what is left after them is what counts."""
    address = gpu.alloc(64)
    upload(address, bytes(range(64)))
    lease = gpulend.wrap(address + 8, (7, 2), "int32", unowned=True)
    assert lease.to_host().tobytes() == bytes(range(8, 64))
    error = refused(address + 8, (15,), "int32")
    assert error.code == 408
    assert "56" in str(error)
    passport = gpulend.describe(address + 8)
    assert (passport.base, passport.offset, passport.size) == (address, 8, 64)


def test_the_wrong_device_is_refused(gpu, second):
    """Memory of one GPU under the name of another would be used in the wrong context."""
    address = gpu.alloc(64)
    error = refused(address, device=f"cuda:{second}")
    assert error.code == 409
    for part in (f"{address:#x}", "cuda:0", f"cuda:{second}", "device="):
        assert part in str(error)


def test_a_device_that_is_not_there_is_refused(gpu):
    """A device number beyond the driver's own is named, with how many there are."""
    address = gpu.alloc(64)
    with pytest.raises(gpulend.NoDeviceError, match="cuda:9") as caught:
        gpulend.wrap(address, (16,), "float32", device="cuda:9", unowned=True)
    assert caught.value.code == 916
    still_works()


def test_memory_of_another_context_is_refused(gpu):
    """Frameworks use the primary context; memory of a context made by hand is invalid there."""
    made = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    try:
        address = allocate(64)
        for device in (None, "cuda:0"):
            with pytest.raises(gpulend.AddressError) as caught:
                gpulend.wrap(address, (16,), "float32", device=device, unowned=True)
            assert caught.value.code == 410
            for part in (f"{address:#x}", f"{made:#x}", "primary", "cuDevicePrimaryCtxRetain"):
                assert part in str(caught.value)
            assert current() == made
    finally:
        check(cu.cuCtxDestroy_v2(made))
        check(cu.cuCtxSetCurrent(gpu.context))
    still_works()


def test_the_device_is_asked_of_the_driver(gpu, second):
    """An address says nothing about its GPU; the driver does, whatever is current."""
    here = gpu.alloc(64)
    context = value(c_void_p, cu.cuDevicePrimaryCtxRetain, second)
    check(cu.cuCtxSetCurrent(context))
    there = allocate(64)
    try:
        assert gpulend.wrap(here, (16,), "float32", unowned=True).device == "cuda:0"
        assert gpulend.wrap(there, (16,), "float32", unowned=True).device == f"cuda:{second}"
        check(cu.cuCtxSetCurrent(gpu.context))
        assert gpulend.wrap(there, (16,), "float32", unowned=True).device == f"cuda:{second}"
    finally:
        check(cu.cuCtxSetCurrent(context))
        check(cu.cuMemFree_v2(there))
        check(cu.cuCtxSetCurrent(gpu.context))
        check(cu.cuDevicePrimaryCtxRelease_v2(second))


@only_simulated
def test_device_memory_is_no_memory_of_the_host(gpu):
    """What a real GPU refuses, the simulated one must refuse too: device memory called `cpu`."""
    address = gpu.alloc(64)
    error = refused(address, device="cpu")
    assert error.code == 409


LAYOUTS = [
    # shape, strides, first element, elements of the block
    ((4, 4), None, 0, 16),
    ((4,), (4,), 0, 13),
    ((3, 2), (1, 3), 0, 6),
    ((4,), (-1,), 3, 4),
    ((2, 3), (-3, -1), 5, 6),
    ((2, 3), (-3, 1), 3, 6),
    ((5, 2), (0, 1), 0, 2),
    ((), None, 0, 1),
]


@pytest.mark.parametrize(("shape", "strides", "first", "elements"), LAYOUTS)
def test_strides_reach_exactly_what_they_say(gpu, shape, strides, first, elements):
    """The span of shape and strides is checked at both ends, also where strides are negative."""
    block = np.arange(elements, dtype=np.int32)
    address = gpu.alloc(block.nbytes)
    upload(address, block.tobytes())
    lease = gpulend.wrap(address + 4 * first, shape, "int32", strides, unowned=True)
    sizes = lease.strides
    oracle = np.lib.stride_tricks.as_strided(
        block[first:], shape, tuple(4 * stride for stride in sizes)
    )
    assert np.array_equal(lease.to_host(), oracle)


@pytest.mark.parametrize(
    ("shape", "strides", "first"),
    [
        ((4,), (-1,), 2),
        ((2, 3), (-3, -1), 4),
        ((2, 3), (-3, 1), 2),
        ((4,), (5,), 0),
        ((2, 3), (4, 1), 0),
    ],
)
def test_strides_that_leave_the_allocation_are_refused(gpu, shape, strides, first):
    """An element before the first byte or after the last one is out of range."""
    address = gpu.alloc(24)
    error = refused(address + 4 * first, shape, "int32", strides)
    # Memory before the block may be nobody's, or another block's that is too short.
    assert error.code in ((406, 407, 408) if strides[0] < 0 else (408,))


def test_no_address_is_asked_about_without_elements(gpu):
    """An array without elements has no memory: nothing is checked, and its device is named."""
    lease = gpulend.wrap(0, (0, 3), "float32", device="cuda:0", unowned=True)
    assert lease.device == "cuda:0"
    assert lease.to_host().shape == (0, 3)


def test_without_checks_the_driver_is_not_asked(gpu):
    """Who knows better may leave the question out, and takes the blame."""
    address = allocate(64)
    check(cu.cuMemFree_v2(address))
    lease = gpulend.wrap(address, (16,), "float32", device="cuda:0", unowned=True, check=False)
    assert lease.address == address
    lease = gpulend.wrap(
        JUNK & ~3, (1 << 20,), "float32", device="cuda:0", unowned=True, check=False
    )
    assert lease.nbytes == 4 << 20
    still_works()


def test_a_ctypes_pointer_is_an_address(gpu):
    """C libraries hand out ctypes pointers, whose element type need not be said again."""
    address = gpu.alloc(64)
    upload(address, np.arange(16, dtype=np.float32).tobytes())
    pointer = ctypes.cast(ctypes.c_void_p(address), ctypes.POINTER(ctypes.c_float))
    for said in (pointer, ctypes.c_void_p(address), np.uint64(address)):
        lease = gpulend.wrap(said, (16,), None if said is pointer else "float32", unowned=True)
        assert lease.address == address
        assert lease.to_host().tolist() == list(range(16))


def test_wrapped_memory_is_freed_once_by_its_deleter(gpu):
    """The deleter gets the address back once, when nobody holds the memory any more."""
    address = allocate(64)
    calls = []
    lease = gpulend.wrap(address, (16,), "float32", deleter=lambda *said: calls.append(said))
    part = lease[4:]
    del lease
    assert calls == []
    del part
    eventually(lambda: calls == [(address, 64)], "the deleter was called")
    check(cu.cuMemFree_v2(address))


def test_a_refused_address_is_still_its_callers(gpu):
    """If wrap refuses, the caller frees: the deleter must not run."""
    address = gpu.alloc(64)
    calls = []
    with pytest.raises(gpulend.AddressError):
        gpulend.wrap(address, (99,), "float32", deleter=lambda *said: calls.append(said))
    gpulend.synchronize()
    assert calls == []


@only_simulated
def test_a_wrap_that_fails_last_leaves_the_memory_to_its_caller(gpu):
    """All questions are answered, then the driver refuses the stream: the deleter must not run."""
    address = gpu.alloc(64)
    calls = []
    with pytest.raises(gpulend.Error):
        gpulend.wrap(
            address,
            (16,),
            "float32",
            deleter=lambda *said: calls.append(said),
            ready_on=0x12345,
        )
    gpulend.synchronize()
    assert calls == []
    lease = gpulend.wrap(address, (16,), "float32", deleter=lambda *said: calls.append(said))
    del lease
    eventually(lambda: calls == [(address, 64)], "the deleter was called")


def test_writing_through_a_wrapped_address(gpu):
    """Wrapped memory is the memory itself: writes are seen by all who have the address."""
    address = gpu.alloc(16)
    lease = gpulend.wrap(address, (4,), "int32", unowned=True)
    lease.copy_from(np.array([1, 2, 3, 4], np.int32))
    gpulend.synchronize()
    assert download(address, 16) == np.array([1, 2, 3, 4], np.int32).tobytes()
