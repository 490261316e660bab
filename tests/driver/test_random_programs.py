"""Random programs over four streams and two devices: CUDA's rules allow every answer.

They allocate, copy, fill, free, record and wait for events, ask and synchronise. `oracle` has the
rules, `outcomes` the orders, `programs` what is drawn, `runner` the process they run in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from .cuda import SIMULATED
from .oracle import BLOCKING, FREE, LEGACY, Oracle
from .outcomes import Answer, judge, refute, sequential
from .programs import Instruction, Program, instructions
from .resources import undefined_on_hardware
from .runner import Runner

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"

# One byte cannot be torn. The simulated driver does not tear larger blocks either, and pageable
# ones take another way.
sizes = st.sampled_from([1, 100_000]) if SIMULATED else st.just(1)
machines = {"seed": st.integers(0, 999), "size": sizes, "devices": st.integers(1, 2)}
settings = hypothesis.settings(max_examples=5000 if LONG else 400, deadline=None)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    """Give the process in which programs run."""
    runner = Runner()
    yield runner
    runner.close()


def _differs(expected: Sequence[Answer], answers: Sequence[Answer]) -> list[int]:
    """Return which answers differ. That work is done, or what nobody wrote, is not expected."""
    pairs = enumerate(zip(expected, answers, strict=True))
    return [n for n, (want, got) in pairs if want is not None and want is not True and want != got]


def _do(verb: str, stream: int = 0, target: int = 0, source: int = 0) -> Instruction:
    return verb, stream, target, source, False


# Blocking streams 0 and 2, and the legacy one between them: it acts even if it waits for an event
# that has happened.
LEGACY_WAIT = [
    *[_do("record", 1), _do("synchronize_event"), _do("fill", 0, 0), _do("wait", 4)],
    *[_do("copy", 2, 4, 0), _do("synchronize", 2), _do("peek", 0, 4)],
]
# It has nothing to wait for, and is not busy while the other device is.
LEGACY_WAIT_ALONE = [_do("wait", 4), _do("fill", 0, 2), _do("query", 4)]
# From device 0 to 1 at once, then out of device 1 by its non-blocking stream.
PEERS = [_do("copy_now", 0, 2, 0), _do("copy", 3, 4, 2), _do("synchronize", 3), _do("peek", 0, 4)]
# Blocking stream 0 waits for an event that has happened: the legacy stream's fill is still to come
# when 0 has nothing left to do, and only the non-blocking stream's own wait puts it in order.
SPENT_WAIT = [
    *[_do("record", 1), _do("synchronize_event"), _do("fill", 4, 0), _do("wait", 0)],
    *[_do("synchronize", 0), _do("fill", 1, 0), _do("copy", 1, 4, 0)],
    *[_do("synchronize", 1), _do("peek", 0, 4)],
]
# The same as it was found: the event is the other device's, and more is queued.
SPENT_PEER_WAIT = [
    *[*[_do("fill", 0, 0)] * 5, _do("fill", 4, 0), _do("fill", 5, 2), _do("record", 5, 0, 3)],
    *[_do("wait", 5, 0, 3), _do("copy", 5, 4, 2), _do("synchronize", 5), _do("peek", 0, 4)],
    *[_do("wait", 0, 0, 3), _do("fill", 5, 2), _do("record", 5, 0, 3), _do("copy", 0, 4, 2)],
    *[_do("synchronize", 0), _do("peek", 0, 4), _do("fill", 1, 0), _do("copy", 4, 4, 0)],
    *[_do("synchronize", 4), _do("peek", 0, 4)],
]


@settings
@given(drawn=instructions(), **machines)
@example(drawn=LEGACY_WAIT, seed=0, size=1, devices=1)
@example(drawn=LEGACY_WAIT_ALONE, seed=0, size=1, devices=2)
@example(drawn=PEERS, seed=0, size=1, devices=2)
def test_every_answer_comes_from_a_legal_order(
    runner: Runner, drawn: list[Instruction], seed: int, size: int, devices: int
) -> None:
    """Of all reads and questions together, races included."""
    devices = min(devices, runner.devices)
    program = Program(drawn, devices=devices, ordered=False, quiet=not SIMULATED)
    answers = runner.run(program, seed=seed, size=size)
    reason = refute(program.oracle.moves, answers)
    assert reason is None, f"{reason}\n{program}\n{answers}"


@settings
@given(drawn=instructions(), **machines)
def test_a_program_without_races_gives_the_sequential_result(
    runner: Runner, drawn: list[Instruction], seed: int, size: int, devices: int
) -> None:
    """Each conflict is ordered, by an event where no rule does it; one result is then legal."""
    program = Program(drawn, devices=min(devices, runner.devices), ordered=True)
    expected = sequential(program.oracle.moves)
    answers = runner.run(program, seed=seed, size=size)
    assert not _differs(expected, answers), f"{expected}\n{program}\n{answers}"
    for want, (_, legal) in zip(expected, judge(program.oracle.moves, answers), strict=True):
        assert want is True or legal == {want}, f"legal: {legal}\n{program}\n{answers}"


@pytest.mark.parametrize("drawn", [SPENT_WAIT, SPENT_PEER_WAIT], ids=["here", "peer"])
def test_a_wait_for_what_has_happened_leaves_the_legacy_stream_behind(
    runner: Runner, drawn: list[Instruction]
) -> None:
    """Who waits for the blocking stream then has not waited for the legacy one."""
    devices = min(2, runner.devices)
    for seed in range(20):
        ordered = Program(drawn, devices=devices, ordered=True)
        expected, answers = sequential(ordered.oracle.moves), runner.run(ordered, seed=seed)
        assert not _differs(expected, answers), f"{expected}\n{ordered}\n{answers}"
        racy = Program(drawn, devices=devices, ordered=False, quiet=not SIMULATED)
        assert refute(racy.oracle.moves, runner.run(racy, seed=seed)) is None


@pytest.mark.parametrize(("wait", "legal"), [("synchronize", {204, 1}), ("synchronize_event", {1})])
def test_a_record_waits_for_the_legacy_stream_but_its_stream_need_not(
    runner: Runner, wait: str, legal: set[Answer]
) -> None:
    """The event of a blocking stream stands for the legacy fill; the stream itself is empty."""
    drawn = [_do("fill", 4, 4), _do("record", 0), _do(wait, 0), _do("peek", 0, 4)]
    program = Program(drawn, devices=1, ordered=False)
    answers = runner.run(program)
    assert next(judge(program.oracle.moves, answers)) == (answers[0], legal)
    assert refute(program.oracle.moves, answers) is None


class Broken:
    """Looks for programs whose answers a driver or an oracle that is wrong cannot explain."""

    def __init__(self, runner: Runner, oracle: type[Oracle] = Oracle, without: str = "") -> None:
        self.runner, self.oracle, self.without = runner, oracle, (without,)

    def found(self, case: tuple[list[Instruction], int], ordered: bool) -> bool:
        """Say whether the driver's answers to a program are no legal ones."""
        drawn, seed = case
        program = Program(drawn, devices=1, ordered=ordered, oracle=self.oracle)
        answers = self.runner.run(program, seed=seed, without=self.without)
        if ordered:
            return bool(_differs(sequential(program.oracle.moves), answers))
        return refute(program.oracle.moves, answers) is not None

    def search(self, ordered: bool) -> None:
        """Fail unless there is such a program."""
        cases: Any = st.tuples(instructions(), machines["seed"])
        few = hypothesis.settings(
            max_examples=1000, database=None, phases=[hypothesis.Phase.generate], deadline=None
        )
        hypothesis.find(cases, lambda case: self.found(case, ordered), settings=few)


ORDERED = pytest.mark.parametrize("ordered", [False, True], ids=["racy", "ordered"])


@undefined_on_hardware("it may be on time by luck")
@ORDERED
@pytest.mark.parametrize("without", ["wait", "synchronize", "synchronize_event", BLOCKING])
def test_a_driver_that_ignores_a_rule_is_caught(
    runner: Runner, without: str, ordered: bool
) -> None:
    """Waits for events, synchronising with a stream or an event, or the legacy stream's rules."""
    Broken(runner, without=without).search(ordered)


class FreeObeysLegacy(Oracle):
    """Believes that non-blocking streams wait for the legacy one."""

    def needs(self, stream: int) -> int:
        """Add the legacy stream's work."""
        mine = self.streams[stream]
        legacy = self._behind[self.legacy(mine.device)] if mine.kind == FREE else 0
        return super().needs(stream) | legacy


class LegacyWaitsForFree(Oracle):
    """Believes that the legacy stream waits for non-blocking ones."""

    def needs(self, stream: int) -> int:
        """Add all the work of the device."""
        mine = self.streams[stream]
        return super().needs(stream) | (self._everything(mine.device) if mine.kind == LEGACY else 0)


class CapturesLate(Oracle):
    """Believes that a wait is for the newest record of the event, even one that comes later."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._waits: list[tuple[int, int]] = []

    def wait(self, stream: int, event: int) -> None:
        """Remember the wait."""
        super().wait(stream, event)
        self._waits.append((stream, event))

    def needs(self, stream: int) -> int:
        """Add what the events stand for now."""
        needs = super().needs(stream)
        for waiting, event in self._waits:
            needs |= self._events.get(event, 0) if waiting == stream else 0
        return needs


class SynchronousForms(Oracle):
    """Believes that a call without a stream is done when it returns."""

    def fill_now(self, device: int, cell: int, value: int) -> None:
        """Wait for it."""
        super().fill_now(device, cell, value)
        self.synchronize(self.legacy(device))

    def upload(self, device: int, cell: int, value: int) -> None:
        """Wait for it."""
        super().upload(device, cell, value)
        self.synchronize(self.legacy(device))


class WaitsAct(Oracle):
    """Believes that a wait is an action in every stream, even for an event that has happened."""

    def wait(self, stream: int, event: int) -> None:
        """Bring the stream behind all that an action would wait for."""
        super().wait(stream, event)
        self._queue(stream)


@undefined_on_hardware("it may be on time by luck")
@ORDERED
def test_that_every_wait_acts_is_refuted(runner: Runner, ordered: bool) -> None:
    """By one program, which chance would seldom draw."""
    assert Broken(runner, oracle=WaitsAct).found((SPENT_WAIT, 0), ordered)


@undefined_on_hardware("it may be on time by luck")
@ORDERED
@pytest.mark.parametrize(
    "rule", [FreeObeysLegacy, LegacyWaitsForFree, CapturesLate, SynchronousForms]
)
def test_a_rule_that_is_not_cudas_is_refuted(
    runner: Runner, rule: type[Oracle], ordered: bool
) -> None:
    """The driver is late enough to show it, and to the programs that rely on it."""
    Broken(runner, oracle=rule).search(ordered)
