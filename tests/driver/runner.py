"""Runs programs on the driver under test, in a process of its own: one JSON line in, one out.

A simulated driver starts anew for each program, with its seed, in a fork made before cuInit; so a
program that fails once fails again. A real one is started once.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from ctypes import c_int, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from .cuda import SIMULATED, DriverError, check, cu
from .oracle import BLOCKING, FREE
from .programs import EVENTS, Program
from .resources import NON_BLOCKING, value

NOT_READY = 600
PATIENCE = 20  # seconds for one program


class Machine:
    """Does the calls of a program: `_fill` what the oracle says of `fill`, and so on."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._size: int = request["size"]
        self._without: list[str] = request["without"]
        self._homes: list[int] = [device for device, _ in request["streams"]]
        self._contexts = [
            value(c_void_p, cu.cuDevicePrimaryCtxRetain, device)
            for device in range(max(self._homes) + 1)
        ]
        self._streams = [self._stream(*stream) for stream in request["streams"]]
        self._cells: list[tuple[int, int | None]] = []
        self._freed: set[int] = set()
        self._events: dict[int, int] = {}
        self.answers: list[int | bool] = []
        for event in range(EVENTS):
            self._enter(min(event // 2, len(self._contexts) - 1))
            self._events[event] = value(c_void_p, cu.cuEventCreate, 2)

    def _stream(self, device: int, kind: str) -> int | None:
        self._enter(device)
        if kind == BLOCKING and BLOCKING not in self._without:
            return value(c_void_p, cu.cuStreamCreate, 0)
        return (
            value(c_void_p, cu.cuStreamCreate, NON_BLOCKING) if kind in (BLOCKING, FREE) else None
        )

    def _enter(self, device: int) -> None:
        check(cu.cuCtxSetCurrent(self._contexts[device]))

    def run(self, calls: list[list[Any]]) -> None:
        """Do the calls, except those that the driver is to be without."""
        for name, *arguments in calls:
            if name not in self._without:
                getattr(self, "_" + name)(*arguments)

    def close(self) -> None:
        """Release everything."""
        for cell, (address, device) in enumerate(self._cells):
            if cell not in self._freed:
                check(cu.cuMemFreeHost(address) if device is None else cu.cuMemFree_v2(address))
        for event in self._events.values():
            check(cu.cuEventDestroy_v2(event))
        for stream in filter(None, self._streams):
            check(cu.cuStreamDestroy_v2(stream))
        for device in range(len(self._contexts)):
            check(cu.cuDevicePrimaryCtxRelease_v2(device))

    def _at(self, cell: int) -> int:
        return self._cells[cell][0]

    def _on(self, stream: int) -> int | None:
        self._enter(self._homes[stream])
        return self._streams[stream]

    def _see(self, data: bytes) -> None:
        self.answers.append(data[0] if data == data[:1] * len(data) else -1)

    def _allocate(self, device: int | None, content: int | None) -> None:
        if device is None:
            address = value(c_void_p, cu.cuMemHostAlloc, self._size, 1)
            ctypes.memset(address, content or 0, self._size)
        else:
            self._enter(device)
            address = value(c_uint64, cu.cuMemAlloc_v2, self._size)
            if content is not None:
                check(cu.cuMemsetD8_v2(address, content, self._size))
                check(cu.cuCtxSynchronize())
        self._cells.append((address, device))

    def _allocate_async(self, stream: int) -> None:
        address = value(c_uint64, cu.cuMemAllocAsync, self._size, self._on(stream))
        self._cells.append((address, self._homes[stream]))

    def _free(self, cell: int) -> None:
        address, device = self._cells[cell]
        self._enter(device or 0)
        check(cu.cuMemFree_v2(address))
        self._freed.add(cell)

    def _free_async(self, stream: int, cell: int) -> None:
        check(cu.cuMemFreeAsync(self._at(cell), self._on(stream)))
        self._freed.add(cell)

    def _fill(self, stream: int, cell: int, content: int) -> None:
        check(cu.cuMemsetD8Async(self._at(cell), content, self._size, self._on(stream)))

    def _fill_now(self, device: int, cell: int, content: int) -> None:
        self._enter(device)
        check(cu.cuMemsetD8_v2(self._at(cell), content, self._size))

    def _upload(self, device: int, cell: int, content: int) -> None:
        self._enter(device)
        check(cu.cuMemcpyHtoD_v2(self._at(cell), bytes([content]) * self._size, self._size))

    def _upload_async(self, stream: int, cell: int, content: int) -> None:
        data, queue = bytes([content]) * self._size, self._on(stream)
        check(cu.cuMemcpyHtoDAsync_v2(self._at(cell), data, self._size, queue))

    def _copy(self, stream: int, target: int, source: int) -> None:
        (to, to_device), (origin, origin_device) = self._cells[target], self._cells[source]
        rest = (self._size, self._on(stream))
        if to_device is None:
            check(cu.cuMemcpyDtoHAsync_v2(to, origin, *rest))
        elif origin_device is None:
            check(cu.cuMemcpyHtoDAsync_v2(to, origin, *rest))
        elif to_device == origin_device:
            check(cu.cuMemcpyDtoDAsync_v2(to, origin, *rest))
        else:
            ends = (to, self._contexts[to_device], origin, self._contexts[origin_device])
            check(cu.cuMemcpyPeerAsync(*ends, *rest))

    def _copy_now(self, target: int, source: int) -> None:
        (to, to_device), (origin, origin_device) = self._cells[target], self._cells[source]
        self._enter((origin_device or 0) if to_device is None else to_device)
        if to_device is None:
            check(cu.cuMemcpyDtoH_v2(to, origin, self._size))
        elif origin_device is None:
            check(cu.cuMemcpyHtoD_v2(to, origin, self._size))
        elif to_device == origin_device:
            check(cu.cuMemcpyDtoD_v2(to, origin, self._size))
        else:
            ends = (to, self._contexts[to_device], origin, self._contexts[origin_device])
            check(cu.cuMemcpyPeer(*ends, self._size))

    def _download(self, device: int, cell: int) -> None:
        self._enter(device)
        data = ctypes.create_string_buffer(self._size)
        check(cu.cuMemcpyDtoH_v2(data, self._at(cell), self._size))
        self._see(data.raw)

    def _poke(self, cell: int, content: int) -> None:
        ctypes.memset(self._at(cell), content, self._size)

    def _peek(self, cell: int) -> None:
        self._see(ctypes.string_at(self._at(cell), self._size))

    def _record(self, event: int, stream: int) -> None:
        queue = self._on(stream)
        if event not in self._events:
            self._events[event] = value(c_void_p, cu.cuEventCreate, 2)
        check(cu.cuEventRecord(self._events[event], queue))

    def _wait(self, stream: int, event: int) -> None:
        check(cu.cuStreamWaitEvent(self._on(stream), self._events[event], 0))

    def _ready(self, code: int) -> None:
        check(code if code != NOT_READY else 0)
        self.answers.append(code == 0)

    def _query(self, stream: int) -> None:
        self._ready(cu.cuStreamQuery(self._on(stream)))

    def _query_event(self, event: int) -> None:
        self._ready(cu.cuEventQuery(self._events[event]))

    def _synchronize(self, stream: int) -> None:
        check(cu.cuStreamSynchronize(self._on(stream)))

    def _synchronize_event(self, event: int) -> None:
        check(cu.cuEventSynchronize(self._events[event]))

    def _synchronize_device(self, device: int) -> None:
        self._enter(device)
        check(cu.cuCtxSynchronize())


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        if SIMULATED:
            settings = f"devices=2,seed={request['seed']},idle=0"
            assert cu.gpulend_sim_configure(settings.encode()) == 0
        check(cu.cuInit(0))
        if "calls" not in request:
            return {"devices": value(c_int, cu.cuDeviceGetCount)}
        machine = Machine(request)
        machine.run(request["calls"])
        machine.close()
        return {"answers": machine.answers}
    except (DriverError, AssertionError) as error:
        return {"failed": repr(error)}


def _serve() -> None:
    for line in sys.stdin:
        child = os.fork() if SIMULATED else 0
        if child:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code:
                print(json.dumps({"failed": f"the process ended with {code}"}), flush=True)
            continue
        if SIMULATED:
            signal.alarm(PATIENCE)
        print(json.dumps(_answer(json.loads(line))), flush=True)
        if SIMULATED:
            os._exit(0)


class Runner:
    """The process that runs programs, seen from the tests."""

    def __init__(self) -> None:
        package = Path(__file__).parent
        path = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{package.name}.{Path(__file__).stem}"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.devices: int = self._ask(seed=0)["devices"]

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "the runner ended"}
        assert "failed" not in answer, answer["failed"]
        return answer

    def run(
        self, program: Program, *, seed: int = 0, size: int = 1, without: tuple[str, ...] = ()
    ) -> list[int | bool]:
        """Run a program, on a driver that ignores the calls or rules it is to be `without`."""
        streams = [(stream.device, stream.kind) for stream in program.streams]
        what = {"streams": streams, "calls": program.calls}
        answers: list[int | bool]
        answers = self._ask(seed=seed, size=size, without=without, **what)["answers"]
        return answers

    def close(self) -> None:
        """End the process."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


if __name__ == "__main__":
    _serve()
