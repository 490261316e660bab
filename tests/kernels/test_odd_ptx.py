"""Correct kernels that the compiler turns into PTX which is easily taken for a mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .harness import Kernel

SOURCE = """
struct Pair { double first; float second; };
struct Many { int values[8]; };

__device__ __noinline__ int pick(Many many, int index) { return many.values[index]; }

extern "C" __global__ void by_value(const int* from, int* out, int index) {
    Many many;
    for (int k = 0; k < 8; ++k) many.values[k] = from[k];
    out[threadIdx.x] = pick(many, index);
}

extern "C" __global__ void padding(Pair* out) {
    __shared__ Pair tile[32];
    tile[threadIdx.x].first = threadIdx.x;
    tile[threadIdx.x].second = 1.0f;
    __syncthreads();
    out[threadIdx.x] = tile[31 - threadIdx.x];
}

extern "C" __global__ void perhaps(int* out, int use) {
    __shared__ int tile[32];
    if (use) tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int value = -1;
    if (use) value = tile[31];
    out[threadIdx.x] = value;
}

__shared__ int unused_there[32];
__shared__ int bias;

__device__ __noinline__ int nested(int n) {
    if (n <= 0) return bias;
    return nested(n - 1) * 3 + nested(n - 2);
}

extern "C" __global__ void recursion(int* out) {
    unused_there[threadIdx.x] = 100 + threadIdx.x;
    if (threadIdx.x == 0) bias = 1;
    __syncthreads();
    out[threadIdx.x] = nested(2) + unused_there[31 - threadIdx.x];
}

extern "C" __global__ void specialised(int* out) {
    __shared__ int tile[32];
    if (threadIdx.x < 32) {
        tile[threadIdx.x] = threadIdx.x;
        asm volatile("bar.sync 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[threadIdx.x - 32] = tile[63 - threadIdx.x];
    }
}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the kernels to a file."""
    file = tmp_path_factory.mktemp("review") / "review.cu"
    file.write_text(SOURCE)
    return file


def test_a_structure_by_value_is_indexed_in_the_function(source: Path) -> None:
    """Its parameter's address is one of local memory."""
    start, out = np.arange(10, 18, dtype=np.int32), np.zeros(4, np.int32)
    Kernel(source, "by_value").launch(1, 4, start, out, 5)
    assert out.tolist() == [15] * 4


def test_a_structure_is_copied_with_its_padding(source: Path) -> None:
    """Nobody writes the padding, and nobody looks at it."""
    out = np.zeros(32, np.dtype([("first", "f8"), ("second", "f4"), ("padding", "f4")]))
    Kernel(source, "padding").launch(1, 32, out)
    assert out["first"].tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize("use", [0, 1])
def test_a_load_is_done_before_it_is_known_to_be_wanted(source: Path, use: int) -> None:
    """The compiler loads first and chooses then."""
    out = np.zeros(32, np.int32)
    Kernel(source, "perhaps").launch(1, 32, out, use)
    assert out.tolist() == [31 if use else -1] * 32


def test_recursion_reads_the_kernels_shared_variable(source: Path) -> None:
    """The function names one of two variables, the kernel both."""
    out = np.zeros(32, np.int32)
    Kernel(source, "recursion").launch(1, 32, out)
    assert out.tolist() == [13 + 131 - thread for thread in range(32)]


def test_warps_meet_at_a_named_barrier_from_two_branches(source: Path) -> None:
    """PTX asks for one place within a warp alone."""
    out = np.zeros(32, np.int32)
    Kernel(source, "specialised").launch(1, 64, out)
    assert out.tolist() == list(range(31, -1, -1))
