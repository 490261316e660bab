"""What the doctor says of a hand-over is what happened: frameworks that cheat are found out.

Each is tried in a process of its own on the simulated GPU, beside an honest one.
"""

from __future__ import annotations

import json

import pytest
from machines import python

PROGRAM = """
import ctypes, json
import gpulend
gpulend.simulate(expose=True)
from gpulend.adapters import Probe
from gpulend.doctor.subjects import OURSELVES as honest, Subject
from gpulend.doctor.trial import Trials

def probe(**made):
    return Probe(address=honest.probe.address, stream=honest.probe.stream, **made)
def consumer(receive):
    return Subject("cheat", probe(), receive)
def producer(immutable=False, **made):
    return Subject("cheat", probe(**made), immutable=immutable)
def say(pair):
    print(json.dumps(vars(pair)))
trials = Trials()
"""


def trial(text):
    """Run a trial and return the pair that it found."""
    return json.loads(python(PROGRAM + text).stdout)


def test_an_honest_framework_is_well():
    """The control."""
    pair = trial("say(trials.run(honest, honest))")
    assert (pair["status"], pair["order"], pair["host_waits"]) == ("zero copy", "event", 0)
    assert (pair["readonly"], pair["capture"]) == ("kept", "yes")
    assert pair["order_on_default_streams"] == "same stream"


def test_a_stream_that_does_not_wait_is_found():
    """Law 2: the consumer takes the memory and leaves the stream alone."""
    pair = trial("say(trials.run(honest, consumer(lambda array, **stream: array)))")
    assert pair["order"] == "NOT ORDERED"
    assert pair["zero_copy"] is True


def test_waits_of_the_host_are_found_and_counted():
    """Law 2: each call that blocks counts."""
    pair = trial(
        """
def receive(array, **stream):
    gpulend.current_stream("cuda:0").synchronize()
    gpulend.current_stream("cuda:0").synchronize()
    return array
say(trials.run(honest, consumer(receive)))
"""
    )
    assert (pair["order"], pair["host_waits"]) == ("host wait", 2)
    assert pair["host_waits_counted_by"] == "driver calls"


def test_a_copy_is_found():
    """Law 1: the addresses are compared."""
    pair = trial(
        """
def receive(array, **stream):
    copy = gpulend.empty_like(array)
    copy.copy_from(array)
    return copy
say(trials.run(honest, consumer(receive)))
"""
    )
    assert (pair["status"], pair["zero_copy"]) == ("copied", False)
    assert "arrives at 0x" in pair["problem"]


def test_lost_read_only_is_found():
    """Law 6: the consumer forgets the flag."""
    pair = trial(
        """
def receive(array, **stream):
    lease = gpulend.borrow(array, **stream)
    return gpulend.wrap(lease.address, lease.shape, lease.dtype, owner=lease, check=False)
say(trials.run(honest, consumer(receive)))
"""
    )
    assert pair["readonly"] == "LOST"


def test_a_producer_that_promises_never_to_write_must_arrive_read_only():
    """Law 6: immutable by contract, and borrowed as if it were not."""
    pair = trial("say(trials.run(producer(gpu=honest.probe.gpu, immutable=True), honest))")
    assert pair["readonly"] == "LOST"


def test_a_capture_that_is_spoilt_is_found():
    """Law 4: a wait for the whole context ends every capture."""
    pair = trial(
        """
from gpulend import _native
library = ctypes.CDLL(_native.describe_driver()[1])
def receive(array, **stream):
    library.cuCtxSynchronize()
    return array
say(trials.run(honest, consumer(receive)))
"""
    )
    assert pair["capture"] == "LOST"


@pytest.mark.parametrize(
    ("error", "status"),
    [("gpulend.ExportError('no', 301)", "refused"), ("OSError('no such\\\\nfile')", "failed")],
)
def test_a_named_refusal_is_told_from_a_failure(error, status):
    """By the error's class; its first line is shown."""
    pair = trial(
        f"""
def receive(array, **stream):
    raise {error}
say(trials.run(honest, consumer(receive)))
"""
    )
    assert pair["status"] == status
    assert pair["problem"].startswith(("ExportError: no", "OSError: no such"))
    assert "\n" not in pair["problem"]


def test_memory_of_the_host_is_tried_where_that_of_a_gpu_is_refused():
    """And the refusal is kept as a note."""
    pair = trial(
        """
def receive(array, **stream):
    if array.device.kind != "cpu":
        raise gpulend.ExportError("memory of the host only", 303)
    return array
say(trials.run(honest, consumer(receive)))
"""
    )
    assert (pair["status"], pair["memory"], pair["order"]) == ("zero copy", "host", "host memory")
    assert pair["note"] == "gpu memory: ExportError: memory of the host only"


def test_a_framework_without_arrays_says_why():
    """A framework for GPUs where there is none is no failure of the hand-over."""
    pair = trial(
        """
def make(shape, dtype):
    raise RuntimeError("no GPU for me")
say(trials.run(producer(gpu=make), honest))
"""
    )
    assert pair["status"] == "no array"
    assert pair["problem"] == "cheat makes no array: RuntimeError: no GPU for me"
