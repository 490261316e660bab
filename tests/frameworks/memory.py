"""What a test asks of a framework: of its memory, and of its work on streams."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from gpu.resources import PROMISED, REAL, need
from gpulend import adapters

SIZE = 256
KINDS = ("default", "non-blocking", "per-thread")
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Reading = Callable[[], Bytes]


class Memory:
    """One framework."""

    name = ""
    # Where its own memory lies, and whose memory it takes.
    makes, takes = "host", ("host",)
    # Whether what it takes can be marked read-only, or is never written.
    keeps_readonly = False
    # Whether its own arrays are never written, so that nobody else may.
    immutable = False

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Import the framework and make what all tests use."""

    def enter(self) -> None:
        """Prepare for a test."""

    def leave(self) -> None:
        """Undo that, after all arrays of the test are gone."""

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Make an array of its own with a copy of what NumPy's holds, ready."""
        raise NotImplementedError

    def make(self, byte: int) -> Any:
        """Make an array of its own of one byte, ready."""
        return self.of(np.full(SIZE, byte, np.uint8))

    def write(self, array: Any, byte: int) -> Any:
        """Write an array as the framework does, late; return the array that will hold the byte."""
        raise NotImplementedError

    def address(self, array: Any) -> int:
        """Ask the framework where an array lies."""
        raise NotImplementedError

    def values(self, array: Any) -> np.ndarray[Any, Any]:
        """Read an array by the framework's own means, after its own earlier work."""
        raise NotImplementedError

    def give(self, array: Any) -> Any:
        """Return what `gpulend.lend` is called with."""
        return array

    def is_readonly(self, _array: Any) -> bool:
        """Return whether a taken array cannot be written."""
        return True


class OnStreams(Memory):
    """A framework whose work a test puts on streams of its choice, of device 0.

    Where the framework has a current stream, that stream is set around each step, as its users do.
    """

    kinds: tuple[str, ...] = KINDS
    # Whether the host may wait in a hand-over from it, because it does not say its stream.
    hidden = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._streams: dict[str, Any] = {}

    def stream(self, kind: str) -> Any:
        """Return the stream of a kind, the same one each time."""
        if kind not in self._streams:
            self._streams[kind] = self.new_stream(kind)
        return self._streams[kind]

    def new_stream(self, kind: str) -> Any:
        """Make the stream of a kind."""
        raise NotImplementedError

    def handle(self, stream: Any) -> int:
        """Return a stream's number."""
        return gpulend.Stream(stream).handle

    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Make a stream the framework's current one."""
        raise NotImplementedError

    def make_on(self, stream: Any, byte: int, size: int) -> Any:
        """Queue the filling of a new array of bytes; the caller waits for it."""
        raise NotImplementedError

    def write_on(self, stream: Any, array: Any, byte: int) -> Any:
        """Queue a fill; return the array that will hold the byte."""
        with self.current(stream):
            return self.write(array, byte)

    def give_on(self, _stream: Any, array: Any) -> Any:
        """Return what `gpulend.lend` is called with, the stream being current."""
        return self.give(array)

    def take_on(self, _stream: Any, source: Any) -> Any:
        """Take what another gave, the stream being current."""
        return gpulend.lend(source, self.name)

    def read_on(self, stream: Any, taken: Any) -> Reading:
        """Queue a read; what is returned waits for it and gives the bytes."""
        raise NotImplementedError


class Probed(Memory):
    """A framework by the probe of its adapter: on a GPU where there is a real one."""

    def __init__(self, framework: adapters.Framework | None = None) -> None:
        self.framework = framework or adapters.FRAMEWORKS[self.name]
        self.name = self.framework.name
        super().__init__()

    def open(self) -> None:
        """Import it, and read its adapter."""
        need(self.framework.module)
        adapter = self.framework.load()
        self.probe = adapter.probe
        if self.probe is None or not (self.probe.copied and self.probe.fill and self.probe.values):
            assert self.framework.module not in PROMISED, "a promised framework is not tried"
            pytest.skip(f"the probe of {self.name} does not copy, fill and read arrays")
        if adapter.consumer is None:
            assert self.framework.module not in PROMISED, "a promised framework is not tried"
            pytest.skip(f"gpulend does not lend to {self.name}")
        takes = adapter.consumer.takes
        self.never_writes = takes.never_writes
        self.keeps_readonly = takes.readonly or takes.never_writes
        self.immutable = any(producer.immutable for producer in adapter.producers)
        # A build without a GPU makes nothing there.
        on_gpu = REAL and self.probe.gpu is not None and self.probe.gpu((1,), "uint8") is not None
        self.makes = "gpu" if on_gpu else "host"
        self.takes = ("host",) * takes.host + ("gpu",) * on_gpu

    def of(self, host: np.ndarray[Any, Any]) -> Any:
        """Copy, and read the copy so that it is ready."""
        made = self.probe.copied(host, self.makes)
        self.values(made)
        return made

    def write(self, array: Any, byte: int) -> Any:
        """Fill it."""
        return self.probe.fill(array, byte)

    def address(self, array: Any) -> int:
        """Ask the probe."""
        return int(self.probe.address(array))

    def values(self, array: Any) -> Bytes:
        """Copy it."""
        return np.array(self.probe.values(array))

    def is_readonly(self, array: Any) -> bool:
        """Borrow it; a framework that never writes needs no mark."""
        return self.never_writes or gpulend.borrow(array).readonly


def read(address: int) -> Bytes:
    """Copy from the GPU by the driver, on the legacy default stream."""
    host = np.empty(SIZE, np.uint8)
    check(cu.cuMemcpyDtoH_v2(host.ctypes.data, address, SIZE))
    return host
