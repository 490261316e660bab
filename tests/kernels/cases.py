"""Programs as `crates/sim/tests/differential/dump.rs` writes them: text, memory, results."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, field
from pathlib import Path

MARK = "// piece\n"
Memory = dict[str, bytes]
_GUARD = re.compile(r"^@!?%\w+ ")
_CHANGE = re.compile(r"(\w+)\+(\d+)=(\w+)")


@dataclass
class Program:
    """A kernel in pieces that can be left out, and what memory holds after each."""

    seed: int = 0
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    shared: int = 0
    registers: list[str] = field(default_factory=list)  # as the output holds them, 8 bytes each
    before: Memory = field(default_factory=dict)
    first: Memory = field(default_factory=dict)  # after no piece
    changes: list[list[tuple[str, int, bytes]]] = field(default_factory=list)
    head: str = ""
    pieces: list[str] = field(default_factory=list)
    tail: str = ""

    @classmethod
    def read(cls, folder: Path, seed: int) -> Program:
        """Read a file, packed or not."""
        packed = folder / f"{seed}.case.gz"
        data = gzip.decompress(packed.read_bytes()) if packed.exists() else None
        whole = (data or (folder / f"{seed}.case").read_bytes()).decode()
        described, _, text = whole.partition("\ntext\n")
        program = cls()
        for line in described.splitlines():
            program._take(line)
        program.head, *program.pieces, program.tail = text.split(MARK)
        assert len(program.pieces) == len(program.changes)
        return program

    def _take(self, line: str) -> None:
        key, *words = line.split()
        if key in ("seed", "shared"):
            setattr(self, key, int(words[0]))
        elif key in ("grid", "block"):
            setattr(self, key, tuple(map(int, words)))
        elif key == "registers":
            self.registers = words
        elif key == "buffer":
            self.before[words[0]] = bytes.fromhex(words[1])
        elif key == "first":
            self.first[words[0]] = bytes.fromhex(words[1])
        else:
            found = [_CHANGE.fullmatch(word) for word in words]
            self.changes.append(
                [(one[1], int(one[2]), bytes.fromhex(one[3])) for one in found if one]
            )

    def part(self, pieces: int) -> str:
        """Return the text of a kernel with the first pieces only."""
        return MARK.join([self.head, *self.pieces[:pieces], self.tail])

    def expected(self, pieces: int) -> Memory:
        """Return what memory holds after the first pieces."""
        memory = {name: bytearray(data) for name, data in self.first.items()}
        for changes in self.changes[:pieces]:
            for name, at, data in changes:
                memory[name][at : at + len(data)] = data
        return {name: bytes(data) for name, data in memory.items()}

    def place(self, name: str, at: int) -> tuple[int | None, str]:
        """Say whose thread's and which register a byte of memory is, or which memory."""
        if name != "output":
            return None, f"{name}+{at}"
        slot = len(self.registers) * 8
        return at // slot, self.registers[at % slot // 8]

    def operands(self, line: str, thread: int, pieces: int) -> dict[str, str]:
        """Return what a thread's registers that a line names hold after the first pieces."""
        output = self.expected(pieces)["output"]
        held = {}
        for register in re.findall(r"%\w+", line):
            if register in self.registers:
                at = (thread * len(self.registers) + self.registers.index(register)) * 8
                held[register] = number(output[at : at + 8])
        return held

    def piece_of(self, line: str) -> int | None:
        """Return the first piece with a line; None for what no piece has."""
        for number, piece in enumerate(self.pieces):
            if line and line in piece:
                return number
        return None


def number(data: bytes) -> str:
    """Return bytes as the number that they are, of sixteen digits."""
    return data[::-1].hex()


def family(line: str) -> str:
    """Return the instruction of a line, without guard and operands; nothing for other lines."""
    line = _GUARD.sub("", line.strip())
    word = line.partition(" ")[0].rstrip(";")
    return "" if not word or word[0] in "{}.%" or word.endswith(":") else word


def producer(lines: str, what: str) -> str:
    """Return the last line that sets a register or, for other places, the last that writes."""
    found = lines.strip().splitlines() or [""]
    for line in reversed(found):
        name, (_, _, operands) = family(line), _GUARD.sub("", line.strip()).partition(" ")
        if what.startswith("%"):
            target = operands.partition("}" if operands.startswith("{") else ",")[0]
            if name and not name.startswith("st") and what in re.findall(r"%\w+", target):
                return line.strip()
        elif name.startswith(("st.", "atom", "red.")):
            return line.strip()
    return found[-1].strip()


def refused_line(text: str, log: str) -> tuple[str, str]:
    """Return the first line that a compiler's log refuses, and what it says."""
    said = [part for part in log.splitlines() if "error" in part.lower()] or [log]
    numbers = {
        int(found[1]): part
        for part in said
        if (found := re.search(r"line (\d+)", part)) is not None
    }
    if not numbers:
        return "", said[0]
    first = min(numbers)
    return text.splitlines()[first - 1].strip(), numbers[first]
