"""Fixtures: the primary context for the session, a resources for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .cuda import CHOICE, check, cu
from .resources import Resources, current, start


def pytest_report_header() -> str:
    """Say which driver is tested."""
    return f"driver under test: {CHOICE}"


@pytest.fixture(scope="session")
def context() -> Iterator[int]:
    """Hold device 0's primary context, current in the main thread."""
    context = start()
    yield context
    check(cu.cuDevicePrimaryCtxRelease_v2(0))


@pytest.fixture
def gpu(context: int) -> Iterator[Resources]:
    """Give a resources on device 0, and see that the test leaves the thread's context as it was."""
    check(cu.cuCtxSetCurrent(context))
    resources = Resources(context)
    yield resources
    assert current() == context, "the test left another context current"
    resources.close()
    assert not resources.impatient, "a call waited for work that was held back by a gate"
