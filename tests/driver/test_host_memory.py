"""Host memory the driver knows: pinned by it, or registered with it."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from ctypes import byref, c_uint, c_uint64, c_void_p

import pytest

from .cuda import check, cu
from .resources import Resources, allocate, value

PAGE = mmap.PAGESIZE
UNTOUCHED = 99


@pytest.fixture
def pages(gpu: Resources) -> Iterator[int]:
    """Map 16 pages of host memory that the driver does not know; give their address."""
    memory = mmap.mmap(-1, 16 * PAGE)
    view = ctypes.c_char.from_buffer(memory)
    yield ctypes.addressof(view)
    del view
    memory.close()


def _flags(address: int) -> int:
    return value(c_uint, cu.cuMemHostGetFlags, address)


def _device_pointer(address: int) -> int:
    return value(c_uint64, cu.cuMemHostGetDevicePointer_v2, address, 0)


@pytest.mark.parametrize(("flags", "reported"), [(0, 2), (2, 2), (4, 6), (7, 7)])
def test_pinned_memory_is_mapped_at_its_own_address(
    gpu: Resources, flags: int, reported: int
) -> None:
    """Under unified addressing all pinned memory is DEVICEMAP (2), asked for or not."""
    address = value(c_void_p, cu.cuMemHostAlloc, 1000, flags)
    ctypes.memset(address, 1, 1000)
    assert _flags(address) == reported
    assert _flags(address + 10) == reported
    assert _device_pointer(address) == address
    assert _device_pointer(address + 10) == address + 10
    check(cu.cuMemFreeHost(address))


def test_the_short_form_allocates_mapped_memory(gpu: Resources) -> None:
    """cuMemAllocHost is cuMemHostAlloc without flags."""
    address = gpu.pinned(64)
    assert _flags(address) == 2
    assert _device_pointer(address) == address


def test_unknown_flags_are_refused(gpu: Resources) -> None:
    """Three flags exist."""
    for flags in (8, 16, 0x100):
        assert cu.cuMemHostAlloc(byref(c_void_p()), 64, flags) == 1


def test_no_pinned_bytes_are_no_error(gpu: Resources) -> None:
    """Zero bytes give NULL and success; too many OUT_OF_MEMORY; a NULL result is refused."""
    address = c_void_p(UNTOUCHED)
    assert cu.cuMemAllocHost_v2(byref(address), 0) == 0
    assert address.value is None
    assert cu.cuMemHostAlloc(byref(address), 0, 0) == 0
    assert cu.cuMemAllocHost_v2(byref(address), 1 << 50) == 2
    assert address.value is None
    assert cu.cuMemAllocHost_v2(None, 64) == 1
    assert cu.cuMemHostAlloc(None, 64, 0) == 1


def test_pinned_memory_is_freed_once_at_its_start(gpu: Resources) -> None:
    """Interior, twice, by the wrong function, or of other memory: INVALID_VALUE."""
    address = value(c_void_p, cu.cuMemAllocHost_v2, 1000)
    assert cu.cuMemFreeHost(address + 8) == 1
    assert cu.cuMemFree_v2(address) == 1
    assert cu.cuMemFreeHost(address) == 0
    assert cu.cuMemFreeHost(address) == 1
    plain = ctypes.create_string_buffer(64)
    assert cu.cuMemFreeHost(plain) == 1
    assert cu.cuMemFreeHost(gpu.alloc(64)) == 1
    assert cu.cuMemFreeHost(None) == 0


def test_memory_the_driver_does_not_know_has_no_device_pointer(gpu: Resources) -> None:
    """Nor flags; NULL results and flags are refused."""
    plain, out, address = ctypes.create_string_buffer(64), c_uint64(), gpu.pinned(64)
    assert cu.cuMemHostGetDevicePointer_v2(byref(out), plain, 0) == 1
    assert cu.cuMemHostGetDevicePointer_v2(byref(out), None, 0) == 1
    assert cu.cuMemHostGetDevicePointer_v2(byref(out), gpu.alloc(64), 0) == 1
    assert cu.cuMemHostGetDevicePointer_v2(byref(out), address, 1) == 1
    assert cu.cuMemHostGetDevicePointer_v2(None, address, 0) == 1
    assert cu.cuMemHostGetFlags(byref(out), plain) == 1
    assert cu.cuMemHostGetFlags(byref(out), gpu.alloc(64)) == 1
    assert cu.cuMemHostGetFlags(None, address) == 1


@pytest.mark.parametrize(("flags", "reported"), [(0, 2), (1, 3), (2, 2), (3, 3)])
def test_registered_memory_is_mapped_at_its_own_address(
    pages: int, flags: int, reported: int
) -> None:
    """As pinned memory is, until it is unregistered."""
    check(cu.cuMemHostRegister_v2(pages, 2 * PAGE, flags))
    assert _flags(pages) == reported
    assert _device_pointer(pages + 100) == pages + 100
    check(cu.cuMemHostUnregister(pages))
    assert cu.cuMemHostGetFlags(byref(c_uint()), pages) == 1


def test_memory_registered_already_cannot_be_registered(pages: int) -> None:
    """The same, a part, an overlap or a cover: ALREADY_REGISTERED. Neighbours may."""
    first = pages + 4 * PAGE
    check(cu.cuMemHostRegister_v2(first, 2 * PAGE, 0))
    for start, size in [(4, 2), (5, 1), (5, 2), (3, 2), (2, 8)]:
        assert cu.cuMemHostRegister_v2(pages + start * PAGE, size * PAGE, 0) == 712
    assert cu.cuMemHostRegister_v2(first + PAGE, 100, 0) == 712
    check(cu.cuMemHostRegister_v2(first + 2 * PAGE, PAGE, 0))
    check(cu.cuMemHostUnregister(first + 2 * PAGE))
    check(cu.cuMemHostUnregister(first))


def test_registrations_are_bytes_not_pages(pages: int) -> None:
    """Two ranges of one page that do not overlap can both be registered."""
    check(cu.cuMemHostRegister_v2(pages + 100, 1000, 0))
    check(cu.cuMemHostRegister_v2(pages + 2000, 500, 0))
    check(cu.cuMemHostUnregister(pages + 100))
    check(cu.cuMemHostUnregister(pages + 2000))


def test_only_the_start_of_a_registration_can_be_unregistered(pages: int) -> None:
    """Unknown and twice are NOT_REGISTERED; inside, NULL or other memory INVALID_VALUE."""
    assert cu.cuMemHostUnregister(pages) == 713
    check(cu.cuMemHostRegister_v2(pages, 2 * PAGE, 0))
    assert cu.cuMemHostUnregister(pages + 100) == 1
    assert cu.cuMemHostUnregister(pages + PAGE) == 1
    assert cu.cuMemFreeHost(pages) == 1
    check(cu.cuMemHostUnregister(pages))
    assert cu.cuMemHostUnregister(pages) == 713
    assert cu.cuMemHostUnregister(None) == 1


def test_what_cannot_be_registered(gpu: Resources, pages: int) -> None:
    """Nothing, NULL, unmapped addresses, unknown flags, and memory the driver made."""
    assert cu.cuMemHostRegister_v2(None, PAGE, 0) == 1
    assert cu.cuMemHostRegister_v2(pages, 0, 0) == 1
    assert cu.cuMemHostRegister_v2(0x10000000000, PAGE, 0) == 1
    assert cu.cuMemHostRegister_v2(pages, PAGE, 16) == 1
    assert cu.cuMemHostRegister_v2(gpu.pinned(2 * PAGE), PAGE, 0) == 1
    assert cu.cuMemHostRegister_v2(gpu.alloc(2 * PAGE), PAGE, 0) == 1
    assert cu.cuMemHostUnregister(gpu.pinned(64)) == 1
    assert cu.cuMemHostUnregister(gpu.alloc(64)) == 1


def test_registered_memory_is_copied_like_any_other(gpu: Resources, pages: int) -> None:
    """Asynchronously, both ways."""
    check(cu.cuMemHostRegister_v2(pages, PAGE, 0))
    ctypes.memset(pages, 3, 128)
    stream, address = gpu.stream(), allocate(64)
    check(cu.cuMemcpyHtoDAsync_v2(address, pages, 64, stream))
    check(cu.cuMemcpyDtoHAsync_v2(pages + 512, address, 64, stream))
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(pages + 512, 65) == b"\x03" * 64 + b"\x00"
    check(cu.cuMemFree_v2(address))
    check(cu.cuMemHostUnregister(pages))
