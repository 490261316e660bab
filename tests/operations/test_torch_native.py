"""Which calls of torch's operations go past the dispatcher, and that they come out the same."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gpulend
import pytest
from gpulend import _native

from .conftest import need
from .kernels import ADD_TO, BIAS_GELU_BACKWARD, COPY, REPEAT, ROWS, SCALE, SPLIT, kernel
from .test_torch import DEVICE, differentiable_scale, numbers, op

torch = need("torch")
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402  torch is there
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

NATIVE, DISPATCHER = "torch operation: native", "torch operation: dispatcher"


def routes(work: Callable[[], Any]) -> tuple[Any, tuple[int, int]]:
    """Return what a call returns, and how many went past the dispatcher and to it."""
    before = _native.route_counts()
    result = work()
    after = _native.route_counts()
    return result, (after[NATIVE] - before[NATIVE], after[DISPATCHER] - before[DISPATCHER])


class Marked(torch.Tensor):  # type: ignore[misc]
    """A class of its own."""


class Watching(TorchDispatchMode):  # type: ignore[misc]
    """Sees every operation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Note what is called, and call it."""
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


class Doubling(TorchFunctionMode):  # type: ignore[misc]
    """Doubles all results of operations."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call it, and double."""
        return function(*args, **(kwargs or {})) * 2


def test_plain_tensors_go_past_the_dispatcher() -> None:
    """By every name of the operation, with outputs and rules of every kind, compiled too."""
    scale, x = op("scale", **SCALE), numbers(2, 5)
    packet = scale._overloadpacket
    compiled = torch.compile(scale, fullgraph=True, backend="aot_eager")
    compiled(x, 3.0)
    for call in (scale, packet, compiled):
        found, taken = routes(lambda call=call: call(x, 3.0))
        assert taken == (1, 0)
        torch.testing.assert_close(found, x * 3)
    some = torch.arange(4, dtype=torch.int32, device=DEVICE)
    others = {
        "split": (SPLIT, (x,)),
        "rows": (ROWS, (x,)),
        "copy": (COPY, (x, 2)),
        "repeat": (REPEAT, (some, 3, True)),
        "add_to": (ADD_TO, (x.clone(), x)),
        "bias_gelu_backward<float>": (BIAS_GELU_BACKWARD, (x, numbers(5), x)),
    }
    for name, (description, given) in others.items():
        made = op(name, **description)
        found, taken = routes(lambda made=made, given=given: made(*given))
        assert taken == (1, 0), name
        if name != "add_to":
            torch.testing.assert_close(found, made._op.__wrapped__(*given))


def test_compiled_code_goes_past_the_dispatcher() -> None:
    """What Inductor writes calls the operation as a program does."""
    scale = differentiable_scale()
    compiled = torch.compile(lambda x: scale(scale(x, 2.0), 3.0), fullgraph=True)
    x = numbers(7)
    compiled(x)
    found, taken = routes(lambda: compiled(x))
    assert taken == (2, 0)
    torch.testing.assert_close(found, x * 6)


# A state, and which of the two routes a call of `scale(x, 3.0)` takes in it.
STATES: dict[str, tuple[Callable[[], Any], bool]] = {
    "nothing": (nullcontext, True),
    "no_grad": (torch.no_grad, True),
    "inference_mode": (torch.inference_mode, True),
    "below autograd": (torch._C._AutoDispatchBelowAutograd, True),
    "autocast": (lambda: torch.autocast(DEVICE, dtype=torch.bfloat16), False),
    "dispatch mode": (Watching, False),
    "function mode": (Doubling, False),
    "default device": (lambda: torch.device(DEVICE), False),
    "profiler": (lambda: torch.autograd.profiler.profile(use_kineto=False), False),
    "fake": (lambda: FakeTensorMode(allow_non_fake_inputs=True), False),
    "anomaly": (torch.autograd.detect_anomaly, True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("state", STATES)
def test_whoever_looks_on_is_asked(state: str) -> None:
    """A state of the thread that the dispatcher would see decides; one that it would not, not."""
    enter, native = STATES[state]
    scale, x = differentiable_scale(), numbers(4)
    with enter() as entered:
        found, (past, asked) = routes(lambda: scale(x, 3.0))
    # A mode that is asked may call the operation again, outside of itself.
    assert (past, asked) == (1, 0) if native else asked >= 1
    if state == "dispatch mode":
        assert entered.seen.count(scale) == 1
    elif state == "profiler":
        assert scale._schema.name in {event.name for event in entered.function_events}
    elif state == "fake":
        assert type(found).__name__ == "FakeTensor"
    if state != "fake":
        torch.testing.assert_close(found, x * (6 if state == "function mode" else 3))
    assert found.is_inference() == (state == "inference_mode")
    assert routes(lambda: scale(x, 3.0))[1] == (1, 0)


TENSORS: dict[str, tuple[Callable[[], Any], bool]] = {
    "plain": (lambda: numbers(4), True),
    "frozen Parameter": (lambda: torch.nn.Parameter(numbers(4), False), True),
    "view": (lambda: numbers(3, 4)[1], True),
    "requires grad": (lambda: numbers(4, requires_grad=True), False),
    "negative": (lambda: torch._neg_view(numbers(4)), False),
    "subclass": (lambda: numbers(4).as_subclass(Marked), False),
    "no element": (lambda: numbers(0), False),
    "meta": (lambda: numbers(4).to("meta"), False),
    "functional": (lambda: torch._to_functional_tensor(numbers(4)), False),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_what_is_no_plain_tensor_goes_to_the_dispatcher(kind: str) -> None:
    """And comes out as torch has it."""
    make, native = TENSORS[kind]
    scale, x = differentiable_scale(), make()
    found, (past, asked) = routes(lambda: scale(x, 3.0))
    # A subclass calls the operation again, for its own tensors.
    assert (past, asked > 0) == (int(native), not native)
    assert type(found) is (Marked if kind == "subclass" else torch.Tensor)
    assert found.requires_grad == (kind == "requires grad")
    if kind not in ("meta", "functional"):
        torch.testing.assert_close(found.as_subclass(torch.Tensor), torch.clone(x) * 3)


def test_transformations_go_to_the_dispatcher() -> None:
    """Each wraps tensors or sets a key."""
    scale, x = differentiable_scale(), numbers(3, 4)
    mapped, (past, asked) = routes(lambda: torch.func.vmap(lambda row: scale(row, 3.0))(x))
    assert (past, asked > 0) == (0, True)
    torch.testing.assert_close(mapped, x * 3)
    plain, (past, asked) = routes(lambda: torch.func.functionalize(lambda x: scale(x, 3.0))(x))
    assert asked > 0
    torch.testing.assert_close(plain, x * 3)
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda x: scale(x, 3.0))(x)
    assert scale in {node.target for node in traced.graph.nodes}


@pytest.mark.parametrize(
    "arguments",
    [
        lambda x: ((x, 3), {}),
        lambda x: ((x, True), {}),
        lambda x: ((x,), {"by": 3.0}),
        lambda x: ((x, torch.tensor(3.0)), {}),
        lambda x: ((x,), {}),
        lambda x: ((x, 3.0, 4.0), {}),
        lambda x: ((x, "3"), {}),
        lambda x: (([1.0], 3.0), {}),
        lambda x: ((None, 3.0), {}),
        lambda x: ((), {}),
    ],
)
def test_other_arguments_are_torchs_to_convert_or_refuse(arguments: Any) -> None:
    """With torch's own words."""
    scale, x = op("scale", **SCALE), numbers(4)
    given, named = arguments(x)

    def outcome(call: Any) -> Any:
        try:
            return call(*given, **named).tolist()
        except (RuntimeError, TypeError, ValueError) as error:
            return type(error), str(error).partition("\n")[0]

    found, taken = routes(lambda: outcome(scale))
    assert taken == (0, 1)
    assert found == outcome(scale._op.__wrapped__)


# What a launch refuses, and what is said in both routes.
REFUSED: dict[str, Callable[[], tuple[Any, ...]]] = {
    "element type": lambda: (numbers(4).double(), 2.0),
    "strides": lambda: (numbers(3, 4).T, 2.0),
    "range": lambda: (numbers(4), 1e300),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_mistakes_have_one_name(mistake: str) -> None:
    """Before anything is queued; nothing of the call is kept."""
    scale, given = op("scale", **SCALE), REFUSED[mistake]()
    said = []
    for call in (scale, scale._op.__wrapped__):
        with pytest.raises(gpulend.SignatureError) as caught:
            call(*given)
        said.append((caught.value.code, str(caught.value)))
    assert said[0] == said[1]
    before = sys.getrefcount(given[0])
    for _ in range(50):
        with pytest.raises(gpulend.SignatureError):
            scale(*given)
    del caught
    gc.collect()
    assert sys.getrefcount(given[0]) <= before


def test_nothing_of_a_call_is_kept() -> None:
    """Neither arguments nor results; a result dies with its last name."""
    scale, x = op("scale", **SCALE), numbers(1000)
    split = op("split", **SPLIT)
    scale(x, 2.0), split(x)
    before = sys.getrefcount(x)
    kept = [scale(x, 2.0) for _ in range(20)] + [split(x) for _ in range(20)]
    assert sys.getrefcount(x) == before
    assert [sys.getrefcount(one) for one in kept] == [sys.getrefcount(object()) + 2] * 40
    if DEVICE == "cuda":
        del kept
        used = torch.cuda.memory_allocated()
        for _ in range(100):
            scale(x, 2.0)
        assert torch.cuda.memory_allocated() == used


def test_a_write_is_counted_once_past_the_dispatcher() -> None:
    """As through it."""
    add_to, x, y = op("add_to", **ADD_TO), numbers(4), numbers(4)
    _, taken = routes(lambda: add_to(x, y))
    assert taken == (1, 0)
    assert (x._version, y._version) == (1, 0)


def test_each_thread_has_its_own_state() -> None:
    """A mode of one is none of another."""
    scale, x = op("scale", **SCALE), numbers(4)
    entered, leave = threading.Event(), threading.Event()
    inside: list[Any] = []

    def work() -> None:
        with Watching() as mode:
            entered.set()
            leave.wait(30)
            scale(x, 3.0)
            inside.extend(mode.seen)

    other = threading.Thread(target=work)
    other.start()
    entered.wait(30)
    assert routes(lambda: scale(x, 3.0))[1] == (1, 0)
    leave.set()
    other.join()
    assert inside.count(scale) == 1
    with Watching() as mode:
        alone: list[Any] = []
        other = threading.Thread(target=lambda: alone.append(routes(lambda: scale(x, 3.0))[1]))
        other.start()
        other.join()
    assert alone == [(1, 0)]
    assert mode.seen == []


def test_what_torch_asks_of_its_own_function_is_answered() -> None:
    """Some versions take its hash for that of the operation."""
    scale = op("scale", **SCALE)
    for one in (scale, scale._overloadpacket):
        assert hash(one._op) == hash(one._op.__wrapped__)
        assert one._op.__name__ == one._op.__wrapped__.__name__
    assert {scale: 1}[scale] == 1
    with pytest.raises(AttributeError):
        scale._op.no_such_name


@pytest.mark.filterwarnings("ignore")
def test_scripts_find_the_operation() -> None:
    """Torch looks for what it calls for an operation, and refers to it weakly."""
    scale = gpulend.torch.op("gpulend_tests::scripted", kernel("scale"), **SCALE)

    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.gpulend_tests.scripted(x, 3.0)

    x = numbers(4)
    for made in (torch.jit.script(call), torch.jit.trace(call, (x,))):
        torch.testing.assert_close(made(x), scale(x, 3.0))


PROGRAM = """
import gpulend, torch
from gpulend import _native
from gpulend.adapters import torch as adapter
from operations.kernels import SCALE, kernel
prove = adapter.dispatch_proof
{wrong}
scale = gpulend.torch.op("gpulend_tests::proof", kernel("scale"), **SCALE)
device = "cuda" if torch.cuda.is_available() else "cpu"
assert scale(torch.ones(3, device=device), 2.0).tolist() == [2.0] * 3
assert scale(torch.ones(3, device=device), by=2.0).tolist() == [2.0] * 3
print(type(scale._op).__name__, _native.route_counts()["torch operation: native"])
"""
WRONG = {
    "keys of the thread": """
        adapter.dispatch_proof = lambda look, tensors: prove(lambda: ([1, 0], False), tensors)""",
    "a mode": """
        adapter.dispatch_proof = lambda look, given: prove(lambda: (look()[0], False), given)""",
    "keys of a tensor": """
        def other(look, tensors):
            usual, keys = prove(look, tensors)
            return usual, [*keys[:-1], keys[-1] + 1]
        adapter.dispatch_proof = other""",
    "a function that is missing": "del torch._C._dispatch_keys",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_without_a_proof_all_goes_to_the_dispatcher(wrong: str) -> None:
    """One difference is enough, and the operation works."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(wrong=textwrap.dedent(WRONG[wrong]))],
        cwd=Path(__file__).parents[1],
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    kind, native = ended.stdout.split()
    assert (kind != "TorchOperation", native) == (True, "0")
