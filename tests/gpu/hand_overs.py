"""A hand-over between two frameworks, each on a stream that the test chose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gpulend
from frameworks import ON_STREAMS, OnStreams

from .resources import REAL

SIZE = 1 << 18 if REAL else 1 << 12


def pairs() -> list[tuple[str, str]]:
    """Return each ordered pair of frameworks that hand GPU memory over on streams here."""
    return [(producer, consumer) for producer in ON_STREAMS for consumer in ON_STREAMS]


@contextmanager
def hand_over(
    producer: OnStreams, consumer: OnStreams, array: Any, before: Any, after: Any, at_once: bool
) -> Iterator[Any]:
    """Hand an array over: in one call, or by a lease that is borrowed first and lent then."""
    if at_once and producer.name != consumer.name:
        with producer.current(before), consumer.current(after):
            taken = consumer.take_on(after, producer.give_on(before, array))
    else:
        with producer.current(before):
            lease = gpulend.borrow(producer.give_on(before, array))
        with consumer.current(after):
            taken = consumer.take_on(after, lease)
        del lease
    yield taken
