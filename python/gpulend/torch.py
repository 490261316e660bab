"""Kernels as operations of torch: `gpulend.torch.op`.

>>> import gpulend, torch
>>> source = '''
... extern "C" __global__ void scale(const float *x, float *y, float by, int n) {
...     int i = blockIdx.x * blockDim.x + threadIdx.x;
...     if (i < n) y[i] = x[i] * by;
... }
... '''
>>> kernel = gpulend.compile(source)["scale"]
>>> scale = gpulend.torch.op(
...     "gpulend_docs::scale", kernel, outputs={"y": "x"}, values={"n": "x"}, elements="x"
... )
>>> device = "cuda" if torch.cuda.is_available() else "cpu"
>>> compiled = torch.compile(scale, fullgraph=True, backend="eager")
>>> compiled(torch.ones(3, device=device), 2.0).tolist()
[2.0, 2.0, 2.0]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch.jit._builtins import _register_builtin
from torch.library import register_autograd, register_vmap

from gpulend import _native
from gpulend._codes import OPERATION, OPERATION_USE
from gpulend._native import Kernel
from gpulend.exceptions import SignatureError
from gpulend.operations import (
    Array,
    Compiled,
    Description,
    Output,
    Pair,
    Rule,
    extents,
    has_none,
    pair,
)

__all__ = ["op"]

# Torch types its functions less than its users'.
_library: Any = torch.library.Library
_Key: Any = torch._C.DispatchKey

_NAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)", re.ASCII)
# How torch's schemas call what is no array.
_SCHEMA = {"integer": "SymInt", "float": "float", "bool": "bool"}

# What the dispatcher knows of plain tensors of the host and of a GPU when it calls autograd. All
# else (fake and functional tensors, subclasses, modes) has a key between that and the launch.
# A torch that does not show key sets as numbers has none that is plain.
_PLAIN = 0
if hasattr(torch._C.DispatchKeySet, "raw_repr"):
    for _key in (
        *(_Key.CPU, _Key.CUDA, _Key.AutogradCPU, _Key.AutogradCUDA),
        # Of every call, and registered for none of ours.
        *(_Key.ADInplaceOrView, _Key.BackendSelect),
    ):
        _PLAIN |= torch._C.DispatchKeySet(_key).raw_repr()

# A library that is dropped takes its operations with it.
_LIBRARIES: dict[str, Any] = {}
_OPERATIONS: dict[torch._ops.OpOverload, Description] = {}


class _Names(dict[torch.dtype, str]):
    """The names of element types, each made once."""

    def __missing__(self, dtype: torch.dtype) -> str:
        name = self[dtype] = str(dtype).removeprefix("torch.")
        return name


_names = _Names()


def op(
    name: str,
    kernel: Kernel,
    *,
    outputs: Mapping[str, Rule] | None = None,
    values: Mapping[str, Any] | None = None,
    elements: Rule | None = None,
    grid: Rule | None = None,
    block: Rule | None = None,
    shared: Rule = 0,
    dtypes: Mapping[str, str] | None = None,
    zeroed: Iterable[str] = (),
    backward: torch._ops.OpOverload | Callable[..., Any] | None = None,
    setup_context: Callable[..., None] | None = None,
    vmap: Literal["sequential", "broadcast_all"] | None = "sequential",
) -> torch._ops.OpOverload:
    """Register a kernel as an operation of torch, and return it.

    The operation takes the kernel's parameters in their order, without `outputs` and `values`, and
    returns its outputs. It works with `torch.compile`, `torch.export`, autograd and `vmap`. Arrays
    that the kernel may write and that are no outputs are changed in place.

    `outputs` gives each output its shape, `values` each number that the caller does not give.
    `elements` is how many threads are needed, one an element, or `grid` and `block` say it. Each
    is a constant, the name of an array (its shape, or how many elements it has), or a function of
    inputs by their names: `lambda x: x.shape[0]`, with `in_` for `in`. Numbers come as they are,
    arrays with `shape`, `size`, `ndim` and `dtype`. Elements of outputs have the type of the
    pointer; a `void *` has none, so `dtypes` names it or an input. Outputs in
    `zeroed` are filled with zeros first.

    `backward` is another operation of this function, whose parameters are found by name: inputs and
    outputs of the forward, `grad_y` for an output `y`, and results `grad_x` for an input `x`. Or it
    is a function, with `setup_context`, as `torch.library.register_autograd` takes them.

    `vmap` launches once for each element of a batch ("sequential"), or once for all, with every
    array given the batch as its first axis ("broadcast_all"); None refuses it.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise SignatureError(
            f"an operation of torch is called {name!r}; give a namespace and a name: "
            "'mylib::scale'",
            OPERATION,
        )
    described = Description(
        name,
        kernel,
        outputs=outputs,
        values=values,
        elements=elements,
        grid=grid,
        block=block,
        shared=shared,
        dtypes=dtypes,
        zeroed=zeroed,
    )
    for output in described.outputs:
        _dtype(described, output.parameter.name, output.dtype)
    if vmap not in ("sequential", "broadcast_all", None):
        raise SignatureError(
            f"{name}: vmap={vmap!r}; give 'sequential', 'broadcast_all' or None", OPERATION
        )
    derivative, setup = _derivative(described, backward, setup_context)
    namespace, word = found.groups()
    if hasattr(getattr(torch.ops, namespace), word):
        raise SignatureError(
            f"{name}: torch has an operation of this name already; operations live as long as the "
            "process, so choose another name, or keep the first one",
            OPERATION,
        )
    launch = _launching(described)
    library = _Registry(namespace, launch, described)
    # As it is when it is traced, so that compiled code does not choose other strides.
    tags = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
    library.define(_schema(described, word), tags=tags)
    made: torch._ops.OpOverload = getattr(getattr(torch.ops, namespace), word).default
    for key in ("CPU", "CUDA"):
        library.impl(word, launch, key)
    library._register_fake(word, _faking(described))
    if described.mutated:
        library.impl(word, _unrecorded(described, made), "Autograd")
    else:
        register_autograd(made, derivative, setup_context=setup, lib=library)
    register_vmap(made, _batching(described, made, vmap), lib=library)
    _shorten(described, made)
    _LIBRARIES[name] = library
    _OPERATIONS[made] = described
    return made


class _Registry(_library):  # type: ignore[misc]
    """A library of torch's whose operation is launched at once where nothing requires grad."""

    def __init__(self, namespace: str, launch: Callable[..., Any], described: Description) -> None:
        super().__init__(namespace, "FRAGMENT")
        self._launch = launch
        self._arrays = [place for place, one in enumerate(described.inputs) if one.role == "array"]

    def impl(self, name: str, function: Callable[..., Any], key: str = "", **more: Any) -> None:
        """Register an implementation; that of `register_autograd` only for what needs it."""
        if _PLAIN and key == "Autograd" and more.get("with_keyset"):
            function = self._unless_plain(function)
        super().impl(name, function, key, **more)

    def _unless_plain(self, recorded: Callable[..., Any]) -> Callable[..., Any]:
        # Torch's function asks the dispatcher a second time, which takes as long as the first.
        launch, arrays, special = self._launch, self._arrays, ~_PLAIN

        def call(keys: Any, *arguments: Any) -> Any:
            if keys.raw_repr() & special:
                return recorded(keys, *arguments)
            if torch.is_grad_enabled():
                for place in arrays:
                    if arguments[place].requires_grad:
                        return recorded(keys, *arguments)
            return launch(*arguments)

        return call


def _dtype(described: Description, output: str, name: str | None) -> torch.dtype | None:
    """Return torch's element type of a name."""
    if name is None:
        return None
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise SignatureError(
            f"{described.what}: the output {output} has elements of {name!r}, which torch does "
            "not have",
            OPERATION,
        )
    return dtype


def _schema(described: Description, word: str) -> str:
    arguments = []
    for one in described.inputs:
        if one.role == "array":
            mark = f"(a{one.position}!)" if one.written else ""
            arguments.append(f"Tensor{mark} {one.word}")
        else:
            arguments.append(f"{_SCHEMA[one.role]} {one.word}")
    results = ", ".join(["Tensor"] * len(described.outputs))
    if len(described.outputs) != 1:
        results = f"({results})"
    return f"{word}({', '.join(arguments)}) -> {results}"


class _Given:
    """What rules see of arguments, made when they look."""

    __slots__ = ("_arguments",)

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._arguments = arguments

    def __getitem__(self, place: int) -> Any:
        one = self._arguments[place]
        return Array(one.shape, _names[one.dtype]) if isinstance(one, torch.Tensor) else one


def _bound(rule: Compiled) -> Callable[[Sequence[Any]], Any]:
    """Return a rule as a function of the arguments themselves."""
    if not rule.places:
        constant = rule.function()
        return lambda _: constant
    place = rule.places[0]
    if rule.asks == "size":
        return lambda arguments: arguments[place].numel()
    if rule.asks == "shape":
        return lambda arguments: arguments[place].shape
    return lambda arguments: rule(_Given(arguments))


def _making(described: Description, output: Output) -> Callable[[Sequence[Any]], Any]:
    """Return a function that makes an output: a real one, or a fake one where tensors are fake."""
    fixed = _dtype(described, output.parameter.name, output.dtype)
    alike = output.shape.places[0] if output.shape.asks else None
    first, shape = described.inputs.index(described.arrays[0]), _bound(output.shape)
    like, zeroed = output.like, output.zeroed

    def make(arguments: Sequence[Any]) -> Any:
        dtype = arguments[like].dtype if fixed is None else fixed
        # Half as long as a shape and a type take torch.
        if alike is not None and arguments[alike].dtype is dtype:
            make_like = torch.zeros_like if zeroed else torch.empty_like
            return make_like(arguments[alike], memory_format=torch.contiguous_format)
        near = arguments[first]
        make_new = near.new_zeros if zeroed else near.new_empty
        return make_new(extents(shape(arguments)), dtype=dtype)

    return make


def _allocating(described: Description) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that makes all outputs."""
    made = [_making(described, output) for output in described.outputs]
    return lambda arguments: [make(arguments) for make in made]


def _returned(results: list[Any]) -> Any:
    if len(results) == 1:
        return results[0]
    return tuple(results) if results else None


def _places(described: Description) -> list[int]:
    """Return where a launch, in the kernel's own order, finds inputs, then outputs, then values."""
    names = [one.name for one in described.inputs]
    names += [one.parameter.name for one in described.outputs]
    return [[*names, *described.values].index(one.name) for one in described.parameters]


def _launching(described: Description) -> Callable[..., Any]:
    """Return the operation on real tensors: it makes the outputs and launches."""
    kernel, allocate = described.kernel, _allocating(described)
    rules = [_bound(rule) for rule in described.values.values()]
    places = _places(described)
    elements = None if described.elements is None else _bound(described.elements)
    grid, block = (None, None) if described.extents is None else map(_bound, described.extents)
    shared = _bound(described.shared)

    def launch(*arguments: Any) -> Any:
        launcher: Any
        if grid is None or block is None:
            assert elements is not None
            count = elements(arguments)
            empty = has_none(count)
            launcher = None if empty else kernel.forall(count)
        else:
            blocks = grid(arguments)
            empty = has_none(blocks)
            launcher = None if empty else kernel[blocks, block(arguments)]
        results = allocate(arguments)
        if empty:
            _check(described, arguments)
            described.check_empty([result.shape for result in results])
        else:
            held = [*arguments, *results, *[rule(arguments) for rule in rules]]
            passed = [held[place] for place in places]
            dynamic = shared(arguments)
            if dynamic:
                launcher(*passed, shared=dynamic)
            else:
                launcher(*passed)
        return _returned(results)

    return launch


def _shorten(described: Description, made: Any) -> None:
    """Have calls of an operation on plain tensors launch at once, where this torch is known.

    What torch calls for an operation from Python is replaced by what looks at the arguments, and
    calls torch's own unless the dispatcher would go to our launch alone.
    """
    like = [
        output.shape.places[0]
        if output.shape.asks and (output.dtype is not None or output.shape.places[0] == output.like)
        else None
        for output in described.outputs
    ]
    outputs = [
        (place, output.dtype, output.zeroed, _making(described, output))
        for place, output in zip(like, described.outputs, strict=True)
    ]
    size = (described.elements,) if described.extents is None else described.extents
    for one in (made, made._overloadpacket):
        native = _native.torch_operation(
            described.kernel,
            [one.role for one in described.inputs],
            outputs,
            [_told(rule) for rule in described.values.values()],
            _places(described),
            [_told(rule) for rule in size if rule is not None],
            _told(described.shared),
            _PLAIN,
            one._op,
        )
        if native is None:
            return
        one._op = native
    # Scripts find an operation by what torch calls for it.
    _register_builtin(made._overloadpacket._op, made._schema.name)


def _told(rule: Compiled) -> tuple[str, Any]:
    """Return a rule as a launch without Python takes it, if it is one that needs none."""
    if not rule.places:
        return "constant", rule.function()
    if rule.asks == "size":
        return "size", rule.places[0]
    return "function", _bound(rule)


def _faking(described: Description) -> Callable[..., Any]:
    """Return the operation on fake tensors: what torch asks while it traces and compiles."""
    allocate = _allocating(described)

    def fake(*arguments: Any) -> Any:
        _check(described, arguments)
        return _returned(allocate(arguments))

    return fake


def _check(described: Description, arguments: Sequence[Any]) -> None:
    """Raise what a launch would raise about the types and devices of tensors."""
    for one, argument in zip(described.inputs, arguments, strict=True):
        if one.role == "array":
            device = argument.device
            place = str(device if device.type != "meta" else described.kernel.module.device)
            # Its extents may be symbols, and only a launch needs them.
            _native.check_array(
                described.kernel, one.position, _names[argument.dtype], [0], place, torch.Tensor
            )


Derivative = tuple[Callable[..., Any], Callable[..., None] | None]


def _derivative(
    described: Description,
    backward: torch._ops.OpOverload | Callable[..., Any] | None,
    setup_context: Callable[..., None] | None,
) -> Derivative:
    """Return backward and setup_context as torch takes them."""
    known = _OPERATIONS.get(backward) if isinstance(backward, torch._ops.OpOverload) else None
    if backward is not None and described.mutated:
        raise SignatureError(
            f"{described.what}: what changes an array in place ({described.mutated[0].name}) has "
            "no backward; write to an output instead",
            OPERATION,
        )
    if setup_context is not None and (backward is None or known is not None):
        raise SignatureError(
            f"{described.what}: setup_context= is for a Python function as backward=", OPERATION
        )
    if known is not None and isinstance(backward, torch._ops.OpOverload):
        return _paired(described, backward, known, pair(described, known))
    if callable(backward):
        return backward, setup_context
    if backward is not None:
        raise SignatureError(
            f"{described.what}: backward= is a {type(backward).__name__}; give an operation of "
            "gpulend.torch.op, or a function",
            OPERATION,
        )

    def refuse(_context: Any, *_gradients: Any) -> Any:
        raise SignatureError(
            f"{described.what} has no backward; give backward= to gpulend.torch.op, or call it "
            "under torch.no_grad()",
            OPERATION_USE,
        )

    return refuse, None


def _paired(
    described: Description, backward: torch._ops.OpOverload, known: Description, found: Pair
) -> Derivative:
    """Return how an operation is differentiated by another."""
    numbers = [place for place, one in enumerate(described.inputs) if one.role != "array"]
    saved = sorted({source for source in found.sources if source[0] != "gradient"})
    saved = [one for one in saved if not (one[0] == "input" and one[1] in numbers)]

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        held = {"input": inputs, "output": outputs}
        ctx.save_for_backward(*[held[kind][place] for kind, place in saved])
        ctx.numbers = {place: inputs[place] for place in numbers}

    def differentiate(ctx: Any, *gradients: Any) -> Any:
        held: dict[tuple[str, int], Any] = dict(zip(saved, ctx.saved_tensors, strict=True))
        held |= {("input", place): value for place, value in ctx.numbers.items()}
        for place, gradient in enumerate(gradients):
            # Autograd makes gradients with any strides, as after `sum()`.
            held["gradient", place] = gradient.contiguous()
        results = backward(*[held[source] for source in found.sources])
        results = results if isinstance(results, tuple) else (results,)
        return tuple(None if place is None else results[place] for place in found.results)

    return differentiate, setup_context


def _unrecorded(described: Description, made: torch._ops.OpOverload) -> Callable[..., Any]:
    """Return what autograd calls for an operation that changes arrays in place."""

    def call(*arguments: Any) -> Any:
        if torch.is_grad_enabled():
            for one, argument in zip(described.inputs, arguments, strict=True):
                if isinstance(argument, torch.Tensor) and argument.requires_grad:
                    changed = ", ".join(one.name for one in described.mutated)
                    raise SignatureError(
                        f"{described.what}: {one.name} requires grad, and the operation changes "
                        f"{changed} in place, which autograd could not differentiate; call it "
                        f"under torch.no_grad(), or pass {one.name}.detach()",
                        OPERATION_USE,
                    )
        with torch._C._AutoDispatchBelowAutograd():
            return made(*arguments)

    return call


def _batching(
    described: Description, made: torch._ops.OpOverload, method: str | None
) -> Callable[..., Any]:
    """Return what `vmap` calls."""
    allocate = _allocating(described)

    def batch(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        if method is None or described.mutated:
            why = "vmap=None" if method is None else "arrays changed in place"
            raise SignatureError(
                f"{described.what} cannot be called inside vmap: it is described with {why}; call "
                "it outside, or describe it otherwise",
                OPERATION_USE,
            )
        each = list(zip(arguments, in_dims, strict=True))
        if method == "broadcast_all":
            whole = [
                one
                if not isinstance(one, torch.Tensor)
                else (
                    one.expand(info.batch_size, *one.shape) if at is None else one.movedim(at, 0)
                ).contiguous()
                for one, at in each
            ]
            results = made(*whole)
        elif info.batch_size == 0:
            single = [
                one if at is None else one.new_empty(_without(one.shape, at)) for one, at in each
            ]
            results = _returned([one.new_empty((0, *one.shape)) for one in allocate(single)])
        else:
            rows = [
                made(*[one if at is None else one.select(at, row).contiguous() for one, at in each])
                for row in range(info.batch_size)
            ]
            if len(described.outputs) == 1:
                results = torch.stack(rows)
            else:
                results = tuple(torch.stack(parts) for parts in zip(*rows, strict=True))
        return results, 0 if len(described.outputs) == 1 else (0,) * len(described.outputs)

    return batch


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
