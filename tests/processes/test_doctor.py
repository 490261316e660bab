"""`gpulend doctor --processes` tries each way for real, and ends what it started."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
from gpulend.doctor import processes

from .conftest import PROMISED

PAGE = (Path(__file__).parents[2] / "docs/doctor.md").read_text()
# Ray takes ten seconds to start and to end, and has tests of its own: `make test-long` asks for it.
TRIED = "host,gpulend,numpy,spawn,forkserver,dask,nixl" + os.environ.get("GPULEND_TEST_WAYS", "")
NEEDS = {"dask": "distributed", "nixl": "nixl_cu13", "ray": "ray", "numpy": "numpy"}


def doctor(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "gpulend", "doctor", "--processes", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def report() -> dict:
    """Run it once, for programs."""
    said = doctor("--json", "--only", TRIED)
    assert said.returncode == 0, said.stdout + said.stderr
    return json.loads(said.stdout)


@pytest.mark.parametrize("key", TRIED.split(","))
def test_a_way_is_proved_on_this_machine(report: dict, key: str):
    """By the other process's write, or by the bytes that it read where a copy is promised."""
    names = {trial.key: trial.name for trial in processes._trials()}
    (way,) = (way for way in report["ways"] if way["name"] == names[key])
    if way["status"] == "not installed":
        assert NEEDS[key] not in PROMISED
        return
    copied = key in ("nixl", "numpy")
    assert way["status"] == ("copied" if copied else "same memory"), way
    assert way["memory"] == ("host" if key in ("host", "numpy") else "gpu")
    assert (way["nanoseconds"] is not None) == (key in ("host", "gpulend", "numpy", "nixl"))
    assert ("plain memory" in (way["problem"] or "")) == (key == "numpy")


def test_the_page_names_the_keys(report: dict):
    """Those of the report, and of a way."""
    for heading, found in (("`--processes`", report), ("a way", report["ways"][0])):
        table = PAGE.partition(f"### Of {heading}\n")[2].partition("\n#")[0]
        assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == set(found), heading


def test_a_way_that_takes_too_long_or_dies_is_a_row():
    """The command goes on, says so, and its status is 1."""
    said = doctor("--only", "host,gpulend", "--limit", "0.01")
    assert said.returncode == 1
    assert said.stdout.count("TIMED OUT") == 2
    assert "Not well" in said.stdout


def test_what_is_not_known_is_refused_with_a_suggestion():
    """As the other options are."""
    said = doctor("--only", "hots")
    assert (said.returncode, said.stdout) == (2, "")
    assert "did you mean 'host'" in said.stderr
    assert "no page" in doctor("--html", "x.html").stderr


def test_the_text_says_what_the_report_does():
    """Failures are in capitals; equal reasons stand once; what is missing has its command."""
    driver = processes.Driver("simulated", "x.so", "13.2", [], None, None)
    ways = [
        processes.Way("one", "same memory", "gpu", 25_000.0),
        processes.Way("two", "copied", "host", problem="plain memory"),
        processes.Way("three", "copied", "host", problem="plain memory"),
        processes.Way("four", "not installed", install="pip install four"),
    ]
    report = processes.ProcessReport("1", "3", "Linux", driver, ways, 2.5)
    text = processes.render(report, 80)
    assert re.search(r"^one +gpu +25\.0 µs +same memory$", text, re.M)
    assert text.count("plain memory") == 1
    assert "two, three: plain memory" in text
    assert "four: pip install four" in text
    assert text.endswith("All is well. 2.5 s.")
    broken = replace(report, ways=[*ways, processes.Way("five", "failed", problem="no luck")])
    assert not broken.healthy
    assert re.search(r"^five .* FAILED$", processes.render(broken, 80), re.M)
    assert {field.name for field in fields(broken)} | {"healthy"} == set(broken.as_dict())
