"""A launch on memory of the host waits for its kernel; if the wait fails, memory is kept."""

from __future__ import annotations

import gc
import time
import weakref

import gpulend
import numpy as np
import pytest
from gpu.resources import SOON, need, only_simulated
from gpulend import _native, adapters, simulator
from gpulend.adapters import Adapter, Framework, Producer

from .arrays import compiled

pytestmark = only_simulated
SOURCE = """
extern "C" __global__ void bump(float *x, int n) {
    if (threadIdx.x < n) x[threadIdx.x] += 1;
}
"""


class Crate:
    """An array of the host's memory that stands in for one of a GPU."""

    def __init__(self):
        self.array = np.zeros(8, np.float32)

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.fixture
def crates():
    """Register the framework of crates."""
    producer = Producer(knows=lambda cls: cls is Crate, stands_in=True)
    framework = Framework("crates", Adapter(producers=(producer,)), module=__name__)
    gpulend.register(framework)
    yield
    del adapters.FRAMEWORKS["crates"]
    _native._forget_routes()


def of_torch():
    """Return a tensor, and what owns its memory."""
    tensor = need("torch").zeros(8)
    return tensor, tensor


def of_crates():
    """Return a crate, and what owns its memory."""
    crate = Crate()
    return crate, crate.array


def of_lease():
    """Return a lease of a tensor, and what owns its memory."""
    tensor = need("torch").zeros(8)
    return gpulend.borrow(tensor), tensor


CALLS = {
    "quick": lambda kernel, array: kernel[1, 8](array, 8),
    "keywords": lambda kernel, array: kernel[1, 8](array, 8, shared=0),
    "launch": lambda kernel, array: kernel.launch(1, 8, (array, 8)),
}


@pytest.mark.parametrize("rule", ["cuStreamSynchronize#1", "cuStreamGetCaptureInfo#2"])
@pytest.mark.parametrize("make", [of_torch, of_crates, of_lease])
@pytest.mark.parametrize("call", CALLS)
def test_memory_is_kept_until_a_kernel_whose_wait_failed_has_run(gpu, crates, call, make, rule):
    """The caller has dropped it by then; nobody else may get it."""
    kernel = compiled(SOURCE)["bump"]
    kernel.attributes
    gate, stream = gpu.gate(), gpulend.Stream()
    with stream:
        array, owner = make()
        dropped = weakref.ref(owner)
        gate.hold(stream)
        with (
            simulator.faults(f"{rule}=INVALID_VALUE"),
            pytest.raises(gpulend.DriverError) as caught,
        ):
            CALLS[call](kernel, array)
    del array, owner, caught
    gc.collect()
    gpu.reap()
    assert dropped() is not None
    gate.open()
    stream.synchronize()
    end = time.monotonic() + SOON
    while dropped() is not None:
        assert time.monotonic() < end, "the memory is never released"
        time.sleep(0.001)
        gpulend.borrow(bytearray(1))
    gpu.reap(stream)


def test_a_tensor_that_gets_other_memory_leaves_the_old_to_the_kernel(gpu):
    """The storage is kept, and not the tensor alone."""
    torch = need("torch")
    kernel = compiled(SOURCE)["bump"]
    kernel.attributes
    gate, stream = gpu.gate(), gpulend.Stream()
    tensor = torch.zeros(8)
    with stream:
        gate.hold(stream)
        with (
            simulator.faults("cuStreamSynchronize#1=INVALID_VALUE"),
            pytest.raises(gpulend.DriverError),
        ):
            kernel[1, 8](tensor, 8)
    before = len(gpulend.ledger())
    tensor.set_(torch.zeros(8))
    assert before == 1
    gate.open()
    stream.synchronize()
    gpu.reap(stream)
    assert not tensor.any()
