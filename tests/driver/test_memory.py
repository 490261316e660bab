"""Device and managed memory: allocate, free, pitch, ranges, how much is left."""

from __future__ import annotations

import ctypes
import threading
import time
from ctypes import byref, c_size_t, c_uint64

import pytest

from .cuda import Location, check, cu
from .resources import DEVICE, HOST, JUNK, Resources, allocate, download, upload

UNTOUCHED = 99
MIB = 1 << 20


def _free_bytes() -> int:
    free = c_size_t()
    check(cu.cuMemGetInfo_v2(byref(free), None))
    return free.value


def _range(address: int) -> tuple[int, int | None, int | None]:
    base, size = c_uint64(), c_size_t()
    code = cu.cuMemGetAddressRange_v2(byref(base), byref(size), address)
    return (code, base.value, size.value) if code == 0 else (code, None, None)


@pytest.mark.parametrize("size", [1, 100, 512, 1000, 4096, MIB, MIB + 1, 5 * MIB + 3])
def test_addresses_are_aligned_and_know_their_size(gpu: Resources, size: int) -> None:
    """512 bytes, 2 MiB for large ones; the range is the size asked for, to the byte."""
    address = gpu.alloc(size)
    assert address % (2 * MIB if size >= MIB else 512) == 0
    assert _range(address) == (0, address, size)
    assert _range(address + size - 1) == (0, address, size)


def test_allocations_do_not_overlap(gpu: Resources) -> None:
    """Each keeps its bytes whatever is written to the others."""
    blocks = [(gpu.alloc(size), size) for size in (1, 1, 100, 600, 1000, 4096, 7)]
    for number, (address, size) in enumerate(blocks, 1):
        check(cu.cuMemsetD8_v2(address, number, size))
    for number, (address, size) in enumerate(blocks, 1):
        assert download(address, size) == bytes([number]) * size


def test_nothing_and_too_much_cannot_be_allocated(gpu: Resources) -> None:
    """Zero bytes are INVALID_VALUE, too many OUT_OF_MEMORY; the result is then zero."""
    for size, code in [(0, 1), (1 << 47, 2), (1 << 62, 2), ((1 << 64) - 1, 2)]:
        address = c_uint64(UNTOUCHED)
        assert cu.cuMemAlloc_v2(byref(address), size) == code
        assert address.value == 0
    assert cu.cuMemAlloc_v2(None, 16) == 1


def test_the_next_allocation_after_a_failed_one_works(gpu: Resources) -> None:
    """An error poisons nothing."""
    assert cu.cuMemAlloc_v2(byref(c_uint64()), 1 << 47) == 2
    upload(gpu.alloc(16), bytes(16))


def test_only_the_start_of_a_live_allocation_can_be_freed(gpu: Resources) -> None:
    """Interior, freed and foreign addresses are INVALID_VALUE; zero is fine."""
    address = allocate(1000)
    assert cu.cuMemFree_v2(address + 4) == 1
    assert cu.cuMemFree_v2(address + 512) == 1
    assert cu.cuMemFree_v2(address) == 0
    assert cu.cuMemFree_v2(address) == 1
    host = ctypes.create_string_buffer(64)
    for junk in (1, 4096, JUNK, (1 << 64) - 1, ctypes.addressof(host)):
        assert cu.cuMemFree_v2(junk) == 1
    assert cu.cuMemFree_v2(0) == 0


def test_queued_work_still_reads_memory_that_is_then_freed(gpu: Resources) -> None:
    """cuMemFree waits for, or keeps the memory for, what was queued before it."""
    stream, gate, out = gpu.stream(), gpu.gate(), gpu.pinned(64)
    address = allocate(64)
    upload(address, b"\x5a" * 64)
    gate.hold(stream)
    check(cu.cuMemcpyDtoHAsync_v2(out, address, 64, stream))

    def free() -> None:
        check(cu.cuCtxSetCurrent(gpu.context))
        check(cu.cuMemFree_v2(address))

    thread = threading.Thread(target=free)
    thread.start()
    time.sleep(0.02)
    gate.open()
    thread.join()
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(out, 64) == b"\x5a" * 64


def test_free_memory_goes_down_and_up(gpu: Resources) -> None:
    """By the size of a large allocation at least, within one of the driver's own blocks."""
    size = 64 * MIB
    before = _free_bytes()
    address = allocate(size)
    during = _free_bytes()
    check(cu.cuMemFree_v2(address))
    after = _free_bytes()
    assert before - during >= size - 2 * MIB
    assert after - during >= size - 2 * MIB


def test_both_results_of_the_memory_question_are_optional(gpu: Resources) -> None:
    """NULL is accepted for either."""
    assert cu.cuMemGetInfo_v2(None, None) == 0


@pytest.mark.parametrize("element", [4, 8, 16])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (100, 3), (512, 2), (513, 2), (70000, 3)])
def test_rows_of_pitched_memory_are_aligned(
    gpu: Resources, width: int, height: int, element: int
) -> None:
    """The pitch holds a row, is a multiple of the texture alignment, and fills the range."""
    address, pitch = c_uint64(), c_size_t()
    check(cu.cuMemAllocPitch_v2(byref(address), byref(pitch), width, height, element))
    assert width <= pitch.value < width + 512
    assert pitch.value % 512 == 0
    assert _range(address.value) == (0, address.value, pitch.value * height)
    check(cu.cuMemFree_v2(address))


def test_pitched_memory_needs_extents_and_an_element_size(gpu: Resources) -> None:
    """Elements have 4, 8 or 16 bytes; no extent may be zero."""
    address, pitch = c_uint64(), c_size_t()
    for width, height, element in [(100, 3, e) for e in (0, 1, 2, 3, 32)] + [
        (0, 3, 4),
        (100, 0, 4),
    ]:
        code = cu.cuMemAllocPitch_v2(byref(address), byref(pitch), width, height, element)
        assert code == 1, (width, height, element)
    assert cu.cuMemAllocPitch_v2(None, byref(pitch), 10, 10, 4) == 1
    assert cu.cuMemAllocPitch_v2(byref(address), None, 10, 10, 4) == 1


def test_an_address_that_is_no_memory_of_ours_has_no_range(gpu: Resources) -> None:
    """Before, behind, freed, plain host memory and junk are NOT_FOUND."""
    address = gpu.alloc(1000)
    freed = allocate(1000)
    check(cu.cuMemFree_v2(freed))
    host = ctypes.create_string_buffer(64)
    for wrong in (address - 1, address + 1000, freed, 0, JUNK, ctypes.addressof(host)):
        assert _range(wrong) == (500, None, None)


def test_pinned_and_managed_memory_have_ranges_too(gpu: Resources) -> None:
    """The question is about any memory the driver knows; either result may be left out."""
    for address in (gpu.pinned(1000), gpu.managed(1000)):
        assert _range(address + 10) == (0, address, 1000)
        assert cu.cuMemGetAddressRange_v2(None, None, address) == 0


def test_managed_memory_is_one_address_for_host_and_device(gpu: Resources) -> None:
    """What the host writes the device changes, and the host sees it."""
    address = gpu.managed(1000)
    ctypes.memset(address, 7, 1000)
    check(cu.cuMemsetD8_v2(address, 9, 10))
    check(cu.cuCtxSynchronize())
    assert ctypes.string_at(address, 12) == b"\x09" * 10 + b"\x07" * 2
    assert cu.cuMemFreeHost(address) == 1


def test_managed_memory_is_attached_to_all_or_to_the_host(gpu: Resources) -> None:
    """Flags 1 and 2 alone are valid; nothing and too much cannot be allocated."""
    for size, flags, code in [
        *[(1000, 1, 0), (1000, 2, 0), (1000, 0, 1), (1000, 3, 1), (1000, 4, 1)],
        *[(0, 1, 1), (1 << 50, 1, 2)],
    ]:
        address = c_uint64()
        assert cu.cuMemAllocManaged(byref(address), size, flags) == code, (size, flags)
        if code == 0:
            check(cu.cuMemFree_v2(address))
    assert cu.cuMemAllocManaged(None, 16, 1) == 1


def test_managed_memory_can_be_advised_and_prefetched(gpu: Resources) -> None:
    """To a device that exists or the host; device memory is not managed."""
    address, here = gpu.managed(4096), Location(DEVICE, 0)
    assert cu.cuMemAdvise_v2(address, 4096, 1, here) == 0
    assert cu.cuMemPrefetchAsync_v2(address, 4096, here, 0, None) == 0
    assert cu.cuMemPrefetchAsync_v2(address, 4096, Location(HOST, 0), 0, None) == 0
    assert cu.cuMemPrefetchAsync_v2(address, 4096, Location(DEVICE, 1000), 0, None) == 101
    plain = gpu.alloc(4096)
    assert cu.cuMemAdvise_v2(plain, 4096, 1, here) == 1
    assert cu.cuMemPrefetchAsync_v2(plain, 4096, here, 0, None) == 1
    assert cu.cuStreamSynchronize(None) == 0
