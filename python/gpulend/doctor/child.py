"""A worker as its parent sees it: lines until it ends, crashes, or takes too long."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

# The parent's search path is given, so that the child finds what the parent would.
PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from gpulend.doctor.worker import main
main()
"""


class Died(Exception):
    """The worker ended without having said all, or was ended because it took too long."""

    def __init__(self, how: str, status: str) -> None:
        super().__init__(how)
        self.status = status


class Child:
    """One worker; what it writes to stderr is kept for when it dies."""

    def __init__(self, job: str, limit: float, **options: Any) -> None:
        self._limit = limit
        # A file, because nobody would empty a pipe; `close` closes it.
        self._errors = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115
        self.stderr = ""
        order = json.dumps({"job": job, "with": options})
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(sys.path), order],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Give what the worker says; raise `Died` where it did not come to its end."""
        try:
            while True:
                try:
                    line = self._lines.get(timeout=self._limit)
                except queue.Empty:
                    raise Died(f"no answer in {self._limit:g} s", "timed out") from None
                if line is None:
                    break
                yield json.loads(line)
            try:
                code = self._process.wait(timeout=self._limit)
            except subprocess.TimeoutExpired:
                raise Died(f"does not end in {self._limit:g} s", "timed out") from None
            if code:
                raise Died(self._cause(code), "crashed")
        finally:
            self.close()

    def _cause(self, code: int) -> str:
        how = f"ends with status {code}"
        if code < 0:
            names = {number.value: number.name for number in signal.Signals}
            how = f"is killed by {names.get(-code, f'signal {-code}')}"
        last = self._written().strip().splitlines()[-1:]
        return f"the process {how}" + (f": {last[0]}" if last else "")

    def _written(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def close(self) -> None:
        """End the worker, if it has not ended, and keep what it wrote to stderr."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self.stderr = self._written()
        self._errors.close()
