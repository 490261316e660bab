"""Leases and arrays between real actors of Ray: by tickets, by bytes, and when one is killed."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpulend
import pytest

from .conftest import held, need
from .test_tickets import _withdraw_all
from .worker import eventually

ray = need("ray")

import gpulend.ray  # noqa: E402  ray may be missing
from ray.exceptions import ActorUnavailableError  # noqa: E402

# Seconds for what goes through Ray, whose own calls take seconds on busy cores: test_kills.py has
# the bounds of our own.
PATIENCE = 60
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Give Ray on this machine alone, and end all its processes afterwards."""
    gpulend.ray.carry("torch")
    with (
        tempfile.TemporaryDirectory(prefix="gpr-", dir="/tmp") as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=80 << 20,
            log_to_driver=False,
            logging_level="error",
            _temp_dir=folder,
        )
        from . import actors

        hidden = Path(folder) / "hidden"
        hidden.mkdir(mode=0o700)
        # All at once: each takes a second of a processor to start.
        yield {
            "source": actors.Actor.remote(),
            "sink": actors.Actor.options(max_restarts=0).remote(),
            "hidden": actors.Actor.options(max_restarts=0).remote(str(hidden)),
        }
        ray.shutdown()


@pytest.fixture
def source(cluster: Any) -> Any:
    """Give the actor that sends."""
    return cluster["source"]


@pytest.fixture
def sink(cluster: Any) -> Any:
    """Give the actor that receives."""
    return cluster["sink"]


def get(reference: Any) -> Any:
    """Wait for a result."""
    return ray.get(reference, timeout=PATIENCE)


def test_a_lease_goes_to_another_actor_in_the_same_memory(source: Any, sink: Any, device: str):
    """What the receiver writes, the sender and the driver see; no byte is copied."""
    before = get(sink.carried.remote())
    reference = source.make.remote(device)
    kind, numbers, carried = get(sink.look.remote(reference))
    assert (kind, numbers) == ("gpulend", [[3, 3, 3]] * 2)
    assert carried["ticket"] - before.get("ticket", 0) == 2
    assert set(carried) == set(before) | {"ticket"}
    found = get(reference)
    get(sink.add.remote(reference, 4))
    assert get(source.numbers.remote()) == [[7, 7, 7]] * 2
    assert found["parts"][0].to_host().tolist() == [7, 7, 7]
    ways = {one.way: one.leases for one in gpulend.ledger().carried if one.carrier == "Ray"}
    assert ways["ticket"] >= 2
    assert "carried by Ray, ticket: " in str(gpulend.ledger())
    # Offers last as long as Ray's reference, and claims as long as their leases.
    del found, reference
    gc.collect()
    get(source.drop.remote())
    eventually(lambda: get(source.held.remote()) == [], "nothing stays at the source", PATIENCE)
    assert get(sink.held.remote()) == []


def test_the_driver_puts_leases_and_plain_results_are_tickets(source: Any, sink: Any, device: str):
    """`ray.put` with the transport lasts as long as the reference; without, it is a pickle."""
    lease = gpulend.full(3, 5, "int32", device, shared=True)
    reference = ray.put(lease, _tensor_transport="gpulend")
    assert get(sink.look.remote(reference))[1] == [5, 5, 5]
    del reference
    eventually(lambda: held() == ["lease gpulend"], "the offer ended with the reference", PATIENCE)
    plain = ray.put(lease)
    assert get(sink.look.remote(plain))[1] == [5, 5, 5]
    # A pickle's ticket lasts a minute, if its lender does not end it.
    _withdraw_all(lease)
    result = get(source.plain.remote(device))
    assert result.to_host().tolist() == [6, 6, 6, 6]
    del result
    get(source.drop.remote())


def test_memory_that_cannot_be_opened_is_copied_once_and_counted(source: Any, sink: Any):
    """By the sender, into memory that can be."""
    before = get(sink.carried.remote()).get("copy", 0)
    assert get(sink.look.remote(source.borrowed.remote()))[1] == [0, 1, 2, 3, 4, 5]
    assert get(sink.carried.remote())["copy"] == before + 1


def test_tensors_of_torch_arrive_as_such(source: Any, sink: Any):
    """By a transport of their own, which the user asks for."""
    need("torch")
    kind, numbers, _ = get(sink.look.remote(source.tensor.remote()))
    assert (kind, numbers) == ("torch", [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(gpulend.ProtocolError, match="numpy"):
        gpulend.ray.carry("numpy")


def test_where_no_ticket_reaches_ray_carries_the_bytes(source: Any, cluster: Any, device: str):
    """As from another machine, or another container: a copy, on the same device, counted."""
    hidden = cluster["hidden"]
    before = get(hidden.carried.remote()).get("bytes", 0)
    kind, numbers, carried = get(hidden.look.remote(source.make.remote(device)))
    assert (kind, numbers) == ("gpulend", [[3, 3, 3]] * 2)
    assert carried == {"bytes": before + 2}
    get(hidden.add.remote(source.make.remote(device), 4))
    assert get(source.numbers.remote()) == [[3, 3, 3]] * 2
    get(source.drop.remote())


def test_a_ticket_of_another_machine_becomes_bytes(source: Any):
    """The machine is part of a ticket."""
    transport = gpulend.ray.LeaseTransport()
    reference = source.make.remote("cuda:0")
    get(reference)
    metadata = ray.worker.global_worker.rdt_manager.get_rdt_metadata(reference.hex())
    metadata = metadata.tensor_transport_meta
    metadata.tickets = [_of_another_machine(ticket) for ticket in metadata.tickets]
    whole, part = transport.recv_multiple_tensors(reference.hex(), metadata, None)
    assert whole.to_host().tolist() == [[3, 3, 3]] * 2
    assert part.device == "cuda:0"
    metadata.source = None
    with pytest.raises(gpulend.WrongMachineError):
        transport.recv_multiple_tensors(reference.hex(), metadata, None)
    get(source.drop.remote())


def test_two_actors_with_two_frameworks_share_an_array(cluster: Any):
    """The example: what JAX's actor writes, torch's sees. It uses the cluster that is here."""
    for name in ("torch", "jax"):
        need(name)
    file = EXAMPLES / "ray_actors.py"
    assert f"[{file.name}]({file.name})" in (EXAMPLES / "README.md").read_text()
    variables = {**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    command = [sys.executable, str(file)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables)
    assert said.returncode == 0, said.stderr
    first, last = said.stdout.splitlines()[-2:]
    assert "weighs 48.0; it came by {'ticket': 1}; its first element is -1.0" in first
    assert re.fullmatch(r"ok ray_actors ray \d+\..*", last)


def test_a_killed_sender_is_named_and_starts_again(source: Any, sink: Any):
    """Who has the memory keeps it; who has not is refused; no actor is killed."""
    reference = source.make.remote("cuda:0", 8)
    get(sink.keep.remote(reference))
    # What its GPU had still to write would die with it.
    assert get(sink.numbers.remote()) == [[8, 8, 8]] * 2
    os.kill(get(source.pid.remote()), signal.SIGKILL)
    # Before anything else reaches its new process: it registers the transports by itself.
    eventually(lambda: _answers(source), "the actor was started again", PATIENCE)
    again = source.make.remote("cuda:0")
    assert get(sink.look.remote(again))[1] == [[3, 3, 3]] * 2
    assert get(sink.look.remote(source.tensor.remote()))[0] == "torch"
    # Who has the memory open may open it again until it has seen the death.
    eventually(lambda: _is_gone(sink.look.remote(reference)), "the sender is named", PATIENCE)
    with pytest.raises(gpulend.LenderGoneError, match="has gone"):
        get(reference)
    assert get(sink.numbers.remote()) == [[8, 8, 8]] * 2
    get(sink.drop.remote())


def test_a_killed_receiver_gives_back_what_it_held(source: Any, sink: Any):
    """Its claims end with its process."""
    reference = source.make.remote("cuda:0")
    get(sink.keep.remote(reference))
    pid = get(sink.pid.remote())
    assert f"export process {pid}" in get(source.held.remote())
    os.kill(pid, signal.SIGKILL)
    eventually(
        lambda: f"export process {pid}" not in get(source.held.remote()),
        "its claim ended",
        PATIENCE,
    )
    assert get(source.numbers.remote()) == [[3, 3, 3]] * 2
    get(source.drop.remote())


def _is_gone(answer: Any) -> bool:
    """Whether a call ended because its lender has gone."""
    try:
        get(answer)
    except gpulend.LenderGoneError as error:
        return "has gone" in str(error)
    return False


def _answers(actor: Any) -> bool:
    try:
        return bool(get(actor.pid.remote()))
    except ActorUnavailableError:
        return False


def _of_another_machine(ticket: bytes) -> bytes:
    """Change the boot id that a ticket names."""
    return ticket[:8] + bytes(16) + ticket[24:]
