"""Run cuda.core's own tests on the simulated GPU, and print how many pass and why others fail.

    python tests/clients/cuda_core.py CHECKOUT [--nvrtc] [--junit FILE] [-- ARGUMENTS OF PYTEST]

CHECKOUT is a clone of NVIDIA's cuda-python at the commit that fits the installed cuda.core; nothing
is downloaded. The Python that runs this needs gpulend, cuda-core with cuda-bindings, pytest and
pytest-timeout, and had better not see CuPy, which ends the collection of some files. `--nvrtc` puts
`nvrtc.c` over gpulend's compiler in NVRTC's place: NVRTC itself makes machine code, which the
simulated GPU refuses.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT = 60  # seconds for each test

# What a message says, and the reason in words; the first that fits counts.
REASONS = [
    (r"NO_BINARY_FOR_GPU", "NVRTC makes machine code (`--nvrtc` puts ours in its place)"),
    (
        r"cudaError|show_device_properties",
        "CUDA's runtime library (Device.sync) needs tables of the driver that are not public",
    ),
    (
        r"has been (destroyed|closed)|must belong to the same|default_cache_dir|fstat refused",
        "the tests are of another commit than the package",
    ),
    (r"_PROGRAMMATIC", "edges of graphs with data"),
    (r"CUDA checkpoint", "checkpoints of a process"),
    (r"assert [0-9.]+ > 10$", "events record when work ran, not how long it takes"),
    (r"Undefined reference to", "the words of NVIDIA's linker"),
    (r"libnvrtc|libnvvm|\bNVVM\b|nvml|NVML", "a library of NVIDIA's is not installed"),
    (r"NVRTC_ERROR|ltoir|LTOIR", "compiling for NVIDIA's own linker, or what our compiler lacks"),
    (r"INVALID_PTX|INVALID_IMAGE", "PTX or an image that the simulated GPU refuses"),
    (r"NUMA", "pools of host memory on one NUMA node, and shared ones"),
    (
        r"docs/source|RDC test fixture|failed on collection|collection failure",
        "needs a whole checkout or nvcc",
    ),
    (r"CUDA_ERROR_NOT_SUPPORTED", "a driver function, or a use of one, that is missing"),
    (r"[Tt]imeout", f"took longer than {TIMEOUT} seconds, or a process of it than it may"),
    (r"exitcode|Child process", "a process that the test started failed: read its output"),
]


def _standin(folder: Path) -> dict[str, str]:
    """Build the stand-in for NVRTC; return the settings that put it in place."""
    library = folder / "libnvrtc.so.13"
    flags = ["-O1", "-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    subprocess.run(["cc", *flags, "-o", library, HERE / "nvrtc.c"], check=True)
    script = str(HERE / "nvrtc.py")
    return {
        "LD_PRELOAD": str(library),
        "NVRTC_STANDIN_PYTHON": sys.executable,
        "NVRTC_STANDIN_SCRIPT": script,
    }


def run(checkout: Path, junit: Path, settings: dict[str, str], arguments: list[str]) -> None:
    """Run the tests in the checkout; what they say goes to `junit`."""
    tests = arguments or ["cuda_core/tests"]
    python = ["env", *(f"{name}={text}" for name, text in settings.items()), sys.executable]
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "--tb=line",
        f"--timeout={TIMEOUT}",
    ]
    options += ["--continue-on-collection-errors", f"--junitxml={junit}"]
    command = [sys.executable, "-m", "gpulend", "run", "--devices", "2", "--"]
    # Not in `cuda_core`: its sources would hide the installed package.
    subprocess.run([*command, *python, "-m", "pytest", *options, *tests], cwd=checkout, check=False)


def _reason(message: str) -> str:
    for pattern, words in REASONS:
        if re.search(pattern, message, re.MULTILINE):
            return words
    return (
        "other: " + re.sub(r"0x[0-9a-f]+", "0x…", message.splitlines()[0])[:100]
        if message
        else "other"
    )


def table(junit: Path) -> str:
    """Return the counts and the reasons in Markdown."""
    counts: collections.Counter[str] = collections.Counter()
    reasons: dict[str, collections.Counter[str]] = {
        "failed": collections.Counter(),
        "skipped": collections.Counter(),
    }
    for case in ElementTree.parse(junit).iter("testcase"):
        kind, message = "passed", ""
        for part in case:
            if part.tag in ("failure", "error", "skipped"):
                kind = "skipped" if part.tag == "skipped" else "failed"
                message = (part.get("message") or "") + "\n" + (part.text or "")
        counts[kind] += 1
        if kind == "failed":
            reasons[kind][_reason(message)] += 1
        elif kind == "skipped":
            reasons[kind][message.splitlines()[0][:100]] += 1
    lines = [
        f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped",
        "",
    ]
    for kind, found in reasons.items():
        lines += [f"| {kind} | why |", "|---|---|"]
        lines += [f"| {number} | {words} |" for words, number in found.most_common()] + [""]
    return "\n".join(lines)


def main() -> None:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--nvrtc", action="store_true", help="put ours in NVRTC's place")
    parser.add_argument(
        "--junit", type=Path, help="keep pytest's results, or read those that are there"
    )
    words = [*sys.argv[1:], "--"]
    end = words.index("--")  # what follows is for pytest, instead of all tests
    given, arguments = parser.parse_args(words[:end]), words[end + 1 : -1]
    with tempfile.TemporaryDirectory() as folder:
        junit = (given.junit or Path(folder) / "junit.xml").absolute()
        if not junit.exists():
            settings = _standin(Path(folder)) if given.nvrtc else {}
            run(given.checkout, junit, settings, arguments)
        print(table(junit))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    main()
