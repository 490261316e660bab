"""`gpulend doctor`: what is here, and each hand-over tried, proved and timed on the spot.

Frameworks are imported and tried in processes of their own, each with a time limit. One that
crashes is a row of the report. Nothing is taken from a table: what a row says was seen to happen.
"""

from __future__ import annotations

import importlib.util
import platform
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from gpulend import adapters
from gpulend._native import __version__
from gpulend._suggestions import did_you_mean
from gpulend._terminal import Progress
from gpulend.doctor import machine
from gpulend.doctor.child import Child, Died
from gpulend.doctor.page import page
from gpulend.doctor.report import Compiler, Driver, Framework, Gpu, Pair, Report
from gpulend.doctor.subjects import known, registered
from gpulend.doctor.table import coloured, render

__all__ = ["Report", "coloured", "examine", "page", "render"]

LIMIT = 60.0  # seconds for one step: an import, a pair
AT_ONCE = 4  # processes that import a framework each


def examine(only: Sequence[str] = (), limit: float = LIMIT) -> Report:
    """Look for a GPU and frameworks, and try every producer with every consumer."""
    begin, progress = time.perf_counter(), Progress()
    here = known()
    unknown = [name for name in only if name not in here]
    if unknown:
        listed = ", ".join(here)
        near = did_you_mean(unknown[0], here)
        raise ValueError(
            f"{', '.join(unknown)}: no framework that is examined; known are {listed}{near}"
        )
    subjects = [item for name, item in here.items() if not only or name in only]
    names = [item.name for item in subjects]
    progress("looking for a GPU and compilers")
    driver, compiler = look_for_driver(limit), _compiler(limit)
    progress(f"importing {', '.join(names)}")
    simulated = driver.kind == "simulated"
    with ThreadPoolExecutor(AT_ONCE) as pool:
        frameworks = list(
            pool.map(lambda item: _framework(item, simulated, limit, driver), subjects)
        )
    usable = [framework.name for framework in frameworks if framework.state == "here"]
    broken = {item.name: item.problem for item in frameworks if item.state == "broken"}
    found = _try_pairs(usable, simulated, limit, progress)
    installed = [name for name in names if name in usable or name in broken]
    pairs = [
        found.get((one, two)) or _broken(one, two, broken) for one in installed for two in installed
    ]
    progress()
    return Report(
        gpulend=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        driver=driver,
        compiler=compiler,
        frameworks=frameworks,
        pairs=pairs,
        missing=machine.missing(driver, compiler, frameworks, machine.nvidia_devices()),
        seconds=round(time.perf_counter() - begin, 1),
        entry_points=adapters.entry_point_problems(),
    )


def look_for_driver(limit: float) -> Driver:
    """Ask and try the driver, in a process of its own."""
    child = Child("driver", limit)
    found: dict[str, Any] = {}
    died = None
    try:
        for message in child.messages():
            found = message
    except Died as error:
        died = f"using the driver: {error}"
    kind, library = found.get("kind"), found.get("library")
    return Driver(
        kind=kind,
        library=library,
        cuda=found.get("cuda"),
        gpus=[Gpu(**gpu) for gpu in found.get("gpus", ())],
        why=machine.why(kind, library, child.stderr),
        problem=died or found.get("problem"),
    )


def _compiler(limit: float) -> Compiler:
    try:
        (found,) = Child("compiler", limit).messages()
    except Died as error:
        problem = f"looking for compilers: {error}"
        return Compiler(None, None, problem, None, None, problem)
    return Compiler(**found)


def _framework(
    framework: adapters.Framework, simulated: bool, limit: float, driver: Driver
) -> Framework:
    """Import one framework in a process of its own."""
    name = framework.name
    install = f"pip install {_quoted(machine.for_driver(framework.install, driver))}"
    absent = Framework(name, None, None, install)
    try:
        if importlib.util.find_spec(framework.module) is None:
            return absent
    except ModuleNotFoundError:
        return absent
    except (Exception, SystemExit) as error:
        return replace(absent, problem=f"{type(error).__name__}: {error}")
    found: dict[str, Any] = {"problem": "its process said nothing"}
    options = {"name": name, "simulated": simulated, "registered": registered()}
    try:
        for message in Child("framework", limit, **options).messages():
            found = message
    except Died as error:
        found = {"problem": f"importing it: {error}"}
    return replace(absent, **found)


def _quoted(distribution: str) -> str:
    return f"'{distribution}'" if "[" in distribution else distribution


def _try_pairs(
    here: Sequence[str], simulated: bool, limit: float, progress: Progress
) -> dict[tuple[str, str], Pair]:
    """Try all pairs in one process; go on in another one after a crash.

    A framework's pair with itself comes first: if that crashes, the framework is to blame, and its
    other pairs are not tried.
    """
    wanted = [(name, name) for name in here]
    wanted += [(one, two) for one in here for two in here if one != two]
    found: dict[tuple[str, str], Pair] = {}
    while left := [pair for pair in wanted if pair not in found]:
        died = _in_one_process(left, found, simulated, limit, progress, len(wanted))
        if died is None:
            break
        broken, pair = died
        found[pair] = _alone(pair, broken, simulated, limit)
        if pair[0] == pair[1] and found[pair].status in ("crashed", "timed out"):
            for other in wanted:
                if pair[0] in other and other not in found:
                    problem = f"not tried: {pair[0]} with itself: {found[pair].problem}"
                    found[other] = Pair(*other, found[pair].status, problem=problem)
    return found


def _broken(producer: str, consumer: str, broken: Mapping[str, str | None]) -> Pair:
    name = producer if producer in broken else consumer
    return Pair(producer, consumer, "broken", problem=f"{name}: {broken[name]}")


def _in_one_process(
    pairs: Sequence[tuple[str, str]],
    found: dict[tuple[str, str], Pair],
    simulated: bool,
    limit: float,
    progress: Progress,
    count: int,
) -> tuple[Died, tuple[str, str]] | None:
    """Try pairs until all are tried; return what ended the process before, and in which pair."""
    doing = pairs[0]
    options = {"pairs": pairs, "simulated": simulated, "registered": registered()}
    try:
        for message in Child("pairs", limit, **options).messages():
            if "begin" in message:
                one, two = message["begin"]
                doing = one, two
                progress(f"{len(found) + 1}/{count} {one} to {two}")
            else:
                found[doing] = Pair(**message["pair"])
    except Died as error:
        died = error
    else:
        died = Died("the process ends early, as if all were well", "crashed")
    unfinished = [pair for pair in pairs if pair not in found]
    return (died, unfinished[0]) if unfinished else None


def _alone(pair: tuple[str, str], before: Died, simulated: bool, limit: float) -> Pair:
    """Try a pair that ended a process once more, in one where no other framework is."""
    found: dict[tuple[str, str], Pair] = {}
    died = _in_one_process([pair], found, simulated, limit, Progress(), 1)
    if pair in found:
        note = f"only in a process without other frameworks; beside them: {before}"
        return replace(found[pair], note=note)
    error = died[0] if died else before
    return Pair(*pair, error.status, problem=str(error))
