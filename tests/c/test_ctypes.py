"""Programs of ctypes alone, on either library."""

from __future__ import annotations

import sys

import pytest
from conftest import HERE, succeed
from gpulend import config


@pytest.mark.parametrize("native", [True, False], ids=["extension", "libgpulend"])
def test_a_program_needs_nothing_but_ctypes(native, stage):
    """Allocate, copy there, between and back, free; and a second free is refused with words."""
    library = config.library() if native else stage / "lib/libgpulend.so"
    lines = succeed([sys.executable, "-I", HERE / "plain.py", library]).splitlines()
    assert lines[0] == "done"
    assert lines[1].startswith("500 this lease was released")
