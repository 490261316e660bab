"""Ways to another process, tried in this one: each really hands memory over, and looks."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from logging import CRITICAL
from typing import Any

import gpulend
from gpulend import _carriers
from gpulend.doctor import subjects
from gpulend.doctor.report import first_line
from gpulend.doctor.trial import NoArray

ROUNDS = 7
VALUE = 7  # what the other process writes
PATIENCE = 30.0

Found = dict[str, Any]


def memory(name: str) -> Found:
    """Open memory of a framework in another process: of a GPU first, else of the host."""
    lease, where = _array(name)
    copy = False
    problem = None
    try:
        ticket = lease.ticket()
    except gpulend.NotShareableError as error:
        # The way out that the error names.
        ticket, copy = lease.ticket(copy=True), True
        problem = first_line(error).partition(";")[0]
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_claim, args=(there,), daemon=True)
    process.start()
    there.close()
    here.send((bytes(ticket), not copy and not lease.readonly))
    read, nanoseconds = here.recv()
    process.join(PATIENCE)
    ticket.withdraw()
    _check(read == _before(lease) if copy or lease.readonly else _is_written(lease), "the bytes")
    status = "copied" if copy else "same memory"
    return {"status": status, "memory": where, "nanoseconds": nanoseconds, "problem": problem}


def _array(name: str) -> tuple[gpulend.Lease, str]:
    if name == "host":
        return gpulend.zeros(subjects.SHAPE, subjects.TYPE, "cpu", shared=True), "host"
    subject = subjects.subject(name)
    problem = f"{name} makes no arrays here"
    for where, make in (("gpu", subject.probe.gpu), ("host", subject.probe.host)):
        if make is None or (where == "gpu" and not gpulend.is_available()):
            continue
        try:
            array = make(subjects.SHAPE, subjects.TYPE)
        except Exception as error:
            problem = first_line(error)
            continue
        if array is not None:
            return gpulend.borrow(array), where
    raise NoArray(problem)


def _claim(connection: Any) -> None:
    """Claim a ticket several times, and write what it stands for."""
    ticket, write = connection.recv()
    times = []
    lease = gpulend.claim(ticket)
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        again = gpulend.claim(ticket)
        times.append(time.perf_counter_ns() - begin)
        del again
    read = _before(lease)
    if write:
        _write(lease)
    del lease
    connection.send((read, statistics.median(times)))
    connection.close()


def _before(lease: gpulend.Lease) -> bytes:
    return _carriers.to_bytes(lease)[1].tobytes()


def _write(lease: gpulend.Lease) -> int:
    """Write memory in another process, and wait for it."""
    lease.fill(VALUE)
    if lease.device.kind == "cuda":
        gpulend.synchronize(lease.device)
    return os.getpid()


def _is_written(lease: gpulend.Lease) -> bool:
    expected = gpulend.full(lease.shape, VALUE, lease.dtype, "cpu")
    return _before(lease) == _before(expected)


def _check(is_right: bool, what: str) -> None:
    if not is_right:
        raise AssertionError(f"{what} that the other process has are not those of the array")


def _mine() -> tuple[gpulend.Lease, str]:
    """Make an array of our own: on a GPU, or else on the host."""
    gpu = gpulend.is_available()
    device = "cuda:0" if gpu else "cpu"
    lease = gpulend.zeros(subjects.SHAPE, subjects.TYPE, device, shared=True)
    return lease, "gpu" if gpu else "host"


def _same(lease: gpulend.Lease, where: str) -> Found:
    _check(_is_written(lease), "the bytes")
    return {"status": "same memory", "memory": where}


def pool(method: str) -> Found:
    """Send a lease to a process of multiprocessing's."""
    lease, where = _mine()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as executor:
        assert executor.submit(_write, lease).result(PATIENCE) != os.getpid()
    return _same(lease, where)


def torch(_: str) -> Found:
    """Send a lease through a queue of torch's."""
    import torch.multiprocessing

    lease, where = _mine()
    context = torch.multiprocessing.get_context("spawn")
    with context.Pool(1) as made:
        made.apply_async(_write, (lease,)).get(PATIENCE)
    return _same(lease, where)


def ray(_: str) -> Found:
    """Send a lease to an actor by the tensor transport."""
    # Ray of this machine alone; it reads these when it is imported.
    os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    import ray

    import gpulend.ray

    # Ray's sockets lie deep below it, and their paths have at most 107 bytes: not in TMPDIR.
    with tempfile.TemporaryDirectory(prefix="gpulend-", dir="/tmp") as folder:
        ray.init(
            "local",
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=80 << 20,
            log_to_driver=False,
            logging_level="error",
            _temp_dir=folder,
        )
        try:
            lease, where = _mine()
            actor = ray.remote(_Actor).options(num_cpus=0, enable_tensor_transport=True).remote()
            reference = ray.put(lease, _tensor_transport=gpulend.ray.LeaseTransport.NAME)
            (way,) = ray.get(actor.write.remote(reference))
            return _by(way, lease, where)
        finally:
            ray.shutdown()


class _Actor:
    def write(self, lease: gpulend.Lease) -> list[str]:
        _write(lease)
        return _ways()


def dask(_: str) -> Found:
    """Send a lease to a worker by our serializer."""
    import distributed

    import gpulend.dask  # noqa: F401  registers itself

    lease, where = _mine()
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(host="127.0.0.1", silence_logs=CRITICAL, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        future = client.scatter(lease)
        client.submit(_write, future).result(PATIENCE)
        (way,) = client.submit(_ways, pure=False).result(PATIENCE)
        del future
    return _by(way, lease, where)


def _ways() -> list[str]:
    return [one.way for one in gpulend.ledger().carried]


def _by(way: str, lease: gpulend.Lease, where: str) -> Found:
    """Say what a carrier did."""
    if way == "ticket":
        return _same(lease, where)
    return {"status": "copied", "memory": where, "problem": f"carried by {way}"}


def nixl(_: str) -> Found:
    """Have another process read a lease."""
    import gpulend.nixl

    lease, where = _mine()
    lease.fill(VALUE)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_read, args=(there,), daemon=True)
    with gpulend.nixl.Agent() as agent:
        here.send(agent.offer(lease))
        process.start()
        there.close()
        read, nanoseconds = here.recv()
        process.join(PATIENCE)
    _check(read == _before(lease), "the bytes")
    return {"status": "copied", "memory": where, "nanoseconds": nanoseconds}


def _read(connection: Any) -> None:
    import gpulend.nixl

    card = connection.recv()
    times = []
    with gpulend.nixl.Agent() as agent:
        lease = agent.read(card)
        for _ in range(ROUNDS):
            begin = time.perf_counter_ns()
            agent.read(card, into=lease)
            times.append(time.perf_counter_ns() - begin)
    connection.send((_before(lease), statistics.median(times)))
    connection.close()


WAYS: dict[str, Callable[[str], Found]] = {
    "memory": memory,
    "pool": pool,
    "torch": torch,
    "ray": ray,
    "dask": dask,
    "nixl": nixl,
}
