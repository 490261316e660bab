"""Law 2: a deleter waits for nothing, whatever produced the memory."""

from __future__ import annotations

import array
import ctypes
import time

import gpulend
import numpy as np
import pytest
from capsules import Sample, consume, settle
from conftest import need

torch = need("torch")


class Proxy:
    """Hands on the DLPack of an array, as wrappers do."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        """Return the array's own capsule."""
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        """Return the array's own device."""
        return self.array.__dlpack_device__()


class Subclass(np.ndarray):
    """A subclass of ndarray."""


class TimeSpec(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


PRODUCERS = {
    "numpy": lambda: np.ones(3),
    "an ndarray subclass": lambda: np.ones(3).view(Subclass),
    "a proxy": lambda: Proxy(np.ones(3)),
    "a legacy capsule": lambda: np.ones(3).__dlpack__(),
    "a versioned capsule": lambda: np.ones(3).__dlpack__(max_version=(1, 0)),
    "torch": lambda: torch.ones(3),
    "a buffer": lambda: array.array("d", [1, 2]),
    "ctypes": lambda: (ctypes.c_double * 3)(),
    "a deleter in Python": lambda: gpulend.wrap(
        (memory := (ctypes.c_double * 3)()) and ctypes.addressof(memory),
        3,
        "float64",
        deleter=lambda *_, memory=memory: None,
    ),
    "a C producer": lambda: _kept(Sample()).capsule(),
}
KEPT = []


def _kept(sample):
    """Keep a producer as long as its tensors: the collector would take it, and they call it."""
    KEPT.append(sample)
    return sample


def finishes_without_the_gil(function_address, argument):
    """Run a C function on a new thread while this one keeps the GIL; return whether it ends."""
    held = ctypes.PyDLL(None)  # calls through it keep the GIL
    thread = ctypes.c_ulong()
    arguments = (ctypes.c_void_p(function_address), ctypes.c_void_p(argument))
    assert held.pthread_create(ctypes.byref(thread), None, *arguments) == 0
    limit = TimeSpec(int(time.time()) + 20, 0)
    ended = held.pthread_timedjoin_np(thread, None, ctypes.byref(limit)) == 0
    if not ended:
        ctypes.CDLL(None).pthread_join(thread, None)
    return ended


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("version", [None, (1, 3)])
def test_a_consumer_frees_an_export_while_somebody_keeps_the_gil(producer, version):
    """Its locks may be what the GIL's holder waits for, so our deleter must not wait for that."""
    exported = gpulend.borrow(PRODUCERS[producer]()).__dlpack__(max_version=version)
    pointer, struct = consume(exported)
    assert finishes_without_the_gil(struct.from_address(pointer).deleter, pointer)
    settle()
