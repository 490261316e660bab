"""Calls that Python makes past pyo3: results, errors and help are those of pyo3's way."""

from __future__ import annotations

import ctypes
import gc
import inspect
import sys
import weakref

import gpulend
import numpy as np
import pytest

NUMBERS = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
ADDRESS = ctypes.addressof(NUMBERS)
ARRAY = np.arange(6.0)

# Each call in a form for which there is a shorter way, and in one that is pyo3's.
ALIKE = {
    "borrow": (lambda: gpulend.borrow(ARRAY), lambda: gpulend.borrow(ARRAY, check=True)),
    "borrow, stream": (
        lambda: gpulend.borrow(ARRAY, None),
        lambda: gpulend.borrow(**{"array": ARRAY, "".join(["str", "eam"]): None, "check": True}),
    ),
    "borrow, ready": (
        lambda: gpulend.borrow(ARRAY, ready_on=None),
        lambda: gpulend.borrow(array=ARRAY, ready_on=None, check=True),
    ),
    "wrap": (
        lambda: gpulend.wrap(ADDRESS, (2, 3), "float32", owner=NUMBERS),
        lambda: gpulend.wrap(ADDRESS, (2, 3), "float32", owner=NUMBERS, check=True),
    ),
    "wrap, names": (
        lambda: gpulend.wrap(
            shape=(3,), address=ADDRESS, strides=(2,), dtype="float32", owner=NUMBERS, device="cpu"
        ),
        lambda: gpulend.wrap(ADDRESS, (3,), "float32", (2,), "cpu", owner=NUMBERS, readonly=False),
    ),
}

# What is refused, whichever way it goes.
REFUSED = {
    "nothing": (gpulend.borrow, (), {}, "missing 1 required positional argument: 'array'"),
    "too much": (gpulend.borrow, (ARRAY, None, None), {}, "takes from 1 to 2 positional"),
    "unknown": (gpulend.borrow, (ARRAY,), {"strem": None}, "unexpected keyword argument 'strem'"),
    "twice": (gpulend.borrow, (ARRAY,), {"array": ARRAY}, "multiple values for argument 'array'"),
    "no bool": (gpulend.borrow, (ARRAY,), {"check": None}, "bool"),
    "wrap": (gpulend.wrap, (ADDRESS,), {"owner": NUMBERS}, "'shape'"),
    "wrap, twice": (gpulend.wrap, (ADDRESS, 6), {"shape": 6, "owner": NUMBERS}, "multiple values"),
    "lend": (gpulend.lend, (ARRAY,), {}, "missing 1 required positional argument: 'target'"),
    "lend, too much": (gpulend.lend, (ARRAY, "numpy", 1), {}, "takes 2 positional arguments"),
}


def facts(lease):
    """Return all that a lease says about its memory."""
    return lease.address, lease.shape, lease.strides, lease.dtype, lease.readonly, lease.device


@pytest.mark.parametrize("name", ALIKE)
def test_both_ways_give_the_same(name):
    """And take nothing more."""
    quick, long = ALIKE[name]
    counts = sys.getrefcount(ARRAY), sys.getrefcount(NUMBERS)
    for _ in range(3):
        assert facts(quick()) == facts(long())
    assert (sys.getrefcount(ARRAY), sys.getrefcount(NUMBERS)) == counts


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_calls_are_refused_in_pyo3s_words(name):
    """Also after right ones."""
    function, arguments, options, text = REFUSED[name]
    gpulend.borrow(ARRAY)
    with pytest.raises(TypeError, match=text):
        function(*arguments, **options)


def test_an_error_of_the_shorter_way_is_raised_with_its_code():
    """And the next call works."""
    gpulend.borrow(ARRAY)
    with pytest.raises(gpulend.Error) as caught:
        gpulend.borrow(np.zeros(2, "S3"))
    assert caught.value.code
    with pytest.raises(gpulend.Error, match="owner="):
        gpulend.wrap(ADDRESS, 6, "float32", owner=None)
    with pytest.raises(gpulend.Error, match="torhc"):
        gpulend.lend(ARRAY, "torhc")
    assert gpulend.borrow(ARRAY).shape == (6,)


@pytest.mark.parametrize("name", ["borrow", "lend", "wrap"])
def test_signature_and_help_are_kept(name):
    """Python's tools read them from the function."""
    function = getattr(gpulend, name)
    assert function.__name__ == name
    assert function.__doc__.rstrip().count("\n") > 3
    assert len(inspect.signature(function).parameters) >= 4


def test_leases_in_numbers_come_and_go():
    """More than a free list keeps, in any order, also those in cycles."""
    kept = [gpulend.borrow(ARRAY) for _ in range(1000)]
    assert {lease.address for lease in kept} == {ARRAY.ctypes.data}
    del kept[::2]
    kept += [gpulend.borrow(ARRAY[i:]) for i in range(6)]
    assert [lease.shape for lease in kept[-6:]] == [(6,), (5,), (4,), (3,), (2,), (1,)]
    kept.clear()

    class Owner:
        pass

    gone = []
    for _ in range(200):
        owner = Owner()
        owner.lease = gpulend.wrap(ADDRESS, 6, "float32", owner=owner)
        gone.append(weakref.ref(owner))
        del owner
    gc.collect()
    assert not any(owner() for owner in gone)


def test_a_weak_reference_to_a_lease_ends_with_it():
    """And its callback runs once, also where the memory is used again."""
    called = []
    for _ in range(3):
        lease = gpulend.borrow(ARRAY)
        weak = weakref.ref(lease, called.append)
        assert weak() is lease
        del lease
        assert weak() is None
        assert called == [weak]
        called.clear()
