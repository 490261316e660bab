"""What calls cost in instructions, compared with `budgets.json`.

More than 3 % over the table fails. Less is printed, so that the table can follow:
`make instructions-update` writes it anew.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .counting import HERE, Cost, build_counter, count

ROOT = HERE.parents[1]
TABLE = HERE / "budgets.json"
MARGIN = 0.03
UPDATE = "GPULEND_WRITE_BUDGETS" in os.environ
PROMISED = frozenset(filter(None, os.environ.get("GPULEND_PROMISED", "").split(",")))


def made_with() -> dict[str, str]:
    """Name the compiler and the Python, which change all counts a little."""
    compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    return {
        "machine": platform.machine(),
        "python": ".".join(map(str, sys.version_info[:2])),
        "rustc": compiler.stdout.split()[1],
    }


@pytest.fixture(scope="module", autouse=True)
def _counts_here() -> None:
    """Skip where there is no valgrind, or the table is another machine's; CI promises both."""
    if "valgrind" in PROMISED:
        assert shutil.which("valgrind"), "GPULEND_PROMISED names valgrind, and there is none"
        return
    if not shutil.which("valgrind"):
        pytest.skip("no valgrind")
    made = json.loads(TABLE.read_text())["made with"]
    if made != made_with() and not UPDATE:
        pytest.skip(f"the table was made with {made}, and this is {made_with()}")


def compare(language: str, found: dict[str, Cost]) -> list[str]:
    """Return what is over the table or not in it, and print what is under it."""
    known = json.loads(TABLE.read_text())[language]
    wrong = [f"{language}: {job} has no row" for job in found.keys() - known.keys()]
    wrong += [f"{language}: {job} was not counted" for job in known.keys() - found.keys()]
    for job in sorted(found.keys() & known.keys()):
        for what, before, now in zip(Cost._fields, known[job], found[job], strict=True):
            line = f"{language}: {job}: {what.replace('_', ' ')} from {before} to {now}"
            if now > before * (1 + MARGIN):
                wrong.append(line)
            elif now < before * (1 - MARGIN):
                print(f"less than the table says, `make instructions-update`: {line}")
    return wrong


def write(language: str, found: dict[str, Cost]) -> None:
    """Put a language's counts into the table, one job a line."""
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    table = {**table, "made with": made_with(), language: found}
    text = json.dumps(dict(sorted(table.items())), indent=2)
    TABLE.write_text(re.sub(r"\[\s+(\S+)\s+(\S+)\s+\]", r"[\1 \2]", text) + "\n")


def judge(language: str, found: dict[str, Cost], capsys: pytest.CaptureFixture[str]) -> None:
    """Compare with the table, or write it if that is asked for."""
    if UPDATE:
        write(language, found)
        return
    with capsys.disabled():
        wrong = compare(language, found)
    hint = "`make instructions-update` writes the table anew, if this is worth it"
    assert not wrong, "\n".join([*wrong, hint])


def test_calls_from_python_stay_within_their_budgets(tmp_path, capsys):
    """Borrow, wrap, lend, release, describe and launch, with the frameworks that CI has."""
    for name in ("torch", "jax", "numba", "cuda", "tvm_ffi"):
        if find_spec(name) is None:
            assert name not in PROMISED, f"GPULEND_PROMISED names {name}, and there is none"
            pytest.skip(f"no {name}")
    command = [sys.executable, HERE / "jobs.py", build_counter(tmp_path)]
    judge("Python", count(command, "_native.", tmp_path), capsys)


def test_calls_from_c_stay_within_their_budgets(tmp_path, capsys):
    """The functions of gpulend.h, by the shared library that `make library` builds."""
    stage = Path(os.environ.get("GPULEND_C", ROOT / "target/c")).resolve()
    program, sources = tmp_path / "jobs", [HERE / "jobs.c", HERE / "count.c"]
    flags = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{stage / 'include'}"]
    libraries = [f"-L{stage / 'lib'}", "-lgpulend", f"-Wl,-rpath,{stage / 'lib'}"]
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, *flags, "-o", program, *sources, *libraries], check=True)
    command = [program, HERE / "kernels.ptx"]
    judge("C", count(command, "libgpulend.so", tmp_path), capsys)


def test_calls_from_rust_stay_within_their_budgets(tmp_path, capsys):
    """The core by itself."""
    # With gpulend-capi, whose dependencies are built already: alone they would be built anew.
    packages = ["-p", "gpulend-instructions", "-p", "gpulend-capi"]
    built = subprocess.run(
        ["cargo", "build", "--release", "--message-format=json-render-diagnostics", *packages],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    messages = map(json.loads, built.stdout.splitlines())
    (program,) = (found for one in messages if (found := one.get("executable")))
    simulator = ROOT / "python/gpulend/_simulator/libgpulend_sim.so"
    command = [program, build_counter(tmp_path)]
    environment = {"GPULEND_SIM_LIBRARY": str(simulator)}
    judge("Rust", count(command, "gpulend-instructions", tmp_path, environment), capsys)


def test_what_is_over_its_budget_is_named(monkeypatch, tmp_path, capsys):
    """With the job, the number before and the number now; less is printed and does not fail."""
    table = tmp_path / "budgets.json"
    monkeypatch.setattr(sys.modules[__name__], "TABLE", table)
    write("C", {"wrap": Cost(1000, 10), "free": Cost(1000, 10), "gone": Cost(1, 1)})
    found = {"wrap": Cost(1031, 10.2), "free": Cost(969, 10.4), "new": Cost(1, 1)}
    assert sorted(compare("C", found)) == [
        "C: free: calls out from 10 to 10.4",
        "C: gone was not counted",
        "C: new has no row",
        "C: wrap: instructions from 1000 to 1031",
    ]
    assert "C: free: instructions from 1000 to 969" in capsys.readouterr().out
    assert compare("C", {"wrap": Cost(1030, 10), "free": Cost(970, 10), "gone": Cost(1, 1)}) == []
    assert not capsys.readouterr().out
