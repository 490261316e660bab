"""The same driver seen from C: layouts as cuda.h has them, and one program over all topics."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from .cuda import library_path

HERE = Path(__file__).parent
PROMISED = frozenset(filter(None, os.environ.get("GPULEND_PROMISED", "").split(",")))
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror"]


def _candidates() -> list[Path]:
    """Return where cuda.h may lie: inside PyPI's `nvidia` packages, or a toolkit."""
    found = importlib.util.find_spec("nvidia")
    places = list(found.submodule_search_locations or []) if found else []
    return [
        *(Path(place) / "cu13" / "include" for place in places),
        Path("/usr/local/cuda/include"),
    ]


@pytest.fixture(scope="module")
def header() -> Path:
    """Find the folder of cuda.h: missing is a skip, or a failure where it was promised."""
    for folder in _candidates():
        if (folder / "cuda.h").is_file():
            return folder
    if "cuda_header" in PROMISED:
        pytest.fail("GPULEND_PROMISED names cuda_header, and there is no cuda.h")
    pytest.skip("no cuda.h: install nvidia-cuda-runtime or the CUDA toolkit")


def _compile(header: Path, *arguments: str) -> None:
    command = [os.environ.get("CC", "cc"), *FLAGS, f"-I{header}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_layouts_and_values_are_those_of_cuda_h(header: Path) -> None:
    """What the simulated driver assumes, asserted by the compiler."""
    _compile(header, "-fsyntax-only", str(HERE / "signatures.c"))


def test_a_c_program_gets_the_expected_answers(header: Path, tmp_path: Path) -> None:
    """Line by line the same on every driver."""
    program = tmp_path / "conformance"
    _compile(header, str(HERE / "conformance.c"), "-ldl", "-o", str(program))
    done = subprocess.run(
        [str(program), library_path()], capture_output=True, text=True, timeout=120, check=False
    )
    expected = (HERE / "conformance.expected").read_text()
    assert done.stdout.splitlines() == expected.splitlines(), done.stderr
    assert done.returncode == 0, done.stderr
