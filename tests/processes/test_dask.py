"""Leases and arrays between real workers of Dask: by tickets, by bytes, to disk, after kills."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpulend
import numpy as np
import pytest

from . import tasks
from .conftest import held, need
from .test_kills import SOON
from .worker import Worker, eventually

distributed = need("distributed")

import dask  # noqa: E402  distributed may be missing
import gpulend.dask  # noqa: E402
from dask.sizeof import sizeof  # noqa: E402
from distributed.protocol import deserialize, serialize  # noqa: E402
from distributed.spill import SpillBuffer  # noqa: E402

# Seconds for what goes through Dask, whose own calls take seconds on busy cores.
PATIENCE = 60
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Give a cluster: two workers of this host, and one whose address is another host's."""
    hosts = {"one": HERE, "two": HERE, "three": ELSEWHERE}
    workers = {
        name: {"cls": distributed.Nanny, "options": {"nthreads": 1, "host": host}}
        for name, host in hosts.items()
    }
    options = {"host": HERE, "dashboard": False}
    scheduler = {"cls": distributed.Scheduler, "options": options}
    with (
        dask.config.set({"distributed.admin.log-format": "%(message)s"}),
        distributed.SpecCluster(workers, scheduler, silence_logs="critical") as cluster,
        distributed.Client(cluster) as made,
    ):
        made.wait_for_workers(3, PATIENCE)
        yield made


def submit(client: Any, worker: str, function: Any, *arguments: Any) -> Any:
    """Have one worker do something."""
    return client.submit(function, *arguments, workers=[worker], pure=False)


def done(client: Any, worker: str, function: Any, *arguments: Any) -> Any:
    """Have one worker do something, and wait for it."""
    return submit(client, worker, function, *arguments).result(PATIENCE)


def carried(client: Any, worker: str) -> dict[str, int]:
    """Say how leases came to a worker."""
    return done(client, worker, tasks.carried)


def test_a_lease_goes_to_another_worker_in_the_same_memory(client: Any, device: str):
    """What the receiver writes, the sender and the client see; no byte is copied."""
    before = carried(client, "two").get("ticket", 0)
    made = submit(client, "one", tasks.make, device)
    assert done(client, "two", tasks.look, made) == ("gpulend", [[3, 3, 3]] * 2)
    assert carried(client, "two")["ticket"] == before + 1
    done(client, "two", tasks.add, made, 4)
    assert done(client, "one", tasks.look, made)[1] == [[7, 7, 7]] * 2
    mine = made.result(PATIENCE)
    assert mine.to_host().tolist() == [[7, 7, 7]] * 2
    del mine, made
    for worker in ("one", "two"):
        eventually(lambda w=worker: done(client, w, tasks.held) == [], "nothing stays", PATIENCE)


def test_scattered_leases_are_tickets(client: Any, device: str):
    """On one host, by way of the scheduler too; keys cost no ticket."""
    lease = gpulend.full((2, 3), 5, "int32", device, shared=True)
    assert dask.base.tokenize(lease) != dask.base.tokenize(lease)
    assert held() == ["lease gpulend"]
    for direct in (False, True):
        future = client.scatter(lease, direct=direct, workers=["one"])
        done(client, "one", tasks.add, future, 1)
        del future
    assert lease.to_host().tolist() == [[7, 7, 7]] * 2
    eventually(lambda: held() == ["lease gpulend"], "claimed once each, then dropped", PATIENCE)


def test_another_host_gets_bytes(client: Any, device: str):
    """It is a copy, on the same device, and counted."""
    before = carried(client, "one")
    made = submit(client, "three", tasks.make, device)
    done(client, "one", tasks.add, made, 4)
    assert done(client, "three", tasks.look, made)[1] == [[3, 3, 3]] * 2
    after = carried(client, "one")
    assert after["bytes"] == before.get("bytes", 0) + 1
    assert after.get("ticket") == before.get("ticket")
    # Dask takes any of the two for the same data: write what you share, not what it copies.
    found = submit(client, "three", tasks.make, device).result(PATIENCE)
    assert (found.device, found.to_host().tolist()) == (device, [[3, 3, 3]] * 2)


@pytest.mark.parametrize(
    ("sender", "recipient", "scheduler", "ticket"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", True),
        ("[::1]", "[::1]", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", "10.0.0.3", False),
        ("10.0.0.1", "10.0.0.1", "10.0.0.3", True),
        # The scheduler may be who asks, for a client of another host.
        ("10.0.0.1", "10.0.0.1", "10.0.0.1", False),
    ],
)
def test_the_way_is_chosen_by_the_addresses(
    monkeypatch: pytest.MonkeyPatch, sender: str, recipient: str, scheduler: str, ticket: bool
):
    """Also where the scheduler's host could hide the reader's."""
    monkeypatch.setattr(gpulend.dask, "_scheduler_hosts", lambda: iter([scheduler]))
    lease = tasks.make("cpu")
    ends = {"sender": sender, "recipient": recipient}
    context = {end: {"address": f"tcp://{host}:1"} for end, host in ends.items()}
    header, frames = serialize(lease, context=context)
    assert header["sub-header"]["gpulend"] == ("ticket" if ticket else "bytes")
    assert np.array_equal(deserialize(header, frames).to_host(), lease.to_host())
    other = {"ticket": "bytes", "bytes": "ticket"}[header["sub-header"]["gpulend"]]
    with dask.config.set({"gpulend.way": other}):
        header, frames = serialize(lease, context=context)
        assert header["sub-header"]["gpulend"] == other
        deserialize(header, frames)
    with dask.config.set({"gpulend.way": "by mule"}), pytest.raises(TypeError) as caught:
        serialize(lease, context=context, on_error="raise")
    assert isinstance(caught.value.__cause__, gpulend.ProtocolError)


def test_leases_are_spilled_by_value_and_come_back(tmp_path: Path, device: str):
    """The memory is free meanwhile, whatever happens to its lender."""
    leases = [gpulend.full(1000, value, "int32", device) for value in range(3)]
    assert sizeof(leases[0]) == 4000
    buffer = SpillBuffer(str(tmp_path), target=5000)
    for number, lease in enumerate(leases):
        buffer[number] = lease
    del leases, lease
    eventually(lambda: held() == ["lease gpulend"], "two were spilled, and freed", PATIENCE)
    before = tasks.carried().get("disk", 0)
    found = buffer[0]
    assert (found.device, found.to_host().tolist()) == (device, [0] * 1000)
    assert tasks.carried()["disk"] == before + 1
    buffer.clear()


def test_tensors_of_torch_go_as_leases_where_that_is_asked_for(client: Any):
    """Not before: they are Dask's own to serialize. No worker imports torch for it."""
    torch = need("torch")
    before = tasks.carried()
    made = submit(client, "one", tasks.tensor)
    assert made.result(PATIENCE).tolist() == [0, 1, 2, 3, 4, 5]
    assert tasks.carried() == before
    gpulend.dask.carry("torch", client)
    found = submit(client, "one", tasks.tensor).result(PATIENCE)
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [0, 1, 2, 3, 4, 5]
    # The memory of a tensor on the host cannot be opened, so Dask carries its bytes.
    assert tasks.carried()["bytes"] == before.get("bytes", 0) + 1
    assert done(client, "two", tasks.has, "torch") is False
    assert done(client, "two", tasks.look, submit(client, "one", tasks.tensor))[0] == "torch"
    with pytest.raises(gpulend.ProtocolError, match="numpy"):
        gpulend.dask.carry("numpy")


def test_a_tensor_with_a_gradient_stays_dasks_own():
    """It means more than its bytes."""
    torch = need("torch")
    gpulend.dask.carry("torch")
    tensor = torch.ones(3, requires_grad=True)
    header, frames = serialize(tensor)
    assert "gpulend" not in header["sub-header"]
    assert deserialize(header, frames).requires_grad


def test_a_process_that_meets_a_lease_imports_what_it_needs(worker: Worker):
    """It has Dask alone, and the message names a class of gpulend's."""
    assert worker.get("'gpulend.dask' in __import__('sys').modules") is False
    message = serialize(tasks.make("cpu"))
    program = (
        "import pickle, sys; from distributed.protocol import deserialize; "
        "assert 'gpulend' not in sys.modules; "
        "print(deserialize(*pickle.load(sys.stdin.buffer)).to_host().sum())"
    )
    data = pickle.dumps((message[0], [bytes(frame) for frame in message[1]]))
    said = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True)
    assert said.stdout.split() == [b"18"], said.stderr


def test_a_killed_receiver_gives_back_what_it_held(client: Any):
    """Its claims end with its process, and Dask starts another."""
    made = submit(client, "one", tasks.make, "cuda:0")
    kept = submit(client, "two", tasks.look, made)
    assert kept.result(PATIENCE)[1] == [[3, 3, 3]] * 2
    pid = done(client, "two", os.getpid)
    assert f"export process {pid}" in done(client, "one", tasks.held)
    os.kill(pid, signal.SIGKILL)
    gone = f"export process {pid}"
    eventually(lambda: gone not in done(client, "one", tasks.held), "its claim ended", PATIENCE)
    assert done(client, "one", tasks.look, made)[1] == [[3, 3, 3]] * 2


def test_a_killed_sender_is_named_and_dask_makes_its_data_again(client: Any):
    """Who has the memory keeps it; what it had said cannot be claimed any more."""
    options = {"workers": ["one"], "allow_other_workers": True, "pure": False}
    made = client.submit(tasks.make, "cuda:0", **options)
    mine = made.result(PATIENCE)
    assert mine.to_host().tolist() == [[3, 3, 3]] * 2
    header, frames, pid = done(client, "one", tasks.message, made)
    os.kill(pid, signal.SIGKILL)
    before = time.monotonic()
    with pytest.raises(gpulend.LenderGoneError):
        deserialize(header, frames)
    assert time.monotonic() - before < SOON
    assert mine.to_host().tolist() == [[3, 3, 3]] * 2
    assert made.result(PATIENCE).to_host().tolist() == [[3, 3, 3]] * 2
