"""Copies in one dimension: every form, every kind of memory, and what is out of range."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int

import pytest

from .cuda import SIMULATED, check, cu
from .resources import JUNK, Resources, allocate, download, in_thread, last, pattern, upload, value

SIZE = 1000
DATA = pattern(SIZE)


def _device_forms(gpu: Resources, stream: int) -> dict[str, Callable[[int, int, int], int]]:
    """Return all the ways to copy between addresses the driver knows."""
    here = gpu.context
    return {
        "cuMemcpy": cu.cuMemcpy,
        "cuMemcpyAsync": lambda d, s, n: cu.cuMemcpyAsync(d, s, n, stream),
        "cuMemcpyDtoD": cu.cuMemcpyDtoD_v2,
        "cuMemcpyDtoDAsync": lambda d, s, n: cu.cuMemcpyDtoDAsync_v2(d, s, n, stream),
        "cuMemcpyHtoD": cu.cuMemcpyHtoD_v2,
        "cuMemcpyHtoDAsync": lambda d, s, n: cu.cuMemcpyHtoDAsync_v2(d, s, n, stream),
        "cuMemcpyDtoH": cu.cuMemcpyDtoH_v2,
        "cuMemcpyDtoHAsync": lambda d, s, n: cu.cuMemcpyDtoHAsync_v2(d, s, n, stream),
        "cuMemcpyPeer": lambda d, s, n: cu.cuMemcpyPeer(d, here, s, here, n),
        "cuMemcpyPeerAsync": lambda d, s, n: cu.cuMemcpyPeerAsync(d, here, s, here, n, stream),
    }


FORMS = [
    *["cuMemcpy", "cuMemcpyAsync", "cuMemcpyDtoD", "cuMemcpyDtoDAsync", "cuMemcpyHtoD"],
    *["cuMemcpyHtoDAsync", "cuMemcpyDtoH", "cuMemcpyDtoHAsync"],
    *["cuMemcpyPeer", "cuMemcpyPeerAsync"],
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", ["device", "pinned", "managed"])
@pytest.mark.parametrize("target", ["device", "pinned", "managed"])
def test_every_form_copies_between_all_memory_of_the_driver(
    gpu: Resources, form: str, source: str, target: str
) -> None:
    """One address space: the names of the forms do not matter, nor do odd offsets."""
    make = {"device": gpu.alloc, "pinned": gpu.pinned, "managed": gpu.managed}
    stream, src, dst = gpu.stream(), make[source](SIZE), make[target](SIZE)
    upload(src, DATA)
    check(cu.cuMemsetD8_v2(dst, 0xEE, SIZE))
    check(cu.cuCtxSynchronize())
    assert _device_forms(gpu, stream)[form](dst + 7, src + 3, 600) == 0
    check(cu.cuCtxSynchronize())
    assert download(dst, SIZE) == b"\xee" * 7 + DATA[3:603] + b"\xee" * 393


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_out_of_range_writes_nothing(gpu: Resources, form: str) -> None:
    """Not one byte past the end of either side; the context lives on."""
    stream, src, dst = gpu.stream(), gpu.alloc(SIZE), gpu.alloc(SIZE)
    check(cu.cuMemsetD8_v2(dst, 0xEE, SIZE))
    copy = _device_forms(gpu, stream)[form]
    if form in ("cuMemcpyDtoD", "cuMemcpyDtoDAsync", "cuMemcpyPeer", "cuMemcpyPeerAsync"):
        assert copy(dst, src, SIZE + 1) == 1
        assert copy(dst, src + 1, SIZE) == 1
        assert copy(dst + 1, src, SIZE) == 1
        assert copy(dst, src + SIZE, 1) == 1
        assert copy(dst - 1, src, 1) == 1
    elif form in ("cuMemcpyHtoD", "cuMemcpyHtoDAsync"):
        pinned = gpu.pinned(4 * SIZE)
        assert copy(dst, pinned, SIZE + 1) == 1
        assert copy(dst + SIZE - 1, pinned, 2) == 1
        assert copy(dst - 1, pinned, 1) == 1
    elif form in ("cuMemcpyDtoH", "cuMemcpyDtoHAsync"):
        pinned = gpu.pinned(4 * SIZE, fill=0x11)
        assert copy(pinned, src, SIZE + 1) == 1
        assert copy(pinned, src + SIZE, 1) == 1
        assert set(ctypes.string_at(pinned, 4 * SIZE)) == {0x11}
    else:
        assert copy(dst, src, SIZE + 1) == 1
        assert copy(dst + 1, src, SIZE) == 1
    check(cu.cuCtxSynchronize())
    assert download(dst, SIZE) == b"\xee" * SIZE


def test_a_copy_up_to_the_last_byte_is_in_range(gpu: Resources) -> None:
    """The end itself is no error."""
    address = gpu.alloc(SIZE)
    upload(address, DATA)
    upload(address + SIZE - 1, b"\x42")
    assert download(address + SIZE - 2, 2) == DATA[-2:-1] + b"\x42"


@pytest.mark.parametrize("form", FORMS)
def test_copies_of_nothing_look_at_nothing(gpu: Resources, form: str) -> None:
    """Zero bytes succeed, whatever the addresses."""
    copy = _device_forms(gpu, gpu.stream())[form]
    address = gpu.alloc(SIZE)
    for dst, src in [(0, 0), (address, 0), (0, address), (address + SIZE, address + SIZE)]:
        assert copy(dst, src, 0) == 0


def test_null_and_junk_addresses_are_refused(gpu: Resources) -> None:
    """INVALID_VALUE, and the context goes on working."""
    host, address = ctypes.create_string_buffer(64), gpu.alloc(64)
    for wrong in (0, JUNK):
        assert cu.cuMemcpyHtoD_v2(wrong, host, 1) == 1
        assert cu.cuMemcpyDtoH_v2(host, wrong, 1) == 1
        assert cu.cuMemcpyDtoD_v2(wrong, address, 1) == 1
        assert cu.cuMemcpyDtoD_v2(address, wrong, 1) == 1
    assert cu.cuMemcpy(0, address, 1) == 1
    assert cu.cuMemcpy(address, 0, 1) == 1
    assert cu.cuMemcpyHtoD_v2(address, None, 1) == 1
    assert cu.cuMemcpyDtoH_v2(None, address, 1) == 1
    upload(address, bytes(64))


def test_freed_memory_is_refused(gpu: Resources) -> None:
    """On either side, synchronously or not."""
    stream, host, live, freed = gpu.stream(), gpu.pinned(64), gpu.alloc(64), allocate(4000)
    check(cu.cuMemFree_v2(freed))
    assert cu.cuMemcpyHtoD_v2(freed, host, 8) == 1
    assert cu.cuMemcpyDtoH_v2(host, freed, 8) == 1
    assert cu.cuMemcpyDtoD_v2(live, freed, 8) == 1
    assert cu.cuMemcpyHtoDAsync_v2(freed, host, 8, stream) == 1
    assert cu.cuCtxSynchronize() == 0


def test_plain_host_memory_is_no_device_memory(gpu: Resources) -> None:
    """The named forms refuse it on the device's side; cuMemcpy takes it on any."""
    plain, address = ctypes.create_string_buffer(b"\x09" * 64, 64), gpu.alloc(64)
    out = ctypes.create_string_buffer(64)
    inside = ctypes.addressof(plain)
    assert cu.cuMemcpyHtoD_v2(ctypes.addressof(out), plain, 8) == 1
    assert cu.cuMemcpyDtoH_v2(out, inside, 8) == 1
    assert cu.cuMemcpyDtoD_v2(address, inside, 8) == 1
    assert cu.cuMemcpyPeer(address, gpu.context, inside, gpu.context, 8) == 1
    assert cu.cuMemcpy(address, inside, 64) == 0
    assert cu.cuMemcpy(ctypes.addressof(out), address, 32) == 0
    assert cu.cuMemcpy(ctypes.addressof(out) + 32, inside, 16) == 0
    assert out.raw == b"\x09" * 48 + bytes(16)


def test_a_null_peer_context_means_the_current_one(gpu: Resources) -> None:
    """On both sides."""
    src, dst = gpu.alloc(64), gpu.alloc(64)
    upload(src, DATA[:64])
    assert cu.cuMemcpyPeer(dst, None, src, None, 64) == 0
    assert download(dst, 64) == DATA[:64]


def test_a_copy_onto_itself_is_harmless(gpu: Resources) -> None:
    """The same address on both sides keeps the bytes."""
    address = gpu.alloc(SIZE)
    upload(address, DATA)
    assert cu.cuMemcpyDtoD_v2(address, address, SIZE) == 0
    assert download(address, SIZE) == DATA


@pytest.mark.parametrize("offset", [10, -10])
def test_overlapping_copies_are_accepted(gpu: Resources, offset: int) -> None:
    """What lies outside the target keeps its bytes; inside, the result is undefined."""
    address = gpu.alloc(SIZE)
    upload(address, DATA)
    assert cu.cuMemcpyDtoD_v2(address + 100 + offset, address + 100, 500) == 0
    after = download(address, SIZE)
    first = 100 + offset
    assert after[:first] == DATA[:first]
    assert after[first + 500 :] == DATA[first + 500 :]


def test_pageable_bytes_are_taken_at_the_call(gpu: Resources) -> None:
    """An asynchronous copy from plain host memory does not look at it later."""
    stream, gate, address = gpu.stream(), gpu.gate(), gpu.alloc(64)
    host = ctypes.create_string_buffer(b"a" * 64, 64)
    gate.hold(stream)
    check(cu.cuMemcpyHtoDAsync_v2(address, host, 64, stream))
    ctypes.memset(host, ord("b"), 64)
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert download(address, 64) == b"a" * 64


def test_pinned_bytes_are_taken_when_the_stream_comes_to_it(gpu: Resources) -> None:
    """Behind a closed gate the source may still change."""
    stream, gate, address, host = gpu.stream(), gpu.gate(), gpu.alloc(64), gpu.pinned(64)
    gate.hold(stream)
    check(cu.cuMemcpyHtoDAsync_v2(address, host, 64, stream))
    ctypes.memset(host, 5, 64)
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert download(address, 64) == b"\x05" * 64


def test_a_copy_to_pageable_memory_is_done_when_it_returns(gpu: Resources) -> None:
    """Asynchronous in name: no synchronisation is needed after it."""
    stream, address = gpu.stream(), gpu.alloc(64)
    host = ctypes.create_string_buffer(64)
    check(cu.cuMemsetD8Async(address, 6, 64, stream))
    check(cu.cuMemcpyDtoHAsync_v2(host, address, 64, stream))
    assert host.raw == b"\x06" * 64


def test_memory_of_another_device_can_be_copied(gpu: Resources) -> None:
    """From context to context, by the peer forms and by the plain one."""
    if value(c_int, cu.cuDeviceGetCount) < 2:
        assert not SIMULATED, "the simulated driver shows one device"
        pytest.skip("one device only")
    src = gpu.alloc(64)
    upload(src, DATA[:64])

    def second() -> bytes:
        context = value(ctypes.c_void_p, cu.cuCtxCreate_v2, 0, 1)
        assert last(c_int, cu.cuStreamGetDevice, None) == 1
        dst = allocate(64)
        check(cu.cuMemcpyPeer(dst, context, src, gpu.context, 32))
        check(cu.cuMemcpy(dst + 32, src + 32, 32))
        data = download(dst, 64)
        check(cu.cuCtxDestroy_v2(context))
        return data

    assert in_thread(second) == DATA[:64]
