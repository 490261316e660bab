"""The frameworks that hand memory over on streams: how each names streams, writes, takes and reads.

Where a framework has a current stream it is set around each step, as its users do; cuda.core has
none, so `ready_on=` and `stream=` say it. JAX hides its streams: it has one kind only, "hidden".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import LEGACY, PER_THREAD

from .resources import REAL, GpuResources, bytes_at, copy, need

KINDS = ("default", "non-blocking", "per-thread")
SIZE = 1 << 18 if REAL else 1 << 12
Reading = Callable[[], "np.ndarray[Any, Any]"]


class Framework(ABC):
    """One framework on device 0."""

    name = ""
    kinds: tuple[str, ...] = KINDS
    # Whether the host may wait in a hand-over from it: it does not tell its stream.
    hidden = False

    def __init__(self, gpu: GpuResources) -> None:
        self.gpu = gpu
        self._streams: dict[str, Any] = {}

    def stream(self, kind: str) -> Any:
        """Return the stream of a kind, the same one each time."""
        if kind not in self._streams:
            self._streams[kind] = self._stream(kind)
        return self._streams[kind]

    @abstractmethod
    def _stream(self, kind: str) -> Any:
        """Make the stream of a kind."""

    def handle(self, stream: Any) -> int:
        """Return a stream's number."""
        return gpulend.Stream(stream).handle

    @abstractmethod
    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Make a stream the framework's current one."""

    @abstractmethod
    def make(self, stream: Any, byte: int) -> Any:
        """Make an array of bytes on a stream; the caller waits for it."""

    @abstractmethod
    def write(self, array: Any, byte: int, stream: Any) -> Any:
        """Queue a fill on a stream; return the array that will hold it."""

    def give(self, array: Any, stream: Any) -> Any:
        """Return what `gpulend.lend` is called with, the stream being current."""
        return array

    def take(self, source: Any, stream: Any) -> Any:
        """Take what another gave, the stream being current."""
        return gpulend.lend(source, self.name)

    @abstractmethod
    def read(self, taken: Any, stream: Any) -> Reading:
        """Queue a read on a stream; what is returned waits for it and gives the bytes."""

    def synchronize(self) -> None:
        """Wait for everything."""
        check(cu.cuCtxSynchronize())


class Gpulend(Framework):
    """Leases and streams of our own."""

    name = "gpulend"

    def _stream(self, kind: str) -> Any:
        numbers = {"default": LEGACY, "per-thread": PER_THREAD}
        return gpulend.Stream(numbers.get(kind))

    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Enter the stream."""
        return stream

    def make(self, stream: Any, byte: int) -> Any:
        """Fill a new lease."""
        with stream:
            return gpulend.full(SIZE, byte, "uint8")

    def write(self, array: Any, byte: int, stream: Any) -> Any:
        """Copy from a lease that was filled on the same stream."""
        with stream:
            array.copy_from(gpulend.full(SIZE, byte, "uint8"))
        return array

    def take(self, source: Any, stream: Any) -> Any:
        """Borrow for a stream."""
        return gpulend.borrow(source, stream)

    def read(self, taken: Any, stream: Any) -> Reading:
        """Copy into a lease of our own."""
        with stream:
            out = gpulend.empty(taken.shape, taken.dtype)
            out.copy_from(taken)

        def result() -> np.ndarray[Any, Any]:
            stream.synchronize()
            return out.to_host().view("uint8")

        return result


class CudaCore(Framework):
    """Buffers and views of cuda.core."""

    name = "cuda.core"

    def __init__(self, gpu: GpuResources) -> None:
        super().__init__(gpu)
        self.core = need("cuda.core")
        self.device = self.core.Device(0)
        self.device.set_current()

    def _stream(self, kind: str) -> Any:
        if kind == "default":
            return self.core.LEGACY_DEFAULT_STREAM
        if kind == "per-thread":
            return self.core.PER_THREAD_DEFAULT_STREAM
        return self.device.create_stream()

    def handle(self, stream: Any) -> int:
        """Ask the protocol."""
        return int(stream.__cuda_stream__()[1])

    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Do nothing: cuda.core has no current stream."""
        return nullcontext()

    def make(self, stream: Any, byte: int) -> Any:
        """Allocate a buffer and fill it."""
        buffer = self.device.allocate(SIZE, stream=stream)
        buffer.fill(byte, stream=stream)
        return buffer

    def write(self, array: Any, byte: int, stream: Any) -> Any:
        """Fill the buffer."""
        array.fill(byte, stream=stream)
        return array

    def give(self, array: Any, stream: Any) -> Any:
        """Say on which stream it was written."""
        return gpulend.borrow(array, ready_on=stream)

    def take(self, source: Any, stream: Any) -> Any:
        """Say on which stream it will be read."""
        return gpulend.lend(source, self.name, stream=stream)

    def read(self, taken: Any, stream: Any) -> Reading:
        """Copy to pinned memory by the driver."""
        size = taken.size * taken.dtype.itemsize
        handle = self.handle(stream)
        target = self._pinned(size)
        copy(target, taken.ptr, size, handle)

        def result() -> np.ndarray[Any, Any]:
            check(cu.cuStreamSynchronize(handle))
            return bytes_at(target, size)

        return result

    def _pinned(self, size: int) -> int:
        # Pinning memory may wait for the GPU, so it is done once, before any gate is closed.
        if not hasattr(self, "_target"):
            self._target = self.gpu.pinned(2 * size)
        return self._target


class Torch(Framework):
    """torch on a real GPU."""

    name = "torch"

    def __init__(self, gpu: GpuResources) -> None:
        super().__init__(gpu)
        self.torch = need("torch")

    def _stream(self, kind: str) -> Any:
        if kind == "default":
            return self.torch.cuda.default_stream()
        if kind == "per-thread":
            return self.torch.cuda.ExternalStream(PER_THREAD)
        return self.torch.cuda.Stream()

    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Use torch's own block."""
        return self.torch.cuda.stream(stream)

    def make(self, stream: Any, byte: int) -> Any:
        """Fill a new tensor."""
        with self.current(stream):
            return self.torch.full((SIZE,), byte, dtype=self.torch.uint8, device="cuda")

    def write(self, array: Any, byte: int, stream: Any) -> Any:
        """Fill the tensor."""
        with self.current(stream):
            array.fill_(byte)
        return array

    def read(self, taken: Any, stream: Any) -> Reading:
        """Clone the tensor."""
        with self.current(stream):
            out = taken.clone()

        def result() -> np.ndarray[Any, Any]:
            stream.synchronize()
            return out.cpu().numpy().view("uint8")

        return result


class CuPy(Framework):
    """CuPy on a real GPU."""

    name = "cupy"

    def __init__(self, gpu: GpuResources) -> None:
        super().__init__(gpu)
        self.cupy = need("cupy")

    def _stream(self, kind: str) -> Any:
        if kind == "default":
            return self.cupy.cuda.Stream.null
        if kind == "per-thread":
            return self.cupy.cuda.Stream.ptds
        return self.cupy.cuda.Stream(non_blocking=True)

    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Use CuPy's own block."""
        return stream

    def make(self, stream: Any, byte: int) -> Any:
        """Fill a new array."""
        with stream:
            return self.cupy.full(SIZE, byte, self.cupy.uint8)

    def write(self, array: Any, byte: int, stream: Any) -> Any:
        """Fill the array."""
        with stream:
            array.fill(byte)
        return array

    def read(self, taken: Any, stream: Any) -> Reading:
        """Copy the array."""
        with stream:
            out = taken.copy()

        def result() -> np.ndarray[Any, Any]:
            stream.synchronize()
            with stream:
                return out.get().view("uint8")

        return result


class Jax(Framework):
    """JAX on a real GPU: it computes where it likes, so what it depends on is held back."""

    name = "jax"
    kinds = ("hidden",)
    hidden = True

    def __init__(self, gpu: GpuResources) -> None:
        super().__init__(gpu)
        self.jax = need("jax")
        if self.jax.default_backend() != "gpu":
            pytest.skip("this JAX has no GPU")
        self._feeder = Gpulend(gpu)
        self._copy = self.jax.jit(lambda array: array ^ self.jax.numpy.zeros((), array.dtype))

    def _stream(self, kind: str) -> Any:
        return self._feeder.stream("non-blocking")

    def current(self, stream: Any) -> AbstractContextManager[Any]:
        """Do nothing: nobody can say where JAX works."""
        return nullcontext()

    def make(self, stream: Any, byte: int) -> Any:
        """Make the lease that JAX is fed from."""
        return self._feeder.make(stream, byte)

    def write(self, array: Any, byte: int, stream: Any) -> Any:
        """Feed JAX with what is written on a stream that can be held, and let it compute."""
        fed = self._feeder.write(array, byte, stream)
        return self._copy(fed.lend("jax"))

    def read(self, taken: Any, stream: Any) -> Reading:
        """Compute a copy."""
        out = self._copy(taken)
        return lambda: np.asarray(out).view("uint8")


FRAMEWORKS = {kind.name: kind for kind in (Gpulend, CudaCore, Torch, CuPy, Jax)}
# On the simulated GPU the others are frameworks of the CPU, which wait as documented.
HERE = tuple(FRAMEWORKS) if REAL else ("gpulend", "cuda.core")


def pairs() -> list[tuple[str, str]]:
    """Return each ordered pair of frameworks that hand GPU memory over here."""
    return [(producer, consumer) for producer in HERE for consumer in HERE]


@contextmanager
def hand_over(
    producer: Framework, consumer: Framework, array: Any, before: Any, after: Any, at_once: bool
) -> Iterator[Any]:
    """Hand an array over: in one call, or by a lease that is borrowed first and lent then."""
    if at_once and producer.name != consumer.name:
        with producer.current(before), consumer.current(after):
            taken = consumer.take(producer.give(array, before), after)
    else:
        with producer.current(before):
            lease = gpulend.borrow(producer.give(array, before))
        with consumer.current(after):
            taken = consumer.take(lease, after)
        del lease
    yield taken
