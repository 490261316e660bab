"""Fixtures: the primary context for the session, resources for each test, a ledger as found."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from ctypes import c_void_p

import pytest
from driver.cuda import check, cu
from driver.resources import current, start, value

from .resources import (
    PROMISED,
    REAL,
    SANITIZED,
    GpuResources,
    eventually,
    is_all_given_back,
    need,
    need_two_devices,
    serials,
)
from .staged import THREADS, VARIABLE

_FAILED = pytest.StashKey[bool]()
# How many modules there were when the collector's objects were last set aside, and how many more
# make a framework.
_frozen = [0]
MANY = 50


def pytest_report_header() -> str:
    """Say which driver is tested."""
    return f"driver under test: {'real' if REAL else 'simulated'}"


def pytest_sessionstart() -> None:
    """Fail before the first test when a promised framework is missing."""
    for name in sorted(PROMISED):
        try:
            need(name)
        except ImportError as error:
            raise pytest.UsageError(f"GPULEND_PROMISED names {name}: {error}") from error
    _freeze()


def _freeze() -> None:
    """Keep the collector from what frameworks brought since the last call.

    They bring a million objects that stay, and each collection would look at all of them. A
    framework that was not promised comes with the first test that needs it.
    """
    if len(sys.modules) - _frozen[0] > MANY:
        gc.collect()
        gc.freeze()
        _frozen[0] = len(sys.modules)


def pytest_sessionfinish() -> None:
    """Let Python put all of it away at its end; who counts leaks would else count it."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember whether a test failed: its traceback then holds what it held."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(scope="session")
def context() -> Iterator[int]:
    """Hold device 0's primary context, current in the main thread."""
    context = start()
    yield context
    check(cu.cuDevicePrimaryCtxRelease_v2(0))


@pytest.fixture(autouse=True)
def _nothing_stays_held(request, context):
    """Every test leaves nothing in the ledger that it did not find there."""
    check(cu.cuCtxSetCurrent(context))
    before = serials()
    yield
    if _FAILED in request.node.stash or SANITIZED:
        return
    if serials() - before:
        gc.collect()
    # Owners of wrapped memory are released by the reaper, after the work on it.
    eventually(lambda: not serials() - before, "nothing is held after the test")
    # A late release may look at the whole device, which ends a capture of the next test.
    eventually(is_all_given_back, "what the test dropped is given back")
    _freeze()


@pytest.fixture
def gpu(context: int) -> Iterator[GpuResources]:
    """Give resources on device 0; see that the context stayed and nobody waited for a gate."""
    made = GpuResources(context)
    yield made
    left = current()
    made.close()
    assert not made.impatient, "the host waited for work that was held back by a gate"
    assert left == context, "the test left another context current"


@pytest.fixture
def second(context: int) -> Iterator[int]:
    """Give the index of a second device, its primary context held."""
    need_two_devices()
    value(c_void_p, cu.cuDevicePrimaryCtxRetain, 1)
    yield 1
    check(cu.cuDevicePrimaryCtxRelease_v2(1))


@pytest.fixture
def staged(monkeypatch) -> None:
    """Have large copies staged by threads: machines with few cores leave them to the driver."""
    monkeypatch.setenv(VARIABLE, str(THREADS))
