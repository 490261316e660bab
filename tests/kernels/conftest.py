"""Fixtures: the primary context for the session, and no fault in any kernel that is right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from driver.cuda import CHOICE, check, cu
from driver.lab import start

from .harness import fault_sentences


def pytest_report_header() -> str:
    """Say which driver is tested."""
    return f"driver under test: {CHOICE}"


@pytest.fixture(scope="session")
def context() -> Iterator[int]:
    """Hold device 0's primary context, current in the main thread."""
    yield start()
    check(cu.cuDevicePrimaryCtxRelease_v2(0))


@pytest.fixture(autouse=True)
def _no_fault(request: pytest.FixtureRequest, context: int) -> Iterator[None]:
    """See that the driver finds no mistake, except in tests of mistakes."""
    check(cu.cuCtxSetCurrent(context))
    before = fault_sentences()
    yield
    if "mistaken" not in request.fixturenames:
        assert fault_sentences() == before


@pytest.fixture
def mistaken() -> None:
    """Let a test make mistakes: it looks at the report itself."""


@pytest.fixture
def random() -> np.random.Generator:
    """Give numbers by chance, the same in every run."""
    return np.random.default_rng(20_241)
