"""What every test relies on: promised frameworks, a ledger as it was found, and no kernel's fault.

The simulated GPU is not shown to other libraries here, as in a user's program: a torch of CUDA that
finds a driver would try to use it.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType

import pytest

PROMISED = frozenset(filter(None, os.environ.get("GPULEND_PROMISED", "").split(",")))
REAL = os.environ.get("GPULEND_TEST_DRIVER") == "real"
os.environ["GPULEND_DEVICE"] = "cuda" if REAL else "simulated"
# TensorFlow says on stderr which instructions it may use, unless a variable forbids the choice.
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")
# Where it has a GPU it would take most of its memory at its first use.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
if REAL:
    # JAX would take most of the GPU's memory for itself at its first use.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
else:
    # For what JAX shares out among devices.
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import gpulend  # noqa: E402  the environment comes first
from gpulend import simulator  # noqa: E402

if not REAL:
    gpulend.simulate()

_FAILED = pytest.StashKey[bool]()


def need(name: str) -> ModuleType:
    """Import a framework: missing skips on a laptop and fails where it was promised."""
    _come_before(name)
    return importlib.import_module(name) if name in PROMISED else pytest.importorskip(name)


def _come_before(name: str) -> None:
    """Import Triton, which torch may import at any time, before TensorFlow: after it, it aborts."""
    if name == "tensorflow" and find_spec("triton"):
        importlib.import_module("triton._C.libtriton")


def pytest_report_header() -> str:
    """Say which driver is tested."""
    return f"driver under test: {'real' if REAL else 'simulated'}"


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


def pytest_configure(config: pytest.Config) -> None:
    """Let torch's compiler use what torch itself deprecated: it does so when it is imported."""
    warned = r"`torch\.jit\.script_method` is:DeprecationWarning:torch\.jit\._script"
    config.addinivalue_line("filterwarnings", f"ignore:{warned}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember whether a test failed: its traceback then holds what it held."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


def _serials() -> set[int]:
    return {entry.serial for entry in gpulend.ledger()}


def _faults() -> list[str]:
    """Return what the simulated GPU found wrong in kernels so far; a real one reports nothing."""
    if REAL:
        return []
    found = (fault["what"] for fault in simulator.report()["faults"])
    return [what for what in found if what.startswith("kernel ")]


@pytest.fixture(autouse=True)
def _nothing_stays(request: pytest.FixtureRequest) -> Iterator[None]:
    """See that no test leaves a lease behind, or a fault that it did not mean."""
    before, faults = _serials(), _faults()
    yield
    if "torch._dynamo" in sys.modules:
        # Or it would count the programs of all tests together, and refuse the ninth.
        sys.modules["torch._dynamo"].reset()
    if _FAILED in request.node.stash:
        return
    if "mistaken" not in request.fixturenames:
        assert _faults() == faults
    if _serials() - before:
        gc.collect()
    assert not _serials() - before, "still held after the test"


@pytest.fixture
def mistaken() -> None:
    """Let a test launch a kernel that goes wrong: it looks at the error itself."""
