"""Another process that uses the driver under test: it does what it is asked, and can be killed.

Questions and answers travel as JSON over a socket, file descriptors beside them.
"""

from __future__ import annotations

import array
import importlib
import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from .resources import start

PATIENCE = 60.0  # seconds for one answer
LONGEST = 1 << 20

given: list[int] = []  # the descriptors that came with the question
_back: list[int] = []


def give(descriptor: int) -> None:
    """Send a descriptor back with the answer; it is closed here."""
    _back.append(descriptor)


def _send(connection: socket.socket, what: Any, descriptors: Sequence[int] = ()) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    connection.sendmsg([json.dumps(what).encode()], rights if descriptors else [])


def _receive(connection: socket.socket) -> tuple[Any, list[int]]:
    text, beside, _, _ = connection.recvmsg(LONGEST, socket.CMSG_SPACE(16 * 4))
    descriptors = array.array("i")
    for _, _, data in beside:
        descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return (json.loads(text) if text else None), list(descriptors)


class Peer:
    """A process with a context of its own, as the tests see it."""

    def __init__(self, **environment: str) -> None:
        package = Path(__file__).parent
        path = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
        self._connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.settimeout(PATIENCE)
        module = f"{package.name}.{Path(__file__).stem}"
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {module} import serve; serve({other.fileno()})"],
                env={**os.environ, "PYTHONPATH": path, **environment},
                pass_fds=[other.fileno()],
            )

    def ask(self, function: Callable[..., Any], *arguments: Any, send: Sequence[int] = ()) -> Any:
        """Run a module-level function there; all that passes must fit in JSON."""
        return self.ask_for_files(function, *arguments, send=send)[0]

    def ask_for_files(
        self, function: Callable[..., Any], *arguments: Any, send: Sequence[int] = ()
    ) -> tuple[Any, list[int]]:
        """Do the same, and take the descriptors that it gives back."""
        self.begin(function, *arguments, send=send)
        return self.end()

    def begin(
        self, function: Callable[..., Any], *arguments: Any, send: Sequence[int] = ()
    ) -> None:
        """Ask without waiting for the answer."""
        _send(self._connection, [function.__module__, function.__name__, arguments], send)

    def end(self) -> tuple[Any, list[int]]:
        """Wait for the answer."""
        answer, descriptors = _receive(self._connection)
        assert answer is not None, "the process has ended"
        assert "failed" not in answer, answer["failed"]
        return answer["result"], descriptors

    def kill(self) -> None:
        """End it by SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Let it end by itself."""
        self._connection.close()
        self._process.wait(PATIENCE)

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._connection.close()
            self.kill()


@contextmanager
def peers(count: int) -> Iterator[list[Peer]]:
    """Start several at once."""
    made = [Peer() for _ in range(count)]
    try:
        yield made
        for peer in made:
            peer.close()
    finally:
        for peer in made:
            peer.kill()


def serve(descriptor: int) -> None:
    """Answer until the other end is closed."""
    connection = socket.socket(fileno=descriptor)
    start()
    while True:
        question, given[:] = _receive(connection)
        if question is None:
            return
        module, name, arguments = question
        try:
            result = getattr(importlib.import_module(module), name)(*arguments)
            answer = {"result": result}
        except Exception:
            answer = {"failed": traceback.format_exc()}
        _send(connection, answer, _back)
        for sent in _back:
            os.close(sent)
        _back.clear()
