"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import gpulend
import pytest
from conftest import need
from machines import without_driver


def run(*arguments, **variables):
    """Run `gpulend` with arguments, and variables in its environment, in a process of its own."""
    command = [sys.executable, "-m", "gpulend", *arguments]
    environment = os.environ | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def report():
    """What `gpulend doctor --json` says here."""
    need("torch")
    done = run("doctor", "--json")
    assert done.returncode == 0
    # Where there is no driver, the doctor is told of the simulated GPU as everybody is.
    assert re.fullmatch(r"(gpulend: using the simulated GPU, .*\n)?", done.stderr)
    return json.loads(done.stdout)


def test_the_doctor_tries_every_pair(report):
    """Each producer with each consumer, proved and timed."""
    pairs = {(pair["producer"], pair["consumer"]) for pair in report["pairs"]}
    producers = {"numpy", "torch", "ctypes", "raw address"}
    if report["driver"]["kind"] == "simulated":
        producers.add("GPU memory")
    assert pairs == {(p, c) for p in producers for c in ("numpy", "torch")}
    for pair in report["pairs"]:
        assert pair["zero_copy"] is True
        assert 0 < pair["nanoseconds"] < 1e6
    assert report["healthy"] is True


def test_the_doctor_tells_what_becomes_of_read_only_memory(report):
    """NumPy keeps it, torch cannot and refuses."""
    readonly = {(pair["producer"], pair["consumer"]): pair["readonly"] for pair in report["pairs"]}
    assert readonly["numpy", "numpy"] == readonly["raw address", "numpy"] == "kept"
    assert readonly["numpy", "torch"] == readonly["raw address", "torch"] == "refused"


def test_the_doctor_tells_versions(report):
    """What is here is named, and what is missing would be null."""
    assert report["gpulend"] == gpulend.__version__
    known = {"numpy", "torch", "jax", "cupy", "numba", "cuda.core"}
    assert set(report["frameworks"]) == known
    assert report["frameworks"]["numpy"]
    assert report["frameworks"]["torch"]


def test_the_doctor_tells_of_the_driver(report):
    """Which one gpulend would use, and each of its devices; or why there is none."""
    driver = report["driver"]
    assert driver["kind"] in ("cuda", "simulated", None)
    if driver["kind"] is None:
        assert driver["problem"]
        return
    assert driver["problem"] is None
    assert driver["gpus"]
    for index, gpu in enumerate(driver["gpus"]):
        assert gpu["device"] == f"cuda:{index}"
        assert gpu["simulated"] is (driver["kind"] == "simulated")
        assert gpu["memory"] > 0


def test_the_doctor_prints_a_table():
    """For people, one line a pair."""
    done = run("doctor")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert sum("proved" in line for line in lines) in (8, 10)


def test_the_doctor_says_what_is_not_installed():
    """Without torch it still examines the rest."""
    program = (
        "import sys; sys.modules['torch'] = None\nfrom gpulend.cli import main\nmain(['doctor'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert "torch: not installed" in done.stdout
    assert sum("proved" in line for line in done.stdout.splitlines()) in (3, 4)


def test_the_demo_shows_the_job_and_four_caught_mistakes():
    """It ends well, and names each of the four errors."""
    done = run("demo")
    assert done.returncode == 0
    assert "NOT CAUGHT" not in done.stdout
    assert done.stdout.count("   ! ") == 4
    for name in ("AddressError", "ExportError", "StillLentError"):
        assert name in done.stdout


@without_driver
def test_the_demo_runs_a_kernel_and_shows_its_mistake():
    """The kernel, line and thread are told, once."""
    need("ziglang")
    done = run("demo", GPULEND_SIM_CHECK="off")
    assert "makes of 0 to 5: [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]" in done.stdout
    assert "answers 700" in done.stdout
    place = "kernel scale at scale.cu:3, block (1, 0, 0), thread (2, 0, 0): reads 4 bytes at 0x"
    assert done.stderr.startswith(f"gpulend: simulated GPU: {place}")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 0


def test_the_demo_says_why_there_is_no_kernel():
    """No simulated GPU, or no compiler, is no failure."""
    done = run("demo", GPULEND_DEVICE="cuda")
    assert "Left out: GPULEND_DEVICE=cuda allows real GPUs only" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    done = run("demo", GPULEND_CLANG="/bin/false", GPULEND_CACHE="off")
    assert "Left out: /bin/false compiles no CUDA C" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_told():
    """`gpulend --version`."""
    assert run("--version").stdout == f"gpulend {gpulend.__version__}\n"


def test_no_command_is_an_error_with_usage():
    """Nothing to do is said, not guessed."""
    done = run()
    assert done.returncode == 2
    assert "usage: gpulend" in done.stderr
