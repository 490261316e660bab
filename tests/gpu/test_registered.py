"""Frameworks that a program registers, with memory and streams of a GPU."""

from __future__ import annotations

import ctypes
import gc

import gpulend
import numpy as np
import pytest
from gpulend import _native, adapters
from gpulend.adapters import Adapter, Consumer, Framework, Makes, Takes

from .resources import only_simulated


@pytest.fixture(autouse=True)
def _registry():
    """Take away afterwards what a test registers."""
    before = dict(adapters.FRAMEWORKS)
    yield
    for name in adapters.FRAMEWORKS.keys() - before.keys():
        del adapters.FRAMEWORKS[name]
        adapters.CONSUMERS.pop(name, None)
    _native._forget_routes()


class Address:
    """An array that is an address, and what it keeps."""

    def __init__(self, address, kept=None):
        self.address = address
        self.kept = kept


def addresses(name, make, **takes):
    """Register a framework of such arrays."""
    consumer = Consumer(
        takes=Takes(types=["float32"], gpu=True, **takes), makes=make, address="address"
    )
    gpulend.register(Framework(name, Adapter(consumer=consumer), module=__name__))


KEEPERS = {
    "lease": (
        lambda keep: Makes(lease=lambda lease: Address(lease.address, lease if keep else None)),
        {},
    ),
    "values": (
        lambda keep: Makes(values=lambda *all: Address(all[0], all[-1] if keep else None)),
        {"simulated_as_cuda": True},
    ),
    "on_stream": (
        lambda keep: Makes(
            on_stream=lambda lease, _stream: Address(lease.address, lease if keep else None)
        ),
        {"simulated_as_cuda": True},
    ),
    "for_queue": (
        lambda keep: Makes(
            for_queue=lambda lease, _queue, _copy: Address(lease.address, lease if keep else None)
        ),
        {},
    ),
}


@only_simulated
@pytest.mark.parametrize("how", KEEPERS)
def test_a_consumer_that_keeps_nothing_is_refused(gpu, how):
    """The memory would be freed while its array is used."""
    makes, takes = KEEPERS[how]
    addresses("careless", makes(False), **takes)
    addresses("careful", makes(True), **takes)
    lease = gpulend.full(6, 1, "float32")
    with pytest.raises(gpulend.ExportError, match="careless made keeps nothing") as caught:
        lease.lend("careless")
    assert caught.value.code == 357
    array = lease.lend("careful")
    with pytest.raises(gpulend.StillLentError, match="careful"):
        lease.release()
    names = [entry.who for entry in gpulend.ledger() if entry.kind == "export"]
    assert "careful" in names
    del array
    gc.collect()
    lease.release()
    empty = gpulend.empty(0, "float32")
    empty.lend("careless")
    empty.release()


@only_simulated
@pytest.mark.parametrize("stream", [-1, 2**70, True, None, 1.5])
def test_a_current_stream_that_is_none_is_refused_in_words(gpu, stream):
    """The adapter returned it."""
    consumer = Consumer(
        takes=Takes(types=["float32"], gpu=True, simulated_as_cuda=True),
        makes=Makes(values=lambda *all: Address(all[0], all[-1])),
        address="address",
        streams=adapters.Streams(current=lambda _device: stream),
    )
    gpulend.register(Framework("brooks", Adapter(consumer=consumer), module=__name__))
    lease = gpulend.full(3, 1, "float32")
    with pytest.raises(gpulend.ProtocolError) as caught:
        lease.lend("brooks")
    assert caught.value.code == 253


class Brook:
    """A stream object without `__cuda_stream__`."""

    def __init__(self, handle):
        self.handle = handle


@pytest.mark.parametrize("handle", [None, 0.1, 1.5, 2.9, np.float32(1)])
def test_a_handle_that_is_no_number_is_no_stream(gpu, handle):
    """Least of all the legacy one."""
    kind = adapters.StreamType(knows=lambda cls: cls is Brook, handle="handle")
    gpulend.register(Framework("brooks", Adapter(stream_type=kind), module=__name__))
    with pytest.raises(gpulend.ProtocolError) as caught:
        gpulend.Stream(Brook(handle))
    assert caught.value.code == 253
    assert gpulend.Stream(Brook(ctypes.c_void_p(0))) == gpulend.Stream(1)
    assert gpulend.Stream(Brook(np.int64(2))) == gpulend.Stream(2)
