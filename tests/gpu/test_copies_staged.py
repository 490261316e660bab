"""Large copies between pageable memory and a GPU, staged by threads: bytes, order, failures."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from pathlib import Path

import gpulend
import numpy as np
import pytest
from gpulend import simulator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .forks import forking, run
from .resources import (
    REAL,
    driver_calls,
    eventually,
    free_bytes,
    need,
    nothing_stays,
    only_simulated,
    still_works,
)
from .test_capture_load import CAPTURES, captured

MEBIBYTE = 1 << 20
SMALLEST = 4 * MEBIBYTE  # what threads copy, and how much a buffer of theirs holds
THREADS = 3
VARIABLE = "GPULEND_COPY_THREADS"
# Beside each bound: a piece, the smallest staged copy, a buffer for each turn of each thread.
SIZES = [
    size + beside
    for size in (MEBIBYTE // 4, SMALLEST, 2 * THREADS * SMALLEST, 2 * THREADS * SMALLEST + 999)
    for beside in (-1, 0, 1)
]


@pytest.fixture(autouse=True)
def _staged(monkeypatch):
    """Machines with few cores leave copies to the driver."""
    monkeypatch.setenv(VARIABLE, str(THREADS))


def numbers(size, seed=1):
    """Return bytes that repeat nowhere a piece could begin."""
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def copies_made(call, function="cuMemcpyDtoHAsync_v2"):
    """Return how many pieces the driver copied during a call."""
    before = driver_calls().get(function, 0)
    call()
    return driver_calls().get(function, 0) - before


def threads():
    """Return how many threads stage copies in this process."""
    return sum(
        Path(f"/proc/self/task/{task}/comm").read_text() == "gpulend-copy\n"
        for task in os.listdir("/proc/self/task")
    )


@pytest.mark.parametrize("size", SIZES)
def test_bytes_arrive_whatever_the_size(size):
    """Nothing is lost or doubled where pieces and buffers end."""
    data = numbers(size)
    lease = gpulend.from_host(data)
    assert np.array_equal(lease.to_host(), data)
    for pinned in (False, True):
        assert np.array_equal(lease.to_host(pinned=pinned), data)
    out = np.zeros(size + 2, np.uint8)
    assert lease.to_host(out=out[1:-1]) is not None
    assert np.array_equal(out[1:-1], data)
    assert out[0] == out[-1] == 0


@pytest.mark.parametrize("size", [SMALLEST, 9 * MEBIBYTE + 12345])
def test_what_lies_beside_the_memory_on_the_gpu_is_not_written(size):
    """The last piece ends where the array ends."""
    whole = gpulend.zeros(size + 2, "uint8")
    data = numbers(size)
    whole[1:-1].copy_from(data)
    host = whole.to_host()
    assert host[0] == host[-1] == 0
    assert np.array_equal(host[1:-1], data)


@only_simulated
def test_large_copies_are_staged_and_others_left_to_the_driver(monkeypatch):
    """Or the other tests here would see the driver's own copies."""
    large, small = gpulend.zeros(SMALLEST, "uint8"), gpulend.zeros(SMALLEST - 1, "uint8")
    assert copies_made(large.to_host) > THREADS
    assert copies_made(small.to_host) == 1
    assert copies_made(lambda: large.to_host(pinned=True)) == 1
    pinned = large.to_host(pinned=True)
    assert copies_made(lambda: large.to_host(out=pinned)) == 1
    monkeypatch.setenv(VARIABLE, "0")
    assert copies_made(large.to_host) == 1


LAYOUTS = {
    "rows": lambda array: array[::2],
    "pitched": lambda array: array[:, 5:1000],
    "columns": lambda array: array[:, ::2],
    "transposed": lambda array: array.T,
    "backwards": lambda array: array[::-1],
    "wide rows": lambda array: array.reshape(3, -1)[:, 1:-1],
    "three axes": lambda array: array.reshape(4, 1500, -1)[:, 100:, :1000],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strided_copies_are_those_of_numpy(layout):
    """Rows are gathered and scattered by the threads; bytes between them keep what they had."""
    base = numbers(6000 * 2400).reshape(6000, 2400)
    wanted = LAYOUTS[layout](base)
    lease = LAYOUTS[layout](gpulend.from_host(base))
    assert np.array_equal(lease.to_host(), wanted)
    out = np.zeros_like(base)
    lease.to_host(out=LAYOUTS[layout](out))
    oracle = np.zeros_like(base)
    LAYOUTS[layout](oracle)[...] = wanted
    assert np.array_equal(out, oracle)
    target = gpulend.zeros(base.shape, "uint8")
    LAYOUTS[layout](target).copy_from(wanted)
    assert np.array_equal(target.to_host(), oracle)


@settings(
    deadline=None,
    max_examples=100 if REAL else 12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_random_large_views_are_copied_as_numpy_copies_them(data):
    """Whatever is sliced out of an array, with rows that are shorter and longer than a buffer."""
    rows = data.draw(st.sampled_from([1, 2, 3, 700, 4000]))
    columns = data.draw(st.integers(SMALLEST // rows, 3 * SMALLEST // rows + 1))
    first = data.draw(st.integers(0, columns))
    step = data.draw(st.sampled_from([1, 1, 1, 2]))
    key = (data.draw(st.slices(rows)), slice(first, data.draw(st.integers(0, columns)), step))
    base = numbers(rows * columns, data.draw(st.integers(0, 99))).reshape(rows, columns)
    lease = gpulend.from_host(base)
    assert np.array_equal(lease[key].to_host(), base[key])
    oracle, target = np.zeros_like(base), gpulend.zeros(base.shape, "uint8")
    oracle[key] = base[key]
    target[key].copy_from(base[key])
    assert np.array_equal(target.to_host(), oracle)
    out = np.zeros_like(base)
    lease[key].copy_to(out[key])
    assert np.array_equal(out, oracle)


def test_memory_of_every_kind_is_a_source_and_a_target(tmp_path):
    """Files that are mapped, ctypes arrays and torch's tensors are pageable memory as well."""
    data = numbers(2 * SMALLEST + 5)
    file = tmp_path / "data.bin"
    data.tofile(file)
    mapped = np.memmap(file, np.uint8, "r")
    assert np.array_equal(gpulend.from_host(mapped).to_host(), data)
    target = np.memmap(tmp_path / "target.bin", np.uint8, "w+", shape=data.shape)
    gpulend.from_host(data).copy_to(target)
    target.flush()
    assert (tmp_path / "target.bin").read_bytes() == data.tobytes()
    with mmap.mmap(-1, data.size) as plain:
        plain[:] = data.tobytes()
        source = np.frombuffer(plain, np.uint8)
        assert np.array_equal(gpulend.from_host(source).to_host(), data)
        del source
    block = (ctypes.c_uint8 * data.size).from_buffer_copy(data)
    assert np.array_equal(gpulend.from_host(block).to_host(), data)
    torch = need("torch")
    tensor = torch.from_numpy(data.copy())
    lease = gpulend.from_host(tensor)
    tensor.zero_()
    lease.copy_to(tensor)
    assert np.array_equal(tensor.numpy(), data)


def test_read_only_memory_is_read_and_not_written():
    """Law 6 holds on every path."""
    data = numbers(SMALLEST)
    data.flags.writeable = False
    lease = gpulend.from_host(data)
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.copy_to(data)
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.as_readonly().copy_from(data)
    assert np.array_equal(lease.to_host(), data)


@only_simulated
def test_source_and_target_that_overlap():
    """On the simulated GPU an array of NumPy's can be memory of the GPU."""
    lease = gpulend.from_host(numbers(3 * SMALLEST))
    array = lease.lend("numpy")
    for target, source in [(np.s_[1:], np.s_[:-1]), (np.s_[:-5], np.s_[5:])]:
        wanted = array[source].copy()
        lease[source].to_host(out=array[target])
        assert np.array_equal(array[target], wanted)
        wanted = array[target].copy()
        lease[source].copy_from(array[target])
        assert np.array_equal(array[source], wanted)


@pytest.mark.parametrize("way", ["down", "up"])
def test_a_copy_waits_for_work_on_other_streams(gpu, way):
    """The threads' streams wait for the memory's users, and those are later than the call."""
    size = 3 * SMALLEST
    gate, late = gpu.gate(), gpulend.Stream()
    lease, kept = gpulend.full(size, 1, "uint8"), gpulend.zeros(size, "uint8")
    gpulend.synchronize()
    gate.hold(late)
    with late:
        kept.copy_from(lease)
        if way == "down":
            lease.fill(2)
    found = []

    def copy():
        with gpulend.Stream():
            if way == "down":
                found.append(lease.to_host())
            else:
                lease.copy_from(np.full(size, 3, np.uint8))

    thread = threading.Thread(target=copy)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive(), "the copy did not wait for the stream that uses the memory"
    gate.open()
    thread.join()
    assert (kept.to_host() == 1).all()
    if way == "down":
        assert (found[0] == 2).all()
    else:
        assert (lease.to_host() == 3).all()


@pytest.mark.parametrize("seed", range(4))
@only_simulated
def test_order_holds_on_a_late_gpu(seed):
    """Whatever is put off: what was queued before is seen, what is queued after sees the copy."""
    program = """
        import numpy as np
        size = (9 << 20) + 77
        streams = [gpulend.Stream() for _ in range(4)]
        lease = gpulend.zeros(size, "uint8")
        for turn in range(1, 13):
            one, other = streams[turn % 4], streams[turn * 3 % 4]
            with one:
                lease.fill(turn)
            with other:
                assert (lease.to_host() == turn).all(), turn
                lease.copy_from(np.full(size, 100 + turn, np.uint8))
            with one:
                twin = gpulend.empty(size, "uint8")
                twin.copy_from(lease)
                lease.fill(0)
            with other:
                assert (twin.to_host() == 100 + turn).all(), turn
        print("right")
    """
    found = run(program, GPULEND_SIM_SEED=str(seed), GPULEND_COPY_THREADS="3")
    assert found.strip().endswith("right")


def test_several_threads_copy_at_once():
    """Each waits for its own pieces alone, and a short copy does not wait for a long one."""
    problems = []

    def loop(index):
        try:
            with gpulend.Stream():
                for turn in range(4):
                    data = numbers((index * 3 + 1) * SMALLEST + turn, index)
                    lease = gpulend.from_host(data)
                    assert np.array_equal(lease.to_host(), data)
                    assert np.array_equal(lease[:, None][:-5].to_host()[:, 0], data[:-5])
        except BaseException as error:
            problems.append(error)

    workers = [threading.Thread(target=loop, args=(index,)) for index in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert problems == []


def test_a_lease_does_not_end_during_its_copy(gpu):
    """The copy holds what it reads: it cannot be released, and who drops it drops it later."""
    gate, late = gpu.gate(), gpulend.Stream()
    data = numbers(2 * SMALLEST)
    with late:
        lease = gpulend.from_host(data)
    gate.hold(late)
    found = []

    def copy(lease):
        with late:
            found.append(lease.to_host())

    thread = threading.Thread(target=copy, args=(lease,))
    thread.start()
    time.sleep(0.1)
    with pytest.raises(gpulend.StillLentError, match="a call in progress"):
        lease.release()
    del lease
    poison = [gpulend.full(data.size, 0xDB, "uint8") for _ in range(3)]
    gate.open()
    thread.join()
    assert np.array_equal(found[0], data)
    assert poison


def test_the_source_may_be_changed_when_the_call_returned():
    """Nothing reads it any more, although the GPU may be late."""
    data = np.full(3 * SMALLEST, 5, np.uint8)
    lease = gpulend.from_host(data)
    data[:] = 6
    assert (lease.to_host() == 5).all()


@pytest.mark.parametrize("mode", ["global", "thread-local", "relaxed"])
def test_a_copy_invalidates_no_capture(gpu, mode):
    """The threads' calls, and their first pinned memory, are in relaxed mode."""
    stop, problems, done = threading.Event(), [], []
    data = numbers(SMALLEST)

    def loop():
        try:
            with gpulend.Stream():
                while not stop.is_set():
                    assert np.array_equal(gpulend.from_host(data).to_host(), data)
                    done.append(1)
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        eventually(lambda: problems or done, "copies are made")
        well, lost = captured(mode)
    finally:
        stop.set()
        thread.join()
    assert problems == []
    assert (well, lost) == (CAPTURES, 0)


@only_simulated
@pytest.mark.parametrize("mode", ["0", "1"])
def test_the_first_copy_invalidates_no_capture(mode):
    """It starts the threads, makes streams and pins memory: calls that end a careless capture."""
    program = f"""
        import ctypes, numpy as np, threading
        simulated = ctypes.CDLL(gpulend.simulator.library())
        stream = gpulend.Stream()
        handle = ctypes.c_void_p(stream.handle)
        lease = gpulend.zeros(8 << 20, "uint8")
        gpulend.synchronize()
        assert simulated.cuStreamBeginCapture_v2(handle, {mode}) == 0
        with gpulend.Stream():
            assert not lease.to_host().any()
        graph = ctypes.c_void_p()
        assert simulated.cuStreamEndCapture(handle, ctypes.byref(graph)) == 0
        print("right")
    """
    assert run(program, GPULEND_COPY_THREADS="3").strip().endswith("right")


def test_a_copy_in_a_capture_is_refused():
    """As smaller ones are; the capture lives on."""
    lease, host = gpulend.zeros(SMALLEST, "uint8"), np.zeros(SMALLEST, np.uint8)
    gpulend.synchronize()
    stream = gpulend.Stream()
    with gpulend.capture(stream) as graph, stream:
        for call in (lease.to_host, lambda: lease.copy_from(host)):
            with pytest.raises(gpulend.DriverError) as caught:
                call()
            assert caught.value.code == 1003
        lease.fill(3)
    graph.launch(stream)
    stream.synchronize()
    assert (lease.to_host() == 3).all()


ACTIONS = {
    "up": lambda lease, host: lease.copy_from(host),
    "down": lambda lease, host: lease.to_host(),
    "down into": lambda lease, host: lease.to_host(out=host),
    "pitched": lambda lease, host: lease.reshape(-1, 4096)[:, 5:].to_host(),
    "from_host": lambda lease, host: gpulend.from_host(host),
    "pinned": lambda lease, host: lease.to_host(pinned=True),
    "started": lambda lease, host: lease.copy_from(host, stream=gpulend.Stream()).wait(),
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
        with simulator.faults("cuMemHostAlloc#*=OUT_OF_MEMORY"):
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
        lease = gpulend.zeros(8 << 20, "uint8")
        lease[:1000].to_host()
        assert threads() == 0, threads()
        lease.to_host()
        assert threads() == 3, threads()
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
