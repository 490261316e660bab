"""Warp on the CPU: arrays both ways at one address, vectors as axes, and the rest by name."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import gpulend
import numpy as np
import pytest
from conftest import need
from machines import start
from test_command_line import run

wp = need("warp")
TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
)


def zeros(shape=(2, 3), dtype="float32", **options):
    """Make an array of the host."""
    return wp.zeros(shape, dtype=getattr(wp, dtype), device="cpu", **options)


def bits(dtype):
    """Return NumPy's type of a name, ml_dtypes' too."""
    return np.dtype(getattr(need("ml_dtypes"), dtype, dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(7,), (0, 3), (2, 3, 4), (1, 2, 3, 4)])
def test_an_array_is_borrowed_without_a_copy(dtype, shape):
    """The same address, shape and type; writes show on the other side."""
    array = zeros(shape, dtype)
    lease = gpulend.borrow(array)
    assert (lease.shape, lease.dtype.name, lease.device) == (shape, dtype, "cpu")
    assert not lease.readonly
    if 0 in shape:
        return
    assert lease.address == array.ptr
    lease.lend("numpy")[...] = 1
    assert set(array.numpy().ravel().tolist()) == {1}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(7,), (0, 3), (2, 3, 4), (1, 2, 3, 4)])
def test_an_array_is_made_without_a_copy(dtype, shape):
    """The same address, shape and type; writes show on the other side."""
    memory = np.zeros(shape, bits(dtype))
    array = gpulend.lend(memory, "warp")
    assert isinstance(array, wp.array)
    assert (array.shape, array.dtype) == (shape, getattr(wp, dtype))
    if 0 in shape:
        return
    assert array.ptr == memory.ctypes.data
    array.fill_(1)
    assert (memory == memory.dtype.type(1)).all()


def test_strides_are_kept_both_ways():
    """A view of every second column stays one."""
    memory = np.arange(24, dtype=np.float32).reshape(4, 6)
    array = gpulend.lend(memory[1:, ::2], "warp")
    assert (array.shape, array.strides, array.ptr) == ((3, 3), (24, 8), memory.ctypes.data + 24)
    assert np.array_equal(array.numpy(), memory[1:, ::2])
    back = gpulend.borrow(array)
    assert (back.address, back.strides) == (array.ptr, (6, 2))


VECTORS = {
    "vec3": ((3,), "float32"),
    "vec2h": ((2,), "float16"),
    "vec4d": ((4,), "float64"),
    "mat33": ((3, 3), "float32"),
    "quat": ((4,), "float32"),
    "transform": ((7,), "float32"),
    "spatial_vector": ((6,), "float32"),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_and_matrices_are_axes(name):
    """Behind those of the array, of the element type inside, at the same address."""
    axes, dtype = VECTORS[name]
    array = zeros((2, 5), name)
    lease = gpulend.borrow(array)
    assert (lease.shape, lease.dtype.name, lease.address) == ((2, 5, *axes), dtype, array.ptr)
    lease.lend("numpy")[1, 4] = 2
    assert set(array.numpy()[1, 4].ravel().tolist()) == {2}
    assert not array.numpy()[0].any()


@wp.struct
class Particle:
    """An element that is not a number."""

    mass: float
    place: wp.vec3


def refused(array, code, **options):
    """Return the words in which an array is refused."""
    with pytest.raises(gpulend.ExportError) as caught:
        gpulend.borrow(array, **options)
    assert caught.value.code == code
    return str(caught.value)


def test_structs_and_indexed_arrays_are_refused_by_name():
    """They are not plain arrays of numbers."""
    assert "struct" in refused(wp.zeros(3, dtype=Particle, device="cpu"), 353)
    index = wp.array([0, 2], dtype=wp.int32, device="cpu")
    assert "contiguous()" in refused(wp.indexedarray1d(zeros(3), [index]), 350)


def test_a_gradient_is_not_lost_silently():
    """An array that requires one means more; its gradient and its values are plain arrays."""
    array = zeros((3,), requires_grad=True)
    words = refused(array, 350)
    assert "array.grad" in words
    assert "check=False" in words
    with pytest.raises(gpulend.ExportError, match="requires grad"):
        gpulend.lend(array, "numpy")
    assert gpulend.borrow(array.grad).address == array.grad.ptr
    assert gpulend.borrow(array, check=False).address == array.ptr
    # What only reads it during the call takes it.
    out = gpulend.borrow(np.ones(3, np.float32))
    out.copy_from(array)
    assert out.lend("numpy").tolist() == [0, 0, 0]
    with pytest.raises(gpulend.ExportError, match="requires grad"):
        out.copy_to(array)


def test_read_only_memory_is_refused():
    """Warp cannot mark it: an alias only where it is asked for."""
    memory = np.arange(4, dtype=np.float32)
    memory.flags.writeable = False
    with pytest.raises(gpulend.ExportError, match="allow_writable_alias") as caught:
        gpulend.lend(memory, "warp")
    assert caught.value.code == 301
    array = gpulend.lend(memory, "warp", allow_writable_alias=True)
    assert array.ptr == memory.ctypes.data


@pytest.mark.parametrize("shape", [(), (1, 1, 1, 1, 2)])
def test_numbers_of_axes_that_it_lacks_are_refused(shape):
    """Warp has one to four, and would raise an error of its own."""
    with pytest.raises(gpulend.ExportError, match=r"one to 4 axes.*reshape") as caught:
        gpulend.lend(np.zeros(shape, np.float32), "warp")
    assert caught.value.code == 356


def test_what_it_lacks_is_refused_by_name():
    """Complex numbers, and strides that run backwards."""
    with pytest.raises(gpulend.ExportError, match="warp has no element type complex64"):
        gpulend.lend(np.zeros(3, np.complex64), "warp")
    with pytest.raises(gpulend.ExportError, match="warp has no negative strides"):
        gpulend.lend(np.zeros(3, np.float32)[::-1], "warp")


def test_memory_stays_as_long_as_either_side_holds_it():
    """The capsule keeps it, and nothing but that."""
    array = gpulend.lend(np.arange(1000, dtype=np.float32), "warp")
    lease = gpulend.borrow(wp.array(np.arange(1000), dtype=wp.float32, device="cpu"))
    gc.collect()
    noise = [np.ones(1000, np.float32) for _ in range(50)]
    assert np.array_equal(array.numpy(), np.arange(1000))
    assert np.array_equal(lease.lend("numpy"), np.arange(1000))
    del noise


def test_arrays_go_to_torch_and_back():
    """Beside Warp's own conversions, at the same address."""
    torch = need("torch")
    array = zeros((2, 3))
    tensor = gpulend.lend(array, "torch")
    assert (type(tensor), tensor.data_ptr()) == (torch.Tensor, array.ptr)
    assert gpulend.lend(tensor, wp).ptr == array.ptr


def test_the_doctor_shows_it():
    """Zero copy from and to NumPy, in its own row and column."""
    done = run("doctor", "--json", "--only", "numpy,warp", GPULEND_DEVICE="none")
    report = json.loads(done.stdout)
    pairs = {(pair["producer"], pair["consumer"]): pair for pair in report["pairs"]}
    assert {pair["status"] for pair in pairs.values()} == {"zero copy"}, pairs
    assert pairs["numpy", "warp"]["readonly"] == "refused"
    (warp,) = (item for item in report["frameworks"] if item["name"] == "warp")
    assert (warp["version"], warp["state"]) == (wp.__version__, "here")


LAZY = """
import warp, ctypes, gpulend
# What Warp makes first, ctypes keeps for all.
kind = eval("ctypes.c_float * 3", {"ctypes": ctypes, "__name__": "warp"})
array = (ctypes.c_float * 3)()
assert type(array) is kind and kind.__module__ == "warp"
print(gpulend.borrow(array).shape)
import numpy as np
print(gpulend.lend(np.zeros(3, np.float32), "warp").shape)
"""


def test_warp_is_set_up_when_memory_is_lent_to_it():
    """Not when a type is met that is in its package."""
    done = start([sys.executable, "-c", LAZY])
    first, *shown, last = done.stdout.splitlines()
    assert (first, last) == ("(3,)", "(3,)")
    assert "initialized" in shown[0]


def test_it_is_one_file_and_two_lines():
    """In the list of frameworks, and for type checkers; nothing else of the package names it."""
    root = Path(__file__).parents[2]
    sources = [*(root / "python/gpulend").rglob("*.py"), *(root / "crates/python").rglob("*.rs")]
    lines = [
        line.strip()
        for source in sources
        # To the second its package is a folder in which a file of CUDA's may lie.
        if source.name not in ("warp.py", "_libdevice.py")
        for line in source.read_text().splitlines()
        if '"warp' in line and '"warpSize"' not in line
    ]
    assert sorted(lines) == ['"warp",', '_here("warp", install="warp-lang"),']
