"""Launches and torch's autograd: what is read or not recorded is taken, and writes are counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import gpulend
import numpy as np
import pytest
from gpu.resources import REAL, need
from gpulend import _native

from .arrays import compiled

torch = need("torch")

SOURCE = """
extern "C" __global__ void scale(const float *x, float *y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void both(float *x, const float *y, float *z) {
    x[threadIdx.x] = z[threadIdx.x] = y[threadIdx.x];
}
"""
N = 64
DEVICE = "cuda" if REAL else "cpu"


class Marked(torch.Tensor):  # type: ignore[misc]
    """A class of its own, which goes by DLPack."""


@pytest.fixture(params=["native reader", "exchange table"], autouse=True)
def _route(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test by both routes of a tensor of exactly torch's types."""
    _native._reroute(request.param == "native reader")
    yield
    _native._reroute(True)


def ones(**settings: Any) -> Any:
    """Return a tensor where kernels reach it."""
    return torch.ones(N, device=DEVICE, **settings)


KINDS = {
    "leaf": lambda: ones(requires_grad=True),
    "result": lambda: ones(requires_grad=True) * 1,
    "parameter": lambda: torch.nn.Parameter(ones()),
    "subclass": lambda: ones(requires_grad=True).as_subclass(Marked),
}
OFF = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
KEYWORDS: list[dict[str, Any]] = [{}, {"shared": 0}]


@pytest.mark.parametrize("keywords", KEYWORDS, ids=["plain", "keywords"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["recording", *OFF])
def test_what_a_kernel_only_reads_may_require_a_gradient(
    mode: str, kind: str, keywords: dict[str, Any]
) -> None:
    """It loses nothing: the kernel's result is no tensor of autograd's anyway."""
    x, y = KINDS[kind](), ones()
    go = compiled(SOURCE)["scale"][1, N]
    with OFF.get(mode, nullcontext)():
        for _ in range(2):
            go(x, y, 3.0, N, **keywords)
    assert y.tolist() == [3.0] * N
    assert x.requires_grad


@pytest.mark.parametrize("keywords", KEYWORDS, ids=["plain", "keywords"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", OFF)
def test_what_a_kernel_writes_may_require_a_gradient_where_none_is_recorded(
    mode: str, kind: str, keywords: dict[str, Any]
) -> None:
    """As torch's own operations in place: an optimiser's step."""
    x = KINDS[kind]()
    with OFF[mode]():
        compiled(SOURCE)["twice"][1, N](x, **keywords)
    assert x.tolist() == [2.0] * N


@pytest.mark.parametrize("keywords", KEYWORDS, ids=["plain", "keywords"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_write_that_autograd_would_miss_is_refused_by_argument(
    kind: str, keywords: dict[str, Any]
) -> None:
    """Kernel, number and name of the argument, and what to do instead, which works."""
    x, y = ones(), KINDS[kind]()
    go = compiled(SOURCE)["scale"][1, N]
    go(x, ones(), 3.0, N)
    said = r"^scale: argument 2 \(y\): .*requires grad.*no_grad\(\).*detach\(\).*const"
    for _ in range(2):
        with pytest.raises(gpulend.ExportError, match=said) as caught:
            go(x, y, 3.0, N, **keywords)
        assert caught.value.code == 350
    assert y.tolist() == [1.0] * N
    go(x, y.detach(), 3.0, N, **keywords)
    assert y.tolist() == [3.0] * N


def test_other_refusals_name_the_argument_too() -> None:
    """Of tensors that mean more than their memory."""
    go = compiled(SOURCE)["scale"][1, N]
    negated = torch._neg_view(ones())
    with pytest.raises(gpulend.ExportError, match=r"^scale: argument 1 \(x\): .*negative"):
        go(negated, ones(), 1.0, N)


def test_a_function_of_autograd_launches_on_what_it_is_given() -> None:
    """In `forward` and in `backward`."""

    class Scale(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(_context: Any, x: Any) -> Any:
            y = torch.empty_like(x)
            compiled(SOURCE)["scale"][1, N](x, y, 3.0, N)
            return y

        @staticmethod
        def backward(_context: Any, gradient: Any) -> Any:
            y = torch.empty_like(gradient)
            compiled(SOURCE)["scale"][1, N](gradient.contiguous(), y, 3.0, N)
            return y

    x = ones(requires_grad=True)
    Scale.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0] * N


def test_a_custom_operation_launches_on_what_it_is_given() -> None:
    """Which torch calls with tensors that require a gradient."""

    @torch.library.custom_op("gpulend_tests::scale", mutates_args=())  # type: ignore[misc]
    def scale(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        compiled(SOURCE)["scale"][1, N](x, y, 3.0, N)
        return y

    assert scale(ones(requires_grad=True)).tolist() == [3.0] * N


# What is written: a tensor, and the argument by which that is.
WRITTEN = {
    "tensor": lambda tensor: tensor,
    "view": lambda tensor: tensor.view(8, 8),
    "detached": lambda tensor: tensor.detach(),
    "lease": gpulend.borrow,
    "part of a lease": lambda tensor: gpulend.borrow(tensor).reshape(8, 8)[:],
    "subclass": lambda tensor: tensor.as_subclass(Marked),
}


@pytest.mark.parametrize("written", WRITTEN)
def test_a_tensor_that_was_saved_and_is_overwritten_is_noticed(written: str) -> None:
    """By `backward`, as after an operation of torch's own in place."""
    saved = ones()
    weight = ones(requires_grad=True)
    loss = (saved * weight).sum()
    compiled(SOURCE)["twice"][1, N](WRITTEN[written](saved))
    assert saved.tolist() == [2.0] * N
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("keywords", KEYWORDS, ids=["plain", "keywords"])
def test_each_launch_counts_what_it_may_write_and_nothing_else(keywords: dict[str, Any]) -> None:
    """Once, whichever way the launch goes."""
    x, y = ones(), ones()
    go = compiled(SOURCE)["scale"][1, N]
    for count in range(1, 4):
        go(x, y, 3.0, N, **keywords)
        assert (x._version, y._version) == (0, count)
    with pytest.raises(gpulend.SignatureError):
        go(x, y, 3.0, **keywords)
    assert (x._version, y._version) == (0, 3)


def test_every_tensor_that_a_launch_may_write_is_counted() -> None:
    """Not the first alone."""
    x, y, z = ones(), ones(), ones()
    compiled(SOURCE)["both"][1, N](x, y, z)
    assert [tensor._version for tensor in (x, y, z)] == [1, 0, 1]


def test_what_has_no_count_is_written_all_the_same() -> None:
    """Tensors of inference mode, inside and outside of it."""
    with torch.inference_mode():
        x = ones()
        compiled(SOURCE)["twice"][1, N](x)
    compiled(SOURCE)["twice"][1, N](x)
    compiled(SOURCE)["twice"][1, N](gpulend.borrow(x))
    assert x.tolist() == [8.0] * N


def test_copies_into_a_tensor_are_counted() -> None:
    """From and to a lease."""
    x, source = ones(), gpulend.full(N, 5, "float32")
    source.copy_to(x)
    assert (x._version, x.tolist()) == (1, [5.0] * N)
    gpulend.borrow(x).copy_from(gpulend.full(N, 6, "float32"))
    assert (x._version, x.tolist()) == (2, [6.0] * N)
    source.copy_from(x)
    assert x._version == 2


def test_copies_judge_a_gradient_as_launches_do() -> None:
    """What is only read is taken, what is written where nothing is recorded."""
    weight = ones(requires_grad=True)
    lease = gpulend.zeros(N, "float32")
    lease.copy_from(weight)
    assert lease.to_host().tolist() == [1.0] * N
    assert gpulend.empty_like(weight).shape == (N,)
    assert gpulend.describe(weight).address == weight.data_ptr()
    twos = gpulend.full(N, 2, "float32")
    with pytest.raises(gpulend.ExportError, match=r"requires grad.*no_grad\(\)"):
        twos.copy_to(weight)
    with torch.no_grad():
        twos.copy_to(weight)
    np.testing.assert_array_equal(weight.tolist(), [2.0] * N)
