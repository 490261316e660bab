"""Each example does what it says on the simulated GPU, and says so by its exit status."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import gallery
import pytest
from conftest import PROMISED

EXAMPLES = {example.id: example for example in gallery.find()}
SIMULATED = [name for name, it in EXAMPLES.items() if it.framework not in gallery.REAL_ONLY]
# PyCUDA's first allocation or gpulend's: both give back what they keep and try once more.
FIRST_FAILS = ";".join(
    f"{call}#{number}=OUT_OF_MEMORY"
    for call in ("cuMemAlloc", "cuMemAllocFromPoolAsync")
    for number in (1, 2)
)
# An import of this module fails as if it were not installed.
WITHOUT = "import runpy, sys; sys.modules[sys.argv[1]] = None; runpy.run_path(sys.argv[2])"

everywhere = pytest.mark.parametrize("name", EXAMPLES)
on_the_simulated_gpu = pytest.mark.parametrize("name", SIMULATED)


@on_the_simulated_gpu
def test_an_example_runs_on_the_simulated_gpu(name: str) -> None:
    """Its last line names it, the simulated GPU, and its framework with a version."""
    example = EXAMPLES[name]
    outcome = gallery.run(example, simulated=True)
    if outcome.result == "missing" and outcome.detail not in PROMISED:
        pytest.skip(f"{outcome.detail} is not installed")
    assert outcome.result == "ok", outcome
    line = outcome.output.splitlines()[-1]
    assert line == f"ok {name} cuda:0-simulated {example.framework} {outcome.detail}"
    assert outcome.detail[0].isdigit()


@on_the_simulated_gpu
def test_an_example_fails_when_its_first_allocation_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with an error that says so, and prints no `ok`."""
    monkeypatch.setenv("GPULEND_SIM_FAULTS", FIRST_FAILS)
    outcome = gallery.run(EXAMPLES[name], simulated=True)
    if outcome.result == "missing" and outcome.detail not in PROMISED:
        pytest.skip(f"{outcome.detail} is not installed")
    assert outcome.result == "failed"
    assert f"ok {name}" not in outcome.output
    # A C function returns a code, which 004-3 then finds not to be 0.
    reason = {"002-1": "cuMemAlloc failed: out of memory", "004-3": "AssertionError"}
    assert reason.get(name, "OutOfMemoryError") in outcome.detail


@everywhere
def test_an_example_fails_without_its_framework(name: str) -> None:
    """The exit status tells, and no line says `ok`."""
    example = EXAMPLES[name]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, example.framework, str(example.file)],
        env={**os.environ, "GPULEND_DEVICE": "simulated"},
        capture_output=True,
        text=True,
        timeout=gallery.PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert example.framework in done.stderr.splitlines()[-1]
    assert done.stdout == ""


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(SIMULATED)))
def test_what_wants_a_real_gpu_never_says_ok_here(name: str) -> None:
    """Such examples count from the record alone."""
    outcome = gallery.run(EXAMPLES[name], simulated=True)
    assert outcome.result in ("missing", "GPU-only"), outcome
    assert "ok " not in outcome.output


@everywhere
def test_an_example_is_short_and_stands_alone(name: str) -> None:
    """Fewer than 40 lines, which import the framework, gpulend, and nothing of this repository."""
    text = EXAMPLES[name].file.read_text()
    assert len(text.splitlines()) < 40
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    own = {"gpulend", EXAMPLES[name].framework}
    assert own <= imported <= own | {"numpy"} | set(sys.stdlib_module_names)


@everywhere
def test_an_example_tells_its_reader_why(name: str) -> None:
    """What was wished, why it fails as written, and what does it here."""
    text = EXAMPLES[name].file.read_text()
    head = ast.get_docstring(ast.parse(text)) or ""
    assert head.startswith(f"{name}: {EXAMPLES[name].wish}\n\nWished: ")
    assert "\nAs written: " in head
    assert "\nHere: " in head
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(text)))
