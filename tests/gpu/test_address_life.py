"""Memory that is freed or reused after it was wrapped, and memory of other kinds than device."""

from __future__ import annotations

import ctypes
import mmap

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import allocate, upload

from .resources import (
    SIMULATED,
    need,
    only_real,
    python,
    still_works,
)


def again_at(wanted, size):
    """Allocate and free until memory lies at an address that was freed."""
    for _ in range(4096):
        address = allocate(size)
        if address == wanted:
            return
        check(cu.cuMemFree_v2(address))
    raise AssertionError("the driver did not hand the address out again")


def through_pointer(lease):
    """Take the bare address."""
    with lease.pointer():
        pass


USES = {
    "numpy": lambda lease: lease.lend("numpy") if SIMULATED else lease.to_host(),
    "cuda.core": lambda lease: lease.lend("cuda.core"),
    "dlpack": lambda lease: lease.__dlpack__(stream=1),
    "cuda_array_interface": lambda lease: lease.as_cuda().__cuda_array_interface__,
    "to_host": lambda lease: lease.to_host(),
    "copy_from": lambda lease: lease.copy_from(np.zeros(lease.shape, np.float32)),
    "pointer": through_pointer,
    "slice": lambda lease: lease[:1].to_host(),
}


@pytest.mark.parametrize("use", USES)
def test_memory_freed_since_it_was_wrapped_is_refused(gpu, use):
    """The owner may free too early: each way out asks the driver again."""
    if use == "cuda.core":
        need("cuda.core")
    address = allocate(1 << 20)
    lease = gpulend.wrap(address, (1 << 18,), "float32", unowned=True)
    check(cu.cuMemFree_v2(address))
    with pytest.raises(gpulend.AddressError, match="freed") as caught:
        USES[use](lease)
    assert caught.value.code == 411
    assert f"{address:#x}" in str(caught.value)
    still_works()


@pytest.mark.parametrize("use", ["cuda.core", "dlpack", "to_host"])
def test_memory_reused_since_it_was_wrapped_is_refused(gpu, use):
    """The same address allocated again is another's memory, which only the buffer id shows."""
    if use == "cuda.core":
        need("cuda.core")
    size = 16 << 20
    address = allocate(size)
    lease = gpulend.wrap(address, (16,), "float32", unowned=True)
    before = gpulend.describe(address).buffer_id
    check(cu.cuMemFree_v2(address))
    again_at(address, size)
    try:
        assert gpulend.describe(address).buffer_id != before
        with pytest.raises(gpulend.AddressError) as caught:
            USES[use](lease)
        assert caught.value.code == 411
        assert gpulend.wrap(address, (16,), "float32", unowned=True).to_host().shape == (16,)
    finally:
        check(cu.cuMemFree_v2(address))


def test_memory_that_stays_is_exported_again_and_again(gpu):
    """The question at each export must not refuse what is alive."""
    address = gpu.alloc(64)
    upload(address, np.arange(16, dtype=np.float32).tobytes())
    lease = gpulend.wrap(address, (16,), "float32", unowned=True)
    for use in USES.values():
        if use is not USES["cuda.core"]:
            use(lease)
    assert lease.to_host().shape == (16,)


def test_unchecked_memory_is_not_asked_about_at_exports(gpu):
    """`check=False` holds for the life of the lease, not for its first moment only."""
    address = allocate(64)
    lease = gpulend.wrap(address, (16,), "float32", device="cuda:0", unowned=True, check=False)
    check(cu.cuMemFree_v2(address))
    assert lease.as_cuda().__cuda_array_interface__["data"][0] == address


def pinned(gpu):
    """Memory of the host that the driver allocated."""
    return gpu.pinned(64), "pinned", "cpu", lambda: None


def registered(gpu):
    """Memory of the host that was registered with the driver."""
    pages = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    view = ctypes.c_char.from_buffer(pages)
    address = ctypes.addressof(view)
    check(cu.cuMemHostRegister_v2(address, 4 * mmap.PAGESIZE, 0))
    return address, "pinned", "cpu", lambda: (check(cu.cuMemHostUnregister(address)), view)


def managed(gpu):
    """Memory that moves between host and GPU."""
    return gpu.managed(64), "managed", "cuda:0", lambda: None


KINDS = [pinned, registered, managed]


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_other_kinds_is_called_what_it_is(gpu, kind):
    """Pinned and managed are kinds of memory, not devices; drivers answer much alike for both."""
    address, memory, device, put_away = kind(gpu)
    passport = gpulend.describe(address)
    assert (passport.memory, passport.device) == (memory, device)
    assert passport.base <= address < passport.base + passport.size
    lease = gpulend.wrap(address, (16,), "float32", unowned=True)
    assert (lease.memory, lease.device) == (memory, device)
    with pytest.raises(gpulend.AddressError) as caught:
        gpulend.wrap(address, (1 << 20,), "float32", unowned=True)
    assert caught.value.code == 408
    put_away()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_memory_of_other_kinds_is_lent_without_a_copy(gpu, kind, target):
    """Consumers know `cpu` and `cuda` only: each gets the memory under the name that it takes."""
    framework = need(target)
    address, _, _, put_away = kind(gpu)
    # Host and GPU both reach all three kinds, as long as no work is queued.
    (ctypes.c_float * 16).from_address(address)[:] = [1.0] * 16
    lease = gpulend.wrap(address, (16,), "float32", unowned=True)
    lent = lease.lend(target)
    assert (lent.ctypes.data if target == "numpy" else lent.data_ptr()) == address
    assert lent.tolist() == [1.0] * 16
    lent[3] = 5.0
    if target == "torch" and lent.is_cuda:
        framework.cuda.synchronize()
    assert lease.to_host()[3] == 5.0
    del lent
    del lease
    gpulend.synchronize()
    put_away()


def test_registered_memory_that_was_unregistered_stays_host_memory(gpu):
    """Unregistering takes a property away, not the memory; a new lease sees plain host memory."""
    pages = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    view = ctypes.c_char.from_buffer(pages)
    address = ctypes.addressof(view)
    check(cu.cuMemHostRegister_v2(address, 4 * mmap.PAGESIZE, 0))
    assert gpulend.wrap(address, (4,), "float32", owner=view).memory == "pinned"
    check(cu.cuMemHostUnregister(address))
    assert gpulend.wrap(address, (4,), "float32", owner=view).memory == "host"


@pytest.mark.parametrize("kind", [pinned, registered])
def test_pinned_memory_takes_part_in_copies(gpu, kind):
    """Copies between a GPU and pinned memory are the ones that users pin for."""
    address, _, _, put_away = kind(gpu)
    host = gpulend.wrap(address, (16,), "float32", unowned=True)
    host.copy_from(np.arange(16, dtype=np.float32))
    there = gpulend.from_host(host)
    assert there.device == "cuda:0"
    assert there.to_host().tolist() == list(range(16))
    doubled = gpulend.from_host(np.arange(0, 32, 2, dtype=np.float32))
    doubled.copy_to(host)
    assert host.to_host().tolist() == list(range(0, 32, 2))
    put_away()


def test_a_block_of_a_pool_is_known_as_one(gpu):
    """Blocks of the driver's pools and plain allocations are shared and freed differently."""
    assert gpulend.describe(gpu.alloc(64)).known == "allocation"
    own = gpulend.empty(16, "float32")
    assert gpulend.describe(own).known == "pool block"
    stream = gpu.stream()
    block = gpu.alloc_async(256, stream)
    passport = gpulend.describe(block)
    assert (passport.known, passport.memory, passport.device) == ("pool block", "device", "cuda:0")
    lease = gpulend.wrap(block, (64,), "float32", unowned=True, ready_on=stream)
    assert lease.to_host().shape == (64,)
    check(cu.cuMemFreeAsync(block, stream))
    check(cu.cuStreamSynchronize(stream))
    with pytest.raises(gpulend.AddressError) as caught:
        lease.to_host()
    assert caught.value.code == 411


@only_real
@pytest.mark.parametrize("variable", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_tensors_in_expandable_segments_are_accepted(variable):
    """There an allocation is a reservation of all memory, of which parts are mapped."""
    need("torch")
    printed = python(
        """
        import gpulend, torch
        sizes = (1, 1000, 1 << 22, 1 << 25)
        tensors = [torch.full((size,), float(size), device="cuda") for size in sizes]
        for tensor in tensors:
            lease = gpulend.wrap(tensor.data_ptr(), tensor.shape, "float32", owner=tensor)
            assert lease.device == "cuda:0"
            assert gpulend.borrow(tensor).address == tensor.data_ptr()
            back = lease.lend("torch")
            assert back.data_ptr() == tensor.data_ptr() and bool((back == tensor).all())
            end = lease[-1:].to_host()
            assert end.tolist() == [float(tensor.numel())]
        print(gpulend.describe(tensors[-1]).known)
        free = tensors[-1].data_ptr() + (1 << 36)
        try:
            gpulend.wrap(free, (4,), "float32", unowned=True, device="cuda:0")
        except gpulend.AddressError as error:
            print(error.code)
        """,
        **{variable: "expandable_segments:True"},
    )
    known, code = printed.split()
    assert known in ("reservation", "allocation")
    assert code in ("407", "408")
