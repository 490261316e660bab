"""The end of a process: functions under way, launches that nothing waited for, and its length."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .cuda import SIMULATED, library_path

pytestmark = pytest.mark.skipif(not SIMULATED, reason="of the simulated GPU alone")

PROGRAM = Path(__file__).with_name("ending_program.py")


def _run(what: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own, where no timer lets work go on."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM), library_path(), what],
        env={**os.environ, "GPULEND_SIM_IDLE": "0", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("way", ["function", "callback", "graph", "object"])
def test_a_function_of_pythons_that_is_under_way_does_not_end_the_process(way: str) -> None:
    """Python ends a thread that asks for its lock too late; the process ends as it would have."""
    for _ in range(3):
        ran = _run(f"{way}-begun")
        assert (ran.returncode, ran.stderr) == (0, "")
        # It returns, unless Python was faster.
        assert ran.stdout in {"begun\n", "begun\nreturned\n", "returned\nbegun\n"}


@pytest.mark.parametrize("way", ["function", "callback", "graph"])
def test_a_function_that_was_not_begun_is_not_begun_when_the_process_ends(way: str) -> None:
    """Whatever it would touch may be gone."""
    ran = _run(f"{way}-queued")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "queued\n", "")


def test_a_launch_that_nothing_waited_for_is_run_when_the_process_ends() -> None:
    """Its mistake is told where mistakes are; the exit status stays the program's own."""
    ran = _run("launch-wrong")
    assert (ran.returncode, ran.stdout) == (0, "answered 0\n")
    mistake, end = ran.stderr.splitlines()
    assert mistake.startswith("gpulend: simulated GPU: kernel k at PTX line 4")
    assert "writes 4 bytes at 0x40" in mistake
    assert "the process ended before that launch did" in end
    assert _run("launch-right").stderr == ""


def test_the_report_has_what_was_found_when_the_process_ended() -> None:
    """And then stderr has the report alone."""
    ran = _run("launch-wrong", GPULEND_SIM_REPORT="1")
    assert ran.stderr.startswith("gpulend: the simulated GPU reports:\n  cuLaunchKernel: kernel k")
    assert ran.stderr.count("writes 4 bytes") == 1


def test_what_is_behind_a_function_that_is_not_begun_is_not_run() -> None:
    """The function might have made right what looks wrong."""
    ran = _run("behind-queued")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "queued\n", "")


def test_the_end_waits_no_longer_than_it_may() -> None:
    """And says what it left."""
    ran = _run("bounded-endless", GPULEND_SIM_TIMEOUT="0")
    assert (ran.returncode, ran.stdout) == (0, "ended 0\n")
    assert "1 launches that had not ended after 0.2 s" in ran.stderr


@pytest.mark.parametrize(("blocking", "answer"), [("1", 700), ("0", 0), ("", 0)])
def test_cuda_launch_blocking_makes_the_launch_answer(blocking: str, answer: int) -> None:
    """As CUDA has it: the launch is complete when its call returns, and tells what went wrong."""
    ran = _run("launch-wrong", CUDA_LAUNCH_BLOCKING=blocking)
    assert (ran.returncode, ran.stdout) == (0, f"answered {answer}\n")
    assert ("the process ended" in ran.stderr) == (answer == 0)
