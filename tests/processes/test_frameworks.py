"""Every framework writes what any other reads, in another process."""

from __future__ import annotations

from pathlib import Path

import gpulend
import numpy as np
import pytest

from .conftest import REAL, held, need
from .worker import Worker, eventually

WRITERS = {
    "numpy": "array[...] = 3",
    "torch": "array.fill_(3)",
    "pyopencl": "array.fill(3); array.finish()",
}
READERS = {
    "numpy": "int(array.sum())",
    "torch": "int(array.sum())",
    "jax": "int(array.sum())",
    "tensorflow": "int(__import__('tensorflow').reduce_sum(array))",
    # It has no arithmetic of its own: what its view points to is read.
    "cuda.core": "int(gpulend.wrap(array.ptr, (4, 5), 'int32', unowned=True).to_host().sum())",
    "pyopencl": "int(array.get().sum())",
}


@pytest.fixture(scope="module")
def reader():
    """Give one process for all, which imports each framework once."""
    with Worker() as made:
        yield made


def skip_without(name: str, device: str) -> None:
    """Skip what is not here, and NumPy for memory that the host cannot read."""
    need(name)
    if name == "pyopencl" and device != "cpu":
        pytest.skip("OpenCL and CUDA share no memory")
    if REAL and name == "numpy" and device != "cpu":
        pytest.skip("NumPy does not read a real GPU's memory")


@pytest.mark.parametrize("into", READERS)
@pytest.mark.parametrize("out", WRITERS)
def test_what_one_framework_wrote_another_reads(reader: Worker, device: str, out: str, into: str):
    """There is no copy on the way: the reader's array has the lender's bytes."""
    skip_without(out, device)
    skip_without(into, device)
    lease = gpulend.zeros((4, 5), "int32", device, shared=True)
    exec(WRITERS[out], {"array": lease.lend(out)})
    ticket = lease.ticket(claims=1)
    reader.run(f"array = gpulend.claim(ticket).lend({into!r})", ticket=ticket)
    assert reader.get(READERS[into]) == 60
    if into in WRITERS:
        reader.run(WRITERS[into].replace("3", "4") + "; gpulend.synchronize()")
        assert (lease.to_host() == 4).all()
    reader.run("del array; import gc; gc.collect()")
    eventually(lambda: len(held()) == 1, "the claim ended with the array")


@pytest.mark.skipif(not REAL, reason="tensors of torch's own on a GPU")
def test_a_tensor_of_torchs_own_memory_arrives(reader: Worker):
    """Its allocations have handles."""
    torch = need("torch")
    tensor = torch.arange(1000, device="cuda", dtype=torch.int32)
    ticket = gpulend.borrow(tensor).ticket(claims=1)
    total = reader.get("int(gpulend.claim(ticket).lend('torch').sum())", ticket=ticket)
    assert total == 499500


CUDA_CORE = """
    from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions
    device = Device(0)
    device.set_current()
    options = DeviceMemoryResourceOptions(max_size=1 << 22, ipc_enabled=True)
    pool = DeviceMemoryResource(device, options=options)
    stream = device.create_stream()
    buffer = pool.allocate(4000, stream=stream)
    lease = gpulend.borrow(buffer, ready_on=stream).view("int32")
    lease.copy_from(np.arange(1000, dtype="int32"))
    result = lease.ticket(claims=1)
"""


def test_a_buffer_of_cuda_cores_pool_arrives(reader: Worker):
    """A pool with `ipc_enabled` has a descriptor, by which it is opened."""
    need("cuda.core")
    driver = Path(gpulend.__file__).parent / "_simulator/driver"
    # It looks for the driver where the loader does.
    found = {} if REAL else {"LD_LIBRARY_PATH": str(driver)}
    with Worker(**found) as lender:
        ticket = lender.run(CUDA_CORE)
        assert reader.get("int(gpulend.claim(t).to_host().sum())", t=ticket) == 499500
        lender.run("del lease, buffer")


def test_memory_of_gpulends_own_arrives_without_asking(reader: Worker):
    """On a GPU every array of gpulend's can be opened elsewhere, with its pool and without."""
    lease = gpulend.from_host(np.arange(10, dtype="int32"))
    found = reader.get("gpulend.claim(ticket).to_host().tolist()", ticket=lease.ticket(claims=1))
    assert found == list(range(10))
    eventually(lambda: len(held()) == 1, "the claim ended")


@pytest.mark.parametrize("pool", ["on", "off"])
def test_the_pool_makes_no_difference(pool: str):
    """Blocks of segments by a handle, memory of the driver's pool by its descriptor."""
    with Worker(GPULEND_POOL=pool) as lender, Worker() as borrower:
        ticket = lender.run(
            """
            lease = gpulend.full((3, 1000), 7, "int32")
            other = gpulend.full(1000, 8, "int32")
            result = [lease[1].ticket(), other.ticket(), lease.ticket()]
            """
        )
        borrower.run("a, b, c = gpulend.claims(tickets)", tickets=ticket)
        assert borrower.get("[int(x.to_host().max()) for x in (a, b, c)]") == [7, 8, 7]
        borrower.run("del a; c[0] = 9; gpulend.synchronize(); del c")
        assert lender.get("int(lease.to_host()[0, 0])") == 9
        borrower.run("del b")
        left = "[entry.who for entry in gpulend.ledger() if entry.who.startswith('process')]"
        eventually(lambda: lender.get(left) == [], "the claims ended")
