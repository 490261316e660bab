"""Captures and the graphs made of them, by the driver API."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_int
from typing import Any

from driver.cuda import check, cu
from driver.resources import end_capture, status

from .resources import SOON, GpuResources, begin_capture

RELAXED = 2


class Graph:
    """What was captured, once the capture ended."""

    def __init__(self, gpu: GpuResources, stream: int) -> None:
        self._gpu, self._stream, self._executable = gpu, stream, 0

    @property
    def alive(self) -> bool:
        """Whether the capture goes on and was not invalidated."""
        return status(self._stream) == 1

    def end(self) -> None:
        """End the capture, which must be whole."""
        code, graph = end_capture(self._stream)
        assert code == 0, f"the capture was spoilt: {code}"
        self._executable = self._gpu.executable(graph)

    def replay(self) -> None:
        """Run the graph on its stream, to the end."""
        check(cu.cuGraphLaunch(self._executable, self._stream))
        check(cu.cuStreamSynchronize(self._stream))


@contextmanager
def capture(gpu: GpuResources, stream: Any, mode: str) -> Iterator[Graph]:
    """Capture what a block queues on a stream; the block must leave the capture whole."""
    begin_capture(stream.handle, mode)
    graph = Graph(gpu, stream.handle)
    try:
        yield graph
    except BaseException:
        end_capture(stream.handle)
        raise
    assert graph.alive, "the capture was invalidated"
    graph.end()


def beside(gpu: GpuResources, function: Callable[[], Any]) -> Any:
    """Run a function on a thread that may do what a capture forbids others."""
    box: list[Any] = []

    def run() -> None:
        try:
            check(cu.cuCtxSetCurrent(gpu.context))
            check(cu.cuThreadExchangeStreamCaptureMode(byref(c_int(RELAXED))))
            box.append(function())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(2 * SOON)
    assert box, "the thread did not end"
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


def until(gone: list[Any], stream: Any) -> None:
    """Let the work of a stream be done until the background thread has seen it."""
    end = time.monotonic() + SOON
    while not gone:
        time.sleep(0.01)
        assert time.monotonic() < end, "the deleter did not run during the capture"
        check(cu.cuStreamSynchronize(stream.handle))
