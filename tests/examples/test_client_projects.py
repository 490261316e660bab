"""The sample projects for other people's frameworks, as their READMEs run them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECTS = Path(__file__).resolve().parents[2] / "examples" / "clients"
PROMISED = os.environ.get("GPULEND_PROMISED", "").split(",")
# For each project: its framework, what pytest says at the end, and the mistake that a test makes.
SAMPLES = {
    "cuda_core": ("cuda.core", "1 passed", ()),
    "halide": ("halide", "2 passed", ()),
    "taichi": ("taichi", "4 passed", ("which no thread of the block has written",)),
}


def _found(framework: str) -> bool:
    parts = framework.split(".")
    names = [".".join(parts[: count + 1]) for count in range(len(parts))]
    return all(importlib.util.find_spec(name) is not None for name in names)


@pytest.mark.parametrize("project", SAMPLES)
def test_a_sample_project_runs_on_the_simulated_gpu(project: str, tmp_path: Path) -> None:
    """Its own tests pass, with nothing but a GPU taken away, and it launches kernels there."""
    framework, said, mistakes = SAMPLES[project]
    if not _found(framework) and framework not in PROMISED:
        pytest.skip(f"no {framework}")
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "gpulend", "run", "--report", str(report), "--"]
    ran = subprocess.run(
        [*command, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=PROJECTS / project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert said in ran.stdout
    told = json.loads(report.read_text())
    assert told["unsupported"] == {}
    assert {"cuLaunchKernel", "cuGraphLaunch"} & told["calls"].keys()
    assert len(told["faults"]) == len(mistakes)
    for fault, mistake in zip(told["faults"], mistakes, strict=True):
        assert mistake in fault["what"]
