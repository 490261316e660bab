"""The native reader of NumPy's arrays: it reads what NumPy says; elsewhere DLPack serves."""

from __future__ import annotations

import subprocess
import sys
import weakref

import gpulend
import numpy as np
import pytest
from gpulend import _native
from gpulend.adapters import numpy as adapter

NATIVE, DLPACK = "NumPy: native reader", "NumPy: __dlpack__"


class Own(np.ndarray):
    """A class that overrides `__dlpack__`, so that the reader is not asked."""

    def __dlpack__(self, **options):
        """Export as NumPy does."""
        return super().__dlpack__(**options)


class Plain(np.ndarray):
    """A class that overrides nothing of it."""


def routes_of(work):
    """Return what a call returned, and which of the two routes it took."""
    before = _native.route_counts()
    result = work()
    after = _native.route_counts()
    return result, [name for name in (NATIVE, DLPACK) if after[name] > before[name]]


def facts(lease):
    """Return all that a lease says about its memory."""
    return lease.address, lease.shape, lease.strides, lease.dtype, lease.readonly, lease.device


@pytest.mark.parametrize("array", [array for array, _ in adapter.samples()])
def test_the_reader_reads_what_dlpack_says(array):
    """Of every element type and layout."""
    lease, routes = routes_of(lambda: gpulend.borrow(array))
    assert routes == [NATIVE]
    other, routes = routes_of(lambda: gpulend.borrow(array.view(Own)))
    assert routes == [DLPACK]
    assert facts(lease) == facts(other)
    np.testing.assert_array_equal(lease.to_host(), array)


def test_a_plain_subclass_is_read_too():
    """Its objects begin as NumPy's do."""
    array = np.arange(6.0).view(Plain)
    lease, routes = routes_of(lambda: gpulend.borrow(array))
    assert routes == [NATIVE]
    assert lease.address == array.ctypes.data


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.ones(3, ">f4" if sys.byteorder == "little" else "<f4"), "byte order"),
        (np.zeros(3, [("a", "f4"), ("b", "i1")]), "not numbers"),
        (np.array([object()]), "not numbers"),
        (np.zeros(2, "datetime64[s]"), "not numbers"),
        (np.zeros(2, "S3"), "not numbers"),
        (np.zeros(2, "longdouble"), "names no element type"),
        (np.zeros(3, [("a", "f4"), ("b", "i1")])["a"], "stride"),
    ],
    ids=["byte order", "record", "object", "datetime", "text", "long double", "field"],
)
def test_what_is_no_plain_array_is_left_to_dlpack_and_refused(array, error):
    """With the adapter's words."""
    with pytest.raises(gpulend.Error, match=error):
        gpulend.borrow(array)


def test_a_field_at_whole_strides_is_read():
    """Every second number of a record of two."""
    array = np.zeros(4, [("a", "f4"), ("b", "f4")])
    array["b"] = [1, 2, 3, 4]
    lease, routes = routes_of(lambda: gpulend.borrow(array["b"]))
    assert routes == [NATIVE]
    assert lease.strides == (2,)
    assert lease.to_host().tolist() == [1, 2, 3, 4]


def test_an_array_that_is_copied_back_is_left_to_dlpack():
    """Its memory is not where the bytes will be."""
    with np.nditer(
        np.arange(4, dtype=">i4"),
        op_flags=[["readwrite", "updateifcopy", "nbo"]],
        op_dtypes=[np.dtype("=i4")],
        flags=[],
        casting="equiv",
    ) as iterator:
        array = iterator.operands[0]
        assert array.flags.writebackifcopy
        _, routes = routes_of(lambda: gpulend.borrow(array))
    assert routes == [DLPACK]


def test_the_array_is_kept_and_dropped_with_the_lease():
    """At once, both ways."""
    array = np.arange(5.0).view(Plain)
    gone = weakref.ref(array)
    lease = gpulend.borrow(array)
    del array
    assert gone() is not None
    assert lease.to_host().tolist() == [0, 1, 2, 3, 4]
    del lease
    assert gone() is None


def test_the_array_is_kept_by_what_was_lent_of_it():
    """Beyond the lease."""
    array = np.arange(5.0).view(Plain)
    gone = weakref.ref(array)
    lent = gpulend.lend(array, "numpy")
    del array
    assert gone() is not None
    assert lent.tolist() == [0, 1, 2, 3, 4]
    del lent
    assert gone() is None


LIES = {
    "address": "(said[0] + 8, *said[1:])",
    "shape": "(said[0], [*said[1], 1], *said[2:])",
    "strides": "(*said[:2], [s + 1 for s in said[2]] or [1], *said[3:])",
    "type": "(*said[:3], 'int8' if said[3] != 'int8' else 'int16', *said[4:])",
    "number": "(*said[:4], 99, said[5])",
    "read-only": "(*said[:5], not said[5])",
}


@pytest.mark.parametrize("lie", LIES)
def test_without_a_proof_dlpack_serves(lie):
    """A NumPy whose arrays are not as the reader takes them to be is borrowed all the same."""
    program = f"""
import gpulend, numpy as np
from gpulend import _native
from gpulend.adapters import numpy as adapter
true = adapter.samples
adapter.samples = lambda: [(array, {LIES[lie]}) for array, said in true()]
array = np.arange(4.0)
print(_native.route(array), gpulend.borrow(array).to_host().sum())
print(gpulend.lend(array, "numpy").sum())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["DLPack", "6.0", "6.0"], done.stderr


@pytest.mark.parametrize("name", [name for name in sorted(adapter.TYPES) if name != "bool"])
def test_a_scalar_is_lent_read_only_from_its_own_memory(name):
    """Its array interface shows a temporary array, which is gone when the next one is made."""
    lease = gpulend.borrow(np.array([2, 3], name).max())
    others = [np.array([7], name) for _ in range(100)]
    assert lease.address not in {other.ctypes.data for other in others}
    assert (lease.shape, lease.dtype, lease.readonly) == ((), name, True)
    assert lease.to_host() == 3


@pytest.mark.parametrize("scalar", [np.str_("a"), np.datetime64(1, "s"), np.longdouble(1)])
def test_a_scalar_that_is_no_plain_number_is_refused(scalar):
    """With the call that mends it."""
    with pytest.raises(gpulend.ExportError, match=r"numpy\.asarray\(scalar\)"):
        gpulend.borrow(scalar)


def test_nothing_is_copied_into_a_scalar():
    """It never changes."""
    with pytest.raises(gpulend.ExportError, match="read-only"):
        gpulend.borrow(np.ones(())).copy_to(np.float64(1))


@pytest.mark.parametrize("base", [object, np.float64, int])
def test_a_class_that_is_called_like_numpys_is_not_read(base):
    """Its objects have another layout: to read them would end the process."""
    methods = {name: getattr(np.ndarray, name) for name in ("__dlpack__", "__dlpack_device__")}
    fake = type("ndarray", (base,), {**methods, "__module__": "numpy"})
    with pytest.raises(gpulend.Error):
        gpulend.borrow(fake())
