"""Kernels that go wrong on the simulated GPU: the error says where, and the next launch works."""

from __future__ import annotations

import json
import re

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import allocate
from gpu.resources import (
    at_rest,
    need,
    nothing_stays,
    only_real,
    only_simulated,
    pool_of,
    python,
)

from .arrays import compiled, right_launch

pytestmark = pytest.mark.usefixtures("mistaken")

SOURCE = """\
#include <assert.h>
extern "C" __global__ void past(const float *from, float *to, int n, int beyond) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == n - 1) to[i + 1 + beyond] = 1; // PAST
    if (i < n) to[i] = from[i];
}
extern "C" __global__ void before(const float *from, float *to) {
    if (threadIdx.x == 5) to[0] = from[-3]; // BEFORE
}
extern "C" __global__ void misaligned(const float *from, float *to) {
    if (threadIdx.x == 2) { float4 v = *(const float4 *)(from + 1); *to = v.x + v.w; } // MISALIGNED
}
extern "C" __global__ void stale(float **rows) { rows[0][threadIdx.x] = 1; } // STALE
extern "C" __global__ void claims(const int *values) {
    assert(values[threadIdx.x] != 7); // CLAIMS
}
extern "C" __global__ void null(int *nowhere) { if (threadIdx.x == 3) *nowhere = 1; } // NULL
__device__ void inside(int *p) { p[1000] = 1; } // INSIDE
template <typename T> __global__ void calls(T *where) { inside(where); }
extern "C" __global__ void fine(int *p) { *p += 1; }
"""
N = 300


def line(mark):
    """Return the line that says a word."""
    lines = SOURCE.splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"// {mark}"))


def kernel(name):
    """Return a kernel of the source above."""
    return compiled(SOURCE, file="wrong.cu")[name]


WAITS = {
    "to_host": lambda out, stream: out.to_host(),
    "synchronize": lambda out, stream: gpulend.synchronize(),
    "stream": lambda out, stream: stream.synchronize(),
    "event": lambda out, stream: stream.record().synchronize(),
    "numpy": lambda out, stream: out.lend("numpy"),
}


def assert_reported(error, name, mark, shape, block, thread, *words):
    """See that an error has kernel, shape, line, place and the words."""
    text = str(error)
    assert type(error) is gpulend.KernelError
    assert 801 <= error.code <= 819
    assert re.search(rf"\b{name}\b", text), text
    assert f"wrong.cu:{line(mark)}" in text, text
    for number in shape:
        assert re.search(rf"\b{number}\b", text), f"the launch shape {shape} is not in: {text}"
    assert f"block ({block}, 0, 0)" in text, text
    assert f"thread ({thread}, 0, 0)" in text, text
    for word in words:
        assert re.search(word, text), f"{word!r} is not in: {text}"


def works_on():
    """See that the error came once, and that launches work."""
    gpulend.synchronize()
    right_launch()
    out = gpulend.full(1, 4, "int32")
    kernel("fine")[1, 1](out)
    assert out.to_host().tolist() == [5]


@only_simulated
@pytest.mark.parametrize("wait", WAITS)
def test_a_fault_is_told_at_the_next_wait(gpu, wait):
    """The launch itself returns; whatever waits first says it, once."""
    stream = gpulend.Stream()
    with nothing_stays():
        with stream:
            data, out = gpulend.zeros(N, "float32"), gpulend.zeros(N, "float32")
            kernel("past")[7, 48](data, out, N, 0)
            with pytest.raises(gpulend.KernelError) as caught:
                WAITS[wait](out, stream)
        assert_reported(caught.value, "past", "PAST", (7, 48), 6, 11, r"\(to\)|\bto\b", "float")
        del caught
        works_on()
        del data, out


@only_simulated
@pytest.mark.parametrize("beyond", [0, 5, 20])
def test_the_nearest_argument_is_named_with_the_distance(gpu, beyond):
    """In bytes after its end."""
    data, out = gpulend.zeros(N, "float32"), gpulend.zeros(N, "float32")
    kernel("past")[10, 32](data, out, N, beyond)
    with pytest.raises(gpulend.KernelError) as caught:
        gpulend.synchronize()
    distance = rf"\b{4 * beyond} bytes?\b"
    words = ("writes", distance, r"argument 2|\bto\b", "1200")
    assert_reported(caught.value, "past", "PAST", (10, 32), 9, 11, *words)
    works_on()


@only_simulated
def test_before_the_beginning_of_an_argument(gpu):
    """Twelve bytes, reading."""
    data, out = gpulend.zeros(N, "float32"), gpulend.zeros(N, "float32")
    kernel("before")[1, 40](data, out)
    with pytest.raises(gpulend.KernelError) as caught:
        out.to_host()
    words = ("reads", r"\b12 bytes\b", "before", r"\bfrom\b")
    assert_reported(caught.value, "before", "BEFORE", (1, 40), 0, 5, *words)
    works_on()


@only_simulated
@pytest.mark.parametrize("which", ["output", "input", "lease"])
def test_a_stand_in_tells_it_in_the_call_itself(gpu, which):
    """A CPU tensor is complete when the call returns, so its fault is known then."""
    torch = need("torch")
    data, out = torch.zeros(N), torch.zeros(N)
    if which == "input":
        out = gpulend.zeros(N, "float32")
    if which == "lease":
        data, out = gpulend.zeros(N, "float32"), gpulend.borrow(out)
    with pytest.raises(gpulend.KernelError) as caught:
        kernel("past")[10, 32](data, out, N, 5)
    words = ("writes", r"argument 2|\bto\b", r"\b20 bytes\b")
    assert_reported(caught.value, "past", "PAST", (10, 32), 9, 11, *words)
    works_on()


@only_simulated
def test_a_misaligned_access(gpu):
    """The kernel's own cast, which no check of arguments can see."""
    data, out = gpulend.zeros(N, "float32"), gpulend.zeros(N, "float32")
    kernel("misaligned")[1, 40](data, out)
    with pytest.raises(gpulend.KernelError) as caught:
        out.to_host()
    assert_reported(caught.value, "misaligned", "MISALIGNED", (1, 40), 0, 2, r"\b16\b")
    works_on()


@only_simulated
def test_memory_that_was_freed(gpu):
    """An address in a table, which nobody holds."""
    address = allocate(64)
    check(cu.cuMemFree_v2(address))
    table = gpulend.from_host(np.array([address], np.uint64))
    kernel("stale")[1, 16](table)
    with pytest.raises(gpulend.KernelError) as caught:
        gpulend.synchronize()
    assert_reported(caught.value, "stale", "STALE", (1, 16), 0, 0, "writes", "freed")
    works_on()


@only_simulated
def test_memory_of_a_lease_that_has_ended(gpu):
    """Its bytes went back to the pool; a kernel that kept the address is found out."""
    lease = gpulend.zeros(1024, "float32")
    table = gpulend.from_host(np.array([lease.address], np.uint64))
    gpulend.synchronize()
    del lease  # whose address was taken: `release` alone frees nothing
    at_rest(pool_of())
    kernel("stale")[1, 16](table)
    with pytest.raises(gpulend.KernelError, match=f"stale.*wrong.cu:{line('STALE')}"):
        gpulend.synchronize()
    works_on()


@only_simulated
def test_a_failed_assertion(gpu):
    """With its own text."""
    values = gpulend.from_host(np.arange(32, dtype=np.int32))
    kernel("claims")[1, 32](values)
    with pytest.raises(gpulend.KernelError) as caught:
        gpulend.synchronize()
    assert_reported(caught.value, "claims", "CLAIMS", (1, 32), 0, 7, r"values\[threadIdx\.x\] != 7")
    works_on()


@only_simulated
def test_a_null_pointer(gpu):
    """None was allowed; following it was not."""
    kernel("null")[1, 32](None)
    with pytest.raises(gpulend.KernelError) as caught:
        gpulend.synchronize()
    assert_reported(caught.value, "null", "NULL", (1, 32), 0, 3, "writes")
    works_on()


@only_simulated
def test_a_function_that_a_template_calls(gpu):
    """The line is the function's, the name the instance's, the array the launch's."""
    made = gpulend.compile(SOURCE, file="wrong.cu", names=["calls<int>"])
    array = gpulend.zeros(1000, "int32")
    made["calls<int>"][1, 1](array)
    with pytest.raises(gpulend.KernelError) as caught:
        gpulend.synchronize()
    assert_reported(caught.value, "calls", "INSIDE", (1,), 0, 0, r"\bwhere\b", r"\b0 bytes\b")
    works_on()


@only_simulated
def test_the_launch_that_went_wrong_is_named_among_others(gpu):
    """What is queued before and behind it is done."""
    data, out, count = (
        gpulend.zeros(N, "float32"),
        gpulend.zeros(N, "float32"),
        gpulend.zeros(1, "i4"),
    )
    kernel("fine")[1, 1](count)
    kernel("before")[1, 33](data, out)
    kernel("fine")[1, 1](count)
    with pytest.raises(gpulend.KernelError) as caught:
        gpulend.synchronize()
    assert_reported(caught.value, "before", "BEFORE", (33,), 0, 5)
    assert count.to_host().tolist() == [2]
    works_on()


@only_simulated
def test_each_of_two_faults_is_told(gpu):
    """One wait for each, with its own launch's shape."""
    data, out = gpulend.zeros(N, "float32"), gpulend.zeros(N, "float32")
    for threads in (50, 60):
        kernel("before")[1, threads](data, out)
        with pytest.raises(gpulend.KernelError) as caught:
            out.to_host()
        assert_reported(caught.value, "before", "BEFORE", (threads,), 0, 5)
    works_on()


@only_simulated
def test_arguments_that_are_gone_are_still_named(gpu):
    """The arrays were dropped right after the launch."""
    kernel("past")[10, 32](gpulend.zeros(N, "float32"), gpulend.zeros(N, "float32"), N, 0)
    with pytest.raises(gpulend.KernelError) as caught:
        gpulend.synchronize()
    assert_reported(caught.value, "past", "PAST", (10, 32), 9, 11, r"\bto\b")
    works_on()


ENDLESS = """
    import json, gpulend
    gpulend.simulate(timeout=1)
    source = '''extern "C" __global__ void forever(volatile int *flag) {
        while (*flag == 0) {}
    }
    extern "C" __global__ void fine(int *p) { *p = 6; }'''
    module = gpulend.compile(source)
    flag = gpulend.zeros(1, "int32")
    module["forever"][1, 32](flag)
    try:
        gpulend.synchronize()
    except gpulend.KernelError as error:
        text, code = str(error), error.code
    module["fine"][1, 1](flag)
    print(json.dumps([text, code, flag.to_host().tolist()]))
"""


@only_simulated
def test_an_endless_loop_ends_at_the_limit():
    """Of one second here; the line is that of the loop."""
    text, code, after = json.loads(python(ENDLESS).splitlines()[-1])
    assert 801 <= code <= 819
    assert "forever" in text
    assert "kernel.cu:2" in text
    assert "block (0, 0, 0)" in text
    assert after == [6]


STICKY = """
    import json, gpulend
    source = '''extern "C" __global__ void astray(int *p) { p[1ll << 40] = 1; }
    extern "C" __global__ void fine(int *p) { *p = 6; }'''
    module = gpulend.compile(source)
    data = gpulend.zeros(1, "int32")
    module["fine"][1, 1](data)
    gpulend.synchronize()
    module["astray"][2, 33](data)
    texts = []
    for _ in range(2):
        try:
            gpulend.synchronize()
        except gpulend.Error as error:
            texts.append(str(error))
    print(json.dumps(texts), flush=True)
    import os
    os._exit(0)
"""


@only_real
def test_a_sticky_error_says_after_which_launch_it_was_seen():
    """Each time: the context is lost, and the first launch after which it was is the clue."""
    texts = json.loads(python(STICKY).splitlines()[-1])
    assert len(texts) == 2
    for text in texts:
        assert "astray" in text
        assert "33" in text


SLICES = {
    "rows": lambda lease: lease[100 : 100 + N],
    "a slice of a slice": lambda lease: lease[50:][50 : 50 + N],
    "another type": lambda lease: lease.view("uint8")[400 : 400 + 4 * N].view("float32"),
    "a read-write alias": lambda lease: lease.reshape(10, 100)[1:4].reshape(N),
}


@only_simulated
@pytest.mark.parametrize("quick", [False, True], ids=["first launch", "later launch"])
@pytest.mark.parametrize("way", SLICES)
def test_a_slice_of_a_lease_is_as_long_as_it_is(way, quick):
    """There is memory behind it, but not for this kernel; where it was given, nothing is wrong."""
    whole, source = gpulend.zeros(1000, "float32"), gpulend.zeros(N, "float32")
    part, launcher = SLICES[way](whole), kernel("past")[1, 512]
    if quick:
        launcher(source, whole[:400], N, 0)
        gpulend.synchronize()
    launcher(source, part, N, 0)
    with pytest.raises(gpulend.KernelError) as caught:
        gpulend.synchronize()
    assert f"wrong.cu:{line('PAST')}" in str(caught.value)
    assert "beside the arrays of the launch" in str(caught.value)
    assert "argument: 2 (to), float*, 1200 bytes" in str(caught.value)
    launcher(source, part, N - 1, 0)
    launcher(source, whole, N, 0)
    launcher(source, part, N, 0, check=False)
    gpulend.synchronize()
    right_launch()


@only_simulated
def test_neighbouring_slices_of_one_launch_are_both_its_own():
    """What one argument does not span another may."""
    whole = gpulend.zeros(2 * N + 8, "float32")
    kernel("past")[1, 512](whole[N + 4 : 2 * N + 4], whole[:N], N, 4)
    gpulend.synchronize()


@only_simulated
def test_a_kernel_that_gets_addresses_may_follow_them():
    """A table of rows leads anywhere in an allocation of which a slice is an argument too."""
    source = """
    extern "C" __global__ void rows(float **table, float *first) { table[0][threadIdx.x] = *first; }
    """
    whole = gpulend.full(64, 3, "float32")
    table = gpulend.from_host(np.array([whole.address + 4 * 32], "uint64"))
    gpulend.compile(source)["rows"][1, 8](table, whole[:1])
    assert whole[32:40].to_host().tolist() == [3] * 8


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
