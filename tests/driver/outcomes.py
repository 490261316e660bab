"""What a program does to memory, move by move, and every state that can come of it.

It knows nothing of CUDA: steps are queued with what they need, and run at any time after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Memory = tuple[int | None, ...]  # None: never written, so anything may be read
State = tuple[int, Memory]  # which steps are done, as bits, and what memory then holds
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
    states: set[State] = {(0, ())}
    steps: list[Step] = []
    known = 0
    given = iter(answers)
    for move in moves:
        match move:
            case Place(value):
                states = {(done, (*memory, value)) for done, memory in states}
            case Step():
                steps.append(move)
            case Done(wanted):
                states, known = _until(states, steps, wanted), known | wanted
            case Write(place, value):
                states = {(d, _put(m, place, value)) for d, m in _onward(states, steps)}
            case See(place):
                seen = next(given)
                states = _onward(states, steps)
                yield seen, {memory[place] for _, memory in states}
                states = {state for state in states if state[1][place] in (seen, None)}
            case Ready(wanted, late):
                ready = next(given)
                yield ready, {True, False} if late & ~known else {True}
                if ready:
                    states, known = _until(states, steps, wanted), known | wanted


def refute(moves: Iterable[Move], answers: Iterable[Answer]) -> str | None:
    """Say which answer no legal order gives; None if all are legal together."""
    for number, (answer, legal) in enumerate(judge(moves, answers)):
        if answer not in legal and None not in legal:
            return f"answer {number} is {answer}; legal: {legal}"
    return None


def _put(memory: Memory, place: int, value: int | None) -> Memory:
    return (*memory[:place], value, *memory[place + 1 :])


def _next(state: State, steps: Sequence[Step]) -> list[State]:
    done, memory = state
    states = []
    for number, step in enumerate(steps):
        if done >> number & 1 or step.needs & ~done:
            continue
        if step.target is None:  # the states in which it is done later hold nothing new
            return [(done | 1 << number, memory)]
        value = step.value if step.source is None else memory[step.source]
        states.append((done | 1 << number, _put(memory, step.target, value)))
    return states


def _onward(states: set[State], steps: Sequence[Step]) -> set[State]:
    """Return the states of now, if these are those of before: any number of steps was done."""
    return _explore(states, steps, -1)


def _until(states: set[State], steps: Sequence[Step], wanted: int) -> set[State]:
    """Return the states at the moment when the last of `wanted` is done."""
    return {state for state in _explore(states, steps, wanted) if not wanted & ~state[0]}


def _explore(states: set[State], steps: Sequence[Step], enough: int) -> set[State]:
    reached, waiting = set(states), list(states)
    while waiting:
        state = waiting.pop()
        if enough & ~state[0]:
            new = [other for other in _next(state, steps) if other not in reached]
            reached.update(new)
            waiting.extend(new)
    return reached
