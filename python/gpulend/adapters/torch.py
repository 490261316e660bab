"""torch: its C exchange API in both directions, because `__dlpack__` costs 20 times as much.

torch has no read-only tensors and no negative strides, and its C path asks
nothing about what a tensor means: `refuse` does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch
from torch.utils.dlpack import from_dlpack

from gpulend._codes import MEANING_LOST
from gpulend.adapters.interface import (
    PLAIN,
    Adapter,
    Consumer,
    Makes,
    Probe,
    Producer,
    StreamType,
    Takes,
)
from gpulend.exceptions import ExportError

# Torch types its own functions less than its users'.
_C: Any = torch._C

LEGACY = 1
# What torch takes through DLPack.
TYPES = frozenset(
    (
        *PLAIN,
        *("bfloat16", "complex32"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    )
)


def refuse(tensor: torch.Tensor, used: str = "kept") -> None:
    """Raise if a plain array would lose part of what `tensor` means.

    `used` is what becomes of it: "kept" beyond the call, "written" or "read" during it. "unchecked"
    refuses only what has no memory, or elements that nobody else reads.
    """
    reason = _meaning_lost(tensor, used)
    if reason is not None:
        found, fix = reason
        raise ExportError(f"{found}; {fix}", MEANING_LOST)


def count_write(tensor: torch.Tensor) -> None:
    """Have autograd know that something else than torch writes a tensor."""
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)


def _outside_of_modes() -> Any:
    """Return a context in which tensors are real, whatever mode the program is in."""
    leave = getattr(_python_dispatch, "_disable_current_modes", nullcontext)
    return leave()


def samples() -> list[tuple[torch.Tensor, int, str]]:
    """Return tensors, each with the address of its `TensorImpl` and what reading it must find.

    The native reader is proved on them. "plain": an array. "tracked": one that requires a gradient.
    "refused": its memory holds other elements, or too few. "elsewhere": no memory of the host or
    of CUDA. "unknown": no plain `TensorImpl`.
    """
    with _outside_of_modes(), torch.inference_mode():
        uncounted = torch.zeros(2, device="cpu")
    with _outside_of_modes(), torch.inference_mode(mode=False):
        grid = torch.zeros(2, 3, dtype=torch.float32, device="cpu")
        pair = torch.zeros(2, dtype=torch.complex64, device="cpu")
        short = torch.zeros(4, device="cpu")
        short.untyped_storage().resize_(4)
        found = {
            "plain": [
                *(grid, grid[1:].T, pair, uncounted),
                torch.zeros((), dtype=torch.int64, device="cpu"),
                torch.zeros(0, dtype=torch.bool, device="cpu"),
                torch.nn.Parameter(grid[0], requires_grad=False),
            ],
            "tracked": [
                torch.zeros(2, device="cpu", requires_grad=True),
                torch.nn.Parameter(pair),
            ],
            "refused": [pair.conj(), pair.conj().imag, short],
            "elsewhere": [torch.zeros(2, device="meta")],
            "unknown": [grid.to_sparse()],
        }
    return [(t, t._cdata, outcome) for outcome, tensors in found.items() for t in tensors]


Seen = tuple[list[int], bool]


def dispatch_proof(
    look: Callable[[], Seen | None], tensors: Sequence[torch.Tensor]
) -> tuple[list[int], list[int]] | None:
    """Return the thread's usual keys of the dispatcher and those of tensors, or None.

    `look` returns two words of keys, included and excluded, as differences from the usual ones, and
    whether a mode of `__torch_function__` is on. None: that is not what torch says.
    """

    def said() -> Seen:
        included, excluded = _C._dispatch_tls_local_include_set, _C._dispatch_tls_local_exclude_set
        keys = [included().raw_repr(), excluded().raw_repr()]
        return keys, _C._is_torch_function_mode_enabled()

    seen = look()
    if seen is None:
        return None
    usual = [*map(operator.xor, said()[0], seen[0])]
    contexts: list[Callable[[], Any]] = [
        *(nullcontext, torch.inference_mode, _C._AutoDispatchBelowAutograd),
        *(_python_dispatch.TorchDispatchMode, TorchFunctionMode),
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    ]
    with _outside_of_modes():
        for context in contexts:
            with context():
                seen, wanted = look(), said()
            if seen is None or ([*map(operator.xor, usual, seen[0])], seen[1]) != wanted:
                return None
    return usual, [_C._dispatch_keys(tensor).raw_repr() for tensor in tensors]


def _meaning_lost(tensor: torch.Tensor, used: str) -> tuple[str, str] | None:
    # Kinds with no memory of their own come first: asking them for more may fail.
    if type(tensor).__name__ == "FakeTensor":
        return "a fake tensor has no memory", "borrow the real one, outside FakeTensorMode"
    if tensor.device.type == "meta":
        return "a meta tensor has no memory", "make a real one: `torch.empty_like(t, device='cpu')`"
    if torch._is_functional_tensor(tensor):
        return "a functional tensor has no memory", "borrow it outside the transformation"
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "inside vmap or grad a tensor stands for others", "borrow it outside of them"
    if tensor.is_nested:
        return "a nested tensor is not a plain array", "borrow its parts: `t.unbind()`"
    if tensor.layout is not torch.strided:
        return f"a tensor of layout {tensor.layout} is not a plain array", "borrow `t.to_dense()`"
    if tensor.is_quantized:
        return (
            "a quantized tensor would lose its scale and zero point",
            "borrow `t.int_repr()` for the integers or `t.dequantize()` for the values",
        )
    if tensor._is_zerotensor():
        return "a zero tensor has no memory", "borrow `t.clone()`"
    if used != "unchecked" and tensor.is_conj():
        return (
            "the tensor's conjugate bit is set, so its memory holds other values",
            "borrow `t.resolve_conj()`",
        )
    if used != "unchecked" and tensor.is_neg():
        return (
            "the tensor's negative bit is set, so its memory holds the values negated",
            "borrow `t.resolve_neg()`",
        )
    if tensor.requires_grad and used == "kept":
        return "the tensor requires grad, which a plain array cannot", "borrow `t.detach()`"
    if tensor.requires_grad and used == "written" and torch.is_grad_enabled():
        return (
            "the tensor requires grad and may be written, which autograd could not differentiate",
            "write it under `torch.no_grad()`, or pass `t.detach()`; what a kernel only reads it "
            "declares const",
        )
    if tensor.dtype not in _PLAIN:
        return f"torch hides what {tensor.dtype} is", "borrow `t.view(torch.uint8)`"
    if not _is_there(tensor):
        return (
            "the tensor's storage ends before it, as after `t.untyped_storage().resize_(0)`",
            "give the storage its size back first",
        )
    return None


def _is_there(tensor: torch.Tensor) -> bool:
    axes = zip(tensor.shape, tensor.stride(), strict=True)
    last = tensor.storage_offset() + sum((extent - 1) * stride for extent, stride in axes)
    storage = tensor.untyped_storage()
    there = storage.data_ptr() != 0 and (last + 1) * tensor.element_size() <= storage.nbytes()
    return bool(there) or tensor.numel() == 0


_PLAIN = frozenset(getattr(torch, name) for name in TYPES if hasattr(torch, name))


def _zeros(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    return torch.zeros(shape, dtype=getattr(torch, dtype), device="cpu")


def _zeros_on_gpu(shape: tuple[int, ...], dtype: str) -> torch.Tensor | None:
    return _zeros(shape, dtype).to("cuda:0") if torch.cuda.is_available() else None


ADAPTER = Adapter(
    producers=(
        Producer(
            knows=lambda cls: issubclass(cls, torch.Tensor),
            native="torch",
            stands_in=True,
            conversion="{name}.to(torch.{fit})",
        ),
    ),
    stream_type=StreamType(handle="cuda_stream", owns=lambda cls: cls is torch.cuda.Stream),
    consumer=Consumer(
        takes=Takes(types=sorted(TYPES), gpu=True),
        makes=Makes(array=torch.Tensor, lease=from_dlpack),
    ),
    probe=Probe(
        address=lambda tensor: int(tensor.data_ptr()),
        host=_zeros,
        gpu=_zeros_on_gpu,
        stream=lambda: int(torch.cuda.current_stream(0).cuda_stream) or LEGACY,
        copied=lambda host, where: torch.tensor(host, device="cuda:0" if where == "gpu" else "cpu"),
        fill=lambda tensor, byte: tensor.fill_(byte),
        values=lambda tensor: tensor.cpu().numpy(),
    ),
)
