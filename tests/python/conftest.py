"""What every test relies on: promised frameworks, and a ledger left as it was found."""

from __future__ import annotations

import gc
import importlib
import os
from importlib.util import find_spec
from types import ModuleType

import gpulend
import pytest
from machines import fake_driver

# TensorFlow says on stderr which instructions it may use, unless a variable forbids the choice.
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")
# Where it has a GPU it would take most of its memory at its first use.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
PROMISED = frozenset(filter(None, os.environ.get("GPULEND_PROMISED", "").split(",")))
_FAILED = pytest.StashKey[bool]()


def need(name: str) -> ModuleType:
    """Import a framework: missing skips on a laptop and fails where it was promised."""
    _come_before(name)
    if name.partition(".")[0] in PROMISED:
        return importlib.import_module(name)
    return pytest.importorskip(name)


def _come_before(name: str) -> None:
    """Import Triton, which torch may import at any time, before TensorFlow: after it, it aborts."""
    if name == "tensorflow" and find_spec("triton"):
        importlib.import_module("triton._C.libtriton")


def pytest_sessionstart() -> None:
    """Fail before the first test when a promised framework is missing."""
    for name in sorted(PROMISED):
        try:
            _come_before(name)
            importlib.import_module(name)
        except ImportError as error:
            raise pytest.UsageError(f"GPULEND_PROMISED names {name}: {error}") from error
    # Frameworks bring a million objects that stay: each collection would look at all of them.
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let Python put all of it away at its end; who counts leaks would else count it."""
    gc.unfreeze()


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
