"""Captures of a blocking stream, while other threads allocate, copy, launch and drop."""

from __future__ import annotations

import ctypes
import gc
import threading

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu

from .resources import eventually

CAPTURES = 30
THREADS = 3
KERNEL = 'extern "C" __global__ void raise(float *x) { x[threadIdx.x] += 1.0f; }'
MODES = {"global": 0, "thread-local": 1, "relaxed": 2}


class Load:
    """What the threads work on: memory and a kernel of their own."""

    def __init__(self) -> None:
        self.kernel = gpulend.compile(KERNEL)["raise"]
        self.host = np.ones(64, "float32")

    def arrays(self):
        """Return two arrays of the calling thread's current stream."""
        return gpulend.zeros(64, "float32"), gpulend.zeros(64, "float32")


WORK = {
    "launch": lambda load, one, other: load.kernel[1, 64](one),
    "zeros": lambda load, one, other: gpulend.zeros(8, "float32"),
    "copy from the host": lambda load, one, other: one.copy_from(load.host),
    "copy to the host": lambda load, one, other: one.to_host(),
    "copy between": lambda load, one, other: one.copy_from(other),
    "drop": lambda load, one, other: gpulend.empty(8, "float32") and None,
    "wrap and drop": lambda load, one, other: gpulend.wrap(
        one.address, 64, "float32", owner=one, ready_on=gpulend.current_stream()
    ),
    "collect": lambda load, one, other: gc.collect(0),
}


def captured(mode: str) -> tuple[int, int]:
    """Capture a blocking stream again and again; return how many ended well, and how many not."""
    stream = gpulend.Stream(blocking=True)
    well = lost = 0
    for _ in range(CAPTURES):
        check(cu.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.handle), MODES[mode]))
        # Long enough for the threads to meet it.
        threading.Event().wait(0.0002)
        graph = ctypes.c_void_p()
        ended = cu.cuStreamEndCapture(ctypes.c_void_p(stream.handle), ctypes.byref(graph))
        if ended == 0:
            well += 1
            check(cu.cuGraphDestroy(graph))
        else:
            lost += 1
    return well, lost


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["blocking", "non-blocking"])
@pytest.mark.parametrize("work", WORK)
def test_work_on_streams_of_one_s_own_loses_no_capture(gpu, work, kind, mode):
    """Only the legacy stream harms a capture of a blocking one: other work must not touch it."""
    load, stop, problems = Load(), threading.Event(), []
    done = [0] * THREADS

    def loop(index: int) -> None:
        try:
            with gpulend.Stream(blocking=kind == "blocking") as stream:
                one, other = load.arrays()
                while not stop.is_set():
                    WORK[work](load, one, other)
                    done[index] += 1
                    # A late GPU would have to catch up with all of it.
                    if done[index] % 16 == 0:
                        stream.synchronize()
                        # The capturing thread wants the interpreter too.
                        stop.wait(0.0005)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=loop, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: problems or min(done) > 0, "each thread works")
        begun = sum(done)
        well, lost = captured(mode)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert problems == []
    assert (well, lost) == (CAPTURES, 0)
    assert sum(done) > begun
