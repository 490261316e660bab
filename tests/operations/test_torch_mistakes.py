"""Operations of torch used wrongly: errors with a name, before anything is queued, compiled or "
"not."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from typing import Any

import gpulend
import pytest

from .conftest import need
from .kernels import ADD_TO, BIAS_GELU, ROWS, SCALE, SOURCE, kernel, one_each
from .test_torch import DEVICE, differentiable_scale, numbers, op

torch = need("torch")


def compiled(function: Any) -> Any:
    """Return it as one graph."""
    return torch.compile(function, fullgraph=True, backend="aot_eager")


# What an operation is given, and what is said.
WRONG: dict[str, tuple[Any, str]] = {
    "element type": (
        lambda: (numbers(4).double(), 2.0),
        r"scale: argument 1 \(x\) is a float64 array, and the kernel wants const float\*; "
        r"convert it \(x.to\(torch.float32\)\)",
    ),
    "strides": (
        lambda: (numbers(3, 4).T, 2.0),
        r"scale: argument 1 \(x\) has shape \[4, 3\] and strides \[1, 4\] and is not contiguous",
    ),
    "range of a number": (
        lambda: (numbers(4), 1e300),
        r"scale: argument 3 \(by\) is 1e300, which is infinite as float",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_an_error_has_a_name(mistake: str) -> None:
    """That of a launch, in a compiled program too; the next call works."""
    make, said = WRONG[mistake]
    scale = op("scale", **SCALE)
    with pytest.raises(gpulend.Error, match=said):
        scale(*make())
    # What is known while torch traces is said then, inside an error of torch's.
    with pytest.raises((gpulend.Error, RuntimeError), match=said):
        compiled(lambda x, by: scale(x, by))(*make())
    assert torch.equal(
        compiled(scale)(torch.ones(3, device=DEVICE), 2.0).cpu(), torch.full((3,), 2.0)
    )


def test_types_are_checked_while_torch_traces() -> None:
    """Where tensors have no memory, and nothing is launched."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    scale = op("scale", **SCALE)
    assert scale(torch.ones(4, device="meta"), 2.0).shape == (4,)
    with FakeTensorMode(), pytest.raises(gpulend.SignatureError, match="is a float64 array"):
        scale(torch.ones(4, dtype=torch.float64, device=DEVICE), 2.0)


def test_what_has_no_backward_says_so() -> None:
    """When it is differentiated, and not before."""
    scale = op("scale", **SCALE)
    y = scale(numbers(4, requires_grad=True), 2.0)
    with pytest.raises(
        gpulend.SignatureError, match="has no backward; give backward= to"
    ) as caught:
        y.sum().backward()
    assert caught.value.code == 851
    once = differentiable_scale()
    x = numbers(4, requires_grad=True)
    (gradient,) = torch.autograd.grad(once(x, 2.0).square().sum(), x, create_graph=True)
    with pytest.raises(gpulend.SignatureError, match="has no backward"):
        (gradient * gradient).sum().backward()


@pytest.mark.parametrize("which", [0, 1])
def test_autograd_does_not_lose_what_is_changed_in_place(which: int) -> None:
    """Neither the array that is changed nor one that it is changed by may require a gradient."""
    add_to = op("add_to", **ADD_TO)
    given = [numbers(4), numbers(4)]
    given[which] = numbers(4, requires_grad=True)
    name = "xy"[which]
    said = rf"{name} requires grad, and the operation changes x in place.*no_grad.*{name}.detach"
    before = [one.clone() for one in given]
    for call in (add_to, compiled(add_to)):
        with pytest.raises((gpulend.SignatureError, RuntimeError), match=said):
            call(*given)
    assert all(torch.equal(*pair) for pair in zip(given, before, strict=True))
    add_to(*[one.detach() for one in given])
    torch.testing.assert_close(given[0].detach(), before[0].detach() + before[1].detach())


def test_vmap_is_refused_by_name() -> None:
    """Where the description says so, and where arrays would be changed in place."""
    plain, changing = op("scale", vmap=None, **SCALE), op("add_to", **ADD_TO)
    with pytest.raises(gpulend.SignatureError, match=r"cannot be called inside vmap.*vmap=None"):
        torch.func.vmap(plain, (0, None))(numbers(3, 4), 2.0)
    with pytest.raises(
        gpulend.SignatureError, match=r"cannot be called inside vmap.*changed in place"
    ):
        torch.func.vmap(changing)(numbers(3, 4), numbers(3, 4))


def test_nothing_is_launched_for_nothing() -> None:
    """Empty outputs are empty, types are checked all the same, and no output stays unwritten."""
    scale = op("scale", **SCALE)
    assert scale(numbers(0, 3), 2.0).shape == (0, 3)
    with pytest.raises(gpulend.SignatureError, match="is a float64 array"):
        scale(numbers(0).double(), 2.0)
    rows = op("rows", **ROWS)
    assert rows(numbers(0, 3)).shape == (0,)
    whole = one_each("x", outputs={"y": (2,)})
    with pytest.raises(
        gpulend.SignatureError, match=r"the launch is empty.*output y of shape \(2,\)"
    ):
        op("scale", **whole)(numbers(0), 2.0)
    assert op("scale", zeroed="y", **whole)(numbers(0), 2.0).tolist() == [0, 0]
    in_place = op("add_to", **ADD_TO)
    assert in_place(numbers(0), numbers(0)) is None


def test_a_rule_that_does_not_suit_a_shape_says_which() -> None:
    """And what it was asked about."""
    rows = op("rows", **ROWS)
    said = r"the block cannot be computed for float32\[3\]: IndexError: tuple index out of range"
    with pytest.raises(gpulend.SignatureError, match=said) as caught:
        rows(numbers(3))
    assert caught.value.code == 851
    with pytest.raises(gpulend.KernelError, match=r"rows.*grid"):
        op("rows", **{**ROWS, "grid": -1})(numbers(2, 3))


@pytest.mark.usefixtures("mistaken")
@pytest.mark.skipif(DEVICE == "cuda", reason="a real GPU's context would be lost")
def test_a_kernel_that_goes_wrong_is_named_in_a_compiled_program() -> None:
    """By the call itself, as a launch on stand-ins does; the next call works."""
    outside = op("outside", **one_each("x", outputs={"y": "x"}))
    for call in (outside, compiled(outside)):
        with pytest.raises(gpulend.KernelError, match="outside"):
            call(numbers(4))
    assert op("scale", **SCALE)(torch.ones(1), 2.0).tolist() == [2.0]


def test_threads_call_one_operation() -> None:
    """Forward and backward, each thread its own tensors."""
    scale = differentiable_scale()
    wrong: list[str] = []

    def work(by: int) -> None:
        for _ in range(50):
            x = torch.full((100,), float(by), requires_grad=True, device=DEVICE)
            y = scale(x, float(by))
            y.sum().backward()
            if y[0].item() != by * by or x.grad[-1].item() != by:
                wrong.append(f"{by}: {y[0].item()}")

    threads = [threading.Thread(target=work, args=(by,)) for by in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_operation_keeps_its_kernel() -> None:
    """Kernel and module may go out of scope; operations live as long as the process."""
    made = gpulend.compile(SOURCE.replace("x[i] * by", "x[i] * by + 1"))
    scale = gpulend.torch.op("gpulend_tests::kept", made["scale"], **SCALE)
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is not None
    assert scale(torch.ones(2, device=DEVICE), 2.0).tolist() == [3.0, 3.0]


def test_what_a_tensor_means_is_kept() -> None:
    """Torch itself resolves conjugate and negative bits before it calls an operation."""
    scale = op("scale", **SCALE)
    x = numbers(4)
    for call in (scale, compiled(scale)):
        torch.testing.assert_close(call(torch._neg_view(x), 2.0), x * -2)
    with pytest.raises(NotImplementedError, match="Sparse"):
        scale(x.to_sparse(), 2.0)


def test_a_kernel_inside_a_compiled_program_is_no_operation() -> None:
    """Which torch says, and the page about torch explains."""
    scale = kernel("scale")

    def direct(x: Any) -> Any:
        scale[1, 4](x, x, 2.0, 4)
        return x

    with pytest.raises(torch._dynamo.exc.Unsupported, match="Kernel"):
        compiled(direct)(numbers(4))


def test_wrong_bias() -> None:
    """A kernel that reads past a short array is the description's to prevent: it has the shapes."""

    def size(x: Any, bias: Any) -> int:
        if x.shape[-1] != bias.size:
            raise ValueError(f"x has {x.shape[-1]} columns, and bias has {bias.size} elements")
        return int(x.size)

    fused = op("bias_gelu<float>", **{**BIAS_GELU, "elements": size})
    with pytest.raises(gpulend.SignatureError, match="x has 4 columns, and bias has 3 elements"):
        fused(numbers(2, 4), numbers(3))


EXIT = """
import gpulend, torch
from operations.kernels import SCALE, kernel
scale = gpulend.torch.op("gpulend_tests::exit", kernel("scale"), **SCALE)
device = "cuda" if torch.cuda.is_available() else "cpu"
stream = gpulend.Stream()
with stream:
    lease = gpulend.full(1 << 16, 2, "float32")
    for _ in range(20):
        kernel("scale").forall(1 << 16)(lease, lease, 1.0, 1 << 16)
kept = scale(lease.lend("torch"), 2.0)
for _ in range(20):
    kept = scale(kept, 1.0)
"""


def test_a_program_may_end_while_operations_are_queued() -> None:
    """On memory that is lent, and that other work still uses."""
    from pathlib import Path

    folder = Path(__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", EXIT], cwd=folder, timeout=60, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "size", [{"elements": 0}, {"elements": (0, 4)}, {"grid": (1, 0), "block": 8}]
)
def test_an_output_that_nothing_writes_is_refused(size: dict[str, Any]) -> None:
    """However the launch says that it is empty."""
    description = {**SCALE, "elements": None, "outputs": {"y": (5,)}, **size}
    with pytest.raises(gpulend.SignatureError, match="the launch is empty"):
        op("scale", **description)(numbers(3), 2.0)
