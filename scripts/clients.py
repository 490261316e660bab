"""Run other people's programs on the simulated GPU, from a checkout, and print their rows.

`python scripts/clients.py triton CHECKOUT` runs Triton's tutorials and every tenth test of its
test_core.py; `taichi` runs every twentieth of Taichi's own tests, and `halide` builds, with g++,
and runs all of Halide's own tests that can use a GPU. All run with `races`, and with the Triton,
Taichi or Halide that is installed: check out its tag. Nothing is downloaded. The rows are those of
`docs/clients.md`, which a person pastes there; below each are the tests that did not pass.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import distribution, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = ROOT / "tests" / "clients"
TUTORIALS = ("01", "02", "03", "05", "06")
ARCHS = ("sm_75", "sm_80")
# Seconds that a program, or all chosen tests of a client, may take.
LIMIT = 4 * 3600
# For the capability that `docs/clients.md` names.
HALIDE_TARGET = "host-cuda-cuda_capability_70"
# What a test of Halide's mentions that can use a GPU.
USES_GPU = re.compile(r"gpu_|has_gpu_feature|Target::CUDA")


def simulated(arch: str, folder: Path, *command: str, **variables: str) -> tuple[int, str, float]:
    """Run a program; return its exit status, what it said, and how long it took."""
    started = time.monotonic()
    paths = [str(CLIENTS), os.environ.get("PYTHONPATH", "")]
    before = [sys.executable, "-m", "gpulend", "run", "--arch", arch, "--timeout", "300", "--"]
    try:
        done = subprocess.run(
            [*before, *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return 124, f"took longer than {LIMIT} s", time.monotonic() - started
    return done.returncode, done.stdout, time.monotonic() - started


def row(name: str, what: str, arch: str, result: str, failed: Sequence[str] = ()) -> None:
    """Print a row of the table, and what failed."""
    print("\n".join([f"| {name}, {what} | {arch} | {result} |", *failed]), flush=True)


def own_tests(
    name: str,
    arch: str,
    folder: Path,
    tests: str,
    plugin: str,
    every: int,
    *options: str,
    **more: str,
) -> None:
    """Print the row of every N-th of a client's tests for pytest."""
    plugins = ("-p", "every_plugin", "-p", plugin, "-p", "no:cacheprovider")
    chosen = ("--every", str(every), "-q", "-rfE", "--tb=line", *options, tests)
    words = (sys.executable, "-m", "pytest", *plugins, *chosen)
    _, said, took = simulated(arch, folder, *words, **more)
    summary = re.findall(r"^(?:=+ )?(\d+ .*) in [\d.]+s", said, re.M)
    result = f"{summary[-1]}, {took:.0f} s" if summary else said[-200:]
    failed = re.findall(r"^(?:FAILED|ERROR) .*", said, re.M)
    row(name, f"{Path(tests).name}, 1 in {every}", arch, result, failed)


def triton(checkout: Path, every: int) -> None:
    """Print the rows of Triton."""
    name = f"Triton {version('triton')}"
    program = str(CLIENTS / "triton_tutorial.py")
    for number in TUTORIALS:
        (tutorial,) = (checkout / "python" / "tutorials").glob(f"{number}-*.py")
        for arch in ARCHS:
            words = (sys.executable, program, str(tutorial))
            status, said, took = simulated(arch, checkout, *words)
            result = "right" if status == 0 else said.strip().splitlines()[-1][:200]
            row(name, f"tutorial {tutorial.stem}", arch, f"{result}, {took:.0f} s")
    tests, device = "test/unit/language/test_core.py", ("--device", "cpu")
    for arch in ARCHS:
        own_tests(name, arch, checkout / "python", tests, "triton_plugin", every, *device)


def taichi(checkout: Path, every: int) -> None:
    """Print the rows of Taichi; it writes the same PTX for both processors."""
    name = f"Taichi {version('taichi')}"
    wanted = {"TI_WANTED_ARCHS": "cuda", "TI_OFFLINE_CACHE": "0"}
    own_tests(name, ARCHS[0], checkout, "tests/python", "taichi_plugin", every, **wanted)


def halide(checkout: Path, every: int) -> None:
    """Print the row of Halide, whose tests are programs of C++."""
    name, tests = f"Halide {version('halide')}", checkout / "test" / "correctness"
    sources = [one for one in sorted(tests.glob("*.cpp")) if USES_GPU.search(one.read_text())]
    with tempfile.TemporaryDirectory() as temporary:
        programs = _halide_programs(checkout, sources[::every], Path(temporary))
        passed, skipped, failed, took = 0, 0, [], 0.0
        for program in programs:
            words = (ARCHS[0], Path(temporary), str(program))
            status, said, seconds = simulated(*words, HL_JIT_TARGET=HALIDE_TARGET)
            last = said.strip().splitlines()[-1:] or [""]
            took += seconds
            skips = status == 0 and "[SKIP]" in said
            skipped += skips
            passed += status == 0 and not skips
            if status != 0:
                failed.append(f"FAILED {program.name} - status {status}: {last[0][:200]}")
    result = f"{len(failed)} failed, {passed} passed, {skipped} skipped, {took:.0f} s"
    row(name, f"{tests.name}, capability 7.0, 1 in {every}", ARCHS[0], result, failed)


def _halide_programs(checkout: Path, sources: Sequence[Path], folder: Path) -> list[Path]:
    """Build tests of Halide with the headers and the library of its wheel."""
    package = Path(str(distribution("halide").locate_file("halide")))
    headers, libraries = folder / "include", package / "lib64"
    shutil.copytree(package / "include", headers)
    compiler = ("g++", "-std=c++17", "-O0")
    # The header has 30,000 lines, so it is compiled once.
    header = str(headers / "Halide.h")
    subprocess.run([*compiler, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    parts = ("test/common", "tools", "src/runtime")
    includes = [f"-I{headers}", *(f"-I{checkout / part}" for part in parts)]
    # Compiled pipelines call functions of the program.
    link = [
        f"-L{libraries}",
        "-lHalide",
        f"-Wl,-rpath,{libraries}",
        "-rdynamic",
        "-ldl",
        "-pthread",
    ]
    programs = []
    for source in sources:
        programs.append(folder / source.stem)
        command = [*compiler, *includes, str(source), "-o", str(programs[-1]), *link]
        subprocess.run(command, check=True)
    return programs


# For each client its function, and of how many of its tests one runs.
PROGRAMS: dict[str, tuple[Callable[[Path, int], None], int]] = {
    "triton": (triton, 10),
    "taichi": (taichi, 20),
    "halide": (halide, 1),
}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=PROGRAMS)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--every", type=int, metavar="N", help="run one test in N")
    chosen = parser.parse_args()
    program, every = PROGRAMS[chosen.client]
    program(chosen.checkout.resolve(), chosen.every or every)


if __name__ == "__main__":
    main()
