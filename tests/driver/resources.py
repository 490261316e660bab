"""What the tests work with: memory, streams, gates, threads and fresh processes, all put away."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from .cuda import SIMULATED, Location, PoolProperties, check, cu

NON_BLOCKING = 1
LEGACY, PER_THREAD = 1, 2
DEVICE, HOST = 1, 2  # CUmemLocationType
PATIENCE = 30.0  # seconds until a gate that a failed test left closed opens by itself
JUNK = 0x1234567890123456  # an address that no machine maps


def undefined_on_hardware(why: str) -> pytest.MarkDecorator:
    """Mark a test of what the real driver leaves undefined; ours defines it."""
    return pytest.mark.skipif(not SIMULATED, reason=f"undefined on hardware: {why}")


def value(kind: type, function: Callable[..., int], *arguments: Any) -> Any:
    """Call a function whose first argument takes the result, and return that result."""
    result = kind()
    check(function(byref(result), *arguments))
    return result.value


def last(kind: type, function: Callable[..., int], *arguments: Any) -> Any:
    """Call a function whose last argument takes the result, and return that result."""
    result = kind()
    check(function(*arguments, byref(result)))
    return result.value


def current() -> int | None:
    """Return the calling thread's context."""
    return value(c_void_p, cu.cuCtxGetCurrent)


def allocate(size: int) -> int:
    """Allocate device memory that the test frees itself."""
    return value(c_uint64, cu.cuMemAlloc_v2, size)


def upload(address: int, data: bytes) -> None:
    """Write `data` to device memory, and wait: the copy itself returns before the bytes arrive."""
    check(cu.cuMemcpyHtoD_v2(address, data, len(data)))
    check(cu.cuStreamSynchronize(None))


def download(address: int, size: int) -> bytes:
    """Read device memory, after all work of the streams that block on the legacy one."""
    data = ctypes.create_string_buffer(size)
    check(cu.cuMemcpyDtoH_v2(data, address, size))
    return data.raw


def pattern(size: int, seed: int = 1) -> bytes:
    """Return bytes in which neighbours differ and no short period repeats."""
    return bytes((i * 7 + i // 251 + seed) % 256 for i in range(size))


def in_thread(function: Callable[[], Any]) -> Any:
    """Run `function` in a thread of its own; return what it returns, raise what it raises."""
    box: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            box.append((True, function()))
        except BaseException as error:
            box.append((False, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    good, result = box[0]
    if not good:
        raise result
    return result


def alone(function: Callable[[], Any]) -> Any:
    """Run a module-level function in a fresh process; what it returns must fit in JSON."""
    package = Path(__file__).parent
    module = function.__module__.rpartition(".")[2]
    code = f"import json; from {package.name}.{module} import {function.__name__} as f\n"
    ran = subprocess.run(
        [sys.executable, "-c", code + "print(json.dumps(f()))"],
        env={**os.environ, "PYTHONPATH": _search_path(package.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return json.loads(ran.stdout.splitlines()[-1])


def _search_path(first: Path) -> str:
    return os.pathsep.join(filter(None, [str(first), os.environ.get("PYTHONPATH", "")]))


def start() -> int:
    """Initialise the driver and make device 0's primary context current; return the context."""
    check(cu.cuInit(0))
    context = value(c_void_p, cu.cuDevicePrimaryCtxRetain, 0)
    check(cu.cuCtxSetCurrent(context))
    return context


def status(stream: int | None) -> int:
    """Return a stream's capture status: 0 none, 1 active, 2 invalidated."""
    return last(c_int, cu.cuStreamIsCapturing, stream)


def end_capture(stream: int | None) -> tuple[int, int | None]:
    """End a capture; return the code and the graph."""
    graph = c_void_p()
    code = cu.cuStreamEndCapture(stream, byref(graph))
    return code, graph.value


class Gate:
    """A word of pinned memory that streams wait for: work behind it cannot run before `open`."""

    def __init__(self) -> None:
        self._address = value(c_void_p, cu.cuMemAllocHost_v2, 4)
        self._word = c_uint.from_address(self._address)
        self._word.value = 0

    def hold(self, stream: int | None) -> None:
        """Make what is queued on `stream` from now on wait for `open`."""
        check(cu.cuStreamWaitValue32_v2(stream, self._address, 1, 0))

    def open(self) -> None:
        """Let all the work behind the gate run."""
        self._word.value = 1

    def free(self) -> None:
        """Give the word back, when nothing waits for it any more."""
        check(cu.cuMemFreeHost(self._address))


class Resources:
    """Device 0's primary context, and a maker of things that are released after the test."""

    def __init__(self, context: int) -> None:
        self.context = context
        self._streams: list[int] = []
        self._gates: list[Gate] = []
        self._watch: threading.Timer | None = None
        self.impatient = False
        self._release: list[tuple[Callable[..., int], tuple[Any, ...]]] = []

    def _keep(self, release: Callable[..., int], handle: Any) -> Any:
        self._release.append((release, (handle,)))
        return handle

    def alloc(self, size: int) -> int:
        """Allocate device memory."""
        return self._keep(cu.cuMemFree_v2, allocate(size))

    def pinned(self, size: int, fill: int = 0) -> int:
        """Allocate pinned memory, filled."""
        address = value(c_void_p, cu.cuMemAllocHost_v2, size)
        ctypes.memset(address, fill, size)
        return self._keep(cu.cuMemFreeHost, address)

    def managed(self, size: int) -> int:
        """Allocate managed memory that all streams may use."""
        return self._keep(cu.cuMemFree_v2, value(c_uint64, cu.cuMemAllocManaged, size, 1))

    def stream(self, flags: int = NON_BLOCKING) -> int:
        """Create a stream."""
        self._streams.append(value(c_void_p, cu.cuStreamCreate, flags))
        return self._keep(cu.cuStreamDestroy_v2, self._streams[-1])

    def event(self, flags: int = 0) -> int:
        """Create an event."""
        return self._keep(cu.cuEventDestroy_v2, value(c_void_p, cu.cuEventCreate, flags))

    def pool(self, **properties: Any) -> int:
        """Create a memory pool on device 0."""
        wanted = PoolProperties(allocType=1, location=Location(DEVICE, 0), **properties)
        pool = value(c_void_p, cu.cuMemPoolCreate, byref(wanted))
        return self._keep(cu.cuMemPoolDestroy, pool)

    def alloc_async(self, size: int, stream: int | None, pool: int | None = None) -> int:
        """Allocate in stream order, from `pool` or the current one; the test frees it."""
        if pool is None:
            return value(c_uint64, cu.cuMemAllocAsync, size, stream)
        return value(c_uint64, cu.cuMemAllocFromPoolAsync, size, pool, stream)

    def executable(self, graph: int) -> int:
        """Instantiate a graph, destroy the graph, and return the executable one."""
        executable = value(c_void_p, cu.cuGraphInstantiateWithFlags, graph, 0)
        check(cu.cuGraphDestroy(graph))
        return self._keep(cu.cuGraphExecDestroy, executable)

    def nodes(self, graph: int) -> list[int]:
        """Return the types of a graph's nodes."""
        count = last(c_size_t, cu.cuGraphGetNodes, graph, None)
        if count == 0:
            return []
        nodes, length = (c_void_p * count)(), c_size_t(count)
        check(cu.cuGraphGetNodes(graph, nodes, byref(length)))
        return [last(c_int, cu.cuGraphNodeGetType, node) for node in nodes]

    def gate(self) -> Gate:
        """Make a closed gate. It opens at the latest when the test ends or patience does."""
        if self._watch is None:
            self._watch = threading.Timer(PATIENCE, self._lose_patience)
            self._watch.daemon = True
            self._watch.start()
        self._gates.append(Gate())
        return self._gates[-1]

    def _lose_patience(self) -> None:
        self.impatient = True
        self.open_gates()

    def open_gates(self) -> None:
        """Open every gate, so that nothing waits for ever."""
        for gate in self._gates:
            gate.open()

    def close(self) -> None:
        """Let all work finish and release everything, the newest first."""
        if self._watch is not None:
            self._watch.cancel()
        self.open_gates()
        check(cu.cuCtxSetCurrent(self.context))
        check(cu.cuThreadExchangeStreamCaptureMode(byref(c_int(0))))
        for stream in [PER_THREAD, *self._streams]:
            if status(stream):
                cu.cuStreamEndCapture(stream, None)
        check(cu.cuCtxSynchronize())
        for release, arguments in reversed(self._release):
            check(release(*arguments))
        for gate in self._gates:
            gate.free()
