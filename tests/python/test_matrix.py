"""Who can lend to whom: each type and layout arrives at the same address, or is refused by name."""

from __future__ import annotations

import gc

import arrays
import gpulend
import numpy as np
import pytest
from arrays import BOTH, LAYOUTS, NUMPY_ONLY, TORCH_LAYOUTS, TORCH_ONLY, address, elements, make
from conftest import need

torch = need("torch")

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")

WAYS = {
    "lend to numpy": lambda lease: lease.lend("numpy"),
    "lend to torch": lambda lease: lease.lend("torch"),
    "np.from_dlpack": np.from_dlpack,
    "torch.from_dlpack": torch.from_dlpack,
    "np.asarray": np.asarray,
    "memoryview": memoryview,
}
WITH_ELEMENTS = [layout for layout in LAYOUTS if not layout.startswith("(0")]
ARRAYS = [
    *(("numpy", dtype, layout) for dtype in arrays.NUMPY_TYPES for layout in LAYOUTS),
    *(("torch", dtype, layout) for dtype in arrays.TORCH_TYPES for layout in TORCH_LAYOUTS),
]


def refusal(way, dtype, layout):
    """Return the error that a way out must end in and what it must name, or None."""
    if way == "lend to torch":
        if dtype in NUMPY_ONLY:
            return gpulend.ExportError, f"torch has no element type {dtype}"
        if layout == "backwards":
            return gpulend.ExportError, "torch has no negative strides"
    elif way == "lend to numpy":
        if dtype in TORCH_ONLY:
            return gpulend.ExportError, f"numpy has no element type {dtype}"
    elif way == "np.from_dlpack":
        if dtype not in BOTH:
            return (RuntimeError, BufferError), "Unsupported dtype"  # NumPy's own words
    elif way == "torch.from_dlpack":
        if dtype in NUMPY_ONLY:
            return BufferError, "nsupported"  # torch's own words
        if layout == "backwards":
            return RuntimeError, "strides="
    elif dtype not in BOTH:
        protocol = {"np.asarray": "__array_interface__", "memoryview": "the buffer protocol"}[way]
        return gpulend.ExportError, f"{protocol} has no element type {dtype}"
    return None


def assert_same(original, lent):
    """The two arrays are the same elements at the same place."""
    assert tuple(lent.shape) == tuple(original.shape)
    if isinstance(lent, memoryview):
        lent = np.asarray(lent)
    assert arrays.dtype_name(lent) == arrays.dtype_name(original)
    assert elements(lent) == elements(original)
    if elements(original):
        assert address(lent) == address(original)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("framework", "dtype", "layout"), ARRAYS)
def test_an_array_arrives_at_the_same_address_or_is_refused_by_name(framework, dtype, layout, way):
    """Law 1: zero copy with the same values, or a named error."""
    if (way, layout) == ("torch.from_dlpack", "backwards") and arrays.TORCH_ABORTS_ON_BACKWARDS:
        pytest.skip("this torch ends the process on a negative stride; `lend` refuses it before")
    original = make(framework, dtype, layout)
    expected = refusal(way, dtype, layout)
    lease = gpulend.borrow(original)
    if expected is None:
        assert_same(original, WAYS[way](lease))
    else:
        with pytest.raises(expected[0], match=expected[1]):
            WAYS[way](lease)


@pytest.mark.parametrize(
    ("framework", "dtype", "layout", "way"),
    [
        (framework, dtype, layout, way)
        for framework, dtype, layout in ARRAYS
        for way in WAYS
        if dtype in BOTH and layout in WITH_ELEMENTS and not refusal(way, dtype, layout)
    ],
)
def test_a_write_on_either_side_shows_on_the_other(framework, dtype, layout, way):
    """Law 1: what was lent is the same memory, so writes go through both ways."""
    original = make(framework, dtype, layout)
    lent = WAYS[way](gpulend.borrow(original))
    lent = np.asarray(lent) if isinstance(lent, memoryview) else lent
    first, last = (0,) * len(original.shape), tuple(extent - 1 for extent in original.shape)
    before = elements(original)
    lent[first] = not original[first] if dtype == "bool" else 77
    assert elements(original)[first] != before[first]
    assert elements(original) == elements(lent)
    before = elements(lent)
    original[last] = not lent[last] if dtype == "bool" else 99
    assert elements(lent)[last] != before[last]
    assert elements(original) == elements(lent)


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize(("framework", "dtype", "layout"), ARRAYS)
def test_a_copy_is_other_memory_with_the_same_values(framework, dtype, layout, target):
    """Law 1: only `copy=True` copies, and then it does."""
    original = make(framework, dtype, layout)
    wanted = refusal(f"lend to {target}", dtype, "1-d")
    if wanted:
        with pytest.raises(wanted[0], match=wanted[1]):
            gpulend.lend(original, target, copy=True)
        return
    copy = gpulend.lend(original, target, copy=True)
    assert elements(copy) == elements(original)
    assert tuple(copy.shape) == tuple(original.shape)
    if elements(original):
        assert address(copy) != address(original)


@pytest.mark.parametrize("dtype", arrays.NUMPY_TYPES)
@pytest.mark.parametrize("layout", WITH_ELEMENTS)
def test_read_only_is_kept_by_numpy(dtype, layout):
    """Law 6: a read-only array comes back read-only."""
    original = make("numpy", dtype, layout)
    original.flags.writeable = False
    lease = gpulend.borrow(original)
    assert lease.readonly
    ways = [way for way in WAYS if "torch" not in way and not refusal(way, dtype, layout)]
    for way in ways:
        lent = WAYS[way](lease)
        writable = not lent.readonly if way == "memoryview" else lent.flags.writeable
        assert not writable, way
    assert ways


@pytest.mark.parametrize("way", ["lend to numpy", "np.asarray"])
@pytest.mark.parametrize("layout", ["(0,)", "(0, 3)"])
def test_read_only_is_kept_where_there_are_no_elements(layout, way):
    """Law 6: an empty array is as read-only as any other."""
    original = make("numpy", "float32", layout)
    original.flags.writeable = False
    assert not WAYS[way](gpulend.borrow(original)).flags.writeable


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("layout", TORCH_LAYOUTS)
def test_read_only_is_refused_for_torch_unless_the_alias_is_accepted(dtype, layout):
    """Law 6: torch has no read-only tensors, so the borrower must accept a writable one."""
    original = make("numpy", dtype, layout)
    original.flags.writeable = False
    with pytest.raises(
        gpulend.ExportError, match=r"read-only, and torch .*allow_writable_alias=True"
    ):
        gpulend.lend(original, "torch")
    assert_same(original, gpulend.lend(original, "torch", allow_writable_alias=True))
    copy = gpulend.lend(original, "torch", copy=True)
    assert elements(copy) == elements(original)


def test_a_legacy_capsule_of_read_only_memory_is_refused():
    """Law 6: the DLPack of before 1.0 cannot say read-only."""
    original = make("numpy", "float32", "1-d")
    original.flags.writeable = False
    lease = gpulend.borrow(original)
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.__dlpack__()
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.__dlpack__(max_version=(0, 8))


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_what_was_lent_outlives_its_producer_and_its_lease(framework, target):
    """The memory stays as long as the last who holds it."""
    original = make(framework, "float64", "sliced")
    expected = elements(original)
    lease = gpulend.borrow(original)
    lent = lease.lend(target)
    del original, lease
    gc.collect()
    noise = [np.full(24, 7.0) for _ in range(100)]
    assert elements(lent) == expected
    del noise


def test_an_array_goes_round_through_both_frameworks_unchanged():
    """A chain of hand-overs ends where it began."""
    original = make("numpy", "float32", "transposed")
    through = gpulend.lend(gpulend.lend(original, "torch"), "numpy")
    assert_same(original, gpulend.lend(gpulend.lend(through, "torch"), "numpy"))


def test_bfloat16_is_never_taken_for_float16():
    """Law 7: bf16 keeps its type and its values in every framework."""
    tensor = torch.tensor([1.0, -2.5, 3e38], dtype=torch.bfloat16)
    lease = gpulend.borrow(tensor)
    assert lease.dtype == "bfloat16"
    assert gpulend.lend(tensor, "numpy").astype("float64").tolist() == tensor.double().tolist()
    bits = lease.view("uint16").lend("numpy")
    assert bits.tolist() == tensor.view(torch.uint16).tolist()


def test_an_unknown_framework_is_refused_by_name():
    """A target that nobody wrote an adapter for is a named error."""
    with pytest.raises(gpulend.ProtocolError, match="'tinygrad'"):
        gpulend.lend(np.zeros(1), "tinygrad")


@pytest.mark.parametrize("target", [np, torch, torch.utils.dlpack])
def test_a_framework_s_module_names_it(target):
    """`lend(torch)` is `lend("torch")`; a module inside the package will do."""
    original = np.arange(3.0)
    name = target.__name__.partition(".")[0]
    for lent in (gpulend.lend(original, target), gpulend.borrow(original).lend(target)):
        assert type(lent) is type(gpulend.lend(original, name))
        assert_same(original, lent)


@pytest.mark.parametrize("target", ["toch", pytest, 5, ["torch"], None])
def test_what_names_no_framework_is_refused_with_those_that_do(target):
    """Whatever it is."""
    with pytest.raises(gpulend.ProtocolError, match=r"not a framework.*torch.*jax") as caught:
        gpulend.borrow(np.zeros(3)).lend(target)
    assert caught.value.code == 254
