"""What every test relies on: an empty folder of sockets, and nothing held afterwards."""

from __future__ import annotations

import gc
import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PROMISED = frozenset(filter(None, os.environ.get("GPULEND_PROMISED", "").split(",")))
REAL = os.environ.get("GPULEND_TEST_DRIVER") == "real"
os.environ["GPULEND_DEVICE"] = "cuda" if REAL else "simulated"
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0", JAX_PLATFORMS="cpu")
# Ray and NIXL listen on 127.0.0.1 alone. Ray reports to nobody, NIXL prints only what is wrong.
os.environ.update(RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0")
os.environ.update(NIXL_LOG_LEVEL="ERROR", UCX_NET_DEVICES="lo")
if REAL:
    del os.environ["JAX_PLATFORMS"]
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Sockets have short names, so their folder must too.
_FOLDER = tempfile.TemporaryDirectory(prefix="gpl-", dir="/tmp")
os.environ["XDG_RUNTIME_DIR"] = _FOLDER.name
SOCKETS = Path(_FOLDER.name) / "gpulend"

import gpulend  # noqa: E402  the environment comes first

from .worker import Worker, eventually  # noqa: E402

if not REAL:
    gpulend.simulate()

_FAILED = pytest.StashKey[bool]()
DEVICES = ("cpu", "cuda:0")


def need(name: str) -> ModuleType:
    """Import a framework: missing skips on a laptop and fails where it was promised."""
    return importlib.import_module(name) if name in PROMISED else pytest.importorskip(name)


def pytest_report_header() -> str:
    """Say which driver is tested."""
    return f"driver under test: {'real' if REAL else 'simulated'}"


def pytest_sessionstart() -> None:
    """Fail before the first test when a promised framework is missing."""
    for name in sorted(PROMISED):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise pytest.UsageError(f"GPULEND_PROMISED names {name}: {error}") from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember whether a test failed: its traceback then holds what it held."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


_before: set[int] = set()


def held() -> list[str]:
    """Say what this process holds since the test began."""
    entries = [entry for entry in gpulend.ledger() if entry.serial not in _before]
    return [f"{entry.kind} {entry.who}" for entry in entries]


@pytest.fixture(autouse=True)
def _nothing_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test leaves the ledger as it was, whatever a failed one before left there."""
    _before.clear()
    _before.update(entry.serial for entry in gpulend.ledger())
    yield
    if _FAILED in request.node.stash:
        return
    gc.collect()
    eventually(lambda: not held(), f"still held after the test: {held()}")


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Give a process, which ends with the test."""
    with Worker() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Worker]:
    """Give a second process."""
    with Worker() as made:
        yield made


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Give each place that memory can be in."""
    return request.param
