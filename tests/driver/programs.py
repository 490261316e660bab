"""Random programs: what hypothesis draws, made into valid calls for a driver and for an oracle."""

from __future__ import annotations

import functools
import itertools
import operator
from typing import Any

from hypothesis import strategies as st

from .oracle import BLOCKING, FREE, LEGACY, Oracle, Stream

QUEUED = 12  # operations that one program may queue
SLOTS = 6  # two cells of device memory on each device, two of pinned memory
EVENTS = 4  # two of each device; further events are made as ordering needs them

VERBS = [
    *["fill", "fill", "fill", "copy", "copy", "copy", "copy", "upload_async"],
    *["fill_now", "copy_now", "upload", "download", "poke", "peek"],
    *["record", "record", "wait", "wait", "renew", "renew_async"],
    *["query", "query_event", "synchronize", "synchronize_event", "synchronize_device"],
]

Instruction = tuple[str, int, int, int, bool]  # verb, stream, target, source or event, marked


@st.composite
def idioms(draw: st.DrawFn) -> list[Instruction]:
    """Draw a few instructions that belong together, which chance would seldom bring together."""
    device, k = draw(st.integers(0, 1)), st.integers(0, 1)
    legacy, blocking, other = 4 + device, 2 * device, 2 - 2 * device
    here = st.sampled_from([legacy, blocking, blocking + 1, other])  # `other`: if all are on one
    one, two, three = draw(here), draw(here), draw(here)
    cell, event, pinned = 2 * device + draw(k), 2 * device + draw(k), 4 + draw(k)

    def do(verb: str, stream: int = 0, target: int = 0, source: int = event) -> Instruction:
        return verb, stream, target, source, False

    write = do(draw(st.sampled_from(["fill", "upload_async"])), one, cell)
    now = do(draw(st.sampled_from(["fill_now", "upload"])), one, cell)
    copied = do("copy_now", one, cell, draw(st.sampled_from([pinned, other])))
    record, wait, again = do("record", one), do("wait", two), do("record", three)
    action = do(draw(st.sampled_from(["fill", "record", "wait"])), legacy, 2 * device)
    settled, look = do("synchronize_event"), do("peek", 0, pinned)
    read = [do("copy", two, pinned, cell), do("synchronize", two), look]
    every = [
        [write, *read],
        [write, record, wait, *read],  # a hand-over
        [write, record, wait, again, *read],  # the wait is not for the second record
        [wait, write, record, *read],  # nor for one that comes later
        [again, settled, write, action, *read],  # across the legacy stream
        [do("fill", one, pinned), record, settled, look],
        [now, *read],
        [copied, *read],
    ]
    return draw(st.sampled_from(every))


def instructions() -> st.SearchStrategy[list[Instruction]]:
    """Draw what a program is made of."""
    numbers = st.integers(0, 5)
    one = st.tuples(st.sampled_from(VERBS), numbers, numbers, numbers, st.booleans())
    several = st.one_of(one.map(lambda instruction: [instruction]), idioms())
    return st.lists(several, min_size=2, max_size=14).map(
        lambda parts: list(itertools.chain.from_iterable(parts))
    )


class Program:
    """Calls that are valid whatever was drawn: what makes no sense in its place is left out.

    If `ordered`, each pair of conflicting accesses is ordered: by the rules alone where they
    suffice, else by an event. If not, only what would be undefined without it is: the first use
    of memory after its allocation in another stream, a free after the last.
    """

    def __init__(
        self,
        drawn: list[Instruction],
        *,
        devices: int,
        ordered: bool,
        quiet: bool = False,
        oracle: type[Oracle] = Oracle,
    ) -> None:
        home = [0, 0, devices - 1, devices - 1]
        kinds = [BLOCKING, FREE, BLOCKING, FREE]
        streams = [Stream(device, kind) for device, kind in zip(home, kinds, strict=True)]
        streams += [Stream(device, LEGACY) for device in range(devices)]
        self.calls: list[list[Any]] = []
        self.oracle = oracle(streams)
        self._ordered = ordered
        self._quiet = quiet or ordered  # the host touches only memory that nothing is queued on
        self._home = [*home, None, None]
        self._slots: list[int | None] = [None] * SLOTS
        self._birth: dict[int, int] = {}  # steps that cells made in stream order wait for
        self._cells = self._events = self._queued = 0
        self._marks: dict[int, int] = {}  # steps and the events recorded right behind them
        for slot, device in enumerate(self._home):
            self._slots[slot] = self._made("allocate", device, 200 + slot)
        self._events = EVENTS
        for number, (verb, stream, target, source, marked) in enumerate(drawn, 1):
            self._step(verb, stream, target, source, marked, number)
        for device in range(devices):
            self._emit("synchronize_device", device)
        for slot, cell in enumerate(self._slots):
            if cell is not None and self._home[slot] is None:
                self._emit("peek", cell)
            elif cell is not None:
                self._emit("download", self._home[slot], cell)

    @property
    def streams(self) -> list[Stream]:
        """The streams that the calls number."""
        return self.oracle.streams

    def __str__(self) -> str:
        kinds = [f"{n}: {s.kind} on {s.device}" for n, s in enumerate(self.streams)]
        return "\n".join([", ".join(kinds), *[" ".join(map(str, call)) for call in self.calls]])

    def _emit(self, name: str, *arguments: Any) -> None:
        self.calls.append([name, *arguments])
        getattr(self.oracle, name)(*arguments)

    def _made(self, name: str, *arguments: Any) -> int:
        self._emit(name, *arguments)
        self._cells += 1
        return self._cells - 1

    def _step(
        self, verb: str, stream: int, target: int, source: int, marked: bool, value: int
    ) -> None:
        streams = self.streams
        stream = min(stream, len(streams) - 1)
        device, event = streams[stream].device, source % EVENTS
        to, origin = self._slots[target], self._slots[source]
        ends = [self._home[slot] for slot in (target, source)]
        match verb:
            case "query" | "synchronize":
                self._emit(verb, stream)
            case "query_event" | "synchronize_event":
                self._emit(verb, event)
            case "synchronize_device":
                self._emit(verb, device)
            case "record":
                self._emit(verb, event, self._beside(stream, self._home[event]))
            case "wait":
                self._emit(verb, stream, event)
            case "poke" | "peek":
                self._host(verb, self._slots[4 + target % 2], value)
            case _ if self._queued == QUEUED:
                pass
            case "renew" | "renew_async":
                self._renew(target % 4, self._beside(stream, self._home[target % 4]), verb)
            case "fill" | "upload_async" if to is not None and (
                verb == "fill" or ends[0] is not None
            ):
                self._queue(self._beside(stream, ends[0]), [], [to], marked, verb, to, value)
            case "fill_now" | "upload" | "download" if to is not None and (
                verb == "fill_now" or ends[0] is not None
            ):
                device = device if ends[0] is None else ends[0]
                access = ([to], []) if verb == "download" else ([], [to])
                last = [] if verb == "download" else [value]
                self._now(device, *access, verb, device, to, *last)
            case "copy" if (
                to is not None and origin is not None and self._can_copy(ends, to, origin)
            ):
                if None in ends or ends[0] == ends[1]:
                    stream = self._beside(stream, ends[0] if ends[1] is None else ends[1])
                self._queue(stream, [origin], [to], marked, verb, to, origin)
            case "copy_now" if (
                to is not None and origin is not None and self._can_copy(ends, to, origin)
            ):
                device = next(end for end in ends if end is not None)
                self._now(device, [origin], [to], verb, to, origin)

    def _can_copy(self, ends: list[int | None], target: int, source: int) -> bool:
        """Not within the host. Pools are closed to other devices until they are opened."""
        peers = None not in ends and ends[0] != ends[1]
        pooled = target in self._birth or source in self._birth
        return target != source and ends != [None, None] and not (peers and pooled)

    def _beside(self, stream: int, device: int | None) -> int:
        """Return the stream of the same kind on the device whose memory is touched."""
        wanted = self.streams[stream]
        if device is None or wanted.device == device:
            return stream
        return self.streams.index(Stream(device, wanted.kind))

    def _queue(
        self, stream: int, reads: list[int], writes: list[int], marked: bool, *call: Any
    ) -> None:
        self._order(stream, self._before(reads, writes))
        self._emit(call[0], stream, *call[1:])
        self._queued += 1
        if marked:
            self._mark(len(self.oracle.queued_on) - 1)

    def _now(self, device: int, reads: list[int], writes: list[int], *call: Any) -> None:
        self._order(self.oracle.legacy(device), self._before(reads, writes))
        self._emit(*call)
        self._queued += 1

    def _before(self, reads: list[int], writes: list[int]) -> int:
        """Return the steps that an access has to wait for."""
        steps = [self._birth.get(cell, 0) for cell in reads + writes]
        if self._ordered:
            steps += [self.oracle.writers[cell] for cell in reads + writes]
            steps += [self.oracle.readers[cell] for cell in writes]
        return functools.reduce(operator.or_, steps, 0)

    def _mark(self, step: int) -> None:
        """Record a new event in the stream of a step."""
        self._marks[step] = self._events
        self._emit("record", self._events, self.oracle.queued_on[step])
        self._events += 1

    def _order(self, stream: int, steps: int) -> None:
        """Let `stream` wait for those of the steps that no rule puts before it."""
        while missing := steps & ~self.oracle.needs(stream) & ~self.oracle.over:
            newest = missing.bit_length() - 1
            if newest not in self._marks:
                self._mark(newest)
            self._emit("wait", stream, self._marks[newest])

    def _settle(self, steps: int) -> None:
        """Let the host wait for the steps."""
        while missing := steps & ~self.oracle.over:
            newest = missing.bit_length() - 1
            if newest in self._marks:
                self._emit("synchronize_event", self._marks[newest])
            else:
                self._emit("synchronize", self.oracle.queued_on[newest])

    def _host(self, verb: str, cell: int | None, value: int) -> None:
        assert cell is not None
        writes, reads = self.oracle.writers[cell], self.oracle.readers[cell]
        if self._quiet:
            self._settle(writes | (reads if verb == "poke" else 0))
        self._emit(verb, cell, *[value] * (verb == "poke"))

    def _renew(self, slot: int, stream: int, verb: str) -> None:
        """Free a cell, or make a new one where there is none."""
        cell, device = self._slots[slot], self._home[slot]
        if cell is None and verb == "renew":
            self._slots[slot] = self._made("allocate", device, None)
        elif cell is None:
            self._slots[slot] = self._made("allocate_async", stream)
            self._birth[self._cells - 1] = 1 << (len(self.oracle.queued_on) - 1)
            self._queued += 1
        elif verb == "renew":
            self._settle(self._unprotected(cell, device))
            self._emit("free", cell)
            self._slots[slot] = None
        else:
            self._order(stream, self.oracle.readers[cell] | self.oracle.writers[cell])
            self._emit("free_async", stream, cell)
            self._slots[slot] = None
            self._queued += 1

    def _unprotected(self, cell: int, device: int | None) -> int:
        """Return the uses that a plain free may not wait for: other devices', all of a pool's."""
        uses = self.oracle.readers[cell] | self.oracle.writers[cell]
        if cell in self._birth:
            return uses
        streams = enumerate(self.oracle.queued_on)
        away = [1 << step for step, stream in streams if self.streams[stream].device != device]
        return uses & sum(away)
