"""The report as text: a matrix and a table of pairs, in words where the terminal is wide enough."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence

from gpulend._terminal import Colours
from gpulend.doctor.report import UNHEALTHY, Pair, Report
from gpulend.doctor.subjects import known

WIDEST, NARROWEST = 100, 80
PROTOCOLS = {
    "DLPack C exchange API": "C API",
    "torch native reader": "libtorch",
    "__cuda_array_interface__": "CAI",
    "__array_interface__": "AI",
    "buffer protocol": "buffer",
    "ctypes pointer": "pointer",
    "DLPack capsule": "capsule",
    "OpenCL mapping": "map",
    "a lease already": "lease",
    "a lease": "lease",
}
# What stands in the columns of the narrow table, and under each column in the legend.
SYMBOLS = {
    "order": {
        "event": "e",
        "same stream": "=",
        "host wait": "w",
        "hidden": "h",
        "host memory": ".",
        "NOT ORDERED": "!!",
    },
    "ro": {"kept": "k", "refused": "r", "warned": "w", "LOST": "!!"},
    "cap": {"yes": "y", "refused": "r", "no GPU": ".", "LOST": "!!"},
}
MARKS = {
    "refused": "-",
    "no array": ".",
    "copied": "COPY",
    "failed": "FAIL",
    "crashed": "DIED",
    "timed out": "LATE",
    "broken": "BAD",
}


def render(report: Report, width: int | None = None) -> str:
    """Return the report as text that fits a terminal."""
    columns = width or shutil.get_terminal_size((WIDEST, 24)).columns
    columns = max(NARROWEST, min(columns, WIDEST))
    parts = [_head(report, columns), _matrix(report, columns), _pairs(report, columns)]
    parts += [_problems(report, columns), _missing(report)]
    lines = "\n\n".join(part for part in parts if part).splitlines()
    verdict = "All is well." if report.healthy else "Not well: see the words in capitals above."
    return "\n".join([*lines, "", f"{verdict} {report.seconds} s."])


def coloured(text: str, colours: Colours) -> str:
    """Return the text with its words in capitals in red, and its verdict in red or green."""
    if not colours:
        return text
    broken = "|".join([*(MARKS[status] for status in UNHEALTHY), "NOT ORDERED", "LOST", "BROKEN"])
    broken += "|" + "|".join(status.upper() for status in UNHEALTHY)
    text = re.sub(rf"\b({broken})\b(?=[:!\s]|$)", lambda found: colours.broken(found[0]), text)
    text = re.sub(r"^Not well: .*", lambda found: colours.broken(found[0]), text, flags=re.M)
    return re.sub(r"^All is well\.", lambda found: colours.well(found[0]), text, flags=re.M)


def duration(nanoseconds: float | None) -> str:
    """Return a time in at most four characters and a unit."""
    if nanoseconds is None:
        return "-"
    if nanoseconds < 1000:
        return f"{nanoseconds:.0f} ns"
    microseconds = nanoseconds / 1000
    if microseconds >= 1000:
        return f"{microseconds / 1000:.1f} ms"
    return f"{microseconds:.1f} µs" if microseconds < 100 else f"{microseconds:.0f} µs"


def _head(report: Report, columns: int) -> str:
    compiler = report.compiler
    clang = f"{compiler.clang_version}, {compiler.clang}" if compiler.clang else "none"
    nvrtc = f"{compiler.nvrtc_version}, {compiler.nvrtc}" if compiler.nvrtc else "none"
    lines = [
        f"gpulend {report.gpulend}, Python {report.python}, {report.system}",
        str(report.driver),
        f"compiler: {clang}",
        f"NVRTC: {nvrtc}",
    ]
    for framework in report.frameworks:
        state = framework.version or "not installed"
        if framework.state == "broken":
            state = f"BROKEN: {framework.problem}"
        if framework.route is not None:
            state += f", tensors come in by: {framework.route}"
        lines.append(f"{framework.name}: {state}")
    lines += [f"BROKEN: {problem}" for problem in report.entry_points]
    # Paths stay whole, so that they can be copied.
    return "\n".join(
        part
        for line in "\n".join(lines).splitlines()
        for part in textwrap.wrap(
            line,
            columns,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _matrix(report: Report, columns: int) -> str:
    """Return who hands to whom, and in which time."""
    names = report.installed
    if not names:
        return ""
    left = max(len("from \\ to"), *map(len, names)) + 1
    room = max(5, min(11, (columns - left) // len(names)))
    heads = [_short(name, room - 1) for name in names]
    lines = ["from \\ to".ljust(left) + "".join(head.rjust(room) for head in heads)]
    for producer in names:
        cells = [_cell(report.pair(producer, consumer)) for consumer in names]
        lines.append(producer.ljust(left) + "".join(cell.rjust(room) for cell in cells))
    used = {mark for producer in names for mark in map(_mark, _row(report, producer)) if mark}
    legend = ["zero copy, proved, in µs"]
    legend += [f"{mark} {status}" for status, mark in MARKS.items() if mark in used]
    if any(not pair.healthy and pair.zero_copy for pair in report.pairs):
        legend.append("! no copy, but broken")
    return "\n".join([*lines, *textwrap.wrap("; ".join(legend), columns)])


def _row(report: Report, producer: str) -> list[Pair]:
    return [pair for pair in report.pairs if pair.producer == producer]


def _mark(pair: Pair) -> str | None:
    return MARKS.get(pair.status)


def _cell(pair: Pair) -> str:
    mark = _mark(pair)
    if mark is not None or pair.nanoseconds is None:
        return mark or "?"
    microseconds = pair.nanoseconds / 1000
    number = f"{microseconds:.1f}" if microseconds < 100 else f"{microseconds:.0f}"
    return number if pair.healthy else f"{number}!"


def _short(name: str, room: int) -> str:
    """Return a framework's name, or a shorter one where the column has no room."""
    if len(name) <= room:
        return name
    framework = known().get(name)
    return (framework.short if framework is not None else name)[:room]


def _pairs(report: Report, columns: int) -> str:
    """Return a line for each pair that exchanges."""
    shown = [pair for pair in report.pairs if pair.zero_copy]
    if not shown:
        return ""
    header = ("from", "to", "memory", "in", "out", "order", "waits", "read-only", "capture", "time")
    wide = _align([header, *(_words(pair) for pair in shown)])
    if max(map(len, wide)) <= columns:
        return "\n".join([*wide, "", *textwrap.wrap(_explanation(), columns)])
    header = ("from", "to", "memory", "in", "out", "order", "w", "ro", "cap", "time")
    narrow = _align([header, *(_symbols(pair) for pair in shown)])
    return "\n".join([*narrow, "", *_legend(columns), *textwrap.wrap(_explanation(), columns)])


def _words(pair: Pair) -> tuple[str, ...]:
    order = pair.order or "-"
    if pair.order_on_default_streams not in (None, pair.order):
        order = f"{order}, {pair.order_on_default_streams}"
    waits = "-" if pair.host_waits is None else str(pair.host_waits)
    return (
        *(pair.producer, pair.consumer, pair.memory or "-"),
        *(_protocol(pair.borrowed_by), _protocol(pair.lent_by), order, waits),
        *(pair.readonly or "-", pair.capture or "-", duration(pair.nanoseconds)),
    )


def _symbols(pair: Pair) -> tuple[str, ...]:
    words = _words(pair)
    orders = SYMBOLS["order"]
    order = "".join(orders.get(part, part) for part in words[5].split(", "))
    readonly = SYMBOLS["ro"].get(words[7], words[7])
    capture = SYMBOLS["cap"].get(words[8], words[8])
    return (*words[:5], order, words[6], readonly, capture, words[9])


def _legend(columns: int) -> list[str]:
    lines = []
    for column, symbols in SYMBOLS.items():
        meanings = ", ".join(f"{symbol} {word}" for word, symbol in symbols.items())
        lines += textwrap.wrap(f"{column}: {meanings}", columns, subsequent_indent="  ")
    return lines


def _explanation() -> str:
    return (
        "All at the same address, compared after the hand-over. order: to another stream, then "
        "between the usual ones. waits (w): how often the host waited. read-only (ro), "
        "capture (cap): what became of read-only memory, and of a hand-over inside a stream "
        "capture. in, out: C API is DLPack's exchange API, libtorch the functions that torch's "
        "own library exports, CAI and AI are the array interfaces."
    )


def _protocol(name: str | None) -> str:
    return PROTOCOLS.get(name or "-", name or "-")


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Put rows under each other, the first one being the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    numbers = len(rows[0]) - 1
    lines = []
    for row in rows:
        cells = [
            cell.rjust(size) if column == numbers else cell.ljust(size)
            for column, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(" ".join(cells))
    return lines


def _problems(report: Report, columns: int) -> str:
    """Return why pairs do not exchange, each reason once."""
    reasons: dict[str, list[str]] = {}
    for pair in report.pairs:
        said = pair.problems
        if not said and pair.problem is not None:
            said = [f"{pair.status}: {pair.problem}"]
        if pair.note is not None and "only in a process" in pair.note:
            said = [*said, pair.note]
        for text in said:
            reasons.setdefault(text, []).append(f"{pair.producer} to {pair.consumer}")
    lines = []
    for text, pairs in reasons.items():
        lines += textwrap.wrap(text, columns, break_long_words=False)
        indent = "    "
        lines += textwrap.wrap(
            ", ".join(pairs), columns, initial_indent=indent, subsequent_indent=indent
        )
    return "\n".join(lines)


def _missing(report: Report) -> str:
    """Return the commands that install what is missing; they stay whole, to be copied."""
    if not report.missing:
        return ""
    width = max(len(missing.what) for missing in report.missing)
    lines = [f"{missing.what.ljust(width)}  {missing.command}" for missing in report.missing]
    return "\n".join(["missing, and what installs it:", *lines])
