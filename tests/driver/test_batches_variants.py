"""Batches through the per-thread variants and the old form, and copies with attributes."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint64

import pytest

from .bench import SIZE, Bench, hold_legacy, peek
from .calls import prepare
from .control import BEHAVING, only_simulated
from .cuda import CopyAttributes, check
from .resources import PER_THREAD, Resources, download, pattern
from .variants import cu

pytestmark = only_simulated

OWN = [row.symbol for row in BEHAVING if row.topic == "batches" and row.per_thread]
COPIES = [symbol for symbol in OWN if symbol.startswith("cuMemcpy")]
STREAM, DURING_CALL, ANY = 1, 2, 3


@pytest.mark.parametrize("symbol", OWN)
def test_a_variant_works_on_the_threads_own_stream(gpu: Resources, symbol: str) -> None:
    """The legacy stream cannot run meanwhile."""
    bench = Bench(gpu, per_thread=True)
    call = prepare(symbol, bench)
    hold_legacy(gpu)
    assert call() == 0
    check(cu.cuStreamSynchronize(PER_THREAD))
    if symbol in COPIES:
        assert peek(gpu, bench.device) == pattern(SIZE, 2)


def test_the_old_form_says_where_it_failed(gpu: Resources) -> None:
    """That is: that it does not know."""
    target, stream, failed = gpu.alloc(SIZE), gpu.stream(), c_size_t(5)
    one, size = (c_uint64 * 1)(target), (c_size_t * 1)(SIZE)
    kinds = (CopyAttributes(0), (c_size_t * 1)(0))
    given = (one, one, size, 1, byref(kinds[0]), kinds[1], 1, byref(failed), stream)
    assert cu.cuMemcpyBatchAsync(*given) == 1
    assert failed.value == (1 << 64) - 1


@pytest.mark.parametrize(("order", "wanted"), [(STREAM, 2), (DURING_CALL, 1)])
def test_a_copy_reads_its_source_when_its_attributes_say(
    gpu: Resources, order: int, wanted: int
) -> None:
    """In the stream's order, or during the call; the legacy stream is refused."""
    stream, gate, target = gpu.stream(), gpu.gate(), gpu.alloc(SIZE)
    source, attributes = gpu.pinned(SIZE, fill=1), CopyAttributes(order)
    gate.hold(stream)
    copy = cu.cuMemcpyWithAttributesAsync
    check(copy(target, source, SIZE, byref(attributes), stream))
    ctypes.memset(source, 2, SIZE)
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert download(target, SIZE) == bytes([wanted] * SIZE)
    assert copy(target, source, SIZE, byref(attributes), None) == 1
    assert copy(target, source, SIZE, byref(CopyAttributes(0)), stream) == 1
