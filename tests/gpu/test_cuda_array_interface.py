"""`__cuda_array_interface__` version 3, in and out: streams, bytes, ranges, and no owner."""

from __future__ import annotations

import gc
import weakref

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import JUNK, LEGACY, PER_THREAD, allocate, upload

from .resources import (
    REAL,
    SIMULATED,
    bytes_at,
    copy,
    eventually,
    fill,
    need,
    only_real,
    only_simulated,
    still_works,
    stuck,
    waiting,
)

NUMBERS = np.arange(16, dtype=np.float32)


class Foreign:
    """An array of a library that speaks this interface and nothing else."""

    def __init__(self, address, without=(), **fields):
        plain = {"shape": (16,), "typestr": "<f4", "data": (address, False), "version": 3}
        self.interface = {**plain, "strides": None, "stream": LEGACY, **fields}
        for name in without:
            del self.interface[name]

    @property
    def __cuda_array_interface__(self):
        return self.interface


@pytest.fixture
def address(gpu):
    """Sixteen floats on the GPU."""
    address = gpu.alloc(64)
    upload(address, NUMBERS.tobytes())
    return address


def refused(array, error, code):
    """Borrow what must be refused."""
    with pytest.raises(error) as caught:
        gpulend.borrow(array)
    assert caught.value.code == code
    still_works()
    return str(caught.value)


def test_an_array_with_this_interface_alone_is_borrowed(address):
    """The device is not in the interface: the driver knows it."""
    lease = gpulend.borrow(Foreign(address))
    assert (lease.address, lease.device, lease.memory) == (address, "cuda:0", "device")
    assert lease.simulated == SIMULATED
    assert np.array_equal(lease.to_host(), NUMBERS)
    lease.copy_from(NUMBERS * 2)
    assert np.array_equal(gpulend.borrow(Foreign(address)).to_host(), NUMBERS * 2)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_versions_are_read(address, version):
    """They have no stream: the legacy one is meant, as for an address."""
    lease = gpulend.borrow(Foreign(address, without=["stream"], version=version))
    assert np.array_equal(lease.to_host(), NUMBERS)


def test_stream_0_is_refused(address):
    """The specification forbids it, because it could mean two streams."""
    message = refused(Foreign(address, stream=0), gpulend.ProtocolError, 203)
    assert "stream" in message
    assert "1" in message


@pytest.mark.parametrize("stream", ["x", 1.5, -1, [1]])
def test_a_stream_that_is_none_is_refused(address, stream):
    """A stream that cannot be waited for must not be taken for one that need not be."""
    with pytest.raises(gpulend.ProtocolError):
        gpulend.borrow(Foreign(address, stream=stream))
    still_works()


@pytest.mark.parametrize("kind", ["legacy", "per-thread", "handle"])
def test_the_producer_s_stream_is_waited_for(gpu, address, kind):
    """The number in the interface says after what the bytes are valid; the host does not wait."""
    made = gpulend.Stream()
    stream = {"legacy": LEGACY, "per-thread": PER_THREAD, "handle": made.handle}[kind]
    gate, consumer = gpu.gate(), gpulend.Stream()
    gate.hold(stream)
    fill(address, 0, 64, stream)
    lease = gpulend.borrow(Foreign(address, stream=stream), consumer)
    with consumer:
        out = gpulend.empty(16, "float32")
        out.copy_from(lease)
    assert waiting(consumer)
    assert gate.closed
    gate.open()
    assert out.to_host().tolist() == [0] * 16


def test_no_stream_means_no_wait(gpu, address):
    """None says that the bytes are valid now, whatever the default stream does."""
    gate, consumer = gpu.gate(), gpulend.Stream()
    gate.hold(LEGACY)
    lease = gpulend.borrow(Foreign(address, stream=None), consumer)
    with consumer:
        assert np.array_equal(lease.to_host(), NUMBERS)
    assert gate.closed


def test_ready_on_is_believed_over_the_interface(gpu, address):
    """Who knows better than the interface may say so."""
    gate, consumer = gpu.gate(), gpulend.Stream()
    gate.hold(LEGACY)
    lease = gpulend.borrow(Foreign(address, stream=LEGACY), consumer, ready_on="now")
    with consumer:
        assert np.array_equal(lease.to_host(), NUMBERS)
    assert gate.closed


def test_a_mask_is_refused(address):
    """A plain array would show the masked bytes."""
    message = refused(Foreign(address, mask=np.ones(16, bool)), gpulend.ProtocolError, 204)
    assert "mask" in message
    assert gpulend.borrow(Foreign(address, mask=None)).shape == (16,)


def test_strides_are_bytes(address):
    """Here they count bytes and in a lease elements: mixing them up reads the wrong memory."""
    lease = gpulend.borrow(Foreign(address, shape=(4, 2), strides=(16, 8)))
    assert lease.strides == (4, 2)
    assert np.array_equal(lease.to_host(), NUMBERS.reshape(4, 4)[:, ::2])
    lease = gpulend.borrow(Foreign(address, shape=(4, 4), strides=(4, 16)))
    assert np.array_equal(lease.to_host(), NUMBERS.reshape(4, 4).T)
    lease = gpulend.borrow(Foreign(address, data=(address + 60, False), strides=(-4,)))
    assert np.array_equal(lease.to_host(), NUMBERS[::-1])


def test_strides_between_elements_are_refused(address):
    """Bytes that are no multiple of the element cannot be said in elements."""
    refused(Foreign(address, shape=(4,), strides=(6,)), gpulend.LayoutError, 105)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"shape": (17,)}, 408),
        ({"shape": (4,), "strides": (32,)}, 408),
        ({"shape": (2,), "typestr": "<c16", "strides": (64,)}, 408),
    ],
)
def test_a_range_past_the_end_is_refused(address, fields, code):
    """The interface is only a promise; the driver knows how much there is."""
    refused(Foreign(address, **fields), gpulend.AddressError, code)


def test_an_address_that_is_none_is_refused(gpu):
    """Invented, null and freed addresses."""
    with pytest.raises(gpulend.AddressError):
        gpulend.borrow(Foreign(JUNK & ~15))
    refused(Foreign(0), gpulend.AddressError, 401)
    address = allocate(4096)
    check(cu.cuMemFree_v2(address))
    with pytest.raises(gpulend.AddressError):
        gpulend.borrow(Foreign(address))
    assert gpulend.borrow(Foreign(0, shape=(0, 3))).shape == (0, 3)


def test_read_only_survives_both_ways(address):
    """The flag comes in, holds for our own writes, and goes out again (law 6)."""
    lease = gpulend.borrow(Foreign(address, data=(address, True)))
    assert lease.readonly
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.copy_from(NUMBERS)
    assert lease.as_cuda().__cuda_array_interface__["data"] == (address, True)
    assert lease[3:].as_cuda().__cuda_array_interface__["data"] == (address + 12, True)


@pytest.mark.parametrize(
    ("fields", "without"),
    [
        ({"version": 99}, ()),
        ({"typestr": ">f4"}, ()),
        ({"typestr": "<V2"}, ()),
        ({"typestr": 7}, ()),
        ({"shape": (-1,)}, ()),
        ({"shape": "abc"}, ()),
        ({"data": ("x", False)}, ()),
        ({"data": None}, ()),
        ({}, ("data",)),
        ({}, ("shape",)),
        ({}, ("typestr",)),
        ({}, ("version",)),
    ],
)
def test_a_lying_interface_is_refused(address, fields, without):
    """Each field may be wrong; each is a named error, and the next call works."""
    with pytest.raises((gpulend.ProtocolError, gpulend.LayoutError)):
        gpulend.borrow(Foreign(address, without, **fields))
    still_works()


def test_the_producer_is_kept(address):
    """The interface has no owner, so the object that showed it is kept as long as the lease."""
    array = Foreign(address)
    gone = weakref.ref(array)
    lease = gpulend.borrow(array)
    part = lease[2:]
    del array, lease
    gc.collect()
    assert gone() is not None
    del part
    eventually(lambda: gone() is None, "the producer was released")


def test_what_we_show_is_whole():
    """Version 3, strides in bytes, and a stream that is neither 0 nor missing."""
    lease = gpulend.zeros((3, 4), "int16").as_cuda()
    assert lease.__cuda_array_interface__ == {
        "version": 3,
        "typestr": "<i2",
        "shape": (3, 4),
        "strides": (8, 2),
        "data": (lease.address, False),
        "stream": LEGACY,
    }
    part = lease[::2, ::-1].__cuda_array_interface__
    assert (part["shape"], part["strides"]) == ((2, 4), (16, -2))
    assert part["data"][0] == lease.address + 6


def test_the_stream_that_we_show_is_where_the_bytes_are_ready(gpu):
    """The consumer waits for the number that it finds."""
    stream = gpulend.Stream()
    with stream:
        lease = gpulend.full(16, 2.5, "float32").as_cuda()
    assert lease.__cuda_array_interface__["stream"] in (stream.handle, LEGACY)
    assert lease.__cuda_array_interface__["stream"] not in (0, None)
    shown = lease.__cuda_array_interface__["stream"]
    out = gpu.pinned(64)
    copy(out, lease.address, 64, shown)
    check(cu.cuStreamSynchronize(shown))
    values = bytes_at(out, 64).view(np.float32)
    assert values.tolist() == [2.5] * 16


def test_two_streams_are_one_number(gpu):
    """Memory in use on two streams: the one shown must come after both."""
    gate, first, then = gpu.gate(), gpulend.Stream(), gpulend.Stream()
    with first:
        lease = gpulend.zeros(256, "uint8")
    first.synchronize()
    gate.hold(then)
    fill(lease.address, 5, 256, then.handle)
    lease.used_on(then)
    shown = lease.as_cuda().__cuda_array_interface__["stream"]
    out = gpu.pinned(256)
    copy(out, lease.address, 256, shown)
    assert gate.closed
    assert waiting(shown)
    gate.open()
    check(cu.cuStreamSynchronize(shown))
    values = bytes_at(out, 256)
    assert set(values.tolist()) == {5}


@pytest.mark.parametrize("readonly", [False, True])
def test_the_stream_that_we_show_comes_after_pending_readers(gpu, readonly):
    """Who may write what we show must not overtake our own reader; who may not need not wait."""
    writer, reader, gate = gpulend.Stream(), gpulend.Stream(), gpu.gate()
    with writer:
        lease = gpulend.full(256, 5, "uint8")
    with reader:
        out = gpulend.zeros(256, "uint8")
    gpulend.synchronize()
    gate.hold(reader)
    with reader:
        out.copy_from(lease)
    shown = (lease.as_readonly() if readonly else lease).as_cuda().__cuda_array_interface__
    assert shown["data"] == (lease.address, readonly)
    consumer = gpulend.Stream()
    consumer.wait(gpulend.Stream(shown["stream"]))
    if not readonly:
        fill(lease.address, 99, 256, consumer.handle)
    else:
        consumer.synchronize()  # with the gate closed
    assert gate.closed, "the host waited"
    assert readonly or stuck(consumer), "the consumer overtakes the reader"
    gate.open()
    assert set(out.to_host().tolist()) == {5}
    consumer.synchronize()


@pytest.mark.parametrize("kind", ["ours", "number", "legacy"])
def test_pinned_memory_is_waited_for_before_the_host_reads(gpu, kind):
    """Numba's mapped arrays are such: the host can read them while a stream still writes."""
    target, made = gpu.pinned(64), gpulend.Stream()
    stream = {"ours": made.handle, "number": gpu.stream(), "legacy": LEGACY}[kind]
    fill(target, 7, 64, stream)  # the simulated GPU does it as late as it may
    lease = gpulend.borrow(Foreign(target, shape=(64,), typestr="|u1", stream=stream))
    found = lease.to_host()
    assert set(found.tolist()) == {7}


def test_an_empty_array_has_no_address():
    """The specification wants 0 where there are no elements."""
    assert gpulend.zeros((0, 4), "float32").as_cuda().__cuda_array_interface__["data"][0] == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_types_without_a_typestr_are_refused(dtype):
    """bfloat16 is never `<f2` (law 7): the bits go out under a name of their own width."""
    lease = gpulend.zeros(4, dtype).as_cuda()
    with pytest.raises(gpulend.ExportError, match="view") as caught:
        lease.__cuda_array_interface__
    assert caught.value.code == 305
    bits = {"bfloat16": "<u2", "float8_e4m3fn": "|u1"}[dtype]
    wide = lease.view("uint16" if dtype == "bfloat16" else "uint8")
    assert wide.__cuda_array_interface__["typestr"] == bits


@only_simulated
def test_on_the_simulated_gpu_it_is_shown_on_request_alone():
    """torch and JAX would prefer it to what works on a CPU, and fail."""
    lease = gpulend.zeros(4, "float32")
    assert not hasattr(lease, "__cuda_array_interface__")
    assert lease.__array_interface__["data"][0] == lease.address
    assert lease.__dlpack_device__() == (1, 0)
    assert hasattr(lease.as_cuda(), "__cuda_array_interface__")
    assert lease.as_cuda().__dlpack_device__() == (2, 0)
    assert not hasattr(gpulend.borrow(np.zeros(3)), "__cuda_array_interface__")


@only_real
def test_on_a_real_gpu_it_is_always_there():
    """And nothing that pretends that a host could read the memory."""
    lease = gpulend.zeros(4, "float32")
    assert lease.__cuda_array_interface__["data"][0] == lease.address
    assert not hasattr(lease, "__array_interface__")
    assert lease.__dlpack_device__() == (2, 0)
    with pytest.raises((TypeError, BufferError)):
        memoryview(lease)


@pytest.mark.parametrize("library", [*(["torch", "cupy"] if REAL else []), "numba.cuda"])
def test_frameworks_read_what_we_show(library):
    """`asarray` and `as_tensor` take the interface: the same address, the same values."""
    module = need(library)
    lease = gpulend.full((3, 4), 2.5, "float32").as_cuda()
    if library == "torch":
        taken = module.as_tensor(lease, device="cuda")
        assert taken.data_ptr() == lease.address
        assert taken.cpu().numpy().tolist() == [[2.5] * 4] * 3
    elif library == "cupy":
        taken = module.asarray(lease)
        assert taken.data.ptr == lease.address
        assert taken.get().tolist() == [[2.5] * 4] * 3
    else:
        taken = module.as_cuda_array(lease)
        assert int(taken.gpu_data.device_pointer) == lease.address
        assert taken.copy_to_host().tolist() == [[2.5] * 4] * 3
