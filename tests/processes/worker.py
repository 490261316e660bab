"""A process that does what a test says: runs statements, returns values, reports errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

PATIENCE = 60
"""Seconds that a statement may take: on a busy machine TensorFlow is imported in half a minute."""

MAIN = "from processes.worker import serve; serve({descriptor})"


class RemoteError(Exception):
    """What a statement raised in a worker: the name of its class, its code, its text."""

    def __init__(self, kind: str, code: int, text: str) -> None:
        super().__init__(f"{kind} {code}: {text}")
        self.kind, self.code, self.text = kind, code, text


class Worker:
    """A process with gpulend in it."""

    def __init__(self, before: str = "", **environment: str) -> None:
        own, other = Pipe()
        path = str(Path(__file__).parents[1])
        # gpulend itself may be found by that variable.
        path = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
        variables = {**os.environ, "PYTHONPATH": path, **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN.format(descriptor=other.fileno())],
            pass_fds=[other.fileno()],
            env=variables,
        )
        other.close()
        self.connection: Connection = own
        self.run("import gpulend, numpy as np")
        self.run(before)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def start(self, source: str, **values: Any) -> None:
        """Have it run statements; `finish` returns what they assign to `result`."""
        self.connection.send((textwrap.dedent(source), values))

    def finish(self, patience: float = PATIENCE) -> Any:
        """Wait for what was started."""
        if not self.connection.poll(patience):
            raise AssertionError(f"process {self.pid} has not finished after {patience} s")
        kind, content = self.connection.recv()
        if kind == "error":
            raise RemoteError(*content)
        return content

    def run(self, source: str, **values: Any) -> Any:
        """Run statements to their end."""
        self.start(source, **values)
        return self.finish()

    def get(self, expression: str, **values: Any) -> Any:
        """Return the value of an expression."""
        return self.run(f"result = {expression}", **values)

    def kill(self) -> None:
        """End it at once, and wait until the kernel has."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        self.connection.close()

    def stop(self) -> None:
        """Have it do nothing until SIGCONT, and wait until all its threads do."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def end(self) -> None:
        """End it as a program ends."""
        self.connection.close()
        assert self.process.wait(PATIENCE) == 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.connection.close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
                raise


def serve(descriptor: int) -> None:
    """Do what comes through a pipe, until it is closed."""
    connection = Connection(descriptor)
    names: dict[str, Any] = {}
    while True:
        try:
            source, values = connection.recv()
        except EOFError:
            return
        names.update(values, result=None)
        try:
            exec(source, names)
        except Exception as error:
            content = (type(error).__name__, getattr(error, "code", 0), str(error))
            connection.send(("error", content))
        else:
            connection.send(("value", names.pop("result")))


def eventually(is_true, what: str, patience: float = 5) -> None:
    """Wait for something that another process, or the reaper, brings about."""
    end = time.monotonic() + patience
    while not is_true():
        assert time.monotonic() < end, what
        time.sleep(0.002)
