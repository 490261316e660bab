"""Compilers, and what `scripts/library.py` laid out: in `target/c`, or where GPULEND_C says."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from gpulend import _toolkit, compiler

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
C = [os.environ.get("CC", "cc"), "-std=c11"]
CPP = [os.environ.get("CXX", "c++"), "-std=c++17"]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g"]
# What a program needs besides the static library; gpulend.pc says the same.
SYSTEM = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"]
REAL = os.environ.get("GPULEND_TEST_DRIVER") == "real"
PROMISED = frozenset(filter(None, os.environ.get("GPULEND_PROMISED", "").split(",")))


def need(name: str) -> ModuleType:
    """Import a framework: missing skips on a laptop and fails where it was promised."""
    return importlib.import_module(name) if name in PROMISED else pytest.importorskip(name)


def need_tool(name: str) -> str:
    """Find a tool beside this Python or on the path; missing skips, or fails where promised."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None and name in PROMISED:
        pytest.fail(f"GPULEND_PROMISED names {name}, and there is none")
    return found or pytest.skip(f"no {name}")


@pytest.fixture(scope="session")
def stage() -> Path:
    """Find the headers and libraries as they are installed."""
    folder = Path(os.environ.get("GPULEND_C", ROOT / "target/c")).resolve()
    if not (folder / "lib/libgpulend.so").exists():
        pytest.fail(f"no libgpulend.so in {folder}/lib; `make test-c` builds it")
    return folder


class Compilers(NamedTuple):
    """Where compilers lie: a clang, and folders of NVRTC."""

    clang: str
    folders: str

    def arguments(self) -> list[str]:
        """Return them as the programs take them."""
        return [self.clang, self.folders]

    def environment(self) -> dict[str, str]:
        """Return them for programs that take no arguments."""
        clang = {"GPULEND_CLANG": self.clang} if self.clang else {}
        path = [self.folders, os.environ.get("LD_LIBRARY_PATH")]
        return {**clang, "LD_LIBRARY_PATH": ":".join(filter(None, path))}


@cache
def compilers() -> Compilers:
    """Find what Python has; without a clang a real GPU is left to NVRTC."""
    folders, _ = _toolkit.folders()
    ziglang = compiler.ziglang()
    if ziglang is None and not REAL:
        pytest.fail("the simulated GPU needs a compiler: pip install ziglang")
    return Compilers(ziglang or "", ":".join(folders))


def run(
    command: Sequence[str | Path], timeout: float = 170, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program on the simulated GPU, or on the real one, and return what it said."""
    inherited = {name: value for name, value in os.environ.items() if name != "GPULEND_DEVICE"}
    chosen = {"GPULEND_DEVICE": "cuda" if REAL else "simulated"}
    return subprocess.run(
        [str(part) for part in command],
        env=inherited | chosen | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def succeed(command: Sequence[str | Path], timeout: float = 170, **environment: str) -> str:
    """Run a program that must succeed and return what it printed."""
    done = run(command, timeout, **environment)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def link(stage: Path) -> list[str]:
    """Return the options that find and link the shared library."""
    lib = stage / "lib"
    return [f"-I{stage / 'include'}", f"-L{lib}", "-lgpulend", f"-Wl,-rpath,{lib}", "-lpthread"]


def link_static(stage: Path) -> list[str]:
    """Return the options that link the static library."""
    return [f"-I{stage / 'include'}", str(stage / "lib/libgpulend.a"), *SYSTEM]


def build(
    compiler: Sequence[str], program: Path, sources: Sequence[str | Path], *options: str
) -> Path:
    """Compile strictly, as one language, and return the program."""
    language = "c++" if list(compiler) == CPP else "c"
    flags = [*STRICT, "-x", language, *map(str, sources), "-x", "none"]
    succeed([*compiler, *flags, "-o", str(program), *options])
    return program
