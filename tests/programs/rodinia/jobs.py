"""What a program of Rodinia is built of, how it runs, and how results are compared."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

GPULEND = [sys.executable, "-m", "gpulend"]
SECONDS = 300
FAULT = re.compile(r"^gpulend: simulated GPU: (.*)$", re.M)

RECORDER = r"""
#include <stdio.h>
extern int __real_cudaMemcpy(void *to, const void *from, size_t size, int kind);
int __wrap_cudaMemcpy(void *to, const void *from, size_t size, int kind) {
  int status = __real_cudaMemcpy(to, from, size, kind);
  if (status == 0 && (kind == 1 || kind == 2)) {
    FILE *file = fopen("copies.bin", "ab");
    size_t head[2] = {(size_t)kind, size};
    fwrite(head, sizeof head, 1, file);
    fwrite(kind == 1 ? from : to, 1, size, file);
    fclose(file);
  }
  return status;
}
"""


KMEANS = "#define cudaMemcpyToSymbol(name, ...) (cudaMemcpyToSymbol)(c_clusters, __VA_ARGS__)\n"

# C that was written for a compiler of its time.
OLD_C = (
    *("-Wno-implicit-int", "-Wno-implicit-function-declaration", "-Wno-int-conversion"),
    *("-Wno-incompatible-pointer-types", "-Wno-unknown-warning-option"),
)


class Wrong(Exception):
    """A program's result is not what it must be."""


class Fault(Exception):
    """The simulated GPU refused something that the program did."""


@dataclass
class Case:
    """One program: where it is, how it is built, and what runs and checks it."""

    folder: str
    name: str
    words: list[str]
    work: Callable[[Job], str]


CASES: list[Case] = []


def case(folder: str, name: str, *words: str) -> Callable[[Callable[[Job], str]], Callable]:
    """Register the function as the check of a program that is built with these words."""

    def register(work: Callable[[Job], str]) -> Callable[[Job], str]:
        CASES.append(Case(folder, name, list(words), work))
        return work

    return register


@dataclass
class Copies:
    """What a program copied, in order: to the device and back."""

    to: list[bytes] = field(default_factory=list)
    back: list[bytes] = field(default_factory=list)

    def sent(self, index: int, dtype: str = "f4") -> np.ndarray:
        """Return a copy to the device as an array."""
        return np.frombuffer(self.to[index], dtype)

    def got(self, index: int, dtype: str = "f4") -> np.ndarray:
        """Return a copy from the device as an array."""
        return np.frombuffer(self.back[index], dtype)


@dataclass
class Job:
    """A place where one program runs."""

    root: Path
    folder: Path
    program: Path
    check: str
    random: np.random.Generator
    output: str = ""
    copies: Copies = field(default_factory=Copies)

    def write(self, name: str, content: str | bytes) -> str:
        """Write a file relative to the folder that the program runs in; return its name."""
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def read(self, name: str) -> str:
        """Return the text of a file that the program wrote."""
        return (self.folder / name).read_text()

    def run(self, *arguments: object) -> Copies:
        """Run the program on the simulated GPU; return what it copied."""
        record = self.folder / "copies.bin"
        record.unlink(missing_ok=True)
        command = [*GPULEND, "run", "--check", self.check, "--", str(self.program)]
        done = subprocess.run(
            [*command, *map(str, arguments)],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        self.output = done.stdout.decode(errors="replace")
        messages = done.stderr.decode(errors="replace")
        if found := FAULT.search(messages):
            raise Fault(found[1].replace(f"{self.root}/cuda/", "").replace("/./", "/"))
        if done.returncode != 0:
            last = (messages or self.output).strip().splitlines()[-1:]
            raise Wrong(f"exit status {done.returncode}: {' '.join(last)}")
        self.copies = _copies(record)
        return self.copies


def _copies(record: Path) -> Copies:
    copies = Copies()
    data = record.read_bytes() if record.exists() else b""
    place = 0
    while place < len(data):
        kind, size = struct.unpack_from("QQ", data, place)
        part = data[place + 16 : place + 16 + size]
        (copies.to if kind == 1 else copies.back).append(part)
        place += 16 + size
    return copies


def same(what: str, found: object, wanted: object, rtol: float = 0, atol: float = 0) -> None:
    """Raise unless two arrays are the same, within tolerances, and there is something in them."""
    left, right = np.asarray(found), np.asarray(wanted)
    if left.shape != right.shape:
        raise Wrong(f"{what}: shape {left.shape}, not {right.shape}")
    if left.size == 0 or not np.isfinite(right).any():
        raise Wrong(f"{what}: nothing to compare")
    close = np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    if not close.all():
        where = tuple(int(i) for i in np.argwhere(~close)[0])
        raise Wrong(
            f"{what}: {int((~close).sum())} of {close.size} differ, first at {where}: "
            f"{left[where]}, not {right[where]}"
        )


def need(condition: bool, text: str) -> None:
    """Raise with the text unless the condition is true."""
    if not condition:
        raise Wrong(text)
