"""Kernels as operations of torch: results, gradients, compiled and exported programs, batches."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from .conftest import REAL, need
from .kernels import (
    ADD_TO,
    BIAS_GELU,
    BIAS_GELU_BACKWARD,
    COPY,
    HALVES,
    RAISED,
    RAISED_BACKWARD,
    REPEAT,
    ROWS,
    SCALE,
    SCALE_BACKWARD,
    SPLIT,
    kernel,
    one_each,
)

torch = need("torch")
import gpulend.torch  # noqa: E402  torch is there

DEVICE = "cuda" if REAL else "cpu"
_names = (f"gpulend_tests::op{number}" for number in itertools.count())


def op(name: str, **description: Any) -> Any:
    """Make an operation under a name of its own."""
    return gpulend.torch.op(next(_names), kernel(name), **description)


def bias_gelu(of: str = "float") -> Any:
    """Return the fused operation with its backward."""
    backward = op(f"bias_gelu_backward<{of}>", **BIAS_GELU_BACKWARD)
    return op(f"bias_gelu<{of}>", backward=backward, **BIAS_GELU)


def differentiable_scale(**settings: Any) -> Any:
    """Return x * by with its backward."""
    return op("scale", backward=op("scale_backward", **SCALE_BACKWARD), **SCALE, **settings)


def numbers(*shape: int, dtype: Any = None, **settings: Any) -> Any:
    """Return the same tensor for the same shape."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)
    return made.to(DEVICE).requires_grad_(settings.get("requires_grad", False))


class Graphs:
    """A backend that counts the graphs it is given, and shows what is in them."""

    def __init__(self) -> None:
        self.nodes: list[list[str]] = []

    def __call__(self, graph: Any, _inputs: Any) -> Any:
        """Take a graph as it is."""
        self.nodes.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward


def own(x: Any, bias: Any) -> Any:
    """Do what the fused kernel does, with torch's own operations."""
    return torch.nn.functional.gelu(x + bias)


def test_schemas_follow_from_signatures() -> None:
    """Outputs are returned, values are not asked for, and what is written is marked."""
    schemas = {
        "scale": (SCALE, "(Tensor x, float by) -> Tensor"),
        "add_to": (ADD_TO, "(Tensor(a0!) x, Tensor y) -> ()"),
        "copy": (COPY, "(Tensor in_, SymInt is_) -> Tensor"),
        "split": (SPLIT, "(Tensor x) -> (Tensor, Tensor)"),
        "repeat": (REPEAT, "(Tensor x, SymInt times, bool negate) -> Tensor"),
    }
    for name, (description, schema) in schemas.items():
        assert str(op(name, **description)._schema).partition("(")[2] == schema[1:]


def test_outputs_have_the_shapes_and_types_that_are_described() -> None:
    """Rules see arrays and numbers by name; the grid, the block and shared memory too."""
    x = numbers(3, 5)
    whole, signs = op("split", **SPLIT)(x)
    assert torch.equal(whole, x.floor())
    assert (signs.dtype, signs.shape) == (torch.int32, (15,))
    assert torch.equal(signs, torch.where(x < 0, -1, 1).flatten())
    some = torch.arange(4, dtype=torch.int32, device=DEVICE)
    repeated = op("repeat", **REPEAT)(some, 3, True)
    assert torch.equal(repeated, -some[:, None].expand(4, 3))
    torch.testing.assert_close(op("rows", **ROWS)(x), x.sum(1))
    torch.testing.assert_close(op("copy", **COPY)(x, is_=2), x + 2)
    described = one_each("x", outputs={"y": "x"}, values={"pair": bytes([3, 0, 0, 0, 1, 0, 0, 0])})
    assert torch.equal(op("paired", **described)(some), some * 3 + 1)


def test_gradients_are_those_of_torch() -> None:
    """Of x and of the bias, by a second kernel."""
    fused = bias_gelu()
    for shape in [(7, 5), (1, 1), (2, 3, 5)]:
        ours, theirs = [], []
        for function, kept in ((fused, ours), (own, theirs)):
            x, bias = numbers(*shape, requires_grad=True), numbers(shape[-1], requires_grad=True)
            y = function(x, bias)
            (y * y.detach().cos()).sum().backward()
            kept += [y, x.grad, bias.grad]
        torch.testing.assert_close(ours, theirs)


def test_a_backward_takes_the_forward_s_output() -> None:
    """Which torch keeps for it."""
    raised = op("raised", backward=op("raised_backward", **RAISED_BACKWARD), **RAISED)
    for call in (raised, torch.compile(raised, fullgraph=True, backend="aot_eager")):
        x = numbers(5, requires_grad=True)
        call(x).sum().backward()
        torch.testing.assert_close(x.grad, x.detach().exp())


def test_elements_of_16_bits_and_numbers_in_memory() -> None:
    """A tensor without axes, and one of bools."""
    x = numbers(6).to(torch.bfloat16)
    which = x > 0
    by = torch.tensor(2.0, device=DEVICE)
    wanted = torch.where(which, x * 2, x)
    assert torch.equal(op("halves", **HALVES)(x, by, which), wanted)


def test_gradcheck() -> None:
    """Against differences of the function itself, with double precision."""
    fused = bias_gelu("double")
    x, bias = numbers(3, 4, dtype=torch.float64), numbers(4, dtype=torch.float64)
    assert torch.autograd.gradcheck(fused, (x.requires_grad_(), bias.requires_grad_()))


def test_a_backward_of_python() -> None:
    """As torch.library.register_autograd takes it."""
    scale = op(
        "scale",
        backward=lambda ctx, gradient: (gradient * ctx.by, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
        **SCALE,
    )
    x = numbers(4, requires_grad=True)
    scale(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3.0] * 4


OPCHECKED = {
    "functional": (lambda: op("scale", **SCALE), lambda: (numbers(5), 2.0)),
    "differentiable": (differentiable_scale, lambda: (numbers(5, requires_grad=True), 2.0)),
    "in place": (lambda: op("add_to", **ADD_TO), lambda: (numbers(5), numbers(5))),
    "two outputs": (lambda: op("split", **SPLIT), lambda: (numbers(3, 2),)),
    "integers": (
        lambda: op("repeat", **REPEAT),
        lambda: (torch.arange(3, dtype=torch.int32, device=DEVICE), 2, True),
    ),
    "grid and shared memory": (lambda: op("rows", **ROWS), lambda: (numbers(4, 3),)),
    "fused": (bias_gelu, lambda: (numbers(4, 3, requires_grad=True), numbers(3))),
    "empty": (lambda: op("scale", **SCALE), lambda: (numbers(0, 3), 2.0)),
}


@pytest.mark.parametrize("kind", OPCHECKED)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_opcheck(kind: str) -> None:
    """Schema, autograd, fake tensors and compiled graphs, by torch's own test of operations."""
    make, arguments = OPCHECKED[kind]
    found = torch.library.opcheck(make(), arguments())
    assert set(found.values()) == {"SUCCESS"}


def test_no_graph_break_and_no_wait_for_a_number() -> None:
    """One graph, in which the operation is one node, and nothing asks a tensor for its value."""
    fused, add_to = bias_gelu(), op("add_to", **ADD_TO)
    graphs = Graphs()

    @torch.compile(fullgraph=True, backend=graphs)
    def step(x: Any, bias: Any) -> Any:
        y = fused(x * 2, bias)
        add_to(y, x)
        return y + 1

    x, bias = numbers(4, 3), numbers(3)
    torch.testing.assert_close(step(x, bias), own(x * 2, bias) + x + 1)
    (nodes,) = graphs.nodes
    assert sum(node.startswith("gpulend_tests.") for node in nodes) == 2
    assert not [node for node in nodes if "item" in node or "scalar" in node]


def test_one_graph_for_all_shapes() -> None:
    """Shapes are symbols in the fake operation, and numbers in the real one."""
    fused, graphs = bias_gelu(), Graphs()
    compiled = torch.compile(fused, fullgraph=True, dynamic=True, backend=graphs)
    for rows, columns in ((4, 3), (9, 7), (2, 5), (31, 2)):
        x, bias = numbers(rows, columns), numbers(columns)
        torch.testing.assert_close(compiled(x, bias), own(x, bias))
    assert len(graphs.nodes) == 1


class Model(torch.nn.Module):  # type: ignore[misc]
    """Two layers, between them the operation."""

    def __init__(self, activation: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(4, 8, bias=False)
        self.bias = torch.nn.Parameter(torch.zeros(8))
        self.second = torch.nn.Linear(8, 1)
        self.activation = activation
        self.to(DEVICE)

    def forward(self, x: Any) -> Any:
        """Fit something smooth."""
        return self.second(self.activation(self.first(x), self.bias))


def train(activation: Any, backend: str | None) -> list[float]:
    """Return the losses of a few steps."""
    model = Model(activation)
    forward = model if backend is None else torch.compile(model, fullgraph=True, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    x = numbers(64, 4)
    wanted = x.square().sum(1, keepdim=True).sin()
    losses = []
    for _ in range(12):
        loss = (forward(x) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_model_trains_in_a_compiled_program() -> None:
    """Forward and backward are compiled, and each loss is that of torch's own operations."""
    losses = train(bias_gelu(), "aot_eager")
    torch.testing.assert_close(losses, train(own, None), rtol=1e-4, atol=1e-5)
    assert losses[-1] < losses[0] * 0.9


@pytest.mark.filterwarnings("ignore")
def test_torch_s_own_compiler() -> None:
    """What it makes of the rest of a program gives the operation the strides that were traced."""
    fused, found = bias_gelu(), []
    compiled = torch.compile(lambda x, bias: fused((x * 2).T.contiguous(), bias), fullgraph=True)
    for function in (compiled, lambda x, bias: own(x.T * 2, bias)):
        x, bias = numbers(3, 4, requires_grad=True), numbers(3, requires_grad=True)
        y = function(x, bias)
        y.backward(torch.ones_like(y))
        found.append([y, x.grad, bias.grad])
    torch.testing.assert_close(*found)


def test_export() -> None:
    """The program has the operation, for any number of rows."""

    class Fused(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.fused = bias_gelu()

        def forward(self, x: Any, bias: Any) -> Any:
            return self.fused(x, bias)

    x, bias = numbers(4, 3), numbers(3)
    shapes = ({0: torch.export.Dim.DYNAMIC}, None)
    program = torch.export.export(Fused(), (x, bias), dynamic_shapes=shapes)
    assert "gpulend_tests" in str(program.graph)
    longer = numbers(9, 3)
    torch.testing.assert_close(program.module()(longer, bias), own(longer, bias))


@pytest.mark.parametrize("method", ["sequential", "broadcast_all"])
def test_vmap(method: str) -> None:
    """Over any axis, with arguments that have none; two outputs, and no element at all."""
    scale = op("scale", vmap=method, **SCALE)
    for axis, shape in ((0, (3, 4)), (1, (4, 3)), (-1, (2, 2, 5)), (0, (0, 4))):
        x = numbers(*shape)
        mapped = torch.func.vmap(scale, in_dims=(axis, None), out_dims=axis)
        torch.testing.assert_close(mapped(x, 2.0), x * 2)
    split = op("split", vmap="sequential", **SPLIT)
    x = numbers(3, 4)
    whole, signs = torch.func.vmap(split)(x)
    assert torch.equal(whole, x.floor())
    assert signs.shape == (3, 4)
    bias = numbers(4)
    product = op("raised_backward", vmap=method, **RAISED_BACKWARD)
    torch.testing.assert_close(torch.func.vmap(product, (0, None))(x, bias), x * bias)
    torch.testing.assert_close(torch.func.vmap(product, (None, 0))(bias, x), x * bias)
    fused = op("bias_gelu<float>", **BIAS_GELU)
    torch.testing.assert_close(torch.func.vmap(fused, (0, None))(x, bias), own(x, bias))


def test_a_write_is_counted_once_and_seen_by_backward() -> None:
    """As torch's own operations in place."""
    add_to = op("add_to", **ADD_TO)
    x, y = numbers(4), numbers(4)
    weight = numbers(4, requires_grad=True)
    loss = (x * weight).sum()
    add_to(x, y)
    assert (x._version, y._version) == (1, 0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_an_optimizer_writes_parameters_where_nothing_is_recorded() -> None:
    """Under no_grad and inference_mode, eager and compiled."""
    add_to = op("add_to", **ADD_TO)
    for mode in (torch.no_grad, torch.inference_mode):
        weight = torch.nn.Parameter(numbers(4))
        wanted = weight.detach() * 3
        step = torch.compile(add_to, fullgraph=True, backend="aot_eager")
        with mode():
            add_to(weight, weight.clone())
            step(weight, wanted / 3)
        torch.testing.assert_close(weight.detach(), wanted)


class Asked:
    """Counts how often torch goes below autograd, and so asks the dispatcher a second time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        below = torch._C._AutoDispatchBelowAutograd

        def counted() -> Any:
            self.times += 1
            return below()

        monkeypatch.setattr(torch._C, "_AutoDispatchBelowAutograd", counted)


def test_what_requires_no_grad_is_dispatched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain tensor, and a parameter while nothing is recorded."""
    scale, asked = differentiable_scale(), Asked(monkeypatch)
    x = numbers(5)
    torch.testing.assert_close(scale(x, 3.0), x * 3)
    with torch.no_grad():
        assert not scale(numbers(5, requires_grad=True), 3.0).requires_grad
    assert asked.times == 0
    # That the counter counts at all.
    y = scale(numbers(5, requires_grad=True), 3.0)
    assert y.requires_grad
    assert asked.times > 0


def test_modes_and_wrapped_tensors_see_the_operation() -> None:
    """Modes, fake tensors and functional tensors come between autograd and the launch."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    scale, x = differentiable_scale(), numbers(5)
    seen = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    with Watching():
        scale(x, 3.0)
    assert seen.count(scale) == 1
    with FakeTensorMode() as fake:
        found = scale(fake.from_tensor(x), 3.0)
    assert isinstance(found, FakeTensor)
    torch.testing.assert_close(torch.func.functionalize(lambda x: scale(x, 3.0))(x), x * 3)
