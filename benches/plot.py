"""Draw the records of the benches: gpulend beside its peers.

`make bench-plot` runs it. One picture has all jobs: a bar is a contestant's time, the median of its
runs, beside that of the fastest peer, which is the line at 1. The other has how fast copies are, by
their size. Equal records make equal pictures, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

import record

OUTPUT = Path(__file__).parents[1] / "docs/speed.svg"
COPIES = "copies.svg"  # beside the output
# The benches in the order of the picture; one without a record is not in it, nor are other benches.
TITLES = {
    "gpu": "Hand-overs of GPU arrays",
    "launch": "Launches of an empty kernel with three arrays",
    "handover": "Hand-overs of host arrays",
}
# Pixels. Names of contestants end, and bars begin, at BARS; a bar of UNIT is the fastest peer.
COLUMN, MARGIN, HEAD = 440, 10, 58
BARS, UNIT, LONGEST = 208, 54, 3
LINE, BAR, GAP = 14, 9, 9
WRAPPED = 68  # characters of a line
# Charts of copies: where one begins in its column, and how large it is.
AXIS, WIDE, HIGH = 34, 280, 190
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
COLORS = {
    "gpulend": "gpulend",
    "pinned": "pinned",
    "torch": "torch",
    "CuPy": "cupy",
    "driver": "driver",
    "one thread": "thread",
}
STYLE = """
    text { font-family: "Segoe UI", Helvetica, Arial, sans-serif; font-size: 11px }
    .page { fill: #ffffff } text { fill: #1f2328 } .quiet { fill: #59636e }
    .peer { fill: #afb8c1 } .ours { fill: #0969da } .one { stroke: #59636e; stroke-dasharray: 2 2 }
    .grid { stroke: #d1d9e0 } .line { fill: none; stroke-width: 1.5 }
    .s-gpulend, .s-pinned { stroke: #0969da } .s-gpulend { stroke-width: 2.5 }
    .s-torch { stroke: #bc4c00 } .s-cupy { stroke: #1a7f37 } .s-driver { stroke: #59636e }
    .s-thread { stroke: #8250df } .s-pinned, .s-thread { stroke-dasharray: 4 3 }
    .middle { text-anchor: middle }
    .title { font-size: 14px; font-weight: 600 } .job { font-weight: 600 } .end { text-anchor: end }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117 } text { fill: #e6edf3 } .quiet { fill: #9198a1 }
      .peer { fill: #59636e } .ours { fill: #4493f8 } .one { stroke: #9198a1 }
    }
"""


class Picture:
    """A column of text and bars, which grows downwards."""

    def __init__(self, left: int) -> None:
        self.left, self.bottom = left, HEAD
        self.parts: list[str] = []

    def text(self, x: int, words: str, kind: str) -> None:
        """Write words whose line begins, or ends, at `x`."""
        at = f'x="{self.left + x}" y="{self.bottom + LINE - 3}"'
        self.parts.append(f'<text {at} class="{kind}">{escape(words)}</text>')

    def bench(self, content: dict[str, Any]) -> None:
        """Draw all jobs of a record below what is there."""
        self.text(0, TITLES[content["bench"]], "title")
        self.bottom += LINE + 3
        for line in textwrap.wrap(conditions(content), WRAPPED):
            self.text(0, line, "quiet")
            self.bottom += LINE
        for row in content["rows"]:
            self.bottom += GAP
            self.job(row)
        self.bottom += 2 * GAP

    def job(self, row: record.Row) -> None:
        """Draw our bar, and those of the peers from fast to slow."""
        self.text(0, row["job"], "job")
        self.text(BARS, f"{record.ratio(row):.2f} of the fastest peer's time", "job")
        self.bottom += LINE
        top = self.bottom
        times = {name: median(ns) for name, ns in row["ns"].items()}
        ours = times.pop(row["gpulend"])
        fastest = min(times.values())
        peers = sorted(times.items(), key=lambda peer: peer[1])
        # Ours by the median of the ratios, which is not the ratio of the medians.
        self.bar(row["gpulend"], ours, record.ratio(row), "ours")
        for name, ns in peers:
            self.bar(name, ns, ns / fastest, "peer")
        x = self.left + BARS + UNIT
        line = f'<line x1="{x}" x2="{x}" y1="{top}" y2="{self.bottom}" class="one"/>'
        self.parts.append(line)

    def bar(self, name: str, ns: float, length: float, kind: str) -> None:
        """Draw one contestant; a bar that does not fit ends in a point."""
        self.text(BARS - 6, name, "end" if kind == "ours" else "end quiet")
        x, y = self.left + BARS, self.bottom + (LINE - BAR) // 2
        width = round(min(length, LONGEST) * UNIT, 1)
        tip = BAR / 2 if length > LONGEST else 0
        shape = f"M{x} {y}h{width:g}l{tip:g} {BAR / 2:g}l{-tip:g} {BAR / 2:g}h{-width:g}z"
        self.parts.append(f'<path d="{shape}" class="{kind}"/>')
        # Right of the line at 1, which would cross the number.
        end = BARS + round(max(width, UNIT) + tip) + 5
        self.text(end, f"{ns:,.0f} ns", "" if kind == "ours" else "quiet")
        self.bottom += LINE


def conditions(content: dict[str, Any]) -> str:
    """Say where and when the bench ran, how often, and with what."""
    runs = f"{content['runs']} runs" if content["runs"] > 1 else "one run"
    packages = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    words = f"{content['machine']}, {content['date']}; {content['figure']}, {runs}; {packages}."
    return f"{words} {content['note']}".strip()


def height(content: dict[str, Any]) -> int:
    """Return how much of a column a record takes, more or less."""
    return sum(len(row["ns"]) + 2 for row in content["rows"]) + 4


def rates(content: dict[str, Any]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return by way and contestant how many bytes a nanosecond it copies, by size."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for row in content["rows"]:
        number, unit, way = row["job"].split(" ", 2)
        size = int(number) * UNITS[unit]
        for name, ns in row["ns"].items():
            line = found.setdefault(way, {}).setdefault(name, [])
            line.append((size, size / median(ns)))
    return found


def chart(left: int, top: int, way: str, lines: dict[str, list[tuple[int, float]]]) -> list[str]:
    """Draw the lines of one way, both axes by powers: sizes of two, rates of ten."""
    sizes = sorted({size for line in lines.values() for size, _ in line})
    # From a power of ten below all rates to one above.
    low = math.floor(math.log10(min(rate for line in lines.values() for _, rate in line)))
    high = math.ceil(math.log10(max(rate for line in lines.values() for _, rate in line)))
    steps = max(math.log2(sizes[-1] / sizes[0]), 1)

    def x(size: int) -> str:
        return f"{left + AXIS + WIDE * math.log2(size / sizes[0]) / steps:.1f}"

    def y(rate: float) -> str:
        return f"{top + HIGH - HIGH * (math.log10(rate) - low) / max(high - low, 1):.1f}"

    parts = [f'<text x="{left + AXIS}" y="{top - 8}" class="job">{escape(way)}</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        ends = f'x1="{left + AXIS}" x2="{left + AXIS + WIDE}" y1="{at}" y2="{at}"'
        parts.append(f'<line {ends} class="grid"/>')
        place = f'x="{left + AXIS - 5}" y="{float(at) + 4:.1f}"'
        parts.append(f'<text {place} class="end quiet">{10.0**power:g}</text>')
    for size in sizes:
        words = f"{size >> 20} M" if size >= 1 << 20 else f"{size >> 10} K"
        place = f'x="{x(size)}" y="{top + HIGH + 14}"'
        parts.append(f'<text {place} class="middle quiet">{words}</text>')
    for name, line in lines.items():
        points = " ".join(f"{x(size)},{y(rate)}" for size, rate in line)
        parts.append(f'<polyline points="{points}" class="line s-{COLORS[name]}"/>')
    return parts


def draw_copies(content: dict[str, Any]) -> str:
    """Return the picture of a record of copies: a chart for each way."""
    found = rates(content)
    parts, top = [], MARGIN + LINE
    heading = "Bytes copied in a nanosecond (GB/s), by size; higher is better"
    parts.append(f'<text x="{MARGIN}" y="{top}" class="title">{heading}</text>')
    for words in textwrap.wrap(conditions(content), 2 * WRAPPED):
        top += LINE
        parts.append(f'<text x="{MARGIN}" y="{top}" class="quiet">{escape(words)}</text>')
    top += LINE + 4
    left = MARGIN
    for name in {name: None for lines in found.values() for name in lines}:
        line = f'x1="{left}" x2="{left + 24}" y1="{top - 4}" y2="{top - 4}"'
        parts.append(f'<line {line} class="line s-{COLORS[name]}"/>')
        parts.append(f'<text x="{left + 30}" y="{top}">{escape(name)}</text>')
        left += 110
    top += 3 * LINE
    for number, (way, lines) in enumerate(found.items()):
        column, row = number % 2, number // 2
        at = MARGIN + column * (AXIS + WIDE + 30), top + row * (HIGH + 4 * LINE)
        parts += chart(*at, way, lines)
    rows = (len(found) + 1) // 2
    size = 2 * (AXIS + WIDE + 30) + MARGIN, top + rows * (HIGH + 4 * LINE)
    return page(*size, "Copies between host and GPU, by size", parts)


def draw(contents: list[dict[str, Any]]) -> str:
    """Return the picture of these records."""
    columns = [Picture(MARGIN), Picture(MARGIN + COLUMN)][: len(contents)]
    filled = [0] * len(columns)
    for content in contents:
        shorter = filled.index(min(filled))
        columns[shorter].bench(content)
        filled[shorter] += height(content)
    width = MARGIN + COLUMN * len(columns)
    bottom = max(column.bottom for column in columns)
    heading = Picture(MARGIN)
    heading.bottom = MARGIN
    heading.text(0, "Time of a call: gpulend beside its peers", "title")
    heading.bottom += LINE + 3
    heading.text(0, "Shorter is better; the dashed line is the fastest peer.", "quiet")
    parts = [part for column in (heading, *columns) for part in column.parts]
    return page(width, bottom, "Time of a call: gpulend beside its peers", parts)


def page(width: int, bottom: int, title: str, parts: list[str]) -> str:
    """Return a picture of these parts."""
    body = "\n  ".join(parts)
    size = f'width="{width}" height="{bottom}" viewBox="0 0 {width} {bottom}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
  <title>{title}</title>
  <style>{STYLE}  </style>
  <rect width="{width}" height="{bottom}" rx="6" class="page"/>
  {body}
</svg>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="a folder of records")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the picture")
    options = parser.parse_args()
    files = sorted(options.results.glob("*.json"))
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    copies = [content for content in contents if content["bench"] == "copies"]
    for content in copies:
        options.output.with_name(COPIES).write_text(draw_copies(content), encoding="utf-8")
    # Others are about memory as much as about time; benches/README.md has their tables.
    contents = [content for content in contents if content["bench"] in TITLES]
    if not contents and not copies:
        parser.error(f"{options.results} has no records: run a bench with --record")
    benches = list(TITLES)
    contents.sort(key=lambda content: benches.index(content["bench"]))
    if contents:
        options.output.write_text(draw(contents), encoding="utf-8")


if __name__ == "__main__":
    main()
