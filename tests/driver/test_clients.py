"""Other people's packages, unmodified: under `gpulend run` here, on the real driver there."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .cuda import SIMULATED

PROMISED = os.environ.get("GPULEND_PROMISED", "").split(",")
CLIENTS = {"core": "cuda.core", "bindings": "cuda.bindings"}


def _need(package: str) -> None:
    """Skip without the package, unless it was promised."""
    try:
        found = importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        found = False
    if not found and package not in PROMISED:
        pytest.skip(f"{package} is not installed")
    assert found, f"{package} was promised and is not installed"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_knows_nothing_of_us_runs(client: str, tmp_path: Path) -> None:
    """It ends well, uses nothing that does not behave, and did nothing wrong by accident."""
    _need(CLIENTS[client])
    report = tmp_path / "report.json"
    program = [sys.executable, str(Path(__file__).parent / "clients" / f"{client}.py")]
    before = [sys.executable, "-m", "gpulend", "run", "--report", str(report), "--"]
    command = [*before, *program] if SIMULATED else program
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.endswith("did it\n")
    if SIMULATED:
        told = json.loads(report.read_text())
        assert told["unsupported"] == {}
        meant = ["copy reads", "double free"] if client == "bindings" else []
        assert [fault["what"].split(":")[0] for fault in told["faults"]] == meant
        assert told["live"]["operations"] == 0
