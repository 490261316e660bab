"""The simulated driver is late on purpose: work runs when something waits for it, or asks often.

Hardware makes no such promise: there, a missing wait is merely lucky most of the time.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_char_p, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import pytest

from .cuda import HOST_FUNCTION, SIMULATED, check, cu, library_path
from .resources import Resources, alone, in_thread, start, value

pytestmark = pytest.mark.skipif(not SIMULATED, reason="hardware is merely lucky")

NOT_READY = 600
RUNS = 100
PROGRAM = Path(__file__).with_name("late_program.py")


def _run(what: str, seed: int) -> str:
    """Run the program in a process of its own, where no timer helps; return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM), library_path(), what],
        env={**os.environ, "GPULEND_SIM_SEED": str(seed), "GPULEND_SIM_IDLE": "0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def _runs(what: str, seeds: list[int]) -> list[str]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(_run, itertools.repeat(what), seeds))


@pytest.mark.parametrize(("what", "seen"), [("missing", "old"), ("waited", "new")])
def test_a_missing_wait_gives_the_old_bytes_every_time(what: str, seen: str) -> None:
    """In each of 100 processes with 100 seeds; with the wait, each gives the new ones."""
    assert _runs(what, list(range(RUNS))) == [seen] * RUNS


def test_the_seed_alone_decides_the_order_of_independent_work() -> None:
    """The same seed gives the same order, others give others; a stream's own order is kept."""
    seeds = list(range(20))
    first, second = _runs("order", seeds), _runs("order", seeds)
    assert first == second
    assert len(set(first)) > 1
    for ran in first:
        for stream in "1234":
            assert [f for f in ran.split() if f[0] == stream] == [f"{stream}{n}" for n in range(4)]


class Marks:
    """Work that leaves a mark in pinned memory, which the host sees without calling the driver."""

    def __init__(self, resources: Resources, size: int = 64) -> None:
        self._size, self._address, self._next = size, resources.pinned(size), 0

    def queue(self, stream: int, count: int = 1) -> range:
        """Queue operations; return the places of their marks."""
        first = self._next
        for place in range(first, first + count):
            check(cu.cuMemsetD8Async(self._address + place, 1, 1, stream))
        self._next += count
        return range(first, self._next)

    def made(self, places: range | None = None) -> int:
        """Return how many of the marks are there."""
        marks = ctypes.string_at(self._address, self._size)
        return sum(marks[place] for place in places or range(self._size))


def _timeless(monkeypatch: pytest.MonkeyPatch, body: Callable[[], Any], seed: int = 0) -> Any:
    """Run `body` in a process whose driver does nothing by itself, however long nobody calls."""
    monkeypatch.setenv("GPULEND_SIM_IDLE", "0")
    monkeypatch.setenv("GPULEND_SIM_SEED", str(seed))
    return alone(body)


def query_until_ready() -> list[list[list[int]]]:
    """Give the marks after each query of a stream, and of an event, until it is ready."""
    resources = Resources(start())
    runs = []
    for by_event in (False, True):
        marks, stream, event = Marks(resources), resources.stream(), resources.event()
        marks.queue(resources.stream(), 3)
        places = marks.queue(stream, 5)
        check(cu.cuEventRecord(event, stream))
        seen, code = [[marks.made(), marks.made(places)]], NOT_READY
        while code == NOT_READY:
            code = cu.cuEventQuery(event) if by_event else cu.cuStreamQuery(stream)
            seen.append([marks.made(), marks.made(places)])
        check(code)
        check(cu.cuCtxSynchronize())
        runs.append(seen)
    return runs


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_query_advances_one_step_at_most(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Of any stream. So a stream is ready after its own steps, at most after those of all."""
    own, others, record = 5, 3, 1
    for seen in _timeless(monkeypatch, query_until_ready, seed):
        assert seen[0] == [0, 0]
        assert {after[0] - before[0] for before, after in itertools.pairwise(seen)} <= {0, 1}
        assert own <= len(seen) - 1 <= own + record + others + 1
        assert seen[-1][1] == own


def nothing_moves() -> list[list[int]]:
    """Give the marks after calls that must not advance anything."""
    resources = Resources(start())
    marks, stream, event = Marks(resources), resources.stream(), resources.event()
    marks.queue(stream, 3)
    check(cu.cuEventRecord(event, stream))

    def passive() -> list[int]:
        check(cu.cuCtxSetCurrent(resources.context))
        check(cu.gpulend_sim_passive(1))
        codes = [cu.cuStreamQuery(stream) for _ in range(50)]
        return [*codes, *[cu.cuEventQuery(event) for _ in range(50)], marks.made()]

    seen = [in_thread(passive)]
    time.sleep(0.5)
    seen.append([marks.made()])
    check(cu.cuStreamQuery(stream) - NOT_READY)
    seen.append([marks.made()])
    return seen


def test_a_passive_thread_advances_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it asks; nor does time, if the idle timer is off. Other threads still do."""
    passive, later, active = _timeless(monkeypatch, nothing_moves)
    assert passive == [NOT_READY] * 100 + [0]
    assert later == [0]
    assert active == [1]


def left_alone() -> list[int]:
    """Queue work, call nothing, and give the marks and whether the host function ran."""
    resources = Resources(start())
    marks, called = Marks(resources), threading.Event()
    note = HOST_FUNCTION(lambda _: called.set())
    check(cu.cuLaunchHostFunc(resources.stream(), note, None))
    for _ in range(3):
        marks.queue(resources.stream(), 4)
    end = time.monotonic() + 20
    while marks.made() < 12 and time.monotonic() < end:
        time.sleep(0.01)
    return [marks.made(), called.wait(20)]


def test_work_goes_on_when_nobody_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The idle timer ends it: a host that polls memory, or waits for a callback, is not stuck."""
    monkeypatch.setenv("GPULEND_SIM_IDLE", "50")
    assert alone(left_alone) == [12, True]


def synchronize_one() -> list[list[int]]:
    """Give the marks of a stream and of independent others as one after the other is waited for."""
    resources = Resources(start())
    first, second, third = resources.stream(), resources.stream(), resources.stream()
    marks, event = Marks(resources), resources.event()
    places = [marks.queue(stream, 3) for stream in (first, second, third)]
    check(cu.cuEventRecord(event, third))
    seen = []
    for wait in (
        lambda: cu.cuStreamSynchronize(second),
        lambda: cu.cuEventSynchronize(event),
        cu.cuCtxSynchronize,
    ):
        check(wait())
        seen.append([marks.made(place) for place in places])
    return seen


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_waiting_for_one_stream_leaves_the_others_queued(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Or for an event: what it does not stand behind stays where it is."""
    seen = _timeless(monkeypatch, synchronize_one, seed)
    assert seen == [[0, 3, 0], [0, 3, 3], [3, 3, 3]]


def _report() -> Any:
    text = ctypes.create_string_buffer(1 << 20)
    report = cu.gpulend_sim_report
    report.restype, report.argtypes = c_size_t, [c_char_p, c_size_t]
    assert report(text, len(text)) < len(text)
    return json.loads(text.value)


def stale_handles() -> list[Any]:
    """Use a destroyed stream and a destroyed event; give the codes, the report and the handles."""
    resources = Resources(start())
    stream = value(c_void_p, cu.cuStreamCreate, 1)
    event = value(c_void_p, cu.cuEventCreate, 0)
    assert _report()["faults"] == []
    check(cu.cuStreamDestroy_v2(stream))
    check(cu.cuEventDestroy_v2(event))
    codes = [cu.cuStreamSynchronize(stream), cu.cuEventRecord(event, resources.stream())]
    check(cu.cuCtxSynchronize())
    return [codes, _report(), [stream, event]]


def test_use_of_a_destroyed_handle_is_refused_and_reported() -> None:
    """400, and an entry that says which call, what and where; the context goes on."""
    codes, report, handles = alone(stale_handles)
    assert codes == [400, 400]
    assert set(report) >= {"calls", "unsupported", "faults", "live"}
    calls = ["cuStreamSynchronize", "cuEventRecord"]
    assert [fault["function"] for fault in report["faults"]] == calls
    assert [int(fault["address"], 16) for fault in report["faults"]] == handles
    for fault, word in zip(report["faults"], ["stream", "event"], strict=True):
        assert word in fault["what"]
        assert fault["status"] == 400
        assert "nearest" in fault
    assert report["calls"]["cuStreamSynchronize"] == 1
    assert report["live"]["streams"] == 1
