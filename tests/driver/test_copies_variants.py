"""Copies and memsets through the per-thread variants: stream 0 is the calling thread's own."""

from __future__ import annotations

import pytest

from .bench import SIZE, Bench, hold_legacy, peek
from .calls import prepare
from .control import BEHAVING, only_simulated
from .cuda import check
from .resources import PER_THREAD, Resources, pattern
from .variants import base, cu

pytestmark = only_simulated

NOT_READY = 600
COPIES = [row.symbol for row in BEHAVING if row.topic == "copies" and row.per_thread]
# It comes after all work of both contexts, the legacy stream's too.
SERIAL = "cuMemcpyPeer_ptds"
SYNCHRONOUS = [symbol for symbol in COPIES if symbol.endswith("_ptds")]
ASYNCHRONOUS = [symbol for symbol in COPIES if symbol.endswith("_ptsz")]


def _target(bench: Bench, symbol: str) -> bytes:
    """Return what is now where the call writes to."""
    name = base(symbol)
    if name == "cuMemcpyDtoH_v2":
        return bench.pages.raw
    return peek(bench.resources, bench.pinned if name == "cuMemcpyDtoHAsync_v2" else bench.device)


def _right(symbol: str) -> bytes:
    """Return what the call writes, as `calls_ordered.py` and `bench.py` have it."""
    name = base(symbol)
    if name.startswith("cuMemset"):
        bytes_each = int(name.removesuffix("_v2").removesuffix("Async").rpartition("D")[2]) // 8
        return (9).to_bytes(bytes_each, "little") * (SIZE // bytes_each)
    return pattern(SIZE, {"cuMemcpyHtoD_v2": 5, "cuMemcpyHtoDAsync_v2": 3}.get(name, 2))


@pytest.mark.parametrize("symbol", [symbol for symbol in COPIES if symbol != SERIAL])
def test_a_variant_writes_the_right_bytes_without_the_legacy_stream(
    gpu: Resources, symbol: str
) -> None:
    """The legacy stream cannot run meanwhile: work on it would not be done."""
    bench = Bench(gpu, per_thread=True)
    call = prepare(symbol, bench)
    assert _target(bench, symbol) != _right(symbol)
    hold_legacy(gpu)
    assert call() == 0
    check(cu.cuStreamSynchronize(PER_THREAD))
    assert _target(bench, symbol) == _right(symbol)


def test_a_copy_between_contexts_waits_for_all_their_work(gpu: Resources) -> None:
    """In the variant, too: a blocking stream holds it back."""
    bench = Bench(gpu, per_thread=True)
    call = prepare(SERIAL, bench)
    gate = gpu.gate()
    gate.hold(gpu.stream(0))
    assert call() == 0
    assert cu.cuStreamQuery(PER_THREAD) == NOT_READY
    gate.open()
    check(cu.cuStreamSynchronize(PER_THREAD))
    assert _target(bench, SERIAL) == _right(SERIAL)


@pytest.mark.parametrize("symbol", ASYNCHRONOUS)
def test_a_variant_stands_behind_what_the_thread_queued(gpu: Resources, symbol: str) -> None:
    """Its work is in the order of the thread's own stream."""
    bench = Bench(gpu, per_thread=True)
    call = prepare(symbol, bench)
    before = _target(bench, symbol)
    gate = gpu.gate()
    gate.hold(PER_THREAD)
    assert call() == 0
    assert cu.cuStreamQuery(PER_THREAD) == NOT_READY
    assert _target(bench, symbol) == before
    gate.open()
    check(cu.cuStreamSynchronize(PER_THREAD))
    assert _target(bench, symbol) == _right(symbol)


@pytest.mark.parametrize("symbol", ASYNCHRONOUS)
def test_a_variant_takes_other_streams_as_they_are(gpu: Resources, symbol: str) -> None:
    """Only 0 means something else."""
    bench = Bench(gpu, per_thread=True)
    bench.stream = gpu.stream()
    call = prepare(symbol, bench)
    gate = gpu.gate()
    gate.hold(PER_THREAD)
    assert call() == 0
    check(cu.cuStreamSynchronize(bench.stream))
    assert _target(bench, symbol) == _right(symbol)


def test_there_are_variants_of_both_kinds() -> None:
    """Of what waits, and of what is queued."""
    assert len(SYNCHRONOUS) == 14
    assert len(ASYNCHRONOUS) == 13
