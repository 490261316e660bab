"""Threads that launch at once: on their own arrays, on one counter, and for the first time."""

from __future__ import annotations

import threading

import gpulend

from .queues import SOURCE, ints, kernel, only
from .scene import compiled


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
