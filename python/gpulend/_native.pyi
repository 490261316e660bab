"""Types of the native half of gpulend."""

import sys
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import Any, Literal, SupportsIndex, final

from typing_extensions import CapsuleType

from gpulend._pointers import PointerContext

_Extents = SupportsIndex | tuple[SupportsIndex, ...]

__all__ = [
    "Consumer",
    "Device",
    "Dtype",
    "Event",
    "Kernel",
    "Launcher",
    "Lease",
    "Module",
    "Stream",
    "_Export",
    "__version__",
    "_reroute",
    "borrow",
    "compile_module",
    "compile_ptx",
    "current_stream",
    "describe_compiler",
    "describe_driver",
    "describe_nvrtc",
    "driver_folder",
    "empty",
    "empty_like",
    "entries",
    "from_host",
    "full",
    "handle_of",
    "lease_of",
    "lend",
    "live",
    "load_module",
    "locate",
    "mapping_of",
    "passport",
    "rehearse",
    "report",
    "route",
    "set_faults",
    "simulate",
    "simulator_library",
    "synchronize",
    "tell_compilers",
    "timed",
    "wrap",
    "zeros",
]

__version__: str

@final
class Device:
    """Where memory lies: `cpu`, `cuda:0`, `opencl:0`. Compares equal to its name."""

    def __new__(cls, name: object, /) -> Device: ...
    @property
    def kind(self) -> Literal["cpu", "cuda", "opencl"]: ...
    @property
    def index(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Dtype:
    """An element type. Compares equal to its name and to the same type of other libraries."""

    def __new__(cls, name: object, /, *, padded: bool = False) -> Dtype: ...
    @property
    def name(self) -> str: ...
    @property
    def code(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def lanes(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def padded(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

_Index = SupportsIndex | slice | EllipsisType | None

@final
class Lease:
    """Memory that somebody owns, seen through a checked view."""

    __dlpack_c_exchange_api__: CapsuleType
    @property
    def address(self) -> int: ...
    @property
    def device(self) -> Device: ...
    @property
    def simulated(self) -> bool: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def storage_shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Dtype: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def ndim(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def released(self) -> bool: ...
    @property
    def T(self) -> Lease: ...  # noqa: N802
    @property
    def memory(self) -> Literal["host", "pinned", "managed", "device"]: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Lease]: ...
    def __getitem__(self, key: _Index | tuple[_Index, ...], /) -> Lease: ...
    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Lease: ...
    def view(self, dtype: object) -> Lease: ...
    def as_readonly(self) -> Lease: ...
    def as_cuda(self) -> Lease: ...
    def used_on(self, stream: object) -> None: ...
    def copy_from(self, array: object) -> None: ...
    def copy_to(self, array: object) -> None: ...
    def to_host(self) -> Any: ...
    def lend(
        self,
        target: str,
        *,
        stream: object | None = None,
        copy: bool = False,
        allow_writable_alias: bool = False,
    ) -> Any: ...
    def pointer(self, stream: object | None = None) -> PointerContext: ...
    def release(self) -> None: ...
    def __enter__(self) -> Lease: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> None: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...
        def __release_buffer__(self, buffer: memoryview, /) -> None: ...
    def __dlpack__(
        self,
        stream: object | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def _repr_html_(self) -> str: ...
    def _is_ready(self) -> bool: ...
    def _is_permuted(self) -> bool: ...
    def _is_row_major(self) -> bool: ...
    def _hold_on(self, who: str, stream: object | None) -> _Export: ...

@final
class Consumer:
    """A framework that memory is lent to: what its arrays cannot be, and how one is made."""

    def __new__(
        cls,
        name: str,
        *,
        types: Sequence[object],
        readonly: bool,
        negative_strides: bool,
        array: object,
        make: Callable[..., Any] | None = None,
        other: Callable[[Any], Any] | None = None,
        make_on: Callable[[Any, int], Any] | None = None,
        make_raw: Callable[..., Any] | None = None,
        host: bool = True,
        gpu: bool = False,
        simulated_as_cuda: bool = False,
        stream: Callable[[int], object] | None = None,
        own_streams: bool = False,
        hidden_streams: bool = False,
        queues: bool = False,
        address: str | Callable[[Any], int] | None = None,
        never_writes: bool = False,
    ) -> Consumer: ...
    @property
    def name(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def host(self) -> bool: ...
    @property
    def gpu(self) -> bool: ...
    def lend(self, lease: Lease, allow_writable_alias: bool) -> Any: ...

@final
class _Export:
    """An export that Python code ends by hand."""

    @property
    def address(self) -> int: ...
    def close(self) -> None: ...

@final
class Stream:
    """A queue of work on a GPU: a new one, or another library's."""

    def __new__(
        cls,
        stream: object | None = None,
        *,
        device: object | None = None,
        blocking: bool = False,
    ) -> Stream: ...
    @property
    def device(self) -> Device: ...
    @property
    def handle(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def capturing(self) -> bool: ...
    def record(self) -> Event: ...
    def wait(self, other: object) -> None: ...
    def synchronize(self) -> None: ...
    def __cuda_stream__(self) -> tuple[int, int]: ...
    def __enter__(self) -> Stream: ...
    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Module:
    """Compiled kernels and variables of one device: what `compile` returns."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def variables(self) -> tuple[str, ...]: ...
    @property
    def device(self) -> Device: ...
    @property
    def compiler(self) -> Literal["clang", "nvrtc", "image"]: ...
    def variable(self, name: str) -> Lease: ...
    def __getitem__(self, name: str, /) -> Kernel: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...

@final
class Kernel:
    """A kernel of a module."""

    @property
    def name(self) -> str: ...
    @property
    def symbol(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def typed(self) -> bool: ...
    @property
    def module(self) -> Module: ...
    @property
    def attributes(self) -> dict[str, int]: ...
    def launch(
        self,
        grid: _Extents,
        block: _Extents,
        args: Sequence[object],
        shared: int = 0,
        stream: object | None = None,
        *,
        check: bool = True,
        strided: bool = False,
    ) -> None: ...
    def forall(self, n: SupportsIndex) -> Launcher: ...
    def __getitem__(self, key: tuple[_Extents, _Extents], /) -> Launcher: ...
    def __call__(self, *_arguments: object, **_keywords: object) -> None: ...

@final
class Launcher:
    """A kernel and how large its launch is: `kernel[grid, block]`."""

    def __call__(
        self,
        *args: object,
        stream: object | None = None,
        shared: int = 0,
        check: bool = True,
        strided: bool = False,
    ) -> None: ...

@final
class timed:  # noqa: N801 - it is used as a verb: `with timed() as t`
    """Measure how long a GPU works on what is queued inside the `with`."""

    def __new__(cls, stream: object | None = None, *, device: object | None = None) -> timed: ...
    @property
    def milliseconds(self) -> float: ...
    def __enter__(self) -> timed: ...
    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class Event:
    """A moment in a stream: what `Stream.record` returns."""

    @property
    def device(self) -> Device: ...
    @property
    def handle(self) -> int: ...
    @property
    def done(self) -> bool: ...
    def synchronize(self) -> None: ...

def borrow(
    array: object,
    stream: object | None = None,
    *,
    ready_on: object | None = None,
    check: bool = True,
) -> Lease: ...
def lend(
    array: object,
    target: str,
    *,
    stream: object | None = None,
    copy: bool = False,
    allow_writable_alias: bool = False,
) -> Any: ...
def empty(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: object | None = None,
    device: object | None = None,
) -> Lease: ...
def zeros(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: object | None = None,
    device: object | None = None,
) -> Lease: ...
def full(
    shape: SupportsIndex | Sequence[SupportsIndex],
    value: object,
    dtype: object | None = None,
    device: object | None = None,
) -> Lease: ...
def empty_like(
    array: object, *, dtype: object | None = None, device: object | None = None
) -> Lease: ...
def from_host(array: object, device: object | None = None) -> Lease: ...
def current_stream(device: object | None = None) -> Stream: ...
def synchronize(device: object | None = None) -> None: ...
def wrap(
    address: object,
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: object | None = None,
    strides: SupportsIndex | Sequence[SupportsIndex] | None = None,
    device: object | None = None,
    *,
    owner: object | None = None,
    deleter: object | None = None,
    unowned: bool = False,
    readonly: bool = False,
    ready_on: object | None = None,
    check: bool = True,
) -> Lease: ...
def route(array: object) -> str: ...
def _reroute(stable_torch: bool, getters: bool = True) -> None: ...
def entries() -> tuple[list[tuple[int, str, str, int, int, int, float]], int]: ...
def live() -> int: ...
def locate(array: object) -> int: ...
def mapping_of(address: int) -> tuple[int, int] | None: ...
def lease_of(handle: int) -> Lease: ...
def handle_of(lease: Lease) -> int: ...
def tell_compilers(
    clang: str | PathLike[str] | None, libraries: Sequence[str], headers: Sequence[str]
) -> None: ...
def simulate(
    devices: int | None = None,
    memory: int | str | None = None,
    seed: int | None = None,
    expose: bool = False,
    *,
    check: Literal["off", "memory", "races"] | None = None,
    timeout: int | None = None,
    sticky: bool | None = None,
    accept_nvvm: bool | None = None,
) -> None: ...
def compile_ptx(
    source: str,
    file: str,
    options: Sequence[str],
    headers: Sequence[tuple[str, str]],
    ziglang: str | PathLike[str] | None,
    /,
) -> tuple[str, list[tuple[str, int, int, str, str]], bool]: ...
def compile_module(
    text: str,
    file: str,
    options: Sequence[str],
    headers: Sequence[tuple[str, str]],
    names: Sequence[str],
    compiler: str,
    device: object | None,
    ziglang: str | PathLike[str] | None,
    nvrtc: Sequence[str | PathLike[str]],
    includes: Sequence[str | PathLike[str]],
    /,
) -> tuple[Module, list[tuple[str, int, int, str, str]]]: ...
def load_module(image: bytes, device: object | None, /) -> Module: ...
def describe_compiler(ziglang: str | PathLike[str] | None, /) -> tuple[Path, str]: ...
def describe_driver() -> tuple[
    Literal["cuda", "simulated"], str, tuple[int, int], list[tuple[str, int, tuple[int, int]]]
]: ...
def passport(
    address: int,
) -> tuple[int, int, str, str, str, int | None, int, int | None, str, list[str]] | None: ...
def simulator_library() -> str: ...
def driver_folder() -> str: ...
def describe_nvrtc(folders: Sequence[str | PathLike[str]], /) -> tuple[Path, tuple[int, int]]: ...
def report() -> str: ...
def set_faults(rules: str, /) -> None: ...
def rehearse() -> None: ...
