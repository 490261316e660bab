"""The environment variables of the documents are those that the code reads."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ["crates/*/src/**/*.rs", "python/gpulend/**/*.py"]
TESTS = ["crates/*/tests/**/*.rs", "tests/**/*.py", "scripts/*"]
DOCUMENTS = ["*.md", "docs/*.md", "examples/*.md", "benches/*.md"]
# A name as a string, or as a shell reads it.
READ = re.compile(r"""["'](GPULEND_[A-Z_]+)["']|\$\{?(GPULEND_[A-Z_]+)""")
ROW = re.compile(r"^\| `(GPULEND_[A-Z_]+)` \|(.*)\|$", re.M)
HERE = Path(__file__)


def text_of(patterns: list[str]) -> str:
    """Return all files of some patterns without the comments of Rust."""
    files = [file for pattern in patterns for file in sorted(ROOT.glob(pattern)) if file != HERE]
    texts = (file.read_text() for file in files if file.is_file())
    return re.sub(r"^\s*//.*$", "", "\n".join(texts), flags=re.M)


def read_in(patterns: list[str]) -> set[str]:
    """Return the variables whose names some files spell."""
    return {name for names in READ.findall(text_of(patterns)) for name in names if name}


def of_the_simulator() -> set[str]:
    """Return the variables that `config.rs` makes of its keys."""
    config = (ROOT / "crates/sim/src/config.rs").read_text()
    keys = re.search(r"const KEYS: .*?= \[(.*?)\];", config, re.S)[1]
    return {f"GPULEND_SIM_{key.upper()}" for key in re.findall(r'"(\w+)"', keys)}


def of_the_header() -> set[str]:
    """Return the constants of `gpulend.h`."""
    header = (ROOT / "include/gpulend.h").read_text()
    return set(re.findall(r"^#define (GPULEND_\w+)", header, re.M))


def rows_of(page: str) -> dict[str, str]:
    """Return the variables that a page has a row for, with the rest of the row."""
    rows = ROW.findall((ROOT / page).read_text())
    assert len(rows) == len(dict(rows)), f"{page} has a row twice"
    return dict(rows)


def test_every_variable_of_the_simulated_gpu_has_a_row():
    """In the table of `docs/simulator.md`, and no other."""
    # The first is the head of the table of drivers.
    others = {"GPULEND_DEVICE", "GPULEND_SIM_LIBRARY"}
    assert set(rows_of("docs/simulator.md")) == of_the_simulator() | others


def test_every_other_variable_has_a_row():
    """In the tables of `docs/settings.md`, and no other."""
    read = read_in(LIBRARY + TESTS) - of_the_simulator() - {"GPULEND_SIM_LIBRARY"}
    assert set(rows_of("docs/settings.md")) == read - of_the_header()


def test_a_row_names_a_file_that_reads_the_variable():
    """The last column leads to the code."""
    wrong = []
    for name, row in rows_of("docs/settings.md").items():
        file = ROOT / re.findall(r"`([\w./-]+)`", row)[-1]
        if not file.is_file() or name not in file.read_text():
            wrong.append(name)
    assert wrong == []


def test_no_document_names_a_variable_that_nobody_reads():
    """What begins with `GPULEND_` is a variable or a constant of `gpulend.h`."""
    named = set(re.findall(r"\bGPULEND_[A-Z0-9_]*[A-Z0-9]\b", text_of(DOCUMENTS)))
    assert named - of_the_header() - read_in(LIBRARY + TESTS) - of_the_simulator() == set()
    assert len(named) > 20
