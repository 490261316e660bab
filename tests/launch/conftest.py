"""Fixtures: those of the hand-over tests, and no fault in any kernel that is right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu.conftest import (
    _nothing_stays_held,
    context,
    gpu,
    pytest_report_header,
    pytest_runtest_makereport,
    pytest_sessionstart,
    second,
)
from gpu.resources import REAL
from gpulend import simulator

# What pytest finds here by name.
__all__ = [
    "_nothing_stays_held",
    "context",
    "gpu",
    "pytest_report_header",
    "pytest_runtest_makereport",
    "pytest_sessionstart",
    "second",
]


def kernel_faults() -> list[str]:
    """Return what the simulated GPU found wrong in kernels so far; a real one reports nothing."""
    if REAL:
        return []
    found = (fault["what"] for fault in simulator.report()["faults"])
    return [what for what in found if what.startswith("kernel ")]


@pytest.fixture(autouse=True)
def _no_fault(request: pytest.FixtureRequest, context: int) -> Iterator[None]:
    """See that no kernel goes wrong, except in tests of kernels that do."""
    before = kernel_faults()
    yield
    if "mistaken" not in request.fixturenames:
        assert kernel_faults() == before


@pytest.fixture
def mistaken() -> None:
    """Let a test launch a kernel that goes wrong: it looks at the error itself."""
