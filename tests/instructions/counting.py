"""Counts what the jobs of one language cost, by valgrind's callgrind.

Only gpulend's own code is counted, and only in the thread that calls: the C library and Python
differ from machine to machine, and background threads from run to run. What gpulend asks of others
is a second number, how often it calls them, so that an allocation more is seen as well.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
# How often a job makes its call while it is counted; the jobs of all languages agree on it.
CALLS = 20
CALLGRIND = (
    *("valgrind", "-q", "--tool=callgrind", "--separate-threads=yes"),
    *("--instr-atstart=no", "--collect-atstart=no"),
    *("--compress-strings=no", "--compress-pos=no"),
)
# Hashes and the simulated GPU's schedule are the same in every run.
ENVIRONMENT = {
    "GPULEND_DEVICE": "simulated",
    "GPULEND_SIM_CHECK": "off",
    "GPULEND_SIM_IDLE": "0",
    "PYTHONHASHSEED": "0",
}


class Cost(NamedTuple):
    """What one call costs."""

    instructions: int
    calls_out: float


def build_counter(folder: Path) -> Path:
    """Compile `count.c`, which the jobs of Python and Rust load."""
    library = folder / "count.so"
    subprocess.run(
        [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, HERE / "count.c"],
        check=True,
    )
    return library


def count(
    command: Sequence[str | Path],
    ours: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Cost]:
    """Run jobs and return their costs.

    The name of the file that has gpulend's code begins with `ours`.
    """
    done = subprocess.run(
        [*CALLGRIND, f"--callgrind-out-file={folder}/dump", *map(str, command)],
        env={**os.environ, **ENVIRONMENT, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    costs: dict[str, Cost] = {}
    for dump in folder.glob("dump.*"):
        text = dump.read_text()
        # The last dump of a process has no name, and what other threads did is not asked for.
        if named := re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M):
            cost = read(text, ours)
            # Of several rounds the best: in others a background thread held a lock or was woken.
            if cost.instructions:
                costs[named[1]] = min(costs.get(named[1], cost), cost)
    return dict(sorted(costs.items()))


def read(text: str, ours: str) -> Cost:
    """Add up what a dump says of our own file, per call.

    A cost line belongs to the last `ob=`, but for the one after `calls=`, which has the whole cost
    of a callee in `cob=`. Without a `cob=` the callee is in the same file.
    """
    instructions = calls_out = 0
    inside = into = False
    called = False
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "ob":
            inside = Path(value).name.startswith(ours)
        elif key == "fn":
            into = inside
        elif key == "cob":
            into = Path(value).name.startswith(ours)
        elif key == "calls":
            called = True
            if inside and not into:
                calls_out += int(value.split()[0])
        elif line[:1].isdigit() or line[:1] in "+-*":
            if called:
                called, into = False, inside
            elif inside:
                # A cost of zero is not written.
                instructions += sum(map(int, line.split()[1:]))
    return Cost(round(instructions / CALLS), round(calls_out / CALLS, 2))
