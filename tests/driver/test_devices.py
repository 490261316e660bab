"""Devices: how many, which, and what they say about themselves."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_size_t, c_void_p

import pytest

from .cuda import cu
from .resources import value

pytestmark = pytest.mark.usefixtures("context")

ABSENT = 1000  # no machine has so many

# cuDeviceGetAttribute, by the names of CUdevice_attribute.
MAX_THREADS_PER_BLOCK, MAX_SHARED_MEMORY_PER_BLOCK, TOTAL_CONSTANT_MEMORY = 1, 8, 9
WARP_SIZE, MAX_PITCH, MAX_REGISTERS_PER_BLOCK, CLOCK_RATE, TEXTURE_ALIGNMENT = 10, 11, 12, 13, 14
MULTIPROCESSORS, CAN_MAP_HOST_MEMORY, COMPUTE_MODE = 16, 19, 20
PCI_BUS_ID, PCI_DEVICE_ID, PCI_DOMAIN_ID = 33, 34, 50
ASYNC_ENGINES, UNIFIED_ADDRESSING, STREAM_PRIORITIES, MANAGED_MEMORY = 40, 41, 78, 83
MAJOR, MINOR, MEMORY_POOLS = 75, 76, 115
WRITE_64_BIT_OPERATIONS, WAIT_NOR = 122, 123


def attribute(number: int, device: int = 0) -> int:
    """Ask for one device attribute."""
    return value(c_int, cu.cuDeviceGetAttribute, number, device)


def _name(device: int = 0, size: int = 256) -> bytes:
    text = ctypes.create_string_buffer(size)
    assert cu.cuDeviceGetName(text, size, device) == 0
    return text.value


def test_there_is_a_device_and_each_ordinal_is_its_handle() -> None:
    """Handles are the ordinals from zero."""
    count = value(c_int, cu.cuDeviceGetCount)
    assert count >= 1
    assert [value(c_int, cu.cuDeviceGet, i) for i in range(count)] == list(range(count))


@pytest.mark.parametrize("ordinal", [-1, ABSENT])
def test_an_absent_device_is_invalid(ordinal: int) -> None:
    """Every question about it answers INVALID_DEVICE."""
    out, text = (c_int * 16)(), ctypes.create_string_buffer(64)
    assert cu.cuDeviceGet(out, ordinal) == 101
    assert cu.cuDeviceGetName(text, 64, ordinal) == 101
    assert cu.cuDeviceGetUuid_v2(text, ordinal) == 101
    assert cu.cuDeviceTotalMem_v2(out, ordinal) == 101
    assert cu.cuDeviceGetAttribute(out, WARP_SIZE, ordinal) == 101
    assert cu.cuDeviceGetPCIBusId(text, 64, ordinal) == 101
    assert cu.cuDeviceCanAccessPeer(out, 0, ordinal) == 101
    assert cu.cuDeviceComputeCapability(out, byref(out, 8), ordinal) == 101
    assert cu.cuDeviceGetDefaultMemPool(out, ordinal) == 101
    assert cu.cuDevicePrimaryCtxRetain(out, ordinal) == 101
    assert cu.cuDevicePrimaryCtxRelease_v2(ordinal) == 101


def test_null_results_are_refused() -> None:
    """A NULL out pointer is INVALID_VALUE."""
    assert cu.cuDeviceGetCount(None) == 1
    assert cu.cuDeviceGet(None, 0) == 1
    assert cu.cuDeviceGetName(None, 10, 0) == 1
    assert cu.cuDeviceGetUuid_v2(None, 0) == 1
    assert cu.cuDeviceTotalMem_v2(None, 0) == 1
    assert cu.cuDeviceGetAttribute(None, WARP_SIZE, 0) == 1
    assert cu.cuDeviceGetPCIBusId(None, 64, 0) == 1
    assert cu.cuDeviceCanAccessPeer(None, 0, 0) == 1
    assert cu.cuDeviceGetDefaultMemPool(None, 0) == 1
    assert cu.cuDevicePrimaryCtxRetain(None, 0) == 1


def test_the_name_is_cut_to_the_space_given() -> None:
    """A shorter buffer gets the beginning and a final zero."""
    name = _name()
    assert name
    assert _name(size=5) == name[:4]


def test_each_device_has_a_uuid_of_its_own() -> None:
    """16 bytes, the same each time, the same in both versions of the call, unique."""
    count = value(c_int, cu.cuDeviceGetCount)
    seen = set()
    for device in range(count):
        first, second = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
        assert cu.cuDeviceGetUuid_v2(first, device) == 0
        assert cu.cuDeviceGetUuid(second, device) == 0
        assert first.raw == second.raw
        assert any(first.raw)
        seen.add(first.raw)
    assert len(seen) == count


def test_total_memory_is_what_the_context_sees() -> None:
    """cuDeviceTotalMem and cuMemGetInfo agree."""
    total = value(c_size_t, cu.cuDeviceTotalMem_v2, 0)
    free, seen = c_size_t(), c_size_t()
    assert cu.cuMemGetInfo_v2(byref(free), byref(seen)) == 0
    assert seen.value == total
    assert 0 < free.value <= total


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (WARP_SIZE, 32),
        (UNIFIED_ADDRESSING, 1),
        (MEMORY_POOLS, 1),
        (CAN_MAP_HOST_MEMORY, 1),
        (COMPUTE_MODE, 0),
        (MANAGED_MEMORY, 1),
        (STREAM_PRIORITIES, 1),
        (WRITE_64_BIT_OPERATIONS, 1),
        (WAIT_NOR, 1),
        (MAX_THREADS_PER_BLOCK, 1024),
        (TOTAL_CONSTANT_MEMORY, 65536),
        (TEXTURE_ALIGNMENT, 512),
        (MAX_PITCH, 2**31 - 1),
    ],
)
def test_attributes_that_hold_on_every_machine(number: int, expected: int) -> None:
    """What client code relies on, whatever the device."""
    assert attribute(number) == expected


@pytest.mark.parametrize(
    ("number", "least"),
    [
        (MULTIPROCESSORS, 1),
        (ASYNC_ENGINES, 1),
        (CLOCK_RATE, 1),
        (MAX_SHARED_MEMORY_PER_BLOCK, 48 * 1024),
        (MAX_REGISTERS_PER_BLOCK, 32768),
    ],
)
def test_attributes_that_vary_are_at_least(number: int, least: int) -> None:
    """What differs from device to device has a floor."""
    assert attribute(number) >= least


def test_every_attribute_of_cuda_12_0_is_answered() -> None:
    """No number from 1 to 127 is refused; zero and nonsense are."""
    out = c_int()
    refused = [n for n in range(1, 128) if cu.cuDeviceGetAttribute(byref(out), n, 0) != 0]
    assert refused == []
    assert [cu.cuDeviceGetAttribute(byref(out), n, 0) for n in (0, -1, 9999)] == [1, 1, 1]


def test_the_compute_capability_is_the_same_by_both_ways() -> None:
    """cuDeviceComputeCapability repeats two attributes; 7.5 is the oldest we support."""
    major, minor = c_int(), c_int()
    assert cu.cuDeviceComputeCapability(byref(major), byref(minor), 0) == 0
    assert (major.value, minor.value) == (attribute(MAJOR), attribute(MINOR))
    assert (major.value, minor.value) >= (7, 5)


def test_the_old_properties_repeat_the_attributes() -> None:
    """CUdevprop has 14 integers that are also attributes."""
    block, grid = (2, 3, 4), (5, 6, 7)
    numbers = [MAX_THREADS_PER_BLOCK, *block, *grid, MAX_SHARED_MEMORY_PER_BLOCK]
    numbers += [TOTAL_CONSTANT_MEMORY, WARP_SIZE, MAX_PITCH, MAX_REGISTERS_PER_BLOCK]
    numbers += [CLOCK_RATE, TEXTURE_ALIGNMENT]
    properties = (c_int * 14)()
    assert cu.cuDeviceGetProperties(properties, 0) == 0
    assert list(properties) == [attribute(number) for number in numbers]


def test_the_pci_address_leads_back_to_the_device() -> None:
    """domain:bus:device.function, as the attributes have it; also with less of it."""
    for device in range(value(c_int, cu.cuDeviceGetCount)):
        text = ctypes.create_string_buffer(64)
        assert cu.cuDeviceGetPCIBusId(text, 64, device) == 0
        parts = [attribute(n, device) for n in (PCI_DOMAIN_ID, PCI_BUS_ID, PCI_DEVICE_ID)]
        assert text.value.decode().lower() == "{:04x}:{:02x}:{:02x}.0".format(*parts)
        assert value(c_int, cu.cuDeviceGetByPCIBusId, text.value) == device
        for form in (text.value.lower(), text.value[5:], text.value[:-2]):
            assert value(c_int, cu.cuDeviceGetByPCIBusId, form) == device


def test_the_pci_address_needs_13_bytes() -> None:
    """It is never cut, unlike the name."""
    text = ctypes.create_string_buffer(64)
    assert [cu.cuDeviceGetPCIBusId(text, size, 0) for size in (0, 12, 13)] == [1, 1, 0]


def test_a_wrong_pci_address_is_refused() -> None:
    """Nonsense and a NULL are INVALID_VALUE; where nothing is, INVALID_DEVICE."""
    out = c_int()
    assert cu.cuDeviceGetByPCIBusId(byref(out), b"0000:ff:1f.0") == 101
    assert cu.cuDeviceGetByPCIBusId(byref(out), b"nonsense") == 1
    assert cu.cuDeviceGetByPCIBusId(byref(out), None) == 1
    assert cu.cuDeviceGetByPCIBusId(None, b"0000:00:00.0") == 1


def test_a_device_is_no_peer_of_itself() -> None:
    """Peer access means another device."""
    assert value(c_int, cu.cuDeviceCanAccessPeer, 0, 0) == 0


def test_the_default_pool_is_the_current_one_at_first() -> None:
    """One pool per device, always the same handle."""
    first = value(c_void_p, cu.cuDeviceGetDefaultMemPool, 0)
    assert first == value(c_void_p, cu.cuDeviceGetDefaultMemPool, 0)
    assert first == value(c_void_p, cu.cuDeviceGetMemPool, 0)
