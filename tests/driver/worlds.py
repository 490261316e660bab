"""What a program does to memory, move by move, and every world that can come of it.

It knows nothing of CUDA: steps are queued with what they need, and run at any time after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Memory = tuple[int | None, ...]  # None: never written, so anything may be read
World = tuple[int, Memory]  # which steps are done, as bits, and what memory then holds
Answer = int | bool | None


@dataclass(frozen=True)
class Place:
    """The host makes a new place in memory."""

    value: int | None


@dataclass(frozen=True)
class Step:
    """Queued: once all of `needs` are done, a value, or the one at `source`, goes to `target`.

    Without a target it does nothing but take its place in the queue.
    """

    needs: int
    target: int | None = None
    value: int | None = None
    source: int | None = None


@dataclass(frozen=True)
class Done:
    """The host waits for these steps."""

    steps: int


@dataclass(frozen=True)
class Write:
    """The host writes."""

    place: int
    value: int


@dataclass(frozen=True)
class See:
    """The host reads; the answer is a number."""

    place: int


@dataclass(frozen=True)
class Ready:
    """The host asks whether `steps` are done; it may hear no while any of `late` is not known."""

    steps: int
    late: int


Move = Place | Step | Done | Write | See | Ready


def sequential(moves: Iterable[Move]) -> list[Answer]:
    """Return the answers if each move were done before the next."""
    memory: list[int | None] = []
    answers: list[Answer] = []
    for move in moves:
        match move:
            case Place(value):
                memory.append(value)
            case Step(_, target, value, source) if target is not None:
                memory[target] = value if source is None else memory[source]
            case Write(place, value):
                memory[place] = value
            case See(place):
                answers.append(memory[place])
            case Ready():
                answers.append(True)
    return answers


def judge(moves: Iterable[Move], answers: Iterable[Answer]) -> Iterator[tuple[Answer, set[Answer]]]:
    """Give each answer with all the legal ones, over every order that fits the answers before."""
    worlds: set[World] = {(0, ())}
    steps: list[Step] = []
    known = 0
    given = iter(answers)
    for move in moves:
        match move:
            case Place(value):
                worlds = {(done, (*memory, value)) for done, memory in worlds}
            case Step():
                steps.append(move)
            case Done(wanted):
                worlds, known = _until(worlds, steps, wanted), known | wanted
            case Write(place, value):
                worlds = {(d, _put(m, place, value)) for d, m in _onward(worlds, steps)}
            case See(place):
                seen = next(given)
                worlds = _onward(worlds, steps)
                yield seen, {memory[place] for _, memory in worlds}
                worlds = {world for world in worlds if world[1][place] in (seen, None)}
            case Ready(wanted, late):
                ready = next(given)
                yield ready, {True, False} if late & ~known else {True}
                if ready:
                    worlds, known = _until(worlds, steps, wanted), known | wanted


def refute(moves: Iterable[Move], answers: Iterable[Answer]) -> str | None:
    """Say which answer no legal order gives; None if all are legal together."""
    for number, (answer, legal) in enumerate(judge(moves, answers)):
        if answer not in legal and None not in legal:
            return f"answer {number} is {answer}; legal: {legal}"
    return None


def _put(memory: Memory, place: int, value: int | None) -> Memory:
    return (*memory[:place], value, *memory[place + 1 :])


def _next(world: World, steps: Sequence[Step]) -> list[World]:
    done, memory = world
    worlds = []
    for number, step in enumerate(steps):
        if done >> number & 1 or step.needs & ~done:
            continue
        if step.target is None:  # the worlds in which it is done later hold nothing new
            return [(done | 1 << number, memory)]
        value = step.value if step.source is None else memory[step.source]
        worlds.append((done | 1 << number, _put(memory, step.target, value)))
    return worlds


def _onward(worlds: set[World], steps: Sequence[Step]) -> set[World]:
    """Return the worlds of now, if these are those of before: any number of steps was done."""
    return _explore(worlds, steps, -1)


def _until(worlds: set[World], steps: Sequence[Step], wanted: int) -> set[World]:
    """Return the worlds at the moment when the last of `wanted` is done."""
    return {world for world in _explore(worlds, steps, wanted) if not wanted & ~world[0]}


def _explore(worlds: set[World], steps: Sequence[Step], enough: int) -> set[World]:
    reached, waiting = set(worlds), list(worlds)
    while waiting:
        world = waiting.pop()
        if enough & ~world[0]:
            new = [other for other in _next(world, steps) if other not in reached]
            reached.update(new)
            waiting.extend(new)
    return reached
