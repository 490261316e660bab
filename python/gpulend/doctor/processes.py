"""`gpulend doctor --processes`: each way to another process, tried and proved on the spot."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import textwrap
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from gpulend._native import __version__
from gpulend._suggestions import did_you_mean
from gpulend._terminal import Progress
from gpulend.doctor import AT_ONCE, LIMIT, look_for_driver
from gpulend.doctor.child import Child, Died
from gpulend.doctor.report import SCHEMA, Driver
from gpulend.doctor.subjects import known, registered
from gpulend.doctor.table import NARROWEST, WIDEST, duration
from gpulend.nixl import PACKAGES

HEALTHY = ("same memory", "copied", "no array", "not installed")


@dataclass(frozen=True)
class Way:
    """One way to another process: what was seen to happen, or why nothing did."""

    name: str
    status: str
    memory: str | None = None
    nanoseconds: float | None = None
    problem: str | None = None
    install: str | None = None

    @property
    def healthy(self) -> bool:
        """Whether it works, or is not to be had here."""
        return self.status in HEALTHY


@dataclass(frozen=True)
class ProcessReport:
    """All that was found."""

    gpulend: str
    python: str
    system: str
    driver: Driver
    ways: list[Way]
    seconds: float
    schema: int = field(default=SCHEMA)

    @property
    def healthy(self) -> bool:
        """Whether every way that is installed works."""
        return all(way.healthy for way in self.ways)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        report = asdict(self)
        for values, way in zip(report["ways"], self.ways, strict=True):
            values["healthy"] = way.healthy
        return report | {"healthy": self.healthy}


@dataclass(frozen=True)
class _Trial:
    """What is tried: a function of `ways`, and what must be installed for it."""

    key: str
    name: str
    function: str
    modules: tuple[str, ...] = ()
    install: str | None = None


def examine(only: Sequence[str] = (), limit: float = LIMIT) -> ProcessReport:
    """Try every way, each in a process of its own, with a time limit."""
    begin, progress = time.perf_counter(), Progress()
    every = {trial.key: trial for trial in _trials()}
    unknown = [name for name in only if name not in every]
    if unknown:
        near = did_you_mean(unknown[0], every)
        raise ValueError(
            f"{', '.join(unknown)}: no way that is tried; known are {', '.join(every)}{near}"
        )
    trials = [trial for key, trial in every.items() if not only or key in only]
    progress("looking for a GPU")
    driver = look_for_driver(limit)
    progress(f"trying {', '.join(trial.name for trial in trials)}")
    simulated = driver.kind == "simulated"
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ways = list(pool.map(lambda trial: _try(trial, simulated, limit), trials))
    progress()
    return ProcessReport(
        gpulend=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        driver=driver,
        ways=ways,
        seconds=round(time.perf_counter() - begin, 1),
    )


def _trials() -> Iterator[_Trial]:
    yield _Trial("host", "shared host memory", "memory")
    for framework in known().values():
        key, install = framework.name, f"pip install {framework.install}"
        modules = (framework.module,) if key != "gpulend" else ()
        yield _Trial(key, f"memory of {key}", "memory", modules, install)
    for key in ("spawn", "forkserver"):
        yield _Trial(key, f"multiprocessing, {key}", "pool")
    queues = "torch.multiprocessing"
    yield _Trial(queues, queues, "torch", ("torch",), "pip install torch")
    yield _Trial("ray", "Ray", "ray", ("ray",), "pip install ray")
    yield _Trial("dask", "Dask", "dask", ("distributed",), "pip install distributed")
    yield _Trial("nixl", "NIXL", "nixl", PACKAGES, "pip install 'nixl[cu13]'")


def _try(trial: _Trial, simulated: bool, limit: float) -> Way:
    if trial.modules and not any(map(_is_installed, trial.modules)):
        return Way(trial.name, "not installed", install=trial.install)
    options = {
        "function": trial.function,
        "argument": trial.key,
        "simulated": simulated,
        "registered": registered(),
    }
    found: dict[str, Any] = {"status": "crashed", "problem": "its process said nothing"}
    try:
        for message in Child("way", limit, **options).messages():
            found = message
    except Died as error:
        # What it said before it came to its end is not proved.
        found = {"status": error.status, "problem": str(error)}
    return Way(trial.name, **found)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def render(report: ProcessReport, width: int | None = None) -> str:
    """Return the report as text that fits a terminal."""
    columns = width or shutil.get_terminal_size((WIDEST, 24)).columns
    columns = max(NARROWEST, min(columns, WIDEST))
    lines = [f"gpulend {report.gpulend}, Python {report.python}, {report.system}"]
    lines += [*str(report.driver).splitlines(), ""]
    rows = [("way to another process", "memory", "time", "result")]
    rows += [
        (
            way.name,
            way.memory or "-",
            duration(way.nanoseconds),
            way.status if way.healthy else way.status.upper(),
        )
        for way in report.ways
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += [
        "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.append("")
    problems: dict[str, list[str]] = {}
    for way in report.ways:
        if way.problem is not None:
            problems.setdefault(way.problem, []).append(way.name)
    for problem, names in problems.items():
        text = f"{', '.join(names)}: {problem}"
        lines += textwrap.wrap(text, columns, subsequent_indent="    ")
    lines += [f"{way.name}: {way.install}" for way in report.ways if way.install is not None]
    verdict = "All is well." if report.healthy else "Not well: see the words in capitals above."
    return "\n".join([*lines, "", f"{verdict} {report.seconds} s."])
