"""Whole CUDA programs: building them, and running them on the driver under test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
REAL = os.environ.get("GPULEND_TEST_DRIVER") == "real"
GPULEND = [sys.executable, "-m", "gpulend"]
PROMISED = os.environ.get("GPULEND_PROMISED", "").split(",")
KERNEL = """
__global__ void add(int *x, int by) { x[threadIdx.x] += by; }
extern "C" int add_on_gpu(int value, int by) {
    int *x;
    if (cudaMalloc(&x, sizeof(int)) != cudaSuccess) return -1;
    cudaMemcpy(x, &value, sizeof value, cudaMemcpyHostToDevice);
    add<<<1, 1>>>(x, by);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    cudaFree(x);
    return value;
}
"""
MAIN = """
#include <stdio.h>
#ifdef __cplusplus
extern "C"
#endif
int add_on_gpu(int, int);
int main(void) { printf("%d\\n", add_on_gpu(40, 2)); return 0; }
"""


class Bench:
    """A folder with sources, and the two commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> str:
        """Write a source, and return its name."""
        (self.folder / name).write_text(text)
        return name

    def build(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `gpulend build` in the folder."""
        return self._start([*GPULEND, "build", *words], variables)

    def built(self, *words: str, **variables: str) -> None:
        """Run `gpulend build`, which must succeed."""
        done = self.build(*words, **variables)
        assert done.returncode == 0, done.stderr

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program on the simulated GPU, or on the real one."""
        return self._start([*([] if REAL else [*GPULEND, "run", "--"]), *command], variables)

    def ran(self, *command: str, **variables: str) -> str:
        """Run a program, which must succeed, and return what it prints."""
        done = self.run(*command, **variables)
        # A text: pytest cuts others short.
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def _start(
        self, command: list[str], variables: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Return a folder for sources and what is built of them."""
    return Bench(tmp_path)
