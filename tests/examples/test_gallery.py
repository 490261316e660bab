"""The gallery is complete, and its page, its record and its table say the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gallery
import pytest

EXAMPLES = gallery.find()
RECORD: dict[str, Any] = json.loads(gallery.RECORD.read_text())
ROW = re.compile(r"\| (\d{3}-\d) \| ([^|]+) \| \[([^\]]+)\]\(([^)]+)\) \| (simulated|H200|both) \|")
ROWS = ROW.findall((gallery.HERE / "README.md").read_text())
ON_A_GPU = {row[0]: row[4] != "simulated" for row in ROWS}


def test_there_is_an_example_for_each_of_the_documents() -> None:
    """Five documents, three examples in each."""
    names = [f"{document:03}-{number}" for document in range(5) for number in (1, 2, 3)]
    assert [example.id for example in EXAMPLES] == names


def test_the_page_has_a_row_for_each_file() -> None:
    """With the wish that the file begins with, and the places where it can run."""
    wanted = [(it.id, it.wish, it.file.name, it.file.name) for it in EXAMPLES]
    assert [row[:4] for row in ROWS] == wanted
    real_only = [it.id for it in EXAMPLES if it.framework in gallery.REAL_ONLY]
    assert [row[0] for row in ROWS if row[4] == "H200"] == real_only


def test_the_record_has_each_example() -> None:
    """With a result that is one of three, and the output of what ran."""
    assert list(RECORD["examples"]) == [example.id for example in EXAMPLES]
    for entry in RECORD["examples"].values():
        assert re.match(r"ok$|not run: .|failed: .", entry["result"])
        assert ("output" in entry) == (not entry["result"].startswith("not run"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.id)
def test_what_the_record_says_is_what_the_example_prints(example: gallery.Example) -> None:
    """An `ok` has the line of a real GPU, and a commit, a date and a GPU that it was run with."""
    entry = RECORD["examples"][example.id]
    if entry["result"] == "ok":
        last = entry["output"][-1]
        assert re.fullmatch(rf"ok {example.id} cuda:0 {example.framework} \d\S*", last)
        assert re.fullmatch("[0-9a-f]{40}", RECORD["commit"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", RECORD["date"])
        assert "H200" in RECORD["gpu"]
    # The page promises what the record shows, no more and no less.
    promised = "" if ON_A_GPU[example.id] else "not "
    said = f"h200.json says {entry['result']!r}, and README.md that it was {promised}run there"
    assert (entry["result"] == "ok") == ON_A_GPU[example.id], said


def table(monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, gallery.Outcome]) -> int:
    """Print the table as if the examples had ended so; the others are `ok`."""

    def ended(example: gallery.Example, simulated: bool) -> gallery.Outcome:
        return outcomes.get(example.id, gallery.Outcome("ok", "1.2.3"))

    monkeypatch.setattr(gallery, "run", ended)
    return gallery.show(simulated=True)


def test_the_table_has_a_row_for_each_example(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing says so in a word, and is no failure."""
    outcomes = {
        "000-1": gallery.Outcome("missing", "tensorflow"),
        "002-2": gallery.Outcome("GPU-only"),
    }
    assert table(monkeypatch, outcomes) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in printed[1:-1]] == [example.id for example in EXAMPLES]
    assert re.search(r"  missing +(ok|not run|failed)", printed[1])
    assert re.search(r"  GPU-only +(ok|not run|failed)", printed[8])
    assert printed[-1].startswith("15 examples; here: 1 GPU-only, 1 missing, 13 ok; H200: ")
    assert max(map(len, printed)) <= 100


def test_a_failure_is_counted_and_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what the example said."""
    outcome = gallery.Outcome("failed", "boom", "", "Traceback\nboom\n")
    assert table(monkeypatch, {"001-1": outcome}) == 1
    assert "001-1_torch_tensor_from_address.py:\nTraceback\nboom" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("print('ok 001-1 cuda:0-simulated torch 9.9')", "ok"),
        ("print('ok 001-1 cuda:0 torch 9.9')", "failed"),
        ("print('ok 001-2 cuda:0-simulated torch 9.9')", "failed"),
        ("print('ok 001-1 cuda:0-simulated torch 9.9'); raise SystemExit(3)", "failed"),
        ("import no_such_module", "missing"),
        ("pass", "failed"),
    ],
)
def test_a_run_is_judged_by_status_and_last_line(tmp_path: Path, body: str, result: str) -> None:
    """Neither alone is enough, and the kind of GPU must be the one that was asked for."""
    file = tmp_path / "001-1_torch_made_up.py"
    file.write_text(f'"""001-1: made up"""\n{body}\n')
    assert gallery.run(gallery.Example(file), simulated=True).result == result


@pytest.mark.parametrize("chosen", [None, "false"])
def test_tensorflow_leaves_memory_to_gpulend(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    """Its GPU build takes a GPU's memory as it needs it, unless a user wants it otherwise."""
    name = "TF_FORCE_GPU_ALLOW_GROWTH"
    monkeypatch.delenv(name, raising=False)
    if chosen:
        monkeypatch.setenv(name, chosen)
    assert gallery.environment(EXAMPLES[0], simulated=False)[name] == (chosen or "true")


def test_nothing_is_recorded_on_the_simulated_gpu(tmp_path: Path) -> None:
    """The record is of a real GPU or there is none."""
    done = subprocess.run(
        [sys.executable, gallery.__file__, "--record", str(tmp_path / "record.json")],
        env={**os.environ, "GPULEND_DEVICE": "simulated"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert "a recorded run is one on a real GPU" in done.stderr


def test_a_record_says_what_ran_and_what_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing was not run, a failure keeps its reason, and its reader finds each key."""
    outcomes = {
        "000-1": gallery.Outcome("missing", "tensorflow"),
        "001-1": gallery.Outcome("failed", "AssertionError", "a line\n", "Traceback"),
    }
    good = gallery.Outcome("ok", "9.9", "ok 004-1 cuda:0 ctypes 9.9\n")
    monkeypatch.setattr(gallery, "run", lambda it, simulated: outcomes.get(it.id, good))
    monkeypatch.setattr(gallery, "is_simulated", lambda: False)
    assert gallery.record(tmp_path / "record.json", "0" * 40) == 1
    told = json.loads((tmp_path / "record.json").read_text())
    assert told.keys() == RECORD.keys()
    assert told["examples"]["000-1"] == {"result": "not run: no module tensorflow"}
    assert told["examples"]["001-1"] == {"result": "failed: AssertionError", "output": ["a line"]}
    assert told["examples"]["004-1"] == {"result": "ok", "output": ["ok 004-1 cuda:0 ctypes 9.9"]}
    assert len(told["examples"]) == len(EXAMPLES)
    example = next(it for it in EXAMPLES if it.id == "004-1")
    assert gallery.recorded(told, example) == "ok 9.9"
