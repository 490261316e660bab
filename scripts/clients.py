"""Run other people's programs on the simulated GPU, from a checkout, and print their rows.

`python scripts/clients.py triton CHECKOUT` runs Triton's tutorials and every tenth test of its
test_core.py, on both processors and with `races`, with the Triton that is installed. Nothing is
downloaded. The rows are those of `docs/clients.md`, which a person pastes there.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = ROOT / "tests" / "clients"
TUTORIALS = ("01", "02", "03", "05", "06")
ARCHS = ("sm_75", "sm_80")


def simulated(arch: str, folder: Path, *command: str) -> tuple[int, str, float]:
    """Run a Python program; return its exit status, what it said, and how long it took."""
    started = time.monotonic()
    paths = [str(CLIENTS), os.environ.get("PYTHONPATH", "")]
    before = [sys.executable, "-m", "gpulend", "run", "--arch", arch, "--timeout", "300", "--"]
    done = subprocess.run(
        [*before, sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, time.monotonic() - started


def triton(checkout: Path, every: int) -> None:
    """Print the rows of Triton."""
    name = f"Triton {version('triton')}"
    for number in TUTORIALS:
        (tutorial,) = (checkout / "python" / "tutorials").glob(f"{number}-*.py")
        for arch in ARCHS:
            program = str(CLIENTS / "triton_tutorial.py")
            status, said, took = simulated(arch, checkout, program, str(tutorial))
            result = "right" if status == 0 else said.strip().splitlines()[-1][:200]
            print(
                f"| {name}, tutorial {tutorial.stem} | {arch} | {result}, {took:.0f} s |",
                flush=True,
            )
    for arch in ARCHS:
        options = ("-p", "triton_plugin", "--every", str(every), "--device", "cpu")
        tests = "test/unit/language/test_core.py"
        words = ("-m", "pytest", *options, "-q", "-p", "no:cacheprovider", "--tb=line", tests)
        _, said, _ = simulated(arch, checkout / "python", *words)
        summary = re.findall(r"^(\d+ .*) in [\d.]+s", said, re.M)
        result = summary[-1] if summary else said[-200:]
        print(f"| {name}, test_core.py, 1 in {every} | {arch} | {result} |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=["triton"])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--every", type=int, default=10, metavar="N")
    chosen = parser.parse_args()
    triton(chosen.checkout.resolve(), chosen.every)


if __name__ == "__main__":
    main()
