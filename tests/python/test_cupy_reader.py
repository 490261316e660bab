"""CuPy's arrays, read where they lie: arrays over made-up addresses, which need no GPU."""

from __future__ import annotations

import subprocess
import sys

import gpulend
import numpy as np
import pytest
from conftest import need
from gpulend import _native

cupy = need("cupy")
from gpulend.adapters import cupy as adapter  # noqa: E402  it imports CuPy


def over(address, shape, dtype="float32", strides=None, device=0):
    """Return an array of CuPy's over an address."""
    memory = cupy.cuda.UnownedMemory(address, 1 << 20, None, device)
    return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0), strides)


def counted(route):
    """Return how often a route was taken."""
    return _native.route_counts()[route]


def test_the_reader_serves():
    """Its proof holds for this CuPy."""
    assert _native.route(over(4096, (2, 3))) == "CuPy native reader"


@pytest.mark.parametrize("sample", range(len(adapter.samples())))
def test_every_sample_is_read_as_its_attributes_say(sample):
    """Shape, strides, element type, address and device."""
    array = adapter.samples()[sample]
    before = counted("CuPy: native reader")
    address, device, dtype, shape, strides = _native._read_cupy(array)
    assert counted("CuPy: native reader") == before + 1
    itemsize = array.dtype.itemsize
    assert (address, device, np.dtype(dtype)) == (array.data.ptr, array.data.device_id, array.dtype)
    assert (shape, tuple(stride * itemsize for stride in strides)) == (array.shape, array.strides)


def test_a_changed_shape_is_seen():
    """CuPy changes it in place."""
    array = over(4096, (2, 6))
    assert _native._read_cupy(array)[3] == (2, 6)
    array.shape = (3, 4)
    assert _native._read_cupy(array)[3:] == ((3, 4), (4, 1))


def test_subclasses_are_read_by_their_attributes():
    """They may say otherwise than their fields."""

    class Other(cupy.ndarray):
        pass

    array = over(4096, (2, 3)).view(Other)
    assert _native.route(array) == "array attributes"
    before = counted("CuPy: attributes")
    assert _native._read_cupy(array)[3] == (2, 3)
    assert counted("CuPy: attributes") == before + 1


@pytest.mark.parametrize("strides", [(6, 4), (12, 3)])
def test_strides_inside_of_elements_are_left_to_dlpack(strides):
    """A lease counts strides in elements."""
    assert _native._read_cupy(over(4096, (2, 3), strides=strides)) is None


def test_a_pointer_of_another_class_is_read_by_its_attributes():
    """As a subclass of arrays: it may say otherwise than its fields."""

    class Moved(cupy.cuda.MemoryPointer):
        ptr = property(lambda self: 8192)

    memory = cupy.cuda.UnownedMemory(4096, 1 << 20, None, 0)
    array = cupy.ndarray((2, 3), "float32", Moved(memory, 0))
    assert _native.route(array) == "CuPy native reader"
    before = counted("CuPy: attributes")
    assert _native._read_cupy(array)[0] == 8192
    assert counted("CuPy: attributes") == before + 1


def test_an_array_without_its_pointer_is_no_crash():
    """One whose constructor never ran has None where others have a pointer."""
    from cupy._core.core import _ndarray_base

    array = _ndarray_base.__new__(cupy.ndarray)
    with pytest.raises((AttributeError, gpulend.Error)):
        _native._read_cupy(array)


PROOFS = {
    "an attribute says otherwise": "samples[3] = Liar(samples[3])",
    "there are none": "samples.clear()",
    "making them fails": "raise RuntimeError('another CuPy')",
}


@pytest.mark.parametrize("lie", PROOFS)
def test_a_proof_that_fails_leaves_attributes(lie):
    """Each in a process of its own: a proof is made once."""
    program = f"""
import cupy, gpulend
from gpulend import _native
from gpulend.adapters import cupy as adapter
class Liar:
    def __init__(self, array): self.array = array
    def __getattr__(self, name): return getattr(self.array, name)
make = adapter.samples
def samples_that_lie():
    samples = make()
    {PROOFS[lie]}
    return samples
adapter.samples = samples_that_lie
memory = cupy.cuda.UnownedMemory(4096, 64, None, 0)
array = cupy.ndarray((2, 3), "float32", cupy.cuda.MemoryPointer(memory, 0))
assert _native.route(array) == "array attributes", _native.route(array)
assert _native._read_cupy(array)[0] == 4096
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
