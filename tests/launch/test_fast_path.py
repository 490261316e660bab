"""The fast path of a launch: what it asks of the driver; the general path does the rest."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import gpulend
import numpy as np
import pytest
from gpu.graphs import capture
from gpu.resources import GpuResources, driver_calls, need, only_real, only_simulated
from gpulend import simulator
from gpulend._native import route_counts

from .arrays import compiled

SOURCE = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] * by;
}
extern "C" __global__ void sum(const int *a, long long b, unsigned char c, double d, double *out) {
    *out = *a + b + c + d;
}
extern "C" __global__ void many(int a, int b, int c, int d, int e, int f, int g, int h, int i,
                                int j, int k, int l, int *out) {
    *out = a + b + c + d + e + f + g + h + i + j + k + l;
}
extern "C" __global__ void few(int a, int b, int c, int d, int e, int f, int g, int h, int i,
                               int j, int k, int *out) {
    *out = a + b + c + d + e + f + g + h + i + j + k;
}
"""
WRONG = """
extern "C" __global__ void past(const float *from, float *to, int n) { to[n] = from[0]; }
"""
# Whether the stream captures, and the launch.
PLAIN = {"cuStreamGetCaptureInfo_v2": 1, "cuLaunchKernelEx": 1}
ENTERED = {"cuCtxGetCurrent": 1, "cuCtxPushCurrent_v2": 1, "cuCtxPopCurrent_v2": 1}


def calls_of(work: Callable[[], Any]) -> dict[str, int]:
    """Return what the driver was called for, by name."""
    before = driver_calls()
    work()
    after = simulator.report()["calls"]
    counts = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: count for name, count in counts.items() if count}


def arrays(count: int = 3) -> list[gpulend.Lease]:
    """Return arrays of 64 ones."""
    return [gpulend.full(64, 1, "float32") for _ in range(count)]


def in_thread(work: Callable[[], Any]) -> Any:
    """Run something in a thread in which no context is current."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


@only_simulated
def test_a_launch_asks_the_driver_for_two_things() -> None:
    """On leases and numbers that suit, on the only stream that works on them."""
    go = compiled(SOURCE)["add"][1, 64]
    with gpulend.Stream():
        a, b, c = arrays()
        go(a, b, c, 64, 2.0)
        assert calls_of(lambda: go(a, b, c, 64, 3.0)) == PLAIN
        assert c.to_host().tolist() == [4.0] * 64


@only_simulated
def test_the_default_stream_is_that_of_a_context() -> None:
    """Which is made current for the launch, and left."""
    go = compiled(SOURCE)["add"][1, 64]

    def launched() -> tuple[dict[str, int], list[float]]:
        a, b, c = arrays()
        go(a, b, c, 64, 2.0)
        return calls_of(lambda: go(a, b, c, 64, 3.0)), c.to_host().tolist()

    assert in_thread(launched) == (PLAIN | ENTERED, [4.0] * 64)


def launches(work: Callable[[], Any]) -> tuple[int, int]:
    """Return how many launches took the fast path, and how many the general one."""
    names = ("launch: fast path", "launch: general")
    before = route_counts()
    work()
    after = route_counts()
    fast, general = (after[name] - before[name] for name in names)
    return fast, general


@only_simulated
@pytest.mark.parametrize("number", [2, np.float32(2), True, np.int64(2)])
def test_other_arguments_take_the_general_path(number: Any) -> None:
    """From the first that does not fit: the plan goes on, and all arrive."""
    go = compiled(SOURCE)["add"][1, 64]
    with gpulend.Stream():
        a, b, c = arrays()
        go(a, b, c, 64, number)
        assert launches(lambda: go(a, b, c, 64, number)) == (0, 1)
        assert launches(lambda: go(a, b, c, 64, 2.0)) == (1, 0)
        go(a, b, c, 64, number)
        assert c.to_host().tolist() == [1.0 + number] * 64


@only_simulated
@pytest.mark.parametrize("number", [2, True])
def test_numbers_that_run_no_code_ask_the_driver_for_no_more(number: Any) -> None:
    """The general path takes them, and the launch is as plain as before."""
    go = compiled(SOURCE)["add"][1, 64]
    with gpulend.Stream():
        a, b, c = arrays()
        go(a, b, c, 64, number)
        assert calls_of(lambda: go(a, b, c, 64, number)) == PLAIN


@only_simulated
@pytest.mark.parametrize(("name", "count"), [("few", 11), ("many", 12)])
def test_many_arguments_take_the_fast_path(name: str, count: int) -> None:
    """However many there are."""
    numbers = range(1, count + 1)
    with gpulend.Stream():
        out = gpulend.zeros(1, "int32")
        go = compiled(SOURCE)[name][1, 1]
        go(*numbers, out)
        assert calls_of(lambda: go(*numbers, out)) == PLAIN
        assert launches(lambda: go(*numbers, out)) == (1, 0)
        assert out.to_host().tolist() == [sum(numbers)]


def test_numbers_arrive_whole() -> None:
    """Whatever their sizes and signs."""
    a, out = gpulend.full(1, -7, "int32"), gpulend.zeros(1, "float64")
    go = compiled(SOURCE)["sum"][1, 1]
    for b, c, d in ((1 << 40, 255, 0.5), (-(1 << 40), 0, -1e300), (-1, 1, 1e-300)):
        go(a, b, c, d, out)
        assert out.to_host().tolist() == [-7 + b + c + d]


@pytest.mark.parametrize("by", [1e39, -1e39, 3.5e38])
def test_a_float_that_does_not_fit_is_refused(by: float) -> None:
    """And infinity is no such number."""
    go = compiled(SOURCE)["add"][1, 64]
    a, b, c = arrays()
    go(a, b, c, 64, 1.0)
    with pytest.raises(gpulend.SignatureError, match=r"argument 5 \(by\)"):
        go(a, b, c, 64, by)
    go(a, b, c, 64, float("inf"))
    assert c.to_host().tolist() == [float("inf")] * 64


@pytest.mark.parametrize(("grid", "block"), [(0, 64), (1, 2048), ((1, 1, 1 << 17), 1)])
def test_a_size_that_no_launch_has_is_refused(grid: Any, block: int) -> None:
    """Of a kernel that was launched before, too."""
    add = compiled(SOURCE)["add"]
    a, b, c = arrays()
    add[1, 64](a, b, c, 64, 1.0)
    with pytest.raises(gpulend.KernelError, match=r"grid|threads|block"):
        add[grid, block](a, b, c, 64, 1.0)


@only_simulated
@pytest.mark.parametrize("name", PLAIN)
def test_what_the_driver_refuses_is_raised(name: str) -> None:
    """Once, and nothing is launched instead."""
    go = compiled(SOURCE)["add"][1, 64]
    with gpulend.Stream():
        a, b, c = arrays()
        go(a, b, c, 64, 2.0)
        with (
            simulator.faults(f"{name}#1=LAUNCH_OUT_OF_RESOURCES"),
            pytest.raises(gpulend.Error, match="LAUNCH_OUT_OF_RESOURCES"),
        ):
            go(a, b, c, 64, 3.0)
        assert c.to_host().tolist() == [3.0] * 64


@only_simulated
def test_a_driver_that_wants_a_current_context_gets_it() -> None:
    """The launch is tried again, where its context is current."""
    go = compiled(SOURCE)["add"][1, 64]
    with gpulend.Stream():
        a, b, c = arrays()
        go(a, b, c, 64, 2.0)
        with simulator.faults("cuLaunchKernelEx#1=INVALID_CONTEXT"):
            calls = calls_of(lambda: go(a, b, c, 64, 3.0))
        assert (calls["cuLaunchKernelEx"], calls["cuCtxGetCurrent"]) == (2, 1)
        assert c.to_host().tolist() == [4.0] * 64


@only_simulated
def test_a_fault_names_the_launch_and_the_argument(mistaken: None) -> None:
    """As after any launch."""
    past = compiled(WRONG)["past"]
    with gpulend.Stream():
        a, b = arrays(2)
        past[1, 1](a, b, 0)
        past[3, 1](a, b, 64 + 5)
        with pytest.raises(
            gpulend.KernelError, match=r"past.*3.*argument: 2 \(to\).*20 bytes past"
        ):
            gpulend.synchronize()


def test_a_captured_module_stays_loaded(gpu: GpuResources) -> None:
    """Although it was launched before, and nobody has it any more."""
    stream = gpulend.Stream()
    with stream:
        a, b, c = arrays()
        add = gpulend.compile(SOURCE)["add"]
        add[1, 64](a, b, c, 64, 2.0)
        gpulend.synchronize()
        with capture(gpu, stream, "thread-local") as graph:
            add[1, 64](a, b, c, 64, 3.0)
        del add
        gc.collect()
        gpulend.synchronize()
        graph.replay()
        assert c.to_host().tolist() == [4.0] * 64


@only_real
def test_tensors_of_torch_take_the_fast_path_on_torch_s_stream() -> None:
    """In the order of its own work, whichever of its streams is current."""
    torch = need("torch")
    go = compiled(SOURCE)["add"][1, 64]
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            a, b, c = (torch.ones(64, device="cuda") for _ in range(3))
            for _ in range(50):
                go(a, b, c, 64, 2.0)
                a, c = c * 1, torch.empty(64, device="cuda")
            torch.cuda.current_stream().synchronize()
        assert a.tolist() == [101.0] * 64


@only_real
@pytest.mark.parametrize("kind", ["negative", "tracked", "strided", "wide", "elsewhere", "sparse"])
def test_tensors_that_mean_more_are_refused(kind: str) -> None:
    """Of a kernel that was launched before, with the words of the general path."""
    torch = need("torch")
    tensor = {
        "negative": lambda: torch.ones(64, dtype=torch.complex64, device="cuda").conj().imag,
        "tracked": lambda: torch.ones(64, device="cuda", requires_grad=True),
        "strided": lambda: torch.ones(64, 2, device="cuda")[:, 0],
        "wide": lambda: torch.ones(64, dtype=torch.float64, device="cuda"),
        "elsewhere": lambda: torch.ones(64),
        "sparse": lambda: torch.ones(64, device="cuda").to_sparse(),
    }[kind]()
    a, b, c = (torch.ones(64, device="cuda") for _ in range(3))
    go = compiled(SOURCE)["add"][1, 64]
    go(a, b, c, 64, 1.0)
    texts = []
    for keywords in ({}, {"shared": 0}):
        with pytest.raises((gpulend.Error, BufferError)) as caught:
            go(a, b, tensor, 64, 1.0, **keywords)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    go(a, b, c, 64, 2.0)
    assert c.tolist() == [3.0] * 64


@only_real
def test_leases_and_tensors_of_two_streams_take_the_general_path() -> None:
    """The one that came first has its stream, and waits for the other."""
    torch = need("torch")
    go = compiled(SOURCE)["add"][1, 64]
    with gpulend.Stream(), torch.cuda.stream(torch.cuda.Stream()):
        a, c = arrays(2)
        b = torch.ones(64, device="cuda")
        for _ in range(50):
            b = b * 1
            go(a, b, c, 64, 2.0)
            go(b, c, a, 64, 0.0)
            c.copy_from(a)
        assert a.to_host().tolist() == [1.0] * 64
        b = b + 1
        go(a, b, c, 64, 2.0)
        assert c.to_host().tolist() == [5.0] * 64


def test_a_thread_without_a_context_launches() -> None:
    """On a stream of ours and on the default one."""
    go = compiled(SOURCE)["add"][1, 64]

    def launched() -> list[float]:
        found = []
        for stream in (gpulend.Stream(), None):
            a, b, c = arrays()
            if stream is None:
                go(a, b, c, 64, 2.0)
            else:
                with stream:
                    a, b, c = arrays()
                    go(a, b, c, 64, 2.0)
            found.append(float(c.to_host()[63]))
        return found

    assert in_thread(launched) == [3.0, 3.0]


def test_leases_of_another_stream_are_waited_for() -> None:
    """They are no longer its alone, and neither are they the launch's."""
    go = compiled(SOURCE)["add"][1, 64]
    one, other = gpulend.Stream(), gpulend.Stream()
    with one:
        a, b, c = arrays()
        go(a, b, c, 64, 1.0)
    with other:
        go(c, b, a, 64, 1.0)
        go(a, c, b, 64, 1.0)
        assert b.to_host().tolist() == [5.0] * 64
    with one:
        go(b, a, c, 64, 1.0)
        assert c.to_host().tolist() == [8.0] * 64
