"""Exit: owners who know no stream order, and consumers who never say where they work.

Work is held back by a gate, everything is dropped, and the background thread looks at it all. The
producer's deleter must not have run by then, and must run once when the gate is open.
"""

from __future__ import annotations

import ctypes
import weakref

import gpulend
import pytest
from driver.resources import LEGACY, PER_THREAD
from python.capsules import DLTensor, Producer, Sample, consume, release, table_of

from .resources import eventually, fill, need, only_real

SIZE = 4096
CUDA = 2
BYTES = (1, 8, 1)
table = table_of(gpulend.Lease)


class Counted(Sample):
    """GPU memory in a hand-made tensor; its deleter says so in a list and takes no lock."""

    def __init__(self, address, **options):
        self.gone = []
        super().__init__((SIZE,), dtype=BYTES, device=(CUDA, 0), data=address, **options)

    def _release(self, _pointer):
        self.gone.append(1)


class Asked(Producer):
    """A producer as JAX: it is given the consumer's stream, and makes that stream wait."""

    def __init__(self, sample):
        super().__init__(sample.capsule, (CUDA, 0))
        self.streams = []

    def __dlpack__(self, *, stream=None, **options):
        """Remember which stream was asked for."""
        self.streams.append(stream)
        return super().__dlpack__(**options)


def wrapped(address, **options):
    """Return a lease of a bare address, and the list that its deleter fills."""
    gone = []
    lease = gpulend.wrap(
        address, SIZE, "uint8", deleter=lambda *_: gone.append(1), **{"ready_on": "now", **options}
    )
    return lease, gone


def goes_after(gpu, gate, gone, *free):
    """See that a deleter waits for a gate, and that it runs once behind it."""
    gpu.reap(*free)
    assert gate.closed, "the host waited"
    assert gone == [], "the deleter ran under the work"
    gate.open()
    eventually(lambda: gone == [1], "the deleter ran, once")


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("kind", ["ours", "number", "legacy", "per-thread"])
def test_a_producer_that_was_asked_waits_for_the_stream_it_was_asked_for(
    gpu, kind, said, versioned
):
    """That stream is the consumer's: the producer, JAX first of all, reuses a block at once."""
    named = {"legacy": LEGACY, "per-thread": PER_THREAD}
    stream = named.get(kind) or (gpu.stream() if kind == "number" else gpulend.Stream())
    handle = stream if isinstance(stream, int) else stream.handle
    address, gate = gpu.alloc(SIZE), gpu.gate()
    sample = Counted(address, versioned=versioned)
    producer = Asked(sample)
    lease = gpulend.borrow(producer, stream)
    assert producer.streams == [handle], "the producer is asked for the consumer's stream"
    gate.hold(handle)
    fill(address, 1, SIZE, handle)
    if said:
        lease.used_on(stream)
    del lease
    goes_after(gpu, gate, sample.gone)


def test_a_tensor_that_came_through_our_table_waits_for_the_current_stream(gpu):
    """What `to_py_object` makes a lease of has an owner that knows no stream either."""
    address, gate, stream = gpu.alloc(SIZE), gpu.gate(), gpulend.Stream()
    sample = Counted(address)
    out = ctypes.c_void_p()
    with stream:
        assert table.to_py(sample.pointer, ctypes.byref(out)) == 0
    lease = ctypes.cast(out, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(lease))  # the reference that came with it
    gate.hold(stream)
    fill(address, 1, SIZE, stream.handle)
    lease.used_on(stream)
    del lease
    goes_after(gpu, gate, sample.gone)


@pytest.mark.parametrize("kind", ["default", "legacy", "per-thread", "ours", "number"])
def test_a_deleter_waits_for_the_stream_of_ready_on(gpu, kind):
    """A caller's free function frees now and not in the order of a stream, whichever it named."""
    stream = {
        "default": lambda: LEGACY,
        "legacy": lambda: LEGACY,
        "per-thread": lambda: PER_THREAD,
        "ours": gpulend.Stream,
        "number": gpu.stream,
    }[kind]()
    handle = stream if isinstance(stream, int) else stream.handle
    address, gate = gpu.alloc(SIZE), gpu.gate()
    lease, gone = wrapped(address, ready_on=None if kind == "default" else stream)
    gate.hold(handle)
    fill(address, 1, SIZE, handle)
    lease.used_on(stream)
    del lease
    goes_after(gpu, gate, gone)


def test_an_owner_waits_for_the_stream_of_ready_on(gpu):
    """`owner=` frees when it is dropped, so it is a deleter too."""

    class Owner:
        pass

    owner, stream = Owner(), gpulend.Stream()
    gone = weakref.ref(owner)
    address, gate = gpu.alloc(SIZE), gpu.gate()
    lease = gpulend.wrap(address, SIZE, "uint8", ready_on=stream, owner=owner)
    del owner
    gate.hold(stream)
    fill(address, 1, SIZE, stream.handle)
    lease.used_on(stream)
    del lease
    gpu.reap()
    assert gate.closed
    assert gone() is not None
    gate.open()
    eventually(lambda: gone() is None, "the owner was released")


def test_a_deleter_waits_for_the_event_of_ready_on(gpu):
    """Before that moment the producer itself still writes there."""
    address, gate, stream = gpu.alloc(SIZE), gpu.gate(), gpulend.Stream()
    gate.hold(stream)
    fill(address, 1, SIZE, stream.handle)
    lease, gone = wrapped(address, ready_on=stream.record())
    del lease
    goes_after(gpu, gate, gone, LEGACY)


def by_interface(lease):
    """Show the memory by `__cuda_array_interface__`, which has no word for the consumer."""
    shown = lease.as_cuda()
    assert shown.__cuda_array_interface__["data"][0] == lease.address
    return lambda: None, shown


def by_capsule(lease):
    """Hand out a capsule without a stream: the consumer said that it orders by itself."""
    pointer, kind = consume(
        lease.__dlpack__(stream=-1, dl_device=(CUDA, 0), max_version=(1, 0)),
    )
    return lambda: release(pointer, kind), None


def by_table(lease):
    """Hand out a tensor by the C exchange API, which orders nothing."""
    out = ctypes.c_void_p()
    assert table.from_py(lease.as_cuda(), ctypes.byref(out)) == 0
    return lambda: release(out.value), None


def by_look(lease):
    """Show the tensor by the C exchange API, for the time of a call."""
    tensor = DLTensor()
    shown = lease.as_cuda()
    assert table.tensor_from_py(shown, ctypes.byref(tensor)) == 0
    assert tensor.data == lease.address
    return lambda: None, shown


SILENT = {
    "interface": by_interface,
    "capsule": by_capsule,
    "table": by_table,
    "look": by_look,
}


@pytest.mark.parametrize(
    "way",
    [
        "interface",
        "capsule",
        # The table shows the memory of a simulated GPU as the host's, which is waited for at once.
        pytest.param("table", marks=only_real),
        pytest.param("look", marks=only_real),
    ],
)
def test_consumers_that_do_not_tell_their_stream_are_waited_for(gpu, way):
    """Their work may be on any stream of the device, so all of it comes first (law 2)."""
    address, gate, stream = gpu.alloc(SIZE), gpu.gate(), gpu.stream()
    lease, gone = wrapped(address)
    let_go, kept = SILENT[way](lease)
    del lease
    gate.hold(stream)
    fill(address, 1, SIZE, stream)
    let_go()
    del let_go, kept
    goes_after(gpu, gate, gone)


def test_a_tensor_without_flags_is_not_made_of_read_only_memory():
    """A bare DLTensor cannot say read-only, so its reader could write: that is refused (law 6)."""
    lease = gpulend.zeros(4, "uint8").as_readonly()
    for shown in (lease, lease.as_cuda()):
        tensor = DLTensor()
        with pytest.raises(gpulend.ExportError, match="read-only"):
            table.tensor_from_py(shown, ctypes.byref(tensor))
        assert not tensor.data
    tensor = DLTensor()
    assert table.tensor_from_py(gpulend.zeros(4, "uint8").as_cuda(), ctypes.byref(tensor)) == 0


def test_numba_is_waited_for_on_the_stream_it_was_lent_for(gpu):
    """Numba's array holds the lease; the deleter behind it waits for Numba's stream."""
    cuda = need("numba.cuda")
    address, gate, stream = gpu.alloc(SIZE), gpu.gate(), cuda.stream()
    handle = gpulend.Stream(stream).handle
    lease, gone = wrapped(address, ready_on=stream)
    array = lease.lend("numba", stream=stream)
    gate.hold(handle)
    fill(address, 1, SIZE, handle)
    del lease, array
    goes_after(gpu, gate, gone)
