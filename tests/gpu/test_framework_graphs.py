"""Graphs captured by torch and CuPy on a real GPU, with hand-overs inside (law 4)."""

from __future__ import annotations

import gc
from contextlib import contextmanager

import gpulend
import numpy as np
import pytest

from .graphs import capture
from .resources import MODES, need, nothing_stays, only_real

pytestmark = only_real

SIZE = 4096
REPLAYS = 100
TORCH_MODES = ["global", "thread_local", "relaxed"]


def garbage(leases):
    """Make of leases what only the collector frees, and collect it."""
    ring = [*leases]
    ring.append(ring)
    leases.clear()
    del ring
    gc.collect()


@contextmanager
def captured(stream, mode):
    """Capture what is queued on a stream of CuPy, and end the capture whatever happens."""
    graphs = []
    runtime = need("cupy").cuda.runtime
    stream.begin_capture(mode=getattr(runtime, f"streamCaptureMode{mode}"))
    try:
        yield graphs
        assert stream.is_capturing()
    finally:
        graphs.append(stream.end_capture())


@pytest.mark.parametrize("consumer", ["torch", "cupy", "cuda.core", "gpulend"])
@pytest.mark.parametrize("mode", TORCH_MODES)
def test_torch_captures_hand_overs(mode, consumer):
    """torch.cuda.graph around hand-overs on its own stream is not spoilt, and replays right."""
    torch = need("torch")
    source = torch.zeros(SIZE, dtype=torch.int32, device="cuda")
    target = torch.zeros_like(source)
    pending = [gpulend.borrow(torch.zeros(SIZE, device="cuda")) for _ in range(10)]

    def work():
        stream = torch.cuda.current_stream()
        lease = gpulend.borrow(source, stream)
        part = lease[::2]
        if consumer == "torch":
            target.copy_(lease.lend("torch"))
        elif consumer == "cupy":
            cupy = need("cupy")
            with cupy.cuda.Stream.from_external(stream):
                cupy.copyto(gpulend.lend(target, "cupy"), lease.lend("cupy"))
        elif consumer == "cuda.core":
            need("cuda.core")
            view = lease.lend("cuda.core", stream=stream)
            assert view.ptr == source.data_ptr()
            target.copy_(source)
        else:
            with gpulend.Stream(stream):
                gpulend.borrow(target, stream).copy_from(lease)
        del lease, part

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        work()
        garbage(pending)
        kept = gpulend.borrow(source, torch.cuda.current_stream())
        with gpulend.Stream(torch.cuda.current_stream()):
            inside = gpulend.zeros(SIZE, "int32")
            with pytest.raises(gpulend.DriverError) as caught:
                kept.to_host()
        assert caught.value.code == 1003
        del kept, caught
    for number in range(REPLAYS):
        source.fill_(number + 1)
        graph.replay()
        torch.cuda.synchronize()
        assert int(target.sum()) == (number + 1) * SIZE
    del inside


@pytest.mark.parametrize("mode", TORCH_MODES)
def test_the_default_stream_inside_a_torch_capture_is_refused(mode):
    """A hand-over to the legacy stream inside: a clear error, and the capture ends well."""
    torch = need("torch")
    source = torch.zeros(SIZE, dtype=torch.int32, device="cuda")
    target = torch.zeros_like(source)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        target.copy_(source)
        with pytest.raises(gpulend.DriverError, match="captur") as caught:
            gpulend.borrow(target, 1)
        assert caught.value.code == 1003
        del caught
    source.fill_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert int(target.sum()) == 3 * SIZE


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("mode", ["Global", "ThreadLocal", "Relaxed"])
def test_cupy_captures_hand_overs(mode, blocking):
    """CuPy's streams block by default: then touching the legacy one would end the capture."""
    cupy, torch = need("cupy"), need("torch")
    stream = cupy.cuda.Stream(non_blocking=not blocking)
    with stream:
        source, target = cupy.zeros(SIZE, "int32"), cupy.zeros(SIZE, "int32")
        cupy.copyto(target, source)
    legacy = gpulend.zeros(SIZE, "int32")
    pending = [gpulend.zeros(SIZE, "int32") for _ in range(10)]
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        gpulend.lend(target, "torch").copy_(gpulend.lend(source, "torch"))
    gpulend.synchronize()
    with nothing_stays(), stream, captured(stream, mode) as graphs:
        lease = gpulend.borrow(source, stream)
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
            gpulend.lend(target, "torch").copy_(lease.lend("torch"))
        garbage(pending)
        if blocking:
            # Whether the legacy stream is done cannot be asked now.
            with pytest.raises(gpulend.DriverError, match="legacy"):
                gpulend.borrow(legacy, stream)
        else:
            gpulend.borrow(legacy, stream)
        with pytest.raises(gpulend.DriverError) as caught:
            gpulend.borrow(target, 1)
        assert caught.value.code == 1003
        del lease, caught
    for number in range(REPLAYS):
        with stream:
            source.fill(number)
            graphs[0].launch(stream)
        stream.synchronize()
        assert np.array_equal(target.get(), np.full(SIZE, number, np.int32))


@pytest.mark.parametrize("mode", MODES)
def test_an_array_of_jax_is_refused_in_a_capture(gpu, mode):
    """What JAX does to order its work would end the capture, which goes on."""
    jax = need("jax")
    array = jax.numpy.arange(8.0).block_until_ready()
    stream = gpulend.Stream()
    with capture(gpu, stream, mode) as graph, stream:
        with pytest.raises(gpulend.DriverError, match="captur"):
            gpulend.borrow(array)
        assert graph.alive
