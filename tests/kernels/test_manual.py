"""What `docs/simulator.md` shows of kernels is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from driver.control import only_simulated

from .harness import HERE, fault_sentences, on_device
from .test_mistakes import SENTENCE, TABLE, launch

pytestmark = [only_simulated, pytest.mark.usefixtures("mistaken")]

MANUAL = (HERE.parents[1] / "docs/simulator.md").read_text().partition("\n## Kernels\n")[2]
ROWS = re.findall(r"^\| `(\w+)` \| (\d{3}) \| (.+) \|$", MANUAL, re.M)


def without_addresses(text: str) -> str:
    """Put one sign for all addresses."""
    return re.sub("0x[0-9a-f]+", "0x…", text)


def test_the_table_has_rows() -> None:
    """So that the next test cannot pass for want of any."""
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("name", "code", "words"), ROWS)
def test_a_mistake_is_told_in_the_words_of_the_manual(name: str, code: str, words: str) -> None:
    """But for addresses."""
    mistake = TABLE[name]
    with on_device(*mistake.arrays) as addresses:
        assert launch(name, mistake, *map(np.uint64, addresses)) == int(code)
    found = SENTENCE.fullmatch(fault_sentences()[-1])
    assert found
    assert without_addresses(found[10]) == words


def run(program: str, file: Path, *command: str) -> str:
    """Run a program that ends with an exception; return what it says."""
    file.write_text(program)
    ran = subprocess.run(
        [*command, sys.executable, str(file)],
        env=os.environ | {"GPULEND_DEVICE": "simulated"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    return without_addresses(ran.stderr)


def test_the_programs_of_the_manual_say_what_the_manual_says(tmp_path: Path) -> None:
    """Line, thread and all, but for addresses: gpulend's own, then cuda.core's."""
    blocks = re.findall(r"^```\w+\n(.*?)^```", MANUAL, re.S | re.M)[:4]
    ours, error, theirs, line = blocks
    assert run(ours, tmp_path / "scale.py").endswith(without_addresses(error))
    source = ours[ours.index("source = ") : ours.index("x = ")]
    command = (sys.executable, "-m", "gpulend", "run", "--")
    said = run(source + theirs, tmp_path / "theirs.py", *command)
    assert said.startswith(without_addresses(line))
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in said
