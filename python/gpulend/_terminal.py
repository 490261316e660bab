"""What is shown where somebody looks: colours, and a line that says what is being done."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TextIO

# Seconds until a line says what is being done, and between two such lines.
PATIENCE = 1.0
PACE = 0.5


def is_shown(stream: TextIO | None) -> bool:
    """Say whether a stream is a terminal that can move its cursor."""
    if stream is None or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        # Replaced by another object, or closed.
        return False


class Colours:
    """Colours of a terminal; plain text elsewhere, and wherever `NO_COLOR` is set.

    `FORCE_COLOR` asks for them where the output is not a terminal, as in the logs of CI.
    """

    def __init__(self, stream: TextIO) -> None:
        forced = bool(os.environ.get("FORCE_COLOR"))
        self._on = not os.environ.get("NO_COLOR") and (forced or is_shown(stream))

    def __bool__(self) -> bool:
        return self._on

    def _paint(self, text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._on and text else text

    def bold(self, text: str) -> str:
        """Return a heading."""
        return self._paint(text, 1)

    def faint(self, text: str) -> str:
        """Return what is of less interest."""
        return self._paint(text, 2)

    def broken(self, text: str) -> str:
        """Return what is wrong, in red."""
        return self._paint(text, 31)

    def well(self, text: str) -> str:
        """Return what is right, in green."""
        return self._paint(text, 32)


class Progress:
    """One line on stderr that says what is being done, where somebody looks."""

    def __init__(self) -> None:
        self._shown = is_shown(sys.stderr)

    def __bool__(self) -> bool:
        return self._shown

    def __call__(self, text: str = "") -> None:
        """Replace the line; without a text, remove it."""
        if self._shown:
            # Return to the first column, and clear what was there.
            print(f"\r\x1b[K{text[:79]}", end="", file=sys.stderr, flush=True)


class Patience:
    """Says on stderr, where somebody looks, that something takes long; `with` surrounds it."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._progress = Progress()
        self._over = threading.Event()
        self._teller: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._progress:
            self._teller = threading.Thread(target=self._tell, daemon=True)
            self._teller.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._teller is not None:
            self._teller.join()

    def _tell(self) -> None:
        begin, wait, said = time.monotonic(), PATIENCE, False
        while not self._over.wait(wait):
            wait, said = PACE, True
            self._progress(f"gpulend: {self._doing}, {time.monotonic() - begin:.0f} s")
        if said:
            self._progress()
