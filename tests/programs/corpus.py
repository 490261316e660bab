"""Counts how many programs of a public collection build, and how many of those run right.

    python tests/programs/corpus.py hecbench CHECKOUT --every 5 [--device-parts] [--run] [--small]
        [--json FILE]
    python tests/programs/corpus.py samples CHECKOUT [--run] [--json FILE]

`hecbench` is zjin-lcf/HeCBench: each folder `src/*-cuda` is a program, and its Makefile names the
sources, the options and the arguments. `samples` is NVIDIA/cuda-samples: its introduction, where
`CMakeLists.txt` names the sources. Neither comes with gpulend.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import device_parts

SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")
COMPILERS = ("nvcc", "g++", "gcc", "cc", "c++", "mpicxx")
# Options of nvcc whose value is the next word.
PAIRS = (
    *("-Xcompiler", "-Xptxas", "-Xlinker", "-Xcudafe", "-I", "-D", "-L", "-l", "-x", "--x"),
    *("-arch", "-gencode", "-ccbin", "-isystem", "-include", "--default-stream"),
)
# The most of a size, where programs run with small arguments.
SIZE = 1024
ERROR = re.compile(
    r".*?(?:\berror: |gpulend build: |(?=undefined reference)|ld: (?=cannot find))(.*)"
)
PASSED = re.compile(r"\b(?i:pass(?:ed)?|success(?:ful(?:ly)?)?)\b|\bOK\b")
FAILED = re.compile(r"(?<!\b0 )\b(?:fail(?:ed|ures?|s)?|mismatch(?:es)?)\b", re.I)
# It asks for a file that the collection does not bring.
NO_FILE = re.compile(
    r"no such file|bad file|f(?:ile|p)? != NULL|(?:fail|error|unable|can'?not|can't|could not)"
    r"[^\n]*\b(?:open|read|load|access|import)",
    re.I,
)
# What the simulated GPU says of a kernel, and what a program says of a refused call.
FAULT = re.compile(r"gpulend: .*|.*\bCUDA error\b.*|.*\bcudaError\w+.*")


@dataclass
class Program:
    """One program, and what became of it."""

    name: str
    folder: str
    sources: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    """Sources that the program loads as files, `x.cu` as `x64.fatbin`."""
    built: bool = False
    reason: str = ""
    """Why it was not built: the first error."""
    build_s: float = 0.0
    status: int | None = None
    """The exit status of the run; none if the limit ended it or nothing ran."""
    passed: bool = False
    """It printed a word that says so."""
    failed: bool = False
    fault: str = ""
    run_s: float = 0.0
    outcome: str = "not built"
    device: str = ""
    """What became of its device code: `accepted`, `no kernels`, or why neither."""


def main() -> int:
    """Build, and run if asked, the programs of a collection; print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("collection", choices=("hecbench", "samples"))
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--every", type=int, default=1, help="each n-th program only")
    parser.add_argument("--only", help="programs whose names match this regular expression")
    parser.add_argument("--first", type=int, default=0, help="where to begin to count them")
    parser.add_argument("--run", action="store_true")
    parser.add_argument(
        "--small",
        action="store_true",
        help="run with smaller numbers as arguments: hecbench is written for GPUs",
    )
    parser.add_argument("--limit", type=int, default=60, help="seconds of processors for each run")
    parser.add_argument("--keep", type=Path, help="a folder for the built programs")
    parser.add_argument(
        "--device-parts",
        action="store_true",
        help="see also whose device code compiles and is accepted, without libraries of the host",
    )
    parser.add_argument("--json", type=Path, help="a file for all that is known of each program")
    options = parser.parse_args()
    found = hecbench if options.collection == "hecbench" else samples
    chosen = slice(options.first, None, options.every)
    programs = list(found(options.checkout.resolve(), chosen))
    if options.only:
        programs = [each for each in programs if re.search(options.only, each.name)]
    for program in programs if options.small else ():
        program.arguments = smaller(program.arguments)
    with tempfile.TemporaryDirectory() as scratch:
        place = (options.keep or Path(scratch)).resolve()
        place.mkdir(parents=True, exist_ok=True)
        for program in programs:
            build(program, place / program.name)
            if options.run and program.built:
                run(program, place / program.name, options.limit)
            if options.device_parts:
                see_device_part(program, place / program.name)
            print(row(program), flush=True)
            if options.json:
                text = json.dumps([asdict(each) for each in programs], indent=1)
                options.json.write_text(text, encoding="utf-8")
    print("\n" + summary(programs, ran=options.run, device=options.device_parts))
    return 0


def hecbench(checkout: Path, chosen: slice) -> Iterator[Program]:
    """Yield the chosen ones of the programs, which are sorted by name."""
    folders = sorted(each for each in (checkout / "src").glob("*-cuda") if each.is_dir())
    for folder in folders[chosen]:
        program = Program(folder.name.removesuffix("-cuda"), str(folder))
        for words in commands(folder):
            if os.path.basename(words[0]) in COMPILERS:
                add_command(program, words[1:])
        program.arguments = run_arguments(folder)
        if not program.sources:
            add_lists(program, folder)
        yield program


def add_lists(program: Program, folder: Path) -> None:
    """Add the sources and folders that `CMakeLists.txt` names, or all sources of the folder."""
    lists = folder / "CMakeLists.txt"
    text = lists.read_text(encoding="utf-8") if lists.is_file() else ""
    for inside in re.findall(r"\bSOURCES\s+(.*?)\b[A-Z_]{5,}\b", text, re.S):
        program.sources += [word for word in inside.split() if word.endswith(SOURCES)]
    for inside in re.findall(r"\bINCLUDE_DIRS\s+\$\{CMAKE_CURRENT_SOURCE_DIR\}/(\S+)", text):
        program.options += ["-I", inside]
    if not program.sources:
        program.sources = all_sources(folder)


def samples(checkout: Path, chosen: slice) -> Iterator[Program]:
    """Yield the chosen ones of the introduction's programs."""
    every = sorted((checkout / "Samples/0_Introduction").glob("*/CMakeLists.txt"))
    for lists in every[chosen]:
        folder = lists.parent
        program = Program(folder.name, str(folder), options=["-I", str(checkout / "Common")])
        text = lists.read_text(encoding="utf-8")
        for inside in re.findall(r"add_executable\(\s*\w+([^)]*)\)", text):
            program.sources += [word for word in inside.split() if word.endswith(SOURCES)]
        program.sources = list(dict.fromkeys(program.sources)) or all_sources(folder)
        if "-fatbin" in text:
            program.images = re.findall(r"CUDA_KERNEL_SOURCE [^)]*?(\w+\.cu)\b", text)
        if "CUDA::cuda_driver" in text:
            program.options.append("-lcuda")
        if "OpenMP" in text:
            program.options += ["-Xcompiler", "-fopenmp"]
        yield program


def commands(folder: Path, *goals: str) -> Iterator[list[str]]:
    """Yield the commands that make would run in a folder."""
    asked = ["make", "-n", "-B", "-k", "LAUNCHER=", *goals]
    told = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False).stdout
    for line in told.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line)
        except ValueError:
            continue
        if words:
            yield words


def add_command(program: Program, words: list[str]) -> None:
    """Add the sources and options of one compiler's command, each once."""
    rest = iter(words)
    for word in rest:
        if word in ("-dc", "-rdc=true", "--relocatable-device-code=true"):
            option = ["-rdc=true"]
        elif word == "-o":
            next(rest, None)
            continue
        elif word.endswith(SOURCES):
            if word not in program.sources:
                program.sources.append(word)
            continue
        elif word == "-c" or not word.startswith("-"):
            continue
        else:
            option = [word, next(rest, "")] if word in PAIRS else [word]
        known = [program.options[at : at + len(option)] for at in range(len(program.options))]
        if option not in known:
            program.options += option


def run_arguments(folder: Path) -> list[str]:
    """Return the arguments of the first line of the Makefile's `run` that starts a program."""
    for words in commands(folder, "run"):
        if re.match(r"\./|bin/", words[0]) and not words[0].endswith(".sh"):
            return words[1:]
    return []


def smaller(arguments: list[str]) -> list[str]:
    """Return arguments with smaller numbers, by one rule for all programs.

    Powers of ten up to 10000 are mostly repetitions, and so is an only number: they become 2.
    Other numbers are mostly sizes: they are halved until they are at most 1024.
    """
    parts = [re.fullmatch(r"(|-+\w+=)(\d+)", word) for word in arguments]
    alone = sum(part is not None for part in parts) == 1
    made = []
    for word, part in zip(arguments, parts, strict=True):
        if part is None:
            made.append(word)
            continue
        number = int(part[2])
        if (alone and not part[1]) or number in (10, 100, 1000, 10000):
            number = 2
        while number > SIZE:
            number //= 2
        made.append(f"{part[1]}{number}")
    return made


def all_sources(folder: Path) -> list[str]:
    """Return the names of a folder's sources."""
    return sorted(each.name for each in folder.iterdir() if each.suffix in SOURCES[:4])


def build(program: Program, place: Path) -> None:
    """Build a program, or note the first error."""
    started = time.monotonic()
    # An option names the language of the sources after it; libraries are for those before.
    libraries = [word for word in program.options if word.startswith("-l")]
    others = [word for word in program.options if not word.startswith("-l")]
    words = [gpulend(), "build", *others, *program.sources, *libraries, "-o", str(place)]
    status, output = call(words, program.folder, 600)
    for image in program.images if status == 0 else ():
        made = place.parent / image.replace(".cu", "64.fatbin")
        words = [gpulend(), "build", *others, "-fatbin", image, "-o", str(made)]
        status, output = call(words, program.folder, 600)
    program.build_s = round(time.monotonic() - started, 1)
    program.built = status == 0
    program.outcome = "built" if program.built else "not built"
    if not program.built:
        errors = (match[1] for line in output.splitlines() if (match := ERROR.match(line)))
        program.reason = next(errors, output.strip().splitlines()[-1:] or ["?"])
        program.reason = re.sub(r"(?<!\w)/\S*/", "", str(program.reason))[:160]


def see_device_part(program: Program, place: Path) -> None:
    """Note whether the simulated GPU accepts a program's device code."""
    why = ""
    if program.built:
        texts = device_parts.of_binary(place)
    else:
        options = [word for word in program.options if not word.startswith("-l")]
        files = [each for each in program.sources if has_kernels(Path(program.folder, each))]
        texts, why = device_parts.of_sources(files, options, program.folder, call, gpulend())
    why = why or device_parts.refusal(texts, gpulend())
    program.device = why or ("accepted" if texts else "no kernels")


def has_kernels(source: Path) -> bool:
    """Return whether a source is there and for the device too."""
    if not source.is_file():
        return False
    cuda = source.suffix == ".cu" or "__global__" in source.read_text(errors="replace")
    return cuda and source.suffix != ".c"


def run(program: Program, place: Path, limit: int) -> None:
    """Run a built program on the simulated GPU."""
    started = time.monotonic()
    words = [gpulend(), "run", "--", str(place), *program.arguments]
    folder = str(place.parent) if program.images else program.folder
    program.status, output = call(words, folder, 20 * limit, limit)
    program.run_s = round(time.monotonic() - started, 1)
    program.passed, program.failed = bool(PASSED.search(output)), bool(FAILED.search(output))
    faults = [line for line in output.splitlines() if FAULT.fullmatch(line)]
    # What happened, without the kernel and the thread that it happened to.
    program.fault = re.sub(r".*?, thread \([^)]*\): ", "", faults[0])[:200] if faults else ""
    if program.fault:
        program.outcome = "fault"
    elif program.status is None or -program.status == signal.SIGXCPU:
        program.outcome = "too slow"
    elif (program.failed or program.status) and NO_FILE.search(output):
        program.outcome = "no data"
    elif program.status < 0:
        program.outcome = f"signal {-program.status}"
    elif program.failed:
        program.outcome = "wrong"
    elif program.status:
        program.outcome = f"exit {program.status}"
    else:
        program.outcome = "right" if program.passed else "ended"


def call(
    words: list[str], folder: str, limit: float, processors: int | None = None
) -> tuple[int | None, str]:
    """Run a command; return its status, none after the limit, and all that it printed.

    The limit of seconds of processors, of which other work of the machine takes none, is for each
    of its processes.
    """
    if processors is not None:
        words = ["prlimit", f"--cpu={processors}:{processors + 1}", *words]
    with tempfile.TemporaryFile() as output:
        # A group of its own: the limit ends what it started too.
        started = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        status: int | None
        try:
            status = started.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, 9)
            started.wait()
            status = None
        output.seek(0)
        return status, output.read(4 << 20).decode(errors="replace")


def gpulend() -> str:
    """Return the command that belongs to this Python."""
    return str(Path(sys.executable).parent / "gpulend")


def row(program: Program) -> str:
    """Return the line of a program in the table."""
    why = program.reason or program.fault
    if program.device not in ("", "accepted"):
        why += f" [device code: {program.device}]"
    seconds = f"{program.build_s:6.1f} {program.run_s:6.1f}"
    return f"{program.name:32} {program.outcome:10} {seconds}  {why}".rstrip()


def summary(programs: list[Program], ran: bool, device: bool = False) -> str:
    """Return the shares, and the reasons with their counts."""
    built = sum(each.built for each in programs)
    lines = [f"built {built} of {len(programs)} ({100 * built / max(1, len(programs)):.0f} %)"]
    if ran:
        outcomes = Counter(each.outcome for each in programs if each.built)
        lines += [f"  {count:4} {outcome}" for outcome, count in outcomes.most_common()]
    if device:
        parts = Counter(each.device for each in programs)
        lines += [f"  {count:4} device code: {what}" for what, count in parts.most_common()]
    for title, reasons in (
        ("not built", [each.reason for each in programs if not each.built]),
        ("faults", [each.fault for each in programs if each.fault]),
    ):
        if reasons:
            lines.append(f"{title}:")
            # Addresses and other numbers of many digits differ from run to run.
            alike = [re.sub(r"0x[0-9a-f]+|\b\d{3,}\b", "N", reason) for reason in reasons]
            lines += [f"  {count:4} {reason}" for reason, count in Counter(alike).most_common()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
