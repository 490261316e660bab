"""PyCUDA both ways: arrays and allocations of primary contexts; others are refused by name."""

from __future__ import annotations

import gc
from pathlib import Path

import gpulend
import numpy as np
import pytest
from driver.resources import LEGACY

from .resources import (
    SIMULATED,
    eventually,
    fill,
    need,
    need_two_devices,
    nothing_stays,
    python,
    stuck,
)

SIZE = 4096


@pytest.fixture
def cuda(context):
    """PyCUDA's driver, the primary context being its current one."""
    driver = need("pycuda.driver")
    driver.init()
    primary = driver.Device(0).retain_primary_context()
    primary.push()
    yield driver
    gc.collect()
    primary.pop()


@pytest.fixture
def gpuarray(cuda):
    """PyCUDA's arrays."""
    return need("pycuda.gpuarray")


def test_an_array_is_borrowed(gpuarray):
    """The same address, type and layout."""
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    array = gpuarray.to_gpu(values)
    lease = gpulend.borrow(array)
    assert (lease.address, lease.device) == (array.ptr, "cuda:0")
    assert (lease.shape, lease.dtype) == ((4, 6), "float32")
    assert np.array_equal(lease.to_host(), values)
    part = gpulend.borrow(array[1:, ::2])
    assert np.array_equal(part.to_host(), values[1:, ::2])


def test_an_allocation_is_borrowed_as_its_bytes(cuda):
    """It knows its address only: the driver knows how long it is."""
    allocation = cuda.mem_alloc(SIZE)
    cuda.memcpy_htod(allocation, np.arange(SIZE // 4, dtype=np.float32))
    lease = gpulend.borrow(allocation)
    assert (lease.address, lease.shape, lease.dtype) == (int(allocation), (SIZE,), "uint8")
    numbers = lease.view("float32")
    del allocation, lease
    gc.collect()
    assert np.array_equal(numbers.to_host(), np.arange(SIZE // 4, dtype=np.float32))


def test_an_allocation_is_let_go_when_the_lease_is(cuda):
    """Its memory is freed by PyCUDA, once nobody holds it."""
    with nothing_stays():
        allocation = cuda.mem_alloc(SIZE)
        address = int(allocation)
        lease = gpulend.borrow(allocation)
        del allocation
        gc.collect()
        assert gpulend.describe(address).known == "allocation"
        lease.release()
        del lease

    def is_freed() -> bool:
        try:
            gpulend.wrap(address, SIZE, "uint8", unowned=True)
        except gpulend.AddressError:
            return True
        return False

    eventually(is_freed, "PyCUDA freed the allocation")


def test_managed_and_pinned_memory_is_borrowed(cuda):
    """As NumPy's arrays, which PyCUDA makes of them."""
    managed = cuda.managed_empty(16, np.float32, mem_flags=cuda.mem_attach_flags.GLOBAL)
    managed[:] = 3
    assert gpulend.describe(managed).memory == "managed"
    assert gpulend.borrow(managed).address == managed.ctypes.data
    pinned = cuda.pagelocked_empty(16, np.float32)
    assert gpulend.describe(pinned).memory == "pinned"
    assert gpulend.borrow(pinned).address == pinned.ctypes.data


@pytest.mark.parametrize("what", ["array", "allocation"])
def test_the_default_stream_is_waited_for(gpu, cuda, gpuarray, what):
    """Neither says its stream: PyCUDA's default one is the legacy one."""
    gate, consumer = gpu.gate(), gpulend.Stream()
    array = gpuarray.to_gpu(np.zeros(SIZE, np.uint8)) if what == "array" else cuda.mem_alloc(SIZE)
    gpulend.synchronize()
    gate.hold(LEGACY)
    fill(array.ptr if what == "array" else int(array), 5, SIZE, LEGACY)
    lease = gpulend.borrow(array, consumer)
    with consumer:
        out = gpulend.empty(SIZE, "uint8")
        out.copy_from(lease)
    assert stuck(consumer)
    assert gate.closed
    gate.open()
    assert set(out.to_host().tolist()) == {5}


def test_the_stream_that_was_named_is_waited_for(gpu, cuda):
    """Who works elsewhere says so: PyCUDA's own stream objects are taken."""
    gate, consumer, stream = gpu.gate(), gpulend.Stream(), cuda.Stream()
    allocation = cuda.mem_alloc(SIZE)
    gpulend.synchronize()
    gate.hold(stream.handle)
    cuda.memset_d8_async(allocation, 6, SIZE, stream)
    lease = gpulend.borrow(allocation, consumer, ready_on=stream)
    with consumer:
        out = gpulend.empty(SIZE, "uint8")
        out.copy_from(lease)
    assert stuck(consumer)
    gate.open()
    assert set(out.to_host().tolist()) == {6}


def test_a_lease_becomes_an_array(gpuarray):
    """Without a copy, any strides, kept as long as the array or a slice of it."""
    with nothing_stays():
        lease = gpulend.from_host(np.arange(24, dtype=np.float32).reshape(4, 6))
        array = lease.lend("pycuda")
        assert isinstance(array, gpuarray.GPUArray)
        assert (array.ptr, array.shape, array.dtype) == (lease.address, (4, 6), np.float32)
        assert lease[1:, ::2].lend("pycuda").strides == (24, 8)
        part = array[1:]
        del lease, array
        gc.collect()
        assert part.get().tolist() == np.arange(6, 24).reshape(3, 6).tolist()
        del part


def test_an_array_of_another_framework_is_lent(cuda):
    """From cuda.core to PyCUDA, which writes it."""
    device = need("cuda.core").Device(0)
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(SIZE, stream=stream)
    buffer.fill(3, stream=stream)
    array = gpulend.lend(gpulend.borrow(buffer, ready_on=stream), "pycuda")
    assert (array.ptr, set(array.get().tolist())) == (int(buffer.handle), {3})


def test_memory_of_the_host_is_refused(cuda):
    """The error names the copy."""
    with pytest.raises(gpulend.ExportError, match="from_host"):
        gpulend.lend(np.zeros(4), "pycuda")


def test_another_device_s_context_is_refused(cuda):
    """PyCUDA would use the memory in the context that is current."""
    need_two_devices()
    other = cuda.Device(1).retain_primary_context()
    other.push()
    try:
        with pytest.raises(gpulend.AddressError, match="cuda:1") as caught:
            gpulend.zeros(4, "float32", device="cuda:0").lend("pycuda")
    finally:
        other.pop()
    assert caught.value.code == 451


AUTOINIT = """
    import sys
    from pathlib import Path
    sys.path.extend(map(str, Path({root!r}).glob(".pycuda/lib/python*/site-packages")))
    import gpulend
    gpulend.simulate(expose=True)
    import numpy as np
    {imports}
    import pycuda.driver, pycuda.gpuarray
    def tried(what):
        try:
            return repr(what())
        except gpulend.AddressError as error:
            return f"{{error.code}} {{error}}"
    array = pycuda.gpuarray.to_gpu(np.arange(4, dtype=np.float32))
    print(tried(lambda: gpulend.borrow(array).shape))
    print(tried(lambda: gpulend.borrow(array.gpudata).shape))
    print(tried(lambda: gpulend.zeros(4, "float32").lend("pycuda").get().tolist()))
"""


def program(imports: str) -> list[str]:
    """Borrow from and lend to PyCUDA in a process of its own; return what came of it."""
    need("pycuda")
    root = str(Path(__file__).parents[2])
    text = AUTOINIT if SIMULATED else AUTOINIT.replace("gpulend.simulate(expose=True)", "")
    return python(text.format(root=root, imports=imports)).splitlines()


def test_the_context_of_autoinit_is_explained():
    """`pycuda.autoinit` makes a context of its own: the errors name the module that does not."""
    for said in program("import pycuda.autoinit"):
        assert said.startswith("410 ")
        assert "pycuda.autoprimaryctx instead of pycuda.autoinit" in said.replace("`", "")


def test_the_primary_context_works_as_named():
    """What those errors name works, both ways."""
    said = program("import pycuda.autoprimaryctx")
    assert said == ["(4,)", "(16,)", "[0.0, 0.0, 0.0, 0.0]"]


def test_without_a_context_the_error_names_one(context):
    """PyCUDA knows only contexts that it pushed itself."""
    need("pycuda.driver").init()
    with pytest.raises(gpulend.AddressError, match="autoprimaryctx") as caught:
        gpulend.zeros(4, "float32").lend("pycuda")
    assert caught.value.code == 451
