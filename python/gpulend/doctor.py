"""`gpulend doctor`: what is here, and each hand-over tried and timed on the spot."""

from __future__ import annotations

import ctypes
import importlib.metadata
import platform
import sys
import timeit
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import gpulend
from gpulend import _native, adapters

# Hand-overs timed together, and how often: a whole row takes a few milliseconds.
CALLS, ROUNDS = 500, 5


@dataclass(frozen=True)
class Pair:
    """One hand-over: how it went, or why it did not."""

    producer: str
    consumer: str
    borrowed_by: str
    lent_by: str
    zero_copy: bool
    readonly: str
    nanoseconds: float | None
    problem: str | None


@dataclass(frozen=True)
class Gpu:
    """One device of the driver that gpulend chose."""

    device: str
    name: str
    memory: int
    compute_capability: str
    simulated: bool


@dataclass(frozen=True)
class Driver:
    """The driver that gpulend chose, or why it has none."""

    kind: str | None
    library: str | None
    cuda: str | None
    gpus: list[Gpu]
    problem: str | None

    def __str__(self) -> str:
        if self.kind is None:
            return f"driver: none: {self.problem}"
        what = "the simulated GPU" if self.kind == "simulated" else "a real driver"
        lines = [f"driver: {what}, CUDA {self.cuda}, {self.library}"]
        for gpu in self.gpus:
            size = f"{gpu.memory / 2**30:.1f} GiB, compute capability {gpu.compute_capability}"
            mark = " (simulated)" if gpu.simulated else ""
            lines.append(f"{gpu.device}: {gpu.name}, {size}{mark}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """All that the doctor found."""

    gpulend: str
    python: str
    system: str
    lends: str
    driver: Driver
    frameworks: dict[str, str | None]
    pairs: list[Pair]

    @property
    def healthy(self) -> bool:
        """Whether every pair exchanges without a copy, and nothing read-only became writable."""
        return all(pair.zero_copy and pair.readonly != "LOST" for pair in self.pairs)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return asdict(self) | {"healthy": self.healthy}


def examine() -> Report:
    """Look for a GPU, and try every producer with every consumer that is installed."""
    driver = _driver()
    versions = {name: _version(name) for name in adapters.FRAMEWORKS}
    here = [name for name, version in versions.items() if version is not None]
    here = [name for name in here if name in PRODUCERS]
    producers = {name: PRODUCERS[name] for name in (*here, "ctypes", "raw address")}
    if driver.kind == "simulated":
        # On a real GPU the host could not take it.
        producers["GPU memory"] = _gpu_memory
    return Report(
        gpulend=gpulend.__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        lends="memory of the host and of CUDA GPUs",
        driver=driver,
        frameworks=versions,
        pairs=[_try(name, make, consumer) for name, make in producers.items() for consumer in here],
    )


def _driver() -> Driver:
    try:
        kind, library, (major, minor), devices = _native.describe_driver()
    except gpulend.Error as error:
        return Driver(None, None, None, [], str(error))
    gpus = [
        Gpu(f"cuda:{index}", name, memory, "{}.{}".format(*capability), kind == "simulated")
        for index, (name, memory, capability) in enumerate(devices)
    ]
    return Driver(kind, library, f"{major}.{minor}", gpus, None)


def _version(framework: str) -> str | None:
    try:
        import_module(framework)
    except Exception as error:
        # A broken installation may raise anything; only a missing one is no news.
        if not isinstance(error, ModuleNotFoundError):
            print(f"{framework} cannot be imported: {error}", file=sys.stderr)
        return None
    distributions = importlib.metadata.packages_distributions()
    names = distributions.get(framework.partition(".")[0], [adapters.FRAMEWORKS[framework]])
    wanted = adapters.FRAMEWORKS[framework]
    return importlib.metadata.version(wanted if wanted in names else names[0])


def _numpy(readonly: bool) -> Any:
    import numpy as np

    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    array.flags.writeable = not readonly
    return array


def _torch(readonly: bool) -> Any:
    import torch

    # torch has no read-only tensors to try.
    return None if readonly else torch.arange(12, dtype=torch.float32).reshape(3, 4)


def _ctypes(readonly: bool) -> Any:
    return None if readonly else (ctypes.c_float * 12)(*range(12))


def _raw_address(readonly: bool) -> Any:
    memory = (ctypes.c_float * 12)(*range(12))
    address = ctypes.addressof(memory)
    return gpulend.wrap(address, (3, 4), "float32", owner=memory, readonly=readonly)


def _gpu_memory(readonly: bool) -> Any:
    lease = gpulend.zeros((3, 4), "float32")
    return lease.as_readonly() if readonly else lease


PRODUCERS: dict[str, Callable[[bool], Any]] = {
    "numpy": _numpy,
    "torch": _torch,
    "ctypes": _ctypes,
    "raw address": _raw_address,
}


def _try(producer: str, make: Callable[[bool], Any], consumer: str) -> Pair:
    source = make(False)
    borrowed_by = "wrap" if isinstance(source, gpulend.Lease) else _native.route(source)
    lent_by = adapters.load(consumer).protocol
    try:
        # `lend` raises unless the result has the very address that was lent.
        gpulend.lend(source, consumer)
    except gpulend.Error as error:
        return Pair(producer, consumer, borrowed_by, lent_by, False, "-", None, str(error))
    seconds = timeit.repeat(lambda: gpulend.lend(source, consumer), number=CALLS, repeat=ROUNDS)
    nanoseconds = min(seconds) / CALLS * 1e9
    readonly = _try_readonly(make(True), consumer)
    return Pair(producer, consumer, borrowed_by, lent_by, True, readonly, nanoseconds, None)


def _try_readonly(source: Any, consumer: str) -> str:
    """Say what became of a read-only array: kept, refused, or lost, which would be a bug."""
    if source is None:
        return "has none"
    try:
        lent = gpulend.lend(source, consumer)
    except gpulend.ExportError:
        return "refused"
    return "kept" if gpulend.borrow(lent).readonly else "LOST"


def render(report: Report) -> str:
    """Return the report as text."""
    lines = [
        f"gpulend {report.gpulend}, Python {report.python}, {report.system}",
        f"lends: {report.lends}",
        str(report.driver),
    ]
    lines += [
        f"{name}: {version or 'not installed'}" for name, version in report.frameworks.items()
    ]
    header = ("producer", "consumer", "borrowed by", "lent by", "zero copy", "read-only", "ns")
    rows = [header]
    for pair in report.pairs:
        time = "-" if pair.nanoseconds is None else f"{pair.nanoseconds:.0f}"
        proved = "proved" if pair.zero_copy else "NO"
        rows.append(
            (
                *(pair.producer, pair.consumer, pair.borrowed_by, pair.lent_by),
                *(proved, pair.readonly, time),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    problems = [f"{p.producer} to {p.consumer}: {p.problem}" for p in report.pairs if p.problem]
    return "\n".join([*lines, "", *(line.rstrip() for line in table), *problems])
