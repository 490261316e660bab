"""What outlives what on the simulated GPU: contexts, losses, forks, pages."""

from __future__ import annotations

import ctypes
import os
import re
import threading
import time
from ctypes import byref, c_uint, c_uint64, c_void_p
from pathlib import Path

from .control import fresh, only_simulated, report, set_faults
from .cuda import HOST_FUNCTION, check, cu
from .resources import Resources, allocate, download, start, value

pytestmark = only_simulated


def _shared_kilobytes() -> int:
    text = Path("/proc/self/status").read_text()
    return int(re.search(r"RssShmem:\s+(\d+)", text)[1])


def untouched() -> int:
    """Allocate and free a gigabyte that nobody touches; give the kilobytes that it took."""
    start()
    before = _shared_kilobytes()
    for address in [allocate(15 << 20) for _ in range(70)]:
        check(cu.cuMemFree_v2(address))
    return _shared_kilobytes() - before


def test_memory_that_nobody_touched_takes_no_room() -> None:
    """Neither while it is allocated nor when it is poisoned."""
    assert fresh(untouched) < 32 << 10


def churn() -> int:
    """Write and free many times the warm limit; give the kilobytes that stay."""
    start()
    for _ in range(200):
        address = allocate(8 << 20)
        check(cu.cuMemsetD8_v2(address, 1, 8 << 20))
        check(cu.cuMemFree_v2(address))
    return _shared_kilobytes()


def test_pages_of_freed_memory_go_back() -> None:
    """Up to a quarter of a gigabyte is kept warm, and what is in quarantine."""
    assert fresh(churn) < 400 << 10


def strangers() -> list[object]:
    """Free memory in the order of one context's stream while its own context ends."""
    start()
    own, other = c_void_p(), c_void_p()
    check(cu.cuCtxCreate_v2(byref(own), 0, 0))
    address = allocate(4096)
    check(cu.cuCtxCreate_v2(byref(other), 0, 0))
    stream = value(c_void_p, cu.cuStreamCreate, 1)
    check(cu.cuMemFreeAsync(address, stream))
    check(cu.cuCtxDestroy_v2(own))
    again = allocate(4096)
    check(cu.cuStreamSynchronize(stream))
    return [cu.cuMemsetD8_v2(again, 7, 4096), download(again, 4) == b"\7" * 4]


def test_a_late_free_never_hits_a_stranger() -> None:
    """Another allocation may have the address by then."""
    assert fresh(strangers, GPULEND_SIM_CHECK="off") == [0, True]


def lost_while_running() -> list[int]:
    """Lose the device while a host function runs; give how many operations are left, then."""
    resources, going, leave = Resources(start()), threading.Event(), threading.Event()
    wait = HOST_FUNCTION(lambda _: (going.set(), leave.wait(20)))
    stream = resources.stream()
    check(cu.cuLaunchHostFunc(stream, wait, None))
    waiter = threading.Thread(target=cu.cuStreamSynchronize, args=(stream,))
    waiter.start()
    going.wait(20)
    set_faults("lost=0")
    running = report()["live"]["operations"]
    leave.set()
    waiter.join()
    return [running, report()["live"]["operations"]]


def test_a_lost_device_leaves_what_runs_at_the_moment_alone() -> None:
    """It ends by itself; who frees what it uses waits for it."""
    assert fresh(lost_while_running) == [1, 0]


def retained_by_many() -> list[int]:
    """Retain and release the primary context in threads; give the codes of calls meanwhile."""
    check(cu.cuInit(0))
    codes: set[int] = set()
    end = time.monotonic() + 1

    def work() -> None:
        while time.monotonic() < end:
            context = value(c_void_p, cu.cuDevicePrimaryCtxRetain, 0)
            check(cu.cuCtxSetCurrent(context))
            flags = c_uint()
            codes.add(cu.cuCtxGetFlags(byref(flags)))
            check(cu.cuDevicePrimaryCtxRelease_v2(0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(codes)


def test_a_context_that_is_retained_is_alive() -> None:
    """However many threads retain and release it."""
    assert fresh(retained_by_many) == [0]


def asked_in_a_child() -> list[int]:
    """Ask for the report in forked children while the parent's threads are busy."""
    start()
    end = time.monotonic() + 1

    def work() -> None:
        while time.monotonic() < end:
            check(cu.cuMemFree_v2(allocate(1 << 20)))

    thread = threading.Thread(target=work)
    thread.start()
    statuses = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            size = cu.gpulend_sim_report(None, 0)
            os._exit(0 if size == 2 else 1)
        statuses.append(os.waitpid(child, 0)[1])
    thread.join()
    return statuses


def test_a_forked_child_may_ask_for_a_report() -> None:
    """It is empty, and comes at once."""
    assert fresh(asked_in_a_child) == [0] * 10


def late_with_a_slow_neighbour() -> int:
    """Wait for a slow function of one stream; give the byte that another would have written."""
    resources = Resources(start())
    device, host = resources.alloc(64), resources.pinned(64)
    check(cu.cuMemsetD8_v2(device, 0x11, 64))
    check(cu.cuCtxSynchronize())
    writer, reader = resources.stream(), resources.stream()
    check(cu.cuMemsetD8Async(device, 0x55, 64, writer))
    slow = HOST_FUNCTION(lambda _: time.sleep(0.6))
    check(cu.cuLaunchHostFunc(reader, slow, None))
    check(cu.cuMemcpyDtoHAsync_v2(host, device, 64, reader))
    check(cu.cuStreamSynchronize(reader))
    return ctypes.string_at(host, 1)[0]


def test_a_slow_function_does_not_hide_a_missing_wait() -> None:
    """The idle timer does not take waiting for it for idleness."""
    assert fresh(late_with_a_slow_neighbour) == 0x11


def unrelated() -> list[int]:
    """Wait for a value that one stream writes; give what the other streams have done."""
    resources = Resources(start())
    word, marks = resources.pinned(4), resources.pinned(8)
    waiting, writing = resources.stream(), resources.stream()
    for place in range(4):
        check(cu.cuMemsetD8Async(marks + place, 1, 1, resources.stream()))
    check(cu.cuStreamWaitValue32_v2(waiting, word, 1, 0))
    check(cu.cuStreamWriteValue32_v2(writing, word, 1, 0))
    check(cu.cuStreamSynchronize(waiting))
    return list(ctypes.string_at(marks, 4))


def test_a_wait_for_a_value_runs_only_work_on_that_memory() -> None:
    """What else is queued stays late."""
    assert fresh(unrelated, GPULEND_SIM_IDLE="0") == [0] * 4


def order_after_a_pause(pause: float) -> list[int]:
    """Wait for a value that the host writes after a pause; give the order of what comes then."""
    resources = Resources(start())
    word, ran = resources.pinned(4), []
    waiting = resources.stream()
    check(cu.cuStreamWaitValue32_v2(waiting, word, 1, 0))
    threading.Timer(pause, ctypes.memset, (word, 1, 1)).start()
    check(cu.cuStreamSynchronize(waiting))
    notes = [HOST_FUNCTION(lambda _, n=n: ran.append(n)) for n in range(6)]
    for note in notes:
        check(cu.cuLaunchHostFunc(resources.stream(), note, None))
    check(cu.cuCtxSynchronize())
    return ran


def test_the_order_does_not_depend_on_how_long_somebody_waited() -> None:
    """Only on the seed."""
    settings = {"GPULEND_SIM_IDLE": "0", "GPULEND_SIM_SEED": "7"}
    orders = [fresh(order_after_a_pause, pause, **settings) for pause in (0.01, 0.05, 0.2)]
    assert orders[0] == orders[1] == orders[2]
    assert sorted(orders[0]) == list(range(6))


def reports_of_two() -> None:
    """Initialise the driver and make a mistake."""
    start()
    assert cu.cuMemFree_v2(c_uint64(0x4242)) == 1


def test_each_process_of_a_run_can_have_a_report_of_its_own(tmp_path: Path) -> None:
    """`%p` in the path is the number of the process."""
    for _ in range(2):
        fresh(reports_of_two, GPULEND_SIM_REPORT=str(tmp_path / "report-%p.json"))
    assert len(list(tmp_path.glob("report-*.json"))) == 2
