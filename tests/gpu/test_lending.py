"""Lending GPU memory to frameworks: zero copy, proved by address, or a refusal with the fix."""

from __future__ import annotations

import sys

import gpulend
import numpy as np
import pytest

from .resources import (
    REAL,
    need,
    nothing_stays,
    only_real,
    only_simulated,
)

# NumPy takes the simulated GPU's memory only; CuPy needs a real GPU.
TARGETS = ["torch", "jax", "cuda.core", "numba", "cupy" if REAL else "numpy"]
NUMBERS = np.arange(24, dtype=np.float32).reshape(4, 6)
LAYOUTS = {
    "whole": np.s_[:],
    "rows": np.s_[1:3],
    "strided": np.s_[1:, ::2],
    "backwards": np.s_[::-1],
    "one": np.s_[2, 3],
    "nothing": np.s_[4:],
}


def on(target):
    """Import what a target needs, under its own name."""
    module = need("numba.cuda" if target == "numba" else target)
    if target == "jax" and REAL and module.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    return module


def address_of(target, array):
    """Ask the framework itself where its array lies."""
    return {
        "numpy": lambda: array.ctypes.data,
        "torch": lambda: array.data_ptr(),
        "jax": lambda: array.unsafe_buffer_pointer(),
        "cuda.core": lambda: array.ptr,
        "cupy": lambda: array.data.ptr,
        "numba": lambda: int(array.gpu_data.device_pointer),
    }[target]()


def values_of(target, array):
    """Read a framework's array by its own means, or the bytes where it has none."""
    if target == "torch":
        return array.cpu().numpy()
    if target == "cupy":
        return array.get()
    if target == "numba":
        return array.copy_to_host()
    if target == "cuda.core":
        return gpulend.borrow(array).to_host()
    return np.asarray(array)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", TARGETS)
def test_the_same_memory_or_a_named_refusal(target, layout):
    """No framework takes every layout: what it takes is the same address, the rest is refused."""
    on(target)
    with nothing_stays():
        lend_one(target, layout)


def lend_one(target, layout):
    """Lend a layout to a framework."""
    lease = gpulend.from_host(NUMBERS)[LAYOUTS[layout]]
    wanted = NUMBERS[LAYOUTS[layout]]
    if refusal(target, lease, layout):
        return
    lent = lease.lend(target)
    assert tuple(lent.shape) == wanted.shape
    if wanted.size:
        assert address_of(target, lent) == lease.address
    if not (target == "numba" and layout == "backwards"):  # it cannot copy that out
        assert np.array_equal(values_of(target, lent), wanted)


def refusal(target, lease, layout):
    """Tell whether a framework cannot take a layout, having seen that it is refused by name."""
    codes = {
        ("torch", "backwards"): (306,),
        ("jax", "backwards"): (306,),
        ("jax", "strided"): (355, 356),
        ("jax", "rows"): (355,),
        ("jax", "one"): (355,),
    }.get((target, layout), ())
    if target == "jax" and layout in ("rows", "one") and not lease.address % (16 if REAL else 64):
        return False
    if not codes:
        return False
    with pytest.raises(gpulend.ExportError, match="copy=True") as caught:
        lease.lend(target)
    assert caught.value.code in codes
    copied = lease.lend(target, copy=True)
    assert np.array_equal(values_of(target, copied), NUMBERS[LAYOUTS[layout]])
    assert address_of(target, copied) != lease.address
    return True


@pytest.mark.parametrize("target", sorted({"numpy", "torch", "cupy"}.intersection(TARGETS)))
def test_writes_are_seen_on_both_sides(target):
    """The memory is one: what either side writes, the other reads."""
    on(target)
    lease = gpulend.from_host(NUMBERS)
    lent = lease.lend(target)
    lent[1, 2] = 99.0
    assert lease.to_host()[1, 2] == 99.0
    lease[3].copy_from(np.zeros(6, np.float32))
    gpulend.synchronize()
    assert values_of(target, lent)[3].tolist() == [0.0] * 6


@pytest.mark.parametrize("target", TARGETS)
def test_read_only_is_kept_or_refused(target):
    """Where arrays cannot be read-only the loan is refused, unless the alias is accepted."""
    on(target)
    lease = gpulend.from_host(NUMBERS).as_readonly()
    if target in ("torch", "cupy", "numba"):
        with pytest.raises(gpulend.ExportError, match="allow_writable_alias") as caught:
            lease.lend(target)
        assert caught.value.code == 301
        lent = lease.lend(target, allow_writable_alias=True)
        assert address_of(target, lent) == lease.address
    else:
        lent = lease.lend(target)
        assert address_of(target, lent) == lease.address
        if target == "numpy":
            assert not lent.flags.writeable
        if target == "cuda.core":
            assert lent.readonly


@pytest.mark.parametrize("target", TARGETS)
def test_a_copy_is_memory_of_its_own(target):
    """`copy=True` is asked for by those who want to write, or to drop the lease."""
    on(target)
    lease = gpulend.from_host(NUMBERS)
    copied = lease.lend(target, copy=True)
    assert address_of(target, copied) != lease.address
    lease.copy_from(np.zeros((4, 6), np.float32))
    lease.release()
    assert np.array_equal(values_of(target, copied), NUMBERS)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64", "bfloat16"]
)
@pytest.mark.parametrize("target", TARGETS)
def test_types_are_kept_or_refused(target, dtype):
    """A type that a framework lacks is an error that names the bits, never another type (law 7)."""
    module = on(target)
    if target == "jax" and dtype in ("int64", "float64") and not module.config.jax_enable_x64:
        pytest.skip("this JAX makes 32 bits of 64")
    lease = gpulend.zeros((2, 3), dtype)
    if dtype == "bfloat16" and target in ("cuda.core", "numba"):
        with pytest.raises(gpulend.ExportError, match="view") as caught:
            lease.lend(target)
        assert caught.value.code == 305
        return
    lent = lease.lend(target)
    assert address_of(target, lent) == lease.address
    assert gpulend.borrow(lent).dtype == dtype


@only_real
def test_numpy_is_refused_on_a_real_gpu():
    """The host cannot read that memory: the error names the copy."""
    with pytest.raises(gpulend.ExportError, match="to_host"):
        gpulend.zeros(4, "float32").lend("numpy")


@only_simulated
def test_frameworks_of_the_cpu_take_the_lease_itself():
    """Without our help too: by DLPack, the buffer protocol and the array interface."""
    torch, jax = need("torch"), need("jax")
    lease = gpulend.from_host(NUMBERS)
    assert torch.from_dlpack(lease).data_ptr() == lease.address
    assert np.from_dlpack(lease).ctypes.data == lease.address
    assert np.asarray(lease).ctypes.data == lease.address
    assert np.array_equal(memoryview(lease), NUMBERS)
    assert jax.dlpack.from_dlpack(lease).unsafe_buffer_pointer() == lease.address


@only_simulated
def test_memory_goes_round_through_a_cpu_framework():
    """A CPU tensor of simulated memory is known for what it is when it comes back."""
    need("torch")
    lease = gpulend.from_host(NUMBERS)
    tensor = lease.lend("torch")
    assert gpulend.describe(tensor).device == "cuda:0"
    back = gpulend.borrow(tensor)
    assert back.address == lease.address
    assert np.array_equal(back.to_host(), NUMBERS)


def test_an_unknown_framework_is_named_with_the_known():
    """A typing mistake must not become an import error."""
    with pytest.raises(gpulend.ProtocolError, match=r"cuda\.core") as caught:
        gpulend.zeros(3).lend("pytorch")
    assert caught.value.code == 254


@pytest.mark.parametrize("target", ["torch", "cupy"] if REAL else ["torch"])
def test_lending_an_immutable_array_warns_once(target):
    """JAX never writes an array again, but marks nothing: who could write it is warned."""
    jax = on("jax")
    on(target)
    from gpulend import adapters

    # A consumer made anew has not warned yet.
    adapters.CONSUMERS.pop(target, None)
    sys.modules.pop(f"gpulend.adapters.{target}", None)
    array = jax.numpy.arange(8, dtype="float32") + 1
    lease = gpulend.borrow(array)
    assert lease.readonly
    with pytest.raises(gpulend.ExportError, match="read-only"):
        lease.copy_from(np.zeros(8, np.float32))
    del lease
    with pytest.warns(UserWarning, match="read-only"):
        first = gpulend.lend(array, target)
    again = gpulend.lend(array, target)
    assert np.array_equal(values_of(target, again), np.arange(1, 9))
    assert address_of(target, first) == array.unsafe_buffer_pointer()


@pytest.mark.parametrize("target", ["torch", "cupy"] if REAL else ["torch"])
@pytest.mark.parametrize("view", ["bits", "slice", "reshape", "transposed"])
def test_a_view_of_an_immutable_array_is_lent_with_the_warning(target, view):
    """A view is of the same array: that nobody but JAX promised not to write it stays known."""
    jax = on("jax")
    on(target)
    from gpulend import adapters

    # A consumer made anew has not warned yet.
    adapters.CONSUMERS.pop(target, None)
    sys.modules.pop(f"gpulend.adapters.{target}", None)
    array = jax.numpy.arange(8, dtype="float32") + 1
    lease = gpulend.borrow(array)
    part = {
        "bits": lambda: lease.view("int32"),
        "slice": lambda: lease[2:],
        "reshape": lambda: lease.reshape(2, 4),
        "transposed": lambda: lease.reshape(2, 4).T,
    }[view]()
    assert part.readonly
    with pytest.warns(UserWarning, match="read-only"):
        lent = part.lend(target)
    assert address_of(target, lent) == part.address
    if view == "bits":
        wanted = np.arange(1, 9, dtype=np.float32).view(np.int32)
        assert np.array_equal(values_of(target, lent), wanted)


def test_jax_arrays_that_stand_for_others_are_refused():
    """Inside jit there is no memory, and a deleted array has none any more (law 8)."""
    jax = on("jax")
    seen = []

    @jax.jit
    def traced(array):
        with pytest.raises(gpulend.ExportError) as caught:
            gpulend.borrow(array)
        seen.append(caught.value.code)
        return array

    traced(jax.numpy.ones(3))
    assert seen == [350]
    array = jax.numpy.ones(3) + 1
    array.delete()
    with pytest.raises(gpulend.ExportError, match="deleted"):
        gpulend.borrow(array)


def test_a_jax_array_stays_while_it_is_lent():
    """`delete()` must not free what another framework reads."""
    jax = on("jax")
    with nothing_stays():
        array = jax.numpy.arange(64, dtype="float32") + 1
        lease = gpulend.borrow(array)
        array.delete()
        for _ in range(20):
            (jax.numpy.zeros(64, "float32") + 7).block_until_ready()
        assert lease.to_host().tolist() == list(range(1, 65))
        del lease, array


@only_simulated
def test_a_jax_of_the_cpu_takes_simulated_memory_of_another_framework():
    """It has no stream to order for, so the producer is asked on the legacy one."""
    on("jax")
    core = need("cuda.core")
    core.Device(0).set_current()
    buffer = core.Device(0).allocate(256, stream=core.LEGACY_DEFAULT_STREAM)
    lent = gpulend.lend(buffer, "jax")
    assert lent.unsafe_buffer_pointer() == int(buffer.handle)
