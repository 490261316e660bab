"""What the benches share: how often they run, and a record of what they measured.

Every run is a process of its own, because figures move more between processes than between rounds
of one. A record is one JSON file, which `plot.py` draws:

    bench, machine, date, runs, note     what was run, where, when, how often, and what disturbed it
    figure                               which time of a run counts, for example its best round
    unit                                 of all times: ns
    versions                             package: version
    rows                                 job; gpulend, the name of our contestant; and ns, which has
                                         for each contestant one time of each run
    memory                               of some benches: what each contestant took, in MiB
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

RESULTS = Path(__file__).with_name("results")
Row = dict[str, Any]
# One run: job, contestant, nanoseconds.
Times = dict[str, dict[str, float]]
Measured = TypeVar("Measured")


def options(
    bench: str, description: str | None, *more: tuple[str, dict[str, Any]]
) -> argparse.Namespace:
    """Read the command line: what all benches share, and more options of one."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1, help="how many processes measure in turn")
    parser.add_argument(
        "--record",
        type=Path,
        nargs="?",
        const=RESULTS / f"{bench}.json",
        metavar="PATH",
        help="write the times as JSON (default: %(const)s)",
    )
    parser.add_argument("--date", default=date.today().isoformat(), help="of the record")
    parser.add_argument("--note", default="", help="what disturbed the runs, for the record")
    for name, settings in more:
        parser.add_argument(name, **settings)
    found = parser.parse_args()
    if found.runs < 1:
        parser.error("--runs must be at least 1")
    found.bench = bench
    return found


def measured(measure: Callable[[], Measured], runs: int) -> list[Measured]:
    """Call a function of the main module in as many fresh processes, one after the other."""
    found = []
    for _ in range(runs):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            found.append(process.submit(measure).result())
    return found


def rows(runs: list[Times]) -> list[Row]:
    """Put the times of all runs side by side; our contestant's name begins with ours."""
    found = []
    for job, contestants in runs[0].items():
        (ours,) = (name for name in contestants if name.startswith("gpulend"))
        ns = {name: [round(run[job][name], 1) for run in runs] for name in contestants}
        found.append({"job": job, "gpulend": ours, "ns": ns})
    return found


def ratios(row: Row) -> list[float]:
    """Return for each run our time, divided by the time of the fastest peer in the same run."""
    ours = row["ns"][row["gpulend"]]
    peers = [times for name, times in row["ns"].items() if name != row["gpulend"]]
    return [mine / min(others) for mine, *others in zip(ours, *peers, strict=True)]


def ratio(row: Row) -> float:
    """Return the median over all runs."""
    return median(ratios(row))


def write(
    chosen: argparse.Namespace,
    found: list[Row],
    *,
    figure: str,
    machine: str,
    packages: Sequence[str],
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write the record, if one was asked for; `more` is what a bench has beside times."""
    if chosen.record is None:
        return
    content = {
        "bench": chosen.bench,
        "machine": machine,
        "date": chosen.date,
        "runs": chosen.runs,
        "figure": figure,
        "unit": "ns",
        "note": chosen.note,
        "versions": versions(packages),
        "rows": found,
        **(more or {}),
    }
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # The times of a contestant in one line.
    text = re.sub(r"\[([\d.,\s]+)\]", lambda match: f"[{' '.join(match[1].split())}]", text)
    chosen.record.parent.mkdir(parents=True, exist_ok=True)
    chosen.record.write_text(text + "\n", encoding="utf-8")


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return Python's version, and those of the packages that are installed."""
    found = {"Python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def processor() -> str:
    """Return the name of the CPU, and how many of its cores there are."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"^model name\s*: (.*)$", text, re.M)
    return f"{name[1] if name else platform.machine()}, {os.cpu_count()} cores"
