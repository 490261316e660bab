"""gpulend's own pool, from Python, on both kinds of GPU: order, addresses, limits, frameworks."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator

import gpulend
import numpy as np
import pytest
from gpulend import _native

from .resources import REAL, eventually, need, only_real

MEBIBYTE = 1 << 20
PER_THREAD = 2
ROUNDS = int(os.environ.get("GPULEND_TEST_SOAK", "200"))


@pytest.fixture(autouse=True)
def pool(context) -> Iterator[None]:
    """Have the pool on, and empty before and after."""
    gpulend.pool.set_mode("on")
    eventually(empty, "the pool is empty")
    yield
    gpulend.pool.set_limit(None)
    gc.collect()
    eventually(empty, "the pool is empty")
    gpulend.pool.set_mode("auto")


def empty() -> bool:
    """Trim, and return whether nothing is left."""
    gpulend.synchronize()
    gpulend.pool.trim()
    return gpulend.memory().blocks == 0 and gpulend.memory().cached == 0


def test_a_block_is_known_and_a_freed_one_is_refused():
    """The passport names the block, and our own pool can see what no framework's can."""
    array = gpulend.empty(5000, "uint8")
    address = array.address
    passport = gpulend.describe(address + 100)
    assert (passport.known, passport.base, passport.size) == ("pool block", address, 5120)
    del array  # whose address was asked for, so that `release` alone would not free it
    with pytest.raises(gpulend.AddressError, match="gpulend's pool"):
        gpulend.describe(address)
    with pytest.raises(gpulend.AddressError):
        gpulend.wrap(address, 10, "uint8", device="cuda:0", unowned=True)


def test_wrapped_memory_of_a_block_that_was_freed_is_refused_at_the_next_hand_over():
    """Also if another array has taken its place."""
    array = gpulend.empty(5000, "uint8")
    wrapped = gpulend.wrap(array.address, 10, "uint8", device="cuda:0", unowned=True)
    del array
    with pytest.raises(gpulend.AddressError):
        wrapped.to_host()
    again = gpulend.empty(5000, "uint8")
    assert again.address == wrapped.address
    with pytest.raises(gpulend.AddressError):
        wrapped.copy_from(np.zeros(10, np.uint8))


def test_wrapping_past_the_end_of_a_block_is_refused():
    """Though the segment goes on."""
    array = gpulend.empty(4096, "uint8")
    with pytest.raises(gpulend.AddressError):
        gpulend.wrap(array.address, 4097, "uint8", device="cuda:0", unowned=True)


def test_memory_counts_blocks_and_segments():
    """Live, cached, peak; the limit gives the cache back before it refuses."""
    first = gpulend.empty(MEBIBYTE, "uint8")
    memory = gpulend.memory()
    assert (memory.live, memory.blocks, memory.segments) == (MEBIBYTE, 1, 1)
    assert memory.users == {"leases": MEBIBYTE}
    assert memory.live + memory.cached == memory.reserved
    first.release()
    assert gpulend.memory().live == 0
    assert gpulend.memory().peak >= MEBIBYTE
    gpulend.pool.reset_peak()
    assert gpulend.memory().peak == 0
    gpulend.pool.set_limit(40 * MEBIBYTE)
    assert gpulend.pool.limit() == 40 * MEBIBYTE
    large = gpulend.empty(40 * MEBIBYTE, "uint8")
    with pytest.raises(gpulend.OutOfMemoryError, match="leases hold 41943040"):
        gpulend.empty(MEBIBYTE, "uint8")
    large.release()
    assert gpulend.empty(MEBIBYTE, "uint8").nbytes == MEBIBYTE


def test_memory_of_another_stream_is_not_used_before_its_work_is_done():
    """The fill is late on a simulated GPU; the other stream's array must keep its own bytes."""
    one, other = gpulend.Stream(), gpulend.Stream()
    for value in range(20):
        with one:
            old = gpulend.full(MEBIBYTE, value, "uint8")
        old.release()
        with other:
            new = gpulend.full(MEBIBYTE, 100 + value, "uint8")
        gpulend.synchronize()
        assert set(new.to_host().tolist()) == {100 + value}


def test_four_threads_on_four_streams_keep_their_bytes():
    """A soak: longer with GPULEND_TEST_SOAK."""
    wrong = []

    def work(number: int) -> None:
        generator = np.random.default_rng(number)
        stream, held = gpulend.Stream(), []
        with stream:
            for turn in range(ROUNDS):
                size = int(generator.choice([1, 4096, 70_000, MEBIBYTE, 3 * MEBIBYTE]))
                value = (number * 60 + turn) % 251
                held.append((gpulend.full(size, value, "uint8"), value))
                if len(held) > 6:
                    array, value = held.pop(int(generator.integers(len(held))))
                    if not (array.to_host() == value).all():
                        wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_numba_allocates_from_the_pool():
    """In a `with` block, and not after it; arrays of that time stay."""
    cuda = need("numba.cuda")
    before = cuda.to_device(np.arange(10))
    with gpulend.pool.use("numba"):
        array = cuda.to_device(np.arange(1000, dtype=np.float32))
        assert gpulend.memory().users == {"numba": 4096}
        assert gpulend.describe(int(array.gpu_data.device_pointer)).known == "pool block"
    after = cuda.to_device(np.arange(10))
    assert gpulend.memory().users == {"numba": 4096}
    assert np.array_equal(array.copy_to_host(), np.arange(1000, dtype=np.float32))
    assert np.array_equal(before.copy_to_host(), after.copy_to_host())
    del array
    gc.collect()
    eventually(lambda: gpulend.memory().users == {}, "all blocks are free")


def test_numbas_arrays_come_and_go():
    """An address that was freed is given out again."""
    cuda = need("numba.cuda")
    with gpulend.pool.use("numba"):
        for turn in range(100):
            array = cuda.to_device(np.full(1000, turn))
            assert (array.copy_to_host() == turn).all()
            del array
    eventually(lambda: gpulend.memory().users == {}, "all blocks are free")


def test_uses_are_undone_in_order():
    """The last first; an unknown framework is refused by name, and undoes what came before it."""
    need("numba.cuda")
    with pytest.raises(gpulend.Error, match="mxnet cannot use"):
        gpulend.pool.use("numba", "mxnet")
    first = gpulend.pool.use("numba")
    second = gpulend.pool.use("numba")
    with pytest.raises(RuntimeError, match="later"):
        first.undo()
    second.undo()
    first.undo()
    first.undo()


TORCH = """
import gpulend, torch
with gpulend.pool.use("torch"):
    tensor = torch.full((1000,), 7.0, device="cuda")
    held = gpulend.memory().users["torch"]
    assert held >= 4000
    assert gpulend.describe(tensor.data_ptr()).known == "pool block"
    weights = torch.ones(1000, device="cuda", requires_grad=True)
    (weights * tensor).sum().backward()  # on a thread of torch's own
    assert gpulend.describe(weights.grad.data_ptr()).known == "pool block"
    held = gpulend.memory().users["torch"]
    del weights
outside = torch.zeros(1000, device="cuda")
assert gpulend.describe(outside.data_ptr()).known != "pool block"
assert gpulend.memory().users["torch"] == held
assert tensor.sum().item() == 7000
del tensor
with gpulend.pool.use("torch"):
    again = torch.full((1000,), 3.0, device="cuda")
    assert gpulend.memory().users["torch"] == held, "the second time takes what the first one left"
    assert again.sum().item() == 3000
"""


@only_real
def test_torch_allocates_from_the_pool():
    """Its segments are blocks of ours. torch keeps them, so this is a process of its own."""
    need("torch")
    subprocess.run([sys.executable, "-c", TORCH], check=True, timeout=120)


DIRECT = """
import gpulend, torch
using = gpulend.pool.use("torch", direct=True)
tensor = torch.full((1000,), 7.0, device="cuda")
assert gpulend.memory().users == {"torch": 4096}, "each tensor is a block"
assert gpulend.describe(tensor.data_ptr()).size == 4096
address = tensor.data_ptr()
weights = torch.ones(1000, device="cuda", requires_grad=True)
(weights * tensor).sum().backward()
assert weights.grad.sum().item() == 7000
del weights, tensor
assert gpulend.memory().users == {}, "torch keeps nothing"
try:
    gpulend.describe(address)
except gpulend.AddressError:
    pass
else:
    raise AssertionError("a tensor that was freed is seen")
assert gpulend.empty(4096, "uint8").address

# What another stream still reads is not given to the next tensor before.
side, large = torch.cuda.Stream(), torch.full((1 << 26,), 1.0, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    for _ in range(50):
        copied = large * 1.0
large.record_stream(side)
del large
torch.full((1 << 26,), 2.0, device="cuda")
torch.cuda.synchronize()
assert copied.min().item() == copied.max().item() == 1.0
del copied

# Memory of a graph is nobody else's while it may be launched.
still = torch.zeros(1 << 20, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    between = still + 1
    made = between * 2
    del between
for _ in range(20):
    others = [torch.full((1 << 20,), 5.0, device="cuda") for _ in range(8)]
    graph.replay()
    torch.cuda.synchronize()
    assert made.min().item() == made.max().item() == 2.0
    assert all(other.min().item() == other.max().item() == 5.0 for other in others)
try:
    torch.empty(1 << 45, device="cuda")
except RuntimeError as error:
    assert "out of memory" in str(error) and "torch hold" in str(error), error
else:
    raise AssertionError("no device has so much memory")
using.undo()
with gpulend.pool.use("torch"):
    held = torch.ones(9, device="cuda")
    assert gpulend.describe(held.data_ptr()).known == "pool block"
"""


@only_real
def test_torch_without_a_cache_of_its_own_takes_blocks():
    """Torch cannot go back, so this is a process of its own."""
    need("torch")
    subprocess.run([sys.executable, "-c", DIRECT], check=True, timeout=120)


LATE = """
import gpulend, torch
torch.zeros(1, device="cuda")
try:
    gpulend.pool.use("torch", direct=True)
except gpulend.ProtocolError as error:
    assert "leave out `direct`" in str(error), error
else:
    raise AssertionError("torch cannot change its allocator any more")
torch.zeros(1, device="cuda")
"""


@only_real
def test_torch_that_has_used_a_gpu_refuses_to_be_without_a_cache():
    """The reason is in the message, and torch works on as before."""
    need("torch")
    subprocess.run([sys.executable, "-c", LATE], check=True, timeout=120)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_torch_without_a_gpu_is_refused():
    """Both ways say what is missing."""
    torch = need("torch")
    if torch.cuda.is_available():
        pytest.skip("this torch has a GPU")
    for direct in (False, True):
        with pytest.raises(gpulend.ProtocolError, match="this torch finds no GPU"):
            gpulend.pool.use("torch", direct=direct)


@only_real
def test_cupy_allocates_from_the_pool_on_its_current_stream():
    """And from its own pool afterwards."""
    cupy = need("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with gpulend.pool.use("cupy"):
        array = cupy.full(1000, 3, cupy.float32)
        assert gpulend.memory().users == {"cupy": 4096}
        assert gpulend.describe(array.data.ptr).known == "pool block"
        with stream:
            other = cupy.arange(MEBIBYTE, dtype=cupy.uint8)
            total = int(other.astype(cupy.uint64).sum())
            del other
        empty_array = cupy.empty(0)
        assert empty_array.size == 0
    assert total == sum(range(256)) * (MEBIBYTE // 256)
    assert float(array.sum()) == 3000
    del array, empty_array
    eventually(lambda: gpulend.memory().users == {}, "all blocks are free")


@pytest.mark.skipif(REAL, reason="faults are injected into the simulated GPU")
@pytest.mark.parametrize("call", ["cuMemAlloc", "cuMemFree", "cuStreamSynchronize"])
def test_a_fault_poisons_nothing(call):
    """The call fails or not; the next one works."""
    for number in range(1, 4):
        _native.set_faults(f"{call}#{number}=UNKNOWN")
        try:
            array = gpulend.full(3 * MEBIBYTE, 1, "uint8")
            array.release()
            gpulend.pool.trim()
        except gpulend.Error:
            pass
        finally:
            _native.set_faults("")
        assert (gpulend.full(3 * MEBIBYTE, 2, "uint8").to_host() == 2).all()


def test_what_no_device_has_room_for_leaves_the_cache_alone():
    """Giving it back would help nobody, and cost the next arrays their segments."""
    gpulend.empty(MEBIBYTE, "uint8").release()
    cached = gpulend.memory().cached
    assert cached >= MEBIBYTE
    with pytest.raises(gpulend.OutOfMemoryError):
        gpulend.empty(1 << 45, "uint8")
    assert gpulend.memory().cached == cached


def test_a_caller_without_a_stream_gets_no_block_that_is_still_used():
    """Numba names none: no stream of its own could wait for the work that is left."""
    gpulend.pool.set_limit(2 * MEBIBYTE)
    busy, own = gpulend.Stream(), gpulend.Stream()
    with busy:
        late = gpulend.empty(2 * MEBIBYTE, "uint8")
        late.fill(0xAA)
    del late
    address = _native.pool_allocate("numba", 2 * MEBIBYTE, PER_THREAD, 0)
    try:
        block = gpulend.wrap(address, 2 * MEBIBYTE, "uint8", unowned=True, ready_on=own)
        with own:
            block.fill(0x55)
        own.synchronize()
        busy.synchronize()
        assert set(block.to_host(stream=own)) == {0x55}
        del block
    finally:
        _native.pool_free(address)


def test_what_the_reaper_drops_last_waits_for_later_work_too():
    """A copy to pinned memory keeps the lease; its event comes before the work that follows."""
    handle = gpulend.Stream()
    named, other = gpulend.Stream(int(handle.handle)), gpulend.Stream()
    pinned = gpulend.zeros(2 * MEBIBYTE, "uint8").to_host(pinned=True)
    for _ in range(10):
        with named:
            late = gpulend.empty(2 * MEBIBYTE, "uint8")
            late.fill(1)
            copied = late.copy_to(pinned, stream=named)
            late.fill(0xAA)
            del late
        copied.wait()
        with other:
            taken = gpulend.empty(2 * MEBIBYTE, "uint8")
            taken.fill(0x55)
        other.synchronize()
        named.synchronize()
        assert set(taken.to_host(stream=other)) == {0x55}
        del taken


def test_two_threads_that_reclaim_do_not_starve_each_other():
    """One array each always fits, whatever the other has in hand; nor is the limit exceeded."""
    gpulend.pool.set_limit(60 * MEBIBYTE)
    most, failed = 0, []

    def work(sizes: tuple[int, ...]) -> None:
        nonlocal most
        with gpulend.Stream():
            for turn in range(ROUNDS):
                try:
                    gpulend.empty(sizes[turn % len(sizes)] * MEBIBYTE, "uint8").release()
                except gpulend.OutOfMemoryError as error:
                    failed.append(str(error))
                most = max(most, gpulend.memory().reserved)

    threads = [threading.Thread(target=work, args=(sizes,)) for sizes in ((28, 20), (24, 28))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert most <= 60 * MEBIBYTE


FORKS = """
import os, threading, gpulend
gpulend.pool.set_mode("on")
over = False

def work(number):
    with gpulend.Stream():
        while not over:
            gpulend.empty(number + 1 << 20, "uint8").release()
            gpulend.empty(20 << 20, "uint8").release()
            gpulend.pool.trim()

threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for thread in threads:
    thread.start()
for _ in range(60):
    child = os.fork()
    if child == 0:
        try:
            gpulend.empty(10, "uint8")
        except gpulend.NoDeviceError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
over = True
for thread in threads:
    thread.join()
"""


def test_a_fork_beside_threads_that_make_segments_waits_for_nobody():
    """Who makes a segment takes other locks meanwhile; the forking thread must not hold those."""
    device = {} if REAL else {"GPULEND_DEVICE": "simulated"}
    subprocess.run(
        [sys.executable, "-c", FORKS], check=True, timeout=60, env={**os.environ, **device}
    )


THROWN = r"""
#include <cstdio>
#include <exception>
extern "C" int caught(void *(*take)(long, int, void *), long size, char *text, int room)
{
    try {
        return take(size, 0, nullptr) != nullptr;
    } catch (const std::exception &error) {
        std::snprintf(text, room, "%s", error.what());
        return -1;
    }
}
"""


def test_torch_without_a_cache_gets_an_exception_of_cpp_if_there_is_no_memory(tmp_path):
    """It would take null for memory; the exception passes through our own code and harms none."""
    need("torch")
    compiler = shutil.which("c++") or pytest.skip("no C++ compiler")
    (tmp_path / "thrown.cpp").write_text(THROWN)
    library = tmp_path / "thrown.so"
    source = tmp_path / "thrown.cpp"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    gpulend.pool._teach_torchs_error()
    native = ctypes.CDLL(str(_native.__file__))
    take = ctypes.cast(native._gpulend_torch_take, ctypes.c_void_p)
    caught, text = ctypes.CDLL(str(library)).caught, ctypes.create_string_buffer(2000)
    for _ in range(100):
        assert caught(take, ctypes.c_long(1 << 45), text, len(text)) == -1
    assert b"CUDA out of memory: " in text.value
    assert b"35184372088832 bytes" in text.value
    assert caught(take, ctypes.c_long(1000), text, len(text)) == 1
    assert gpulend.memory().users == {"torch": 1024}
    native._gpulend_torch_take.restype = ctypes.c_void_p
    address = native._gpulend_torch_take(ctypes.c_long(3000), 0, None)
    # What another stream works on is kept for it; only torch's own function gives it back.
    busy = gpulend.Stream()
    with busy:
        late = gpulend.wrap(address, 3000, "uint8", unowned=True, ready_on=busy)
        late.fill(0xAA)
    native._gpulend_torch_used(ctypes.c_void_p(address), ctypes.c_void_p(int(busy.handle)))
    del late
    native._gpulend_torch_give(ctypes.c_void_p(address), ctypes.c_long(3000), 0, None)
    assert gpulend.memory().users == {"torch": 4096}, "its work is late"
    gpulend.synchronize()
    eventually(lambda: gpulend.memory().users == {"torch": 1024}, "the block is free")
    segment = gpulend.empty(1, "uint8").address & ~(2 * MEBIBYTE - 1)
    for place in range(segment, segment + 2 * MEBIBYTE, 512):
        native._gpulend_torch_give(ctypes.c_void_p(place), ctypes.c_long(0), 0, None)
    assert gpulend.memory().users == {}
