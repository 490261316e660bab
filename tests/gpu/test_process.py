"""A process's whole life: import, fork, exit, threads that allocate and drop at once."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import gpulend
import pytest

from .forks import CHOOSE, forking, run
from .resources import (
    REAL,
    not_sanitized,
    nothing_stays,
    only_simulated,
    python,
)


@not_sanitized
def test_import_maps_no_driver():
    """A library that touches CUDA at import spoils every later fork; ours loads nothing."""
    printed = python(
        """
        import gpulend, gpulend.exceptions, numpy
        lease = gpulend.borrow(numpy.zeros(4))
        lease.lend("numpy")
        gpulend.ledger()
        maps = open("/proc/self/maps").read()
        print([name for name in ("libcuda", "libgpulend_sim", "libnvidia") if name in maps])
        """
    )
    assert printed.split("\n")[0] == "[]"


FORK = """
    import os, sys
    lease = gpulend.full(1000, 3, "int32")
    stream = gpulend.Stream()
    with stream:
        other = gpulend.zeros(1000, "int32")
    event = stream.record()
    lease.used_on(stream)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        codes = []
        for call in ({calls}):
            try:
                call()
            except gpulend.NoDeviceError as error:
                codes.append(error.code)
            except BaseException as error:
                codes.append(repr(error))
            else:
                codes.append("no error")
        del lease, other, stream, event
        import gc
        gc.collect()
        print(codes)
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert lease.to_host().tolist() == [3] * 1000
    other.copy_from(lease)
    assert other.to_host().tolist() == [3] * 1000
    del lease, other, stream, event
    gpulend.synchronize()
    print("parent goes on")
"""


def test_a_forked_child_is_told_that_it_has_no_gpu():
    """CUDA does not survive a fork: each use is a named error, and drops do nothing."""
    calls = [
        "lambda: gpulend.zeros(3)",
        "lambda: gpulend.Stream()",
        "lambda: gpulend.synchronize()",
        "lambda: lease.to_host()",
        "lambda: lease.lend('cuda.core')",
        "lambda: lease.__dlpack__(stream=1, dl_device=(2, 0))",
        "lambda: lease.copy_from(other)",
        "lambda: gpulend.from_host(lease)",
        "lambda: gpulend.wrap(lease.address, 10, 'int32', device='cuda:0', unowned=True)",
        "lambda: stream.record()",
        "lambda: stream.synchronize()",
        "lambda: event.synchronize()",
    ]
    printed = run(FORK.format(calls=", ".join(calls))).split("\n")
    assert printed[0] == str([914] * len(calls))
    assert printed[1] == "parent goes on"


# What threads of the parent are in the middle of when it forks.
BUSY = {
    "streams": "gpulend.Stream()",
    "events": "gpulend.Stream().record().done",
    "leases": "gpulend.full(64, 1, 'int32').used_on(streams[0])",
    "hand-overs": "gpulend.borrow(lease, gpulend.Stream()); lease.used_on(streams[1].handle)",
    "exports": "lease.__dlpack__(stream=-1, dl_device=(2, 0)); gpulend.ledger(); len(lease[3:])",
    "timers": "\n    with gpulend.timed(streams[2]) as timer: pass\n    timer.milliseconds",
    "describe": "gpulend.describe(lease); gpulend.synchronize()",
}


@not_sanitized
@pytest.mark.parametrize("work", BUSY)
def test_a_fork_beside_busy_threads_leaves_no_lock_behind(work):
    """The lock that a thread held in the parent has nobody in the child who would give it back."""
    assert forking(BUSY[work]) == "[] []"


def test_what_the_native_half_calls_by_name_is_imported_at_once():
    """An import that a fork interrupts never ends in the child: none may begin at a first call."""
    sources = (Path(__file__).parents[2] / "crates/python/src").rglob("*.rs")
    named = set()
    for source in sources:
        named |= set(
            re.findall(r'import\((?:intern!\(.*?, )?"(gpulend\.[a-z_.]+)"', source.read_text())
        )
    # Those of frameworks import the frameworks.
    wanted = {name for name in named if not name.startswith("gpulend.adapters.")}
    assert "gpulend._pointers" in wanted
    printed = python(f"import gpulend, sys; print(sorted({wanted} - set(sys.modules)))")
    assert printed.strip() == "[]"


def test_a_forked_child_may_end_in_the_ordinary_way():
    """At its exit the child drains nothing of the parent's and does not hang."""
    printed = run(
        """
        import os, sys
        lease = gpulend.full(1000, 3, "int32")
        lease.used_on(gpulend.Stream())
        child = os.fork()
        if child == 0:
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        print(lease.to_host().sum())
        """
    )
    assert printed.split() == ["3000"]


def test_a_child_forked_before_the_first_use_has_a_gpu():
    """Nothing was touched, so nothing is lost: the child chooses for itself."""
    printed = python(
        f"""
        import os, sys
        import gpulend
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            assert status == 0, status
        {CHOOSE}
        print(gpulend.full(10, 4, "int32").to_host().sum())
        sys.stdout.flush()
        os._exit(0)
        """
    )
    assert printed.split() == ["40", "40"]


def test_host_memory_is_lent_in_a_forked_child():
    """Owners of host memory release as ever; only the GPU is gone."""
    printed = run(
        """
        import os, sys
        import numpy as np
        device = gpulend.zeros(10)
        gone = []
        child = os.fork()
        if child == 0:
            host = np.arange(5)
            lease = gpulend.borrow(host)
            assert lease.lend("numpy").tolist() == [0, 1, 2, 3, 4]
            wrapped = gpulend.wrap(host.ctypes.data, 5, "int64", deleter=lambda *_: gone.append(1))
            wrapped.release()
            print(gone)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        """
    )
    assert printed.split() == ["[1]"]


@pytest.mark.parametrize("use", ["pass", "lease.used_on(1)", "lease.used_on(gpulend.Stream())"])
@pytest.mark.parametrize("let_go", ["del lease", "lease.release()", "lease = None"])
def test_the_deleter_of_gpu_memory_is_the_parent_s(use, let_go):
    """The memory stayed with the parent: a child that freed it would free what is not its own."""
    printed = run(
        f"""
        import gc, os, sys, time
        calls = []
        memory = gpulend.zeros(64, "uint8")
        lease = gpulend.wrap(
            memory.address, 64, "uint8", deleter=lambda *_: calls.append(os.getpid())
        )
        {use}
        child = os.fork()
        if child == 0:
            {let_go}
            gc.collect()
            gpulend.ledger()
            print("child", calls)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        assert calls == [], calls
        {let_go}
        end = time.monotonic() + 60
        while not calls and time.monotonic() < end:
            gpulend.synchronize()
            time.sleep(0.001)
        gpulend.synchronize()
        print("parent", calls == [os.getpid()])
        """
    )
    assert printed.splitlines() == ["child []", "parent True"]


@pytest.mark.parametrize("way", ["__dlpack__(stream=-1, dl_device=(2, 0))", "as_cuda()"])
def test_what_was_lent_before_the_fork_is_the_parent_s(way):
    """A consumer in the child that drops it calls our deleter there: it must go no further."""
    printed = run(
        f"""
        import gc, os, sys, time
        calls = []
        memory = gpulend.zeros(64, "uint8")
        lease = gpulend.wrap(
            memory.address, 64, "uint8", ready_on="now", deleter=lambda *_: calls.append(1)
        )
        lent = lease.{way}
        del lease
        child = os.fork()
        if child == 0:
            del lent
            gc.collect()
            print("child", calls)
            sys.stdout.flush()
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        del lent
        end = time.monotonic() + 60
        while not calls and time.monotonic() < end:
            gpulend.synchronize()
            time.sleep(0.001)
        print("parent", calls)
        """
    )
    assert printed.splitlines() == ["child []", "parent [1]"]


def test_exit_with_everything_pending():
    """At exit the background thread is drained and joined, whatever still lives or waits."""
    printed = run(
        """
        import atexit, threading
        calls = []
        atexit.register(lambda: print("ends", len(calls)))
        stream = gpulend.Stream()
        leases = [gpulend.full(10000, 1, "uint8") for _ in range(50)]
        for lease in leases:
            lease.used_on(stream)
        del leases[::2]
        kept = gpulend.zeros(100)
        ring = [gpulend.zeros(100)]
        ring.append(ring)
        wrapped = gpulend.wrap(kept.address, 100, "float32", deleter=lambda *_: calls.append(1))
        wrapped.used_on(stream)
        del wrapped
        thread = threading.Thread(target=leases.clear)
        thread.start()
        """
    )
    assert printed.split()[0] == "ends"


@only_simulated
def test_a_host_function_that_was_begun_returns_before_python_ends():
    """The one behind it is not begun: it would find no interpreter."""
    printed = run(
        """
        import ctypes, os, threading, time
        from gpulend import simulator
        driver, begun = ctypes.CDLL(simulator.library()), threading.Event()
        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def first(_):
            begun.set()
            time.sleep(0.3)
            os.write(1, b"returned\\n")
        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def second(_):
            os.write(1, b"begun too late\\n")
        stream = gpulend.Stream()
        for function in (first, second):
            driver.cuLaunchHostFunc(ctypes.c_void_p(stream.handle), function, None)
        while not begun.is_set():
            stream.done
        """
    )
    assert printed == "returned\n"


@only_simulated
def test_a_mistaken_launch_that_nothing_waited_for_is_in_the_report(tmp_path):
    """It is run when Python ends, while all that it may touch is there."""
    report = tmp_path / "report.json"
    run(
        """
        head = ".version 6.3\\n.target sm_75\\n.address_size 64\\n"
        body = ".visible .entry k(.param .u64 x) { st.global.u32 [64], 1; ret; }"
        gpulend.compile(head + body)["k"][1, 1](gpulend.zeros(4))
        """,
        GPULEND_SIM_REPORT=str(report),
        GPULEND_SIM_IDLE="0",
    )
    (fault,) = json.loads(report.read_text())["faults"]
    assert "writes 4 bytes at 0x40" in fault["what"]


@only_simulated
def test_a_program_leaves_no_fault_behind(tmp_path):
    """The simulated GPU reports what a real one would not: nothing was misused, to the end."""
    report = tmp_path / "report.json"
    run(
        """
        import numpy as np
        stream = gpulend.Stream()
        for _ in range(20):
            with stream:
                a = gpulend.from_host(np.arange(1000))
                b = gpulend.zeros(1000, "int64")
            b.copy_from(a[::-1])
            a.lend("numpy")
            a.lend("torch")
            gpulend.borrow(b, gpulend.Stream())[::2].to_host()
        del a, b, stream
        gpulend.synchronize()
        """,
        GPULEND_SIM_REPORT=str(report),
    )
    found = json.loads(report.read_text())
    assert found["faults"] == []
    assert found["unsupported"] == {}
    assert found["live"]["streams"] <= 2, "only the reaper's own two may be left"


def test_many_threads_allocate_hand_over_and_drop():
    """Each thread works on its own, and memory crosses between them."""
    shared, failures = [], []

    def work(seed):
        try:
            stream = gpulend.Stream()
            with stream:
                for number in range(200 if REAL else 40):
                    lease = gpulend.full(257, (seed + number) % 200, "uint8")
                    shared.append((lease, (seed + number) % 200))
                    taken, value = shared.pop(0)
                    mine = gpulend.borrow(taken, stream)
                    if set(mine.to_host().tolist()) != {value}:
                        failures.append((seed, number))
        except BaseException as error:
            failures.append(error)

    with nothing_stays():
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        shared.clear()
    assert failures == []


@only_simulated
@pytest.mark.parametrize("device", ["cuda", "simulated"])
def test_gpulend_device_chooses(device):
    """GPULEND_DEVICE is obeyed: the real driver that is not here is a named error."""
    program = """
        import gpulend
        try:
            print(gpulend.zeros(3).simulated)
        except gpulend.NoDeviceError as error:
            print(error.code)
    """
    printed = python(program, GPULEND_DEVICE=device, LD_LIBRARY_PATH="").split()
    assert printed == ["True"] if device == "simulated" else printed[0].isdigit()
