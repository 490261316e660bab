"""Every answer that is known to differ between NVIDIA's driver and the simulated one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from .cuda import SIMULATED


@dataclass(frozen=True)
class Difference:
    """One answer that differs, and why that is right."""

    name: str
    real: Any
    simulated: Any
    why: str


DIFFERENCES = [
    Difference(
        name="an unknown export table",
        real=1,
        simulated=500,
        why="export tables are private: the simulated driver has none and says NOT FOUND to all",
    ),
    Difference(
        name="a 64-bit memory operation across the end of an allocation",
        real=0,
        simulated=1,
        why="hardware checks the first byte only and writes into the next block; ours is strict",
    ),
    Difference(
        name="the call after a kernel's mistake was told",
        real=700,
        simulated=0,
        why="hardware is lost with its context; ours goes on, unless GPULEND_SIM_STICKY=1",
    ),
    Difference(
        name="a wrong memset in a capture",
        real=0,
        simulated=1,
        why="hardware looks when the graph is instantiated, ours at once, as for copies",
    ),
    Difference(
        name="a box that cuts an element of an array",
        real=0,
        simulated=1,
        why="what hardware copies then is written nowhere; ours refuses it, as it does for a line",
    ),
    Difference(
        name="bytes that a pool uses after cuMemFree of its memory",
        real=1000,
        simulated=0,
        why="hardware forgets to count them down; ours does not",
    ),
    Difference(
        name="an attribute of plain memory after cuMemFreeAsync",
        real=0,
        simulated=1,
        why="hardware frees it when the stream gets there; ours refuses its use at once",
    ),
    Difference(
        name="registering far past a mapping",
        real=2,
        simulated=1,
        why="hardware pins pages until it cannot; ours sees that some are not mapped",
    ),
    Difference(
        name="a query in a host function",
        real=600,
        simulated=800,
        why="CUDA forbids calls there; hardware lets some pass",
    ),
]


def same(name: str) -> pytest.MarkDecorator:
    """Mark a test that makes sense only where the driver under test answers as the real one."""
    return pytest.mark.skipif(answer(name) != _find(name).real, reason=f"differs: {name}")


def _find(name: str) -> Difference:
    (found,) = [difference for difference in DIFFERENCES if difference.name == name]
    return found


def answer(name: str) -> Any:
    """Return what the driver under test answers where the two differ."""
    return _find(name).simulated if SIMULATED else _find(name).real
