"""A whole program with a fault at each of its calls in turn: it cleans up, and runs again."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import pytest

from .calls import IMAGE
from .calls_ordered import FUNCTION
from .control import LOST, faults, only_simulated, report
from .cuda import Copy2D, Location, PoolProperties
from .resources import DEVICE, NON_BLOCKING, pattern
from .variants import cu

pytestmark = only_simulated

SIZE = 4096
QUARTER = SIZE // 4
RIGHT = b"\1" * QUARTER + b"\3" * (SIZE - QUARTER)
GLOBAL = 0
NOT_READY = 600


class Failed(Exception):
    """A call of the program failed: which, and with what code."""


class Program:
    """Runs driver calls as a careful C program does: each code is looked at, all is released."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._later: list[Callable[[], int]] = []

    def run(self) -> bytes:
        """Run to the end, and return the bytes that came out."""
        try:
            return self._body()
        finally:
            self.clean_up()

    def clean_up(self) -> None:
        """Release everything, the newest first, each with a second try; keep what stays."""
        self._later = [each for each in reversed(self._later) if each() and each()][::-1]

    def _code(self, symbol: str, *arguments: Any) -> int:
        self.calls.append(symbol)
        return getattr(cu, symbol)(*arguments)

    def _do(self, symbol: str, *arguments: Any, also: int = 0) -> None:
        """Make a call that must succeed, or answer `also`."""
        code = self._code(symbol, *arguments)
        if code not in (0, also):
            raise Failed(symbol, code)

    def _make(self, kind: type, symbol: str, *arguments: Any) -> Any:
        """Make a call whose first argument takes the result."""
        result = kind()
        self._do(symbol, byref(result), *arguments)
        return result.value

    def _finally(self, symbol: str, *arguments: Any) -> None:
        self._later.append(lambda: self._code(symbol, *arguments))

    def _body(self) -> bytes:
        self._do("cuInit", 0)
        device = self._make(c_int, "cuDeviceGet", 0)
        context = self._make(c_void_p, "cuCtxCreate_v4", None, 0, device)
        self._finally("cuCtxDestroy_v2", context)
        module = self._make(c_void_p, "cuModuleLoadData", IMAGE)
        self._finally("cuModuleUnload", module)
        self._streams()
        self._memory(device)
        self._copies()
        self._do("cuGraphUpload", self._executable(), self._first)
        return self._replay()

    def _streams(self) -> None:
        streams, events = [], []
        for _ in range(2):
            streams.append(self._make(c_void_p, "cuStreamCreate", NON_BLOCKING))
            self._finally("cuStreamDestroy_v2", streams[-1])
            events.append(self._make(c_void_p, "cuEventCreate", 0))
            self._finally("cuEventDestroy_v2", events[-1])
        self._first, self._second = streams
        self._ready, self._done = events

    def _memory(self, device: int) -> None:
        """Allocate: from a pool, pinned, on the device; and register what there is."""
        wanted = PoolProperties(allocType=1, location=Location(DEVICE, device))
        pool = self._make(c_void_p, "cuMemPoolCreate", byref(wanted))
        self._finally("cuMemPoolDestroy", pool)
        self._do("cuMemPoolSetAttribute", pool, 4, byref(c_uint64(1 << 20)))
        self._input = self._make(c_void_p, "cuMemAllocHost_v2", SIZE)
        self._finally("cuMemFreeHost", self._input)
        ctypes.memmove(self._input, pattern(SIZE), SIZE)
        self._output = ctypes.create_string_buffer(SIZE)
        self._do("cuMemHostRegister_v2", self._output, SIZE, 0)
        self._finally("cuMemHostUnregister", self._output)
        self._device = self._make(c_uint64, "cuMemAlloc_v2", SIZE)
        self._finally("cuMemFree_v2", self._device)
        self._make(c_uint, "cuPointerGetAttribute", 2, self._device)
        self._scratch = self._make(c_uint64, "cuMemAllocFromPoolAsync", SIZE, pool, self._first)
        self._finally("cuMemFree_v2", self._scratch)
        self._finally("cuCtxSynchronize")

    def _copies(self) -> None:
        """Copy to the device on one stream, and on another over the half of that."""
        self._do("cuMemcpyHtoDAsync_v2", self._device, self._input, SIZE, self._first)
        self._do("cuLaunchHostFunc", self._first, FUNCTION, None)
        self._fork()
        self._do("cuMemcpyDtoDAsync_v2", self._scratch, self._device, SIZE, self._second)
        self._do("cuMemsetD8Async", self._device, 1, SIZE // 2, self._second)
        self._join()

    def _fork(self) -> None:
        self._do("cuEventRecord", self._ready, self._first)
        self._do("cuStreamWaitEvent", self._second, self._ready, 0)

    def _join(self) -> None:
        self._do("cuEventRecord", self._done, self._second)
        self._do("cuStreamWaitEvent", self._first, self._done, 0)

    def _executable(self) -> int:
        """Capture a fork: a memset on one stream, and a copy over it that waits on another."""
        self._do("cuStreamBeginCapture_v2", self._first, GLOBAL)
        self._later.append(self._end_capture)
        self._do("cuMemsetD32Async", self._scratch, 0x03030303, QUARTER, self._first)
        self._fork()
        self._do("cuMemcpyAsync", self._scratch, self._device, QUARTER, self._second)
        self._join()
        graph = c_void_p()
        self._do("cuStreamEndCapture", self._first, byref(graph))
        self._finally("cuGraphDestroy", graph.value)
        executable = self._make(c_void_p, "cuGraphInstantiateWithFlags", graph.value, 0)
        self._finally("cuGraphExecDestroy", executable)
        self._graph = executable
        return executable

    def _end_capture(self) -> int:
        """Throw away a capture that is still under way."""
        status, graph = c_int(), c_void_p()
        code = self._code("cuStreamIsCapturing", self._first, byref(status))
        if code or not status.value:
            return code
        code = self._code("cuStreamEndCapture", self._first, byref(graph))
        if graph.value and self._code("cuGraphDestroy", graph.value):
            self._code("cuGraphDestroy", graph.value)
        return code

    def _replay(self) -> bytes:
        for _ in range(2):
            self._do("cuGraphLaunch", self._graph, self._first)
        self._do("cuEventRecord", self._done, self._first)
        self._do("cuEventQuery", self._done, also=NOT_READY)
        self._do("cuStreamQuery", self._first, also=NOT_READY)
        there = ctypes.addressof(self._output)
        square = {"srcPitch": 64, "dstPitch": 64, "WidthInBytes": 64, "Height": SIZE // 64}
        ends = {"srcMemoryType": 2, "srcDevice": self._scratch}
        copy = Copy2D(**square, **ends, dstMemoryType=1, dstHost=there)
        self._do("cuMemcpy2DAsync_v2", byref(copy), self._first)
        self._do("cuEventSynchronize", self._done)
        self._do("cuStreamSynchronize", self._first)
        self._make(c_float, "cuEventElapsedTime_v2", self._done, self._done)
        self._do("cuMemGetInfo_v2", byref(c_size_t()), byref(c_size_t()))
        self._do("cuCtxSynchronize")
        return self._output.raw


def _trace() -> list[tuple[str, int]]:
    """Return the calls of a run without faults: symbol, and the how many-th of that symbol."""
    program, seen, calls = Program(), Counter[str](), []
    assert program.run() == RIGHT
    assert len(program.calls) > 50
    for symbol in program.calls:
        seen[symbol] += 1
        calls.append((symbol, seen[symbol]))
    return calls


@pytest.mark.parametrize("code", [2, 46, 700, 719, 999])
def test_a_program_survives_a_fault_at_each_of_its_calls(context: int, code: int) -> None:
    """It hears of it, or of a fault in its clean-up tries again; then all is as it was."""
    calls, before = _trace(), report()["live"]
    body = calls.index(("cuCtxSynchronize", 1)) + 1
    for index, (symbol, number) in enumerate(calls):
        program = Program()
        with faults(f"{symbol}#{number}={code}"):
            if index < body:
                with pytest.raises(Failed) as failed:
                    program.run()
                assert failed.value.args == (symbol, code)
            else:
                assert program.run() == RIGHT
        assert report()["live"] == before, f"after a fault at {symbol}#{number}"
        assert Program().run() == RIGHT, f"after a fault at {symbol}#{number}"
        assert report()["live"] == before


def test_a_program_survives_the_loss_of_its_device_at_each_of_its_calls(context: int) -> None:
    """Clean-up gets through; what it could not free, it can when the device is back."""
    calls, before = _trace(), report()["live"]
    body = calls.index(("cuCtxSynchronize", 1)) + 1
    for index, (symbol, number) in enumerate(calls):
        program, heard = Program(), None
        with faults(f"{symbol}#{number}=LOST"):
            try:
                program.run()
            except Failed as failed:
                heard = failed.args
        assert heard == ((symbol, LOST) if index < body else None)
        program.clean_up()
        assert report()["live"] == before, f"after the loss at {symbol}#{number}"
        assert Program().run() == RIGHT, f"after the loss at {symbol}#{number}"
