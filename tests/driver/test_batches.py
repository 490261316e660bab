"""Batches of copies and of ranges of managed memory, and advice about such ranges."""

from __future__ import annotations

import ctypes
from ctypes import addressof, byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

import pytest

from .control import only_simulated
from .cuda import CopyAttributes, Location, check, cu
from .resources import DEVICE, HOST, LEGACY, Resources, download, pattern, upload

STREAM, DURING_CALL, ANY = 1, 2, 3  # CUmemcpySrcAccessOrder
READ_MOSTLY, PREFERRED, ACCESSED_BY, LAST_PREFETCH = 1, 2, 3, 4  # CUmem_range_attribute
CPU, NOWHERE = -1, -2
SIZE = 64


def batch(copies: list[tuple[int, int, int]], stream: int | None, *orders: tuple[int, int]) -> int:
    """Copy (target, source, size); `orders` are (first copy, source's access order)."""
    columns = zip(*copies, strict=True)
    targets, sources, sizes = ((c_uint64 * len(copies))(*column) for column in columns)
    listed = orders or ((0, STREAM),)
    attributes = (CopyAttributes * len(listed))(*[CopyAttributes(order) for _, order in listed])
    starts = (c_size_t * len(listed))(*[start for start, _ in listed])
    count, kinds = len(copies), len(listed)
    return cu.cuMemcpyBatchAsync_v2(
        targets, sources, sizes, count, attributes, starts, kinds, stream
    )


@pytest.mark.parametrize("order", [STREAM, DURING_CALL, ANY])
def test_a_batch_copies_all_its_pairs(gpu: Resources, order: int) -> None:
    """In any direction, after earlier work of the stream and before later work."""
    stream, one, other = gpu.stream(), gpu.alloc(SIZE), gpu.alloc(SIZE)
    up, down = gpu.pinned(SIZE, fill=3), gpu.pinned(SIZE)
    upload(one, pattern(SIZE))
    check(cu.cuStreamSynchronize(None))
    check(batch([(other, up, SIZE), (down, one, SIZE)], stream, (0, order)))
    check(cu.cuMemsetD8Async(other, 9, 8, stream))
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(down, SIZE) == pattern(SIZE)
    assert download(other, SIZE) == b"\x09" * 8 + b"\3" * (SIZE - 8)


def test_the_source_is_read_when_the_attributes_say(gpu: Resources) -> None:
    """During the call, for which hardware waits for the stream; or when the stream gets there."""
    stream, gate = gpu.stream(), gpu.gate()
    targets, source = [gpu.alloc(SIZE) for _ in range(2)], gpu.pinned(SIZE, fill=1)
    check(batch([(targets[0], source, SIZE)], stream, (0, DURING_CALL)))
    gate.hold(stream)
    check(batch([(targets[1], source, SIZE)], stream, (0, STREAM)))
    ctypes.memset(source, 2, SIZE)
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert [download(target, 1) for target in targets] == [b"\1", b"\2"]


def test_a_wrong_batch_copies_nothing(gpu: Resources) -> None:
    """Without copies or sizes, with attributes that do not fit, or memory that is not there."""
    stream, target, source = gpu.stream(), gpu.alloc(SIZE), gpu.alloc(SIZE)
    check(cu.cuMemsetD8_v2(target, 5, SIZE))
    check(cu.cuCtxSynchronize())
    good = (target, source, SIZE)
    assert batch([good], stream, (0, 0)) == 1
    assert batch([good], stream, (0, 9)) == 1
    assert batch([good], stream, (1, STREAM)) == 1
    assert batch([good, good], stream, (0, STREAM), (0, ANY)) == 1
    assert batch([good], stream, (0, STREAM), (1, ANY)) == 1
    assert batch([(target, source, SIZE << 20), good], stream) == 1
    nothing = (c_void_p * 1)()
    assert cu.cuMemcpyBatchAsync_v2(nothing, nothing, nothing, 0, nothing, nothing, 0, stream) == 1
    check(cu.cuStreamSynchronize(stream))
    assert download(target, SIZE) == b"\5" * SIZE


@only_simulated
def test_a_count_alone_takes_no_memory(gpu: Resources) -> None:
    """Lists that are not there are refused before anything is made for as many."""
    order, start, count = CopyAttributes(STREAM), c_size_t(0), 1 << 50
    lists = (None, None, None, count)
    stream = gpu.stream()
    assert cu.cuMemcpyBatchAsync_v2(*lists, byref(order), byref(start), 1, stream) == 1
    address = gpu.managed(4096)
    assert cu.cuMemRangeGetAttributes(*lists, address, 4096) == 1


def test_a_large_source_is_read_during_the_call_too(gpu: Resources) -> None:
    """Its host memory may be changed as soon as the call returns."""
    size = 4 << 20
    stream, target, source = gpu.stream(), gpu.alloc(size), gpu.pinned(size, fill=1)
    check(batch([(target, source, size)], stream, (0, DURING_CALL)))
    ctypes.memset(source, 2, size)
    check(cu.cuStreamSynchronize(stream))
    assert download(target, size) == b"\1" * size


def test_a_batch_is_copied_up_to_its_wrong_pair(gpu: Resources) -> None:
    """The call fails; the pairs before it were queued."""
    stream, target, source = gpu.stream(), gpu.alloc(SIZE), gpu.alloc(SIZE)
    check(cu.cuMemsetD8_v2(source, 7, SIZE))
    check(cu.cuCtxSynchronize())
    assert batch([(target, source, SIZE), (target, source, SIZE << 20)], stream) == 1
    check(cu.cuStreamSynchronize(stream))
    assert download(target, SIZE) == b"\7" * SIZE


@pytest.mark.parametrize("stream", [None, LEGACY])
def test_the_legacy_stream_takes_no_batch(gpu: Resources, stream: int | None) -> None:
    """By either of its names."""
    assert batch([(gpu.alloc(SIZE), gpu.alloc(SIZE), SIZE)], stream) == 1


def test_a_batch_cannot_be_captured(gpu: Resources) -> None:
    """It has no node."""
    stream = gpu.stream()
    check(cu.cuStreamBeginCapture_v2(stream, 2))
    assert batch([(gpu.alloc(SIZE), gpu.alloc(SIZE), SIZE)], stream) == 900


def _range(attribute: int, address: int, size: int, room: int = 1) -> Any:
    found = (c_int * room)(*[77] * room)
    check(cu.cuMemRangeGetAttribute(byref(found), 4 * room, attribute, address, size))
    return list(found) if room > 1 else found[0]


def test_advice_is_told_back(gpu: Resources) -> None:
    """Each kind by its attribute; taken back, it is gone."""
    size = 2 << 20
    address, here = gpu.managed(size), Location(DEVICE, 0)
    assert _range(READ_MOSTLY, address, size) == 0
    assert _range(PREFERRED, address, size) == NOWHERE
    check(cu.cuMemAdvise_v2(address, size, 1, here))
    check(cu.cuMemAdvise_v2(address, size, 3, here))
    check(cu.cuMemAdvise_v2(address, size, 5, here))
    assert _range(READ_MOSTLY, address, size) == 1
    assert _range(PREFERRED, address, size) == 0
    assert _range(ACCESSED_BY, address, size, 2) == [0, NOWHERE]
    check(cu.cuMemAdvise_v2(address, size, 3, Location(HOST, 0)))
    assert _range(PREFERRED, address, size) == CPU
    for advice in (2, 4, 6):
        check(cu.cuMemAdvise_v2(address, size, advice, here))
    assert _range(READ_MOSTLY, address, size) == 0
    assert _range(PREFERRED, address, size) == NOWHERE
    assert _range(ACCESSED_BY, address, size, 2) == [NOWHERE, NOWHERE]


def test_advice_for_a_part_holds_for_the_part(gpu: Resources) -> None:
    """And not for the whole."""
    size = 4 << 20
    address = gpu.managed(size)
    check(cu.cuMemAdvise_v2(address, size // 2, 1, Location(DEVICE, 0)))
    assert _range(READ_MOSTLY, address, size // 2) == 1
    assert _range(READ_MOSTLY, address, size) == 0
    assert _range(READ_MOSTLY, address + size // 2, size // 2) == 0


def test_advice_for_the_middle_leaves_both_ends(gpu: Resources) -> None:
    """And the same advice again makes it one range."""
    part = 2 << 20
    address, size = gpu.managed(3 * part), 3 * part
    check(cu.cuMemAdvise_v2(address, size, 3, Location(DEVICE, 0)))
    check(cu.cuMemAdvise_v2(address + part, part, 3, Location(HOST, 0)))
    parts = [_range(PREFERRED, address + start, part) for start in range(0, size, part)]
    assert parts == [0, CPU, 0]
    assert _range(PREFERRED, address, size) == NOWHERE
    check(cu.cuMemAdvise_v2(address + part, part, 3, Location(DEVICE, 0)))
    assert _range(PREFERRED, address, size) == 0


def test_several_attributes_are_told_at_once(gpu: Resources) -> None:
    """Each where it is wanted."""
    address = gpu.managed(4096)
    check(cu.cuMemAdvise_v2(address, 4096, 1, Location(DEVICE, 0)))
    first, second = c_int(77), c_int(77)
    places = (c_void_p * 2)(addressof(first), addressof(second))
    rooms, wanted = (c_size_t * 2)(4, 4), (c_int * 2)(READ_MOSTLY, PREFERRED)
    check(cu.cuMemRangeGetAttributes(places, rooms, wanted, 2, address, 4096))
    assert (first.value, second.value) == (1, NOWHERE)


def test_ranges_of_other_memory_have_no_attributes(gpu: Resources) -> None:
    """Nor have attributes that do not exist, or places of another size."""
    managed, device, found = gpu.managed(4096), gpu.alloc(4096), (c_int * 2)()
    ask = cu.cuMemRangeGetAttribute
    assert ask(byref(found), 4, READ_MOSTLY, device, 4096) == 1
    assert ask(byref(found), 4, 99, managed, 4096) == 1
    assert ask(byref(found), 8, READ_MOSTLY, managed, 4096) == 1
    assert ask(None, 4, READ_MOSTLY, managed, 4096) == 1


def test_several_ranges_are_prefetched(gpu: Resources) -> None:
    """Each to its place; the bytes stay."""
    stream, ranges = gpu.stream(), [gpu.managed(4096) for _ in range(2)]
    for address in ranges:
        ctypes.memset(address, 6, 4096)
    addresses, sizes = (c_uint64 * 2)(*ranges), (c_size_t * 2)(4096, 4096)
    places = (Location * 2)(Location(DEVICE, 0), Location(HOST, 0))
    given = (addresses, sizes, 2, places, (c_size_t * 2)(0, 1), 2, 0, stream)
    check(cu.cuMemPrefetchBatchAsync(*given))
    check(cu.cuStreamSynchronize(stream))
    assert [_range(LAST_PREFETCH, address, 4096) for address in ranges] == [0, CPU]
    assert [ctypes.string_at(address, 2) for address in ranges] == [b"\6\6"] * 2
    assert cu.cuMemPrefetchBatchAsync(addresses, sizes, 0, places, sizes, 0, 0, stream) == 1


@pytest.mark.parametrize("prefetch", [False, True], ids=["discard", "and prefetch"])
def test_discarded_ranges_can_be_written_again(gpu: Resources, prefetch: bool) -> None:
    """What they held is lost; what is written afterwards is not."""
    stream, address = gpu.stream(), gpu.managed(4096)
    addresses, sizes = (c_uint64 * 1)(address), (c_size_t * 1)(4096)
    if prefetch:
        place, start = (Location * 1)(Location(DEVICE, 0)), (c_size_t * 1)(0)
        given = (addresses, sizes, 1, place, start, 1, 0, stream)
        check(cu.cuMemDiscardAndPrefetchBatchAsync(*given))
    else:
        check(cu.cuMemDiscardBatchAsync(addresses, sizes, 1, 0, stream))
    check(cu.cuMemsetD8Async(address, 4, 4096, stream))
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(address, 4096) == b"\4" * 4096
    other = (c_uint64 * 1)(gpu.alloc(4096))
    assert cu.cuMemDiscardBatchAsync(other, sizes, 1, 0, stream) == 1
