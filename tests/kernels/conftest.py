"""Fixtures: the primary context, the way of launching, and no fault in any kernel that is right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from driver.cuda import CHOICE, SIMULATED, check, cu
from driver.resources import start

from .harness import Kernel, fault_sentences, launch_by, ways_asked


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest the one mark that `_way` looks for."""
    config.addinivalue_line("markers", "needs_library: calls sinf or its like")


def pytest_report_header() -> str:
    """Say which driver is tested, and how."""
    return f"driver under test: {CHOICE}; kernels are launched by {' and by '.join(ways_asked())}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what launches right kernels in every way; mistakes are told by the driver's codes."""
    launches = getattr(metafunc.module, "Kernel", None) is Kernel
    if launches and "mistaken" not in metafunc.fixturenames:
        metafunc.parametrize("_way", ways_asked(), indirect=True)


@pytest.fixture(autouse=True)
def _way(request: pytest.FixtureRequest) -> str:
    """Launch in the test's way, or through the driver."""
    way: str = getattr(request, "param", "driver")
    if way == "driver" and not SIMULATED and request.node.get_closest_marker("needs_library"):
        pytest.skip("calls functions of the C library, which only the simulated driver binds")
    launch_by(way)
    return way


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
