"""What a valid use of any driver function works on, and how such a use is run and undone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_void_p
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .cuda import check
from .resources import PER_THREAD, Resources, current, end_capture, pattern, status, value
from .variants import cu

SIZE = 256


class Out:
    """A place for a result, full of bytes that are no result."""

    def __init__(self, kind: Any = c_void_p) -> None:
        self.data = kind() if isinstance(kind, type) else kind
        if isinstance(kind, type):
            ctypes.memset(byref(self.data), 0xA5, ctypes.sizeof(self.data))

    @property
    def value(self) -> Any:
        """What is in it."""
        return self.data.value


class Bench:
    """What the calls work on, made when first asked for; the resources puts it away."""

    def __init__(self, resources: Resources, per_thread: bool) -> None:
        self.resources = resources
        self.context = resources.context
        self.per_thread = per_thread
        self._watched: dict[int, int] = {}
        self._kept: list[Any] = []

    def _later(self, release: Any, handle: int) -> int:
        return self.resources._keep(release, handle)

    def _watch(self, address: int, seed: int, size: int = SIZE) -> int:
        check(cu.cuMemcpyHtoD_v2(address, pattern(size, seed), size))
        check(cu.cuCtxSynchronize())
        self._watched[address] = size
        return address

    @cached_property
    def stream(self) -> int | None:
        """A stream; for the per-thread variants stream 0, which is the thread's own."""
        return None if self.per_thread else self.resources.stream()

    @cached_property
    def device(self) -> int:
        """Device memory to write to."""
        return self._watch(self.resources.alloc(SIZE), 1)

    @cached_property
    def other(self) -> int:
        """Device memory to read from."""
        return self._watch(self.resources.alloc(SIZE), 2)

    @cached_property
    def pinned(self) -> int:
        """Pinned memory."""
        return self._watch(self.resources.pinned(SIZE), 3)

    @cached_property
    def managed(self) -> int:
        """Managed memory."""
        return self._watch(self.resources.managed(SIZE), 4)

    @cached_property
    def word(self) -> int:
        """Eight pinned bytes, all zero."""
        address = self.resources.pinned(8)
        self._watched[address] = 8
        return address

    @cached_property
    def pages(self) -> Any:
        """Ordinary memory."""
        return ctypes.create_string_buffer(pattern(SIZE, 5), SIZE)

    def keep(self, thing: Any) -> Any:
        """Keep something alive that the driver will write to."""
        self._kept.append(thing)
        return thing

    @cached_property
    def pool(self) -> int:
        """A pool of device 0."""
        return self.resources.pool()

    def event(self) -> int:
        """Make an event whose record is complete."""
        event = self.resources.event()
        check(cu.cuEventRecord(event, None))
        check(cu.cuEventSynchronize(event))
        return event

    def begin(self) -> int | None:
        """Begin a capture on the stream and return the stream."""
        check(cu.cuStreamBeginCapture_v2(self.handle, 2))
        return self.stream

    @property
    def handle(self) -> int | None:
        """The stream as functions that are not per-thread variants know it."""
        return PER_THREAD if self.per_thread else self.stream

    def graph(self) -> int:
        """Capture one memset."""
        target = self.device
        self.begin()
        check(cu.cuMemsetD8Async(target, 7, SIZE, self.handle))
        code, graph = end_capture(self.handle)
        check(code)
        assert graph is not None
        return graph

    @cached_property
    def kept_graph(self) -> int:
        """A graph that the resources destroys."""
        return self._later(cu.cuGraphDestroy, self.graph())

    @cached_property
    def executable(self) -> int:
        """The same, executable."""
        return self.resources.executable(self.graph())

    @cached_property
    def peer(self) -> int:
        """A context of device 1, not current."""
        peer = value(c_void_p, cu.cuCtxCreate_v2, 0, 1)
        check(cu.cuCtxPopCurrent_v2(None))
        return self._later(cu.cuCtxDestroy_v2, peer)

    def state(self) -> list[Any]:
        """Return what a call that fails must not have changed."""
        words = [ctypes.create_string_buffer(size) for size in self._watched.values()]
        streams = [PER_THREAD, *([self.handle] if "stream" in vars(self) else [])]
        captures = [status(stream) for stream in streams]
        if not any(captures):
            for word, address in zip(words, self._watched, strict=True):
                check(cu.cuMemcpyDtoH_v2(word, address, len(word)))
        return [current(), captures, [word.raw for word in words]]


Arguments = Callable[[Bench], tuple[Any, ...]]
Undo = Callable[..., Any]


@dataclass(frozen=True)
class Use:
    """How to use a function."""

    arguments: Arguments
    undo: Undo | None = None  # given the bench and the arguments
    answer: int = 0


class Table(dict[str, Use]):
    """Uses by symbol."""

    def add(
        self, symbols: str, arguments: Arguments, undo: Undo | None = None, answer: int = 0
    ) -> None:
        """Note a use that several symbols share."""
        for symbol in symbols.split():
            assert symbol not in self, symbol
            self[symbol] = Use(arguments, undo, answer)


def then(destroy: Any) -> Undo:
    """Undo by destroying what the first argument received."""
    return lambda _, made, *__: check(destroy(made.value))


class Call:
    """A function with the arguments of its use, ready to be called."""

    def __init__(self, symbol: str, use: Use, bench: Bench) -> None:
        self._function = getattr(cu, symbol)
        self._use = use
        self._bench = bench
        self._given = use.arguments(bench)
        self.answer = use.answer

    def __call__(self) -> int:
        """Make the call."""
        given = [byref(each.data) if isinstance(each, Out) else each for each in self._given]
        return self._function(*given)

    def outs(self) -> list[bytes]:
        """Return the bytes of all results."""
        return [bytes(each.data) for each in self._given if isinstance(each, Out)]

    def undo(self) -> None:
        """Undo the call, after it succeeded."""
        if self._use.undo:
            self._use.undo(self._bench, *self._given)


def hold_legacy(resources: Resources) -> None:
    """Keep back what a blocking stream has, and with it whatever the legacy stream gets."""
    resources.gate().hold(resources.stream(0))


def peek(resources: Resources, address: int, size: int = SIZE) -> bytes:
    """Read memory without waiting for the legacy stream."""
    stream, out = resources.stream(), resources.pinned(size)
    check(cu.cuMemcpyAsync(out, address, size, stream))
    check(cu.cuStreamSynchronize(stream))
    return ctypes.string_at(out, size)
