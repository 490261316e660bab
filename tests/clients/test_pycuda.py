"""PyCUDA of PyPI, as `scripts/pycuda` builds it: its users' programs and its own tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpulend import compiler

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".pycuda" / "bin" / "python"
PROGRAMS = Path(__file__).parent / "programs"
KERNELS = ROOT / "tests" / "driver" / "clients" / "kernels.cu"
TESTS = ROOT / ".pycuda" / "tests"
# PyCUDA's own tests of what is not here.
NOT_HERE = {
    "test_recursive_launch": "kernels that launch kernels",
    "test_jit_link_module": "the same, linked from several texts",
    "test_curand_wrappers": "curand_kernel.h",
    "test_any": "lanes part at `||` between volatile accesses, and count on warps in step: a race",
    "test_all": "the same at `&&`",
    "test_scan": "it reads shared memory that nobody wrote, which is a fault here",
}
PROMISED = os.environ.get("GPULEND_PROMISED", "").split(",")

pytestmark = pytest.mark.skipif(
    not PYTHON.exists() and "pycuda" not in PROMISED, reason="scripts/pycuda was not run"
)


def _run(folder: Path, *command: object, check: str = "races") -> tuple[str, dict[str, Any]]:
    """Run PyCUDA's Python on the simulated GPU; return what it printed, and the report."""
    cache, report = folder / "cache", folder / "report.json"
    cache.mkdir()
    settings = ["--check", check, "--report", str(report)]
    done = subprocess.run(
        [sys.executable, "-m", "gpulend", "run", *settings, "--", str(PYTHON), *map(str, command)],
        cwd=folder,
        env={**os.environ, "PYCUDA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0), done.stdout[-5000:]
    return done.stdout, json.loads(report.read_text())


@pytest.mark.parametrize("program", ["modules", "sources", "arrays", "scans"])
def test_a_program_of_pycuda_runs(program: str, tmp_path: Path) -> None:
    """Its numbers are right, it uses nothing that does not behave, and it leaves nothing behind."""
    arguments: list[Path] = []
    if program == "modules":
        arguments = [tmp_path / "kernels.ptx"]
        arguments[0].write_text(compiler.to_ptx(KERNELS.read_text(), file=KERNELS.name))
    elif program == "sources":
        arguments = [tmp_path / "headers"]
        arguments[0].mkdir()
    # Scans read shared memory that nobody wrote, for results that are thrown away.
    check = "memory" if program == "scans" else "races"
    printed, told = _run(tmp_path, PROGRAMS / f"{program}.py", *arguments, check=check)
    assert printed.endswith("did it\n")
    assert told["unsupported"] == {}
    meant = ["kernel poke at kernels.cu"] if program == "modules" else []
    assert [fault["what"].split(":")[0] for fault in told["faults"]] == meant
    # PyCUDA never releases a primary context that it has retained.
    assert told["live"].pop("contexts") == (program != "sources")
    assert set(told["live"].values()) == {0}


@pytest.mark.parametrize("file", ["test_driver.py", "test_cumath.py", "test_gpuarray.py"])
def test_pycudas_own_tests_pass(file: str, tmp_path: Path) -> None:
    """But for a few that want what is not here; those of textures it skips itself."""
    # Without the settings of this project's tests, below whose folder these lie.
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={TESTS}"]
    without = " and ".join(f"not {name}" for name in NOT_HERE)
    printed, told = _run(tmp_path, "-m", "pytest", *options, "-k", without, TESTS / file)
    assert " passed" in printed.splitlines()[-1]
    assert told["faults"] == []
