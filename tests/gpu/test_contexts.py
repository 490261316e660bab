"""The caller's context is what it was after each call, also after one that failed (law 10)."""

from __future__ import annotations

import threading
from ctypes import c_void_p

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import JUNK, current, value

from .resources import SIMULATED, need, need_two_devices, still_works


def none(context):
    """No context at all, as in a fresh thread."""
    check(cu.cuCtxSetCurrent(None))
    return lambda: None


def primary_of_another_device(context):
    """Another device's primary context, as in a program with two GPUs."""
    need_two_devices()
    check(cu.cuCtxSetCurrent(value(c_void_p, cu.cuDevicePrimaryCtxRetain, 1)))
    return lambda: check(cu.cuDevicePrimaryCtxRelease_v2(1))


def made_by_hand(context):
    """A context of its own, as PyCUDA makes."""
    made = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    return lambda: check(cu.cuCtxDestroy_v2(made))


class Stage:
    """What the calls work on, made before the context is changed."""

    def __init__(self, gpu):
        self.lease = gpulend.full((8, 8), 2, "int32")
        self.other = gpulend.zeros((8, 8), "int32")
        self.stream = gpulend.Stream()
        self.event = self.stream.record()
        self.address = gpu.alloc(64)
        gpulend.synchronize()

    def point(self):
        """Take the bare address and give it back."""
        with self.lease.pointer(self.stream):
            pass

    def enter(self):
        """Work on a stream."""
        with self.stream:
            return gpulend.zeros(10, "uint8")


CALLS = {
    "empty": lambda s: gpulend.empty(100, "uint8", device="cuda:0"),
    "zeros": lambda s: gpulend.zeros((10, 10), "float32", device="cuda:0"),
    "full": lambda s: gpulend.full(100, 1.5, "float64", device="cuda:0"),
    "from_host": lambda s: gpulend.from_host(np.arange(100), device="cuda:0"),
    "empty_like": lambda s: gpulend.empty_like(s.lease),
    "to_host": lambda s: s.lease.to_host(),
    "strided to_host": lambda s: s.lease[::2, ::-1].to_host(),
    "copy_from host": lambda s: s.lease.copy_from(np.zeros((8, 8), np.int32)),
    "copy_from": lambda s: s.lease.T.copy_from(s.other),
    "copy_to": lambda s: s.lease.copy_to(s.other),
    "borrow": lambda s: gpulend.borrow(s.lease, s.stream),
    "slice": lambda s: s.lease[1:].T,
    "dlpack": lambda s: s.lease.__dlpack__(stream=s.stream.handle, dl_device=(2, 0)),
    "cai": lambda s: s.lease.as_cuda().__cuda_array_interface__,
    "numpy": lambda s: s.lease.lend("numpy") if SIMULATED else s.lease.to_host(),
    "cuda.core": lambda s: s.lease.lend("cuda.core", stream=s.stream),
    "pointer": lambda s: s.point(),
    "used_on": lambda s: s.lease.used_on(s.stream),
    "wrap": lambda s: gpulend.wrap(s.address, 64, "uint8", unowned=True),
    "wrap there": lambda s: gpulend.wrap(s.address, 64, "uint8", device="cuda:0", unowned=True),
    "describe": lambda s: gpulend.describe(s.address),
    "release": lambda s: s.other.release(),
    "stream": lambda s: gpulend.Stream(device="cuda:0"),
    "enter": lambda s: s.enter(),
    "record": lambda s: s.stream.record(),
    "wait": lambda s: s.stream.wait(s.event),
    "done": lambda s: (s.stream.done, s.event.done, s.stream.capturing),
    "stream synchronize": lambda s: s.stream.synchronize(),
    "event synchronize": lambda s: s.event.synchronize(),
    "synchronize": lambda s: gpulend.synchronize("cuda:0"),
    "current_stream": lambda s: gpulend.current_stream("cuda:0"),
    "ledger": lambda s: gpulend.ledger(),
}
FAILING = {
    "junk": lambda s: gpulend.wrap(JUNK, 4, "uint8", device="cuda:0", unowned=True),
    "too long": lambda s: gpulend.wrap(s.address, 65, "uint8", unowned=True),
    "no room": lambda s: gpulend.empty(1 << 45, "uint8", device="cuda:0"),
    "no device": lambda s: gpulend.empty(1, "uint8", device="cuda:9"),
    "stream 0": lambda s: s.lease.__dlpack__(stream=0, dl_device=(2, 0)),
    "wrong shape": lambda s: s.lease.copy_from(np.zeros(3, np.int32)),
    "no stream": lambda s: s.lease.used_on("x"),
    "no value": lambda s: gpulend.full(3, 999, "uint8", device="cuda:0"),
}


@pytest.mark.parametrize("state", [none, primary_of_another_device, made_by_hand])
@pytest.mark.parametrize("call", [*CALLS, *FAILING])
def test_a_call_leaves_the_caller_s_context(gpu, call, state):
    """Who calls us from PyCUDA or from a worker thread goes on in the context that it had."""
    if call == "cuda.core":
        need("cuda.core")
    stage = Stage(gpu)
    put_away = state(gpu.context)
    before = current()
    try:
        if call in FAILING:
            with pytest.raises(gpulend.Error):
                FAILING[call](stage)
            kept = None
        else:
            kept = CALLS[call](stage)
        assert current() == before
        del kept, stage
        assert current() == before, "dropping changed the context"
    finally:
        put_away()
        check(cu.cuCtxSetCurrent(gpu.context))
    still_works()


@pytest.mark.parametrize("state", [none, primary_of_another_device, made_by_hand])
def test_work_is_right_whatever_context_is_current(gpu, state):
    """Not only unchanged: memory, copies and streams must be those of the lease's own device."""
    put_away = state(gpu.context)
    try:
        lease = gpulend.full((4, 4), 3, "int32", device="cuda:0")
        stream = gpulend.Stream(device="cuda:0")
        with stream:
            other = gpulend.zeros((4, 4), "int32")
            other.T.copy_from(lease)
        assert other.device == "cuda:0"
        assert gpulend.describe(other).device == "cuda:0"
        assert other.to_host().tolist() == [[3] * 4] * 4
        del lease, other, stream
    finally:
        put_away()
        check(cu.cuCtxSetCurrent(gpu.context))


def test_threads_without_a_context_work(gpu):
    """The driver needs a context on each thread: a fresh one has none, and gets none to keep."""
    seen = []

    def work():
        assert current() is None
        lease = gpulend.full(1000, 7, "int32")
        with gpulend.Stream():
            other = gpulend.empty(1000, "int32")
            other.copy_from(lease)
            seen.append(int(other.to_host().sum()))
        seen.append(current())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen.count(7000) == 8
    assert seen.count(None) == 8


def test_the_context_stack_is_left_alone(gpu):
    """Pushes and pops are paired: contexts below the current one stay where they are."""
    made = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    check(cu.cuCtxPushCurrent_v2(gpu.context))
    lease = gpulend.zeros(100, "uint8")
    lease.to_host()
    del lease
    assert value(c_void_p, cu.cuCtxPopCurrent_v2) == gpu.context
    assert current() == made
    check(cu.cuCtxDestroy_v2(made))
    assert current() == gpu.context
