"""What the suite stands on: the choice of driver, gates that are watched, memory in use.

GPULEND_TEST_DRIVER=real takes the machine's own driver; otherwise two simulated GPUs are made, and
shown to other libraries of the process. The driver is called through the driver suite's ctypes.
"""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import (
    PYFUNCTYPE,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_uint,
    c_uint8,
    c_uint64,
    c_void_p,
    py_object,
    pythonapi,
)
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

REAL = os.environ.get("GPULEND_TEST_DRIVER") == "real"
SIMULATED = not REAL
# Under compute-sanitizer work may run before the call that queues it returns: nothing is held back.
# It also maps the driver first, and arrays live longer there: what lives when is not asked.
SANITIZED = os.environ.get("GPULEND_TEST_SANITIZER") == "1"
if REAL:
    os.environ["GPULEND_DEVICE"] = "cuda"
    # JAX would take most of the GPU's memory for itself at its first use, and TensorFlow as well.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

import gpulend  # noqa: E402  the environment comes first

if SIMULATED:
    gpulend.simulate(devices=2, expose=True)

from driver import resources  # noqa: E402  it loads the driver that was chosen
from driver.cuda import check, cu  # noqa: E402
from driver.resources import value  # noqa: E402
from gpulend import simulator  # noqa: E402
from gpulend.adapters import Adapter, Framework, StreamType  # noqa: E402

PATIENCE = 10.0  # seconds until a gate that somebody waits for on the host opens by itself
SOON = 10.0  # seconds in which what the background thread does must have happened
GRACE = 0.002  # seconds after which a gate opens for a hand-over that may make the host wait
USED = 7  # CU_MEMPOOL_ATTR_USED_MEM_CURRENT
NOT_READY = 600
STEPS = 200  # queries, each of which makes the simulated GPU do one thing that it has put off
MODES = {"global": 0, "thread-local": 1, "relaxed": 2}
PROMISED = frozenset(filter(None, os.environ.get("GPULEND_PROMISED", "").split(",")))
# PyCUDA has no wheels: where scripts/pycuda built it, it is found behind all else.
sys.path.extend(map(str, Path(__file__).parents[2].glob(".pycuda/lib/python*/site-packages")))
# TensorFlow says on stderr which instructions it may use, unless a variable forbids the choice.
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")

only_simulated = pytest.mark.skipif(REAL, reason="the simulated GPU alone has this")
not_sanitized = pytest.mark.skipif(SANITIZED, reason="a sanitizer changes what lives when")
only_real = pytest.mark.skipif(SIMULATED, reason="needs a real GPU")


def need(name: str) -> ModuleType:
    """Import a framework: missing skips on a laptop and fails where it was promised."""
    if name.startswith("numba"):
        # numba-cuda's launches look for a name that NumPy 2.5 no longer has.
        np.row_stack = np.vstack
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a framework says about itself is not our matter
        if name == "tensorflow" and find_spec("triton"):
            # After TensorFlow, Triton, which torch may import, ends the process.
            importlib.import_module("triton._C.libtriton")
        if name.partition(".")[0] in PROMISED or name in PROMISED:
            return importlib.import_module(name)
        return pytest.importorskip(name)


def tensorflow_device() -> str:
    """Ask TensorFlow where its tensors are tested: on the real GPU if it has that, or the host."""
    tf = need("tensorflow")
    if not REAL:
        return "/CPU:0"
    if tf.config.list_physical_devices("GPU"):
        return "/GPU:0"
    if tf.test.is_built_with_cuda() and "tensorflow" in PROMISED:
        pytest.fail(
            f"TensorFlow {tf.__version__} is built with CUDA and finds no GPU: a library that it "
            "opens first is missing, and `TF_CPP_MIN_LOG_LEVEL=0 python -c 'import tensorflow as "
            'tf; tf.config.list_physical_devices("GPU")\'` names it',
            pytrace=False,
        )
    return "/CPU:0"


def capsule_address(capsule: object) -> int:
    """Return the address that a DLPack capsule of the old layout has, without gpulend."""
    get = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))
    # A DLTensor is six words: the first is the address, and the last an offset from it.
    words = (c_uint64 * 6).from_address(get(capsule, b"dltensor"))
    return words[0] + words[5]


def device_count() -> int:
    """Return how many GPUs the driver shows."""
    return value(c_int, cu.cuDeviceGetCount)


def need_two_devices() -> None:
    """Skip on a machine with one GPU; the simulated driver always has two."""
    if device_count() < 2:
        assert REAL, "the simulated driver shows one device"
        pytest.skip("needs two devices")


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until something is true that the background thread brings about."""
    end = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < end, f"not within {SOON:.0f} s: {what}; {gpulend.ledger()}"
        gpulend.synchronize()
        time.sleep(0.0005)  # so that the thread that is waited for runs


def is_all_given_back() -> bool:
    """Whether nothing that was dropped waits for work, on any device in use."""
    if gpulend.ledger().waiting:
        # A simulated GPU may do work as late as somebody waits for it.
        for device in range(1, gpulend.device_count()):
            if in_use_by_process(device):
                gpulend.synchronize(device)
    return not gpulend.ledger().waiting


def in_use_by_process(device: int) -> bool:
    """Return whether a device's primary context exists."""
    flags, active = c_uint(), c_int()
    check(cu.cuDevicePrimaryCtxGetState(device, byref(flags), byref(active)))
    return bool(active.value)


def driver_calls() -> dict[str, int]:
    """Return how often each function of the simulated driver was called; a real one counts none.

    The background thread gives back what earlier tests dropped, with calls of its own. So this
    waits until it has none left: what comes after is the caller's.
    """
    if not SIMULATED:
        return {}
    end = time.monotonic() + SOON
    calls: dict[str, int] = {}
    while calls != (latest := dict(simulator.report()["calls"])) or gpulend.ledger().waiting:
        assert time.monotonic() < end, f"the driver is called for {SOON:.0f} s; {gpulend.ledger()}"
        calls = latest
        time.sleep(0.005)  # longer than the thread sleeps between two looks
    return calls


def pool_of(device: int = 0) -> int:
    """Return the driver's handle of the pool that gpulend allocates from; negative for its own."""
    if gpulend.pool.is_on():
        return -1 - device
    pool = gpulend.describe(gpulend.empty(1, "uint8", device=f"cuda:{device}")).pool
    assert pool, "gpulend allocates from a pool"
    return pool


def used_by(pool: int) -> int:
    """Return how many bytes of a pool are in use."""
    if pool < 0:
        return gpulend.memory(f"cuda:{-1 - pool}").live
    return resources.last(c_uint64, cu.cuMemPoolGetAttribute, pool, USED)


def in_use(device: int = 0) -> int:
    """Return how many bytes gpulend has allocated on a device."""
    return used_by(pool_of(device))


def serials() -> set[int]:
    """Return the numbers of all that the ledger holds."""
    return {entry.serial for entry in gpulend.ledger()}


@contextmanager
def nothing_stays(device: int = 0) -> Iterator[None]:
    """See that a block gives back what it took: ledger entries, and memory of our pool."""
    pool = pool_of(device)
    before, held = at_rest(pool), serials()
    yield
    if SANITIZED:
        return
    if serials() - held:
        gc.collect()
    eventually(lambda: not serials() - held, "nothing is held that was not held before")
    eventually(lambda: used_by(pool) <= before, f"the pool holds {before} bytes again")


def at_rest(pool: int) -> int:
    """Return how many bytes of a pool are in use, once all that was dropped is given back."""
    seen = -1
    # On a busy machine the thread may not have run between two looks: the ledger says so.
    while (now := used_by(pool)) != seen or gpulend.ledger().waiting:
        seen = now
        for _ in range(3):
            gpulend.synchronize()
            time.sleep(0.001)  # so that the background thread runs
    return seen


def still_works() -> None:
    """See that driver and gpulend go on working after an error."""
    address = resources.allocate(16)
    resources.upload(address, bytes(range(16)))
    assert resources.download(address, 16) == bytes(range(16))
    check(cu.cuMemFree_v2(address))
    assert gpulend.full(3, 7, "int32").to_host().tolist() == [7, 7, 7]


class Gate:
    """A word of pinned memory that streams wait for; it can be closed again and again."""

    def __init__(self) -> None:
        self._address = value(c_void_p, cu.cuMemAllocHost_v2, 4)
        self._word = c_uint.from_address(self._address)
        self._word.value = 0
        self._turn = 1
        self.since = time.monotonic()

    @property
    def closed(self) -> bool:
        """Whether work behind it still waits."""
        return self._word.value < self._turn

    def close(self) -> None:
        """Close it again: what was held before runs on, what is held from now on waits."""
        assert not self.closed
        self.since = time.monotonic()
        self._turn += 1

    def hold(self, stream: Any) -> None:
        """Make what is queued on `stream` from now on wait for `open`."""
        assert self.closed
        handle = stream if isinstance(stream, int) else gpulend.Stream(stream).handle
        check(cu.cuStreamWaitValue32_v2(handle, self._address, self._turn, 0))

    def open(self) -> None:
        """Let the work behind the gate run."""
        self._word.value = self._turn

    def free(self) -> None:
        """Give the word back, when nothing waits for it any more."""
        check(cu.cuMemFreeHost(self._address))


class Opener:
    """Opens a gate from beside, for hand-overs in which the host may wait."""

    def __init__(self, gate: Gate, used: bool = True) -> None:
        self._returned = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(gate,)) if used else None

    def _run(self, gate: Gate) -> None:
        if not self._returned.wait(GRACE):
            gate.open()

    def __enter__(self) -> None:
        if self._thread:
            self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._returned.set()
        if self._thread:
            self._thread.join()


class GpuResources(resources.Resources):
    """Device 0's primary context, and gates that show when the host had to wait for them."""

    def __init__(self, context: int) -> None:
        super().__init__(context)
        self._closable: list[Gate] = []
        self._done = threading.Event()
        self._watch_dog: threading.Thread | None = None
        self.impatient = False

    def gate(self) -> Gate:  # type: ignore[override]
        """Make a closed gate. If it stays closed for too long it opens, and the test fails."""
        if SANITIZED:
            pytest.skip("a sanitizer lets nothing be held back")
        if self._watch_dog is None:
            self._watch_dog = threading.Thread(target=self._look, daemon=True)
            self._watch_dog.start()
            self._mark = self.alloc(64)
        self._closable.append(Gate())
        return self._closable[-1]

    def reap(self, *streams: Any) -> None:
        """Wait until the background thread has seen all that was dropped, with gates closed.

        Two leases in use on a free stream are dropped after it, one after the other: when they are
        gone, whatever could be released before them was. The work of `streams` is done meanwhile;
        then the simulated GPU, which is as late as it may, is made to do all that no gate holds.
        """
        free = gpulend.Stream()
        waited = [free, *(gpulend.Stream(stream) for stream in streams)]
        for _ in range(2):
            gone: list[int] = []
            lease = self._marked(gone)
            lease.used_on(free)
            del lease
            end = time.monotonic() + SOON
            while not gone:
                time.sleep(0.001)
                assert time.monotonic() < end, "the background thread does nothing"
                for stream in waited:
                    stream.synchronize()
        for _ in range(STEPS):
            cu.cuStreamQuery(free.handle)

    def _marked(self, gone: list[int]) -> gpulend.Lease:
        def deleter(address: int, size: int) -> None:
            # It may run between two bytecodes of this very thread, so it takes no lock.
            gone.append(address)

        return gpulend.wrap(self._mark, 64, "uint8", ready_on="now", deleter=deleter)

    def _look(self) -> None:
        while not self._done.wait(0.5):
            for gate in self._closable:
                if gate.closed and time.monotonic() - gate.since > PATIENCE:
                    self.impatient = True
                    gate.open()

    def open_gates(self) -> None:
        """Open every gate, so that nothing waits for ever."""
        for gate in self._closable:
            gate.open()

    def close(self) -> None:
        """Let all work finish and release everything."""
        self.open_gates()
        super().close()
        self._done.set()
        if self._watch_dog is not None:
            self._watch_dog.join()
        for gate in self._closable:
            gate.free()


@cache
def _register_owned() -> None:
    """Register it when it is needed: it has no arrays, for which the matrix would look."""
    streams = StreamType(knows=lambda cls: cls is Owned, handle="handle", owns=lambda _cls: True)
    gpulend.register(Framework("owned streams", Adapter(stream_type=streams), module=__name__))


class Owned:
    """A stream of a framework whose objects own theirs, as CuPy's do."""

    def __init__(self, handle: int) -> None:
        _register_owned()
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


def waiting(stream: Any) -> bool:
    """Tell whether work of a stream has still to be done."""
    handle = stream if isinstance(stream, int) else gpulend.Stream(stream).handle
    code = cu.cuStreamQuery(handle)
    if code != NOT_READY:
        check(code)
    return code == NOT_READY


def stuck(stream: Any) -> bool:
    """Tell whether a stream waits for more than a late GPU: the simulated one is made to go on."""
    return all(waiting(stream) for _ in range(STEPS))


def fill(address: int, byte: int, size: int, stream: int) -> None:
    """Queue a fill on a stream, by the driver itself."""
    check(cu.cuMemsetD8Async(address, byte, size, stream))


def copy(target: int, source: int, size: int, stream: int) -> None:
    """Queue a copy on a stream, by the driver itself."""
    check(cu.cuMemcpyAsync(target, source, size, stream))


def bytes_at(address: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a copy of host memory."""
    return np.ctypeslib.as_array((c_uint8 * size).from_address(address)).copy()


def begin_capture(stream: int, mode: str) -> None:
    """Begin to capture what is queued on a stream."""
    check(cu.cuStreamBeginCapture_v2(stream, MODES[mode]))


def free_bytes() -> int:
    """Return how much memory the current device has left."""
    free, total = c_size_t(), c_size_t()
    check(cu.cuMemGetInfo_v2(byref(free), byref(total)))
    return free.value


def python(program: str, **variables: str) -> str:
    """Run a program in a process of its own, on the same driver; return what it prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        ),
        **variables,
    }
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=180,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout
