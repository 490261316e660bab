"""`gpulend run --arch`, and the line about private tables of the driver."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ATTRIBUTES = """
import ctypes
cuda, value = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert cuda.cuInit(0) == 0
for number in (75, 76, 8, 97, 81, 39, 106):
    assert cuda.cuDeviceGetAttribute(ctypes.byref(value), number, 0) == 0
    print(value.value)
"""
TABLES = """
import ctypes
cuda, table = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(7)
print([cuda.cuGetExportTable(ctypes.byref(table), bytes(16)) for _ in range(3)], table.value)
"""
LIMITS = {
    "sm_75": [7, 5, 48 << 10, 64 << 10, 64 << 10, 1024, 16],
    "sm_80": [8, 0, 48 << 10, 163 << 10, 164 << 10, 2048, 32],
}


def run(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run Python code under `gpulend run`."""
    before = [sys.executable, "-m", "gpulend", "run", *options, "--"]
    # Nothing that another test set decides.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPULEND_")}
    return subprocess.run(
        [*before, sys.executable, "-c", code],
        env=kept,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arch", LIMITS)
def test_a_processor_has_its_limits(arch: str) -> None:
    """Compute capability, shared memory of a block and of a multiprocessor, threads, blocks."""
    done = run(ATTRIBUTES, "--arch", arch)
    assert [int(line) for line in done.stdout.split()] == LIMITS[arch], done.stderr


def test_another_processor_is_refused_before_the_program_starts() -> None:
    """With the names that there are."""
    done = run("print('ran')", "--arch", "sm_90")
    assert (done.stdout, done.returncode) == ("", 2)
    assert "sm_75 or sm_80" in done.stderr


def test_a_question_for_a_private_table_is_explained_once() -> None:
    """It is not found, also before cuInit; nothing is said if a report was requested."""
    done = run(TABLES)
    assert done.stdout == "[500, 500, 500] None\n"
    assert done.stderr.count("\n") == 1
    assert "cuGetExportTable" in done.stderr
    assert "gpulend build" in done.stderr
    assert run(TABLES, "--report", os.devnull).stderr == ""
