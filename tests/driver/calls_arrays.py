"""One valid use of each function of arrays, textures and surfaces: part of `calls.py`."""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_uint64, c_void_p

from .bench import SIZE, Bench, Out, Table, then
from .cuda import (
    ArrayDescription,
    FlatDescription,
    ResourceDescription,
    TextureDescription,
    ViewDescription,
    check,
)
from .resources import value
from .variants import cu

FLOAT = 0x20  # CUarray_format
LINE = ArrayDescription(SIZE // 4, 0, 0, FLOAT, 1, 2)  # for surfaces, too

ARRAYS = Table()


def _array(b: Bench) -> int:
    return value(c_void_p, cu.cuArray3DCreate_v2, ctypes.byref(LINE))


def _kept(b: Bench) -> int:
    array = b._later(cu.cuArrayDestroy, _array(b))
    check(cu.cuMemcpyHtoA_v2(array, 0, bytes(SIZE), SIZE))
    check(cu.cuCtxSynchronize())
    return array


def _mipmap(b: Bench) -> int:
    return value(c_void_p, cu.cuMipmappedArrayCreate, ctypes.byref(LINE), 2)


def _resource(b: Bench) -> Out:
    return Out(ResourceDescription(0, (c_uint64 * 16)(_kept(b)), 0))


def _texture(b: Bench) -> int:
    view = ViewDescription(0, (SIZE // 4, 0, 0))
    parts = [_resource(b).data, TextureDescription(), view]
    return value(c_uint64, cu.cuTexObjectCreate, *map(ctypes.byref, parts))


def _surface(b: Bench) -> int:
    return value(c_uint64, cu.cuSurfObjectCreate, ctypes.byref(_resource(b).data))


_gone = then(cu.cuArrayDestroy)
ARRAYS.add(
    "cuArrayCreate_v2", lambda b: (Out(), Out(FlatDescription(SIZE // 4, 0, FLOAT, 1))), _gone
)
ARRAYS.add("cuArray3DCreate_v2", lambda b: (Out(), Out(LINE)), _gone)
ARRAYS.add("cuArrayGetDescriptor_v2", lambda b: (Out(FlatDescription), _kept(b)))
ARRAYS.add("cuArray3DGetDescriptor_v2", lambda b: (Out(ArrayDescription), _kept(b)))
ARRAYS.add("cuArrayGetPlane", lambda b: (Out(), _kept(b), 0), answer=1)
ARRAYS.add("cuArrayDestroy", lambda b: (_array(b),))
ARRAYS.add(
    "cuMipmappedArrayCreate", lambda b: (Out(), Out(LINE), 2), then(cu.cuMipmappedArrayDestroy)
)
ARRAYS.add(
    "cuMipmappedArrayGetLevel",
    lambda b: (Out(), b._later(cu.cuMipmappedArrayDestroy, _mipmap(b)), 1),
)
ARRAYS.add("cuMipmappedArrayDestroy", lambda b: (_mipmap(b),))

ARRAYS.add("cuMemcpyDtoA_v2", lambda b: (_kept(b), 0, b.other, SIZE))
ARRAYS.add("cuMemcpyAtoD_v2", lambda b: (b.device, _kept(b), 0, SIZE))
ARRAYS.add("cuMemcpyHtoA_v2", lambda b: (_kept(b), 0, b.pages, SIZE))
ARRAYS.add("cuMemcpyAtoH_v2", lambda b: (b.pages, _kept(b), 0, SIZE))
ARRAYS.add("cuMemcpyAtoA_v2", lambda b: (_kept(b), 0, _kept(b), 0, SIZE))
ARRAYS.add("cuMemcpyHtoAAsync_v2", lambda b: (_kept(b), 0, b.pinned, SIZE, b.stream))
ARRAYS.add("cuMemcpyAtoHAsync_v2", lambda b: (b.pinned, _kept(b), 0, SIZE, b.stream))

ARRAYS.add(
    "cuTexObjectCreate",
    lambda b: (Out(c_uint64), _resource(b), Out(TextureDescription()), None),
    then(cu.cuTexObjectDestroy),
)
ARRAYS.add("cuTexObjectDestroy", lambda b: (_texture(b),))
ARRAYS.add(
    "cuSurfObjectCreate", lambda b: (Out(c_uint64), _resource(b)), then(cu.cuSurfObjectDestroy)
)
ARRAYS.add("cuSurfObjectDestroy", lambda b: (_surface(b),))
for _name, _kind in (
    ("cuTexObjectGetResourceDesc", ResourceDescription),
    ("cuTexObjectGetTextureDesc", TextureDescription),
    ("cuTexObjectGetResourceViewDesc", ViewDescription),
):
    ARRAYS.add(
        _name, lambda b, kind=_kind: (Out(kind), b._later(cu.cuTexObjectDestroy, _texture(b)))
    )
ARRAYS.add(
    "cuSurfObjectGetResourceDesc",
    lambda b: (Out(ResourceDescription), b._later(cu.cuSurfObjectDestroy, _surface(b))),
)
ARRAYS.add("cuDeviceGetTexture1DLinearMaxWidth", lambda b: (Out(c_size_t), FLOAT, 1, 0))
