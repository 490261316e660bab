"""Code of others that runs inside a launch: it can neither end leases nor move memory unseen."""

from __future__ import annotations

import gc
import sys

import gpulend
import pytest
from gpu.resources import need, only_simulated, python

from .gated import STALE, ints, kernel, only


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


def test_work_that_a_later_argument_queues_is_waited_for(gpu):
    """When the lease was looked at, the launch's stream alone worked on its memory."""
    go, gate, stream, other = kernel("plus"), gpu.gate(), gpulend.Stream(), gpulend.Stream()
    with other:
        newest = ints(5)
    with stream:
        source, out = ints(STALE), ints(STALE)
        go(source, out, 1)
    gpulend.synchronize()

    class Writes:
        def __index__(self):
            gate.hold(other)
            with other:
                source.copy_from(newest)
            return 1

    with stream:
        go(source, out, Writes())
    assert gate.closed, "the host waited"
    gate.open()
    assert only(out) == 6


@only_simulated
def test_a_tensor_s_memory_is_asked_for_after_all_python_code(gpu):
    """A later argument gave the tensor another storage; the freed one was written."""
    torch = need("torch")
    go = gpulend.compile("__global__ void f(float *x, int v) { x[0] = v; }")["f"]
    tensor = torch.zeros(64)
    # Held here, so that it can be seen that nothing is written there.
    before = tensor.untyped_storage()

    class Moves:
        def __index__(self):
            tensor.data = torch.ones(64)
            return 9

    with pytest.raises(gpulend.ProtocolError, match="got other memory"):
        go[1, 1](tensor, Moves())
    gpulend.synchronize()
    assert not any(before)
    assert tensor.tolist() == [1] * 64
    go[1, 1](tensor, 9)
    assert tensor[0] == 9


@only_simulated
def test_a_tensor_that_code_of_torch_s_moves_is_not_launched_on(gpu):
    """A mode of torch sees what a later tensor is asked, where the table shows it."""
    torch = need("torch")
    from torch.overrides import TorchFunctionMode

    go = gpulend.compile(
        "__global__ void f(unsigned char *x, const unsigned char *y) { *x = *y; }"
    )["f"]
    tensor, other = torch.zeros(64, dtype=torch.uint8), torch.ones(64, dtype=torch.uint8)
    # Held here, so that it can be seen that nothing is written there.
    before = tensor.untyped_storage()

    class Moves(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if args and args[0] is other:
                tensor.data = torch.zeros(64, dtype=torch.uint8)
            return function(*args, **(kwargs or {}))

    gpulend._native._reroute(False)
    try:
        with Moves(), pytest.raises(gpulend.ProtocolError, match="got other memory"):
            go[1, 1](tensor, other)
    finally:
        gpulend._native._reroute(True)
    gpulend.synchronize()
    assert not any(before)


def test_the_cycle_collector_cannot_end_a_lease_of_the_launch(gpu):
    """An int past 128 bits makes an error inside, and until Python 3.11 that runs the collector."""
    go = gpulend.compile("__global__ void f(double *x, double v) { x[0] = v; }")["f"][1, 1]
    lease, refused = gpulend.zeros(4, "float64"), []
    go(lease, 1.0)

    class Garbage:
        def __init__(self):
            self.cycle = self

        def __del__(self):
            try:
                lease.release()
            except gpulend.Error as error:
                refused.append(type(error))

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
    gc.collect()
    # From Python 3.12 on it runs after the call, when nothing holds the lease any more.
    inside = sys.version_info < (3, 12)
    assert refused == ([gpulend.StillLentError] if inside else [])
    assert lease.released != inside
    assert not inside or lease.to_host()[0] == 2.0**200


@pytest.mark.parametrize("native", [True, False])
@only_simulated
def test_code_that_torch_calls_cannot_end_a_lease_of_the_launch(gpu, native):
    """A mode of torch sees that a tensor of bytes is asked for its type, by its table alone."""
    torch = need("torch")
    from torch.overrides import TorchFunctionMode

    go = gpulend.compile("__global__ void f(unsigned char *x, unsigned char *y) { *y = *x + 1; }")
    go, lease, refused = go["f"][1, 1], gpulend.full(4, 6, "uint8"), []

    class Ends(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            try:
                lease.release()
            except gpulend.Error as error:
                refused.append(type(error))
            return function(*args, **(kwargs or {}))

    gpulend._native._reroute(native)
    try:
        tensor = torch.zeros(4, dtype=torch.uint8)
        # The route of a type is remembered from the second launch on.
        for _ in range(2):
            go(lease, tensor)
        with Ends():
            go(lease, tensor)
        assert set(refused) == (set() if native else {gpulend.StillLentError})
        assert not lease.released
        assert tensor.tolist() == [7, 0, 0, 0]
    finally:
        gpulend._native._reroute(True)


def test_no_reference_that_was_put_off_is_left_over(gpu):
    """A launcher is called past pyo3, which then drops references in its next call only."""
    go = gpulend.compile("__global__ void f(double *x, double v) { x[0] = v; }")["f"][1, 1]
    lease, objects = gpulend.zeros(4, "float64"), sys.getallocatedblocks()
    for _ in range(1000):
        go(lease, 2**200)
    assert sys.getallocatedblocks() - objects < 500


def test_a_wrong_launch_while_python_ends_is_an_error_and_no_abort(gpu):
    """What was put off is dropped by attaching to Python, which pyo3 refuses by then."""
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
