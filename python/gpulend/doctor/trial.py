"""One pair of frameworks, tried in this process."""

from __future__ import annotations

import ctypes
import gc
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gpulend
from gpulend import _native, adapters
from gpulend._codes import BAD_ARGUMENT, NOT_KEPT
from gpulend.doctor.gate import Driver, DriverProblem
from gpulend.doctor.report import Pair, first_line
from gpulend.doctor.subjects import LEGACY, SHAPE, TYPE, Subject, subject

ROUNDS = 7
ROUND = 0.0005  # seconds
SETTLING, NAP = 3, 0.001  # rounds, and seconds between them
TRIES = 3  # of a hand-over that seems to make the host wait, where only the time shows it
# What gpulend refuses by name; any other exception is a failure.
REFUSALS = (
    gpulend.ExportError,
    gpulend.ProtocolError,
    gpulend.LayoutError,
    gpulend.NoDeviceError,
)

# Refusals that blame an adapter, and not the array.
ADAPTERS_BUGS = (BAD_ARGUMENT, NOT_KEPT)


class NoArray(Exception):
    """A framework makes no array here: it has no GPU, or says why it cannot."""


class Trials:
    """The pairs that are tried in one process, with its driver if there is one."""

    def __init__(self) -> None:
        # Why a framework makes no arrays: asked once, because it may take long to fail.
        self._refused: dict[tuple[str, str], str] = {}
        # Consumers that were warned, once in a process, not to write.
        self._warned: set[str] = set()
        try:
            self._driver: Driver | None = Driver()
        except (gpulend.Error, DriverProblem):
            self._driver = None

    def make(self, producer: Subject, memory: str) -> Any:
        """Return a new array of the framework: what was done to another one would show."""
        key = producer.name, memory
        function = producer.probe.gpu if memory == "gpu" else producer.probe.host
        if key not in self._refused:
            if function is None or (memory == "gpu" and self._driver is None):
                made = None
            else:
                try:
                    made = function(SHAPE, TYPE)
                except Exception as error:
                    self._refused[key] = f"{producer.name} makes no array: {first_line(error)}"
                    raise NoArray(self._refused[key]) from error
            if made is not None:
                return made
            where = "a GPU" if memory == "gpu" else "the host"
            self._refused[key] = f"{producer.name} makes no arrays on {where} here"
        raise NoArray(self._refused[key])

    def _prepare(self, consumer: Subject) -> None:
        try:
            if consumer.probe.prepare is not None:
                consumer.probe.prepare()
        except Exception as error:
            # Where a driver works, it is the consumer that does not.
            if self._driver is not None:
                raise
            raise NoArray(f"{consumer.name} takes no array: {first_line(error)}") from error

    def run_named(self, producer: str, consumer: str) -> Pair:
        """Try a pair by its names; a framework whose adapter cannot be used has no arrays."""
        sides = []
        for name in (producer, consumer):
            try:
                sides.append(subject(name))
            except Exception as error:
                problem = f"{name} cannot be tried: {first_line(error)}"
                return Pair(producer, consumer, "no array", problem=problem)
        return self.run(*sides)

    def run(self, producer: Subject, consumer: Subject) -> Pair:
        """Try memory of a GPU first, and memory of the host where that is not to be had."""
        tried: list[Pair] = []
        for memory in ("gpu", "host"):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                pair = self._try(producer, consumer, memory, said)
            if pair.status not in ("refused", "no array"):
                refused = [other for other in tried if other.status == "refused"]
                note = f"{refused[0].memory} memory: {refused[0].problem}" if refused else None
                return _with(pair, note=pair.note or note)
            tried.append(pair)
        # A refusal says more than that there is no array.
        return min(tried, key=lambda pair: pair.status != "refused")

    def _try(self, producer: Subject, consumer: Subject, memory: str, said: list[Any]) -> Pair:
        pair = Pair(producer.name, consumer.name, "failed", memory)
        try:
            source = self.make(producer, memory)
            self._prepare(consumer)
            route = _native.route(source)
            pair = _with(pair, borrowed_by="a lease already" if route == "gpulend" else route)
            received = consumer.take(source)
            pair = _with(pair, lent_by=_lent_by(consumer))
        except NoArray as error:
            return _with(pair, status="no array", problem=str(error))
        except REFUSALS as error:
            status = "failed" if error.code in ADAPTERS_BUGS else "refused"
            return _with(pair, status=status, problem=first_line(error))
        except Exception as error:
            return _with(pair, problem=first_line(error))
        if producer.immutable and any("never writes again" in str(w.message) for w in said):
            self._warned.add(consumer.name)
        try:
            there, here = producer.probe.address(source), consumer.probe.address(received)
            if there != here:
                problem = f"the memory is at {there:#x} and arrives at {here:#x}"
                return _with(pair, status="copied", problem=problem)
            order = self._order(producer, consumer, memory)
            return _with(
                pair,
                status="zero copy",
                zero_copy=True,
                readonly=self._readonly(producer, consumer, source),
                **self._capture(consumer, source),
                nanoseconds=_nanoseconds(consumer, source),
                **order,
            )
        except Exception as error:
            return _with(pair, problem=first_line(error))

    def _order(self, producer: Subject, consumer: Subject, memory: str) -> dict[str, Any]:
        """Hand over while the producer's stream is held, to another stream and to the usual one."""
        if self._driver is None:
            return {"order": "host memory"}

        def make() -> Any:
            return self.make(producer, memory)

        stream = producer.probe.stream
        if memory == "gpu" and stream is None:
            return {"order": "hidden"}
        held = stream() if memory == "gpu" and stream is not None else LEGACY
        other = gpulend.Stream(device="cuda:0")
        try:
            waits, order = self._held(held, consumer, make, other.handle, {"stream": other})
            named = True
        except gpulend.ProtocolError:
            # It was taken without a stream before: this consumer takes none of ours.
            waits, order = self._held(held, consumer, make, None, {})
            named = False
        usual = _current(consumer)
        if not named or order == "host wait" or usual is None:
            default = order
        else:
            _, default = self._held(held, consumer, make, usual, {})
        counted = "driver calls" if self._driver.simulated else "time"
        if memory == "host":
            order = default = "host memory"
        return {
            "order": order,
            "order_on_default_streams": default,
            "host_waits": waits,
            "host_waits_counted_by": counted,
        }

    def _held(
        self,
        held: int,
        consumer: Subject,
        make: Callable[[], Any],
        after: int | None,
        options: dict[str, Any],
    ) -> tuple[int, str]:
        """Hand over while a stream is held; count the host's waits and say what waits instead."""
        driver = self._driver
        assert driver is not None
        for _ in range(TRIES):
            source = make()
            gpulend.synchronize("cuda:0")
            before = driver.waits()
            end = driver.hold(held)
            received = consumer.take(source, **options)
            in_time = time.perf_counter() < end
            count = driver.waits() - before
            if not driver.simulated:
                count = max(count, int(not in_time))
            behind = after is not None and driver.is_behind(after)
            gpulend.synchronize("cuda:0")
            del received
            if count == 0:
                break
        if count:
            return count, "host wait"
        if after is None:
            return count, "hidden"
        if not behind:
            return count, "NOT ORDERED"
        return count, "same stream" if after == held else "event"

    def _readonly(self, producer: Subject, consumer: Subject, source: Any) -> str:
        """Say what became of read-only memory: kept, refused, or lost, which would be a bug."""
        if producer.immutable:
            readonly = gpulend.borrow(source)
            if not readonly.readonly:
                return "LOST"
        elif producer.probe.readonly is not None and not isinstance(source, gpulend.Lease):
            readonly = producer.probe.readonly(SHAPE, TYPE)
        else:
            readonly = gpulend.borrow(source).as_readonly()
        try:
            received = consumer.take(readonly)
        except gpulend.ExportError:
            return "refused"
        if gpulend.borrow(received).readonly:
            return "kept"
        # Where nothing marks it in the producer either, a warning is what was promised.
        return "warned" if producer.immutable and consumer.name in self._warned else "LOST"

    def _capture(self, consumer: Subject, source: Any) -> dict[str, Any]:
        """Hand over to a stream that captures, and see that the capture survives.

        What an earlier pair left may be freed meanwhile by its framework, which ends a capture as
        well: so one that was lost is tried again, which a note says.
        """
        if self._driver is None:
            return {"capture": "no GPU"}
        first = self._captured(self._driver, consumer, source)
        if first != "LOST":
            return {"capture": first}
        second = self._captured(self._driver, consumer, source)
        note = None if second == "LOST" else "of two captures, the first was lost"
        return {"capture": second, "note": note}

    def _captured(self, driver: Driver, consumer: Subject, source: Any) -> str:
        stream = gpulend.Stream(device="cuda:0")
        _settle()
        outcome, kept = "yes", None
        try:
            with driver.capture(stream):
                try:
                    kept = consumer.take(source, stream=stream)
                except gpulend.ProtocolError:
                    kept = consumer.take(source)
                except gpulend.Error:
                    outcome = "refused"
        except DriverProblem:
            outcome = "LOST"
        finally:
            gc.enable()
        del kept
        return outcome


def _settle() -> None:
    """Have everything freed that earlier pairs left, and nothing collected until `gc.enable`."""
    gc.collect()
    gc.disable()
    for _ in range(SETTLING):
        gpulend.synchronize("cuda:0")
        # So that the background thread runs, and then what it leaves to the next borrowing.
        time.sleep(NAP)
        gpulend.borrow(bytearray(1))


def _with(pair: Pair, **values: Any) -> Pair:
    return replace(pair, **values)


def _lent_by(consumer: Subject) -> str:
    if consumer.receive is not None:
        return "a lease"
    return adapters.load(consumer.name).protocol


def _current(consumer: Subject) -> int | None:
    """Return the consumer's current stream; None where it has none, or no GPU."""
    if consumer.probe.stream is None:
        return None
    try:
        return consumer.probe.stream()
    except Exception:
        # A framework of the CPU raises many kinds of errors.
        return None


def _nanoseconds(consumer: Subject, source: Any) -> float:
    """Return the median of a few short rounds."""
    take, clock = consumer.take, time.perf_counter_ns
    begin = clock()
    take(source)
    calls = max(1, min(1000, int(ROUND * 1e9 / max(clock() - begin, 1))))
    rounds = []
    for _ in range(ROUNDS):
        begin = clock()
        for _ in range(calls):
            take(source)
        rounds.append((clock() - begin) / calls)
    return statistics.median(rounds)


def check_driver() -> str | None:
    """Allocate, fill and read on device 0; return why that fails, if it does."""
    count = SHAPE[0] * SHAPE[1]
    numbers = (ctypes.c_float * count)()
    try:
        gpulend.full((count,), 1, TYPE, "cuda:0").copy_to(numbers)
    except Exception as error:
        return first_line(error)
    total = sum(numbers)
    return None if total == count else f"{count} ones were written, and their sum is {total}"
