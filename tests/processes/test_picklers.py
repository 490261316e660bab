"""Every pickler carries a lease: nothing of gpulend's is registered with any of them."""

from __future__ import annotations

import io
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import gpulend
import pytest

from . import children
from .conftest import held, need
from .test_tickets import NUMBERS, _withdraw_all, shared
from .worker import Worker

TOTAL = int(NUMBERS.sum())


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_queues_of_multiprocessing_carry_leases(method: str, device: str):
    """A feeder thread pickles what is put into a queue."""
    context = multiprocessing.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    lease = shared(NUMBERS, device)
    process = context.Process(target=children.serve, args=(inbox, outbox))
    process.start()
    for part in (lease, lease[1], lease[0]):
        inbox.put(part)
    sums = [outbox.get(timeout=20) for _ in range(3)]
    inbox.put(None)
    process.join(20)
    assert process.exitcode == 0
    assert sums == [TOTAL, int(NUMBERS[1].sum()), int(NUMBERS[0].sum())]
    inbox.close()
    outbox.close()
    del part
    _withdraw_all(lease)


def test_executors_carry_leases_there_and_back(device: str):
    """What comes back is the memory that went."""
    lease = shared(NUMBERS, device)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(children.total, lease).result(20) == TOTAL
        back = pool.submit(children.increase, lease, 1).result(20)
        assert back.address == lease.address
        assert int(lease.to_host().sum()) == TOTAL + NUMBERS.size
        del back
    _withdraw_all(lease)


def test_torch_carries_leases(device: str):
    """Its queues pickle tensors their way, and leases ours."""
    torch = need("torch")
    context = torch.multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        lease = shared(NUMBERS, device)
        assert pool.apply(children.total, (lease,)) == TOTAL
        _withdraw_all(lease)
        pool.close()
        pool.join()


def test_cloudpickle_carries_leases(worker: Worker, device: str):
    """Ray and Dask pickle by it."""
    cloudpickle = need("cloudpickle")
    lease = shared(NUMBERS, device)
    data = cloudpickle.dumps({"lease": lease, "sum": lambda lease: int(lease.to_host().sum())})
    source = (
        "import cloudpickle; found = cloudpickle.loads(data); result = found['sum'](found['lease'])"
    )
    assert worker.run(source, data=data) == TOTAL
    worker.run("del found")
    _withdraw_all(lease)


def test_a_ticket_is_bytes_that_any_code_can_carry(worker: Worker, device: str):
    """Subclass, bytes, a view of them: all are claimed, and a pickle keeps the class."""
    lease = shared(NUMBERS, device)
    ticket = lease.ticket()
    assert isinstance(ticket, bytes)
    assert "secret" not in repr(ticket)
    assert ticket[48:64].hex() not in repr(ticket)
    again = pickle.loads(pickle.dumps(ticket))
    assert type(again) is gpulend.Ticket
    assert again == ticket
    for data in (ticket, bytes(ticket), bytearray(ticket), memoryview(ticket), again):
        assert gpulend.claim(data).address == lease.address
    assert worker.get("gpulend.claim(data).shape", data=bytearray(ticket)) == (2, 3, 4)
    ticket.withdraw()


def test_unpickling_imports_gpulend_alone(device: str):
    """A pickle names one function, and bytes."""
    lease = shared(NUMBERS, device)
    names = []

    class Watched(pickle.Unpickler):
        def find_class(self, module: str, name: str):
            names.append((module, name))
            return super().find_class(module, name)

    found = Watched(io.BytesIO(pickle.dumps(lease, 4))).load()
    assert names == [("gpulend._native", "claim")]
    assert found.address == lease.address
    del found
    _withdraw_all(lease)
    assert held() == ["lease gpulend"]
