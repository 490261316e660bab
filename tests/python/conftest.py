"""What every test relies on: promised frameworks, and a ledger left as it was found."""

from __future__ import annotations

import gc
import importlib
import os
from types import ModuleType

import gpulend
import pytest
from machines import fake_driver

PROMISED = frozenset(filter(None, os.environ.get("GPULEND_PROMISED", "").split(",")))
_FAILED = pytest.StashKey[bool]()


def need(name: str) -> ModuleType:
    """Import a framework: missing skips on a laptop and fails where it was promised."""
    if name.partition(".")[0] in PROMISED:
        return importlib.import_module(name)
    return pytest.importorskip(name)


def pytest_sessionstart() -> None:
    """Fail before the first test when a promised framework is missing."""
    for name in sorted(PROMISED):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise pytest.UsageError(f"GPULEND_PROMISED names {name}: {error}") from error


def _serials() -> set[int]:
    return {entry.serial for entry in gpulend.ledger()}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember whether a test failed: its traceback then holds what it held."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture(autouse=True)
def _nothing_stays_held(request):
    """Every test leaves nothing in the ledger that it did not find there."""
    before = _serials()
    yield
    if _FAILED in request.node.stash:
        return
    if _serials() - before:
        gc.collect()
    left = [entry for entry in gpulend.ledger() if entry.serial not in before]
    assert not left, f"still held after the test: {left}"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A folder with a library that passes for a real driver."""
    return fake_driver(tmp_path_factory.mktemp("real")).parent
