"""The bench of Rodinia: what counts as a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

BENCHES = Path(__file__).parents[2] / "benches"


def test_a_program_that_prints_an_error_has_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenCL's versions of Rodinia end with status 0 after most errors."""
    monkeypatch.syspath_prepend(str(BENCHES))
    from rodinia import seconds  # type: ignore[import-not-found]

    def time(text: str) -> float:
        taken: float = seconds(
            [sys.executable, "-c", f"print({text!r})"], tmp_path, dict(os.environ)
        )
        return taken

    assert time("WG size of kernel = 256\nTraining done") > 0
    for line in (
        "ERROR: clBuildProgram() => -11",
        "--cambine: exception in main ->",
        "Failed to create a context",
        "kernel: CL_INVALID_WORK_GROUP_SIZE",
    ):
        with pytest.raises(RuntimeError, match="it says: "):
            time(f"start\n{line}\nend")
