"""What can be asked: ledger, passport and the looks of a lease."""

from __future__ import annotations

import ctypes
import gc
import weakref

import gpulend
import numpy as np
import pytest


def test_the_ledger_lists_leases_slices_and_exports_with_their_holders():
    """Who holds what, of which lease, where and how much; oldest first."""
    before = len(gpulend.ledger())
    source = np.zeros((2, 3))
    lease = gpulend.borrow(source)
    row = lease[1]
    tensor = row.lend("torch")
    entries = list(gpulend.ledger())[before:]
    assert [entry.kind for entry in entries] == ["lease", "sub-lease", "export"]
    assert [entry.nbytes for entry in entries] == [48, 24, 24]
    assert [entry.address for entry in entries] == [lease.address, row.address, row.address]
    assert entries[0].who == "numpy.ndarray"
    assert entries[2].who == "torch"
    assert entries[1].of == entries[0].serial
    assert entries[2].of in (entries[0].serial, entries[1].serial)
    assert all(entry.age >= 0 for entry in entries)
    assert sorted(entry.serial for entry in entries) == [entry.serial for entry in entries]
    del tensor, row, lease
    assert len(gpulend.ledger()) == before


def test_the_ledger_finds_who_holds_an_address():
    """`at` finds the entries that reach an address, and only those."""
    block = (ctypes.c_float * 6)()
    lease = gpulend.wrap(ctypes.addressof(block), 6, "float32", owner=block)
    tail = lease[3:]
    book = gpulend.ledger()
    assert len(book.at(lease.address)) == 1
    assert len(book.at(tail.address)) == 2
    assert len(book.at(lease.address + 24)) == 0
    assert f"{lease.address:#x}" in str(book)


def test_the_ledger_finds_a_lease_that_runs_backwards_or_in_steps():
    """`at` knows the span of the strides, not only address and bytes."""
    block = (ctypes.c_float * 6)()
    lease = gpulend.wrap(ctypes.addressof(block), 6, "float32", owner=block)
    part = lease[::-1]
    assert len(gpulend.ledger().at(lease.address)) == 2
    assert len(gpulend.ledger().at(part.address)) == 2
    assert len(gpulend.ledger().at(part.address + 4)) == 0
    part = lease[::5]
    assert len(gpulend.ledger().at(lease.address + 20)) == 2


def test_a_passport_tells_the_mapping_of_an_array_or_an_address():
    """`describe` names base, size and offset of the mapping around an address."""
    source = np.zeros(1000)
    for given in (source, source.ctypes.data, gpulend.borrow(source)):
        passport = gpulend.describe(given)
        assert passport.address == source.ctypes.data
        assert passport.base <= passport.address
        assert passport.address + source.nbytes <= passport.base + passport.size
        assert passport.offset == passport.address - passport.base
        assert (passport.memory, passport.known, str(passport.device)) == ("host", "host", "cpu")
        assert f"{passport.address:#x}" in str(passport)


@pytest.mark.parametrize("address", [0, 1, -1, 2**64, 0x1234567890123456])
def test_an_address_of_nothing_has_no_passport(address):
    """What is not mapped is an AddressError that repeats the address."""
    with pytest.raises(gpulend.AddressError, match=hex(address)):
        gpulend.describe(address)


def test_a_lease_shows_what_it_is():
    """The repr names type, shape, device, address and read-only; HTML says the same."""
    lease = gpulend.borrow(np.zeros((2, 3), "int16")).as_readonly()
    for word in ("int16", "(2, 3)", "cpu", hex(lease.address), "read-only"):
        assert word in repr(lease)
        assert word in lease._repr_html_()
    assert lease.simulated is False
    assert lease.device == "cpu"


def test_a_read_only_view_of_a_writable_lease_cannot_be_written():
    """`as_readonly` binds its own exports and copies, not the original."""
    source = np.zeros(3)
    lease = gpulend.borrow(source)
    closed = lease.as_readonly()
    assert (lease.readonly, closed.readonly) == (False, True)
    assert not closed.lend("numpy").flags.writeable
    assert closed[1:].readonly
    assert closed.reshape(3, 1).readonly
    assert closed.view("int64").readonly
    with pytest.raises(gpulend.ExportError, match="read-only"):
        closed.copy_from(np.ones(3))
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.copy_to(closed)
    lease.copy_from(np.ones(3))
    assert source.tolist() == [1.0, 1.0, 1.0]


def test_a_loop_over_a_lease_gives_its_rows():
    """And ends, as a loop over any sequence does."""
    lease = gpulend.borrow(np.arange(6).reshape(2, 3))
    assert [row.to_host().tolist() for row in lease] == [[0, 1, 2], [3, 4, 5]]


def test_a_class_that_was_borrowed_once_may_go():
    """What is remembered of it goes with it; one made later at its address is looked at anew."""
    shown = property(lambda self: self.array.__array_interface__)
    ways, gone, addresses = set(), [], set()
    for number in range(100):
        if number % 2:
            body = {"__array_interface__": shown, "array": np.zeros(3)}
        else:
            body = {"__dlpack__": lambda self, **_: np.zeros(3).__dlpack__()}
        made = type("Passing", (), body)
        addresses.add(id(made))
        gone.append(weakref.ref(made))
        for _ in range(2):
            assert gpulend.borrow(made()).shape == (3,)
        ways.add((number % 2, gpulend._native.route(made())))
        del made, body
        gc.collect()
    assert [reference() for reference in gone] == [None] * 100
    assert len(addresses) < 100
    assert ways == {(0, "DLPack"), (1, "__array_interface__")}


def test_a_class_may_go_while_its_lease_stays():
    """A lease keeps memory; the ledger keeps the name."""
    source = np.zeros(3)
    made = type("Passing", (), {"__dlpack__": lambda self, **_: source.__dlpack__()})
    lease = gpulend.borrow(made())
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None
    (entry,) = gpulend.ledger().at(lease.address)
    assert entry.who.endswith(".Passing")
