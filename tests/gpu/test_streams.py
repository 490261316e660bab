"""Streams and events: what names one, which is current, and who waits for whom."""

from __future__ import annotations

import threading

import gpulend
import pytest
from driver.resources import LEGACY, PER_THREAD, current

from .resources import (
    REAL,
    bytes_at,
    copy,
    fill,
    need,
    still_works,
    waiting,
)


class Foreign:
    """A stream of a library that speaks the stream protocol and nothing else."""

    def __init__(self, answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


@pytest.mark.parametrize(("said", "handle"), [(1, LEGACY), (2, PER_THREAD), (0, LEGACY)])
def test_numbers_name_the_default_streams(said, handle):
    """Handle 0 is the legacy stream by a name that protocols forbid: it becomes 1 (law 3)."""
    assert gpulend.Stream(said).handle == handle
    assert gpulend.Stream(Foreign((0, said))).handle == handle
    assert gpulend.Stream(said).__cuda_stream__() == (0, handle)


@pytest.mark.parametrize("said", [-1, 2**70, True, 1.5, "now", [], object()])
def test_what_is_no_stream_is_refused(said):
    """An object that is not a stream would be waited for in the wrong place, or not at all."""
    with pytest.raises(gpulend.ProtocolError) as caught:
        gpulend.Stream(said)
    assert caught.value.code == 253
    still_works()


@pytest.mark.parametrize("answer", [(0,), 5, None, (0, "a"), (0, -1), ()])
def test_a_broken_stream_protocol_is_refused(answer):
    """What another library answers is read once and checked."""
    with pytest.raises(gpulend.ProtocolError):
        gpulend.Stream(Foreign(answer))
    still_works()


def test_a_stream_protocol_that_raises_is_refused():
    """The other library's error is shown, and ours is named."""

    class Angry:
        def __cuda_stream__(self):
            raise ZeroDivisionError("no stream today")

    with pytest.raises(gpulend.ProtocolError, match="no stream today"):
        gpulend.Stream(Angry())


def test_a_stream_of_cuda_core_comes_in(gpu):
    """The protocol's own library: its handle is ours, and it stays open while we need it."""
    core = need("cuda.core")
    device = core.Device(0)
    device.set_current()
    theirs = device.create_stream()
    ours = gpulend.Stream(theirs)
    assert ours.handle == int(theirs.handle)
    assert ours.device == "cuda:0"
    del theirs
    with ours:
        assert gpulend.full(3, 4, "int32").to_host().tolist() == [4, 4, 4]


def test_a_stream_of_ours_goes_into_cuda_core(gpu):
    """cuda.core takes whatever has `__cuda_stream__`."""
    core = need("cuda.core")
    device = core.Device(0)
    device.set_current()
    ours = gpulend.Stream()
    theirs = device.create_stream(ours)
    assert int(theirs.handle) == ours.handle
    buffer = device.allocate(64, stream=theirs)
    buffer.fill(7, stream=theirs)
    lease = gpulend.borrow(buffer, ready_on=ours)
    assert lease.to_host().tolist() == [7] * 64
    del lease
    buffer.close(theirs)


@pytest.mark.parametrize("library", [*(["torch", "cupy"] if REAL else []), "numba.cuda"])
def test_streams_of_frameworks_come_in(gpu, library):
    """Each framework spells the handle in its own way."""
    module = need(library)
    if library == "torch":
        theirs = module.cuda.Stream()
        handle, default = theirs.cuda_stream, module.cuda.default_stream()
    elif library == "cupy":
        theirs = module.cuda.Stream(non_blocking=True)
        handle, default = theirs.ptr, module.cuda.Stream.null
    else:
        theirs = module.stream()
        handle, default = theirs.__cuda_stream__()[1], module.default_stream()
    assert gpulend.Stream(theirs).handle == handle
    assert gpulend.Stream(default).handle == LEGACY


def test_streams_compare_by_what_they_are(gpu, second):
    """Two names of a stream are equal; the legacy streams of two devices are not."""
    made = gpulend.Stream()
    assert gpulend.Stream(made) == made == gpulend.Stream(made.handle)
    assert hash(gpulend.Stream(made)) == hash(made)
    assert made != gpulend.Stream()
    assert gpulend.Stream(1) == gpulend.Stream(0)
    assert gpulend.Stream(1) != gpulend.Stream(1, device=f"cuda:{second}")


def test_the_current_stream_is_the_legacy_one_unless_said():
    """As it is for CUDA itself."""
    assert gpulend.current_stream().handle == LEGACY
    assert gpulend.current_stream("cuda:0").device == "cuda:0"


def test_with_blocks_nest(gpu):
    """Leaving a block brings back what was current before it, also after an error."""
    outer, inner = gpulend.Stream(), gpulend.Stream()
    with outer:
        assert gpulend.current_stream() == outer
        with pytest.raises(ZeroDivisionError), inner:
            1 / int(gpulend.current_stream() != inner)
        assert gpulend.current_stream() == outer
        with outer, inner, outer:
            assert gpulend.current_stream() == outer
        assert gpulend.current_stream() == outer
    assert gpulend.current_stream().handle == LEGACY


def test_the_current_stream_is_a_thread_s_own(gpu):
    """What one thread enters must not change where another works."""
    stream = gpulend.Stream()
    seen = []
    with stream:
        thread = threading.Thread(target=lambda: seen.append(gpulend.current_stream().handle))
        thread.start()
        thread.join()
        assert gpulend.current_stream() == stream
    assert seen == [LEGACY]


def test_the_current_stream_is_a_device_s_own(gpu, second):
    """A stream of one device says nothing about the other."""
    there = gpulend.Stream(device=f"cuda:{second}")
    assert there.device == f"cuda:{second}"
    with there:
        assert gpulend.current_stream(f"cuda:{second}") == there
        assert gpulend.current_stream("cuda:0").handle == LEGACY
        assert gpulend.empty(3, "float32").device == f"cuda:{second}"
        with gpulend.Stream(device="cuda:0") as here:
            assert gpulend.current_stream("cuda:0") == here
            assert gpulend.current_stream(f"cuda:{second}") == there
            assert gpulend.empty(3, "float32").device == "cuda:0"
    assert gpulend.current_stream(f"cuda:{second}").handle == LEGACY
    assert current() == gpu.context


def test_a_stream_is_not_taken_for_another_device_s(gpu, second):
    """A stream works on its own device only; another name for it is an error."""
    there = gpulend.Stream(device=f"cuda:{second}")
    with pytest.raises(gpulend.Error):
        gpulend.Stream(there, device="cuda:0")
    still_works()


@pytest.mark.parametrize(("device", "error"), [("cpu", "streams"), ("cuda:9", "cuda:9")])
def test_streams_of_no_device_are_refused(device, error):
    """Only GPUs that are there have streams."""
    for make in (lambda: gpulend.Stream(device=device), lambda: gpulend.synchronize(device)):
        with pytest.raises(gpulend.Error, match=error):
            make()
    still_works()


def test_an_event_happens_when_its_work_is_done(gpu):
    """An event is about what was queued before it, and waits for nothing itself."""
    gate, stream = gpu.gate(), gpulend.Stream()
    gate.hold(stream)
    event = stream.record()
    assert not event.done
    assert not stream.done
    assert event.device == stream.device == "cuda:0"
    gate.open()
    event.synchronize()
    assert event.done
    stream.synchronize()
    assert stream.done


@pytest.mark.parametrize("what", ["event", "stream", "handle"])
def test_a_stream_waits_for_another_without_the_host(gpu, what):
    """`wait` queues the wait: the host goes on, the stream does not."""
    gate, first, then = gpu.gate(), gpulend.Stream(), gpulend.Stream()
    gate.hold(first)
    then.wait({"event": first.record(), "stream": first, "handle": first.handle}[what])
    after = then.record()
    assert not after.done
    assert gate.closed
    gate.open()
    after.synchronize()


def test_waiting_for_what_is_no_event_is_refused(gpu):
    """A wait for nothing is a missing wait."""
    stream = gpulend.Stream()
    for wrong in ("x", None, 1.5, object()):
        with pytest.raises(gpulend.ProtocolError):
            stream.wait(wrong)


def test_streams_of_two_devices_wait_for_each_other(gpu, second):
    """Recording and waiting need the device of each stream; the caller's context stays."""
    gate, here = gpu.gate(), gpulend.Stream()
    there = gpulend.Stream(device=f"cuda:{second}")
    gate.hold(here)
    there.wait(here)
    after = there.record()
    assert not after.done
    assert current() == gpu.context
    gate.open()
    after.synchronize()
    here.wait(there)
    here.synchronize()
    assert current() == gpu.context


@pytest.mark.parametrize("blocking", [False, True])
def test_only_blocking_streams_wait_for_the_legacy_one(gpu, blocking):
    """The flag is the whole difference between the two kinds of streams."""
    stream = gpulend.Stream(blocking=blocking)
    gate = gpu.gate()
    gate.hold(LEGACY)
    pinned = gpu.pinned(64)
    fill(pinned, 1, 64, stream.handle)
    if blocking:
        assert waiting(stream)
    else:
        stream.synchronize()
    assert gate.closed
    gate.open()
    stream.synchronize()


def test_synchronize_waits_for_all_streams(gpu):
    """For every stream of the device, also those of others."""
    streams = [gpulend.Stream(), gpulend.Stream(gpu.stream()), gpulend.Stream(PER_THREAD)]
    leases = []
    for stream in streams:
        with stream:
            leases.append(gpulend.full(1000, 3, "int32"))
    gpulend.synchronize()
    assert all(stream.done for stream in streams)
    gpulend.synchronize("cuda:0")
    assert all(lease.to_host().sum() == 3000 for lease in leases)


def test_two_producers_into_one_consumer(gpu):
    """The consumer waits for both: what came first must not make the second forgotten."""
    gate, other = gpu.gate(), gpu.gate()
    first, then, consumer = gpulend.Stream(), gpulend.Stream(), gpulend.Stream()
    leases = []
    for stream, held, number in ((first, gate, 1), (then, other, 2)):
        with stream:
            lease = gpulend.zeros(256, "uint8")
            stream.synchronize()
            held.hold(stream)
            lease.copy_from(gpulend.full(256, number, "uint8"))
        leases.append(lease)
    target = gpu.pinned(512)
    for part, lease in enumerate(leases):
        with lease.pointer(consumer) as address:
            copy(target + 256 * part, address, 256, consumer.handle)
    other.open()
    assert waiting(consumer), "the first producer is still held"
    assert gate.closed
    gate.open()
    consumer.synchronize()
    found = bytes_at(target, 512)
    assert set(found[:256]) == {1}
    assert set(found[256:]) == {2}


def test_work_on_one_device_leaves_the_other_s_alone(gpu, second):
    """A hand-over on a second device waits for nothing here, though the first one is current."""
    gate = gpu.gate()
    gate.hold(gpulend.Stream())
    gate.hold(LEGACY)
    there = gpulend.full(64, 9, "uint8", device=f"cuda:{second}")
    assert there[::2].to_host().tolist() == [9] * 32
    assert gate.closed
    assert current() == gpu.context
