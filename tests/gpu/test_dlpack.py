"""DLPack of GPU memory: streams, devices, versions, copies, offsets and strides, in and out."""

from __future__ import annotations

from functools import partial

import gpulend
import numpy as np
import pytest
from driver.resources import LEGACY, PER_THREAD, upload
from python.capsules import LEGACY as LEGACY_CAPSULE
from python.capsules import VERSIONED, Producer, Sample, consume, pythonapi, release

from .resources import (
    SIMULATED,
    bytes_at,
    copy,
    eventually,
    fill,
    need,
    nothing_stays,
    still_works,
    waiting,
)

CUDA, CUDA_HOST, CUDA_MANAGED, CPU, OPENCL = 2, 3, 13, 1, 4
FLOAT32 = (2, 32, 1)


class Opened:
    """A capsule, consumed as a consumer does it."""

    def __init__(self, capsule):
        self._pointer, self._kind = consume(capsule)
        self.struct = self._kind.from_address(self._pointer)
        self.tensor = self.struct.tensor

    def close(self):
        """Give it back."""
        release(self._pointer, self._kind)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def code_of(call, error=TypeError):
    """Return the code of a call's error; the error itself would keep what the call had."""
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, gpulend.Error)
    return caught.value.code


def show(lease, **options):
    """Export as CUDA, on either kind of GPU."""
    return lease.__dlpack__(dl_device=(CUDA, 0), **options)


@pytest.mark.parametrize("stream", [None, -1, 1, 2, "handle", "object"])
def test_each_way_to_name_a_stream(stream):
    """All that the array API's standard allows, and our own streams."""
    made = gpulend.Stream()
    said = {"handle": made.handle, "object": made}.get(stream, stream)
    with nothing_stays():
        lease = gpulend.zeros(4, "float32")
        with Opened(show(lease, stream=said)) as opened:
            assert opened.tensor.data == lease.address
        del lease, opened


@pytest.mark.parametrize("stream", [0, -2, "x", 1.5, 2**70])
def test_what_names_no_stream_is_refused(stream):
    """0 could mean two streams, so the standard forbids it."""
    with nothing_stays():
        assert code_of(lambda: show(gpulend.zeros(4, "float32"), stream=stream)) == 253
    still_works()


@pytest.mark.parametrize("kind", ["legacy", "per-thread", "handle", "none"])
def test_the_consumer_s_stream_waits(gpu, kind):
    """Who names its stream may read at once; None is the legacy one, by the standard."""
    made = gpulend.Stream()
    handle = {"legacy": LEGACY, "per-thread": PER_THREAD, "none": LEGACY}.get(kind, made.handle)
    producer, gate = gpulend.Stream(), gpu.gate()
    with producer:
        lease = gpulend.zeros(256, "uint8")
        producer.synchronize()
        gate.hold(producer)
        lease.copy_from(gpulend.full(256, 7, "uint8"))
    out = gpu.pinned(256)
    with Opened(show(lease, stream=None if kind == "none" else handle)) as opened:
        copy(out, opened.tensor.data, 256, handle)
        assert gate.closed
        assert waiting(handle)
        gate.open()
        gpulend.Stream(handle).synchronize()
    found = bytes_at(out, 256)
    assert set(found.tolist()) == {7}


def test_minus_one_waits_for_nothing(gpu):
    """-1 says that the consumer orders the work itself."""
    producer, gate, other = gpulend.Stream(), gpu.gate(), gpulend.Stream()
    with producer:
        lease = gpulend.zeros(256, "uint8")
        gate.hold(producer)
        lease.copy_from(gpulend.full(256, 7, "uint8"))
    opened = Opened(show(lease, stream=-1))
    assert gate.closed
    assert not waiting(other.handle)
    opened.close()


def test_the_device_is_told():
    """Before a consumer asks for a capsule it asks where the memory is."""
    lease = gpulend.zeros(4, "float32")
    assert lease.__dlpack_device__() == ((CPU, 0) if SIMULATED else (CUDA, 0))
    assert lease.as_cuda().__dlpack_device__() == (CUDA, 0)
    with Opened(show(lease, stream=1)) as opened:
        assert (opened.tensor.device_type, opened.tensor.device_id) == (CUDA, 0)


def test_the_second_device_is_told(second):
    """The index is the driver's own."""
    lease = gpulend.zeros(4, "float32", device=f"cuda:{second}")
    assert lease.as_cuda().__dlpack_device__() == (CUDA, second)
    with Opened(lease.__dlpack__(stream=1, dl_device=(CUDA, second))) as opened:
        assert (opened.tensor.device_type, opened.tensor.device_id) == (CUDA, second)
    with pytest.raises(gpulend.ExportError, match=f"cuda:{second}"):
        lease.__dlpack__(dl_device=(CUDA, 0))


@pytest.mark.parametrize(
    "device", [(CUDA, 7), (CUDA_HOST, 0), (CUDA_MANAGED, 0), (OPENCL, 0), (99, 0)]
)
def test_a_device_where_the_memory_is_not_is_refused(device):
    """Zero copy or a named error: a move is the caller's to ask for."""
    with nothing_stays():
        assert code_of(lambda: gpulend.zeros(4).__dlpack__(dl_device=device), BufferError) == 303


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (None, LEGACY_CAPSULE),
        ((0, 8), LEGACY_CAPSULE),
        ((1, 0), VERSIONED),
        ((1, 3), VERSIONED),
        ((2, 0), VERSIONED),
    ],
)
def test_the_version_is_what_the_consumer_reads(wanted, name):
    """Legacy unless a consumer says that it knows the other kind; never another major version."""
    lease = gpulend.zeros(4, "float32")
    capsule = show(lease, stream=1, max_version=wanted)
    assert pythonapi.PyCapsule_GetName(capsule) == name
    with Opened(capsule) as opened:
        if name == VERSIONED:
            assert opened.struct.major == 1
            assert opened.struct.flags == 0


def test_read_only_is_in_the_flags():
    """The versioned capsule says it; the legacy one cannot, and is refused."""
    lease = gpulend.zeros(4, "float32").as_readonly()
    with Opened(show(lease, stream=1, max_version=(1, 0))) as opened:
        assert opened.struct.flags & 1
    with pytest.raises(gpulend.ExportError) as caught:
        show(lease, stream=1)
    assert caught.value.code == 301


def test_a_copy_is_a_copy(gpu):
    """`copy=True` gives memory of its own, says so in the flags, and holds nothing of the lease."""
    lease = gpulend.full((4, 4), 3, "int32")
    with Opened(show(lease.T, stream=1, max_version=(1, 0), copy=True)) as opened:
        assert opened.tensor.data != lease.address
        assert opened.struct.flags & 2
        assert (opened.tensor.device_type, opened.tensor.device_id) == (CUDA, 0)
        lease.copy_from(np.zeros((4, 4), np.int32))
        gpulend.synchronize()
        lease.release()
        out = gpu.pinned(64)
        copy(out, opened.tensor.data, 64, LEGACY)
        gpulend.synchronize()
        found = bytes_at(out, 64).view(np.int32)
        assert found.tolist() == [3] * 16


@pytest.mark.parametrize("copy_asked", [None, False])
def test_no_copy_unless_asked(copy_asked):
    """The same address, or an error."""
    lease = gpulend.zeros((4, 4), "int32")
    with Opened(show(lease, stream=1, copy=copy_asked)) as opened:
        assert opened.tensor.data == lease.address


@pytest.mark.parametrize(
    ("key", "shape", "strides"),
    [
        (np.s_[:], (4, 6), (6, 1)),
        (np.s_[1:, ::2], (3, 3), (6, 2)),
        (np.s_[::-1], (4, 6), (-6, 1)),
        (np.s_[::-2, ::-3], (2, 2), (-12, -3)),
        (np.s_[2], (6,), (1,)),
        (np.s_[3, 5], (), ()),
    ],
)
def test_layouts_go_out_as_they_are(key, shape, strides):
    """Strides are always given, `byte_offset` is 0, and the address is the first element's."""
    lease = gpulend.from_host(np.arange(24, dtype=np.float32).reshape(4, 6))[key]
    with Opened(show(lease, stream=1, max_version=(1, 0))) as opened:
        tensor = opened.tensor
        assert (tensor.data, tensor.byte_offset) == (lease.address, 0)
        assert tuple(tensor.shape[: tensor.ndim]) == shape
        assert tuple(tensor.strides[: tensor.ndim]) == strides
        assert (tensor.code, tensor.bits, tensor.lanes) == FLOAT32


def test_an_empty_array_has_no_data():
    """Data is NULL where there are no elements, and the deleter still runs once."""
    with nothing_stays():
        lease = gpulend.zeros((0, 3), "float32")
        with Opened(show(lease, stream=1)) as opened:
            assert opened.tensor.data is None
            assert opened.tensor.shape[:2] == [0, 3]
        del lease, opened


def test_an_unconsumed_capsule_gives_the_memory_back():
    """A consumer that raises before it takes the capsule must not keep the memory."""
    stream = gpulend.Stream()
    with nothing_stays():
        for _ in range(100):
            show(gpulend.zeros(1000, "float32"), stream=stream.handle)


class Late(Producer):
    """A producer on the GPU that writes down what it was asked for."""

    def __init__(self, sample, device=(CUDA, 0)):
        super().__init__(sample.capsule, device)
        self.asked = []

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append(stream)
        return super().__dlpack__()


@pytest.fixture
def address(gpu):
    """Sixteen floats on the GPU."""
    address = gpu.alloc(64)
    upload(address, np.arange(16, dtype=np.float32).tobytes())
    return address


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(0, (4, 4), None), (8, (7, 2), (2, 1)), (60, (4,), (-1,)), (32, (2, 4), (4, 1)), (4, (), ())],
)
def test_offsets_and_strides_come_in(address, offset, shape, strides, versioned):
    """`data + byte_offset` is the first element; NULL strides are C's order."""
    sample = Sample(
        shape, strides, versioned=versioned, device=(CUDA, 0), data=address, byte_offset=offset
    )
    lease = gpulend.borrow(Late(sample))
    assert lease.address == address + offset
    assert lease.device == "cuda:0"
    base = np.arange(16, dtype=np.float32)[offset // 4 :]
    bytes_of = tuple(4 * stride for stride in lease.strides)
    assert np.array_equal(lease.to_host(), np.lib.stride_tricks.as_strided(base, shape, bytes_of))
    del lease
    eventually(lambda: sample.released == 1, "the deleter ran once")


@pytest.mark.parametrize("offset", [1, 2, 3, 7, 8, 32, 47])
def test_odd_offsets_are_addresses(address, offset):
    """Nobody keeps the alignment that DLPack's header promises: bytes may begin anywhere."""
    sample = Sample((8,), dtype=(1, 8, 1), device=(CUDA, 0), data=address, byte_offset=offset)
    lease = gpulend.borrow(Late(sample))
    raw = np.arange(16, dtype=np.float32).tobytes()
    assert lease.address == address + offset
    assert lease.to_host().tobytes() == raw[offset : offset + 8]
    with Opened(show(lease, stream=1)) as opened:
        assert (opened.tensor.data, opened.tensor.byte_offset) == (address + offset, 0)
    del lease
    eventually(lambda: sample.released == 1, "released")


def test_elements_that_are_not_aligned_are_refused(address):
    """A GPU cannot load a float from an odd address: the error comes before the kernel's."""
    sample = Sample((2,), device=(CUDA, 0), data=address, byte_offset=2)
    with pytest.raises(gpulend.AddressError) as caught:
        gpulend.borrow(Late(sample))
    assert caught.value.code == 402
    del caught
    eventually(lambda: sample.released == 1, "released though refused")


def test_the_producer_is_told_a_stream_by_number(gpu, address):
    """Never None where a number can be said (law 3): the consumer's stream, or -1 and our wait."""
    stream = gpulend.Stream()
    for consumer, handle in ((None, LEGACY), (stream, stream.handle), (2, PER_THREAD)):
        sample = Sample((16,), device=(CUDA, 0), data=address)
        producer = Late(sample)
        lease = gpulend.borrow(producer, consumer)
        assert producer.asked
        assert all(said in (handle, -1) for said in producer.asked), producer.asked
        assert 0 not in producer.asked
        del lease
        eventually(lambda sample=sample: sample.released == 1, "released")


def test_ready_on_orders_a_producer_that_does_not(gpu, address):
    """A bare capsule says nothing about streams; `ready_on` does."""
    gate, stream, consumer = gpu.gate(), gpulend.Stream(), gpulend.Stream()
    gate.hold(stream)
    fill(address, 0, 64, stream.handle)
    sample = Sample((16,), device=(CUDA, 0), data=address)
    lease = gpulend.borrow(sample.capsule(), consumer, ready_on=stream)
    with consumer:
        out = gpulend.empty(16, "float32")
        out.copy_from(lease)
    assert waiting(consumer)
    assert gate.closed
    gate.open()
    assert out.to_host().tolist() == [0] * 16
    del lease, out
    eventually(lambda: sample.released == 1, "released")


@pytest.mark.parametrize("kind", ["managed", "pinned"])
def test_memory_of_other_kinds_comes_in(gpu, kind):
    """DLPack has device types of its own for managed and pinned memory, with the index 0."""
    if kind == "managed":
        address, device = gpu.managed(64), (CUDA_MANAGED, 0)
    else:
        address, device = gpu.pinned(64), (CUDA_HOST, 0)
    sample = Sample((16,), device=device, data=address)
    lease = gpulend.borrow(Late(sample, device))
    assert lease.memory == kind
    assert lease.device == ("cuda:0" if kind == "managed" else "cpu")
    lease.copy_from(np.arange(16, dtype=np.float32))
    assert lease.to_host().tolist() == list(range(16))
    del lease
    eventually(lambda: sample.released == 1, "released")


def test_a_device_that_is_not_there_comes_in_as_an_error(address):
    """What was handed out is given back exactly once, though nobody ever saw it."""
    sample = Sample((16,), device=(CUDA, 9), data=address)
    producer = Late(sample, (CUDA, 9))
    with pytest.raises(gpulend.Error):
        gpulend.borrow(producer)
    handed = len(producer.asked)
    eventually(lambda: sample.released == handed, "released as often as handed out")
    with pytest.raises(gpulend.Error):
        gpulend.borrow(sample.capsule())
    eventually(lambda: sample.released == handed + 1, "a bare capsule too")
    still_works()


def test_a_round_trip_through_cuda_core(gpu):
    """Out as a view and in again: the same memory, with the same layout and flags."""
    need("cuda.core")
    lease = gpulend.from_host(np.arange(24, dtype=np.float32).reshape(4, 6))
    for part in (lease, lease.T, lease[::2, 1:], lease[::-1], lease.as_readonly()):
        view = part.lend("cuda.core", stream=1)
        back = gpulend.borrow(view)
        assert (back.address, back.shape, back.strides) == (part.address, part.shape, part.strides)
        assert back.readonly == part.readonly
        assert back.device == "cuda:0"
        assert np.array_equal(back.to_host(), part.to_host())
        del view, back


@pytest.mark.parametrize("by", [Sample.capsule, lambda sample: Producer(sample.capsule, (CUDA, 0))])
def test_a_tensor_that_is_no_memory_of_its_gpu_is_refused_and_released_once(gpu, by):
    """GPU memory of an unknown producer is checked with the driver."""
    address, host = gpu.alloc(64), np.zeros(16, np.float32)
    lies = {
        "too long": (dict(data=address, shape=(17,)), 408),
        "much too long": (dict(data=address, shape=(1 << 30,)), 408),
        "before its start": (dict(data=address, shape=(2,), strides=(-(1 << 20),)), None),
        "nowhere": (dict(data=0x100000), 407),
        "of the host": (dict(data=host.ctypes.data), 407),
    }
    for name, (lie, code) in lies.items():
        sample = Sample(device=(CUDA, 0), **lie)
        found = code_of(partial(gpulend.borrow, by(sample)), gpulend.AddressError)
        assert code is None or found == code, name
        eventually(lambda sample=sample: sample.released == 1, "the tensor was released")
    still_works()
    sample = Sample((16,), data=address, device=(CUDA, 0))
    lease = gpulend.borrow(by(sample))
    assert (lease.address, lease.shape) == (address, (16,))
    del lease
    eventually(lambda: sample.released == 1, "the tensor was released")


def test_a_tensor_that_calls_memory_of_a_gpu_the_hosts(gpu):
    """A real GPU's is not; a simulated one's is shown so, as far as it reaches."""
    address = gpu.alloc(64)
    for shape in ((16,), (17,)) if SIMULATED else ((16,),):
        sample = Sample(shape, data=address)
        if SIMULATED and shape == (16,):
            assert gpulend.borrow(sample.capsule()).shape == shape
        else:
            code = code_of(partial(gpulend.borrow, sample.capsule()), gpulend.AddressError)
            assert code == (408 if SIMULATED else 409)
        eventually(lambda sample=sample: sample.released == 1, "the tensor was released")


def test_memory_of_the_host_that_is_not_there_is_not_copied_to_a_gpu(gpu):
    """NumPy accepts a false address; it is checked before the driver reads it."""

    class Described:
        __array_interface__ = dict(version=3, typestr="<f4", shape=(16,), data=(0x100000, False))

    nowhere = np.asarray(Described())
    lease = gpulend.wrap(gpu.alloc(64), (16,), "float32", unowned=True)
    uses = [
        lambda: lease.copy_from(nowhere),
        lambda: lease.copy_to(nowhere),
        lambda: gpulend.from_host(nowhere),
        lambda: lease[::-1].copy_from(nowhere),
    ]
    for use in uses:
        assert code_of(use, gpulend.AddressError) == 404
    still_works()
