"""Memory that is made, mapped and given access to in separate steps, for the tests."""

from __future__ import annotations

from ctypes import byref, c_int, c_uint64

from .cuda import AccessDescription, AllocationProperties, Location, check, cu
from .resources import DEVICE, value

DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
NONE, READ, READ_WRITE = 0, 1, 3  # CUmemAccess_flags
UNIT = 2 << 20


def properties(handles: int = DESCRIPTOR, device: int = 0) -> AllocationProperties:
    """Return what plain device memory is made of."""
    return AllocationProperties(
        type=PINNED, requestedHandleTypes=handles, location=Location(DEVICE, device)
    )


def create(size: int = UNIT, handles: int = DESCRIPTOR) -> int:
    """Make physical memory."""
    return value(c_uint64, cu.cuMemCreate, size, byref(properties(handles)), 0)


def reserve(size: int = UNIT) -> int:
    """Reserve addresses."""
    return value(c_uint64, cu.cuMemAddressReserve, size, 0, 0, 0)


def allow(address: int, size: int = UNIT, flags: int = READ_WRITE) -> int:
    """Set what device 0 may do; return the code."""
    return cu.cuMemSetAccess(address, size, byref(AccessDescription(Location(DEVICE, 0), flags)), 1)


def access(address: int) -> int:
    """Return what device 0 may do."""
    return value(c_uint64, cu.cuMemGetAccess, byref(Location(DEVICE, 0)), address)


def descriptor(handle: int) -> int:
    """Return a descriptor of physical memory."""
    return value(c_int, cu.cuMemExportToShareableHandle, handle, DESCRIPTOR, 0)


def import_code(number: int) -> tuple[int, int]:
    """Import a descriptor; return the code and the handle."""
    handle = c_uint64(0)
    code = cu.cuMemImportFromShareableHandle(byref(handle), number, DESCRIPTOR)
    return code, handle.value


class Mapped:
    """Physical memory that is mapped and can be used; `close` undoes it all."""

    def __init__(self, *handles: int, size: int = UNIT, flags: int = READ_WRITE) -> None:
        self.handles = handles
        self.size = size * len(handles)
        self.address = reserve(self.size)
        for number, handle in enumerate(handles):
            check(cu.cuMemMap(self.address + number * size, size, 0, handle, 0))
        check(allow(self.address, self.size, flags))

    def close(self) -> None:
        """Unmap, release and end the reservation."""
        check(cu.cuMemUnmap(self.address, self.size))
        for handle in self.handles:
            check(cu.cuMemRelease(handle))
        check(cu.cuMemAddressFree(self.address, self.size))
