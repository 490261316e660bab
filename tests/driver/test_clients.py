"""Other people's packages, unmodified: under `gpulend run` here, on the real driver there."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .cuda import SIMULATED
from .differences import answer

PROMISED = os.environ.get("GPULEND_PROMISED", "").split(",")
HERE = Path(__file__).parent / "clients"
CLIENTS = {"core": "cuda.core", "bindings": "cuda.bindings"}
KERNEL_CLIENTS = {"core_kernels": "cuda.core", "plain_kernels": "ctypes"}


def _need(package: str) -> None:
    """Skip without the package, unless it was promised."""
    try:
        found = importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        found = False
    if not found and package not in PROMISED:
        pytest.skip(f"{package} is not installed")
    assert found, f"{package} was promised and is not installed"


def _run(program: str, report: Path, *arguments: object) -> dict[str, Any]:
    """Run a client's program and return the report, which a real driver does not have."""
    words = [sys.executable, str(HERE / program), *map(str, arguments)]
    before = [sys.executable, "-m", "gpulend", "run", "--report", str(report), "--"]
    command = [*before, *words] if SIMULATED else words
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    # After a kernel's mistake a real context is lost: cuda.core tells what it cannot free.
    meant = () if SIMULATED else ("Warning: cuMemFreeAsync failed during resource destruction",)
    said = [line for line in done.stderr.splitlines() if not line.startswith(meant)]
    assert (said, done.returncode) == ([], 0)
    assert done.stdout.endswith("did it\n")
    return json.loads(report.read_text()) if SIMULATED else {}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_knows_nothing_of_us_runs(client: str, tmp_path: Path) -> None:
    """It ends well, uses nothing that does not behave, and did nothing wrong by accident."""
    _need(CLIENTS[client])
    told = _run(f"{client}.py", tmp_path / "report.json")
    if SIMULATED:
        assert told["unsupported"] == {}
        meant = ["copy reads", "double free"] if client == "bindings" else []
        assert [fault["what"].split(":")[0] for fault in told["faults"]] == meant
        assert told["live"]["operations"] == 0


@pytest.mark.parametrize("client", KERNEL_CLIENTS)
def test_a_client_that_knows_nothing_of_us_launches_kernels(client: str, tmp_path: Path) -> None:
    """Its numbers are right, and its one faulty kernel is told with the line it happened in."""
    from gpulend import compiler  # not needed, and perhaps not installed, for the other clients

    _need(KERNEL_CLIENTS[client])
    source = HERE / "kernels.cu"
    ptx = tmp_path / "kernels.ptx"
    ptx.write_text(compiler.to_ptx(source.read_text(), file=source.name))
    after = ["goes-on"] if answer("the call after a kernel's mistake was told") == 0 else []
    told = _run(f"{client}.py", tmp_path / "report.json", ptx, *after)
    if SIMULATED:
        assert told["unsupported"] == {}
        lines = source.read_text().splitlines()
        line = next(number for number, text in enumerate(lines, 1) if "*place =" in text)
        (fault,) = told["faults"]
        assert f"kernel poke at kernels.cu:{line}" in fault["what"]
        assert (fault["address"], fault["status"]) == ("0x10", 700)
        live = told["live"]
        assert (live["operations"], live["allocations"], live["executables"]) == (0, 0, 0)
