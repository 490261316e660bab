"""The sample project for cuda.core, as its README runs it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2] / "examples" / "clients" / "cuda_core"
PROMISED = os.environ.get("GPULEND_PROMISED", "").split(",")


def _found() -> bool:
    return importlib.util.find_spec("cuda") is not None and (
        importlib.util.find_spec("cuda.core") is not None
    )


@pytest.mark.skipif(not _found() and "cuda.core" not in PROMISED, reason="no cuda.core")
def test_the_sample_project_runs_on_the_simulated_gpu() -> None:
    """Its own test passes, with nothing but a GPU taken away."""
    command = [sys.executable, "-m", "gpulend", "run", "--", sys.executable, "-m", "pytest", "-q"]
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", "."],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
