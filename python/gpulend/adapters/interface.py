"""What a framework says of itself: how its arrays come in, how it takes others', how it is tried.

A `Framework` is cheap: it names the module in which its `Adapter` is, and that
is imported when an array of the framework comes, or something is lent to it.
Nothing here imports a framework.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, NewType, TypeAlias

from gpulend._codes import BAD_ARGUMENT
from gpulend.exceptions import ProtocolError

__all__ = [
    "PLAIN",
    "Adapter",
    "Consumer",
    "Framework",
    "FrameworkName",
    "KnownFramework",
    "Makes",
    "Probe",
    "Producer",
    "StreamType",
    "Streams",
    "Takes",
    "made_of",
    "module_of",
]

# Element types that every framework has.
PLAIN = (
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("bool", "float16", "float32", "float64", "complex64", "complex128"),
)
# The frameworks that `lend` knows by name, for type checkers: a misspelt name is an error there.
KnownFramework: TypeAlias = Literal[
    "numpy",
    "torch",
    "jax",
    "cupy",
    "numba",
    "cuda.core",
    "tensorflow",
    "pyopencl",
    "pycuda",
    "tvm_ffi",
    "warp",
]
# The name of any framework, also of a registered one: `lend(array, FrameworkName("blocks"))`.
FrameworkName = NewType("FrameworkName", str)
# The name of a framework: people type it, and `gpulend doctor --only` separates names by commas.
_NAME = re.compile(r"\w([\w.+ -]*\w)?")
_TEXTS = ("name", "module", "install", "short")
# Makes an array of a shape and an element type. None: the framework has no such memory here.
Make = Callable[[tuple[int, ...], str], Any]


def module_of(cls: type) -> str:
    """Return the name of the module that a type is in; types of some C code have none."""
    return str(getattr(cls, "__module__", ""))


def made_of(*classes: tuple[str, str | None]) -> Callable[[type], bool]:
    """Return a test for types made of a class: the module that it is in or below, and its name.

    Without a name all classes of the module are meant. Nothing is imported for it.
    """

    def knows(cls: type) -> bool:
        return any(
            (name is None or base.__name__ == name)
            and f"{module_of(base)}.".startswith(f"{module}.")
            for base in cls.__mro__
            for module, name in classes
        )

    return knows


@dataclass(frozen=True, kw_only=True)
class Producer:
    """One kind of a framework's arrays, and how `borrow` takes them.

    Where no protocol describes the arrays, or their framework orders its work in
    a manner of its own, `place(array)` returns the index of the GPU that an array
    is on, or None for the host, and refuses what is not a plain array; and
    `stand_in(array, stream, ready_on)` returns what is borrowed instead: a
    capsule or another array. `stream`, a number where there is a GPU, must wait
    for the array, and `ready_on` is what the caller of `borrow` said.
    """

    # Whether it knows a type: asked once for each type whose package is the framework's.
    knows: Callable[[type], bool]
    # What brings these arrays in faster than a protocol: "torch", "numpy" or "cupy".
    native: Literal["torch", "numpy", "cupy"] | None = None
    # Refuses a type all of whose arrays mean more than bytes.
    refuse_type: Callable[[type], None] | None = None
    # Refuses an array that means more than bytes where it is "kept", "written" or "read". Not asked
    # of what the readers for torch and NumPy take.
    refuse: Callable[[Any, str], None] | None = None
    # The framework's current stream on a device, on which its arrays are ready. It is asked where
    # `__dlpack__` needs not order anything: a number of a stream that stays, or an object.
    current: Callable[[int], object] | None = None
    place: Callable[[Any], int | None] | None = None
    stand_in: Callable[[Any, int | None, object], Any] | None = None
    # By what `stand_in` gets at the memory, and which call of the framework's may fail there. The
    # error names that call; without one, it names `stand_in`.
    protocol: str = "DLPack"
    call: str | None = None
    # Whether nobody writes the arrays again, whatever DLPack says.
    immutable: bool = False
    # Whether it names no stream though it works on one: the legacy default stream is waited for.
    forgetful: bool = False
    # Whether its arrays of the host stand in for those of a GPU, where the GPU is simulated.
    stands_in: bool = False
    # How an array is converted, in the framework's words, with {name} and {fit}.
    conversion: str | None = None


@dataclass(frozen=True, kw_only=True)
class StreamType:
    """Which of a framework's types are streams, and where they keep their handle."""

    knows: Callable[[type], bool] = lambda cls: "Stream" in cls.__name__
    # The attribute with the handle, where objects have no `__cuda_stream__`.
    handle: str
    # Whether objects of such a type own their stream, which stays as long as they are kept.
    owns: Callable[[type], bool] = lambda _cls: False


@dataclass(frozen=True, kw_only=True)
class Takes:
    """Which memory a framework takes."""

    # Names of element types.
    types: Sequence[str]
    # Whether its arrays can be read-only, and whether it never writes what it was lent anyway.
    readonly: bool = False
    never_writes: bool = False
    # Whether its arrays can run backwards.
    negative_strides: bool = False
    host: bool = True
    gpu: bool = False
    # Whether it uses the driver, and so takes memory of a simulated GPU as CUDA's.
    simulated_as_cuda: bool = False


@dataclass(frozen=True, kw_only=True)
class Makes:
    """How a framework makes an array; the first of these that it has.

    `array` is its array type, if that has the DLPack C exchange API. On a GPU,
    `values` makes an array of address, bytes spanned, device index, shape, byte
    strides (None if compact), element type, and an object to keep; `on_stream` one
    of a lease and its stream's number. `for_queue` makes one of a lease, the
    queue that the caller named, or None, and whether to copy. Else `lease` makes
    one of a lease. `other` makes what these cannot: arrays of element types
    that the framework does not take, and read-only arrays without elements.
    """

    array: type | None = None
    values: Callable[[int, int, int, Any, Any, str, Any], Any] | None = None
    on_stream: Callable[[Any, int], Any] | None = None
    for_queue: Callable[[Any, Any, bool], Any] | None = None
    lease: Callable[[Any], Any] | None = None
    other: Callable[[Any], Any] | None = None
    # What `values` and the others call, as the doctor shows it.
    protocol: str = "DLPack"


@dataclass(frozen=True, kw_only=True)
class Streams:
    """On which streams a framework works with what it was lent.

    `current(device)` returns its current stream: a number of a stream that stays, or an object.
    `kind` is "named" where the caller of `lend` may name another stream by `stream=`, and "own"
    where the framework works on its own streams only, so that `stream=` is refused. With "hidden"
    it also does not say which: the host waits for the bytes, and the exit for the whole device.
    """

    # Without it gpulend's own is meant, or that of the C exchange API.
    current: Callable[[int], object] | None = None
    # Whose current stream Rust asks for first, without Python.
    native: Literal["cupy"] | None = None
    kind: Literal["named", "own", "hidden"] = "named"


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """How a framework takes what is lent to it."""

    takes: Takes
    makes: Makes
    streams: Streams = field(default_factory=Streams)
    # The address of an array's first element: an attribute, as `data.ptr`, a method, as
    # `pointer()`, or a function of the array. Without it, what the buffer protocol says.
    address: str | Callable[[Any], int] | None = None


@dataclass(frozen=True, kw_only=True)
class Probe:
    """How a framework is tried by `gpulend doctor` and by the tests, in its own words."""

    # The address of an array.
    address: Callable[[Any], int]
    host: Make | None = None
    gpu: Make | None = None
    # An array that its own framework never writes.
    readonly: Make | None = None
    # The number of its current stream on device 0.
    stream: Callable[[], int] | None = None
    # What must be done before it takes anything.
    prepare: Callable[[], object] | None = None
    # For the tests, which leave out a framework without these three: makes an array with a copy of
    # NumPy's, on the "host" or on the first "gpu"; writes a byte into an array of bytes, and
    # returns the array that will hold it; reads an array into one of NumPy's.
    copied: Callable[[Any, str], Any] | None = None
    fill: Callable[[Any, int], Any] | None = None
    values: Callable[[Any], Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """All that is known of a framework: each kind of its arrays, how it takes others', trials."""

    producers: tuple[Producer, ...] = ()
    stream_type: StreamType | None = None
    consumer: Consumer | None = None
    probe: Probe | None = None


@dataclass(frozen=True, eq=False)
class Framework:
    """A framework: what to import and to install, and where its `Adapter` is.

    `adapter` is an `Adapter`, or the name of a module that has one as `ADAPTER`.
    `packages` are those that its types are in. `short` is its name for narrow columns.
    """

    name: str
    adapter: Adapter | str
    module: str = ""
    install: str = ""
    packages: tuple[str, ...] = ()
    short: str = ""

    def __post_init__(self) -> None:
        self._check_kinds([(name, getattr(self, name), str) for name in _TEXTS])
        if not _NAME.fullmatch(self.name):
            raise self._wrong("the name is empty, or has odd characters")
        if not isinstance(self.adapter, Adapter | str):
            raise self._wrong("adapter is neither an Adapter nor the name of a module")
        if not isinstance(self.packages, tuple | list):
            raise self._wrong("packages is not a tuple of names")
        self._check_kinds([("one of packages", package, str) for package in self.packages])
        for attribute, usual in (("module", self.name), ("install", self.name)):
            if not getattr(self, attribute):
                object.__setattr__(self, attribute, usual)
        if not self.packages:
            object.__setattr__(self, "packages", (self.module.partition(".")[0],))
        if not self.short:
            object.__setattr__(self, "short", self.name)

    def load(self) -> Adapter:
        """Return the adapter; import it, and so the framework, if it has not been."""
        adapter: object = self.adapter
        if isinstance(adapter, str):
            adapter = getattr(import_module(adapter), "ADAPTER", None)
        if not isinstance(adapter, Adapter):
            raise self._wrong(f"{self.adapter} has no Adapter ADAPTER")
        self.check(adapter)
        return adapter

    def check(self, adapter: Adapter) -> None:
        """Refuse an adapter with fields that mean nothing."""
        producers, consumer = adapter.producers, adapter.consumer
        if not isinstance(producers, tuple | list) or not all(
            isinstance(one, Producer) for one in producers
        ):
            raise self._wrong("producers is not a tuple of Producer")
        for one in producers:
            if not callable(one.knows):
                raise self._wrong("knows of a Producer is not a function")
            if (one.place is None) != (one.stand_in is None):
                raise self._wrong("a Producer has one of place and stand_in, not both")
        optional = (
            ("stream_type", adapter.stream_type, StreamType),
            ("consumer", consumer, Consumer),
            ("probe", adapter.probe, Probe),
        )
        self._check_kinds([field for field in optional if field[1] is not None])
        if consumer is not None:
            self._check_kinds(
                [
                    ("takes of its Consumer", consumer.takes, Takes),
                    ("makes of its Consumer", consumer.makes, Makes),
                    ("streams of its Consumer", consumer.streams, Streams),
                ]
            )

    def _check_kinds(self, fields: Sequence[tuple[str, object, type]]) -> None:
        for name, value, kind in fields:
            if not isinstance(value, kind):
                raise self._wrong(f"{name} is not a {kind.__name__}")

    def _wrong(self, problem: str) -> ProtocolError:
        message = f"the framework {self.name!r} is described wrongly: {problem}"
        return ProtocolError(message, BAD_ARGUMENT)
