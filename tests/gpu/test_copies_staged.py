"""Large copies between pageable memory and a GPU, staged by threads: bytes, order, captures."""

from __future__ import annotations

import ctypes
import mmap
import threading
import time

import gpulend
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .forks import run
from .resources import REAL, eventually, need, only_simulated
from .staged import MEBIBYTE, SMALLEST, THREADS, VARIABLE, copies_made, numbers
from .test_capture_load import CAPTURES, captured

pytestmark = pytest.mark.usefixtures("staged")
# Beside each bound: a piece, the smallest staged copy, a buffer for each turn of each thread.
SIZES = [
    size + beside
    for size in (MEBIBYTE // 4, SMALLEST, 2 * THREADS * SMALLEST, 2 * THREADS * SMALLEST + 999)
    for beside in (-1, 0, 1)
]


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


def test_a_watched_copy_between_gpus_is_done_when_its_stream_is():
    """It is only queued, so the handle must not say that it is over."""
    source, target = gpulend.full(8 << 20, 7, "uint8"), gpulend.zeros(8 << 20, "uint8")
    stream = gpulend.Stream()
    copied = source.copy_to(target, stream=stream, progress=lambda _done, _total: None)
    copied.wait()
    assert stream.done
    assert set(target.to_host()) == {7}
