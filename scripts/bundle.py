"""Lays libgpulend, its headers and all of tests/c into one folder, for a machine without Rust.

    python3 scripts/bundle.py [FOLDER]

The folder, `dist/c` if none is named, is copied there as a whole; `run` in it runs everything. The
extension in `python/gpulend` is the one that is there now, for the Python that it was built for.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each program, its source, and its compiler: those that a machine without a compiler runs too.
PROGRAMS = (
    ("tour", "tests/c/tour.c", "CC"),
    ("kernels", "tests/c/kernels.c", "CC"),
    ("handles", "tests/c/handles.cpp", "CXX"),
    ("attack", "tests/c/attack.c", "CC"),
    ("vector_add", "tests/c/examples/vector_add.c", "CC"),
    ("calls", "benches/calls.c", "CC"),
)
STANDARDS = {"CC": ("cc", "-std=c11"), "CXX": ("c++", "-std=c++17")}
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*")


def main() -> None:
    """Build the library, copy, and compile the programs."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist/c").resolve()
    extensions = list((ROOT / "python/gpulend").glob("_native*.so"))
    if not extensions:
        sys.exit("no extension in python/gpulend; `maturin develop --release` builds it")
    shutil.rmtree(folder, ignore_errors=True)
    library = [sys.executable, str(ROOT / "scripts/library.py"), "--prefix", str(folder)]
    subprocess.run(library, check=True)
    for name in ("tests/c", "python/gpulend"):
        # Links lead out of the folder.
        shutil.copytree(ROOT / name, folder / name, ignore=LEFT_OUT)
    (folder / "docs").mkdir()
    for name in ("docs/c.md", "docs/errors.md"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "bin").mkdir()
    for name, source, compiler in PROGRAMS:
        default, standard = STANDARDS[compiler]
        found = ["-I", str(folder / "include"), "-L", str(folder / "lib"), "-lgpulend"]
        options = [*found, "-Wl,-rpath,$ORIGIN/../lib", "-lpthread", "-ldl"]
        command = [*shlex.split(os.environ.get(compiler, default)), standard, "-O2", "-Wall"]
        program = [str(ROOT / source), "-o", str(folder / "bin" / name)]
        subprocess.run([*command, *program, *options], check=True)
    shutil.copy(ROOT / "scripts/run-bundle", folder / "run")
    # Options of the project's own tests, and where they begin.
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra --strict-markers\n")
    print(folder)


if __name__ == "__main__":
    main()
