"""What `docs/simulator.md` shows of kernels is what happens."""

from __future__ import annotations

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


def test_the_program_of_the_manual_says_what_the_manual_says(tmp_path: Path) -> None:
    """Line, thread and all, but for addresses."""
    program, said = re.findall(r"```(?:python)?\n(.*?)```", MANUAL, re.S)[:2]
    file = tmp_path / "scale.py"
    file.write_text(program)
    command = [sys.executable, "-m", "gpulend", "run", "--", sys.executable, str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 1, ran.stderr
    assert without_addresses(ran.stderr).startswith(without_addresses(said)), ran.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in ran.stderr
