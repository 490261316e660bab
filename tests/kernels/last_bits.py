"""How far kernels' results are from the correctly rounded ones, and those of two GPUs apart.

Run in `tests`, on whichever GPU gpulend finds:

    python -m kernels.last_bits                        print the table of this GPU
    python -m kernels.last_bits --save FILE.json       keep the bits of all results
    python -m kernels.last_bits --compare FILE.json    put those of another GPU beside
    python -m kernels.last_bits --write PAGE.md        put the table into a page, between its marks

It needs gpulend, NumPy and a compiler for kernels: NVRTC on a real GPU, a clang on the simulated.
"""

from __future__ import annotations

import argparse
import base64
import json
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

try:
    import gpulend
    import numpy as np
except ImportError as error:
    sys.exit(
        f"{error}; kernels.last_bits needs NumPy and a gpulend that is built for Python "
        f"{platform.python_version()}: pip install numpy, and gpulend's wheel"
    )

from gpulend._native import describe_driver

from .exact import FORMATS
from .real_results import CANCELLING, FAMILIES, UNORDERED, Result

SEED = 20_241
MARKS = ("<!-- kernels.last_bits writes what follows -->\n", "<!-- up to here -->\n")
NOTES = {**dict.fromkeys(UNORDERED, "¹"), **dict.fromkeys(CANCELLING, "²")}
Table = list[list[str]]


def collect() -> tuple[list[Result], list[str]]:
    """Run everything; return the results, and what could not be compiled and why."""
    results: list[Result] = []
    failed: dict[str, list[str]] = {}
    for family in FAMILIES:
        try:
            results += family(np.random.default_rng(SEED))
        except gpulend.CompileError as error:
            # What a machine lacks is told once, not for every kernel that wants it.
            failed.setdefault(str(error), []).append(family.__name__)
    told = [f"not compiled: {', '.join(names)}: {reason}" for reason, names in failed.items()]
    return results, told


def gpu() -> dict[str, str]:
    """Say what the results are of."""
    kind, _, driver, devices = describe_driver()
    name, _, capability = devices[0]
    return {
        "name": name,
        "kind": kind,
        "capability": ".".join(map(str, capability)),
        "driver": ".".join(map(str, driver)),
        "gpulend": gpulend.__version__,
        "machine": platform.machine(),
        "library": " ".join(platform.libc_ver()),
    }


def described(about: dict[str, str]) -> str:
    """Name a GPU, and the C library whose functions are a simulated one's."""
    if about["kind"] == "simulated":
        return f"{about['name']} ({about['machine']}, {about['library']})"
    return f"{about['name']} (CUDA {about['driver']})"


def save(file: Path, results: list[Result]) -> None:
    """Write the bits of all results."""
    rows = {
        result.name: {
            "compiler": result.compiler,
            "given": result.given,
            "format": result.format,
            "bits": base64.b64encode(result.raw.tobytes()).decode(),
        }
        for result in results
    }
    file.write_text(json.dumps({"gpu": gpu(), "results": rows}, indent=1) + "\n")


def accuracy(result: Result, raw: np.ndarray) -> list[str]:
    """Tell how many results are not the correctly rounded ones, and the greatest error."""
    form = FORMATS[result.format]
    wrong = form.values(raw) != form.rounded(result.exact)
    return [str(np.count_nonzero(wrong)), f"{form.off(raw, result.exact).max():.2f}"]


def apart(result: Result, raw: np.ndarray) -> list[str]:
    """Tell how many results of two GPUs differ, and by how many places at most."""
    ours, theirs = (FORMATS[result.format].places(bits) for bits in (result.raw, raw))
    places = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    return [str(np.count_nonzero(result.raw != raw)), str(max(places))]


def table(results: list[Result], other: dict[str, Any] | None) -> Table:
    """Return a row for each result, below a head."""
    head = ["kernel", "type", "results", "compiler", "not rounded right", "greatest error"]
    if other is not None:
        head += ["other's compiler", "not rounded right", "greatest error", "differ", "by at most"]
    rows = [head]
    for result in results:
        base = result.name.partition(":")[0]
        name = f"{result.name} {NOTES[base]}" if base in NOTES else result.name
        row = [name, result.format, str(result.raw.size), result.compiler]
        row += accuracy(result, result.raw)
        if other is not None:
            row += _beside(result, other["results"].get(result.name))
        rows.append(row)
    return rows


def _beside(result: Result, found: dict[str, str] | None) -> list[str]:
    """Return the columns of another GPU's result, if it has it and was given the same numbers."""
    if found is None:
        return ["not run", *[""] * 4]
    if (found["given"], found["format"]) != (result.given, result.format):
        return ["was given other numbers", *[""] * 4]
    raw = np.frombuffer(base64.b64decode(found["bits"]), result.raw.dtype)
    return [found["compiler"], *accuracy(result, raw), *apart(result, raw)]


def markdown(rows: Table) -> str:
    """Return a table for a page."""
    line = ["---"] + ["---:" if re.fullmatch(r"[\d.]+", cell) else "---" for cell in rows[1][1:]]
    return "".join(f"| {' | '.join(row)} |\n" for row in [rows[0], line, *rows[1:]])


def text(rows: Table) -> str:
    """Return a table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def write(page: Path, words: str) -> None:
    """Put words between the marks of a page, or into a new one."""
    before = page.read_text() if page.exists() else "".join(MARKS)
    first, mark, rest = before.partition(MARKS[0])
    _, end, last = rest.partition(MARKS[1])
    if not (mark and end):
        sys.exit(f"{page} has no place for the table; put in these two lines:\n{''.join(MARKS)}")
    page.write_text(f"{first}{mark}\n{words}\n{end}{last}")


def heading(other: dict[str, Any] | None) -> str:
    """Say whose the columns are."""
    if other is None:
        return f"This GPU: {described(gpu())}. Another one: not run.\n"
    return f"This GPU: {described(gpu())}. The other: {described(other['gpu'])}.\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if something could not be run."""
    parser = argparse.ArgumentParser(prog="python -m kernels.last_bits", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--save", type=Path, metavar="FILE.json")
    parser.add_argument("--compare", type=Path, metavar="FILE.json")
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    asked = parser.parse_args(arguments)
    other = json.loads(asked.compare.read_text()) if asked.compare else None
    try:
        results, failed = collect()
    except gpulend.NoDeviceError as error:
        sys.exit(str(error))
    for sentence in failed:
        print(sentence, file=sys.stderr)
    if not results:
        return 1
    if asked.save:
        save(asked.save, results)
    rows = table(results, other)
    if asked.write:
        write(asked.write, f"{heading(other)}\n{markdown(rows)}")
    print(heading(other) + text(rows), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
