"""What a review of the launch code found: each fails for a reason of its own."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
import warnings
from ctypes import c_int

import gpulend
import numpy as np
import pytest
from gpu.graphs import capture
from gpu.resources import REAL, need, only_real, only_simulated, python, stuck

from .arrays import right_launch
from .gated import STALE, ints, kernel, only
from .test_threads import in_threads


def value(source, argument, dtype, count=1, options=()):
    """Return what the kernel `f` of a source made of an argument."""
    out = gpulend.zeros(count, dtype)
    gpulend.compile(source, options=options)["f"][1, 1](argument, out)
    return out.to_host()


# --- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, -1, 2**70, -(2**100)])
def test_a_parameter_of_16_bytes_gets_16_bytes(gpu, number):
    """The frame holds one word for `__int128`, and the driver reads two: whatever lies behind."""
    source = """
    __global__ void f(__int128 x, long long *o) {
        o[0] = (long long)x;
        o[1] = (long long)(x >> 64);
    }
    """
    try:
        options = ["--device-int128"] if REAL else []
        low, high = value(source, number, "int64", 2, options).tolist()
    except gpulend.SignatureError:
        return  # refusing what is not supported is as right
    assert (high << 64) + (low & (2**64 - 1)) == number


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ["float2", "double2"])
def test_an_int_past_128_bits_is_no_other_number(gpu, kind, sign):
    """For complex parameters the mark for "too large" was taken as a number: 1.7e38."""
    source = f"__global__ void f({kind} x, {kind} *o) {{ *o = x; }}"
    with pytest.raises(gpulend.SignatureError):
        value(source, sign * 10**400, "float32" if kind == "float2" else "float64", 2)
    right_launch()


def test_a_large_int_is_a_double(gpu):
    """A double holds 10**100; the float of it is taken."""
    source = "__global__ void f(double x, double *o) { *o = x; }"
    assert value(source, 10**100, "float64")[0] == 1e100


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_long_double_that_overflows_is_refused(gpu, kind):
    """It is finite, and became infinite on the way to 64 bits."""
    large = np.longdouble("1e4000")
    if not np.isfinite(large):
        pytest.skip("long double is double here")
    source = f"__global__ void f({kind} x, {kind} *o) {{ *o = x; }}"
    with pytest.raises(gpulend.SignatureError):
        value(source, large, "float32" if kind == "float" else "float64")
    right_launch()


@pytest.mark.parametrize("number", [2049.0000001, 1 + 2**-11 + 2**-40, 2**-25 + 2**-60])
def test_a_half_is_rounded_once(gpu, number):
    """From 64 bits to 16: the low bits decide what lies just past the middle."""
    source = "#include <cuda_fp16.h>\n__global__ void f(__half x, __half *o) { *o = x; }"
    assert value(source, number, "float16")[0] == np.float16(number)


def test_a_structure_may_have_a_field_of_any_name(gpu):
    """One named `tobytes` is no method."""

    class Odd(ctypes.Structure):
        _fields_ = [("tobytes", c_int)]

    source = "struct S { int a; }; __global__ void f(S s, int *o) { *o = s.a; }"
    assert value(source, Odd(5), "int32")[0] == 5


def test_an_interrupt_passes_through_a_grid(gpu):
    """Only what says that it is no number is a wrong shape."""

    class Interrupted:
        def __index__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernel_of_nothing()[Interrupted(), 1]


def kernel_of_nothing():
    """Return a kernel without parameters."""
    return gpulend.compile("__global__ void nothing() {}")["nothing"]


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2)])
def test_a_call_without_a_size_says_how_to_give_one(gpu, arguments):
    """`__call__` takes one tuple now, so that its own words are never read."""
    with pytest.raises(TypeError, match=r"nothing\[grid, block\]"):
        kernel_of_nothing()(*arguments)


# --- stand-ins ---------------------------------------------------------------------------------


@only_simulated
def test_what_a_refused_launch_was_let_at_the_next_one_is_not(gpu, mistaken):
    """The second tensor's storage is gone; the first one's stayed open to the next launch."""
    torch = need("torch")
    source = """
    __global__ void two(float *a, float *b) {}
    __global__ void poke(unsigned long long to) { *(float *)to = 7; }
    """
    module = gpulend.compile(source)
    kept, empty = torch.zeros(64), torch.zeros(64)
    empty.untyped_storage().resize_(0)
    module["poke"].attributes
    with pytest.raises(gpulend.Error):
        module["two"][1, 1](kept, empty)
    module["poke"][1, 1](kept.data_ptr())
    with pytest.raises(gpulend.KernelError):
        gpulend.synchronize()
    assert kept[0] == 0
    right_launch()


@only_simulated
def test_a_lease_that_a_later_argument_lends_to_the_host_is_waited_for(gpu):
    """Whether the host holds the memory is asked when the launch is queued, not before."""
    torch = need("torch")
    source = """
    __global__ void f(float *x, int v) {
        for (int i = 0; i < 100000; i++) if (x[1] == 0) x[2] += 1;
        x[0] = v;
    }
    """
    go, lease = gpulend.compile(source)["f"], gpulend.zeros(4, "float32")
    go.attributes
    gpulend.synchronize()
    lent = []

    class Lends:
        def __index__(self):
            lent.append(torch.from_dlpack(lease))
            return 5

    go[1, 1](lease, Lends())
    found = lent[0][0].item()
    gpulend.synchronize()
    assert found == 5
    lent.clear()


@only_simulated
def test_a_tensor_s_memory_is_asked_for_after_all_python_code(gpu):
    """A later argument gave the tensor another storage; the freed one was written."""
    torch = need("torch")
    go = gpulend.compile("__global__ void f(float *x, int v) { x[0] = v; }")["f"]
    tensor = torch.zeros(64)
    # Nobody need hold it; then the kernel writes what is freed, and the process aborts.
    _storage = tensor.untyped_storage()

    class Moves:
        def __index__(self):
            tensor.data = torch.ones(64)
            return 9

    try:
        go[1, 1](tensor, Moves())
    except gpulend.Error:
        return
    assert tensor[0] == 9


def test_the_cycle_collector_cannot_end_a_lease_of_the_launch(gpu):
    """An int past 128 bits makes an error inside, and until Python 3.11 that runs the collector."""
    go = gpulend.compile("__global__ void f(double *x, double v) { x[0] = v; }")["f"][1, 1]
    lease, told = gpulend.zeros(4, "float64"), []
    go(lease, 1.0)

    class Garbage:
        def __init__(self):
            self.cycle = self

        def __del__(self):
            try:
                lease.release()
            except gpulend.Error as error:
                told.append(type(error))

    before = gc.get_threshold()
    gc.collect()
    gc.disable()
    Garbage()
    gc.set_threshold(1)
    gc.enable()
    try:
        go(lease, 2**200)
    finally:
        gc.set_threshold(*before)
    if sys.version_info < (3, 12):
        assert told == [gpulend.StillLentError]
        assert lease.to_host()[0] == 2.0**200


@pytest.mark.parametrize("native", [True, False])
@only_simulated
def test_code_that_torch_calls_cannot_end_a_lease_of_the_launch(gpu, native):
    """A mode of torch sees that a tensor of bytes is asked for its type, by its table alone."""
    torch = need("torch")
    from torch.overrides import TorchFunctionMode

    go = gpulend.compile("__global__ void f(unsigned char *x, unsigned char *y) { *y = *x + 1; }")
    go, lease, told = go["f"][1, 1], gpulend.full(4, 6, "uint8"), []

    class Ends(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            try:
                lease.release()
            except gpulend.Error as error:
                told.append(type(error))
            return function(*args, **(kwargs or {}))

    gpulend._native._reroute(native)
    try:
        tensor = torch.zeros(4, dtype=torch.uint8)
        go(lease, tensor)
        with Ends():
            go(lease, tensor)
        assert set(told) == (set() if native else {gpulend.StillLentError})
        assert not lease.released
        assert tensor.tolist() == [7, 0, 0, 0]
    finally:
        gpulend._native._reroute(True)


def test_nothing_that_was_let_go_is_left_over(gpu):
    """A launcher is called past pyo3, which then puts off what is let go until its next call."""
    go = gpulend.compile("__global__ void f(double *x, double v) { x[0] = v; }")["f"][1, 1]
    lease, objects = gpulend.zeros(4, "float64"), sys.getallocatedblocks()
    for _ in range(1000):
        go(lease, 2**200)
    assert sys.getallocatedblocks() - objects < 500


def test_a_wrong_launch_while_python_ends_is_an_error_and_no_abort(gpu):
    """What was put off is let go by attaching to Python, which pyo3 refuses by then."""
    said = python("""
        import os, sys
        from gpu.resources import REAL
        import gpulend
        source = "__global__ void f(float *x, int n) { x[0] = n; }"
        go, lease = gpulend.compile(source)["f"][1, 1], gpulend.zeros(4, "float32")
        go(lease, 3)

        class Last:
            def __del__(self, go=go, lease=lease, error=TypeError, say=os.write):
                try:
                    go(lease, "x")
                except error:
                    say(1, b"refused")

        sys.last = Last()
    """)
    assert said == "refused"


# --- modules -----------------------------------------------------------------------------------


def test_threads_ask_for_instances_at_once(gpu):
    """Each compiled the module with its own instance, and the last one's was kept alone."""
    source = f"template<class T> __global__ void s(T *x) {{ *x += 1; }} // {time.monotonic_ns()}"
    module, kinds, kernels = gpulend.compile(source), ["float", "double", "int", "short"], {}
    dtypes = ["float32", "float64", "int32", "int16"]

    def ask(number):
        kernels[number] = module[f"s<{kinds[number]}>"]

    in_threads(4, ask)
    for number, dtype in enumerate(dtypes):
        x = gpulend.zeros(1, dtype)
        kernels[number][1, 1](x)
        assert x.to_host()[0] == 1


def test_threads_ask_for_one_instance_of_a_loaded_module(gpu):
    """They get one second module, with one counter."""
    source = f"""
    __device__ int n;
    template<class T> __global__ void s(T *x) {{ *x = atomicAdd(&n, 1); }}
    __global__ void q() {{}} // {time.monotonic_ns()}
    """
    module, kernels = gpulend.compile(source), []
    module["q"][1, 1]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_threads(3, lambda number: kernels.append(module["s<int>"]))
    x, seen = gpulend.zeros(1, "int32"), []
    for one in kernels:
        one[1, 1](x)
        seen.append(int(x.to_host()[0]))
    assert seen == [0, 1, 2]


def test_a_name_that_finds_a_kernel_is_in_the_module(gpu):
    """`in` and `[]` agree on kernels of namespaces."""
    module = gpulend.compile("namespace N { __global__ void inner() {} }")
    assert module["inner"].name == "N::inner"
    assert "inner" in module


@pytest.mark.parametrize("how", ["nested", "above", "absolute"])
def test_a_file_includes_what_lies_beside_it(gpu, tmp_path, how):
    """As every compiler does: beside the file that includes, above it, and by a full path."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "above.h").write_text("#define V 3\n")
    (tmp_path / "sub" / "deep.h").write_text("#define V 3\n")
    (tmp_path / "sub" / "first.h").write_text('#include "deep.h"\n')
    name = {"nested": "sub/first.h", "above": "../above.h", "absolute": str(tmp_path / "above.h")}
    file = tmp_path / ("sub" if how == "above" else "") / "k.cu"
    file.write_text(f'#include "{name[how]}"\n__global__ void f(int *x) {{ *x = V; }}\n')
    x = gpulend.zeros(1, "int32")
    gpulend.compile(file)["f"][1, 1](x)
    assert x.to_host()[0] == 3


def test_a_header_that_is_no_utf_8_is_taken(gpu, tmp_path):
    """A comment in another encoding harms no compiler."""
    (tmp_path / "old.h").write_bytes(b"// caf\xe9\n#define V 4\n")
    (tmp_path / "k.cu").write_text('#include "old.h"\n__global__ void f(int *x) { *x = V; }\n')
    assert gpulend.compile(tmp_path / "k.cu").names == ("f",)


# --- order -------------------------------------------------------------------------------------


def test_a_capture_does_not_take_an_earlier_wait_for_its_own(gpu):
    """Replayed on another stream the graph has no wait: a producer not done is refused."""
    go, gate = kernel("plus"), gpu.gate()
    producer, stream = gpulend.Stream(), gpulend.Stream()
    with stream:
        source, middle, out, other = ints(4), ints(STALE), ints(0), ints(0)
    gpulend.synchronize()
    gate.hold(producer)
    go(source, middle, 1, stream=producer)
    go(middle, out, 0, stream=stream)
    with capture(gpu, stream, "relaxed") as graph:
        with pytest.raises(gpulend.DriverError, match="not done"):
            go(middle, other, 0, stream=stream)
        assert graph.alive
    gate.open()
    gpulend.synchronize()


@only_real
def test_a_stream_that_has_another_s_handle_waits_for_itself(gpu):
    """`borrow` had a stream wait that is gone; a driver gives its handle to the next one."""
    go, gate, producer = kernel("plus"), gpu.gate(), gpulend.Stream()
    source, middle, out = ints(4), ints(STALE), ints(0)
    gpulend.synchronize()
    gate.hold(producer)
    go(source, middle, 1, stream=producer)
    first = gpulend.Stream()
    handle = first.handle
    with first:
        gpulend.borrow(middle)
    del first
    streams, end = [gpulend.Stream()], time.monotonic() + 2
    # Not many: for more of them a driver waits for those that are held back.
    while streams[-1].handle != handle and time.monotonic() < end and len(streams) < 12:
        time.sleep(0.05)
        streams.append(gpulend.Stream())
    if streams[-1].handle != handle:
        gate.open()
        pytest.skip("the driver gave the handle to nobody")
    middle.used_on(streams[-1])
    go(middle, out, 0, stream=streams[-1])
    waits = stuck(streams[-1])
    gate.open()
    assert waits, "the producer is not waited for"
    assert only(out) == 5


@only_real
def test_blocks_of_forall_are_large_with_much_shared_memory(gpu):
    """Past 48 KiB the driver answers 0 threads until the kernel is allowed so much."""
    source = (
        "__global__ void f(int *o) { if (threadIdx.x == 0 && blockIdx.x == 0) *o = blockDim.x; }"
    )
    out = gpulend.zeros(1, "int32")
    gpulend.compile(source)["f"].forall(5000)(out, shared=60_000)
    assert out.to_host()[0] > 1


def test_two_leases_of_a_variable_are_one_memory(gpu):
    """Each has a timeline of its own now, so neither waits for the other's work."""
    module = gpulend.compile("__device__ int v[512]; __global__ void q() {}")
    gate, one, two = gpu.gate(), gpulend.Stream(), gpulend.Stream()
    source, out = ints(5), ints(0)
    first, second = module.variable("v"), module.variable("v")
    gpulend.synchronize()
    gate.hold(one)
    with one:
        first.copy_from(source)
    with two:
        out.copy_from(second)
    waits = stuck(two)
    gate.open()
    assert waits
    assert only(out) == 5


# --- the lock of a timer ------------------------------------------------------------------------


WATCHED = """
    import faulthandler, threading, time
    import gpulend
    from driver.resources import start
    from gpu.resources import Gate
    start()
    gate, stream = Gate(), gpulend.Stream()
    with gpulend.timed(stream) as timer:
        gate.hold(stream)
    waiter = threading.Thread(target=lambda: timer.milliseconds)
    waiter.start()
    time.sleep(0.3)
    faulthandler.dump_traceback_later(10, exit=True)
    repr(timer)
    gate.open()
    waiter.join()
    faulthandler.cancel_dump_traceback_later()
    print("done")
"""


def test_a_timer_can_be_looked_at_while_somebody_waits_for_it(gpu):
    """`milliseconds` waits with the lock taken, and `repr` for the lock with the GIL taken."""
    assert python(WATCHED).split()[-1] == "done"


def test_a_timer_is_not_ended_in_a_capture(gpu):
    """It would wait for an event of the capture, which never comes by itself."""
    stream = gpulend.Stream()
    timer = gpulend.timed(stream)
    timer.__enter__()
    with capture(gpu, stream, "relaxed") as graph:
        with pytest.raises(gpulend.DriverError, match="captur"):
            timer.__exit__(None, None, None)
        assert graph.alive
