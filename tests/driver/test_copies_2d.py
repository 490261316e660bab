"""Copies in two and three dimensions of linear memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref
from typing import Any

import pytest

from .cuda import Copy2D, Copy3D, check, cu
from .resources import Resources, download, pattern, upload

HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4  # CUmemorytype
SOURCE = pattern(1024)


def _expected(
    before: bytes, source: bytes, copy: Copy2D | Copy3D, depth: int = 1, three: bool = False
) -> bytes:
    """Copy row by row in Python: the naive oracle."""
    after = bytearray(before)
    src_z, dst_z = (copy.srcZ, copy.dstZ) if three else (0, 0)
    src_height, dst_height = (copy.srcHeight, copy.dstHeight) if three else (0, 0)
    for z in range(depth):
        for y in range(copy.Height):
            src = ((src_z + z) * src_height + copy.srcY + y) * copy.srcPitch + copy.srcXInBytes
            dst = ((dst_z + z) * dst_height + copy.dstY + y) * copy.dstPitch + copy.dstXInBytes
            after[dst : dst + copy.WidthInBytes] = source[src : src + copy.WidthInBytes]
    return bytes(after)


def _asynchronous(gpu: Resources) -> Callable[[Any], int]:
    stream = gpu.stream()

    def copy(parameters: Any) -> int:
        code = cu.cuMemcpy2DAsync_v2(parameters, stream)
        check(cu.cuStreamSynchronize(stream))
        return code

    return copy


def _form(gpu: Resources, name: str) -> Callable[[Any], int]:
    forms = {"plain": cu.cuMemcpy2D_v2, "unaligned": cu.cuMemcpy2DUnaligned_v2}
    return forms.get(name) or _asynchronous(gpu)


def _sides(source: str, target: str, src: int, dst: int) -> dict[str, int]:
    kinds = {"host": HOST, "pinned": HOST, "device": DEVICE, "unified": UNIFIED}
    sides = {"srcMemoryType": kinds[source], "dstMemoryType": kinds[target]}
    sides["srcHost" if kinds[source] == HOST else "srcDevice"] = src
    sides["dstHost" if kinds[target] == HOST else "dstDevice"] = dst
    return sides


@pytest.mark.parametrize("form", ["plain", "unaligned", "async"])
@pytest.mark.parametrize("source", ["host", "pinned", "device", "unified"])
@pytest.mark.parametrize("target", ["host", "pinned", "device", "unified"])
def test_a_rectangle_is_copied_between_pitches(
    gpu: Resources, form: str, source: str, target: str
) -> None:
    """With offsets on both sides, odd pitches, and every kind of memory."""
    blank = b"\xee" * 1024
    plain = [ctypes.create_string_buffer(data, 1024) for data in (SOURCE, blank, blank)]
    first, second, after = (ctypes.addressof(each) for each in plain)
    make = {"pinned": gpu.pinned, "device": gpu.alloc, "unified": gpu.alloc}
    src = make[source](1024) if source in make else first
    dst = make[target](1024) if target in make else second
    check(cu.cuMemcpy(src, first, 1024))
    check(cu.cuMemcpy(dst, second, 1024))
    check(cu.cuCtxSynchronize())
    copy = Copy2D(srcXInBytes=3, srcY=1, srcPitch=47, dstXInBytes=5, dstY=2, dstPitch=64)
    copy.WidthInBytes, copy.Height = 11, 6
    for name, setting in _sides(source, target, src, dst).items():
        setattr(copy, name, setting)
    assert _form(gpu, form)(byref(copy)) == 0
    check(cu.cuCtxSynchronize())
    check(cu.cuMemcpy(after, dst, 1024))
    assert plain[2].raw == _expected(blank, SOURCE, copy)


class _Board:
    """A rectangle of 3 rows of 10 bytes from host memory to 1000 bytes of the device."""

    def __init__(self, gpu: Resources) -> None:
        self.host = ctypes.create_string_buffer(SOURCE, 2048)
        self.device = gpu.alloc(1000)
        check(cu.cuMemsetD8_v2(self.device, 0xEE, 1000))

    def settings(self, **changes: Any) -> dict[str, Any]:
        settings = {"srcMemoryType": HOST, "srcHost": ctypes.addressof(self.host), "srcPitch": 32}
        settings |= {"dstMemoryType": DEVICE, "dstDevice": self.device, "dstPitch": 64}
        return {**settings, "WidthInBytes": 10, "Height": 3, **changes}

    def two(self, **changes: Any) -> int:
        return cu.cuMemcpy2D_v2(byref(Copy2D(**self.settings(**changes))))

    def three(self, **changes: Any) -> int:
        boxes = {"srcHeight": 4, "dstHeight": 3, "Depth": 2}
        return cu.cuMemcpy3D_v2(byref(Copy3D(**self.settings(**{**boxes, **changes}))))

    def untouched(self) -> bool:
        return download(self.device, 1000) == b"\xee" * 1000


@pytest.mark.parametrize(
    "changes",
    [
        {"dstPitch": 5},
        {"srcPitch": 5},
        {"dstXInBytes": 60},
        {"dstDevice": 0},
        {"srcHost": None},
        {"srcMemoryType": 0},
        {"dstMemoryType": 9},
        {"dstMemoryType": ARRAY},
        {"Height": 17},
        {"Height": 16, "WidthInBytes": 32, "dstXInBytes": 10},
        {"dstPitch": 900, "Height": 2, "dstXInBytes": 91},
        {"srcMemoryType": UNIFIED, "srcDevice": 0},
    ],
    ids=str,
)
def test_a_wrong_rectangle_writes_nothing(gpu: Resources, changes: dict[str, Any]) -> None:
    """Pitch below width, offsets beyond the pitch, no address, no such memory, out of range."""
    board = _Board(gpu)
    assert board.two(**changes) == 1
    assert board.untouched()


def test_a_device_rectangle_cannot_be_plain_host_memory(gpu: Resources) -> None:
    """DEVICE means memory of the driver's; pinned memory is such memory too."""
    board, pinned = _Board(gpu), gpu.pinned(1024)
    plain = ctypes.addressof(board.host)
    assert board.two(srcMemoryType=DEVICE, srcDevice=plain) == 1
    assert board.two(srcMemoryType=DEVICE, srcDevice=pinned) == 0
    assert cu.cuMemcpy2D_v2(None) == 1
    assert cu.cuMemcpy3D_v2(None) == 1


def test_an_empty_rectangle_is_no_error(gpu: Resources) -> None:
    """Any extent of zero copies nothing."""
    board = _Board(gpu)
    assert board.two(WidthInBytes=0) == 0
    assert board.two(Height=0) == 0
    assert board.three(WidthInBytes=0) == 0
    assert board.three(Depth=0) == 0
    assert board.untouched()


def test_a_pitch_of_zero_means_packed_rows(gpu: Resources) -> None:
    """The width is the pitch."""
    board = _Board(gpu)
    assert board.two(srcPitch=0, dstPitch=0) == 0
    assert download(board.device, 31) == SOURCE[:30] + b"\xee"


def test_the_last_row_may_end_at_the_last_byte(gpu: Resources) -> None:
    """A rectangle needs no full pitch behind its last row."""
    board = _Board(gpu)
    assert board.two(dstPitch=900, Height=2, dstXInBytes=90) == 0
    assert download(board.device + 990, 10) == SOURCE[32:42]


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_box_is_copied_between_pitches_and_heights(gpu: Resources, form: str) -> None:
    """With offsets in all three directions."""
    src, dst = gpu.alloc(1024), gpu.alloc(1024)
    upload(src, SOURCE)
    check(cu.cuMemsetD8_v2(dst, 0xEE, 1024))
    copy = Copy3D(srcMemoryType=DEVICE, srcDevice=src, srcPitch=16, srcHeight=5)
    copy.srcXInBytes, copy.srcY, copy.srcZ = 2, 1, 1
    copy.dstMemoryType, copy.dstDevice, copy.dstPitch, copy.dstHeight = DEVICE, dst, 20, 4
    copy.dstXInBytes, copy.dstY, copy.dstZ = 3, 1, 2
    copy.WidthInBytes, copy.Height, copy.Depth = 9, 3, 4
    if form == "sync":
        check(cu.cuMemcpy3D_v2(byref(copy)))
    else:
        check(cu.cuMemcpy3DAsync_v2(byref(copy), None))
    assert download(dst, 1024) == _expected(b"\xee" * 1024, SOURCE, copy, depth=4, three=True)


@pytest.mark.parametrize(
    "changes",
    [{"srcHeight": 2}, {"srcPitch": 5}, {"Depth": 6}, {"dstXInBytes": 60}, {"dstDevice": 0}],
    ids=str,
)
def test_a_wrong_box_writes_nothing(gpu: Resources, changes: dict[str, Any]) -> None:
    """Height below the rows copied, pitch below width, out of range, no address."""
    board = _Board(gpu)
    assert board.three(**changes) == 1
    assert board.untouched()


def test_a_height_of_zero_means_packed_planes(gpu: Resources) -> None:
    """As a pitch of zero does for rows; a box that just fits is in range."""
    board = _Board(gpu)
    assert board.three(srcHeight=0, dstHeight=0) == 0
    plane = 3 * 64
    assert download(board.device + plane, 10) == SOURCE[3 * 32 : 3 * 32 + 10]
    assert board.three(Depth=5) == 0
