"""`gpulend bench`: how fast a large array goes to the GPU of this machine, and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gpulend._terminal import PATIENCE, Progress

MEBIBYTE = 1 << 20


class Watch:
    """Shows, where somebody looks, how far a copy is that takes longer than a second."""

    def __init__(self, what: str, patience: float = PATIENCE) -> None:
        self._what, self._patience = what, patience
        self._line, self._begun, self._said = Progress(), time.monotonic(), False

    def __call__(self, moved: int, total: int) -> None:
        """Replace the line; copies call this a few times a second."""
        seconds = time.monotonic() - self._begun
        if seconds < self._patience or not total:
            return
        self._said = True
        done, speed = moved / total, moved / max(seconds, 1e-9) / 1e9
        self._line(
            f"gpulend: {self._what}, {moved // MEBIBYTE} of {total // MEBIBYTE} MiB, "
            f"{done:.0%}, {speed:.1f} GB/s"
        )

    def end(self) -> None:
        """Remove the line."""
        if self._said:
            self._line()


def _timed(what: str, nbytes: int, copy: Callable[[Watch], Any]) -> Any:
    watch, begun = Watch(what), time.perf_counter()
    try:
        result = copy(watch)
    finally:
        watch.end()
    seconds = time.perf_counter() - begun
    print(f"{what:42}  {seconds * 1e3:9.1f} ms  {nbytes / seconds / 1e9:7.2f} GB/s")
    return result


def bench(mebibytes: int) -> int:
    """Copy an array to the GPU and back, print how long that took, and compare the bytes."""
    import numpy as np

    import gpulend

    nbytes = mebibytes * MEBIBYTE
    _, _, _, devices = gpulend._native.describe_driver()
    print(f"{mebibytes} MiB, {devices[0][0]}")
    host = np.arange(nbytes // 4, dtype=np.uint32)
    array = gpulend.empty(host.shape, "uint32")
    _timed("host to GPU, the first copy", nbytes, lambda say: array.copy_from(host, progress=say))
    _timed("host to GPU, again", nbytes, lambda say: array.copy_from(host, progress=say))
    new = _timed("GPU to a new array", nbytes, lambda say: array.to_host(progress=say))
    same = np.array_equal(new, host)
    _timed("GPU to an old array", nbytes, lambda say: array.to_host(out=host, progress=say))
    if same and np.array_equal(new, host):
        return 0
    print("the bytes that came back are not those that went")
    return 1
