"""Copies that threads go on with after the call: order, what is kept, errors, captures, exit."""

from __future__ import annotations

import gc
import weakref

import gpulend
import numpy as np
import pytest
from gpulend import simulator

from .forks import forking, run
from .resources import eventually, nothing_stays, only_simulated
from .staged import SMALLEST, VARIABLE, numbers

pytestmark = pytest.mark.usefixtures("staged")
SIZE = 6 * SMALLEST


def behind(gate, lease):
    """Make the lease's next user wait for a gate, on a stream of its own."""
    late = gpulend.Stream()
    gate.hold(late)
    lease.used_on(late)


def test_the_call_returns_before_the_copy_is_done(gpu):
    """Up and down; the bytes are there after `wait`."""
    data, gate = numbers(SIZE), gpu.gate()
    lease, stream = gpulend.zeros(SIZE, "uint8"), gpulend.Stream()
    gpulend.synchronize()
    behind(gate, lease)
    copy = lease.copy_from(data, stream=stream, background=True)
    assert not copy.done
    assert gate.closed
    gate.open()
    copy.wait()
    assert copy.done
    assert np.array_equal(lease.to_host(), data)
    gate.close()
    behind(gate, lease)
    out = np.zeros_like(data)
    copy = lease.copy_to(out, stream=stream, background=True)
    assert not copy.done
    gate.open()
    copy.wait()
    copy.wait()
    assert np.array_equal(out, data)


def test_later_users_of_the_lease_wait_for_it():
    """On any stream, whatever they do; nobody calls `wait`."""
    lease, stream, other = gpulend.zeros(SIZE, "uint8"), gpulend.Stream(), gpulend.Stream()
    for seed in range(8):
        data = numbers(SIZE, seed)
        lease.copy_from(data, stream=stream, background=True)
        if seed % 2:
            with other:
                second = gpulend.empty(SIZE, "uint8")
                second.copy_from(lease)
            assert np.array_equal(second.to_host(), data)
        assert np.array_equal(lease.to_host(), data)
        out = np.zeros(SIZE, np.uint8)
        copy = lease.copy_to(out, stream=stream, background=True)
        lease.fill(7)
        copy.wait()
        assert np.array_equal(out, data), "the bytes were read before the next write"


def test_views_with_rows_go_in_the_background_too():
    """And those that need many calls are copied at once."""
    lease, stream = gpulend.zeros((6, SMALLEST), "uint8"), gpulend.Stream()
    data = numbers(6 * (SMALLEST - 5)).reshape(6, -1)
    lease[:, 5:].copy_from(data, stream=stream, background=True).wait()
    assert np.array_equal(lease.to_host()[:, 5:], data)
    scattered = numbers(SIZE).reshape(-1, 64)[:, ::2]
    target = gpulend.zeros(scattered.shape, "uint8")
    target.copy_from(scattered, stream=stream, background=True).wait()
    assert np.array_equal(target.to_host(), scattered)


def test_both_arrays_are_kept_until_it_is_done(gpu):
    """Their names may go; after it nothing is left."""
    gate, stream = gpu.gate(), gpulend.Stream()
    with nothing_stays():
        lease, data = gpulend.zeros(SIZE, "uint8"), numbers(SIZE)
        gpulend.synchronize()
        behind(gate, lease)
        alive = weakref.ref(data)
        copy = lease.copy_from(data, stream=stream, background=True)
        del lease, data
        gc.collect()
        assert alive() is not None
        gate.open()
        copy.wait()
        eventually(lambda: gc.collect() >= 0 and alive() is None, "the array is dropped")
        del copy


@only_simulated
def test_an_error_arrives_at_wait():
    """At each; the next copy works."""
    lease, stream, data = gpulend.zeros(SIZE, "uint8"), gpulend.Stream(), numbers(SIZE)
    with simulator.faults("cuMemcpyHtoDAsync#*=LAUNCH_FAILED"):
        copy = lease.copy_from(data, stream=stream, background=True)
        for _ in range(2):
            with pytest.raises(gpulend.DriverError, match="cuMemcpyHtoDAsync"):
                copy.wait()
    assert copy.done
    lease.copy_from(data, stream=stream, background=True).wait()
    assert np.array_equal(lease.to_host(), data)


def test_a_capture_refuses_it():
    """And goes on."""
    lease, stream, data = gpulend.zeros(SIZE, "uint8"), gpulend.Stream(), numbers(SIZE)
    gpulend.synchronize()
    with gpulend.capture(stream) as graph:
        with pytest.raises(gpulend.DriverError) as caught:
            lease.copy_from(data, stream=stream, background=True)
        assert caught.value.code == 1003
        lease.fill(3)
    graph.launch(stream)
    assert (lease.to_host() == 3).all()


def test_small_and_pinned_arrays_are_copied_as_without():
    """It needs a stream, and calls no function of the program's."""
    lease, stream = gpulend.zeros(1000, "uint8"), gpulend.Stream()
    lease.copy_from(numbers(1000), stream=stream, background=True).wait()
    assert np.array_equal(lease.to_host(), numbers(1000))
    large = gpulend.from_host(numbers(SIZE))
    pinned = large.to_host(pinned=True)
    large.copy_to(pinned, stream=stream, background=True).wait()
    assert np.array_equal(pinned, numbers(SIZE))
    for wrong in ({"background": True}, {"progress": print, "stream": stream, "background": True}):
        with pytest.raises(gpulend.Error, match="background needs a stream"):
            lease.copy_from(numbers(1000), **wrong)


def test_a_fork_beside_it_leaves_no_lock_behind(monkeypatch):
    """The child is refused the driver, also by a copy that the parent began."""
    monkeypatch.setenv(VARIABLE, "2")
    prepare = (
        "import numpy as np; big = gpulend.zeros(5 << 20, 'uint8'); kept = big.to_host(); "
        "stream = gpulend.Stream(); one = big.copy_from(kept, stream=stream, background=True)"
    )
    work = "big.copy_from(kept, stream=stream, background=True).wait()"
    assert forking(work, prepare, "lambda: one.wait(), lambda: kept.sum(),") == "[] []"


@pytest.mark.parametrize("moment", [0.0, 0.01])
def test_a_process_ends_before_it_is_done(moment):
    """No crash, no hang."""
    program = f"""
        import time
        import numpy as np
        data = np.ones(256 << 20, np.uint8)
        lease, stream = gpulend.empty(data.size, "uint8"), gpulend.Stream()
        copies = [lease.copy_from(data, stream=stream, background=True) for _ in range(3)]
        time.sleep({moment})
        print("right", flush=True)
    """
    assert run(program, GPULEND_COPY_THREADS="3").strip().endswith("right")
