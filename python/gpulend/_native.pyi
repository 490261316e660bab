"""The native half of gpulend. Use the names that `gpulend` itself exports."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from types import EllipsisType, ModuleType, TracebackType
from typing import Any, Literal, SupportsIndex, TypeVar, final, overload

from typing_extensions import Buffer, CapsuleType

from gpulend._arrays._jax import Array as _JaxArray
from gpulend._arrays._numpy import ndarray as _NumpyArray  # noqa: N812
from gpulend._arrays._torch import Tensor as _TorchTensor
from gpulend._pointers import PointerContext
from gpulend._tickets import Ticket
from gpulend.adapters.interface import Consumer as _ConsumerDescription
from gpulend.adapters.interface import FrameworkName

# Frameworks of which `lend` returns arrays without types.
_Untyped = Literal[
    "cupy", "numba", "cuda.core", "tensorflow", "pyopencl", "pycuda", "tvm_ffi", "warp"
]
_Out = TypeVar("_Out")
_Progress = Callable[[int, int], object]
_Extents = SupportsIndex | tuple[SupportsIndex, ...]

__all__ = [
    "ERROR_CODES",
    "Consumer",
    "Copy",
    "Device",
    "Dtype",
    "Event",
    "Graph",
    "Kernel",
    "Launcher",
    "Lease",
    "Module",
    "Passport",
    "Stream",
    "TorchOperation",
    "_Export",
    "__version__",
    "_forget_routes",
    "_read_cupy",
    "_reroute",
    "borrow",
    "cache_folder",
    "capture",
    "check_array",
    "check_ticket",
    "claim",
    "claims",
    "compile_module",
    "compile_ptx",
    "current_stream",
    "demangled",
    "describe",
    "describe_compiler",
    "describe_driver",
    "describe_nvrtc",
    "device_count",
    "driver_folder",
    "empty",
    "empty_like",
    "end_tickets",
    "entries",
    "from_host",
    "full",
    "handle_of",
    "is_available",
    "is_image",
    "kernel_parameters",
    "layouts_of",
    "lease_of",
    "lend",
    "live",
    "load_module",
    "locate",
    "mem_get_info",
    "nvidia_package",
    "pool_allocate",
    "pool_free",
    "pool_is_on",
    "pool_reset_peak",
    "pool_set_limit",
    "pool_set_mode",
    "pool_trim",
    "pool_usage",
    "program_headers",
    "rehearse",
    "report",
    "route",
    "route_counts",
    "set_compilers",
    "set_faults",
    "simulate",
    "simulator_library",
    "synchronize",
    "takes_next_word",
    "ticket_copies",
    "timed",
    "toolkit_folders",
    "torch_fail",
    "torch_operation",
    "torch_streams",
    "with_release",
    "withdraw_ticket",
    "wrap",
    "xla_handlers",
    "xla_launch",
    "zeros",
    "zeros_like",
]

__version__: str
ERROR_CODES: list[tuple[int, str, str, str]]

@final
class Device:
    """Where memory lies: `cpu`, `cuda:0`, `opencl:0`. Compares equal to its name. A number is a
    CUDA device.

    >>> import gpulend
    >>> gpulend.Device("cuda").index
    0
    >>> gpulend.Device("cpu") == "cpu"
    True
    """

    def __new__(cls, name: object, /) -> Device: ...
    @property
    def kind(self) -> Literal["cpu", "cuda", "opencl"]:
        """The kind: "cpu", "cuda" or "opencl"."""
    @property
    def index(self) -> int:
        """Which one of its kind."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Dtype:
    """An element type. Compares equal to its name and to the same type of NumPy, torch or
    ctypes.

    >>> import gpulend
    >>> gpulend.Dtype("<f4")
    gpulend.Dtype('float32')
    >>> gpulend.Dtype("bfloat16").bits, gpulend.Dtype("bfloat16").code
    (16, 4)
    >>> gpulend.Dtype("float32") == "float32"
    True
    """

    def __new__(cls, name: object, /, *, padded: bool = False) -> Dtype: ...
    @property
    def name(self) -> str:
        """The name, as NumPy and ml_dtypes spell it."""
    @property
    def code(self) -> int:
        """DLPack's type code."""
    @property
    def bits(self) -> int:
        """Bits of one element."""
    @property
    def lanes(self) -> int:
        """Elements of one vector: always 1."""
    @property
    def itemsize(self) -> int:
        """Bytes of one element; 1 for packed types of less than a byte."""
    @property
    def padded(self) -> bool:
        """Whether each element of less than a byte fills a byte of its own."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

_Index = SupportsIndex | slice | EllipsisType | None

@final
class Lease:
    """Memory of an owner, seen through a checked view: what `borrow` and `wrap` return.

    Any consumer of DLPack, of the buffer protocol or of `__array_interface__`
    takes a lease as it is; `lend` names the consumer and proves that nothing
    was copied.

    >>> import gpulend, numpy as np
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> lease = gpulend.borrow(a)
    >>> lease.T.shape, lease[1, ::-1].to_host()
    ((3, 2), array([5., 4., 3.]))
    >>> lease.lend("numpy")[0, 0] = 42
    >>> float(a[0, 0])
    42.0
    """

    __dlpack_c_exchange_api__: CapsuleType
    @property
    def address(self) -> int:
        """Where the first element lies."""
    @property
    def device(self) -> Device:
        """Where the memory is."""
    @property
    def simulated(self) -> bool:
        """Whether the memory is a simulated GPU's."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
    @property
    def strides(self) -> tuple[int, ...]:
        """The strides, in elements."""
    @property
    def storage_shape(self) -> tuple[int, ...]:
        """The extents as stored: packed elements of less than a byte counted in bytes along the
        last axis.
        """
    @property
    def dtype(self) -> Dtype:
        """The element type."""
    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
    @property
    def size(self) -> int:
        """The number of elements."""
    @property
    def ndim(self) -> int:
        """The number of axes."""
    @property
    def readonly(self) -> bool:
        """Whether nobody may write through this lease."""
    @property
    def released(self) -> bool:
        """Whether the lease has been released."""
    @property
    def T(self) -> Lease:  # noqa: N802
        """The lease with its axes in reverse order."""
    @property
    def memory(self) -> Literal["host", "pinned", "managed", "device"]:
        """What kind of memory it is: "host", "pinned", "managed" or "device"."""
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's description of the memory. It has no owner: keep the lease while it is used.

        Memory that the host cannot read has none.
        """
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """CUDA's description of the memory, with the stream to wait for. It has no owner: keep
        the lease while it is used.

        Memory of the host has none, and that of a simulated GPU only by `as_cuda`.
        """
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Lease]: ...
    def __getitem__(self, key: _Index | tuple[_Index, ...], /) -> Lease: ...
    def __setitem__(self, key: _Index | tuple[_Index, ...], value: object, /) -> None: ...
    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Lease:
        """The same elements under another shape, without a copy; one extent may be -1."""
    def view(self, dtype: object) -> Lease:
        """The same bytes read as another element type, without a copy."""
    def as_readonly(self) -> Lease:
        """The same memory, not to be written through the result."""
    def as_cuda(self) -> Lease:
        """The same memory, shown as CUDA's also where the GPU is simulated, for libraries that
        use the simulated driver.

        On a real GPU every lease shows itself so.
        """
    def used_on(self, stream: object) -> None:
        """Say that you queued work on the memory on `stream`: it is not released before that is
        done, and its next user waits for it.
        """
    @overload
    def copy_from(
        self, array: object, *, stream: None = None, progress: _Progress | None = None
    ) -> None:
        """Copy the elements of an array of the same shape and type into this memory. A
        structured array of NumPy's is taken as its bytes, with an axis more.

        Between arrays of GPUs the copy is queued on the current stream; with the host it is
        done on return.

        With `stream` it is queued there, and the result is a `Copy` to wait for. Memory of
        the host that is pinned is then used until that is done; other memory of the host only
        until the call returns, unless `background` is true: then large arrays are copied by
        threads after it. `progress` is called four times a second with the bytes that were
        copied and their number; what it raises stops the copy.
        """
    @overload
    def copy_from(
        self,
        array: object,
        *,
        stream: object,
        progress: _Progress | None = None,
        background: bool = False,
    ) -> Copy: ...
    def fill(self, value: object) -> None:
        """Make every element `value`. On a GPU that is queued on the current stream.

        >>> import gpulend, numpy as np
        >>> array = np.zeros((2, 2))
        >>> gpulend.borrow(array)[:, 1].fill(7)
        >>> array
        array([[0., 7.],
               [0., 7.]])
        """
    @overload
    def copy_to(
        self, array: object, *, stream: None = None, progress: _Progress | None = None
    ) -> None:
        """Copy the elements to an array of the same shape and type, as `copy_from` does."""
    @overload
    def copy_to(
        self,
        array: object,
        *,
        stream: object,
        progress: _Progress | None = None,
        background: bool = False,
    ) -> Copy: ...
    @overload
    def to_host(
        self,
        *,
        out: None = None,
        stream: object | None = None,
        pinned: bool = False,
        progress: _Progress | None = None,
    ) -> _NumpyArray:
        """A NumPy array with a copy of the elements.

        With `out`, an array of the host with the same shape and element type, the elements
        are copied there, and `out` is returned. `stream` is the one that copies, if that is
        not the current one. The copy is done on return.

        With `pinned` the new array is in pinned memory, which a GPU fills fastest. gpulend
        keeps up to 1 GiB of it for the next call. `progress` is called as by `copy_from`.
        """
    @overload
    def to_host(
        self,
        *,
        out: _Out,
        stream: object | None = None,
        pinned: Literal[False] = False,
        progress: _Progress | None = None,
    ) -> _Out: ...
    def item(self) -> Any:
        """The only element, as a number of Python's, copied from where it is.

        `float(lease)`, `int(lease)`, `complex(lease)` and `bool(lease)` are of it too.

        >>> import gpulend, numpy as np
        >>> lease = gpulend.borrow(np.array([1.5, 2.5]))
        >>> lease[0].item(), int(lease[1])
        (1.5, 2)
        """
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __complex__(self) -> complex: ...
    def __bool__(self) -> bool: ...
    @overload
    def lend(
        self,
        target: Literal["numpy"],
        *,
        stream: object | None = None,
        copy: bool = False,
        allow_writable_alias: bool = False,
    ) -> _NumpyArray:
        """Hand the memory to a framework: zero copy, or an error that names the rule and the
        fix.

        `target` is the framework's name, as "torch", or its module. `stream` is the one on
        which the framework will use it, if that is not its current one. `copy=True` hands out
        a copy instead. `allow_writable_alias=True` accepts that a framework without read-only
        arrays could write read-only memory.
        """
    @overload
    def lend(
        self,
        target: Literal["torch"],
        *,
        stream: object | None = None,
        copy: bool = False,
        allow_writable_alias: bool = False,
    ) -> _TorchTensor: ...
    @overload
    def lend(
        self,
        target: Literal["jax"],
        *,
        stream: object | None = None,
        copy: bool = False,
        allow_writable_alias: bool = False,
    ) -> _JaxArray: ...
    @overload
    def lend(
        self,
        target: _Untyped | FrameworkName | ModuleType,
        *,
        stream: object | None = None,
        copy: bool = False,
        allow_writable_alias: bool = False,
    ) -> Any: ...
    def ticket(
        self,
        *,
        claims: int | None = None,
        keep: float | None = 60.0,
        read_only: bool = False,
        copy: bool = False,
    ) -> Ticket:
        """Make a ticket of this lease: bytes by which another process of this machine opens the
        same memory, with `gpulend.claim`.

        It can be claimed `claims` times, or any number, for `keep` seconds; None is until it
        is withdrawn. Until then the memory stays, and afterwards as long as somebody has it.
        `read_only` claims cannot be written. Memory that other processes cannot open is
        refused; `copy=True` makes a ticket of a copy.

        >>> import gpulend
        >>> lease = gpulend.zeros((2, 3), device="cpu", shared=True)
        >>> ticket = lease.ticket(claims=1, read_only=True)
        >>> gpulend.claim(bytes(ticket)).shape
        (2, 3)
        """
    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        """What any pickler stores: a ticket, which is claimed where it is read."""
    def __copy__(self) -> Lease:
        """The same memory again."""
    def __deepcopy__(self, memo: object, /) -> Lease:
        """A copy where the original is."""
    def pointer(self, stream: object | None = None) -> PointerContext:
        """The bare address for a C library, kept valid inside a `with` block.

        `stream` is the one on which the library will use it: it waits until the bytes are
        ready, and the memory is not released before what was queued on it inside the block is
        done. None is the current one.

        >>> import ctypes, gpulend
        >>> numbers = (ctypes.c_int * 3)(1, 2, 3)
        >>> with gpulend.borrow(numbers).pointer() as p:
        ...     p == ctypes.addressof(numbers), ctypes.string_at(p, 1)
        (True, b'\\x01')
        """
    def release(self) -> None:
        """End the lease now. An error if exports or slices of it are alive; no effect if it has
        ended.

        Where the bare address was read, the memory stays until this object is gone too.
        """
    def __enter__(self) -> Lease: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> None:
        """Releases; an exception that is being raised is not replaced."""
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...
        def __release_buffer__(self, buffer: memoryview, /) -> None: ...
    def __dlpack__(
        self,
        stream: object | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """DLPack export. `max_version` of 1.x gives a versioned capsule, which can say
        read-only.

        For memory of a GPU `stream` waits until the bytes are ready; -1 asks for no order.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and index."""
    def _repr_html_(self) -> str:
        """What notebooks show: the description, and the first elements of host memory, and of a
        simulated GPU's if they are ready. It never waits, queues nothing, and begins nothing
        that is queued.
        """
    def _glimpse(self) -> _NumpyArray | None:
        """As `to_host`, without waiting and without a copy by the driver; None if that is not
        possible.
        """
    def _is_ready(self) -> bool:
        """Whether the bytes are ready already, so that nothing needs to wait."""
    def _is_permuted(self) -> bool:
        """Whether the elements lie without gaps in some order of the axes."""
    def _is_row_major(self) -> bool:
        """Whether the elements lie without gaps, row after row."""
    def _hold_on(self, who: str, stream: object | None) -> _Export:
        """Enters the ledger as an export to `who` until closed, in order for work on a stream:
        the current one if it is none.
        """

@final
class Consumer:
    """A framework that memory is lent to: its name, and how its adapter describes it, a
    `gpulend.adapters.Consumer`.
    """

    def __new__(
        cls, name: str, described: _ConsumerDescription, *, own: bool = False
    ) -> Consumer: ...
    @property
    def name(self) -> str:
        """The framework's name."""
    @property
    def protocol(self) -> str:
        """How arrays are made: "DLPack C exchange API", or what the adapter says."""
    def lend(self, lease: Lease, allow_writable_alias: bool) -> Any:
        """Make the framework's array over a lease, and prove that it is the same memory."""

@final
class _Export:
    """An export that Python code ends by hand."""

    @property
    def address(self) -> int:
        """Where the memory that was handed out begins."""
    def close(self) -> None:
        """Ends the export."""

@final
class Stream:
    """A queue of work on a GPU: a new one, or another library's.

    `Stream()` makes one on `device` (`cuda:0`, or the device of the stream entered last).
    `Stream(other)` names a stream that exists: an object with `__cuda_stream__`, a stream of
    torch, CuPy, Numba or PyCUDA, or a number (1 is the legacy default stream, 2 the
    per-thread one). A stream made with `blocking=True` waits for the legacy stream, and that
    for it. Work on a stream whose `priority` is a lower number begins first, as far as the
    device has priorities. Inside `with stream:` it is the current stream of this thread and
    of its device.

    >>> import gpulend
    >>> stream = gpulend.Stream()
    >>> with stream:
    ...     array = gpulend.zeros((2, 3), "float32")
    >>> event = stream.record()
    >>> event.synchronize()
    >>> event.done, array.to_host().sum()
    (True, np.float32(0.0))
    """

    def __new__(
        cls,
        stream: object | None = None,
        *,
        device: object | None = None,
        blocking: bool = False,
        priority: int = 0,
    ) -> Stream: ...
    @property
    def device(self) -> Device:
        """The device it works on."""
    @property
    def priority(self) -> int:
        """Its priority: a lower number comes first."""
    @staticmethod
    def priority_range(device: object | None = None) -> tuple[int, int]:
        """staticmethod(function) -> method

        Convert a function to be a static method.

        A static method does not receive an implicit first argument.
        To declare a static method, use this idiom:

             class C:
                 @staticmethod
                 def f(arg1, arg2, argN):
                     ...

        It can be called either on the class (e.g. C.f()) or on an instance
        (e.g. C().f()). Both the class and the instance are ignored, and
        neither is passed implicitly as the first argument to the method.

        Static methods in Python are similar to those found in Java or C++.
        For a more advanced concept, see the classmethod builtin.
        """
    @property
    def handle(self) -> int:
        """CUDA's handle of it, a number."""
    @property
    def done(self) -> bool:
        """Whether all that is queued is done."""
    @property
    def capturing(self) -> bool:
        """Whether its work is being captured into a graph, or may not be queued because
        another's is.
        """
    def record(self, *, timing: bool = False) -> Event:
        """An event that happens when what is queued now is done. With `timing=True` it knows
        when: see `Event.elapsed`.
        """
    def wait(self, other: object) -> None:
        """Have what is queued from now on wait for an event, or for what another stream holds
        now.
        """
    def synchronize(self) -> None:
        """Wait on the host until all that is queued is done."""
    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol by which other libraries take the stream: its version and the handle."""
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
    """Compiled kernels and variables of one device: what `compile` returns.

    `module["name"]` is a kernel, `module.variable("name")` a lease over a variable. The
    module is loaded into its device at the first launch or question that needs that.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kernels."""
    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
    @property
    def device(self) -> Device:
        """The device that it is for."""
    @property
    def compiler(self) -> Literal["clang", "nvrtc", "image"]:
        """What compiled it: "clang", "nvrtc", or "image" if that was done before."""
    def variable(self, name: str) -> Lease:
        """A lease over a `__device__` or `__constant__` variable, with the type and the extents
        it was declared with.

        Structs, and variables of images without types, are bytes.

        >>> import gpulend, numpy as np
        >>> module = gpulend.compile("__device__ int counter; __global__ void f() { atomicAdd(&counter, 1); }")
        >>> counter = module.variable("counter")
        >>> counter.copy_from(np.array(40, "int32"))
        >>> module["f"][1, 2]()
        >>> int(counter.to_host())
        42
        """
    def __getitem__(self, name: str, /) -> Kernel: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...

@final
class Kernel:
    """A kernel of a module: `module["name"]`.

    `kernel[grid, block](*arguments)` launches it; grid and block are a number or up to three.
    Arguments are arrays of any framework, leases, numbers, None for a null pointer, and for
    structs by value NumPy records, ctypes structures or bytes. Each is checked against the
    kernel's own signature before anything is queued. Keywords: `stream` (else the current one
    of the framework whose array came first, else gpulend's), `shared` (bytes of dynamic
    shared memory), `strided=True` (take arrays that are not contiguous), `check=False`
    (compare no types). Other keywords are parameters by their names. `kernel[grid, block,
    stream, shared]` is the same with a stream and with shared memory.

    >>> import gpulend
    >>> module = gpulend.compile("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }")
    >>> x = gpulend.full(4, 1.5, "float32")
    >>> module["twice"][1, 4](x)
    >>> x.to_host()
    array([3., 3., 3., 3.], dtype=float32)
    """

    @property
    def name(self) -> str:
        """Its name, as C++ has it, without its parameters."""
    @property
    def symbol(self) -> str:
        """Its name in the compiled code."""
    @property
    def signature(self) -> str:
        """Its name and parameters, as far as they are known.

        >>> import gpulend
        >>> gpulend.compile("__global__ void f(const float *x, int n) {}")["f"].signature
        'f(const float* x, int n)'
        """
    @property
    def typed(self) -> bool:
        """Whether the types of its parameters are known, and not just their sizes."""
    @property
    def module(self) -> Module:
        """The module that it was asked of."""
    @property
    def attributes(self) -> dict[str, int]:
        """What it needs and allows on its device, by name."""
    def occupancy(self, block: _Extents, shared: int = 0) -> float:
        """The part of a multiprocessor's threads that blocks of this size keep busy, from 0 to
        1, with `shared` bytes of dynamic shared memory each.

        >>> import gpulend
        >>> kernel = gpulend.compile("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }")["twice"]
        >>> kernel.occupancy(256), kernel.blocks_per_multiprocessor(256)
        (1.0, 4)
        """
    def blocks_per_multiprocessor(self, block: _Extents, shared: int = 0) -> int:
        """How many blocks of this size a multiprocessor runs at once."""
    def best_size(self, shared: int = 0) -> tuple[int, int]:
        """Grid and block with the best occupancy: the fewest blocks that fill the device. They
        suit a kernel whose threads take several elements each; `forall` is for one thread an
        element.

        >>> import gpulend
        >>> kernel = gpulend.compile("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }")["twice"]
        >>> grid, block = kernel.best_size()
        >>> kernel.occupancy(block)
        1.0
        """
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
    ) -> None:
        """Launch it: as `kernel[grid, block](*args)`."""
    def forall(self, n: _Extents) -> Launcher:
        """The kernel for `n` elements, one thread each: blocks of the size that fills the device
        best, and as many as it takes. Called with arguments it launches; the kernel itself
        has to leave out the threads past the last element.

        `n` may be a shape of up to three axes: then x runs along the last of them, y along
        the one before, and z along the first of three.

        >>> import gpulend
        >>> source = "__global__ void fill(int *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = i; }"
        >>> x = gpulend.empty(1000, "int32")
        >>> gpulend.compile(source)["fill"].forall(1000)(x, 1000)
        >>> int(x.to_host()[-1])
        999
        """
    def __getitem__(
        self,
        key: tuple[_Extents, _Extents]
        | tuple[_Extents, _Extents, object]
        | tuple[_Extents, _Extents, object, SupportsIndex],
        /,
    ) -> Launcher: ...
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
        **named: object,
    ) -> None: ...

@final
class timed:  # noqa: N801 - it is used as a verb: `with timed() as t`
    """Measure how long a GPU works on what is queued inside the `with`.

    `stream` is the one measured, or the current one. `milliseconds` waits for the end.

    >>> import gpulend
    >>> with gpulend.timed() as t:
    ...     x = gpulend.zeros(1000, "float32")
    >>> t.milliseconds >= 0
    True
    """

    def __new__(cls, stream: object | None = None, *, device: object | None = None) -> timed: ...
    @property
    def milliseconds(self) -> float:
        """Milliseconds of the GPU between the beginning and the end of the `with`."""
    def __enter__(self) -> timed: ...
    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
@final
class Copy:
    """A copy that was started: what `copy_from` and `copy_to` return if they are given a stream.

    >>> import gpulend, numpy as np
    >>> lease = gpulend.zeros(3, "int32")
    >>> copy = lease.copy_from(np.arange(3, dtype="int32"), stream=gpulend.Stream())
    >>> copy.wait()
    >>> copy.done, lease.to_host().tolist()
    (True, [0, 1, 2])
    """

    @property
    def done(self) -> bool:
        """Whether it is done."""
    def wait(self) -> None:
        """Wait on the host until it is done. An error of a copy in the background is raised
        here.
        """

@final
class Event:
    """A moment in a stream: what `Stream.record` returns."""

    @property
    def device(self) -> Device:
        """The device it is on."""
    @property
    def handle(self) -> int:
        """CUDA's handle of it, a number; good as long as this object."""
    @property
    def done(self) -> bool:
        """Whether it has happened."""
    def synchronize(self) -> None:
        """Wait on the host until it has happened."""
    def elapsed(self, end: Event) -> float:
        """Milliseconds of the GPU from this event until another, for both of which the host
        waits. Both were recorded by `stream.record(timing=True)`.

        >>> import gpulend
        >>> stream = gpulend.Stream()
        >>> start = stream.record(timing=True)
        >>> with stream:
        ...     x = gpulend.zeros(1000)
        >>> start.elapsed(stream.record(timing=True)) >= 0
        True
        """

@final
class Graph:
    """Work that was captured: what `capture` returns.

    It keeps the leases, tensors and modules that its work uses. `launch` orders its work with
    other work on that memory, as a kernel's launch is ordered.
    """

    @property
    def device(self) -> Device:
        """The device it works on."""
    @property
    def stream(self) -> Stream:
        """The stream that was captured."""
    def launch(self, stream: object | None = None) -> None:
        """Queue the work once more, on `stream`, or on the current one.

        That stream waits for the work that the memory waits for, and the next user of the
        memory for this launch. The host waits only if a framework of the host holds some of
        the memory.
        """
    def __enter__(self) -> Graph: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
        /,
    ) -> None:
        """Ends the capture; if an exception is being raised, what was captured is dropped."""

def capture(
    stream: object | None = None,
    *,
    device: object | None = None,
    mode: Literal["thread-local", "global", "relaxed"] = "thread-local",
) -> Graph:
    """Capture what is queued inside the `with` into a graph, instead of running it.

    `stream` is the one that is captured, a new one if none is named, and the current one
    inside the `with`. `mode` says whose calls that cannot be captured end the capture: those
    of the thread that captures ("thread-local"), of every thread ("global"), or nobody's
    ("relaxed"). Work on the memory that is not done when the capture begins is refused
    inside: wait for it before.

    >>> import gpulend
    >>> x, y = gpulend.full(3, 2.0), gpulend.zeros(3)
    >>> gpulend.synchronize()
    >>> with gpulend.capture() as graph:
    ...     y.copy_from(x)
    >>> y.to_host(), graph.launch(), y.to_host()
    (array([0., 0., 0.], dtype=float32), None, array([2., 2., 2.], dtype=float32))
    """

def borrow(
    array: object,
    stream: object | None = None,
    *,
    ready_on: object | None = None,
    check: bool = True,
) -> Lease:
    """Borrow an array of any framework as a lease, without a copy.

    `stream` is the one that you, the consumer, will use: it waits for the array's producer,
    and the memory is not released before it is done. If none is named, the current stream of
    this thread waits. `ready_on` (a stream, an event, or "now") says after what the bytes are
    valid, for producers that do not know: cuda.core has no current stream, and is taken to
    work on the legacy default one. Host memory is always ready, whatever they are.
    `check=False` leaves out the questions about what a plain array would lose.

    The lease of a torch tensor keeps the storage that the tensor has now, whatever the tensor
    is given later.

    >>> import gpulend, array
    >>> lease = gpulend.borrow(array.array("d", [1, 2, 3]))
    >>> lease.shape, lease.dtype.name, lease.readonly
    ((3,), 'float64', False)
    """

@overload
def lend(
    array: object,
    target: Literal["numpy"],
    *,
    stream: object | None = None,
    copy: bool = False,
    allow_writable_alias: bool = False,
) -> _NumpyArray:
    """Lend an array of any framework to another: `borrow(array).lend(target)`.

    >>> import gpulend, numpy as np
    >>> gpulend.lend(bytearray(b"abc"), "numpy")
    array([97, 98, 99], dtype=uint8)

    `target` is the framework's name or its module. Its current stream, or `stream`, waits for
    the array's producer.
    """

@overload
def lend(
    array: object,
    target: Literal["torch"],
    *,
    stream: object | None = None,
    copy: bool = False,
    allow_writable_alias: bool = False,
) -> _TorchTensor: ...
@overload
def lend(
    array: object,
    target: Literal["jax"],
    *,
    stream: object | None = None,
    copy: bool = False,
    allow_writable_alias: bool = False,
) -> _JaxArray: ...
@overload
def lend(
    array: object,
    target: _Untyped | FrameworkName | ModuleType,
    *,
    stream: object | None = None,
    copy: bool = False,
    allow_writable_alias: bool = False,
) -> Any: ...
def empty(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: object | None = None,
    device: object | None = None,
    *,
    shared: bool = False,
) -> Lease:
    """Allocate an array whose elements are whatever they are.

    On a GPU the memory comes from gpulend's pool, or from the driver's, in the order of the
    current stream. `device` is the one of the stream entered last, or `cuda:0`, if none is
    named; `cpu` gives host memory, zeroed. `shared` memory is of a kind that other processes
    can open by a ticket: on the host a forked child shares it too; on a GPU gpulend's pool is
    used even where it is off.

    >>> import gpulend
    >>> a = gpulend.empty((2, 3), "float32", device="cuda:0")
    >>> a.shape, str(a.device), a.nbytes
    ((2, 3), 'cuda:0', 24)
    """

def zeros(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: object | None = None,
    device: object | None = None,
    *,
    shared: bool = False,
) -> Lease:
    """Allocate an array of zeros.

    >>> import gpulend
    >>> gpulend.zeros(3, "int32").to_host()
    array([0, 0, 0], dtype=int32)
    """

def full(
    shape: SupportsIndex | Sequence[SupportsIndex],
    value: object,
    dtype: object | None = None,
    device: object | None = None,
    *,
    shared: bool = False,
) -> Lease:
    """Allocate an array in which every element is `value`.

    >>> import gpulend
    >>> gpulend.full((2, 2), 1.5, "float64").to_host()
    array([[1.5, 1.5],
           [1.5, 1.5]])
    """

def empty_like(
    array: object,
    *,
    dtype: object | None = None,
    device: object | None = None,
    shared: bool = False,
) -> Lease:
    """Allocate an array of the shape, element type and device of another: of any framework's.

    >>> import gpulend, numpy as np
    >>> gpulend.empty_like(np.zeros((4, 5)), device="cuda:0")
    <gpulend.Lease float64 (4, 5) on cuda:0 at 0x...>
    """

def zeros_like(
    array: object,
    *,
    dtype: object | None = None,
    device: object | None = None,
    shared: bool = False,
) -> Lease:
    """Allocate an array of zeros, of the shape, element type and device of another: of any
    framework's.

    >>> import gpulend
    >>> gpulend.zeros_like(gpulend.full(3, 1.5)).to_host()
    array([0., 0., 0.], dtype=float32)
    """

def layouts_of(arguments: tuple[Any, ...], /) -> tuple[bytes | type, ...]:
    """The layouts of arguments; nothing waits for them.

    Of a number it is the class. Of an array it is bytes, which are equal where the layouts
    are: words of 64 bits, the index of the GPU or -1 and the number of axes, the shape and
    the strides in elements, then the name of the element type.
    """

def mem_get_info(device: object | None = None) -> tuple[int, int]:
    """Free and total bytes of a GPU's memory, whichever process uses it: of `device`, or the one
    of the stream entered last, or `cuda:0`.

    >>> import gpulend
    >>> free, total = gpulend.mem_get_info()
    >>> 0 < free <= total
    True
    """

def pool_usage(device: object | None = None) -> dict[str, Any]:
    """What gpulend's memory on a device comes to: numbers by name, and the bytes of each user."""

def pool_trim(keep: int = 0, device: object | None = None) -> int:
    """Gives cached memory of a device back to the driver until at most `keep` bytes are left.
    Returns how many bytes went.
    """

def pool_set_limit(limit: int | None, device: object | None = None) -> None:
    """Limits what a device's pool may have from the driver; `None` takes the limit away."""

def pool_reset_peak(device: object | None = None) -> None:
    """Lets the peak of a device count from now on."""

def pool_is_on() -> bool:
    """Whether gpulend's pool serves allocations."""

def pool_set_mode(mode: str) -> None:
    """Chooses who serves allocations: `"on"`, `"off"` or `"auto"`, as `GPULEND_POOL` does."""

def pool_allocate(user: str, nbytes: int, stream: object, device: object | None = None) -> int:
    """Takes a block for a framework, to be used in the order of a stream, and returns its
    address.
    """

def pool_free(address: int) -> bool:
    """Gives a block back, in the order of the stream that it was taken for."""

def torch_fail(address: int) -> None:
    """Keeps the address of torch's function that throws an error: its arguments are a function,
    a file, a line and a text.
    """

def torch_streams(device: int, numbers: list[int]) -> None:
    """Remembers that torch never destroys these streams, which are of its own."""

def from_host(
    array: object,
    device: object | None = None,
    *,
    progress: _Progress | None = None,
    shared: bool = False,
) -> Lease:
    """Copy an array of the host to a new one on a GPU.

    A structured array of NumPy's becomes its bytes, with an axis more: kernels take that for
    a pointer to the struct. `progress` is called as by `Lease.copy_from`.

    >>> import gpulend, numpy as np
    >>> a = gpulend.from_host(np.arange(3))
    >>> str(a.device), a.to_host()
    ('cuda:0', array([0, 1, 2]))
    """

def current_stream(device: object | None = None) -> Stream:
    """The stream that this thread works on, on `device`.

    >>> import gpulend
    >>> gpulend.current_stream().handle
    1
    """

def synchronize(device: object | None = None) -> None:
    """Wait on the host for all work of `device`, of whichever library and stream.

    While a stream that gpulend has met is being captured, this is refused. A capture that it
    has not met is invalidated by it, as by any synchronisation of a device.
    """

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
) -> Lease:
    """Make a lease of a raw address: say what lies there and who keeps it alive.

    Exactly one of `owner` (kept until the memory is no longer needed), `deleter` (called as
    `deleter(address, nbytes)`, once, on any thread between two bytecodes: it takes no lock)
    and `unowned=True` (the memory outlives the lease) is required. If the call is refused,
    the deleter is not called: the memory is still the caller's. A lease with a deleter that
    is alive when Python exits, and that nobody holds an export or a slice of, is released
    then.

    `strides` count elements. `device` is asked of the driver if none is named. `ready_on` is
    the stream or event after which the bytes are valid, or "now"; on a GPU None is the legacy
    default stream. `check=False` leaves out the question whether the address is live, long
    enough, and where it is said to be.

    >>> import ctypes, gpulend
    >>> numbers = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
    >>> lease = gpulend.wrap(ctypes.addressof(numbers), (2, 3), "float32", owner=numbers)
    >>> lease[1].to_host()
    array([4., 5., 6.], dtype=float32)
    """

def route(array: object) -> str:
    """Name the protocol by which `borrow` would take this object.

    >>> import gpulend._native
    >>> gpulend._native.route(b"bytes")
    'buffer protocol'
    """

def route_counts() -> dict[str, int]:
    """How often each route was taken in this process, by its name.

    >>> import gpulend, gpulend._native
    >>> before = gpulend._native.route_counts()["buffer protocol"]
    >>> lease = gpulend.borrow(b"bytes")
    >>> gpulend._native.route_counts()["buffer protocol"] - before
    1
    """

def _read_cupy(
    array: Any,
) -> tuple[int, int, str, tuple[int, ...], tuple[int, ...]] | None:
    """Read an array of CuPy's: address, device, element type, shape, strides; None if DLPack has
    to serve. For tests.
    """

def _reroute(native_torch: bool) -> None:
    """Forget all routes, and from now on read torch's tensors by the native reader or by its
    exchange table: for tests of both.
    """

def _forget_routes() -> None:
    """Forget what was answered: a framework has come that may know types that were met before."""

@final
class Passport:
    """What is known about an address.

    For GPU memory the driver answers: `known` is "allocation", "pool block" (of one of the
    driver's pools) or "reservation" (a range of addresses that may be mapped in part; `base`
    and `size` are those of the range). The driver cannot see whether a block in a framework's
    own pool is in use.

    For other memory the kernel answers: `base` and `size` are those of the
    mapping, which usually contains much more than one array, and `known` is "host".
    """

    @property
    def address(self) -> int:
        """The address that was asked for."""
    @property
    def base(self) -> int:
        """The first byte of the allocation or mapping."""
    @property
    def size(self) -> int:
        """The bytes of the allocation or mapping."""
    @property
    def offset(self) -> int:
        """The bytes from `base` to `address`."""
    @property
    def memory(self) -> Literal["host", "pinned", "managed", "device"]:
        """The kind of memory: "host", "pinned", "managed" or "device"."""
    @property
    def device(self) -> Device:
        """The device."""
    @property
    def uuid(self) -> str | None:
        """The device's UUID, as nvidia-smi writes it."""
    @property
    def context(self) -> int | None:
        """The context in which it was allocated."""
    @property
    def buffer_id(self) -> int | None:
        """A number that no other allocation of this process has."""
    @property
    def pool(self) -> int | None:
        """The driver's pool that it comes from."""
    @property
    def known(self) -> Literal["allocation", "pool block", "reservation", "host"]:
        """How much is certain: "allocation", "pool block", "reservation" or "host"."""
    @property
    def shareable(self) -> tuple[Literal["ipc", "fd", "fabric"], ...]:
        """How another process could get it: "ipc", "fd", "fabric"."""
    def __hash__(self) -> int: ...

def entries() -> tuple[
    list[tuple[int, Literal["lease", "sub-lease", "export"], str, int, int, int, float]], int, int
]:
    """All entries (serial, kind, who, of, address, nbytes, age in seconds), and the numbers
    waiting and leaked.
    """

def live() -> int:
    """How many leases, sub-leases and exports are alive."""

def describe(array_or_address: Any, /) -> Passport:
    """Return what is known about an array's memory, or about an address.

    >>> import gpulend, numpy as np
    >>> a = np.zeros(4)
    >>> passport = gpulend.describe(a)
    >>> passport.memory, passport.known, passport.address == a.ctypes.data
    ('host', 'host', True)
    """

def locate(array: object) -> int:
    """The address of an array's first element, which does not count as handed out."""

def lease_of(handle: int) -> Lease:
    """Take over the lease that a handle of C's names; the handle ends."""

def handle_of(lease: Lease) -> int:
    """Give C a handle of a lease, to be freed by `gpulend_free`."""

def set_compilers(clang: str | PathLike[str] | None, roots: Sequence[str | PathLike[str]]) -> None:
    """Set the paths of Python's compilers for C code in this process."""

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
) -> None:
    """Choose the simulated GPU for this process, before its first use of a GPU.

    `devices` (1 to 8), `memory` of each (bytes, or text as "1GiB") and `seed` (what the order
    of queued work follows from) default to what `GPULEND_SIM_DEVICES`, `_MEMORY` and `_SEED`
    say. With `expose=True` other libraries of this process find it as `libcuda.so.1` from now
    on.

    `check` ("off", "memory" or "races") says which mistakes are looked for, `timeout` how
    many seconds a kernel may take (0: no limit), `sticky` whether a kernel's mistake stays
    with its context, `accept_nvvm` whether PTX of NVIDIA's compilers is taken; these too
    default to `GPULEND_SIM_*`.

    It is refused where the process has a real driver mapped, where another choice was made
    before, and where `GPULEND_DEVICE=cuda`. Asking again for the same is no error.

    >>> import gpulend
    >>> gpulend.simulate(devices=2, memory="1GiB")
    >>> gpulend.simulate(devices=2, memory=2**30)
    """

def compile_ptx(
    text: str,
    file: str,
    options: Sequence[str],
    headers: Sequence[tuple[str, str]],
    ziglang: str | PathLike[str] | None,
    /,
) -> tuple[str, list[tuple[str, int, int, str, str]], bool]:
    """Compiles a source: its PTX, warnings about the caller's files, and whether it was compiled
    before.
    """

def compile_module(
    text: str,
    file: str,
    options: Sequence[str],
    headers: Sequence[tuple[str, str]],
    names: Sequence[str],
    compiler: str,
    device: object | None,
    ziglang: str | PathLike[str] | None,
    roots: Callable[[], Sequence[str | PathLike[str]]],
    /,
) -> tuple[Module, list[tuple[str, int, int, str, str]]]:
    """Compiles a source for a device: the module, and what the compiler warned of. `roots` is
    called for folders that have a `lib` or an `include` of NVIDIA's.
    """

def kernel_parameters(
    kernel: Kernel, /
) -> list[tuple[str | None, str, str, bool, str | None, list[str]]]:
    """The parameters of a kernel: of each its name, its type, its role ("array", "integer",
    "float", "bool" or "other"), whether the kernel may write through it, the type of an
    array's elements if there is one, and the types of elements that it accepts.
    """

def check_array(
    kernel: Kernel,
    position: int,
    dtype: str,
    shape: Sequence[int],
    device: str,
    cls: type,
    /,
) -> None:
    """Raise what a launch would raise for an array of these elements, this shape and this
    device, row-major contiguous, as the argument at this position, counted from 0. `cls` is
    the array's class.
    """

@final
class TorchOperation:
    """What torch calls in place of its own function for an operation."""
    def __call__(self, *args: object, **keywords: object) -> Any: ...
    @property
    def __wrapped__(self) -> Any:
        """torch's own function."""
    def __hash__(self) -> int: ...
    def __getattr__(self, name: str, /) -> Any: ...

def torch_operation(
    kernel: Kernel,
    inputs: list[str],
    outputs: Sequence[tuple[int | None, str | None, bool, Callable[[tuple[Any, ...]], Any]]],
    values: list[tuple[str, Any]],
    places: list[int],
    size: list[tuple[str, Any]],
    shared: tuple[str, Any],
    plain: int,
    dispatched: Callable[..., Any],
    /,
) -> TorchOperation | None:
    """Return what torch may call for an operation in place of `dispatched`, its own function;
    None if this torch is not known well enough.

    `inputs` are roles. `outputs` are the input whose shape they have, the name of their
    element type, whether they begin with zeros, and a function that makes them. `places` has
    for each parameter its place among inputs, outputs and values. `size` is one rule for
    elements, or two for grid and block. `plain` are the keys of plain tensors.
    """

def xla_launch(
    kernel: Kernel,
    elements: object | None,
    blocks: tuple[object, object] | None,
    shared: int,
    sources: Sequence[object],
    shapes: Sequence[Sequence[int]],
    operands: int,
    aliases: Sequence[tuple[int, int]],
    /,
) -> int:
    """Describe a launch for XLA, and return its number.

    `elements` is a count or a shape, with one thread for each element; without it, `blocks`
    is the grid and the block. `sources` has for each parameter the place of its buffer in
    `shapes` (operands, then results), as `(place,)`, or a number. `aliases` are pairs of an
    operand and a result, by their places among operands and results.
    """

def xla_handlers() -> tuple[int, int]:
    """The addresses of the handlers for XLA's platforms "cpu" and "CUDA"."""

def load_module(image: bytes, device: object | None, /) -> Module:
    """Takes PTX, a cubin or a fatbin for a device."""

def describe_compiler(ziglang: str | PathLike[str] | None, /) -> tuple[Path, str]:
    """The compiler that is used now: its program, and what identifies it."""

def describe_nvrtc(folders: Sequence[str | PathLike[str]], /) -> tuple[Path, tuple[int, int]]:
    """The NVRTC that is used now, found as a compilation finds it: what was loaded, and its
    version.
    """

def nvidia_package(name: str, major: int | None, /) -> str:
    """The name under which PyPI has one of NVIDIA's packages for a driver's CUDA version: since
    13 it has no suffix.
    """

def is_image(text: str, /) -> bool:
    """Whether a text is loaded and not compiled: PTX, by its first words."""

def takes_next_word(option: str, /) -> bool:
    """Whether the next word belongs to an option."""

def with_release(ptx: str, /) -> str:
    """clang's PTX with the release that has all of its instructions."""

def demangled(name: str, /) -> str | None:
    """A mangled name as C++ writes it; nothing if it is none."""

def program_headers() -> list[tuple[str, str]]:
    """The name and text of each header that a whole program finds besides the system's."""

def toolkit_folders(roots: Sequence[str | PathLike[str]], /) -> tuple[list[Path], list[Path]]:
    """Where NVRTC and CUDA's headers may lie: below an installed CUDA, then below `roots`."""

def cache_folder(name: str, /) -> Path | None:
    """A folder in the user's cache, made if need be; nothing if others could write to it, or
    there is none.
    """

def is_available() -> bool:
    """Whether there is a GPU to work on: a real one, or a simulated one if that is what
    `GPULEND_DEVICE` says, or nothing else is there.

    Raises nothing. It chooses the driver of this process, as every first use does, and makes
    no context.

    >>> import gpulend
    >>> gpulend.is_available()
    True
    """

def device_count() -> int:
    """How many GPUs the driver shows; 0 where none can be used. `gpulend.empty(0)` says why.

    >>> import gpulend
    >>> gpulend.device_count()
    1
    """

def describe_driver() -> tuple[
    Literal["cuda", "simulated"], str, tuple[int, int], list[tuple[str, int, tuple[int, int]]]
]:
    """The driver of this process, chosen now if it was not before."""

def simulator_library() -> str:
    """The path of `libgpulend_sim.so`."""

def driver_folder() -> str:
    """The folder in which `libcuda.so.1` is the simulated GPU."""

def report() -> str:
    """What the simulated GPU of this process saw, as JSON."""

def set_faults(rules: str, /) -> None:
    """Says what shall go wrong on the simulated GPU of this process."""

def rehearse() -> None:
    """Tries the settings of the environment in a process that will not use the simulated GPU."""

def claim(ticket: Buffer, /) -> Lease:
    """Claim a ticket: a lease of memory that another process lends.

    The memory is opened, not copied, and stays until the lease ends, also if the lender drops
    it or is killed. In the process that made the ticket the result is a slice of its lease.
    Unpickling a lease does the same.

    >>> import gpulend
    >>> lease = gpulend.zeros(3, "int32", device="cpu", shared=True)
    >>> same = gpulend.claim(lease.ticket())
    >>> lease[1] = 7
    >>> same.to_host()
    array([0, 7, 0], dtype=int32)
    """

def claims(tickets: Iterable[Buffer], /) -> list[Lease]:
    """Claim several tickets at once: those of one lender take few messages. An error if one is
    refused; the others are released then.

    >>> import gpulend
    >>> leases = [gpulend.zeros(3, device="cpu", shared=True) for _ in range(2)]
    >>> [lease.shape for lease in gpulend.claims(gpulend.tickets(leases))]
    [(3,), (3,)]
    """

def withdraw_ticket(ticket: bytes, /) -> bool:
    """End a ticket of this process; whether it could still be claimed."""

def check_ticket(ticket: bytes, /) -> None:
    """Refuse bytes that are not a ticket."""

def end_tickets() -> None:
    """End all offers, and remove this process's socket."""

def ticket_copies() -> int:
    """How many tickets of copies this process made."""
