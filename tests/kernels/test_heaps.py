"""Memory that kernels allocate and free."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_size_t, c_uint64, c_void_p

import numpy as np
import pytest
from driver.control import only_simulated
from driver.cuda import SIMULATED, check, cu
from driver.resources import value

from .harness import CORPUS, Bare, Kernel, fault_sentences, on_device, ptx_of

MIB = 1 << 20
HEAP_SIZE = 2  # CU_LIMIT_MALLOC_HEAP_SIZE
INVALID_VALUE = 1


def test_each_thread_makes_and_frees_lists() -> None:
    """Blocks on several host threads allocate at once."""
    out = np.zeros(64 * 96, np.int32)
    Kernel("heaps.cu", "lists").launch(64, 96, out, 9)
    np.testing.assert_array_equal(out, 9 * np.arange(len(out)) + 36)


def test_blocks_outlive_their_kernel() -> None:
    """Another kernel uses them, a third frees them."""
    n = 4 * 128
    blocks, out = np.zeros(n, np.uint64), np.zeros(n, np.int32)
    Kernel("heaps.cu", "make_blocks").launch(4, 128, blocks)
    assert len(set(blocks.tolist()) - {0}) == n
    assert not (blocks % np.uint64(16)).any()
    Kernel("heaps.cu", "use_blocks").launch(4, 128, blocks, out, n)
    lengths = np.arange(n) % 50 + 1
    sums = np.arange(n) * lengths + lengths * (lengths - 1) // 2
    np.testing.assert_array_equal(out, sums[::-1])
    Kernel("heaps.cu", "free_blocks").launch(4, 128, blocks, n)


def test_a_block_shares_memory_that_one_thread_allocated() -> None:
    """With barriers around."""
    out = np.zeros((3, 64), np.int32)
    Kernel("heaps.cu", "block_memory").launch(3, 64, out)
    assert (out == np.arange(64)[::-1] * 3).all()


def test_new_and_virtual_destructors() -> None:
    """Each object is ended by its own class."""
    out, count = np.zeros(6 * 32, np.int32), np.zeros(1, np.int32)
    Kernel("heaps.cu", "animals").launch(6, 32, out, count)
    insects = np.arange(6 * 32) % 3 == 0
    np.testing.assert_array_equal(out, np.where(insects, 6, 2))
    assert count[0] == insects.sum() * 1000 + (~insects).sum()


@contextmanager
def own_context() -> Iterator[None]:
    """Make a context and end it, with all that its kernels allocated."""
    before = value(c_void_p, cu.cuCtxGetCurrent)
    context = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    try:
        yield
    finally:
        check(cu.cuCtxDestroy_v2(context))
        check(cu.cuCtxSetCurrent(before))


def here(name: str) -> Bare:
    """Load a kernel into the current context."""
    kernel = Bare.__new__(Bare)
    kernel.name = name
    text = ptx_of(CORPUS / "heaps.cu").encode() + b"\0"
    kernel.module = value(c_void_p, cu.cuModuleLoadData, text)
    kernel.function = value(c_void_p, cu.cuModuleGetFunction, kernel.module, name.encode())
    return kernel


# Hardware has no heap of less than 4 MiB, whatever it is told.
@pytest.mark.parametrize("limit", [None, 2 * MIB if SIMULATED else 16 * MIB])
def test_the_heap_ends_at_its_limit_and_all_that_is_freed_comes_back(limit: int | None) -> None:
    """8 MiB, unless the context says otherwise."""
    with own_context():
        if limit is None:
            limit = value(c_size_t, cu.cuCtxGetLimit, HEAP_SIZE)
            assert limit == 8 * MIB
        else:
            check(cu.cuCtxSetLimit(HEAP_SIZE, limit))
        # Hardware's heap takes minutes to give one thread a hundred thousand small blocks.
        for size in (100_000, 64 if SIMULATED else 4096):
            out = np.zeros(3, np.int32)
            here("exhaust").launch(1, 1, out, size)
            # A real driver has tables of its own there.
            assert limit * 0.4 <= out[0] * size <= limit, (size, out)
            assert abs(int(out[0]) - int(out[1])) <= out[0] // 10
            assert out[2] == 1


def _free() -> int:
    free = c_size_t()
    check(cu.cuMemGetInfo_v2(byref(free), None))
    return free.value


@only_simulated
@pytest.mark.usefixtures("mistaken")
def test_the_heaps_size_is_fixed_by_its_first_kernel_and_ends_with_its_context() -> None:
    """What was not freed too."""
    before = _free()
    with own_context():
        check(cu.cuCtxSetLimit(HEAP_SIZE, 4 * MIB))
        kernel = here("make_blocks")
        loaded = _free()
        check(cu.cuCtxSetLimit(HEAP_SIZE, 2 * MIB))
        kernel.launch(1, 32, np.zeros(32, np.uint64))
        assert _free() == loaded - 2 * MIB
        assert cu.cuCtxSetLimit(HEAP_SIZE, 4 * MIB) == INVALID_VALUE
        assert value(c_size_t, cu.cuCtxGetLimit, HEAP_SIZE) == 2 * MIB
    assert _free() == before


@only_simulated
@pytest.mark.usefixtures("mistaken")
def test_the_host_cannot_copy_or_free_what_a_kernel_allocated() -> None:
    """Each call is refused, and the block stays."""
    blocks = np.zeros(8, np.uint64)
    Bare(CORPUS / "heaps.cu", "make_blocks").launch(1, 8, blocks)
    address, host = int(blocks[5]), np.zeros(1, np.int32)
    assert cu.cuMemcpyDtoH_v2(host.ctypes.data, address, 4) == INVALID_VALUE
    assert cu.cuMemcpyHtoD_v2(address, host.ctypes.data, 4) == INVALID_VALUE
    assert cu.cuMemsetD8_v2(address, 0, 4) == INVALID_VALUE
    assert cu.cuMemFree_v2(address) == INVALID_VALUE
    assert cu.cuPointerGetAttribute(byref(c_uint64()), 1, address) == INVALID_VALUE
    assert cu.cuMemGetAddressRange_v2(None, byref(c_size_t()), address) != 0
    count = len(fault_sentences())
    out = np.zeros(8, np.int32)
    Bare(CORPUS / "heaps.cu", "use_blocks").launch(1, 8, blocks, out, 8)
    assert out[2] == sum(5 + k for k in range(6))
    Bare(CORPUS / "heaps.cu", "free_blocks").launch(1, 8, blocks, 8)
    assert len(fault_sentences()) == count


@only_simulated
@pytest.mark.usefixtures("mistaken")
def test_a_block_that_another_kernel_freed_is_gone() -> None:
    """Use and free of it are mistakes of the later kernel, if its space is not in use again."""
    blocks = np.zeros(8, np.uint64)
    kernels = {
        name: Bare(CORPUS / "heaps.cu", name)
        for name in ("make_blocks", "use_blocks", "free_blocks")
    }
    kernels["make_blocks"].launch(1, 8, blocks)
    kernels["free_blocks"].launch(1, 8, blocks, 8)
    with on_device(blocks, np.zeros(8, np.int32)) as (first, out):
        words = (np.uint64(first), np.uint64(out), np.int32(8))
        check(kernels["use_blocks"].start(1, 8, *words))
        assert cu.cuCtxSynchronize() == 700
        assert "which a kernel has freed" in fault_sentences()[-1]
        check(kernels["free_blocks"].start(1, 8, words[0], words[2]))
        assert cu.cuCtxSynchronize() == 719
        assert "which was freed already" in fault_sentences()[-1]
