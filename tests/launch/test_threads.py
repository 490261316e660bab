"""Threads that launch at once: on their own arrays, on one counter, and for the first time."""

from __future__ import annotations

import threading

import gpulend
import pytest
from gpu.forks import forking
from gpu.resources import not_sanitized

from .arrays import compiled
from .gated import SOURCE, ints, kernel, only


def in_threads(count, function):
    """Run a function in threads that begin at once; raise what any raised."""
    barrier, errors = threading.Barrier(count), []

    def run(number):
        barrier.wait()
        try:
            function(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_threads_launch_at_once(gpu):
    """Each on its own stream and arrays, with one kernel; and all on one counter."""
    go, counter = kernel("plus"), gpulend.zeros(1, "int32")
    results = {}

    def work(number):
        with gpulend.Stream():
            a, b = ints(number), ints(0)
            for _ in range(50):
                go(a, b, 1)
                compiled(SOURCE)["count"][1, 32](counter)
                a, b = b, a
            results[number] = only(a)

    in_threads(4, work)
    assert results == {number: number + 50 for number in range(4)}
    assert counter.to_host().tolist() == [4 * 50 * 32]


def test_threads_load_a_module_once(gpu):
    """The first launch loads it; eight first launches at once share its variables."""
    source = "__device__ int total; __global__ void bump() { atomicAdd(&total, 1); }"
    module = gpulend.compile(source)
    in_threads(8, lambda number: module["bump"][1, 4]())
    gpulend.synchronize()
    assert module.variable("total").to_host() == 32


KERNELS = """
__device__ int total[64];
extern "C" __global__ void bump(int by) { total[threadIdx.x] += by; }
extern "C" __global__ void plus(int *to, int by) { to[threadIdx.x] += by; }
template <class T> __global__ void fill(T *to) { to[threadIdx.x] = 1; }
"""
PREPARE = f"""
import warnings
from ctypes import byref, c_void_p
from driver.cuda import check, cu
from driver.resources import start
warnings.simplefilter("ignore")
source = {KERNELS!r}
module = gpulend.compile(source)
bump, plus = module["bump"][1, 64], module["plus"][1, 64]
context = start()
array = gpulend.zeros(64, "int32")
def captured():
    check(cu.cuCtxSetCurrent(context))
    stream, graph = gpulend.Stream(), c_void_p()
    with stream:
        there = gpulend.zeros(64, "int32")
        stream.synchronize()
        check(cu.cuStreamBeginCapture_v2(stream.handle, 1))
        plus(there, 1)
        bump(1)
        check(cu.cuStreamEndCapture(stream.handle, byref(graph)))
    check(cu.cuGraphDestroy(graph))
bump(1)
plus(array, 1)
"""
CALLS = """
lambda: module["bump"], lambda: module.variable("total"), lambda: bump(1),
lambda: plus(array, 1), lambda: plus(array, 1, stream=streams[4]), lambda: module["fill<float>"],
lambda: module["bump"].attributes, lambda: module["plus"].forall(64)(array, 1),
lambda: gpulend.compile(source),
"""
BUSY = {
    "launches": "plus(array, 1); bump(1); gpulend.synchronize()",
    "streams": "plus(array, 1, stream=gpulend.Stream()); gpulend.synchronize()",
    "variables": "module.variable('total').used_on(streams[7]); bump(1); gpulend.synchronize()",
    "modules": "gpulend.compile(source)['bump'][1, 64](1)",
    "captures": "captured()",
}


@not_sanitized
@pytest.mark.parametrize("work", BUSY)
def test_a_fork_beside_threads_that_launch_leaves_no_lock_behind(work):
    """Kernels, modules and variables in the child: error 914 or an answer, and never a wait."""
    assert forking(BUSY[work], PREPARE, CALLS) == "[] []"
