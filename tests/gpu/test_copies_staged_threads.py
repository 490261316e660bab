"""Staged copies: failures, threads and their memory, copies that are started, progress, exit."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import gpulend
import numpy as np
import pytest
from gpulend import simulator

from .forks import forking, run
from .resources import REAL, driver_calls, free_bytes, nothing_stays, only_simulated, still_works
from .staged import SMALLEST, THREADS, VARIABLE, copies_made, numbers

pytestmark = pytest.mark.usefixtures("staged")


def threads():
    """Return how many threads stage copies in this process."""
    return sum(
        Path(f"/proc/self/task/{task}/comm").read_text() == "gpulend-copy\n"
        for task in os.listdir("/proc/self/task")
    )


ACTIONS = {
    "up": lambda lease, host: lease.copy_from(host),
    "down": lambda lease, host: lease.to_host(),
    "down into": lambda lease, host: lease.to_host(out=host),
    "pitched": lambda lease, host: lease.reshape(-1, 4096)[:, 5:].to_host(),
    "from_host": lambda lease, host: gpulend.from_host(host),
    "pinned": lambda lease, host: lease.to_host(pinned=True),
    "started": lambda lease, host: lease.copy_from(host, stream=gpulend.Stream()).wait(),
    "background": lambda lease, host: lease.copy_from(
        host, stream=gpulend.Stream(), background=True
    ).wait(),
}
# What only our own bookkeeping calls, in places where a failure cannot be reported.
QUIET = ("cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode", "cuCtxPopCurrent")


def outcome(action, lease, host):
    """Return the code and the text of an action's error, and keep neither alive."""
    try:
        ACTIONS[action](lease, host)
    except gpulend.Error as error:
        return error.code, str(error)
    return 0, ""


@only_simulated
@pytest.mark.parametrize("action", ACTIONS)
def test_each_driver_call_of_a_copy_may_fail(action):
    """A named error, nothing that goes on, no memory lost, and the next copy works."""
    size = 6 * SMALLEST
    data = numbers(size)
    before = driver_calls()
    lease = gpulend.from_host(data)
    kept = ACTIONS[action](lease, data.copy())
    made = simulator.report()["calls"]
    del kept
    functions = {name for name, count in made.items() if count > before.get(name, 0)}
    # What only the first copy of a process calls.
    functions |= {"cuMemHostAlloc", "cuStreamCreateWithPriority", "cuEventCreate"}
    functions = {name.removesuffix("_v2").removesuffix("_v3") for name in functions}
    failed = 0
    with nothing_stays():
        for function in sorted(functions - set(QUIET)):
            for which in ("1", "2", "5", "*"):
                host = data.copy()
                with simulator.faults(f"{function}#{which}=LAUNCH_FAILED"):
                    code, text = outcome(action, lease, host)
                failed += code != 0
                assert function in text or code != 1001, (function, text)
                untouched = host.copy()
                time.sleep(0.002)
                assert np.array_equal(host, untouched), "something goes on"
                lease.copy_from(data)
                assert np.array_equal(lease.to_host(), data), (function, which)
    assert failed > 4, "faults were met"
    still_works()


@only_simulated
def test_a_failed_copy_loses_no_buffer():
    """The threads keep theirs, whatever happened; without pinned memory the driver copies."""
    data = numbers(4 * SMALLEST)
    lease = gpulend.from_host(data)
    before = driver_calls().get("cuMemHostAlloc", 0)
    room = free_bytes()
    for function in ("cuMemcpyDtoHAsync", "cuEventRecord", "cuEventSynchronize"):
        for which in ("1", "3", "*"):
            with (
                simulator.faults(f"{function}#{which}=LAUNCH_FAILED"),
                pytest.raises(gpulend.Error),
            ):
                lease.to_host()
            assert np.array_equal(lease.to_host(), data)
    assert driver_calls().get("cuMemHostAlloc", 0) == before
    assert free_bytes() == room


@only_simulated
def test_without_pinned_memory_the_driver_copies():
    """A machine that lends none is no worse off than before."""
    program = """
        import numpy as np
        from gpulend import simulator
        data = np.arange(3 << 20)
        pinned = ("cuMemHostAlloc#*=OUT_OF_MEMORY", "cuMemHostRegister_v2#*=OUT_OF_MEMORY")
        with simulator.faults(";".join(pinned)):
            lease = gpulend.from_host(data)
            assert np.array_equal(lease.to_host(), data)
            try:
                lease.to_host(pinned=True)
            except MemoryError:
                print("refused")
        assert np.array_equal(lease.to_host(), data)
        print("right")
    """
    found = run(program, GPULEND_COPY_THREADS="3").split()
    assert found[-2:] == ["refused", "right"]


def test_threads_start_with_the_first_large_copy_and_sleep_between_two():
    """Who copies little has none; who copies much pays nothing in between."""
    program = """
        import time
        from pathlib import Path
        def threads():
            tasks = Path("/proc/self/task").iterdir()
            return sum((task / "comm").read_text() == "gpulend-copy\\n" for task in tasks)
        def all_have_names():
            # A thread names itself once it runs, which may be after the copy.
            limit = time.monotonic() + 30
            while threads() < 3 and time.monotonic() < limit:
                time.sleep(0.001)
            return threads()
        lease = gpulend.zeros(8 << 20, "uint8")
        lease[:1000].to_host()
        assert threads() == 0, threads()
        lease.to_host()
        assert all_have_names() == 3, threads()
        lease.to_host()
        assert threads() == 3, threads()
        gpulend.synchronize()
        time.sleep(0.2)
        before = time.process_time()
        time.sleep(0.4)
        assert time.process_time() - before < 0.1
        print("right")
    """
    assert run(program, GPULEND_COPY_THREADS="3").strip().endswith("right")


def test_pinned_memory_is_bounded():
    """However many copies there are, of however many threads."""
    lease = gpulend.zeros(2 * SMALLEST, "uint8")
    lease.to_host()
    before = driver_calls().get("cuMemHostAlloc", 0)
    for _ in range(10):
        lease.to_host()
    assert driver_calls().get("cuMemHostAlloc", 0) == before
    first = lease.to_host(pinned=True)
    address = first.ctypes.data
    del first
    assert lease.to_host(pinned=True).ctypes.data == address
    assert threads() >= THREADS


def test_what_is_kept_for_results_belongs_to_one_of_them():
    """Memory is used again when its array is gone, and not before."""
    one, two = gpulend.full(SMALLEST, 1, "uint8"), gpulend.full(SMALLEST, 2, "uint8")
    for pinned in (False, True):
        first = one.to_host(pinned=pinned)
        part = first[5:10]
        del first
        second = two.to_host(pinned=pinned)
        assert part.tolist() == [1] * 5
        assert (second == 2).all()


def test_a_copy_of_pinned_memory_only_queues(gpu):
    """With a stream the host does not wait; the memory is kept until the copy is done."""
    gate, stream = gpu.gate(), gpulend.Stream()
    data = numbers(2 * SMALLEST)
    lease = gpulend.from_host(data)
    pinned = lease.to_host(pinned=True)
    address, target = pinned.ctypes.data, gpulend.zeros(data.size, "uint8")
    back = gpulend.zeros(data.size, "uint8").to_host(pinned=True)
    # A driver may pin memory only when the GPU is idle, so what is needed later is kept.
    spare = [lease.to_host(pinned=True) for _ in range(2)]
    del spare
    gpulend.synchronize()
    gate.hold(stream)
    up = target.copy_from(pinned, stream=stream)
    down = lease.copy_to(back, stream=stream)
    assert isinstance(up, gpulend.Copy)
    assert not up.done
    assert not down.done
    assert not back.any()
    del pinned
    others = [lease.to_host(pinned=True) for _ in range(2)]
    assert address not in [other.ctypes.data for other in others], "it is still read"
    gate.open()
    up.wait()
    down.wait()
    assert up.done
    assert down.done
    assert np.array_equal(back, data)
    assert np.array_equal(target.to_host(), data)


def test_a_started_copy_of_pageable_memory_is_done_on_return():
    """The array may be changed or read at once; the handle says so."""
    data, stream = numbers(2 * SMALLEST), gpulend.Stream()
    for size in (100, data.size):
        lease = gpulend.empty(size, "uint8")
        source = data[:size].copy()
        copy = lease.copy_from(source, stream=stream)
        assert copy.done
        source[:] = 0
        copy.wait()
        out = np.zeros(size, np.uint8)
        assert lease.copy_to(out, stream=stream).done
        assert np.array_equal(out, data[:size])


def test_a_long_copy_says_how_far_it_is(gpu):
    """On the calling thread; an exception stops the copy and is raised."""
    size = 4 * THREADS * SMALLEST
    gate, late, calls = gpu.gate(), gpulend.Stream(), []
    lease = gpulend.zeros(size, "uint8")
    gpulend.synchronize()

    def report(done, total):
        calls.append((done, total, threading.current_thread()))
        gate.open()

    def fail(done, total):
        threading.Timer(0.2, gate.open).start()
        raise KeyError("enough")

    gate.hold(late)
    with late:
        lease.fill(4)
    assert (lease.to_host(progress=report) == 4).all()
    assert calls
    assert all(call[1:] == (size, threading.current_thread()) for call in calls)
    assert all(0 <= call[0] <= size for call in calls)
    gate.close()
    gate.hold(late)
    with late:
        lease.fill(5)
    out = np.zeros(size, np.uint8)
    with pytest.raises(KeyError, match="enough"):
        lease.to_host(out=out, progress=fail)
    assert not (out == 5).all(), "the copy went on"
    assert (lease.to_host() == 5).all()
    gate.close()
    gate.hold(late)
    lease.used_on(late)
    host = numbers(size)
    lease.copy_from(host, progress=report)
    assert np.array_equal(lease.to_host(), host)
    assert gpulend.from_host(host, progress=report).nbytes == size


def test_who_asks_for_progress_gets_threads(monkeypatch):
    """The driver's own way would say nothing; a small copy is over before there is anything."""
    monkeypatch.setenv(VARIABLE, "0")
    large, small = gpulend.zeros(SMALLEST, "uint8"), gpulend.zeros(100, "uint8")
    made = copies_made(lambda: large.to_host(progress=lambda done, total: None))
    assert made > 1 or REAL
    assert not small.to_host(progress=pytest.fail).any()


def test_pinned_asks_for_a_new_array():
    """It says nothing about one that is there."""
    lease = gpulend.zeros(100, "uint8")
    with pytest.raises(gpulend.Error, match="pinned"):
        lease.to_host(out=np.zeros(100, np.uint8), pinned=True)


def test_a_fork_beside_large_copies_leaves_no_lock_behind(monkeypatch):
    """The threads are the parent's; the child is refused the driver, and keeps its host memory."""
    monkeypatch.setenv(VARIABLE, "2")
    prepare = "import numpy as np; big = gpulend.zeros(5 << 20, 'uint8'); kept = big.to_host()"
    calls = "lambda: big.to_host(), lambda: big.to_host(pinned=True), lambda: kept.sum(),"
    assert forking("big.copy_from(big.to_host())", prepare, calls) == "[] []"


@pytest.mark.parametrize("moment", [0.0, 0.003, 0.02])
def test_a_process_ends_in_the_middle_of_a_copy(moment):
    """No crash, no hang: the threads stop before the driver takes their buffers away."""
    program = f"""
        import threading, time
        import numpy as np
        data = np.ones(64 << 20, np.uint8)
        lease = gpulend.from_host(data)
        def loop():
            while True:
                lease.copy_from(data)
                lease.to_host()
        for _ in range(2):
            threading.Thread(target=loop, daemon=True).start()
        time.sleep(0.05 + {moment})
        print("right", flush=True)
    """
    assert run(program, GPULEND_COPY_THREADS="3").strip().endswith("right")
