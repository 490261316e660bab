"""Draw the records of the benches as one SVG: gpulend beside its peers, job by job.

`make bench-plot` runs it. A bar is a contestant's time, the median of its runs, beside that of the
fastest peer, which is the line at 1. Equal records make equal pictures, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

import record

OUTPUT = Path(__file__).parents[1] / "docs/speed.svg"
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
STYLE = """
    text { font-family: "Segoe UI", Helvetica, Arial, sans-serif; font-size: 11px }
    .page { fill: #ffffff } text { fill: #1f2328 } .quiet { fill: #59636e }
    .peer { fill: #afb8c1 } .ours { fill: #0969da } .one { stroke: #59636e; stroke-dasharray: 2 2 }
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
    body = "\n  ".join(parts)
    size = f'width="{width}" height="{bottom}" viewBox="0 0 {width} {bottom}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
  <title>Time of a call: gpulend beside its peers</title>
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
    # Others are about memory as much as about time; benches/README.md has their tables.
    contents = [content for content in contents if content["bench"] in TITLES]
    if not contents:
        parser.error(f"{options.results} has no records: run a bench with --record")
    benches = list(TITLES)
    contents.sort(key=lambda content: benches.index(content["bench"]))
    options.output.write_text(draw(contents), encoding="utf-8")


if __name__ == "__main__":
    main()
