"""Triton: its driver for the simulated GPU, its ptxas, and the sample project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpulend import ptxas

pytest.importorskip("triton", reason="torch's wheel for CUDA brings it")
tomllib = pytest.importorskip("tomllib", reason="Triton wants Python 3.11, which has it")

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "examples" / "clients" / "triton"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return variables for a process with a cache of its own that finds our back end."""
    # The installed package may be older than the sources.
    described = folder / "metadata" / "gpulend-0.dist-info"
    described.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = project["entry-points"]["triton.backends"]
    listed = "\n".join(f"{name} = {value}" for name, value in rows.items())
    (described / "entry_points.txt").write_text(f"[triton.backends]\n{listed}\n")
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: gpulend\nVersion: 0\n")
    path = [str(described.parent), str(ROOT / "python")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONWARNINGS": "ignore",
        "TRITON_CACHE_DIR": str(folder / "cache"),
        # It warns as long as nobody decided, and pytest's settings make that an error.
        "TRITON_DEFAULT_FP_FUSION": "1",
        **more,
    }


def run(folder: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_the_sample_project_passes_its_tests(arch: str, tmp_path: Path) -> None:
    """Softmax and products of matrices, by FMA or by mma.sync, and a mistake that is found."""
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(PROJECT))
    done = run(
        tmp_path,
        *("-m", "pytest", *options, str(PROJECT)),
        GPULEND_DEVICE="simulated",
        GPULEND_SIM_ARCH=arch,
    )
    assert "5 passed" in done.stdout, done.stdout + done.stderr


PROGRAM = """
import numpy as np, torch, triton, triton.language as tl
{first}
@triton.jit
def add(x, y, z, by, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(z + i, tl.load(x + i, mask=i < n) + by * tl.load(y + i, mask=i < n), mask=i < n)
{last}
"""


def test_a_program_that_knows_nothing_of_us_runs(tmp_path: Path) -> None:
    """Under `gpulend run` Triton finds the driver by itself, and assembles with our ptxas."""
    program = tmp_path / "program.py"
    last = """
x, y = torch.arange(300.), torch.ones(300)
z = torch.empty(300)
kernel = add[(3,)](x, y, z, 0.5, 300, block=128)
assert torch.equal(z, x + 0.5 * y)
assert kernel.asm["cubin"].startswith(b"//") and b".entry add" in kernel.asm["cubin"]
print("right", triton.runtime.driver.active.get_current_target().arch)
"""
    program.write_text(PROGRAM.format(first="", last=last))
    options = ("--arch", "sm_80", "--report", "report.json")
    words = ("-m", "gpulend", "run", *options, "--", sys.executable, str(program))
    done = run(tmp_path, *words)
    assert (done.stdout, done.stderr) == ("right 80\n", "")


def test_arrays_and_leases_are_arguments(tmp_path: Path) -> None:
    """By one import; each kind of array sees what the kernel wrote, and a race is an error."""
    program = tmp_path / "program.py"
    last = """
x, y = np.arange(300, dtype="float16"), gpulend.full(300, 2, "float16")
z = np.zeros(300, dtype="float16")
add[(3,)](x, y, z, 0.5, 300, block=128)
assert (z == x + 1).all()
w = gpulend.empty(300, "float16")
add[(3,)](y, x, w, 1, 300, block=128)
assert (w.to_host() == x + 2).all()
try:
    add[(3,)](x, y, z, 0.5, 301, block=128)
except gpulend.KernelError as error:
    assert "kernel add at" in str(error) and "program.py:7" in str(error), error
    print("found", gpulend.triton.active())
"""
    first = "import gpulend, gpulend.triton"
    program.write_text(PROGRAM.format(first=first, last=last))
    done = run(tmp_path, str(program), GPULEND_DEVICE="simulated")
    assert done.stdout == "found True\n", done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_process_that_did_not_ask_keeps_its_driver(tmp_path: Path) -> None:
    """The back end is there and inactive, and no driver of ours is loaded for that."""
    code = """
import torch, triton
from triton.backends import backends
assert backends["gpulend"].driver.is_active() is False
try:
    triton.runtime.driver.active
except RuntimeError as error:
    assert "0 active drivers" in str(error), error
print("libgpulend_sim" in open("/proc/self/maps").read())
"""
    done = run(tmp_path, "-c", code, GPULEND_DEVICE="auto")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_ptxas_packs_text_and_says_which_release_it_stands_for(tmp_path: Path) -> None:
    """Options before and after the source are passed over; without a source it fails."""
    program = ptxas.install()
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert "gpulend" in said.stdout
    assert "release 12.8, V12.8.0" in said.stdout
    source, output = tmp_path / "a b.ptx", tmp_path / "out.o"
    source.write_text(".version 8.7\n")
    options = ["-lineinfo", "-v", "--opt-level", "0", "--gpu-name=sm_75"]
    subprocess.run([program, *options, source, "-o", output], check=True)
    assert output.read_text() == ".version 8.7\n"
    failed = subprocess.run([program, "-o", output], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "no source" in failed.stderr
