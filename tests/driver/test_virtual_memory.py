"""Memory that is made, mapped and given access to in separate steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import pytest

from .control import only_simulated
from .cuda import AccessDescription, AllocationProperties, Location, check, cu
from .kernels import Module, launch, set_words, words
from .resources import (
    DEVICE,
    JUNK,
    Resources,
    alone,
    download,
    pattern,
    start,
    undefined_on_hardware,
    upload,
    value,
)
from .virtual import (
    DESCRIPTOR,
    NONE,
    READ,
    READ_WRITE,
    UNIT,
    Mapped,
    access,
    allow,
    create,
    properties,
    reserve,
)

ILLEGAL_ADDRESS = 700
# CUpointer_attribute
CONTEXT, MEMORY_TYPE, HOST_POINTER, BUFFER_ID, ORDINAL, LEGACY_CAPABLE = 1, 2, 4, 7, 9, 10
RANGE_START, RANGE_SIZE, HANDLE_TYPES, POOL = 11, 12, 14, 17
SUPPORTED, DESCRIPTORS = 102, 103  # CUdevice_attribute


@pytest.fixture
def mapped(gpu: Resources) -> Iterator[Mapped]:
    """One unit of memory that can be used."""
    made = Mapped(create())
    yield made
    check(cu.cuCtxSynchronize())
    made.close()


def _memory_free() -> int:
    free, total = c_size_t(), c_size_t()
    check(cu.cuMemGetInfo_v2(byref(free), byref(total)))
    return free.value


def test_the_device_says_that_it_can(gpu: Resources) -> None:
    """And that it shares by descriptors; both granularities are 2 MiB."""
    for attribute in (SUPPORTED, DESCRIPTORS):
        assert value(c_int, cu.cuDeviceGetAttribute, attribute, 0) == 1
    for option in (0, 1):
        ask = (byref(properties()), option)
        assert value(c_size_t, cu.cuMemGetAllocationGranularity, *ask) == UNIT


def test_memory_is_used_as_any_other(mapped: Mapped) -> None:
    """Copies, fills, both ends of it."""
    upload(mapped.address, pattern(UNIT, 3))
    assert download(mapped.address, UNIT) == pattern(UNIT, 3)
    check(cu.cuMemsetD32_v2(mapped.address + UNIT - 8, 7, 2))
    assert download(mapped.address + UNIT - 8, 8) == bytes([7, 0, 0, 0] * 2)


def test_kernels_run_on_it(gpu: Resources, mapped: Mapped) -> None:
    """As on any other memory."""
    set_words(mapped.address, [1, 2, 3, 4])
    given = [c_uint64(mapped.address + at) for at in (16, 0, 0)]
    check(launch(Module(gpu)["sum"], *given, c_uint(4), block=(4,)))
    assert words(mapped.address + 16, 4) == [2, 4, 6, 8]


def test_neighbours_are_one_range(gpu: Resources) -> None:
    """Copies and kernels go over the border of two mappings, as of an expandable segment."""
    both = Mapped(create(), create())
    border = both.address + UNIT
    upload(border - 4096, pattern(8192, 5))
    assert download(border - 4096, 8192) == pattern(8192, 5)
    check(cu.cuMemsetD8_v2(border - 16, 9, 32))
    set_words(border - 8, [1, 2, 3, 4])
    given = [c_uint64(border - 8)] * 3
    check(launch(Module(gpu)["sum"], *given, c_uint(4), block=(4,)))
    assert words(border - 8, 4) == [2, 4, 6, 8]
    check(cu.cuCtxSynchronize())
    both.close()


def test_one_memory_is_mapped_twice(gpu: Resources) -> None:
    """Both places show the same bytes."""
    handle = create()
    first, second = Mapped(handle), Mapped(handle)
    upload(first.address, pattern(4096, 2))
    assert download(second.address, 4096) == pattern(4096, 2)
    check(cu.cuMemUnmap(first.address, UNIT))
    assert download(second.address, 4096) == pattern(4096, 2)
    check(cu.cuMemAddressFree(first.address, UNIT))
    second.close()


def test_bytes_stay_while_they_are_mapped_or_held(gpu: Resources) -> None:
    """A mapping keeps them without the handle, a handle without a mapping."""
    before = _memory_free()
    handle = create()
    mapped = Mapped(handle)
    upload(mapped.address, pattern(4096, 2))
    check(cu.cuMemRelease(handle))
    assert cu.cuMemRelease(handle) == 1
    assert download(mapped.address, 4096) == pattern(4096, 2)
    again = value(c_uint64, cu.cuMemRetainAllocationHandle, mapped.address + 5)
    check(cu.cuMemUnmap(mapped.address, UNIT))
    check(cu.cuMemMap(mapped.address, UNIT, 0, again, 0))
    check(allow(mapped.address))
    assert download(mapped.address, 4096) == pattern(4096, 2)
    check(cu.cuMemUnmap(mapped.address, UNIT))
    check(cu.cuMemRelease(again))
    check(cu.cuMemAddressFree(mapped.address, UNIT))
    assert _memory_free() == before


def test_a_handle_is_counted(mapped: Mapped) -> None:
    """Each retain wants a release."""
    handle = value(c_uint64, cu.cuMemRetainAllocationHandle, mapped.address)
    found = AllocationProperties()
    check(cu.cuMemGetAllocationPropertiesFromHandle(byref(found), handle))
    assert (found.type, found.requestedHandleTypes) == (1, DESCRIPTOR)
    assert (found.location.type, found.location.id) == (DEVICE, 0)
    check(cu.cuMemRelease(handle))


def test_nothing_may_access_memory_before_it_is_allowed(gpu: Resources) -> None:
    """Neither copies nor fills; access can be given and taken."""
    handle, address = create(), reserve()
    assert cu.cuMemsetD8_v2(address, 1, 16) == 1
    check(cu.cuMemMap(address, UNIT, 0, handle, 0))
    assert access(address) == NONE
    assert cu.cuMemsetD8_v2(address, 1, 16) == 1
    check(allow(address))
    assert access(address) == READ_WRITE
    check(cu.cuMemsetD8_v2(address, 1, 16))
    check(cu.cuCtxSynchronize())
    check(cu.cuMemUnmap(address, UNIT))
    assert cu.cuMemsetD8_v2(address, 1, 16) == 1
    check(cu.cuMemRelease(handle))
    check(cu.cuMemAddressFree(address, UNIT))


def test_memory_can_be_for_reading_only(gpu: Resources) -> None:
    """A fill is INVALID_VALUE, a copy from it works, and the context goes on."""
    handle = create()
    writer, reader = Mapped(handle), Mapped(handle, flags=READ)
    assert access(reader.address) == READ
    upload(writer.address, pattern(64, 4))
    assert cu.cuMemsetD8_v2(reader.address, 1, 16) == 1
    assert download(reader.address, 64) == pattern(64, 4)
    check(cu.cuMemUnmap(reader.address, UNIT))
    check(cu.cuMemAddressFree(reader.address, UNIT))
    writer.close()


def _fault(prepare: Callable[[Resources], int]) -> list[Any]:
    resources = Resources(start())
    check(launch(Module(resources)["poke"], c_uint64(prepare(resources)), c_uint(5)))
    return [cu.cuCtxSynchronize()]


def _store_unmapped(_: Resources) -> int:
    return reserve()


def _store_without_access(_: Resources) -> int:
    address = reserve()
    check(cu.cuMemMap(address, UNIT, 0, create(), 0))
    return address


def _store_read_only(_: Resources) -> int:
    return Mapped(create(), flags=READ).address


def _store_past_the_end(_: Resources) -> int:
    address = reserve(2 * UNIT)
    check(cu.cuMemMap(address, UNIT, 0, create(), 0))
    check(allow(address))
    return address + UNIT


def fault_unmapped() -> list[Any]:
    """Store where nothing is mapped."""
    return _fault(_store_unmapped)


def fault_without_access() -> list[Any]:
    """Store where nothing is allowed."""
    return _fault(_store_without_access)


def fault_read_only() -> list[Any]:
    """Store where only reading is allowed."""
    return _fault(_store_read_only)


def fault_past_the_end() -> list[Any]:
    """Store in reserved addresses behind a mapping."""
    return _fault(_store_past_the_end)


@pytest.mark.parametrize(
    "case", [fault_unmapped, fault_without_access, fault_read_only, fault_past_the_end]
)
def test_a_kernel_that_stores_where_it_may_not_faults(case: Callable[[], list[Any]]) -> None:
    """As an illegal address, in a process of its own: hardware loses the context."""
    assert alone(case) == [ILLEGAL_ADDRESS]


def test_attributes_are_those_of_a_mapping(gpu: Resources, mapped: Mapped) -> None:
    """No context, its own device and handle types; no legacy handle."""
    address = mapped.address + 4097
    ask = cu.cuPointerGetAttribute
    assert value(c_uint, ask, MEMORY_TYPE, address) == 2
    assert value(c_int, ask, ORDINAL, address) == 0
    assert value(c_int, ask, LEGACY_CAPABLE, address) == 0
    assert value(c_uint64, ask, HANDLE_TYPES, address) == DESCRIPTOR
    assert value(c_uint64, ask, RANGE_START, address) == mapped.address
    assert value(c_uint64, ask, RANGE_SIZE, address) == UNIT
    assert value(c_uint64, ask, BUFFER_ID, address) > 0
    assert value(c_void_p, ask, POOL, address) is None
    assert cu.cuIpcGetMemHandle(byref((c_uint64 * 8)()), address) == 1
    assert cu.cuMemFree_v2(mapped.address) == 1


def test_an_attribute_names_the_reservation_and_a_function_the_mapping(gpu: Resources) -> None:
    """As the driver does, of any byte of it."""
    handle, address = create(), reserve(4 * UNIT)
    check(cu.cuMemMap(address + UNIT, UNIT, 0, handle, 0))
    ask, inside = cu.cuPointerGetAttribute, address + UNIT + 5
    assert value(c_uint64, ask, RANGE_START, inside) == address
    assert value(c_uint64, ask, RANGE_SIZE, inside) == 4 * UNIT
    start_of, size = c_uint64(7), c_size_t(7)
    # Only while a device may access it.
    for flags in (None, READ_WRITE, NONE):
        if flags is not None:
            check(allow(address + UNIT, flags=flags))
        code = cu.cuMemGetAddressRange_v2(byref(start_of), byref(size), inside)
        found = (code, start_of.value, size.value)
        assert found == ((0, address + UNIT, UNIT) if flags else (500, 0, 0))
    check(cu.cuMemUnmap(address + UNIT, UNIT))
    check(cu.cuMemRelease(handle))
    check(cu.cuMemAddressFree(address, 4 * UNIT))


def test_each_mapping_has_a_buffer_id_of_its_own(gpu: Resources) -> None:
    """Also a later one at the same address."""
    handle, address, seen = create(), reserve(), set()
    for _ in range(3):
        check(cu.cuMemMap(address, UNIT, 0, handle, 0))
        check(allow(address))
        seen.add(value(c_uint64, cu.cuPointerGetAttribute, BUFFER_ID, address))
        check(cu.cuMemUnmap(address, UNIT))
    assert len(seen) == 3
    check(cu.cuMemRelease(handle))
    check(cu.cuMemAddressFree(address, UNIT))


def test_what_is_reserved_and_not_mapped_is_no_memory(gpu: Resources) -> None:
    """Its attributes are unknown, and it cannot be freed as memory."""
    address, out = reserve(), c_uint64()
    assert cu.cuPointerGetAttribute(byref(out), BUFFER_ID, address) == 1
    assert cu.cuMemFree_v2(address) == 1
    assert cu.cuMemRetainAllocationHandle(byref(out), address) == 1
    check(cu.cuMemAddressFree(address, UNIT))


def test_sizes_and_places_are_whole_units(gpu: Resources) -> None:
    """Everything else is INVALID_VALUE, and nothing is left behind."""
    handle, address, out = create(), reserve(4 * UNIT), c_uint64()
    made = byref(properties())
    assert [cu.cuMemCreate(byref(out), size, made, 0) for size in (0, 1, UNIT + 4096)] == [1] * 3
    assert cu.cuMemCreate(byref(out), UNIT, made, 1) == 1
    assert cu.cuMemAddressReserve(byref(out), 0, 0, 0, 0) == 1
    assert cu.cuMemAddressReserve(byref(out), UNIT, 3, 0, 0) == 1
    assert cu.cuMemMap(address + 4096, UNIT, 0, handle, 0) == 1
    for size, offset in [(4096, 0), (UNIT, UNIT), (2 * UNIT, 0)]:
        assert cu.cuMemMap(address, size, offset, handle, 0) == 801
    assert cu.cuMemMap(address + 4 * UNIT, UNIT, 0, handle, 0) == 1
    assert cu.cuMemMap(address, UNIT, 0, handle, 1) == 1
    check(cu.cuMemMap(address, UNIT, 0, handle, 0))
    assert cu.cuMemMap(address, UNIT, 0, handle, 0) == 1
    assert cu.cuMemAddressFree(address, 4 * UNIT) == 1
    assert allow(address, 2 * UNIT) == 1
    check(cu.cuMemUnmap(address, UNIT))
    check(cu.cuMemRelease(handle))
    assert cu.cuMemAddressFree(address, UNIT) == 1
    assert cu.cuMemAddressFree(address + UNIT, 3 * UNIT) == 1
    check(cu.cuMemAddressFree(address, 4 * UNIT))


def test_a_mapping_is_not_cut_and_gaps_are_no_error(gpu: Resources) -> None:
    """A part of one cannot be unmapped or given access to; what is not mapped can be unmapped."""
    handle, address = create(2 * UNIT), reserve(8 * UNIT)
    assert cu.cuMemMap(address, UNIT, 0, handle, 0) == 801
    check(cu.cuMemMap(address, 2 * UNIT, 0, handle, 0))
    assert allow(address, UNIT) == 1
    assert [cu.cuMemUnmap(address + at, UNIT) for at in (0, UNIT)] == [1, 1]
    check(cu.cuMemUnmap(address, 4 * UNIT))
    check(cu.cuMemUnmap(address + 4 * UNIT, UNIT))
    check(cu.cuMemRelease(handle))
    check(cu.cuMemAddressFree(address, 8 * UNIT))


@undefined_on_hardware("a driver reads what the handle names")
def test_handles_that_are_none_are_refused(gpu: Resources) -> None:
    """Zero, and what was released."""
    handle, address, out = create(), reserve(), c_int()
    check(cu.cuMemRelease(handle))
    for wrong in (0, handle):
        assert cu.cuMemMap(address, UNIT, 0, wrong, 0) == 1
        assert cu.cuMemRelease(wrong) == 1
        assert cu.cuMemExportToShareableHandle(byref(out), wrong, DESCRIPTOR, 0) == 1
    assert cu.cuMemUnmap(JUNK & ~(UNIT - 1), UNIT) == 1
    check(cu.cuMemAddressFree(address, UNIT))


def test_properties_are_checked(gpu: Resources) -> None:
    """A type, a device, a place that is one."""
    out = c_uint64()
    wrong = properties()
    wrong.type = 0
    assert cu.cuMemCreate(byref(out), UNIT, byref(wrong), 0) == 1
    assert cu.cuMemCreate(byref(out), UNIT, byref(properties(device=1000)), 0) == 101
    assert cu.cuMemCreate(byref(out), UNIT, None, 0) == 1
    assert cu.cuMemCreate(None, UNIT, byref(properties()), 0) == 1
    assert cu.cuMemGetAllocationGranularity(byref(out), byref(properties()), 9) == 1


def test_access_is_one_of_three_of_a_device_that_exists(mapped: Mapped) -> None:
    """And at least one is described."""
    wrong = AccessDescription(Location(DEVICE, 1000), READ_WRITE)
    assert cu.cuMemSetAccess(mapped.address, UNIT, byref(wrong), 1) == 1
    assert allow(mapped.address, UNIT, 2) == 1
    assert cu.cuMemSetAccess(mapped.address, UNIT, byref(wrong), 0) == 1
    assert access(mapped.address) == READ_WRITE


def test_physical_memory_counts_and_ends(gpu: Resources) -> None:
    """Until its last handle and mapping are gone; addresses cost nothing."""
    before = _memory_free()
    address = reserve(64 * UNIT)
    assert _memory_free() == before
    handle = create(8 * UNIT)
    assert _memory_free() <= before - 8 * UNIT
    check(cu.cuMemRelease(handle))
    check(cu.cuMemAddressFree(address, 64 * UNIT))
    assert _memory_free() == before
    out = c_uint64()
    assert cu.cuMemCreate(byref(out), 1 << 50, byref(properties()), 0) == 2


@only_simulated
def test_unmapping_waits_for_the_work_on_it(gpu: Resources) -> None:
    """Hardware leaves that to the program."""
    handle, stream = create(), gpu.stream()
    first, second = Mapped(handle), Mapped(handle)
    check(cu.cuMemsetD8Async(first.address, 6, 4096, stream))
    check(cu.cuMemUnmap(first.address, UNIT))
    assert download(second.address, 4096) == b"\x06" * 4096
    check(cu.cuMemAddressFree(first.address, UNIT))
    second.close()
