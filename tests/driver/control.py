"""What only the simulated driver has: its list of functions, faults on demand, its report."""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .cuda import SIMULATED, cu

HERE = Path(__file__).parent
LIST = HERE.parents[1] / "crates" / "sim" / "src" / "api" / "table.rs"
LOST = 46  # CUDA_ERROR_DEVICE_UNAVAILABLE: what each call on a lost device answers

only_simulated = pytest.mark.skipif(
    not SIMULATED, reason="faults on demand, the list and the report are the simulated driver's"
)


@dataclass(frozen=True)
class Row:
    """One version of one function in the list."""

    name: str  # what cuGetProcAddress calls it
    since: int
    topic: str | None  # the files that test it; none: it answers NOT_SUPPORTED
    symbol: str
    per_thread: bool

    @property
    def pure(self) -> bool:
        """Whether it needs no machine."""
        return self.name in ("cuGetErrorName", "cuGetErrorString", "cuGetProcAddress")


def _rows() -> list[Row]:
    text = LIST.read_text()
    rows = []
    for name, versions in re.findall(r"(\w+) \{ ([^}]*) \}", text[text.rindex("functions! {") :]):
        for version in versions.split(","):
            since, topic, symbol, *per_thread = version.split()
            topic = None if topic == "missing" else topic
            rows.append(Row(name, int(since), topic, symbol, per_thread == ["per_thread"]))
    return rows


# Only the simulated driver has a list: elsewhere one row stands for it, in tests that are skipped.
ROWS = _rows() if SIMULATED else [Row("cuInit", 2000, "start", "cuInit", False)]
BEHAVING = [row for row in ROWS if row.topic]
MISSING = [row for row in ROWS if not row.topic]

if SIMULATED:
    cu.gpulend_sim_faults.argtypes = [c_char_p]
    cu.gpulend_sim_faults.restype = c_int
    cu.gpulend_sim_problem.argtypes = []
    cu.gpulend_sim_problem.restype = c_char_p
    cu.gpulend_sim_report.argtypes = [c_void_p, c_size_t]
    cu.gpulend_sim_report.restype = c_size_t


def problem() -> str:
    """Return why the last rules were refused."""
    return cu.gpulend_sim_problem().decode()


def set_faults(rules: str) -> None:
    """Set rules in the place of those there are; "" ends them all."""
    assert cu.gpulend_sim_faults(rules.encode()) == 0, problem()


@contextmanager
def faults(rules: str) -> Iterator[None]:
    """Set rules for the block."""
    set_faults(rules)
    try:
        yield
    finally:
        set_faults("")


def report() -> dict[str, Any]:
    """Return the report as it stands."""
    size = cu.gpulend_sim_report(None, 0)
    while True:
        text = ctypes.create_string_buffer(size + 1)
        wanted = cu.gpulend_sim_report(text, size + 1)
        if wanted <= size:
            return json.loads(text.value)
        size = wanted


def fresh(function: Callable[..., Any], *arguments: Any, **environment: str) -> Any:
    """Run a module-level function in a process of its own; all that passes must fit in JSON."""
    module = function.__module__.rpartition(".")[2]
    code = (
        "import json, sys\n"
        f"from {HERE.name}.{module} import {function.__name__} as function\n"
        "print(json.dumps(function(*json.loads(sys.argv[1]))))"
    )
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
    ran = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return json.loads(ran.stdout.splitlines()[-1])
