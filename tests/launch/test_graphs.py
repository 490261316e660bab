"""`gpulend.capture` and `Graph`: what is kept, and how launches of a graph are ordered (law 4)."""

from __future__ import annotations

import gc
import threading

import gpulend
import numpy as np
import pytest
from driver.cuda import cu
from driver.resources import end_capture
from gpu.resources import MODES, eventually, need, nothing_stays, only_real, stuck, waiting

from .arrays import compiled
from .gated import SIZE, SOURCE, held_back, ints, kernel, only

COUNTER = """
__device__ int total;
extern "C" __global__ void add_to_total(int by) { atomicAdd(&total, by); }
"""


def given_back(gpu):
    """Wait until whatever nobody holds any more was given back."""
    gc.collect()
    gpu.gate().open()
    gpu.reap()


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_runs_when_it_is_launched_and_not_before(gpu, mode):
    """As often as it is launched, on whichever stream, with what the memory then holds."""
    source, target = ints(1), ints(0)
    go = kernel("plus")
    gpulend.synchronize()
    with gpulend.capture(mode=mode) as graph:
        assert graph.stream.capturing
        assert gpulend.current_stream() == graph.stream
        go(source, target, 10)
        source.copy_from(target)
    assert not graph.stream.capturing
    assert (only(target), only(source)) == (0, 1)
    for turn, stream in enumerate((None, graph.stream, gpulend.Stream(), 1), 1):
        graph.launch(stream)
        assert (only(target), only(source)) == (1 + 10 * turn,) * 2


def test_a_graph_keeps_the_memory_and_the_module_that_it_uses(gpu):
    """Nobody else holds them, and the graph still runs; the ledger names it."""
    with nothing_stays():
        out = ints(0)
        module = gpulend.compile(SOURCE)
        gpulend.synchronize()
        with gpulend.capture() as graph:
            middle = ints(5)  # allocated inside
            module["plus"][SIZE // 64, 64](middle, out, 1)
        del middle, module
        given_back(gpu)
        others = [ints(77) for _ in range(8)]  # would take memory that was given back
        graph.launch()
        assert only(out) == 6
        held = [entry.who for entry in gpulend.ledger() if entry.kind == "export"]
        assert held.count("gpulend.Graph") == 2
        with pytest.raises(gpulend.StillLentError, match=r"gpulend\.Graph"):
            out.release()
        del graph, others
        gc.collect()
        eventually(lambda: "gpulend.Graph" not in str(gpulend.ledger()), "the graph lets go")
        out.release()


def test_memory_handed_over_inside_a_capture_is_kept(gpu):
    """Also where gpulend queues nothing itself: the receiver's work may be in the graph."""
    pointed, borrowed, used = ints(1), ints(2), ints(3)
    stream = gpulend.Stream()
    gpulend.synchronize()
    with gpulend.capture(stream) as graph:
        with pointed.pointer(stream):
            pass
        gpulend.borrow(borrowed, stream)
        used.used_on(stream)
    for lease in (pointed, borrowed, used):
        with pytest.raises(gpulend.StillLentError, match=r"gpulend\.Graph"):
            lease.release()
    del graph


def test_a_stream_that_joins_the_capture_is_part_of_it(gpu):
    """What is launched there is in the graph, and its memory kept."""
    stream, other = gpulend.Stream(), gpulend.Stream()
    go = kernel("plus")
    source, middle, out = ints(1), ints(0), ints(0)
    gpulend.synchronize()
    with gpulend.capture(stream) as graph:
        go(source, middle, 1)
        other.wait(stream)
        go(middle, out, 1, stream=other)
        stream.wait(other)
    with pytest.raises(gpulend.StillLentError, match=r"gpulend\.Graph"):
        out.release()
    graph.launch()
    assert only(out) == 3


def test_a_launch_of_a_graph_waits_for_the_producers_of_its_memory(gpu):
    """By its stream and not by the host, though the work came after the capture."""
    stream, other = gpulend.Stream(), gpulend.Stream()
    go = kernel("plus")
    with stream:
        out = ints(0)
    source = ints(1)
    gpulend.synchronize()
    with gpulend.capture() as graph:
        go(source, out, 1)
    gate = gpu.gate()
    gate.hold(other)
    with other:
        source.fill(30)
    graph.launch(stream)
    assert gate.closed, "the host waited"
    assert stuck(stream), "the graph does not wait for the producer"
    gate.open()
    assert only(out) == 31


def test_the_next_user_waits_for_the_launch_of_a_graph(gpu):
    """A reader on another stream, and a writer that must not come first."""
    stream, other = gpulend.Stream(), gpulend.Stream()
    go = kernel("plus")
    source, out, seen = ints(1), ints(0), ints(0)
    gpulend.synchronize()
    with gpulend.capture() as graph:
        go(source, out, 1)
    gate = gpu.gate()
    gate.hold(stream)
    graph.launch(stream)
    with other:
        seen.copy_from(out)
        source.fill(50)
    assert gate.closed, "the host waited"
    assert stuck(other), "the next user does not wait for the graph"
    gate.open()
    assert (only(seen), only(out), only(source)) == (2, 2, 50)


def test_a_dropped_graph_is_destroyed_after_its_last_launch(gpu):
    """Its memory too: it is dropped while the launch is held back."""
    with nothing_stays():
        stream = gpulend.Stream()
        go = kernel("plus")
        source, out = ints(1), ints(0)
        gpulend.synchronize()
        with gpulend.capture() as graph:
            go(source, out, 6)
        gate = gpu.gate()
        gate.hold(stream)
        graph.launch(stream)
        del graph, source
        given_back(gpu)
        assert gate.closed
        assert waiting(stream)
        gate.open()
        assert only(out) == 7
        del out


def test_variables_of_a_module_are_ordered_with_a_graph(gpu):
    """They were borrowed after the capture; a reader waits for the launch."""
    module = compiled(COUNTER)
    add = module["add_to_total"]
    add.attributes  # loaded before the capture
    gpulend.synchronize()
    with gpulend.capture() as graph:
        add[1, 4](2)
    total = module.variable("total")
    total.fill(0)
    stream = gpulend.Stream()
    gate = gpu.gate()
    gate.hold(stream)
    graph.launch(stream)
    assert gate.closed
    with gpulend.Stream() as other:
        seen = gpulend.zeros((), "int32")
        seen.copy_from(total)
        assert stuck(other)
    gate.open()
    assert seen.item() == 8


def test_memory_of_the_host_is_waited_for(gpu):
    """A lease that NumPy holds is right when `launch` returns."""
    source, out = ints(3), ints(0)
    go = kernel("plus")
    gpulend.synchronize()
    with gpulend.capture() as graph:
        go(source, out, 1)
    if not out.simulated:
        pytest.skip("NumPy holds no memory of a real GPU")
    array = out.lend("numpy")
    graph.launch()
    assert set(array.tolist()) == {4}


def test_work_that_is_not_done_when_the_capture_begins_is_refused(gpu):
    """The graph would not wait for it; the error says what to do, and the capture goes on."""
    gate = gpu.gate()
    late, out = held_back(gate, gpulend.Stream(), 5), ints(0)
    gpulend.current_stream().synchronize()
    go = kernel("plus")
    with gpulend.capture() as graph:
        with pytest.raises(gpulend.DriverError, match="wait for it before the capture") as caught:
            go(late, out, 1)
        assert caught.value.code == 1003
        assert graph.stream.capturing
    gate.open()
    late.to_host()


def test_an_error_inside_ends_the_capture(gpu):
    """The stream can be used and captured again, and nothing is kept."""
    source, out = ints(3), ints(0)
    go = kernel("plus")
    gpulend.synchronize()
    with nothing_stays():
        stream = gpulend.Stream()
        graph = gpulend.capture(stream)
        with pytest.raises(gpulend.SignatureError), graph:
            go(source, out, "1")
        assert not stream.capturing
        with pytest.raises(RuntimeError, match="nothing was captured"):
            graph.launch()
        with graph:
            go(source, out, 2)
        graph.launch()
        assert only(out) == 5
        del graph


def test_wrong_uses_are_refused_by_name(gpu):
    """Each says what to do, and the next right one works."""
    x, y = ints(1), ints(2)
    gpulend.synchronize()
    with pytest.raises(gpulend.DriverError, match="legacy default stream"):
        gpulend.capture(1).__enter__()
    with pytest.raises(gpulend.ProtocolError, match="'thread-local', 'global' or 'relaxed'"):
        gpulend.capture(mode="local")
    with gpulend.capture() as graph:
        with pytest.raises(RuntimeError, match="still being captured"):
            graph.launch()
        with pytest.raises(RuntimeError, match="being captured already"):
            graph.__enter__()
        with pytest.raises(gpulend.DriverError, match="captured already"):
            gpulend.capture(graph.stream).__enter__()
        y.copy_from(x)
    stream = gpulend.Stream()
    with gpulend.capture(stream), pytest.raises(gpulend.DriverError, match="a graph's launch"):
        graph.launch(stream)
    graph.launch()
    assert only(y) == 1
    assert repr(graph) == "<gpulend.Graph captured on cuda:0>"


def test_a_stream_of_another_device_is_refused(gpu, second):
    """Before anything is queued."""
    x, y = ints(1), ints(2)
    gpulend.synchronize()
    with gpulend.capture() as graph:
        y.copy_from(x)
    with pytest.raises(gpulend.SignatureError, match="a graph: the stream is of cuda:1"):
        graph.launch(gpulend.Stream(device=second))


def test_two_threads_launch_one_graph(gpu):
    """Each launch counts."""
    total = gpulend.zeros(1, "int32")
    count = compiled(SOURCE)["count"]
    count.attributes
    gpulend.synchronize()
    with gpulend.capture() as graph:
        count[1, 1](total)

    def launch():
        stream = gpulend.Stream()
        for _ in range(50):
            graph.launch(stream)

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.item() == 200


def test_a_fill_of_memory_with_gaps_is_captured(gpu):
    """What it copies from is kept by the graph; in a capture of others it is refused."""
    array = gpulend.zeros((4, 4), "int32")
    gpulend.synchronize()
    with gpulend.capture() as graph:
        array[:, 1] = 3
        array[2] = 4
    given_back(gpu)
    others = [gpulend.full((4, 1), 9, "int32") for _ in range(8)]
    graph.launch()
    wanted = np.zeros((4, 4), "int32")
    wanted[:, 1], wanted[2] = 3, 4
    assert (array.to_host() == wanted).all()
    del others, graph
    stream = gpulend.Stream()
    assert cu.cuStreamBeginCapture_v2(stream.handle, 2) == 0
    with stream, pytest.raises(gpulend.DriverError, match="a fill of memory with gaps"):
        array[:, 1] = 5
    assert stream.capturing
    code, graph = end_capture(stream.handle)
    assert code == 0
    gpu.executable(graph)


@only_real
def test_a_torch_tensor_is_kept_by_the_graph(gpu):
    """torch frees it in the order of its stream, which says nothing about a graph."""
    torch = need("torch")
    stream = torch.cuda.Stream()
    go = compiled(SOURCE)["plus"][SIZE // 64, 64]
    with torch.cuda.stream(stream):
        source = torch.full((SIZE,), 4, dtype=torch.int32, device="cuda")
        out = torch.zeros(SIZE, dtype=torch.int32, device="cuda")
    go(source, out, 0)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), gpulend.capture(stream) as graph:
        go(source, out, 1)
    del source
    torch.cuda.synchronize()
    filling = torch.full((SIZE,), 90, dtype=torch.int32, device="cuda")
    graph.launch(stream)
    torch.cuda.synchronize()
    assert set(out.tolist()) == {5}
    del filling
