"""Work that is held back on a stream, and captures: by the driver's own functions.

A hand-over is looked at while the producer's stream is held. Whether the host waited is
then a matter of time, and whether the consumer's stream waits is asked of the driver.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import byref, c_void_p
from typing import Any

import gpulend
from gpulend import _native, adapters, simulator

HELD = 0.020  # seconds for which a stream is held
NOT_READY = 600
GLOBAL = 0  # the strictest mode of capture
# What makes the host wait for a GPU.
WAITS = frozenset(
    (
        *("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuCtxSynchronize_v2"),
        *("cuMemcpy", "cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoD_v2"),
    )
)


class DriverProblem(RuntimeError):
    """A function of the driver that the doctor itself calls fails."""


class Driver:
    """The driver that gpulend chose, called directly, with device 0's primary context current."""

    def __init__(self) -> None:
        kind, library, _, _ = _native.describe_driver()
        self.simulated = kind == "simulated"
        self._library = ctypes.CDLL(library)
        # Of the C library: the driver's thread, which calls it, must not wait for Python.
        self._sleep = ctypes.cast(ctypes.CDLL(None).usleep, c_void_p)
        context = c_void_p()
        self._call("cuDevicePrimaryCtxRetain", byref(context), 0)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise DriverProblem(f"{name} answers {code}")

    def hold(self, stream: int) -> float:
        """Hold a stream back for a moment; return when the moment ends."""
        microseconds = c_void_p(int(HELD * 1e6))
        self._call("cuLaunchHostFunc", c_void_p(stream), self._sleep, microseconds)
        return time.perf_counter() + HELD

    def is_behind(self, stream: int) -> bool:
        """Return whether a stream has work that is not done."""
        code = self._library.cuStreamQuery(c_void_p(stream))
        if code not in (0, NOT_READY):
            raise DriverProblem(f"cuStreamQuery answers {code}")
        return bool(code == NOT_READY)

    def waits(self) -> int:
        """Count how often the host waited so far, as far as it is counted.

        The simulated GPU counts the calls that block, a real driver does not. Adapters of
        frameworks that hide their streams count what they wait for by other means.
        """
        counted: Mapping[str, int] = getattr(adapters, "HOST_WAITS", {})
        waits = sum(counted.values())
        if self.simulated:
            calls: dict[str, int] = simulator.report()["calls"]
            waits += sum(count for name, count in calls.items() if name in WAITS)
        return waits

    @contextmanager
    def capture(self, stream: gpulend.Stream) -> Iterator[None]:
        """Capture a stream's work for the length of a block, and see that the capture survives."""
        handle, graph = c_void_p(stream.handle), c_void_p()
        self._call("cuStreamBeginCapture_v2", handle, GLOBAL)
        try:
            yield
        finally:
            code = self._library.cuStreamEndCapture(handle, byref(graph))
            if graph:
                self._library.cuGraphDestroy(graph)
        if code or not graph:
            raise DriverProblem(f"the capture was lost: cuStreamEndCapture answers {code}")
