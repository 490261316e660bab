"""One file a framework: how its arrays come in, how it takes others', and how it is tried.

`FRAMEWORKS` lists those that are known; `register` adds others, and so does the
entry point group `gpulend.frameworks`. Their files are imported when they are
first asked for, so that `import gpulend` imports no framework.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from types import ModuleType

from gpulend import _native
from gpulend._codes import BAD_ARGUMENT, NO_FRAMEWORK, NOT_INSTALLED
from gpulend._suggestions import did_you_mean
from gpulend.adapters.entry_points import EntryPoints
from gpulend.adapters.interface import (
    PLAIN,
    Adapter,
    Consumer,
    Framework,
    FrameworkName,
    KnownFramework,
    Makes,
    Probe,
    Producer,
    Streams,
    StreamType,
    Takes,
    made_of,
    module_of,
)
from gpulend.exceptions import Error, ProtocolError

__all__ = [
    "CONSUMERS",
    "FRAMEWORKS",
    "GROUP",
    "HOST_WAITS",
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
    "count_wait",
    "entry_point_problems",
    "find",
    "load",
    "made_of",
    "module_of",
    "producer_of",
    "read_entry_points",
    "register",
    "stream_type_of",
    "unimported",
    "warn_immutable",
]

GROUP = "gpulend.frameworks"


def _here(name: str, **rest: str | tuple[str, ...]) -> Framework:
    """Describe a framework whose adapter is in this package."""
    return Framework(name, f"{__name__}.{name.replace('.', '_')}", **rest)  # type: ignore[arg-type]


FRAMEWORKS: dict[str, Framework] = {
    framework.name: framework
    for framework in (
        _here("numpy"),
        _here("torch"),
        _here("jax", packages=("jax", "jaxlib")),
        _here("cupy", install="cupy-cuda13x"),
        _here("numba", module="numba.cuda", install="numba-cuda"),
        _here("cuda.core", install="cuda-core", short="core"),
        _here("tensorflow", packages=("tensorflow", "keras"), short="tf"),
        _here("pyopencl", install="pyopencl[pocl]", short="pyocl"),
        _here("pycuda", short="pycu"),
        _here("tvm_ffi", install="apache-tvm-ffi", short="tvm"),
        _here("warp", install="warp-lang"),
    )
}
# What the native half lends by, for each name and module that was asked for.
CONSUMERS: dict[str | ModuleType, _native.Consumer] = {}
# How often the host waited in hand-overs from and to frameworks that do not name their streams.
HOST_WAITS: Counter[str] = Counter()


def register(framework: Framework) -> None:
    """Have a framework take part in `borrow`, `lend`, launches, `gpulend doctor` and the tests.

    >>> import gpulend
    >>> from gpulend.adapters import Adapter, Framework
    >>> gpulend.register(Framework("blocks", Adapter(), module="building.blocks"))
    """
    if not isinstance(framework, Framework):
        raise ProtocolError(
            f"{framework!r} is not a gpulend.adapters.Framework, which is what can be registered",
            BAD_ARGUMENT,
        )
    if isinstance(framework.adapter, Adapter):
        framework.check(framework.adapter)
    name, lower = framework.name, framework.name.casefold()
    taken = any(other.casefold() == lower for other in [*FRAMEWORKS] if other != name)
    # `setdefault` is one step: a lock could be held by a thread that imports a plug-in.
    if taken or lower == "gpulend" or FRAMEWORKS.setdefault(name, framework) is not framework:
        raise ProtocolError(
            f"a framework named {name!r} is registered already; give yours another name, "
            "which differs by more than case",
            BAD_ARGUMENT,
        )
    # Its arrays may have been met before it was known.
    _native._forget_routes()


_ENTRY_POINTS = EntryPoints(GROUP, register)


def read_entry_points() -> None:
    """Register what installed packages bring, once; a broken one is warned of and left out."""
    _ENTRY_POINTS.read()


def entry_point_problems() -> list[str]:
    """Return why entry points that were read bring no framework."""
    return _ENTRY_POINTS.problems


def find(name: str) -> Framework | None:
    """Return the framework of a name, if there is one."""
    if name not in FRAMEWORKS:
        read_entry_points()
    return FRAMEWORKS.get(name)


def producer_of(cls: type) -> tuple[Framework, Producer] | None:
    """Return the framework that knows a type, and the kind of its arrays that the type is.

    The native half asks once for each type.
    """
    for framework, adapter in _adapters_for(cls):
        for producer in adapter.producers:
            if producer.knows(cls):
                return framework, producer
    return None


def stream_type_of(cls: type) -> tuple[str, bool] | None:
    """Return which attribute of a stream's type has its handle, and whether it owns the stream.

    The native half asks once for each type.
    """
    for _, adapter in _adapters_for(cls):
        streams = adapter.stream_type
        if streams is not None and streams.knows(cls):
            return streams.handle, streams.owns(cls)
    return None


def _adapters_for(cls: type) -> Iterator[tuple[Framework, Adapter]]:
    """Give the frameworks in whose packages a type is, then those of what it is made of."""
    packages = _packages_of(cls)
    # Python's own types and ours are nobody's; others may be of a framework not heard of yet.
    known = packages[0] in sys.stdlib_module_names or packages[0] == "gpulend"
    # One of its own package comes before that of a class that it is made of.
    if not known and not _of_packages(packages[:1]):
        read_entry_points()
    given: set[Framework] = set()
    for last in (known, True):
        # A framework that was not imported has no arrays.
        here = [item for item in _of_packages(packages) if item.module in sys.modules]
        for framework in [item for item in here if item not in given]:
            given.add(framework)
            needed = f"{cls.__name__} of {framework.name} is borrowed by {framework.adapter}"
            yield framework, _load(framework, needed, "install another version")
        if last or not _ENTRY_POINTS.unread:
            return
        read_entry_points()


def _load(framework: Framework, needed: str, advice: str) -> Adapter:
    """Import the adapter of a framework; what that raises is the cause of an error of ours."""
    try:
        return framework.load()
    except (Error, MemoryError, RecursionError):
        raise
    except (Exception, SystemExit) as error:
        said = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ProtocolError(
            f"{needed}, which cannot be imported ({said}); "
            f"{advice}: `pip install {framework.install}`",
            NOT_INSTALLED,
        ) from error


def unimported(cls: type) -> list[Framework]:
    """Return the frameworks in whose packages a type is, and that were not imported.

    Once they are, they may know the type, so the native half asks again then.
    """
    found = _of_packages(_packages_of(cls))
    return [framework for framework in found if framework.module not in sys.modules]


def _packages_of(cls: type) -> list[str]:
    return [module_of(base).partition(".")[0] for base in cls.__mro__]


def _of_packages(packages: list[str]) -> list[Framework]:
    # A copy: another thread may register one meanwhile.
    known = [*FRAMEWORKS.values()]
    found = (item for name in packages for item in known if name in item.packages)
    return list(dict.fromkeys(found))


def load(target: str | ModuleType) -> _native.Consumer:
    """Import the adapter of a framework, by its name or its module, and remember what it says."""
    framework = _of_target(target)
    needed = f"lending to {framework.name} needs {framework.name}"
    consumer = _load(framework, needed, "install it").consumer
    if consumer is None:
        raise ProtocolError(f"{framework.name} takes no memory of others", NO_FRAMEWORK)
    own = isinstance(framework.adapter, str) and framework.adapter.startswith(f"{__name__}.")
    try:
        made = _native.Consumer(framework.name, consumer, own=own)
    except TypeError as error:
        raise ProtocolError(
            f"the framework {framework.name!r} is described wrongly: {error.__cause__ or error}",
            BAD_ARGUMENT,
        ) from error
    CONSUMERS[target] = made
    return made


def _of_target(target: object) -> Framework:
    """Return the framework; of a module like `jax.numpy`, that of the package it is in."""
    names: list[str] = []
    if isinstance(target, str):
        names = [target]
    elif isinstance(target, ModuleType):
        parts = str(getattr(target, "__name__", "")).split(".")
        names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    for name in names:
        if name in FRAMEWORKS:
            return FRAMEWORKS[name]
    if names:
        read_entry_points()
    for name in names:
        if name in FRAMEWORKS:
            return FRAMEWORKS[name]
    known = ", ".join([*FRAMEWORKS])
    near = did_you_mean(names[-1], [*FRAMEWORKS]) if names else ""
    raise ProtocolError(
        f"{target!r} is not a framework that gpulend lends to; known by name or module are "
        f"{known}{near}",
        NO_FRAMEWORK,
    )


def count_wait(framework: str) -> None:
    """Count that the host waits for a framework, or for it."""
    HOST_WAITS[framework] += 1


def warn_immutable(consumer: str) -> None:
    """Warn that an immutable array must not be written by a framework that cannot mark it."""
    warnings.warn(
        f"an array that its framework never writes again is lent to {consumer}, which cannot "
        "mark it read-only: do not write it there, or lend a copy (copy=True)",
        stacklevel=2,
    )
