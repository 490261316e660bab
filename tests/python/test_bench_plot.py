"""What the benches record, and the picture of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/speed.svg"
COPIES = ROOT / "docs/copies.svg"
# Copies have a picture of their own.
RECORDS = sorted(
    set((ROOT / "benches/results").glob("*.json")) - {ROOT / "benches/results/copies.json"}
)
# A bench of two contestants, whose times differ from run to run.
BENCH = """
import sys
sys.path.insert(0, {benches!r})
import record

def measure():
    import os
    return {{"job": {{"gpulend.borrow": float(os.getpid()), "peer": 2.0}}}}

if __name__ == "__main__":
    options = record.options("made-up", None)
    rows = record.rows(record.measured(measure, options.runs))
    record.write(options, rows, figure="best", machine="a machine", packages=("pytest", "absent-"))
"""


def run(*command: str | Path) -> None:
    """Run a program of Python, which must succeed."""
    subprocess.run([sys.executable, *command], check=True, timeout=60)


def drawn(folder: Path, *records: dict) -> tuple[str, list[str]]:
    """Return the picture of these records, and its texts."""
    for content in records:
        (folder / f"{content['bench']}.json").write_text(json.dumps(content))
    run(ROOT / "benches/plot.py", "--results", folder, "--output", folder / "picture.svg")
    return (folder / "picture.svg").read_text(), texts(folder / "picture.svg")


def texts(file: Path) -> list[str]:
    """Return all texts of a picture, from top to bottom; it must be XML."""
    root = ElementTree.parse(file).getroot()
    return [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]


def made_up(bench: str, **ns: list[float]) -> dict:
    """Return a record of one job."""
    return {
        "bench": bench,
        "machine": "a machine",
        "date": "2026-01-02",
        "runs": len(ns["gpulend"]),
        "figure": "best",
        "unit": "ns",
        "note": "",
        "versions": {},
        "rows": [{"job": f"job of {bench}", "gpulend": "gpulend", "ns": ns}],
    }


def test_the_picture_is_what_the_records_make(tmp_path):
    """`make bench-plot` changes nothing."""
    run(ROOT / "benches/plot.py", "--output", tmp_path / "speed.svg")
    assert (tmp_path / "speed.svg").read_text() == PICTURE.read_text()
    assert (tmp_path / "copies.svg").read_text() == COPIES.read_text()


@pytest.mark.parametrize("file", RECORDS, ids=lambda file: file.stem)
def test_every_row_of_a_record_is_in_the_picture(file):
    """Each job with its contestants, one below the other, ours first."""
    found = texts(PICTURE)
    for row in json.loads(file.read_text())["rows"]:
        assert row["gpulend"] in row["ns"]
        assert len(row["ns"]) > 1
        starts = [at for at, text in enumerate(found) if text == row["job"]]
        # The job and its ratio, then a name and a time for each contestant.
        jobs = [found[at + 2 : at + 2 + 2 * len(row["ns"]) : 2] for at in starts]
        names = next(names for names in jobs if sorted(names) == sorted(row["ns"]))
        assert names[0] == row["gpulend"]
        assert all(len(name) < 36 for name in names), "a name does not fit"


def test_a_ratio_is_the_median_of_those_to_the_fastest_peer_of_each_run(tmp_path):
    """Not the ratio of the medians, nor of one peer in all runs."""
    record = made_up("gpu", gpulend=[10, 20, 90], slow=[40, 25, 100], quick=[11, 50, 300])
    _, found = drawn(tmp_path, record)
    assert found[found.index("job of gpu") :] == [
        *("job of gpu", "0.90 of the fastest peer's time"),
        *("gpulend", "20 ns", "slow", "40 ns", "quick", "50 ns"),
    ]


def test_a_bar_is_as_long_as_its_time_until_it_does_not_fit(tmp_path):
    """A bar that is cut off has a point, and its true time beside it."""
    record = made_up("gpu", gpulend=[50.0], fastest=[100.0], slow=[200.0], slowest=[90_000.0])
    picture, found = drawn(tmp_path, record)
    widths = [float(width) for width in re.findall(r'd="M[\d.]+ [\d.]+h([\d.]+)l', picture)]
    points = [float(point) > 0 for point in re.findall(r"h[\d.]+l([\d.]+) ", picture)]
    assert widths[0] * 2 == widths[1] == widths[2] / 2
    assert widths[2] < widths[3] < 200
    assert points == [False, False, False, True]
    assert "90,000 ns" in found


def test_a_chart_of_copies_has_a_line_for_each_contestant_of_each_way(tmp_path):
    """Sizes to the right, rates upwards, both by powers; who takes ten times as long is lower."""
    record = made_up("copies", gpulend=[1e3], torch=[1e4])
    job = record["rows"].pop()
    for size, factor in (("4 KiB", 1), ("64 KiB", 16), ("1 MiB", 256)):
        ns = {name: [times[0] * factor] for name, times in job["ns"].items()}
        record["rows"] += [{**job, "job": f"{size} {way}", "ns": ns} for way in ("up", "down")]
    (tmp_path / "copies.json").write_text(json.dumps(record))
    run(ROOT / "benches/plot.py", "--results", tmp_path, "--output", tmp_path / "speed.svg")
    assert not (tmp_path / "speed.svg").exists()
    found = texts(tmp_path / "copies.svg")
    assert found.count("up") == found.count("down") == 1
    assert [found.count(size) for size in ("4 K", "64 K", "1 M")] == [2, 2, 2]
    picture = (tmp_path / "copies.svg").read_text()
    lines = re.findall(r'<polyline points="([^"]+)" class="line s-(\w+)"', picture)
    assert [name for _, name in lines] == ["gpulend", "torch"] * 2
    places = [[tuple(map(float, at.split(","))) for at in points.split()] for points, _ in lines]
    (left, height), (middle, _), (right, _) = places[0]
    assert middle - left == pytest.approx(right - middle, abs=0.2)
    assert {y for _, y in places[0]} == {height}, "the rate is the same"
    # 4.1 and 0.41 GB/s are between 0.1 and 10: two powers of ten.
    assert places[1][0][1] - height == pytest.approx(190 / 2, abs=0.2)


def test_benches_without_a_record_are_not_drawn_and_names_are_escaped(tmp_path):
    """The picture has what was measured, whatever its name."""
    peer = "a <peer> & 'more'"
    _, one = drawn(tmp_path, made_up("handover", gpulend=[1.0], **{peer: [2.0]}))
    assert peer in one
    assert "Hand-overs of GPU arrays" not in one
    picture, two = drawn(tmp_path, made_up("gpu", gpulend=[1.0], peer=[2.0]))
    assert {"Hand-overs of GPU arrays", "Hand-overs of host arrays"} < set(two)
    assert int(re.search(r'width="(\d+)"', picture)[1]) <= 900


def test_benches_that_the_picture_does_not_know_are_left_out(tmp_path):
    """They have tables of their own."""
    _, one = drawn(tmp_path, made_up("gpu", gpulend=[1.0], peer=[2.0]))
    _, both = drawn(tmp_path, made_up("one_pool", gpulend=[1.0], peer=[2.0]))
    assert one == both


def test_a_bench_records_every_run_and_nothing_unless_asked(tmp_path):
    """Each run is a process of its own; versions are those of what is installed."""
    bench, record = tmp_path / "bench.py", tmp_path / "folder/record.json"
    bench.write_text(BENCH.format(benches=str(ROOT / "benches")))
    results = ROOT / "benches/results"
    before = {file: file.read_bytes() for file in results.iterdir()}
    run(bench, "--runs", "2")
    assert {file: file.read_bytes() for file in results.iterdir()} == before
    assert list(tmp_path.iterdir()) == [bench]
    run(bench, "--runs", "3", "--record", record, "--date", "2026-01-02", "--note", "busy")
    content = json.loads(record.read_text())
    (row,) = content.pop("rows")
    assert set(content.pop("versions")) == {"Python", "pytest"}
    assert content == {
        "bench": "made-up",
        "machine": "a machine",
        "date": "2026-01-02",
        "runs": 3,
        "figure": "best",
        "unit": "ns",
        "note": "busy",
    }
    assert (row["job"], row["gpulend"]) == ("job", "gpulend.borrow")
    assert len(set(row["ns"]["gpulend.borrow"])) == 3
    assert row["ns"]["peer"] == [2.0] * 3


def test_the_readme_shows_the_picture_with_words_for_who_cannot_see_it():
    """And leads to the numbers."""
    readme = (ROOT / "README.md").read_text()
    assert re.search(
        r"^\[!\[[^\]]{20,}\]\(docs/speed\.svg\)\]\(benches/README\.md\)$", readme, re.M
    )
