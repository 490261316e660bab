"""gpulend's own memory pool: what it holds, and how other frameworks allocate from it.

>>> import gpulend
>>> gpulend.pool.set_mode("on")
>>> array = gpulend.empty(1000, "float32")
>>> gpulend.memory().live
4096
>>> array.release()
>>> gpulend.memory().live, gpulend.pool.trim()
(0, 2097152)
>>> gpulend.pool.set_mode("auto")
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from ctypes import c_void_p
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from gpulend import _native
from gpulend._codes import BAD_ARGUMENT
from gpulend.exceptions import OutOfMemoryError, ProtocolError

__all__ = [
    "Memory",
    "Use",
    "is_on",
    "limit",
    "memory",
    "reset_peak",
    "set_limit",
    "set_mode",
    "trim",
    "use",
]

Framework = Literal["torch", "cupy", "numba"]
# The per-thread default stream: a block for it is one on which no work is left, and it is used
# again only after all work that the device has when it is freed.
_NO_STREAM = 2


@dataclass(frozen=True)
class Memory:
    """The memory of one device that gpulend allocated, in bytes.

    `live` is in use and `cached` is kept for later, together what the pool has from the driver,
    `reserved`. `peak` is the most that was in use at one time. `largest` is the largest array that
    the cached memory has room for, and `fragmentation` the share of it that is elsewhere. `users`
    says who uses how much: leases, and the frameworks of `gpulend.pool.use`.
    """

    live: int
    cached: int
    peak: int
    reserved: int
    largest: int
    blocks: int
    segments: int
    fragmentation: float
    limit: int | None
    users: dict[str, int] = field(default_factory=dict)


def memory(device: object | None = None) -> Memory:
    """Return how much memory of a device gpulend has: of the one entered last, or `cuda:0`.

    >>> import gpulend
    >>> with gpulend.empty(1 << 20, "uint8"):
    ...     gpulend.memory().live >= 1 << 20
    True
    """
    return Memory(**_native.pool_usage(device))


def trim(keep: int = 0, device: object | None = None) -> int:
    """Give cached memory back to the driver until at most `keep` bytes are left.

    It waits for the streams in whose order the memory was freed, and returns how many bytes went.
    """
    return _native.pool_trim(keep, device)


def limit(device: object | None = None) -> int | None:
    """Return the most bytes that the pool of a device may have from the driver."""
    return memory(device).limit


def set_limit(nbytes: int | None, device: object | None = None) -> None:
    """Limit what the pool of a device may have from the driver; `None` takes the limit away."""
    _native.pool_set_limit(nbytes, device)


def reset_peak(device: object | None = None) -> None:
    """Let `gpulend.memory().peak` count from now on."""
    _native.pool_reset_peak(device)


def is_on() -> bool:
    """Return whether the pool serves `gpulend.empty` and its like, and not the driver."""
    return _native.pool_is_on()


def set_mode(mode: Literal["auto", "on", "off"]) -> None:
    """Choose who serves allocations from now on, as `GPULEND_POOL` does at the start."""
    _native.pool_set_mode(mode)


class Use:
    """Frameworks that allocate from gpulend's pool, until `undo` or the end of a `with` block.

    Memory that they allocated meanwhile stays theirs, and goes back to the pool when they free it.
    """

    def __init__(self, names: tuple[str, ...], direct: bool = False) -> None:
        self._undo: list[tuple[str, Callable[[], None]]] = []
        try:
            for name in names:
                self._undo.append((name, _start(name, direct)))
                _STACKS.setdefault(name, []).append(self)
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Let the frameworks allocate as they did before, the last first. Twice is once."""
        for name, _ in self._undo:
            if _STACKS[name][-1] is not self:
                raise RuntimeError(f"{name} was set to use the pool again later; undo that first")
        while self._undo:
            name, undo = self._undo[-1]
            undo()
            self._undo.pop()
            _STACKS[name].pop()

    def __enter__(self) -> Use:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()


# Who set a framework to use the pool, the last one last.
_STACKS: dict[str, list[Use]] = {}


def use(*frameworks: Framework, direct: bool = False) -> Use:
    """Let frameworks allocate from gpulend's pool, in the order of their own streams.

    torch's tensors come from it on every thread and the current device, through a `MemPool`; CuPy's
    arrays on every thread, and Numba's in every context. `undo` of the result, or leaving a `with`
    block, ends it.

    A `MemPool` keeps memory for torch alone. With `direct` each tensor is a block of the pool, on
    all devices, so that others can use what torch frees. It must come before torch's first use of a
    GPU, torch stays with the pool until the process ends, and its own statistics are not available.

    >>> import gpulend
    >>> gpulend.pool.use("mxnet")
    Traceback (most recent call last):
    ...
    gpulend.exceptions.ProtocolError: mxnet cannot use gpulend's pool; these can: cupy, numba, torch
    """
    return Use(frameworks, direct)


def _start(name: str, direct: bool) -> Callable[[], None]:
    torch = _start_torch_directly if direct else _start_torch
    starts = {"cupy": _start_cupy, "numba": _start_numba, "torch": torch}
    if name not in starts:
        known = ", ".join(sorted(starts))
        raise ProtocolError(f"{name} cannot use gpulend's pool; these can: {known}", BAD_ARGUMENT)
    return starts[name]()


def _refuse_torch(problem: str) -> ProtocolError:
    return ProtocolError(f"torch cannot use gpulend's pool: {problem}", BAD_ARGUMENT)


def _start_torch() -> Callable[[], None]:
    import torch

    if not torch.cuda.is_available():
        raise _refuse_torch("this torch finds no GPU")
    if not hasattr(torch.cuda, "MemPool"):
        raise _refuse_torch("it has no MemPool before torch 2.5")
    if _DIRECT:
        return lambda: None
    pool, device = _torch_pool(), torch.cuda.current_device()
    begin: Any = getattr(torch._C, "_cuda_beginAllocateToPool", None)
    if begin is None:
        # The calling thread's tensors only: not those that `backward` makes on a thread of torch's.
        entered = ExitStack()
        entered.enter_context(torch.cuda.use_mem_pool(pool))
        return entered.close
    # What `use_mem_pool` does, for all threads.
    begin(device, pool.id)

    def undo() -> None:
        torch._C._cuda_endAllocateToPool(device, pool.id)
        torch._C._cuda_releasePool(device, pool.id)

    return undo


@cache
def _torch_pool() -> Any:
    # One for the process: tensors outlive `undo`, and torch keeps what they leave.
    import torch

    functions = ("_gpulend_torch_allocate", "_gpulend_torch_free")
    allocator: Any = torch.cuda.memory.CUDAPluggableAllocator(str(_native.__file__), *functions)
    pool: Any = torch.cuda.MemPool(allocator.allocator())
    _KEPT.append(allocator)
    return pool


# torch calls it as long as a tensor of the pool lives, and does not keep it.
_KEPT: list[object] = []
# The allocator of a torch that has no cache of its own.
_DIRECT: list[object] = []
# How many streams of each priority torch has; a program gets them in turn.
_TORCH_STREAMS = 32


def _teach_torchs_error() -> None:
    """Tell the native half how to throw torch's error.

    torch does not ask whether an allocator that it was given had memory.
    """
    import torch

    library = Path(str(torch.__file__)).with_name("lib") / "libc10.so"
    try:
        # c10::detail::torchCheckFail(const char *, const char *, unsigned, const char *)
        fail = ctypes.CDLL(str(library))._ZN3c106detail14torchCheckFailEPKcS2_jS2_
    except (OSError, AttributeError) as error:
        raise _refuse_torch(f"{library} has no function that throws torch's errors") from error
    _native.torch_fail(ctypes.cast(fail, c_void_p).value or 0)


def _start_torch_directly() -> Callable[[], None]:
    import torch

    if _DIRECT:
        return lambda: None
    if not torch.cuda.is_available():
        raise _refuse_torch("this torch finds no GPU")
    late = (
        "it has used a GPU already, and cannot change its allocator; call "
        "`gpulend.pool.use(..., direct=True)` before, or leave out `direct`"
    )
    cuda: Any = torch.cuda
    if cuda.is_initialized():
        raise _refuse_torch(late)
    _teach_torchs_error()
    functions = ("_gpulend_torch_take", "_gpulend_torch_give")
    allocator: Any = torch.cuda.memory.CUDAPluggableAllocator(str(_native.__file__), *functions)
    # Without this function `Tensor.record_stream` would do nothing.
    used = ctypes.CDLL(str(_native.__file__))._gpulend_torch_used
    allocator.allocator().set_record_stream_fn(ctypes.cast(used, c_void_p).value)
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise _refuse_torch(late) from error
    _DIRECT.append(allocator)
    cuda.init()
    for device in range(cuda.device_count()):
        for priority in (0, -1):
            streams = [cuda.Stream(device, priority) for _ in range(_TORCH_STREAMS)]
            _native.torch_streams(device, [stream.cuda_stream for stream in streams])
    # torch cannot get its own allocator back.
    return lambda: None


class _Freed:
    """Gives a block back to the pool when it is collected."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        self.address = address

    def __del__(self, free: Callable[[int], bool] = _native.pool_free) -> None:
        free(self.address)


def _start_cupy() -> Callable[[], None]:
    import cupy

    def allocate(size: int) -> Any:
        device = cupy.cuda.runtime.getDevice()
        if size == 0:
            return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0, 0, None, device), 0)
        stream = cupy.cuda.get_current_stream()
        try:
            address = _native.pool_allocate("cupy", size, stream, device)
        except OutOfMemoryError as error:
            reserved = memory(device).reserved
            raise cupy.cuda.memory.OutOfMemoryError(size, reserved, 0) from error
        owner = _Freed(address)
        return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address, size, owner, device), 0)

    before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(allocate)
    return lambda: cupy.cuda.set_allocator(before)


def _start_numba() -> Callable[[], None]:
    from numba.cuda.cudadrv import driver

    plugin = _numba_plugin(driver)
    before = driver._memory_manager
    driver.set_memory_manager(plugin)
    moved = []
    # Contexts that are there keep the manager that they were made with.
    for device in list(driver.driver.devices.values()):
        context = device.primary_context
        if context is not None:
            moved.append((context, context.memory_manager))
            context.memory_manager = plugin(context=context)
            context.memory_manager.initialize()

    def undo() -> None:
        driver._memory_manager = before
        for context, manager in moved:
            context.memory_manager = manager
        known = [context for context, _ in moved]
        for device in list(driver.driver.devices.values()):
            context = device.primary_context
            if context is not None and context not in known:
                default = before or driver.NumbaCUDAMemoryManager
                context.memory_manager = default(context=context)
                context.memory_manager.initialize()

    return undo


def _numba_plugin(driver: Any) -> Any:
    """Return the memory manager as a class of the Numba that is installed."""

    class Manager(driver.GetIpcHandleMixin, driver.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
        """Memory of the pool. Numba does not say on which streams it uses what it allocates."""

        def initialize(self) -> None:
            if self.deallocations.memory_capacity == driver._SizeNotSet:
                self.deallocations.memory_capacity = self.get_memory_info().total

        def memalloc(self, size: int) -> Any:
            device = self.context.device.id
            address = _native.pool_allocate("numba", max(size, 1), _NO_STREAM, device)
            allocations, give_back = self.allocations, _native.pool_free

            def finalizer() -> None:
                # First: another allocation may get the address as soon as it is given back.
                allocations.pop(address, None)
                give_back(address)

            context = weakref.proxy(self.context)
            memory = driver.AutoFreePointer(context, c_void_p(address), size, finalizer=finalizer)
            allocations[address] = memory
            return memory.own()

        def get_memory_info(self) -> Any:
            free, total = _native.mem_get_info(self.context.device.id)
            return driver.MemoryInfo(free=free, total=total)

        @property
        def interface_version(self) -> int:
            return 1

    return Manager
