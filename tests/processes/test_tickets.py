"""A ticket opens the same memory in another process: layout, order, number of claims, end."""

from __future__ import annotations

import pickle
import time

import gpulend
import numpy as np
import pytest

from .conftest import SOCKETS, held
from .worker import RemoteError, Worker, eventually


def shared(values: np.ndarray, device: str) -> gpulend.Lease:
    """Make an array that other processes can open."""
    lease = gpulend.empty(values.shape, values.dtype, device, shared=True)
    lease.copy_from(values)
    return lease


NUMBERS = np.arange(24, dtype="int32").reshape(2, 3, 4)
READ = "result = gpulend.claim(ticket).to_host()"


def test_a_claim_shows_the_same_bytes(worker: Worker, device: str):
    """What one process wrote, the other reads, and the other way round."""
    with shared(NUMBERS, device) as lease:
        ticket = lease.ticket(claims=1)
        worker.run("lease = gpulend.claim(ticket)", ticket=ticket)
        assert worker.get("str(lease.device), lease.shape, str(lease.dtype)") == (
            device,
            (2, 3, 4),
            "int32",
        )
        assert np.array_equal(worker.get("lease.to_host()"), NUMBERS)
        worker.run("lease[1, 2] = 99; result = lease.to_host()")
        assert (lease.to_host()[1, 2] == 99).all()
        lease[0] = -1
        # Work that is queued after the hand-over is the program's own to order.
        gpulend.synchronize()
        assert (worker.get("lease.to_host()")[0] == -1).all()
        worker.run("del lease")
        eventually(lambda: len(held()) == 1, "the claim ended with its lease")


@pytest.mark.parametrize("index", ["1", "0, ::-1, 1:3", "..., 2"])
def test_a_slice_arrives_as_it_is(worker: Worker, device: str, index: str):
    """Shape, strides and offset are those of the slice."""
    part = eval(f"shared(NUMBERS, device)[{index}]")
    worker.run("lease = gpulend.claim(ticket)", ticket=part.ticket(claims=1))
    assert worker.get("lease.strides") == part.strides
    assert np.array_equal(worker.get("lease.to_host()"), eval(f"NUMBERS[{index}]"))
    worker.run("lease.release()")


@pytest.mark.parametrize("dtype", ["bool", "bfloat16", "float8_e4m3fn", "complex64", "int4"])
def test_every_element_type_arrives(worker: Worker, device: str, dtype: str):
    """The element type is the lender's, down to packed bits."""
    with gpulend.empty((4, 8), dtype, device, shared=True) as lease:
        ticket = lease.ticket(claims=1)
        found = worker.get("str(gpulend.claim(ticket).dtype)", ticket=ticket)
        assert found == str(lease.dtype)
        eventually(lambda: len(held()) == 1, "the claim ended")


def test_an_empty_array_arrives(worker: Worker, device: str):
    """There is nothing to open, and nothing is."""
    with gpulend.empty((0, 3), "int32", device, shared=True) as lease:
        ticket = lease.ticket(claims=1)
        assert worker.get("gpulend.claim(ticket).shape", ticket=ticket) == (0, 3)
        eventually(lambda: len(held()) == 1, "the claim ended")


def test_a_claim_outlives_the_lease(worker: Worker, device: str):
    """The borrower has the memory as long as it wants."""
    lease = shared(NUMBERS, device)
    worker.run("lease = gpulend.claim(ticket)", ticket=lease.ticket(claims=1))
    del lease
    assert held() == [held()[0], f"export process {worker.pid}"]
    again = shared(NUMBERS * 2, device)
    assert np.array_equal(worker.get("lease.to_host()"), NUMBERS)
    worker.run("lease.release()")
    del again


def test_a_release_is_refused_while_others_hold_it(worker: Worker, device: str):
    """The error names the process."""
    lease = shared(NUMBERS, device)
    worker.run("lease = gpulend.claim(ticket)", ticket=lease.ticket(claims=1))
    with pytest.raises(gpulend.StillLentError, match=f"process {worker.pid}"):
        lease.release()
    worker.run("lease.release()")
    eventually(lambda: len(held()) == 1, "the claim ended")
    lease.release()


@pytest.mark.parametrize("claims", [1, 3])
def test_a_ticket_is_claimed_as_often_as_it_says(worker: Worker, device: str, claims: int):
    """The next claim is refused by name."""
    lease = shared(NUMBERS, device)
    ticket = lease.ticket(claims=claims)
    worker.run("held = []")
    for _ in range(claims):
        worker.run("held.append(gpulend.claim(ticket))", ticket=ticket)
    with pytest.raises(RemoteError, match="TicketExpiredError 1104"):
        worker.run(READ, ticket=ticket)
    assert np.array_equal(worker.get("held[-1].to_host()"), NUMBERS)
    worker.run("del held")


def test_an_unlimited_ticket_is_claimed_by_many(worker: Worker, other: Worker, device: str):
    """Several processes, several times."""
    lease = shared(NUMBERS, device)
    ticket = lease.ticket()
    for one in (worker, other, worker):
        assert np.array_equal(one.run(READ, ticket=ticket), NUMBERS)
    assert ticket.withdraw()
    assert not ticket.withdraw()
    with pytest.raises(RemoteError, match="TicketExpiredError 1104"):
        worker.run(READ, ticket=ticket)


def test_an_offer_ends_when_its_time_is_over(worker: Worker, device: str):
    """Nothing holds the memory of a message that nobody read."""
    lease = shared(NUMBERS, device)
    ticket = lease.ticket(keep=0.2)
    del lease
    assert "export a ticket" in held()
    eventually(lambda: not held(), "the offer ended")
    with pytest.raises(RemoteError, match="TicketExpiredError 1104"):
        worker.run(READ, ticket=ticket)


def test_offers_end_in_the_order_of_their_times(device: str):
    """A short offer after a long one is not forgotten."""
    lease = shared(NUMBERS, device)
    long = lease.ticket(keep=30)
    lease.ticket(keep=0.1)
    before = time.monotonic()
    eventually(lambda: held().count("export a ticket") == 1, "the short one ended", 3)
    assert time.monotonic() - before < 2
    assert long.withdraw()


def test_a_pickled_lease_is_claimed_where_it_is_read(worker: Worker, device: str):
    """Every pickler does the same, in every protocol."""
    lease = shared(NUMBERS, device)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps({"x": [lease]}, protocol)
        assert len(data) < 1000
        source = "import pickle; result = pickle.loads(data)['x'][0].to_host()"
        assert np.array_equal(worker.run(source, data=data), NUMBERS)
    _withdraw_all(lease)


def _withdraw_all(lease: gpulend.Lease) -> None:
    """Withdraw the offers before: their numbers count up."""
    last = lease.ticket()
    number = int.from_bytes(last[40:48], "little")
    for back in range(number + 1):
        data = bytearray(last)
        data[40:48] = (number - back).to_bytes(8, "little")
        gpulend._native.withdraw_ticket(bytes(data))


def test_the_same_process_gets_a_slice_of_its_lease(device: str):
    """No memory is opened, and the driver is not asked: the address is the same."""
    lease = shared(NUMBERS, device)
    same = gpulend.claim(lease[1].ticket(claims=1))
    assert same.address == lease[1].address
    assert np.array_equal(same.to_host(), NUMBERS[1])
    same[0, 0] = 5
    assert lease.to_host()[1, 0, 0] == 5


def test_several_claims_share_one_mapping(worker: Worker, device: str):
    """An allocation is opened once for each borrower, and closed with the last lease."""
    lease = shared(NUMBERS, device)
    tickets = gpulend.tickets([lease[0], lease[1], lease], claims=1)
    worker.run("a, b, c = gpulend.claims(tickets)", tickets=tickets)
    addresses = worker.get("[x.address for x in (a, b, c)]")
    assert addresses[0] == addresses[2]
    assert addresses[1] - addresses[0] == 48
    worker.run("del a, c")
    assert np.array_equal(worker.get("b.to_host()"), NUMBERS[1])
    worker.run("del b")
    eventually(lambda: len(held()) == 1, "all claims ended")
    # And it can be opened anew.
    assert np.array_equal(worker.run(READ, ticket=lease.ticket(claims=1)), NUMBERS)


def test_a_batch_of_hundreds_arrives(worker: Worker, device: str):
    """More than fit into one message, in their order."""
    lease = gpulend.empty((300, 4), "int64", device, shared=True)
    lease.copy_from(np.arange(1200).reshape(300, 4))
    tickets = gpulend.tickets(list(lease), claims=1)
    source = "all = gpulend.claims(tickets); result = [int(x[0].item()) for x in all]; del all"
    assert worker.run(source, tickets=tickets) == list(range(0, 1200, 4))


def test_a_batch_with_a_bad_ticket_holds_nothing(worker: Worker, device: str):
    """One refusal is the error of the batch; what was claimed is released."""
    lease = shared(NUMBERS, device)
    good, bad = lease.ticket(), lease.ticket()
    bad.withdraw()
    with pytest.raises(RemoteError, match="1104"):
        worker.run("gpulend.claims(tickets)", tickets=[good, bad, good])
    good.withdraw()
    eventually(lambda: len(held()) == 1, "nothing of the batch is held")


def test_a_read_only_ticket_cannot_be_written(worker: Worker, device: str):
    """Neither by a copy nor after it was sent on."""
    lease = shared(NUMBERS, device)
    worker.run("lease = gpulend.claim(ticket)", ticket=lease.ticket(read_only=True, claims=1))
    assert worker.get("lease.readonly")
    with pytest.raises(RemoteError, match="ExportError 302"):
        worker.run("lease[0] = 1")
    worker.run("again = lease.ticket(claims=1)")
    ticket = worker.get("again")
    assert gpulend.claim(ticket).readonly
    worker.run("lease.release()")


def test_read_only_host_memory_stays_so_under_mprotect(worker: Worker):
    """Its descriptor can only be read; who may write maps the same memory by another."""
    lease = shared(NUMBERS, "cpu")
    worker.run("lease = gpulend.claim(ticket)", ticket=lease.ticket(read_only=True, claims=1))
    worker.run("""
        import ctypes, mmap
        start = lease.address // mmap.PAGESIZE * mmap.PAGESIZE
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        made_writable = libc.mprotect(start, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
    """)
    assert worker.get("made_writable") == -1
    worker.run("both = gpulend.claim(ticket); both.fill(9)", ticket=lease.ticket(claims=1))
    assert np.all(lease.to_host() == 9)
    assert np.all(worker.get("lease.to_host()") == 9)


def test_what_cannot_be_opened_elsewhere_is_refused_with_ways_out():
    """A copy is made only if it is asked for, and counted."""
    lease = gpulend.borrow(np.arange(6))
    with pytest.raises(gpulend.NotShareableError, match=r"copy=True.*shared=True") as caught:
        lease.ticket()
    assert caught.value.code == 1109
    with pytest.raises(gpulend.NotShareableError):
        pickle.dumps(lease)
    before = gpulend._native.ticket_copies()
    ticket = lease.ticket(copy=True, claims=1)
    assert gpulend._native.ticket_copies() == before + 1
    assert gpulend.claim(ticket).to_host().tolist() == list(range(6))


def test_a_copy_is_another_array(worker: Worker, device: str):
    """The borrower writes its own."""
    array = np.arange(6)
    lease = gpulend.borrow(array) if device == "cpu" else gpulend.from_host(array)
    ticket = lease.ticket(copy=True, claims=1)
    worker.run("lease = gpulend.claim(ticket); lease[0] = 9", ticket=ticket)
    assert worker.get("lease.to_host()").tolist() == [9, 1, 2, 3, 4, 5]
    assert lease.to_host().tolist() == list(range(6))
    worker.run("lease.release()")


def test_a_third_process_claims_at_the_lender(worker: Worker, other: Worker, device: str):
    """A received lease can be sent on, whole or in parts, and outlives the one who sent it on."""
    lease = shared(NUMBERS, device)
    worker.run("lease = gpulend.claim(ticket)", ticket=lease.ticket(claims=1))
    worker.run("import pickle; data = pickle.dumps(lease[1]); result = None")
    ticket = worker.get("lease[0].ticket(claims=1)")
    data = worker.get("data")
    worker.end()
    other.run("a = gpulend.claim(ticket)", ticket=ticket)
    assert np.array_equal(other.get("a.to_host()"), NUMBERS[0])
    other.run("import pickle; b = pickle.loads(data)", data=data)
    assert np.array_equal(other.get("b.to_host()"), NUMBERS[1])
    assert held().count(f"export process {other.pid}") == 2
    other.run("del a, b")
    _withdraw_all(lease)


def test_a_lease_comes_back_to_its_lender(worker: Worker, device: str):
    """What was sent there and back is a slice of the lease here."""
    lease = shared(NUMBERS, device)
    worker.run("lease = gpulend.claim(ticket)", ticket=lease.ticket(claims=1))
    back = gpulend.claim(worker.get("lease.ticket(claims=1)"))
    assert back.address == lease.address
    worker.run("lease.release()")


def test_memory_can_be_lent_on_in_the_borrower(worker: Worker, device: str):
    """A claimed lease is a lease: frameworks take it."""
    lease = shared(NUMBERS, device)
    ticket = lease.ticket(claims=1)
    source = "a = gpulend.claim(ticket).lend('numpy'); a[0] = 3; result = a.sum(); del a"
    if device == "cpu" or lease.simulated:
        assert worker.run(source, ticket=ticket) == 3 * 12 + NUMBERS[1].sum()
        eventually(lambda: len(held()) == 1, "the claim ended with the array")
        assert (lease.to_host()[0] == 3).all()
    else:
        ticket.withdraw()


def test_the_lender_starts_nothing_before_its_first_ticket():
    """Importing, and claiming, start no thread of the lender's and make no file."""
    with Worker() as one:
        tasks = "os.listdir('/proc/self/task')"
        threads = f"[open(f'/proc/self/task/{{one}}/comm').read() for one in {tasks}]"
        one.run("import os")
        assert "gpulend-broker\n" not in one.get(threads)
        one.run("x = gpulend.zeros(3, device='cpu', shared=True); t = x.ticket()")
        eventually(lambda: "gpulend-broker\n" in one.get(threads), "there is a thread")


def test_the_socket_is_there_only_while_its_process_is():
    """It is named after the lender, belongs to the user alone, and goes with the process."""
    with Worker() as one:
        ticket = one.get("gpulend.zeros(3, device='cpu', shared=True).ticket()")
        file = SOCKETS / ticket[24:40].hex()
        assert file.is_socket()
        assert SOCKETS.stat().st_mode & 0o777 == 0o700
        one.end()
        assert not file.exists()
        with pytest.raises(gpulend.LenderGoneError) as caught:
            gpulend.claim(ticket)
        assert caught.value.code == 1105


def test_a_copy_of_a_lease_is_not_a_ticket(device: str):
    """`copy.copy` is the same memory, `copy.deepcopy` another array."""
    import copy

    lease = shared(NUMBERS, device)
    assert copy.copy(lease).address == lease.address
    deep = copy.deepcopy(lease)
    assert deep.address != lease.address
    assert np.array_equal(deep.to_host(), NUMBERS)


@pytest.mark.parametrize("claims", [0, -1, 1 << 40])
def test_a_number_of_claims_that_cannot_be_is_refused(claims: int):
    """In words, and before anything is offered."""
    lease = gpulend.zeros(3, device="cpu", shared=True)
    with pytest.raises(ValueError, match=rf"claims={claims}: .* once at least"):
        lease.ticket(claims=claims)
    with pytest.raises(TypeError):
        lease.ticket(claims="two")
