"""Which path a launch takes, and which reader its torch tensors, by count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpulend
import numpy as np
import pytest
from gpu.resources import REAL, need, only_real, only_simulated
from gpulend import _native

from .arrays import compiled

torch = need("torch")

SOURCE = """
extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
N = 64
FAST, GENERAL = "launch: fast path", "launch: general"
NATIVE, TABLE, DLPACK = "torch: native reader", "torch: exchange table", "torch: __dlpack__"


class Marked(torch.Tensor):  # type: ignore[misc]
    """A class of its own, which goes by DLPack."""


def ones(device: str = "cuda" if REAL else "cpu") -> Any:
    """Return a tensor where kernels reach it: on a simulated GPU one of the host stands in."""
    return torch.ones(N, device=device)


def counted(work: Callable[[], Any]) -> dict[str, int]:
    """Return how often each route was taken in a call."""
    before = _native.route_counts()
    work()
    after = _native.route_counts()
    return {name: count - before[name] for name, count in after.items() if count - before[name]}


def test_leases_take_the_fast_path() -> None:
    """Those of a GPU, with numbers that suit, and whatever the keywords."""
    go = compiled(SOURCE)["add"][1, N]
    with gpulend.Stream():
        a, b, c = (gpulend.full(N, 1, "float32") for _ in range(3))
        go(a, b, c, N)
        assert counted(lambda: go(a, b, c, N)) == {FAST: 1}
        assert counted(lambda: go(a, b, c, N, shared=0)) == {FAST: 1}
        assert counted(lambda: go(a, b, c, np.int64(N))) == {GENERAL: 1}
    assert c.to_host().tolist() == [2.0] * N


@only_real
def test_torch_tensors_take_the_fast_path() -> None:
    """Read by the native reader alone, whichever of torch's streams is current."""
    go = compiled(SOURCE)["add"][1, N]
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            a, b, c = ones(), ones(), ones()
            go(a, b, c, N)
            assert counted(lambda: go(a, b, c, N)) == {FAST: 1, NATIVE: 3}  # noqa: B023
            assert c.tolist() == [2.0] * N


@only_simulated
def test_torch_tensors_of_the_host_take_the_general_path() -> None:
    """Which waits for the kernel: nothing else keeps the memory of a stand-in meanwhile."""
    go = compiled(SOURCE)["add"][1, N]
    a, b, c = ones(), ones(), ones()
    go(a, b, c, N)
    assert counted(lambda: go(a, b, c, N)) == {GENERAL: 1, NATIVE: 3}
    assert c.tolist() == [2.0] * N


@pytest.mark.parametrize("native", [True, False])
def test_without_the_native_reader_the_table_serves(native: bool) -> None:
    """With the same result."""
    go = compiled(SOURCE)["add"][1, N]
    a, b, c = ones(), ones(), ones()
    _native._reroute(native)
    try:
        go(a, b, c, N)
        counts = counted(lambda: go(a, b, c, N))
    finally:
        _native._reroute(True)
    assert counts[NATIVE if native else TABLE] == 3
    assert (NATIVE in counts, TABLE in counts) == (native, not native)
    assert c.tolist() == [2.0] * N


def test_a_subclass_takes_the_general_path() -> None:
    """By DLPack, and the others as before."""
    go = compiled(SOURCE)["add"][1, N]
    a, b, c = ones(), ones().as_subclass(Marked), ones()
    go(a, b, c, N)
    counts = counted(lambda: go(a, b, c, N))
    assert (counts[GENERAL], counts[DLPACK]) == (1, 1)
    assert FAST not in counts
    assert c.tolist() == [2.0] * N


class Shrinking:
    """A number whose code takes the memory of a tensor away, and gives most of it back."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.address, self.same = tensor, tensor.data_ptr(), False

    def __index__(self) -> int:
        """Return the number."""
        storage = self.tensor.untyped_storage()
        less = storage.nbytes() - 1024
        storage.resize_(0)
        storage.resize_(less)
        self.same = self.tensor.data_ptr() == self.address
        return N


@only_simulated
def test_a_tensor_that_shrinks_in_place_is_not_launched_on() -> None:
    """Its address may be the one that was read: the allocator hands the block out again."""
    go = compiled(SOURCE)["add"][1, N]
    a, b = ones(), ones()
    same = 0
    for _ in range(100):
        count = Shrinking(torch.ones(1 << 14))
        with pytest.raises(gpulend.ProtocolError, match="got other memory"):
            go(a, b, count.tensor, count)
        same += count.same
    if same == 0:
        pytest.skip("this allocator never handed the block out again")
