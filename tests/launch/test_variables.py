"""Variables of a module as leases, modules of a second device, and `timed`."""

from __future__ import annotations

import gc
import threading

import gpulend
import numpy as np
import pytest
from driver.resources import current
from gpu.graphs import capture
from gpu.resources import (
    MODES,
    REAL,
    SIMULATED,
    Opener,
    copy,
    driver_calls,
    nothing_stays,
    only_simulated,
    stuck,
)

from .arrays import ADD_ONE, compiled, right_launch

SOURCE = """
#include <cuda_fp16.h>
struct Particle { double position; float speed; short kind; };
__device__ int counter = 5;
__device__ float matrix[4][5];
__constant__ float factors[3] = {1.5f, 2.5f, 3.5f};
__constant__ unsigned long long large = 18446744073709551615ull;
__device__ Particle particle = {1.0, 2.0f, 3};
__device__ bool flags[7];
__device__ __half small[2];
__device__ unsigned char bytes[2][3][4];
namespace deep { __device__ double inner = 0.25; __device__ short counts[2] = {-1, 2}; }

extern "C" __global__ void work(float *out) {
    counter += 1;
    particle.position += particle.speed;
    deep::inner *= 2;
    deep::counts[1] += 1;
    flags[3] = true;
    for (int i = 0; i < 4; ++i) for (int j = 0; j < 5; ++j) matrix[i][j] += i * 10 + j;
    for (int i = 0; i < 3; ++i) out[i] = factors[i];
    out[3] = large == 18446744073709551615ull;
    small[1] = __float2half(bytes[1][2][3]);
}
"""
SHAPES = {
    "counter": ("int32", ()),
    "matrix": ("float32", (4, 5)),
    "factors": ("float32", (3,)),
    "large": ("uint64", ()),
    "particle": ("uint8", (16,)),
    "flags": ("bool", (7,)),
    "small": ("float16", (2,)),
    "bytes": ("uint8", (2, 3, 4)),
    "deep::inner": ("float64", ()),
    "deep::counts": ("int16", (2,)),
}


@pytest.fixture
def fresh():
    """Give a module whose variables nobody has changed."""
    return gpulend.compile(SOURCE)


@pytest.mark.parametrize("name", SHAPES)
def test_a_variable_has_the_type_and_shape_of_its_declaration(fresh, name):
    """A lease like any other, on the module's device."""
    lease = fresh.variable(name)
    dtype, shape = SHAPES[name]
    assert isinstance(lease, gpulend.Lease)
    assert (lease.dtype, lease.shape, lease.device) == (dtype, shape, "cuda:0")
    assert lease.nbytes == np.dtype(dtype).itemsize * int(np.prod(shape))
    assert gpulend.describe(lease).device == "cuda:0"


def test_a_module_names_its_variables(fresh):
    """All of them, and the error of an unknown one lists them."""
    assert isinstance(fresh.variables, tuple)
    assert set(SHAPES) <= set(fresh.variables)
    for name in ("Counter", "inner2", "", "work"):
        with pytest.raises((KeyError, gpulend.KernelError), match="counter"):
            fresh.variable(name)
    right_launch()


def test_variables_are_read_and_written(fresh):
    """First values, then what the host writes, then what the kernel makes of it."""
    read = {name: fresh.variable(name) for name in SHAPES}
    assert read["counter"].to_host() == 5
    assert read["factors"].to_host().tolist() == [1.5, 2.5, 3.5]
    assert read["deep::counts"].to_host().tolist() == [-1, 2]
    assert not read["matrix"].to_host().any()
    read["counter"].copy_from(np.array(40, np.int32))
    read["factors"].copy_from(np.array([7, 8, 9], np.float32))
    read["matrix"][1:, ::2].copy_from(np.full((3, 3), 100, np.float32))
    read["bytes"].copy_from(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    out = gpulend.zeros(4, "float32")
    fresh["work"][1, 1](out)
    assert out.to_host().tolist() == [7, 8, 9, 1]
    assert read["counter"].to_host() == 41
    assert read["deep::inner"].to_host() == 0.5
    assert read["deep::counts"].to_host().tolist() == [-1, 3]
    assert read["flags"].to_host().tolist() == [False] * 3 + [True] + [False] * 3
    assert read["small"].to_host()[1] == 23
    wanted = np.add.outer(np.arange(4) * 10, np.arange(5))
    wanted[1:, ::2] += 100
    np.testing.assert_array_equal(read["matrix"].to_host(), wanted)
    position, speed = np.frombuffer(read["particle"].to_host().tobytes()[:12], "f8,f4")[0]
    assert (position, speed) == (3.0, 2.0)


def test_a_variable_is_an_argument_too(fresh):
    """Of another module's kernel, for which it is plain memory."""
    row = fresh.variable("matrix").reshape(20)
    compiled(ADD_ONE)["add_one"][1, 20](row)
    assert set(row.to_host().tolist()) == {1.0}
    with pytest.raises(gpulend.SignatureError, match="int32"):
        compiled(ADD_ONE)["add_one"][1, 1](fresh.variable("counter"))


def test_a_variable_outlives_the_name_of_its_module():
    """The lease holds the memory, which is the module's."""
    with nothing_stays():
        lease = gpulend.compile(SOURCE).variable("factors")
        gc.collect()
        assert lease.to_host().tolist() == [1.5, 2.5, 3.5]
        del lease


def test_two_modules_of_one_source_have_their_own(fresh):
    """Each compile is a module, though what was compiled is found again."""
    other = gpulend.compile(SOURCE)
    other["work"][1, 1](gpulend.zeros(4, "float32"))
    assert other.variable("counter").to_host() == 6
    assert fresh.variable("counter").to_host() == 5
    assert other.variable("counter").address != fresh.variable("counter").address


def test_releasing_the_lease_leaves_the_variable(fresh):
    """It is borrowed from the module, which lives."""
    with fresh.variable("counter") as lease:
        assert lease.to_host() == 5
    assert lease.released
    fresh["work"][1, 1](gpulend.zeros(4, "float32"))
    assert fresh.variable("counter").to_host() == 6


@only_simulated
def test_a_variable_of_an_image_is_bytes():
    """PTX says how many bytes, and no more."""
    from gpulend import compiler

    made = gpulend.compile(compiler.to_ptx(SOURCE))
    for name, size in (("counter", 4), ("matrix", 80), ("_ZN4deep5innerE", 8)):
        lease = made.variable(name)
        assert (lease.dtype, lease.nbytes) == ("uint8", size)
    assert made.variable("counter").to_host().view(np.int32).tolist() == [5]


# A kernel's module is an argument of it: its variables are ordered as arrays are.

MODULE = """
#define MINE if (threadIdx.x < 64 && blockIdx.x == 0)
__device__ int counter[64];
__constant__ int factors[64];
extern "C" __global__ void bump(int by) { MINE counter[threadIdx.x] += by; }
extern "C" __global__ void show(int *out) { MINE out[threadIdx.x] = counter[threadIdx.x]; }
extern "C" __global__ void get(int *out) { MINE out[threadIdx.x] = factors[threadIdx.x]; }
template <class T> __global__ void tick(T by) { MINE counter[threadIdx.x] += by * 100; }
template <class T> __global__ void see(T *out) { MINE out[threadIdx.x] = counter[threadIdx.x]; }
"""
LANES = 64
NAMES = ("tick<int>", "see<int>")
HOW = {
    "brackets": lambda kernel, stream, *said: kernel[1, LANES](*said, stream=stream),
    "launch": lambda kernel, stream, *said: kernel.launch(1, LANES, said, stream=stream),
    "forall": lambda kernel, stream, *said: kernel.forall(LANES)(*said, stream=stream),
    "with": lambda kernel, stream, *said: _within(stream, kernel, said),
    "number": lambda kernel, stream, *said: kernel[1, LANES](*said, stream=stream.handle),
}


def _within(stream, kernel, said):
    with stream:
        kernel[1, LANES](*said)


def lanes(number):
    """Return what a variable or an output holds when each thread wrote the same."""
    return np.full(LANES, number, np.int32)


def loaded(source=MODULE):
    """Return a fresh module that is loaded, its variables zero: loading may wait for the GPU."""
    module = gpulend.compile(source, names=NAMES)
    for name in module.names:
        module[name].attributes
    module["bump"][1, LANES](0)
    gpulend.synchronize()
    return module


def ints(lease):
    """Return what a lease holds, whatever it knows of its type."""
    return set(lease.to_host().view(np.int32).ravel().tolist())


def _host(gpu, lease, stream, gate):
    with Opener(gate):
        return ints(lease)


def _copied(gpu, lease, stream, gate):
    with stream:
        out = gpulend.empty(lease.shape, lease.dtype)
        out.copy_from(lease)
    assert gate.closed, "the host waited"
    assert stuck(stream), "the copy does not wait for the kernel"
    gate.open()
    return ints(out)


def _lent(gpu, lease, stream, gate):
    with Opener(gate):
        view = lease.lend("numpy")
    return set(view.view(np.int32).ravel().tolist())


def _pointed(gpu, lease, stream, gate):
    with stream:
        out = gpulend.empty(lease.shape, lease.dtype)
    with lease.pointer(stream) as pointer:
        copy(out.address, pointer, lease.nbytes, stream.handle)
    out.used_on(stream)
    assert gate.closed, "the host waited"
    assert stuck(stream), "the reader's stream does not wait for the kernel"
    gate.open()
    return ints(out)


def _borrowed(gpu, lease, stream, gate):
    taken = gpulend.borrow(lease, stream)
    assert gate.closed, "the host waited"
    assert stuck(stream), "the borrower's stream does not wait for the kernel"
    gate.open()
    return ints(taken)


READERS = {
    "to_host": _host,
    "copy": _copied,
    "pointer": _pointed,
    "borrow": _borrowed,
    **({"numpy": _lent} if SIMULATED else {}),
}


@pytest.mark.parametrize("when", ["before", "after", "between"])
@pytest.mark.parametrize("reader", READERS)
def test_who_reads_a_variable_waits_for_the_kernels_of_its_module(gpu, reader, when):
    """The kernel names no variable, and may have written every one."""
    module, gate = loaded(), gpu.gate()
    writer, other = gpulend.Stream(), gpulend.Stream()
    lease = module.variable("counter") if when != "after" else None
    if when == "between":
        del lease  # borrowed once, and given back
        lease = None
    gate.hold(writer)
    module["bump"][1, LANES](7, stream=writer)
    if lease is None:
        lease = module.variable("counter")
    assert READERS[reader](gpu, lease, other, gate) == {7}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["bump", "tick<int>"])
def test_every_way_of_launching_is_waited_for(gpu, name, how):
    """By brackets, by `launch`, by `forall`; plain kernels and instances of templates."""
    module, gate = loaded(), gpu.gate()
    writer, other = gpulend.Stream(), gpulend.Stream()
    lease = module.variable("counter")
    for _ in range(3):
        HOW[how](module[name], writer, 1)
    writer.synchronize()
    gate.hold(writer)
    HOW[how](module[name], writer, 1)
    assert _copied(gpu, lease, other, gate) == {4 if name == "bump" else 400}


def test_a_kernel_on_another_stream_waits_for_a_kernel_of_its_module(gpu):
    """One writes the variable, the other reads it; neither names it. Somebody has borrowed it."""
    module, gate = loaded(), gpu.gate()
    first, second = gpulend.Stream(), gpulend.Stream()
    lease = module.variable("counter")
    with second:
        out = gpulend.zeros(LANES, "int32")
        seen = gpulend.zeros(LANES, "int32")
    gpulend.synchronize()
    gate.hold(first)
    module["bump"][1, LANES](3, stream=first)
    module["show"][1, LANES](out, stream=second)
    module["see<int>"][1, LANES](seen, stream=second)
    assert gate.closed, "the host waited"
    assert stuck(second)
    gate.open()
    assert (ints(out), ints(seen), ints(lease)) == ({3}, {3}, {3})


@pytest.mark.parametrize("name", ["counter", "factors"])
def test_a_kernel_waits_for_who_wrote_a_variable(gpu, name):
    """Constants are set on one stream and used on another."""
    module, gate = loaded(), gpu.gate()
    writer, reader = gpulend.Stream(), gpulend.Stream()
    lease = module.variable(name)
    with writer:
        source = gpulend.from_host(lanes(9))
    with reader:
        out = gpulend.zeros(LANES, "int32")
    gpulend.synchronize()
    gate.hold(writer)
    with writer:
        lease.copy_from(source)
    module["get" if name == "factors" else "show"][1, LANES](out, stream=reader)
    assert gate.closed, "the host waited"
    assert stuck(reader), "the kernel does not wait for the variable"
    gate.open()
    assert ints(out) == {9}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("name", ["counter", "factors"])
def test_who_writes_a_variable_waits_for_the_kernels_that_read_it(gpu, name, kept):
    """A new constant must not arrive under a kernel that was launched with the old one."""
    module, gate = loaded(), gpu.gate()
    reader, writer = gpulend.Stream(), gpulend.Stream()
    with reader:
        out = gpulend.zeros(LANES, "int32")
    with writer:
        source = gpulend.from_host(lanes(9))
    if kept:
        lease = module.variable(name)
    gpulend.synchronize()
    gate.hold(reader)
    module["get" if name == "factors" else "show"][1, LANES](out, stream=reader)
    if not kept:
        lease = module.variable(name)
    with writer:
        lease.copy_from(source)
    assert gate.closed, "the host waited"
    assert stuck(writer), "the variable would change under a kernel"
    gate.open()
    assert (ints(out), ints(lease)) == ({0}, {9})


def test_a_part_of_a_variable_is_ordered_too(gpu):
    """And one lease's work is seen through another's."""
    module, gate = loaded(), gpu.gate()
    writer, other = gpulend.Stream(), gpulend.Stream()
    part = module.variable("counter")[8:16]
    gate.hold(writer)
    module["bump"][1, LANES](2, stream=writer)
    assert _copied(gpu, part, other, gate) == {2}
    gate = gpu.gate()
    with writer:
        source = gpulend.from_host(lanes(5))
    writer.synchronize()
    gate.hold(writer)
    with writer:
        module.variable("counter").copy_from(source)
    assert _copied(gpu, part, other, gate) == {5}


@only_simulated
@pytest.mark.parametrize("when", ["before", "after"])
def test_modules_of_images_are_ordered_too(gpu, when):
    """PTX: the variable is bytes, and the kernels are known by their symbols."""
    from gpulend import compiler

    module, gate = gpulend.compile(compiler.to_ptx(MODULE)), gpu.gate()
    module["bump"][1, LANES](np.int32(0))
    gpulend.synchronize()
    writer, other = gpulend.Stream(), gpulend.Stream()
    lease = module.variable("counter") if when == "before" else None
    gate.hold(writer)
    module["bump"][1, LANES](np.int32(6), stream=writer)
    lease = lease or module.variable("counter")
    assert _copied(gpu, lease, other, gate) == {6}


@pytest.mark.filterwarnings("ignore::gpulend.SecondModuleWarning")
def test_an_instance_in_a_second_module_has_variables_of_its_own(gpu):
    """Its kernels are ordered among themselves, and the first module's variables stay."""
    module = gpulend.compile(MODULE)
    module["bump"][1, LANES](1)
    lease = module.variable("counter")
    tick = module["tick<int>"]
    tick.attributes
    gpulend.synchronize()
    gate, stream = gpu.gate(), gpulend.Stream()
    gate.hold(stream)
    tick[1, LANES](1, stream=stream)
    module["bump"][1, LANES](1, stream=stream)
    assert _copied(gpu, lease, gpulend.Stream(), gate) == {2}


def test_two_threads_launch_and_read(gpu):
    """Each launch adds one: nobody may see the number fall, and none is lost."""
    module, failures, turns = loaded(), [], 400 if REAL else 60
    go = module["bump"][1, LANES]

    def work():
        try:
            stream = gpulend.Stream()
            with stream:
                lease, last = module.variable("counter"), 0
                for _ in range(turns):
                    go(1)
                    now = ints(lease)
                    assert len(now) == 1, now
                    assert max(now) > last, (now, last)
                    last = max(now)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ints(module.variable("counter")) == {2 * turns}


def test_a_module_of_which_nothing_was_borrowed_is_launched_without_events(gpu):
    """Who never asks for a variable pays nothing for those who do."""
    module, stream = loaded(), gpulend.Stream()
    go, show = module["bump"][1, LANES], module["show"][1, LANES]
    with stream:
        out = gpulend.zeros(LANES, "int32")
        stream.synchronize()
        for _ in range(2):
            go(1)
            show(out)
        before = driver_calls()
        for _ in range(100):
            go(1)
            show(out)
        after = driver_calls()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert not any(grown[name] for name in grown if "Event" in name), grown
    assert ints(out) == {102}


@pytest.mark.parametrize("mode", MODES)
def test_kernels_of_a_borrowed_module_are_captured(gpu, mode):
    """The variable belongs to the graph then; the capture is whole, and each replay counts."""
    module, stream = loaded(), gpulend.Stream()
    lease = module.variable("counter")
    with stream:
        out = gpulend.zeros(LANES, "int32")
    gpulend.synchronize()
    with capture(gpu, stream, mode) as graph, stream:
        module["bump"][1, LANES](1)
        module["show"][1, LANES](out)
        assert graph.alive
    assert ints(lease) == {0}
    for number in (1, 2, 3):
        graph.replay()
        assert (ints(out), ints(lease)) == ({number}, {number})


# Modules of a second device.


@pytest.mark.parametrize("say", [str, lambda name: int(name[-1]), gpulend.Device])
def test_a_module_of_the_second_device(gpu, second, say):
    """Its kernels run there and its variables lie there, whatever context is current."""
    there = f"cuda:{second}"
    module = gpulend.compile(SOURCE, device=say(there))
    assert module.device == there
    out = gpulend.zeros(4, "float32", device=there)
    module["work"][1, 1](out)
    assert out.to_host().tolist() == [1.5, 2.5, 3.5, 1]
    assert module.variable("counter").device == there
    assert module.variable("counter").to_host() == 6
    assert module["work"].attributes["max_threads_per_block"] >= 1
    assert current() == gpu.context


def test_arrays_of_the_wrong_device_are_refused_both_ways(gpu, second):
    """Both devices are named."""
    there = f"cuda:{second}"
    for module_device, array_device in (("cuda:0", there), (there, "cuda:0")):
        module = gpulend.compile(ADD_ONE, device=module_device)
        array = gpulend.zeros(32, "float32", device=array_device)
        with pytest.raises(gpulend.SignatureError, match=array_device) as caught:
            module["add_one"][1, 32](array)
        assert module_device in str(caught.value)
        assert not array.to_host().any()
    assert current() == gpu.context
    right_launch()


def test_the_current_device_is_the_default(gpu, second):
    """As for allocations: a stream of a device makes it current."""
    with gpulend.Stream(device=f"cuda:{second}") as stream:
        module = gpulend.compile(ADD_ONE)
        array = gpulend.zeros(32, "float32")
        module["add_one"][1, 32](array)
        assert module.device == array.device == stream.device
    assert array.to_host().tolist() == [1.0] * 32
    with pytest.raises(gpulend.NoDeviceError):
        gpulend.compile(ADD_ONE, device="cuda:9")
    with pytest.raises(gpulend.Error):
        gpulend.compile(ADD_ONE, device="cpu")


# timed


def test_timed_tells_milliseconds(gpu):
    """A float that is not negative, the same each time it is asked."""
    array = gpulend.zeros(1 << 16, "float32")
    with gpulend.timed() as short:
        pass
    with gpulend.timed() as longer:
        for _ in range(20):
            compiled(ADD_ONE)["add_one"][256, 256](array)
    assert type(longer.milliseconds) is float
    assert longer.milliseconds == longer.milliseconds
    assert 0 <= short.milliseconds < longer.milliseconds
    assert array.to_host()[0] == 20


def test_timed_waits_only_when_it_is_asked(gpu):
    """Leaving the block queues an event; the host goes on."""
    gate, stream, other = gpu.gate(), gpulend.Stream(), gpulend.Stream()
    array = gpulend.zeros(64, "float32")
    compiled(ADD_ONE)["add_one"][1, 64](array)
    gpulend.synchronize()
    with gpulend.timed(stream) as time, stream:
        gate.hold(stream)
        compiled(ADD_ONE)["add_one"][1, 64](array)
    with gpulend.timed(stream=other) as free:
        pass
    assert free.milliseconds >= 0, "another stream's time does not wait for this one"
    assert gate.closed, "the host waited"
    gate.open()
    assert time.milliseconds > 0
    assert array.to_host()[0] == 2


def test_timed_lets_errors_through(gpu):
    """And works again."""
    with pytest.raises(ZeroDivisionError), gpulend.timed():
        1 / 0
    with gpulend.timed() as outer, gpulend.timed() as inner:
        right_launch()
    assert outer.milliseconds >= inner.milliseconds >= 0


def test_a_captured_stream_is_not_timed(gpu):
    """Its work does not run, so it takes no time; the capture goes on."""
    stream = gpulend.Stream()
    with capture(gpu, stream, "global"):
        with pytest.raises(gpulend.DriverError, match="captur"), gpulend.timed(stream):
            pass
        assert stream.capturing
