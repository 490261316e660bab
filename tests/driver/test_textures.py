"""Texture and surface objects: what they are made of, told back; what cannot be one."""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

import pytest

from .cuda import (
    ArrayDescription,
    ResourceDescription,
    TextureDescription,
    ViewDescription,
    check,
    cu,
)
from .resources import Resources, value

UINT8, FLOAT = 1, 0x20  # CUarray_format
ARRAY, MIPMAP, LINEAR, PITCHED = range(4)  # CUresourcetype
WRAP, CLAMP, BORDER = 0, 1, 3
SURFACE = 2
INVALID_VALUE, INVALID_HANDLE = 1, 400


def _array(gpu: Resources, flags: int = 0) -> int:
    wanted = ArrayDescription(8, 8, 0, FLOAT, 1, flags)
    return gpu._keep(cu.cuArrayDestroy, value(c_void_p, cu.cuArray3DCreate_v2, byref(wanted)))


def _mipmap(gpu: Resources) -> int:
    wanted = ArrayDescription(8, 8, 0, FLOAT, 1, 0)
    made = value(c_void_p, cu.cuMipmappedArrayCreate, byref(wanted), 3)
    return gpu._keep(cu.cuMipmappedArrayDestroy, made)


def _of(kind: int, *words: int, flags: int = 0) -> ResourceDescription:
    return ResourceDescription(kind, (c_uint64 * 16)(*words), flags)


def _memory(kind: int, address: int, *rest: int, format: int = FLOAT) -> ResourceDescription:
    return _of(kind, address, 1 << 32 | format, *rest)


SAMPLING = TextureDescription((c_int * 3)(WRAP, CLAMP, BORDER), 1, 2, 16, 1, 0.5)


@pytest.mark.parametrize("kind", [ARRAY, MIPMAP, LINEAR, PITCHED])
def test_a_texture_tells_what_it_was_made_of(gpu: Resources, kind: int) -> None:
    """Byte for byte, and how it is read. Destroyed, it tells nothing."""
    device = gpu.alloc(4096)
    made_of = {
        ARRAY: _of(ARRAY, _array(gpu)),
        MIPMAP: _of(MIPMAP, _mipmap(gpu)),
        LINEAR: _memory(LINEAR, device, 4096),
        PITCHED: _memory(PITCHED, device + 512, 16, 8, 96),
    }[kind]
    texture = value(c_uint64, cu.cuTexObjectCreate, byref(made_of), byref(SAMPLING), None)
    told, sampling, view = ResourceDescription(), TextureDescription(), ViewDescription()
    check(cu.cuTexObjectGetResourceDesc(byref(told), texture))
    check(cu.cuTexObjectGetTextureDesc(byref(sampling), texture))
    assert bytes(told) == bytes(made_of)
    assert bytes(sampling) == bytes(SAMPLING)
    assert cu.cuTexObjectGetResourceViewDesc(byref(view), texture) == INVALID_VALUE
    check(cu.cuTexObjectDestroy(texture))
    assert cu.cuTexObjectGetResourceDesc(byref(told), texture) == INVALID_VALUE
    assert cu.cuTexObjectDestroy(texture) == INVALID_VALUE


def test_a_texture_tells_its_view(gpu: Resources) -> None:
    """Only arrays have one, and its ends come after its beginnings."""
    view = ViewDescription(0x14, (c_size_t * 3)(8, 8, 0))
    view.levels[1] = 2
    made_of = _of(MIPMAP, _mipmap(gpu))
    texture = value(c_uint64, cu.cuTexObjectCreate, byref(made_of), byref(SAMPLING), byref(view))
    told = ViewDescription()
    check(cu.cuTexObjectGetResourceViewDesc(byref(told), texture))
    assert bytes(told) == bytes(view)
    check(cu.cuTexObjectDestroy(texture))
    create, out = cu.cuTexObjectCreate, byref(c_uint64())
    line = _memory(LINEAR, gpu.alloc(64), 64)
    assert create(out, byref(line), byref(SAMPLING), byref(view)) == INVALID_VALUE
    view.levels[0] = 3
    assert create(out, byref(made_of), byref(SAMPLING), byref(view)) == INVALID_VALUE


@pytest.mark.parametrize(
    ("kind", "offset", "rest"),
    [
        (LINEAR, 4, [64]),
        (LINEAR, 0, [8192]),
        (LINEAR, 0, [3]),
        (LINEAR, 1 << 46, [64]),
        (PITCHED, 0, [16, 8, 100]),
        (PITCHED, 0, [16, 8, 32]),
        (PITCHED, 0, [16, 0, 64]),
        (PITCHED, 0, [16, 128, 64]),
        (4, 0, [64]),
    ],
)
def test_memory_that_cannot_be_a_texture_is_refused(
    gpu: Resources, kind: int, offset: int, rest: list[int]
) -> None:
    """Not aligned, too much, less than an element, no memory, rows that overlap, no such kind."""
    made_of, out = _memory(kind, gpu.alloc(4096) + offset, *rest), byref(c_uint64())
    assert cu.cuTexObjectCreate(out, byref(made_of), byref(SAMPLING), None) == INVALID_VALUE


def test_a_texture_is_not_read_in_ways_that_there_are_not(gpu: Resources) -> None:
    """Modes, filters, flags; levels want normalized coordinates; resources have no flags."""
    array, out = _array(gpu), byref(c_uint64())
    for wrong in (
        TextureDescription((c_int * 3)(4)),
        TextureDescription(filter=2),
        TextureDescription(flags=4),
        TextureDescription(levels=2),
    ):
        assert cu.cuTexObjectCreate(out, byref(_of(ARRAY, array)), byref(wrong), None) == 1
    mipmap = _of(MIPMAP, _mipmap(gpu))
    assert cu.cuTexObjectCreate(out, byref(mipmap), byref(TextureDescription()), None) == 1
    reserved = _of(ARRAY, array, flags=1)
    assert cu.cuTexObjectCreate(out, byref(reserved), byref(SAMPLING), None) == INVALID_VALUE
    assert cu.cuTexObjectCreate(out, byref(_of(ARRAY, 5)), byref(SAMPLING), None) == INVALID_HANDLE
    assert cu.cuTexObjectCreate(out, byref(_of(MIPMAP, 5)), byref(SAMPLING), None) == INVALID_HANDLE


def test_a_surface_is_made_of_an_array_for_surfaces(gpu: Resources) -> None:
    """And of nothing else."""
    made_of, out = _of(ARRAY, _array(gpu, SURFACE)), byref(c_uint64())
    surface = value(c_uint64, cu.cuSurfObjectCreate, byref(made_of))
    told = ResourceDescription()
    check(cu.cuSurfObjectGetResourceDesc(byref(told), surface))
    assert bytes(told) == bytes(made_of)
    check(cu.cuSurfObjectDestroy(surface))
    assert cu.cuSurfObjectDestroy(surface) == INVALID_VALUE
    assert cu.cuSurfObjectGetResourceDesc(byref(told), surface) == INVALID_VALUE
    assert cu.cuSurfObjectCreate(out, byref(_of(ARRAY, _array(gpu)))) == INVALID_VALUE
    line = _memory(LINEAR, gpu.alloc(64), 64)
    assert cu.cuSurfObjectCreate(out, byref(line)) == INVALID_VALUE


def test_limits_of_textures_are_told(gpu: Resources) -> None:
    """As attributes; the longest line in memory is one of them."""
    most = value(c_size_t, cu.cuDeviceGetTexture1DLinearMaxWidth, FLOAT, 1, 0)
    assert most == value(c_int, cu.cuDeviceGetAttribute, 69, 0) >= 1 << 27
    out = byref(c_size_t())
    assert cu.cuDeviceGetTexture1DLinearMaxWidth(out, FLOAT, 3, 0) == INVALID_VALUE
    assert value(c_int, cu.cuDeviceGetAttribute, 22, 0) >= 65_536
