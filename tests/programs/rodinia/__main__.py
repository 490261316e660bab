"""Build Rodinia's CUDA programs with `gpulend build`, run them with `gpulend run`, check results.

    python tests/programs/rodinia CHECKOUT [--samples COMMON] [--only NAMES] [--json FILE]

CHECKOUT is a clone of Rodinia (its folder `cuda` is used; its data files are not). COMMON is the
folder of helper headers of NVIDIA's samples; without it, those that hybridsort brings are taken.

Each program works in a copy of the sources, on small inputs made here. Its result is compared with
a computation in NumPy or Python, or by its own verification where that checks what the GPU did.
What a program copies between host and device is written down by a function that the linker puts in
the place of `cudaMemcpy` (`--wrap`): so a program that prints nothing is checked too, and inputs
that come from `rand()` are known. The sources are never changed.

A program in which the simulated GPU finds a data race is run again with `--check memory`, and one
with a wrong access with `--check off`; its row says "right, with a race at LINE".
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import first  # noqa: F401
import numpy as np
import second  # noqa: F401
from jobs import CASES, GPULEND, KMEANS, RECORDER, SECONDS, Case, Fault, Job, Wrong


def words_for(one: Case, cuda: Path, samples: Path) -> list[str]:
    """Return the words of the build command, without the output."""
    words: list[str] = []
    for word in one.words:
        if word == "-ISAMPLES":
            words.append(f"-I{samples}")
        elif word == "KMEANS":
            words.append(str(cuda.parent / "kmeans.h"))
        elif word == "MESCHACH":
            library = cuda / "leukocyte/meschach_lib"
            words += [str(library / f"{name}.c") for name in MESCHACH.split()]
        else:
            words.append(word)
    return words


# Of the matrix library, these are no programs.
MESCHACH = (
    "bdfactor bkpfacto chfactor copy err fft givens hessen hsehldr init iter0 iternsym itersym "
    "ivecop lufactor machine matlab matop matrixio meminfo memory memstat mfunc norm otherio pxop "
    "qrfactor schur solve sparse sparseio spbkp spchfctr splufctr sprow spswap submat svd symmeig "
    "update vecop version zcopy zfunc zgivens zhessen zhsehldr zlufctr zmachine zmatio zmatlab "
    "zmatop zmemory znorm zqrfctr zschur zsolve zvecop"
)


@dataclass
class Row:
    """What the table says about one program."""

    program: str
    name: str
    built: bool = False
    ran: bool = False
    right: bool = False
    seconds: float = 0.0
    fault: str = ""
    """What the simulated GPU found in the program's own code, and where."""
    note: str = ""


def attempt(one: Case, root: Path, samples: Path) -> Row:
    """Build, run and check one program."""
    row = Row(one.folder.split("/")[0], one.name)
    folder = root / "cuda" / one.folder
    program = root / "programs" / one.name
    command = [*GPULEND, "build", "-O2", *words_for(one, root / "cuda", samples)]
    command += [str(root / "recorder.c"), "-Xlinker", "--wrap=cudaMemcpy", "-o", str(program)]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        text = done.stdout.decode(errors="replace")
        errors = re.findall(r"^.*(?:error|undefined|gpulend build:).*$", text, re.M)
        row.note = (errors or text.splitlines()[-1:] or ["?"])[0].replace(f"{root}/cuda/", "")
        return row
    row.built = True
    for check in ("races", "memory", "off"):
        job = Job(root, folder, program, check, np.random.default_rng(1))
        start = time.monotonic()
        try:
            row.note = one.work(job)
            row.ran = row.right = True
        except Fault as error:
            row.fault = row.fault or str(error)
            if check != "off":
                continue
        except Wrong as error:
            row.ran, row.note = "exit status" not in str(error), str(error)
        except subprocess.TimeoutExpired:
            row.note = f"more than {SECONDS} s"
        except (OSError, IndexError, ValueError, TypeError, subprocess.SubprocessError) as error:
            row.ran, row.note = True, f"no result to read: {type(error).__name__}: {error}"
        row.seconds = time.monotonic() - start
        break
    return row


def show(row: Row) -> None:
    """Print a line of the table."""
    marks = ["yes" if value else "no" for value in (row.built, row.ran, row.right)]
    note = row.note
    if row.fault:
        place = re.search(r" at (\S+:\d+)", row.fault)
        word = "right" if row.right else "wrong"
        note = f"{word}, with {_kind(row.fault)} at {place[1] if place else '?'}; {note}"
    print(
        f"{row.program:15} {row.name:21} {marks[0]:5} {marks[1]:3} {marks[2]:5} "
        f"{row.seconds:7.1f}  {note}",
        flush=True,
    )


def _kind(fault: str) -> str:
    """Return what the simulated GPU found, in few words."""
    if "no barrier" in fault:
        return "a race"
    if "which no thread" in fault:
        return "a read of what nobody wrote"
    return "a wrong access"


def main() -> int:
    """Check the programs that the command line asks for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a clone of Rodinia")
    parser.add_argument("--samples", type=Path, help="the folder Common of NVIDIA's samples")
    parser.add_argument("--only", default="", help="folders or programs, with commas between them")
    parser.add_argument("--json", type=Path, help="a file for the table")
    options = parser.parse_args()
    asked = {name for name in options.only.split(",") if name}
    rows = []
    with tempfile.TemporaryDirectory(prefix="rodinia-") as place:
        root = Path(place)
        unused = shutil.ignore_patterns("*.tar", "*.gz", "*.o", "result.txt")
        shutil.copytree(options.checkout / "cuda", root / "cuda", ignore=unused)
        (root / "programs").mkdir()
        (root / "recorder.c").write_text(RECORDER)
        (root / "kmeans.h").write_text(KMEANS)
        # hybridsort's helper asks for these, and uses nothing of them.
        (root / "cuda/GL/GL").mkdir(parents=True)
        for header in ("glew.h", "glut.h"):
            (root / "cuda/GL/GL" / header).write_text("")
        samples = options.samples.resolve() if options.samples else root / "cuda/hybridsort"
        print(
            f"{'program':15} {'binary':21} {'built':5} {'ran':3} {'right':5} {'seconds':>7}  "
            "how, or why not"
        )
        for one in CASES:
            names = {one.folder.split("/")[0], one.name}
            if asked and not asked & names:
                continue
            row = attempt(one, root, samples)
            rows.append(row)
            show(row)
    good = [row for row in rows if row.right]
    faulty = sum(bool(row.fault) for row in good)
    print(f"{len(good)} of {len(rows)} are right, {faulty} of them with a mistake in their code")
    if options.json:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
