"""What a GPU driver knows about an address, as `describe` returns it.

In processes of their own, on the simulated GPU; with GPULEND_TEST_DRIVER=real, on the real one.
"""

from __future__ import annotations

import os

import pytest
from machines import python

DRIVER = "cuda" if os.environ.get("GPULEND_TEST_DRIVER") == "real" else "simulated"

# The driver that gpulend chose, by hand; `make` calls a function whose first argument is a result.
BY_HAND = """
import ctypes, gpulend
from gpulend import _native
cu = ctypes.CDLL(_native.describe_driver()[1])
def make(name, *arguments):
    result = ctypes.c_uint64()
    status = getattr(cu, name)(ctypes.byref(result), *arguments)
    assert status == 0, (name, status)
    return result.value
size = ctypes.c_size_t
context = make("cuDevicePrimaryCtxRetain", 0)
assert cu.cuCtxSetCurrent(ctypes.c_void_p(context)) == 0
"""


def run(program: str, **variables: str) -> None:
    """Run a program on the driver under test, to a good end."""
    python(BY_HAND + program, GPULEND_DEVICE=DRIVER, **variables)


def test_device_memory_is_told_with_its_allocation():
    """Base, size, device, UUID, context and buffer id, also from inside."""
    run("""
base = make("cuMemAlloc_v2", size(1000))
p = gpulend.describe(base + 10)
assert (p.address, p.base, p.size, p.offset) == (base + 10, base, 1000, 10)
assert (p.memory, str(p.device), p.known, p.pool) == ("device", "cuda:0", "allocation", None)
assert p.context == context
assert p.uuid.startswith("GPU-") and len(p.uuid) == 40
assert p.buffer_id == gpulend.describe(base).buffer_id
assert hex(base) in str(p)
""")


def test_pinned_registered_and_managed_memory_are_told_apart():
    """Pinned memory is the host's; managed memory is a device's, and no pinned memory."""
    run("""
import mmap
pinned = make("cuMemAllocHost_v2", size(100))
p = gpulend.describe(pinned)
assert (p.memory, str(p.device), p.size, p.known) == ("pinned", "cpu", 100, "allocation")
managed = make("cuMemAllocManaged", size(100), 1)
p = gpulend.describe(managed + 5)
assert (p.memory, str(p.device), p.size, p.offset) == ("managed", "cuda:0", 100, 5)
pages = mmap.mmap(-1, 8192)
address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
assert gpulend.describe(address).memory == "host"
assert cu.cuMemHostRegister_v2(ctypes.c_void_p(address), size(4096), 0) == 0
assert gpulend.describe(address).memory == "pinned"
assert gpulend.describe(address + 4096).memory == "host"
assert cu.cuMemHostUnregister(ctypes.c_void_p(address)) == 0
assert gpulend.describe(address).memory == "host"
""")


def test_memory_of_a_pool_is_told_with_its_pool():
    """It has no context."""
    run("""
pool = make("cuDeviceGetDefaultMemPool", 0)
block = make("cuMemAllocAsync", size(100), None)
p = gpulend.describe(block)
assert (p.memory, p.known, p.pool, p.size, p.context) == ("device", "pool block", pool, 100, None)
""")


def test_freed_memory_has_no_passport_and_its_address_gets_another():
    """What the driver has freed is an AddressError, also where it stays mapped, as here."""
    run("""
first = make("cuMemAlloc_v2", size(1000))
before = gpulend.describe(first).buffer_id
assert cu.cuMemFree_v2(ctypes.c_uint64(first)) == 0
for address in (first, first + 999, 0x1234567890123456):
    try:
        gpulend.describe(address)
    except gpulend.AddressError as error:
        assert hex(address) in str(error) and error.code in (404, 406)
    else:
        raise AssertionError("freed memory was described")
assert gpulend.describe(make("cuMemAlloc_v2", size(1000))).buffer_id != before
""")


@pytest.mark.skipif(DRIVER == "cuda", reason="one device is enough there")
def test_each_device_is_told_by_its_number_and_uuid():
    """Two devices, two UUIDs."""
    program = """
other = make("cuDevicePrimaryCtxRetain", 1)
first = gpulend.describe(make("cuMemAlloc_v2", size(8)))
assert cu.cuCtxSetCurrent(ctypes.c_void_p(other)) == 0
second = gpulend.describe(make("cuMemAlloc_v2", size(8)))
assert [str(p.device) for p in (first, second)] == ["cuda:0", "cuda:1"]
assert first.uuid != second.uuid and second.context == other
"""
    run(program, GPULEND_SIM_DEVICES="2")


def test_describing_host_memory_chooses_no_driver():
    """A question about a list of bytes is no reason to start a GPU."""
    done = python(
        "import sys, gpulend\n"
        "assert gpulend.describe(bytearray(8)).memory == 'host'\n"
        "assert 'libgpulend_sim' not in open('/proc/self/maps').read()\n",
        GPULEND_DEVICE=DRIVER,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_still_tells_of_host_memory():
    """CUDA does not cross a fork; the kernel answers as ever."""
    run("""
import os
memory = (ctypes.c_char * 8)()
child = os.fork()
if child == 0:
    os._exit(0 if gpulend.describe(ctypes.addressof(memory)).memory == "host" else 1)
assert os.waitpid(child, 0)[1] == 0
""")
