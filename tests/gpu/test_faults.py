"""Driver calls that fail: a named error, nothing leaked, and the next call works (law 12).

The simulated GPU fails on demand. Each action is run once without faults to learn which calls it
makes; then each of those calls fails, alone and for good, in all the actions that make it.
"""

from __future__ import annotations

import gc
import time
from ctypes import c_void_p

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import value
from gpulend import simulator

from .resources import (
    SOON,
    Owned,
    driver_calls,
    eventually,
    free_bytes,
    need,
    nothing_stays,
    only_simulated,
    still_works,
)

pytestmark = only_simulated


class Scene:
    """Memory on two streams, none of it done."""

    def __init__(self):
        self.first, self.then = gpulend.Stream(), gpulend.Stream()
        with self.first:
            self.lease = gpulend.full((8, 8), 2, "int32")
            self.other = gpulend.zeros((8, 8), "int32")

    def copy(self):
        """Copy on another stream, strided."""
        with self.then:
            self.other.T.copy_from(self.lease)

    def plain(self):
        """Copy on the same stream, whole."""
        with self.first:
            self.other.copy_from(self.lease)

    def point(self):
        """Take the bare address on another stream."""
        with self.lease.pointer(self.then):
            pass


ACTIONS = {
    "empty": lambda s: gpulend.empty(1000, "uint8"),
    "zeros": lambda s: gpulend.zeros((10, 10), "float32"),
    "full": lambda s: gpulend.full(100, 2.5, "float64"),
    "from_host": lambda s: gpulend.from_host(np.arange(1000)),
    "from_host large": lambda s: gpulend.from_host(np.arange(1 << 18)),
    "to_host": lambda s: s.lease.to_host(),
    "to_host strided": lambda s: s.lease[::2, ::-1].to_host(),
    "copy_from host": lambda s: s.lease.copy_from(np.zeros((8, 8), np.int32)),
    "copy_to host": lambda s: s.lease.copy_to(np.zeros((8, 8), np.int32)),
    "copy": lambda s: s.copy(),
    "plain copy": lambda s: s.plain(),
    "borrow": lambda s: gpulend.borrow(s.lease, s.then),
    "dlpack": lambda s: s.lease.__dlpack__(stream=s.then.handle, dl_device=(2, 0)),
    "copied dlpack": lambda s: s.lease.__dlpack__(stream=1, copy=True),
    "numpy": lambda s: s.lease.lend("numpy"),
    "torch": lambda s: s.lease.lend("torch"),
    "cuda.core": lambda s: s.lease.lend("cuda.core", stream=s.then),
    "cai": lambda s: s.lease.as_cuda().__cuda_array_interface__,
    "pointer": lambda s: s.point(),
    "wrap": lambda s: gpulend.wrap(s.lease.address, 256, "uint8", owner=s.lease),
    "stream": lambda s: gpulend.Stream(),
    "record": lambda s: s.first.record(),
    "wait": lambda s: s.then.wait(s.first),
    "done": lambda s: s.first.done,
    "synchronize stream": lambda s: s.first.synchronize(),
    "synchronize": lambda s: gpulend.synchronize(),
}
# What only our own bookkeeping calls, in places where a failure cannot be reported.
QUIET = ("cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode", "cuCtxPopCurrent")
FRAMEWORKS = ("torch", "cuda.core")
# What makes no other call, so that none can fail.
CALLS_NOTHING = ("cai",)


def made_by(action):
    """Return the functions that an action calls, by the names that faults take."""
    scene = Scene()
    before = driver_calls()
    kept = ACTIONS[action](scene)
    made = simulator.report()["calls"]
    names = [name for name, count in made.items() if count > before.get(name, 0)]
    del kept
    return sorted(name.removesuffix("_v2").removesuffix("_v3") for name in names)


def outcome(action, scene):
    """Run an action; return its error's code and text, or nothing, and keep neither alive."""
    try:
        ACTIONS[action](scene)
    except gpulend.Error as error:
        return error.code, str(error), type(error)
    return None


@pytest.mark.parametrize("action", ACTIONS)
def test_each_call_of_an_action_may_fail(action):
    """Whichever driver call fails, first or always: a named error or none, and nothing is left."""
    if action in FRAMEWORKS:
        need(action)
    functions = [name for name in made_by(action) if name not in QUIET]
    assert bool(functions) == (action not in CALLS_NOTHING), functions
    gpulend.synchronize()
    with nothing_stays():
        for function in functions:
            for which in ("1", "*"):
                scene = Scene()
                with simulator.faults(f"{function}#{which}=LAUNCH_FAILED"):
                    result = outcome(action, scene)
                if result is not None:
                    code, text, kind = result
                    assert issubclass(kind, gpulend.Error), (function, result)
                    assert code, (function, result)
                    assert function in text or code != 1001, (function, result)
                del scene
            still_works()
        gc.collect()


@pytest.mark.parametrize(
    ("function", "action"),
    [
        ("cuEventRecord", "borrow"),
        ("cuStreamWaitEvent", "borrow"),
        ("cuEventRecord", "cuda.core"),
        ("cuStreamWaitEvent", "cuda.core"),
        ("cuEventRecord", "record"),
        ("cuMemAllocFromPoolAsync", "empty"),
        ("cuStreamCreateWithPriority", "stream"),
        ("cuStreamSynchronize", "synchronize stream"),
        ("cuEventSynchronize", "synchronize"),
    ],
)
def test_a_failed_call_is_named(function, action):
    """The error says which call failed and what the driver returned: both can be looked up."""
    if action in FRAMEWORKS:
        need(action)
    scene = Scene()
    with simulator.faults(f"{function}#*=LAUNCH_FAILED"):
        result = outcome(action, scene)
    assert result is not None, "the failure was hidden"
    code, text, kind = result
    assert kind is gpulend.DriverError
    assert code == 1001
    assert function in text
    assert "CUDA_ERROR_LAUNCH_FAILED" in text
    assert "719" in text
    gpulend.synchronize()
    assert scene.lease.to_host().tolist() == [[2] * 8] * 8


@pytest.mark.parametrize(
    "action",
    [
        "to_host",
        "from_host",
        "copy",
        "plain copy",
        "copy_from host",
        "copy_to host",
        "zeros",
        "full",
    ],
)
def test_failed_copies_and_fills_are_told(action):
    """Bytes that were not written must not pass for bytes that were."""
    functions = [name for name in made_by(action) if name.startswith(("cuMemcpy", "cuMemset"))]
    assert functions
    for function in functions:
        scene = Scene()
        with simulator.faults(f"{function}#*=ILLEGAL_ADDRESS"):
            result = outcome(action, scene)
        assert result is not None, function
        assert result[0] == 1001
        assert function in result[1]
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in result[1]


def test_no_room_in_the_pool_is_out_of_memory():
    """The driver's own words for it become our exception, which is a MemoryError."""
    with nothing_stays():
        with simulator.faults("cuMemAllocFromPoolAsync#*=OUT_OF_MEMORY"):
            result = outcome("empty", None)
        assert result is not None
        assert result[0] == 1020
        assert issubclass(result[2], MemoryError)
        still_works()


def test_no_room_once_is_tried_again_or_told():
    """Memory that waits to be given back may make room: a first failure may be overcome."""
    with simulator.faults("cuMemAllocFromPoolAsync#1=OUT_OF_MEMORY"):
        result = outcome("empty", None)
    assert result is None or result[0] == 1020
    still_works()


def test_memory_that_ends_early():
    """A device with little room: what fits is allocated, what does not is refused."""
    used = 4 * 2**30 - free_bytes()
    with nothing_stays(), simulator.faults(f"memory={used + 8 * 2**20}"):
        kept = [gpulend.empty(1 << 20, "uint8") for _ in range(4)]
        with pytest.raises(gpulend.OutOfMemoryError, match="cuda:0"):
            gpulend.empty(1 << 30, "uint8")
        kept.clear()
        gpulend.synchronize()
        _fits()


def _fits():
    """Memory that was given back can be had again; it may take the background thread a moment."""

    def fits():
        try:
            gpulend.empty(1 << 20, "uint8")
        except gpulend.OutOfMemoryError:
            return False
        return True

    eventually(fits, "room again")


@pytest.mark.parametrize(
    "function", ["cuEventRecord", "cuEventQuery", "cuMemFreeAsync", "cuEventCreate"]
)
def test_the_background_thread_survives_failures(function):
    """It cannot report it: it must go on, and what could be freed later is."""
    stream = gpulend.Stream()
    with nothing_stays():
        with simulator.faults(f"{function}#1=LAUNCH_FAILED"):
            lease = gpulend.zeros(1000, "uint8")
            lease.used_on(stream)
            del lease
            stream.synchronize()
        gpulend.zeros(1000, "uint8").used_on(stream)
    still_works()


def test_a_lost_device_is_named_and_comes_back():
    """A device that falls off the bus fails every call; when it is back, all works again."""
    lease = gpulend.full(100, 3, "int32")
    gpulend.synchronize()
    with simulator.faults("lost=0"):
        for call in (lambda: gpulend.zeros(5, "int32"), lease.to_host, gpulend.synchronize):
            with pytest.raises(gpulend.DriverError):
                call()
        del call
    assert gpulend.full(3, 1, "int32").to_host().tolist() == [1, 1, 1]
    del lease


@pytest.mark.parametrize("code", ["LAUNCH_FAILED", "ILLEGAL_ADDRESS"])
def test_memory_is_released_when_its_device_does_no_more_work(gpu, code):
    """Nothing will be done there that could be waited for."""
    gone, stream = [], value(c_void_p, cu.cuStreamCreate, 1)
    lease = gpulend.wrap(
        gpu.alloc(64), 64, "uint8", ready_on="now", deleter=lambda *_: gone.append(1)
    )
    # Its work can be waited for with all of the device's only.
    lease.used_on(Owned(stream))
    gpulend.synchronize()
    check(cu.cuStreamDestroy_v2(stream))
    with simulator.faults(f"cuCtxRecordEvent#*={code}"):
        del lease
        end = time.monotonic() + SOON
        while not gone and time.monotonic() < end:
            time.sleep(0.01)
    assert gone == [1]
    still_works()
