"""The report as one page of HTML that needs nothing else: no script, no font, no picture."""

from __future__ import annotations

import math
from html import escape

from gpulend.doctor.report import Framework, Pair, Report
from gpulend.doctor.style import STYLE
from gpulend.doctor.table import duration

# Steps of the heat map, in nanoseconds; above the last one is the hottest.
STEPS = (500, 1_000, 2_000, 5_000, 20_000, 100_000)
WORDS = {
    "refused": "no",
    "no array": "none",
    "copied": "copy",
    "failed": "fails",
    "crashed": "dies",
    "timed out": "late",
    "broken": "broken",
}
ORDERS = {
    "event": "event",
    "same stream": "same",
    "host wait": "waits",
    "hidden": "hidden",
    "host memory": "host",
    "NOT ORDERED": "order!",
}


def page(report: Report) -> str:
    """Return the page."""
    verdict = "All is well" if report.healthy else "Not well"
    proved = sum(pair.zero_copy for pair in report.pairs)
    broken = sum(not pair.healthy for pair in report.pairs)
    refused = sum(pair.status == "refused" for pair in report.pairs)
    numbers = (
        (str(len(report.installed)), "frameworks here"),
        (f"{proved} of {len(report.pairs)}", "ordered pairs without a copy"),
        (str(refused), "refused by name"),
        (str(broken), "broken"),
    )
    cards = "".join(
        f'<div class="card"><b>{escape(number)}</b> {escape(what)}</div>'
        for number, what in numbers
    )
    body = (
        f"<header><h1>gpulend doctor</h1>"
        f'<p class="{"well" if report.healthy else "broken"}">{verdict}</p></header>'
        f'<div class="cards">{cards}</div>',
        _matrix(report),
        _problems(report),
        _machine(report),
        _frameworks(report),
        _missing(report),
        _pairs(report),
        f"<footer>gpulend {escape(report.gpulend)}, Python {escape(report.python)}, "
        f"{escape(report.system)}; examined in {report.seconds} s.</footer>",
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>gpulend doctor: {verdict.lower()}</title>\n<style>{STYLE}</style>\n</head>\n"
        "<body>\n" + "\n".join(part for part in body if part) + "\n</body>\n</html>\n"
    )


def heat(nanoseconds: float) -> int:
    """Return the step of the heat map that a time is on."""
    return sum(nanoseconds > step for step in STEPS)


def _matrix(report: Report) -> str:
    names = report.installed
    if not names:
        return "<p>No framework is here.</p>"
    heads = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in names)
    rows = []
    for producer in names:
        cells = "".join(_cell(report.pair(producer, consumer)) for consumer in names)
        rows.append(f'<tr><th scope="row">{escape(producer)}</th>{cells}</tr>')
    keys = "".join(f'<span class="key h{step}">{_range(step)}</span>' for step in range(7))
    return (
        "<section><h2>Who hands to whom</h2>"
        "<p>Each cell was tried on this machine just now: one hand-over in µs, below it "
        "how order is kept. Point at a cell, or tap it, for the rest.</p>"
        f'<div class="scroll"><table class="matrix"><thead><tr><th>from \\ to</th>{heads}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
        f'<p class="keys">{keys}<span class="key no">refused by name</span>'
        '<span class="key bad">broken</span></p>'
        '<p class="small"><b>event</b>: a stream waits for a stream, and the host does '
        "not. <b>waits</b>: the host waits. <b>hidden</b>: the framework orders on streams of its "
        "own. <b>host</b>: memory of the host, with no streams.</p></section>"
    )


def _range(step: int) -> str:
    if step == len(STEPS):
        return f"over {_round(STEPS[-1])}"
    return f"to {_round(STEPS[step])}"


def _round(nanoseconds: int) -> str:
    return f"{nanoseconds} ns" if nanoseconds < 1000 else f"{nanoseconds // 1000} µs"


def _cell(pair: Pair) -> str:
    title = f"{pair.producer} to {pair.consumer}"
    if pair.zero_copy and pair.nanoseconds is not None:
        kind = f"h{heat(pair.nanoseconds)}"
        text = f"<b>{_number(pair.nanoseconds)}</b><i>{ORDERS.get(pair.order or '', '')}</i>"
    else:
        kind = "no" if pair.healthy else "fails"
        text = f"<b>{escape(WORDS.get(pair.status, pair.status))}</b>"
    if not pair.healthy:
        kind += " bad"
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in details(pair)
    )
    return (
        f'<td class="{kind}" tabindex="0" data-pair="{escape(title)}">{text}'
        f'<div class="tip" role="tooltip"><h3>{escape(title)}</h3><dl>{facts}</dl></div></td>'
    )


def _number(nanoseconds: float) -> str:
    """Return microseconds in two digits or three."""
    microseconds = nanoseconds / 1000
    digits = max(0, 1 - math.floor(math.log10(max(microseconds, 0.1))))
    return f"{microseconds:.{digits}f}"


def details(pair: Pair) -> list[tuple[str, str]]:
    """Return all that is known about a pair, by name."""
    memory = "GPU" if pair.memory == "gpu" else pair.memory
    copied = f"no copy: {memory} memory, same address"
    waits = None if pair.host_waits is None else str(pair.host_waits)
    if waits is not None and pair.host_waits_counted_by is not None:
        waits += f" (by {pair.host_waits_counted_by})"
    usual = pair.order_on_default_streams
    rows = (
        ("result", copied if pair.zero_copy else pair.status),
        ("why", pair.problem),
        ("comes in by", pair.borrowed_by),
        ("goes out by", pair.lent_by),
        ("order, to another stream", pair.order),
        ("order, usual streams", usual if usual != pair.order else None),
        ("host waits", waits),
        ("read-only memory", pair.readonly),
        ("inside a capture", pair.capture),
        ("one hand-over", None if pair.nanoseconds is None else duration(pair.nanoseconds)),
        ("note", pair.note),
    )
    return [(name, value) for name, value in rows if value is not None]


def _problems(report: Report) -> str:
    reasons: dict[str, list[str]] = {}
    for pair in report.pairs:
        for reason in pair.problems:
            reasons.setdefault(reason, []).append(f"{pair.producer} to {pair.consumer}")
    if report.driver.kind is not None and report.driver.problem is not None:
        reasons.setdefault(report.driver.problem, []).append("driver")
    lines = [
        f"<li>{escape(reason)}<br><b>{escape(', '.join(who))}</b></li>"
        for reason, who in reasons.items()
    ]
    return f"<section><h2>What is broken</h2><ul>{''.join(lines)}</ul></section>" if lines else ""


def _machine(report: Report) -> str:
    driver, compiler = report.driver, report.compiler
    kinds = {"simulated": "the simulated GPU", "cuda": "a real driver", None: "none"}
    gpus = [
        f"{gpu.device}: {gpu.name}, {gpu.memory / 2**30:.1f} GiB, compute capability "
        f"{gpu.compute_capability}"
        for gpu in driver.gpus
    ]
    clang = f"{compiler.clang_version}, {compiler.clang}" if compiler.clang else None
    nvrtc = f"{compiler.nvrtc_version}, {compiler.nvrtc}" if compiler.nvrtc else None
    facts = (
        ("driver", f"{kinds[driver.kind]}{f', CUDA {driver.cuda}' if driver.cuda else ''}"),
        ("why", driver.why),
        ("library", driver.library),
        ("problem", driver.problem),
        *(("GPU", gpu) for gpu in gpus),
        ("compiler", clang or f"none: {compiler.clang_problem}"),
        ("NVRTC", nvrtc or f"none: {compiler.nvrtc_problem}"),
    )
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts if value
    )
    return f'<section><h2>This machine</h2><dl class="facts">{rows}</dl></section>'


def _frameworks(report: Report) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(framework.name)}</th><td>{_state(framework)}</td>'
        f"<td>{_import_time(framework)}</td></tr>"
        for framework in report.frameworks
    ) + "".join(
        f'<tr><td colspan="3"><span class="ill">broken</span> {escape(problem)}</td></tr>'
        for problem in report.entry_points
    )
    return (
        '<section><h2>Frameworks</h2><div class="scroll"><table class="plain"><thead><tr><th>name'
        f"</th><th>release</th><th>import</th></tr></thead><tbody>{rows}</tbody></table></div>"
        "</section>"
    )


def _state(framework: Framework) -> str:
    if framework.state == "broken":
        return f'<span class="broken">broken</span> {escape(framework.problem or "")}'
    route = "" if framework.route is None else f", tensors come in by: {framework.route}"
    return escape((framework.version or "not installed") + route)


def _import_time(framework: Framework) -> str:
    seconds = framework.import_seconds
    return "" if seconds is None else f"{seconds:.2f} s"


def _missing(report: Report) -> str:
    rows = "".join(
        f"<dt>{escape(missing.what)}</dt><dd><code>{escape(missing.command)}</code></dd>"
        for missing in report.missing
    )
    if not rows:
        return ""
    return f'<section><h2>Missing, and what installs it</h2><dl class="facts">{rows}</dl></section>'


def _pairs(report: Report) -> str:
    heads = (
        *("from", "to", "result", "memory", "in by", "out by", "order", "usual streams"),
        *("waits", "read-only", "capture", "time"),
    )
    rows = []
    for pair in report.pairs:
        waits = "" if pair.host_waits is None else str(pair.host_waits)
        time = "" if pair.nanoseconds is None else duration(pair.nanoseconds)
        values = (
            *(pair.producer, pair.consumer, pair.problem or pair.status, pair.memory),
            *(pair.borrowed_by, pair.lent_by, pair.order, pair.order_on_default_streams),
            *(waits, pair.readonly, pair.capture, time),
        )
        mark = "" if pair.healthy else ' class="broken"'
        cells = "".join(f"<td>{escape(value or '')}</td>" for value in values)
        rows.append(f"<tr{mark}>{cells}</tr>")
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    return (
        f"<details><summary>All {len(report.pairs)} pairs as a table</summary>"
        f'<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )
