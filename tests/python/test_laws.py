"""Laws that no framework of today breaks, tried with one that does."""

from __future__ import annotations

import subprocess
import sys

import gpulend
import numpy as np
import pytest
from conftest import need
from gpulend import adapters
from gpulend._native import Consumer


def framework(make, **quirks):
    """Make a consumer that takes float32 and int32, as an adapter would describe it."""
    quirks = {"readonly": True, "negative_strides": True} | quirks
    takes = adapters.Takes(types=["float32", "int32"], **quirks)
    described = adapters.Consumer(takes=takes, makes=adapters.Makes(lease=make))
    return Consumer("test", described)


def test_a_consumer_that_copies_is_found_out():
    """Law 1: the address of what was made is compared with what was lent."""
    lease = gpulend.borrow(np.ones(3, "float32"))
    with pytest.raises(gpulend.ExportError, match="test copied the memory") as caught:
        framework(lambda lease: np.array(lease)).lend(lease, False)
    assert caught.value.code == 351
    assert framework(np.asarray).lend(lease, False).ctypes.data == lease.address


def test_a_consumer_that_raises_leaves_the_lease_as_it_was():
    """Law 12: what a framework raises comes through, and nothing is held afterwards."""

    def broken(_lease):
        raise ZeroDivisionError

    lease = gpulend.borrow(np.ones(3, "float32"))
    with pytest.raises(ZeroDivisionError):
        framework(broken).lend(lease, False)
    lease.release()


def test_each_quirk_of_a_consumer_refuses_by_name():
    """A framework's table is what decides, not its name."""
    array = np.arange(6, dtype="float32")
    backwards, frozen = gpulend.borrow(array[::-1]), gpulend.borrow(array).as_readonly()
    plain = framework(np.asarray, readonly=False, negative_strides=False)
    for lease, rule in (
        (backwards, "negative strides"),
        (frozen, "read-only"),
        (gpulend.borrow(array.astype("float64")), "no element type float64"),
    ):
        with pytest.raises(gpulend.ExportError, match=rule):
            plain.lend(lease, False)
    assert plain.lend(frozen, True).ctypes.data == frozen.address


def test_a_python_without_its_lock_is_refused():
    """Leases are guarded by the GIL; where it was forced off, importing says so."""
    program = """
import sys
sys._is_gil_enabled = lambda: False
try:
    import gpulend
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("gpulend needs Python's GIL, which was switched off")


def test_importing_gpulend_imports_no_framework():
    """Frameworks are imported when they are lent to, not before."""
    program = (
        "import sys, gpulend\n"
        "print(sorted({'numpy', 'torch', 'ml_dtypes'} & set(sys.modules)))\n"
        "gpulend.borrow(bytearray(4))\n"
        "print(sorted({'numpy', 'torch', 'ml_dtypes'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[]\n[]\n", "")


def test_a_missing_framework_is_named_with_the_way_to_get_it():
    """Lending to what is not installed, or not known, says so."""
    lease = gpulend.borrow(bytearray(4))
    with pytest.raises(
        gpulend.ProtocolError, match=r"'tensroflow' is not a framework.*numpy, torch, jax"
    ):
        lease.lend("tensroflow")
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import gpulend\n"
        "try: gpulend.lend(bytearray(4), 'torch')\n"
        "except gpulend.ProtocolError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert "pip install torch" in done.stdout


def test_torch_is_read_by_the_native_reader():
    """The fast route is really taken: a slower one would pass every other test."""
    torch = need("torch")
    assert gpulend._native.route(torch.ones(2)) == "torch native reader"
