"""A naive oracle of the driver: CUDA's published rules of order. `outcomes` tries all they allow.

A rule stands here only if NVIDIA's documents promise it ("API synchronization behavior" and "Stream
synchronization behavior" in the driver's reference, and the programming guide). Where a driver may
wait but need not, the oracle does not count on it: an answer it calls impossible breaks a promise.
"""

from __future__ import annotations

from dataclasses import dataclass

from .outcomes import Done, Move, Place, Ready, See, Step, Write

BLOCKING, FREE, LEGACY = "blocking", "non-blocking", "legacy"


@dataclass(frozen=True)
class Stream:
    """A stream of a device. The legacy one waits for the blocking ones, and they for it."""

    device: int
    kind: str


class Oracle:
    """Takes the calls of a program, in order. A copy is two steps: nobody promises it is one."""

    # A synchronous copy between devices comes after all the work that both have and before all
    # that they get: so the programming guide and the reference of cudaMemcpyPeer; that of
    # cuMemcpyPeer is silent.
    serial_peers = True

    def __init__(self, streams: list[Stream]) -> None:
        self.streams = streams
        self.moves: list[Move] = []
        self.over = 0  # steps that the host has waited for
        self.queued_on: list[int] = []  # the stream of each step
        self.readers: list[int] = []  # steps that read each cell
        self.writers: list[int] = []
        self._places = 0
        self._cells: list[tuple[int, int | None]] = []  # place and device, None: pinned
        self._behind = [0] * len(streams)
        self._barrier: dict[int, int] = {}
        self._events: dict[int, int] = {}

    def needs(self, stream: int) -> int:
        """Return all the steps that the next action of `stream` waits for."""
        mine = self.streams[stream]
        needs = self._behind[stream] | self._barrier.get(mine.device, 0)
        for other, its in enumerate(self.streams):
            if its.device == mine.device and {its.kind, mine.kind} == {BLOCKING, LEGACY}:
                needs |= self._behind[other]
        return needs

    def legacy(self, device: int) -> int:
        """Return the stream that synchronous calls use."""
        return self.streams.index(Stream(device, LEGACY))

    def _place(self, value: int | None) -> int:
        self.moves.append(Place(value))
        self._places += 1
        return self._places - 1

    def _queue(self, stream: int, **what: int | None) -> int:
        return self._add(stream, self.needs(stream), **what)

    def _add(self, stream: int, needs: int, **what: int | None) -> int:
        self.moves.append(Step(needs, **what))
        bit = 1 << len(self.queued_on)
        self.queued_on.append(stream)
        self._behind[stream] = needs | bit
        return bit

    def _wait(self, steps: int) -> None:
        self.over |= steps
        self.moves.append(Done(steps))

    def allocate(self, device: int | None, value: int | None) -> None:
        """Make a cell of device memory, or of pinned memory if `device` is None."""
        self._cells.append((self._place(value), device))
        self.readers.append(0)
        self.writers.append(0)

    def allocate_async(self, stream: int) -> None:
        """Make a cell in stream order."""
        self.allocate(self.streams[stream].device, None)
        self.fill(stream, len(self._cells) - 1, None)

    def free(self, cell: int) -> None:
        """Free at once. Steps queued before still have the cell."""

    def free_async(self, stream: int, cell: int) -> None:
        """Free in stream order."""
        self.fill(stream, cell, None)

    def fill(self, stream: int, cell: int, value: int | None) -> None:
        """Fill asynchronously."""
        self.writers[cell] |= self._queue(stream, target=self._cells[cell][0], value=value)

    def fill_now(self, device: int, cell: int, value: int) -> None:
        """Fill through the legacy stream; the host waits only if the cell is pinned."""
        stream = self.legacy(device)
        self.fill(stream, cell, value)
        if self._cells[cell][1] is None:
            self._wait(self._behind[stream])

    def upload(self, device: int, cell: int, value: int) -> None:
        """Copy from pageable memory: its bytes are taken, but the copy need not be done."""
        self.fill(self.legacy(device), cell, value)

    upload_async = fill

    def copy(self, stream: int, target: int, source: int) -> None:
        """Copy asynchronously."""
        register = self._place(None)
        origin, to = self._cells[source][0], self._cells[target][0]
        self.readers[source] |= self._queue(stream, target=register, source=origin)
        self.writers[target] |= self._queue(stream, target=to, source=register)

    def copy_now(self, target: int, source: int) -> None:
        """Copy through the legacy stream; the host waits if either cell is pinned."""
        ends = [self._cells[cell][1] for cell in (target, source)]
        devices = {device for device in ends if device is not None}
        stream = self.legacy(next(device for device in ends if device is not None))
        serial = self.serial_peers and len(devices) == 2
        if serial:
            for device in devices:
                self._behind[stream] |= self._everything(device)
        self.copy(stream, target, source)
        if serial:
            self._barrier.update(dict.fromkeys(devices, self._behind[stream]))
        if None in ends:
            self._wait(self._behind[stream])

    def download(self, device: int, cell: int) -> None:
        """Copy to the host, which waits for it and looks."""
        stream, register = self.legacy(device), self._place(None)
        origin = self._cells[cell][0]
        self.readers[cell] |= self._queue(stream, target=register, source=origin)
        self._wait(self._behind[stream])
        self.moves.append(See(register))

    def poke(self, cell: int, value: int) -> None:
        """Write pinned memory on the host."""
        self.moves.append(Write(self._cells[cell][0], value))

    def peek(self, cell: int) -> None:
        """Read pinned memory on the host."""
        self.moves.append(See(self._cells[cell][0]))

    def _mark(self, stream: int, needs: int = 0) -> int:
        """Queue what is no work: a record or a wait, an action in the legacy stream only.

        A driver may leave out a wait for what has happened. So who waits for a blocking stream
        behind one need not have waited for the legacy stream; hardware shows it of records too.
        """
        acts = self.streams[stream].kind == LEGACY
        return self._add(stream, needs | (self.needs(stream) if acts else self._behind[stream]))

    def record(self, event: int, stream: int) -> None:
        """Let the event stand for all that `stream` has to do, and for what that waits for."""
        before = self.needs(stream)
        self._events[event] = before | self._mark(stream)

    def wait(self, stream: int, event: int) -> None:
        """Let `stream` wait for what the event stands for now; for none, it is a no-op."""
        if event in self._events:
            self._mark(stream, self._events[event])

    def query(self, stream: int) -> None:
        """Ask whether a stream has work. Whether it counts that of others is not promised."""
        device = self.streams[stream].device
        late = self._everything(device) if stream == self.legacy(device) else self.needs(stream)
        self.moves.append(Ready(self._behind[stream], late))

    def query_event(self, event: int) -> None:
        """Ask whether an event has happened."""
        steps = self._events.get(event, 0)
        self.moves.append(Ready(steps, steps))

    def synchronize(self, stream: int) -> None:
        """Wait for a stream."""
        self._wait(self._behind[stream])

    def synchronize_event(self, event: int) -> None:
        """Wait for an event."""
        self._wait(self._events.get(event, 0))

    def synchronize_device(self, device: int) -> None:
        """Wait for all the streams of a device's context."""
        self._wait(self._everything(device))

    def _everything(self, device: int) -> int:
        steps = self._barrier.get(device, 0)
        for behind, stream in zip(self._behind, self.streams, strict=True):
            steps |= behind if stream.device == device else 0
        return steps
