"""Arrays: what they are, copies that name them, levels, and when they end."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p
from typing import Any

import pytest

from .bench import Bench, hold_legacy, peek
from .calls import prepare
from .control import BEHAVING, report
from .cuda import ArrayDescription, Copy2D, Copy3D, FlatDescription, NodeParameters, check, cu
from .differences import answer
from .resources import (
    Resources,
    allocate,
    download,
    last,
    pattern,
    undefined_on_hardware,
    upload,
    value,
)
from .variants import cu as all_forms

OWN = [row.symbol for row in BEHAVING if row.topic == "arrays" and row.per_thread]
HOST, DEVICE, ARRAY = 1, 2, 3  # CUmemorytype
UINT8, INT16, HALF, FLOAT, NV12 = 1, 9, 0x10, 0x20, 0xB0  # CUarray_format
LAYERED, SURFACE, CUBEMAP, GATHER, DEPTH, ATTACHMENT, SPARSE = 1, 2, 4, 8, 0x10, 0x20, 0x40
INVALID_VALUE, OUT_OF_MEMORY, INVALID_HANDLE, NOT_SUPPORTED = 1, 2, 400, 801


def _make(
    gpu: Resources, *sizes: int, format: int = UINT8, channels: int = 1, flags: int = 0
) -> int:
    width, height, depth = (*sizes, 0, 0)[:3]
    wanted = ArrayDescription(width, height, depth, format, channels, flags)
    return gpu._keep(cu.cuArrayDestroy, value(c_void_p, cu.cuArray3DCreate_v2, byref(wanted)))


def _told(array: int) -> tuple[int, ...]:
    made = ArrayDescription()
    check(cu.cuArray3DGetDescriptor_v2(byref(made), array))
    sizes = (made.width, made.height, made.depth)
    return (*sizes, made.format, made.channels, made.flags)


@pytest.mark.parametrize(
    ("sizes", "format", "channels", "flags"),
    [
        ((7, 0, 0), FLOAT, 4, 0),
        ((7, 5, 0), INT16, 2, GATHER),
        ((7, 5, 3), HALF, 1, SURFACE),
        ((7, 0, 3), UINT8, 1, LAYERED),
        ((4, 4, 6), UINT8, 4, CUBEMAP),
        ((4, 4, 12), UINT8, 4, CUBEMAP | LAYERED),
    ],
)
def test_an_array_tells_what_it_was_made_as(
    gpu: Resources, sizes: tuple[int, ...], format: int, channels: int, flags: int
) -> None:
    """On all axes, and on two by the older function."""
    array = _make(gpu, *sizes, format=format, channels=channels, flags=flags)
    assert _told(array) == (*sizes, format, channels, flags)
    flat = FlatDescription()
    check(cu.cuArrayGetDescriptor_v2(byref(flat), array))
    assert (flat.width, flat.height, flat.format) == (*sizes[:2], format)
    assert flat.channels == channels


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ((0, 0, 0, UINT8, 1, 0), INVALID_VALUE),
        ((4, 0, 4, UINT8, 1, 0), INVALID_VALUE),
        ((4, 4, 0, UINT8, 3, 0), INVALID_VALUE),
        ((4, 4, 0, 0x33, 1, 0), INVALID_VALUE),
        ((4, 4, 0, UINT8, 1, 0x1000), INVALID_VALUE),
        ((4, 4, 4, UINT8, 1, GATHER), INVALID_VALUE),
        ((4, 5, 6, UINT8, 1, CUBEMAP), INVALID_VALUE),
        ((4, 4, 5, UINT8, 1, CUBEMAP), INVALID_VALUE),
        ((1 << 18, 0, 0, UINT8, 1, 0), INVALID_VALUE),
        ((4, 4, 0, NV12, 1, 0), NOT_SUPPORTED),
        ((4, 4, 0, UINT8, 1, SPARSE), NOT_SUPPORTED),
        ((4, 4, 0, UINT8, 1, DEPTH), INVALID_VALUE),
        ((4, 4, 0, UINT8, 1, ATTACHMENT), INVALID_VALUE),
    ],
)
def test_what_no_array_can_be_is_refused(
    gpu: Resources, wanted: tuple[int, ...], code: int
) -> None:
    """As an array, and as levels; formats of video and sparse arrays do not exist here."""
    made = c_void_p(5)
    assert cu.cuArray3DCreate_v2(byref(made), byref(ArrayDescription(*wanted))) == code
    assert cu.cuMipmappedArrayCreate(byref(made), byref(ArrayDescription(*wanted)), 1) == code
    assert made.value == 5


def test_a_flat_array_is_made_by_the_older_function(gpu: Resources) -> None:
    """It has no depth and no flags."""
    wanted = FlatDescription(5, 3, FLOAT, 2)
    array = gpu._keep(cu.cuArrayDestroy, value(c_void_p, cu.cuArrayCreate_v2, byref(wanted)))
    assert _told(array) == (5, 3, 0, FLOAT, 2, 0)
    assert cu.cuArrayCreate_v2(None, byref(wanted)) == INVALID_VALUE
    assert cu.cuArrayCreate_v2(byref(c_void_p()), None) == INVALID_VALUE


def test_bytes_come_back_from_an_array_of_one_axis(gpu: Resources) -> None:
    """Through the host, through a device, from array to array, at offsets, in stream order too."""
    one, other, device = _make(gpu, 64), _make(gpu, 64), gpu.alloc(64)
    stream, pinned, data = gpu.stream(), gpu.pinned(64), pattern(64)
    check(cu.cuMemcpyHtoA_v2(one, 0, data, 64))
    check(cu.cuMemcpyAtoA_v2(other, 8, one, 16, 40))
    check(cu.cuMemcpyAtoD_v2(device, other, 8, 40))
    assert download(device, 40) == data[16:56]
    upload(device, data[::-1])
    check(cu.cuMemcpyDtoA_v2(one, 1, device, 63))
    after = ctypes.create_string_buffer(64)
    check(cu.cuMemcpyAtoH_v2(after, one, 0, 64))
    assert after.raw == data[:1] + data[::-1][:63]
    ctypes.memmove(pinned, data, 64)
    check(cu.cuMemcpyHtoAAsync_v2(one, 0, pinned, 64, stream))
    check(cu.cuMemcpyAtoHAsync_v2(pinned + 4, one, 60, 4, stream))
    check(cu.cuStreamSynchronize(stream))
    assert ctypes.string_at(pinned + 4, 4) == data[60:]


def test_a_rectangle_of_an_array_is_copied(gpu: Resources) -> None:
    """To where it is named, and nowhere else; rows of the host may be further apart."""
    array = _make(gpu, 8, 6, format=INT16)
    whole = {"WidthInBytes": 16, "Height": 6}
    blank, data = bytes(96), pattern(200)
    hosts = [ctypes.create_string_buffer(text, len(text)) for text in (blank, data, blank)]
    first, second, out = (ctypes.addressof(host) for host in hosts)
    fill = Copy2D(srcMemoryType=HOST, srcHost=first, dstMemoryType=ARRAY, dstArray=array, **whole)
    check(cu.cuMemcpy2D_v2(byref(fill)))
    part = Copy2D(srcMemoryType=HOST, srcHost=second, srcPitch=20, dstMemoryType=ARRAY)
    part.dstArray, part.dstXInBytes, part.dstY, part.WidthInBytes, part.Height = array, 4, 2, 6, 3
    check(cu.cuMemcpy2D_v2(byref(part)))
    read = Copy2D(srcMemoryType=ARRAY, srcArray=array, dstMemoryType=HOST, dstHost=out, **whole)
    check(cu.cuMemcpy2D_v2(byref(read)))
    wanted = bytearray(blank)
    for y in range(3):
        wanted[(y + 2) * 16 + 4 : (y + 2) * 16 + 10] = data[y * 20 : y * 20 + 6]
    assert hosts[2].raw == bytes(wanted)


def _box(array: int, device: int, **changes: int) -> Copy3D:
    """Return a copy of 2 x 3 x 2 bytes from the middle of an array to a device."""
    box = Copy3D(srcMemoryType=ARRAY, srcArray=array, dstMemoryType=DEVICE, dstDevice=device)
    box.srcXInBytes, box.srcY, box.srcZ = 1, 1, 1
    box.WidthInBytes, box.Height, box.Depth = 2, 3, 2
    for name, number in changes.items():
        setattr(box, name, number)
    return box


def test_a_box_of_an_array_is_copied(gpu: Resources) -> None:
    """In stream order, and by a node of a graph, which reads the array when it runs."""
    array, device, stream, data = _make(gpu, 4, 5, 3), gpu.alloc(64), gpu.stream(), pattern(60)
    source = ctypes.create_string_buffer(data, 60)
    whole = Copy3D(srcMemoryType=HOST, srcHost=ctypes.addressof(source), dstMemoryType=ARRAY)
    whole.dstArray, whole.WidthInBytes, whole.Height, whole.Depth = array, 4, 5, 3
    check(cu.cuMemcpy3D_v2(byref(whole)))
    check(cu.cuCtxSynchronize())
    wanted = b"".join(
        data[z * 20 + y * 4 + 1 : z * 20 + y * 4 + 3] for z in (1, 2) for y in (1, 2, 3)
    )
    check(cu.cuMemcpy3DAsync_v2(byref(_box(array, device)), stream))
    check(cu.cuStreamSynchronize(stream))
    assert download(device, 12) == wanted
    upload(device, bytes(12))
    graph = gpu._keep(cu.cuGraphDestroy, value(c_void_p, cu.cuGraphCreate, 0))
    node = NodeParameters(type=1)
    ctypes.memmove(ctypes.addressof(node) + 32, byref(_box(array, device)), ctypes.sizeof(Copy3D))
    check(cu.cuGraphAddNode_v2(byref(c_void_p()), graph, None, None, 0, byref(node)))
    made = gpu._keep(
        cu.cuGraphExecDestroy, value(c_void_p, cu.cuGraphInstantiateWithFlags, graph, 0)
    )
    check(cu.cuGraphLaunch(made, stream))
    check(cu.cuStreamSynchronize(stream))
    assert download(device, 12) == wanted


def test_a_captured_copy_names_its_array(gpu: Resources) -> None:
    """With where it begins there; what a node tells is what it takes."""
    array, device, stream = _make(gpu, 4, 5, 3), gpu.alloc(64), gpu.stream()
    check(cu.cuStreamBeginCapture_v2(stream, 2))
    check(cu.cuMemcpy3DAsync_v2(byref(_box(array, device)), stream))
    graph = gpu._keep(cu.cuGraphDestroy, last(c_void_p, cu.cuStreamEndCapture, stream))
    node, count = c_void_p(), ctypes.c_size_t(1)
    check(cu.cuGraphGetNodes(graph, byref(node), byref(count)))
    told = Copy3D()
    check(cu.cuGraphMemcpyNodeGetParams(node, byref(told)))
    assert (told.srcMemoryType, told.srcArray, told.srcDevice) == (ARRAY, array, 0)
    assert (told.srcXInBytes, told.srcY, told.srcZ) == (1, 1, 1)
    assert (told.dstMemoryType, told.dstDevice) == (DEVICE, device)
    check(cu.cuGraphMemcpyNodeSetParams(node, byref(told)))


@pytest.mark.parametrize(
    "changes",
    [{"srcXInBytes": 3}, {"srcY": 3}, {"srcZ": 2}, {"srcLOD": 1}, {"srcXInBytes": 2**64 - 1}],
    ids=str,
)
def test_a_box_beyond_an_array_writes_nothing(gpu: Resources, changes: dict[str, int]) -> None:
    """On each axis; arrays have no level but the first."""
    array, device = _make(gpu, 4, 5, 3), gpu.alloc(64)
    upload(device, b"\xee" * 64)
    assert cu.cuMemcpy3D_v2(byref(_box(array, device, **changes))) == INVALID_VALUE
    assert download(device, 64) == b"\xee" * 64


@pytest.mark.parametrize(
    "changes",
    [
        {"WidthInBytes": 0, "srcXInBytes": 60},
        {"Height": 0, "srcY": 60},
        {"Depth": 0, "srcZ": 60, "dstXInBytes": 60, "dstPitch": 16},
    ],
    ids=str,
)
def test_an_empty_box_may_be_anywhere(gpu: Resources, changes: dict[str, int]) -> None:
    """Nothing is copied, and nothing looked at but the array itself."""
    array, device = _make(gpu, 4, 5, 3), gpu.alloc(64)
    upload(device, b"\xee" * 64)
    check(cu.cuMemcpy3D_v2(byref(_box(array, device, **changes))))
    assert download(device, 64) == b"\xee" * 64


def test_rows_past_a_given_height_are_refused(gpu: Resources) -> None:
    """Also those of a single slice; without a height there may be any number."""
    array, device = _make(gpu, 4, 5, 3), gpu.alloc(64)
    assert cu.cuMemcpy3D_v2(byref(_box(array, device, Depth=1, dstHeight=2))) == INVALID_VALUE
    check(cu.cuMemcpy3D_v2(byref(_box(array, device, Depth=1, dstHeight=3))))
    check(cu.cuMemcpy3D_v2(byref(_box(array, device, Depth=1))))


def test_what_a_box_that_cuts_elements_is_answered(gpu: Resources) -> None:
    """A width of half an element."""
    array, device = _make(gpu, 8, 5, 3, format=FLOAT), gpu.alloc(64)
    box = _box(array, device, srcXInBytes=0)
    assert cu.cuMemcpy3D_v2(byref(box)) == answer("a box that cuts an element of an array")


def test_a_copy_does_not_cut_elements(gpu: Resources) -> None:
    """Nor does a copy of a line name an array of two axes."""
    array, flat, data = _make(gpu, 8, format=FLOAT), _make(gpu, 8, 8), pattern(32)
    assert cu.cuMemcpyHtoA_v2(array, 2, data, 4) == INVALID_VALUE
    assert cu.cuMemcpyHtoA_v2(array, 0, data, 6) == INVALID_VALUE
    assert cu.cuMemcpyHtoA_v2(array, 16, data, 20) == INVALID_VALUE
    assert cu.cuMemcpyHtoA_v2(flat, 0, data, 8) == INVALID_VALUE
    assert cu.cuMemcpyAtoA_v2(array, 0, _make(gpu, 64), 0, 16) == INVALID_VALUE
    assert cu.cuMemcpyHtoA_v2(array, 16, data, 16) == 0
    check(cu.cuCtxSynchronize())


@pytest.mark.parametrize(
    ("sizes", "flags", "wanted", "levels"),
    [
        ((8, 6, 0), 0, [(8, 6, 0), (4, 3, 0), (2, 1, 0), (1, 1, 0)], 9),
        ((8, 6, 0), 0, [(8, 6, 0), (4, 3, 0)], 2),
        ((2, 2, 8), 0, [(2, 2, 8), (1, 1, 4), (1, 1, 2), (1, 1, 1)], 9),
        ((4, 0, 8), LAYERED, [(4, 0, 8), (2, 0, 8), (1, 0, 8)], 9),
        ((4, 0, 0), 0, [(4, 0, 0)], 0),
    ],
)
def test_levels_halve_down_to_one_element(
    gpu: Resources, sizes: tuple[int, ...], flags: int, wanted: list[Any], levels: int
) -> None:
    """As many as were asked for, at least one; layers stay. A level is an array."""
    description = ArrayDescription(*sizes, UINT8, 1, flags)
    mipmap = value(c_void_p, cu.cuMipmappedArrayCreate, byref(description), levels)
    found = [value(c_void_p, cu.cuMipmappedArrayGetLevel, mipmap, i) for i in range(len(wanted))]
    assert [_told(array)[:3] for array in found] == wanted
    assert cu.cuMipmappedArrayGetLevel(byref(c_void_p()), mipmap, len(wanted)) == INVALID_VALUE
    check(cu.cuMipmappedArrayDestroy(mipmap))


@pytest.mark.parametrize("sizes", [(1 << 16, 0, 0), (1 << 16, 8, 0), (8, 1 << 16, 0)])
def test_axes_with_levels_are_shorter(gpu: Resources, sizes: tuple[int, ...]) -> None:
    """An array of that size has no levels."""
    _make(gpu, *sizes)
    wanted = ArrayDescription(*sizes, UINT8, 1, 0)
    assert cu.cuMipmappedArrayCreate(byref(c_void_p()), byref(wanted), 1) == INVALID_VALUE


def test_levels_without_room_wait_for_nothing(gpu: Resources) -> None:
    """The call fails, whatever is queued, and the levels that were made are gone."""
    mebi = 1 << 20
    free = ctypes.c_size_t()
    check(cu.cuMemGetInfo_v2(byref(free), byref(ctypes.c_size_t())))
    gpu.alloc(free.value - 72 * mebi)
    before = report()["live"]
    stream, gate = gpu.stream(), gpu.gate()
    gate.hold(stream)
    check(cu.cuMemsetD8Async(gpu.alloc(16), 1, 16, stream))
    wanted = ArrayDescription(4096, 4096, 0, FLOAT, 1, 0)
    assert cu.cuMipmappedArrayCreate(byref(c_void_p()), byref(wanted), 9) == OUT_OF_MEMORY
    gate.open()
    check(cu.cuStreamSynchronize(stream))
    assert report()["live"]["arrays"] == before["arrays"]


def test_an_array_has_one_plane_only(gpu: Resources) -> None:
    """Planes are of formats of video."""
    plane = c_void_p(5)
    assert cu.cuArrayGetPlane(byref(plane), _make(gpu, 4, 4), 0) == INVALID_VALUE
    assert plane.value == 5


def test_an_array_is_destroyed_behind_the_work_on_it(gpu: Resources) -> None:
    """As memory is freed."""
    stream, pinned, device = gpu.stream(), gpu.pinned(16, fill=7), gpu.alloc(16)
    description = ArrayDescription(16, 0, 0, UINT8, 1, 0)
    array = value(c_void_p, cu.cuArray3DCreate_v2, byref(description))
    check(cu.cuMemcpyHtoAAsync_v2(array, 0, pinned, 16, stream))
    box = _box(array, device, srcXInBytes=0, srcY=0, srcZ=0, WidthInBytes=16, Height=1, Depth=1)
    check(cu.cuMemcpy3DAsync_v2(byref(box), stream))
    check(cu.cuArrayDestroy(array))
    check(cu.cuStreamSynchronize(stream))
    assert download(device, 16) == b"\x07" * 16


def test_arrays_take_memory_until_they_are_destroyed(gpu: Resources) -> None:
    """Levels too; and a context takes its arrays along."""
    before = report()["live"]
    left = allocate(16)
    check(cu.cuMemFree_v2(left))
    description = ArrayDescription(64, 64, 0, FLOAT, 1, 0)
    array = value(c_void_p, cu.cuArray3DCreate_v2, byref(description))
    mipmap = value(c_void_p, cu.cuMipmappedArrayCreate, byref(description), 3)
    live = report()["live"]
    assert live["arrays"] == before["arrays"] + 4
    assert live["bytes"] == before["bytes"] + 64 * 64 * 4 * 2 + 32 * 32 * 4 + 16 * 16 * 4
    check(cu.cuArrayDestroy(array))
    check(cu.cuMipmappedArrayDestroy(mipmap))
    assert report()["live"] == before
    own = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    value(c_void_p, cu.cuMipmappedArrayCreate, byref(description), 3)
    check(cu.cuCtxDestroy_v2(own))
    assert report()["live"] == before


@undefined_on_hardware("a destroyed or invented array is a wild pointer")
@pytest.mark.parametrize("junk", [False, True])
def test_an_array_that_is_none_is_an_invalid_handle(gpu: Resources, junk: bool) -> None:
    """Destroyed or invented; and a level is destroyed with the whole."""
    description = ArrayDescription(4, 0, 0, UINT8, 1, 0)
    array = value(c_void_p, cu.cuArray3DCreate_v2, byref(description))
    check(cu.cuArrayDestroy(array))
    array = 0x123450 if junk else array
    assert cu.cuArrayDestroy(array) == INVALID_HANDLE
    assert cu.cuArray3DGetDescriptor_v2(byref(description), array) == INVALID_HANDLE
    assert cu.cuMemcpyHtoA_v2(array, 0, b"1234", 4) == INVALID_HANDLE
    assert cu.cuMipmappedArrayDestroy(array) == INVALID_HANDLE
    mipmap = value(c_void_p, cu.cuMipmappedArrayCreate, byref(description), 2)
    level = value(c_void_p, cu.cuMipmappedArrayGetLevel, mipmap, 0)
    assert cu.cuArrayDestroy(level) == INVALID_HANDLE
    check(cu.cuMipmappedArrayDestroy(mipmap))
    assert cu.cuArray3DGetDescriptor_v2(byref(description), level) == INVALID_HANDLE


@pytest.mark.parametrize("symbol", OWN)
def test_a_variant_works_on_the_threads_own_stream(gpu: Resources, symbol: str) -> None:
    """The legacy stream cannot run meanwhile."""
    bench = Bench(gpu, per_thread=True)
    call = prepare(symbol, bench)
    hold_legacy(gpu)
    assert call() == 0
    check(all_forms.cuStreamSynchronize(2))
    if symbol.startswith("cuMemcpyAtoD"):
        assert peek(gpu, bench.device) == bytes(256)
