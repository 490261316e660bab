"""One valid use of each function that is about modules and kernels: part of `calls.py`."""

from __future__ import annotations

from ctypes import CFUNCTYPE, byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from .bench import Bench, Out, Table, then
from .kernels import IMAGE, Configuration, pointers
from .kernels import KERNELS as FILE
from .resources import value
from .variants import cu

KERNELS = Table()

NONE = (None, None, 0, None, None, 0)
MAX_DYNAMIC = 8  # CUfunction_attribute
PTX = 1  # CUjitInputType
SHARED_OF = CFUNCTYPE(c_size_t, c_int)


def _kept(b: Bench, name: str, release: Any, make: Any) -> int:
    """Make a thing of this bench when it is first asked for."""
    if name not in vars(b):
        vars(b)[name] = b._later(release, make())
    return vars(b)[name]


def _module(b: Bench) -> int:
    return _kept(
        b, "module", cu.cuModuleUnload, lambda: value(c_void_p, cu.cuModuleLoadData, IMAGE)
    )


def _library(b: Bench) -> int:
    return _kept(b, "library", cu.cuLibraryUnload, _loaded)


def _loaded() -> int:
    return value(c_void_p, cu.cuLibraryLoadData, IMAGE, *NONE)


def _function(b: Bench, name: bytes = b"nothing") -> int:
    return value(c_void_p, cu.cuModuleGetFunction, _module(b), name)


def _kernel(b: Bench) -> int:
    return value(c_void_p, cu.cuLibraryGetKernel, _library(b), b"mixed")


def _begun() -> int:
    link = c_void_p()
    assert cu.cuLinkCreate_v2(0, None, None, byref(link)) == 0
    return link.value or 0


def _link(b: Bench) -> int:
    return _kept(b, "link", cu.cuLinkDestroy, _begun)


def _full_link(b: Bench) -> int:
    link = _link(b)
    assert cu.cuLinkAddData_v2(link, PTX, IMAGE, len(IMAGE), None, 0, None, None) == 0
    return link


# Modules.
KERNELS.add("cuModuleLoadFatBinary", lambda b: (Out(), b"\x50\xed\x55\xba"), answer=209)
KERNELS.add("cuModuleGetFunction", lambda b: (Out(), _module(b), b"nothing"))
KERNELS.add(
    "cuModuleGetGlobal_v2", lambda b: (Out(c_uint64), Out(c_size_t), _module(b), b"counter")
)
KERNELS.add("cuModuleGetFunctionCount", lambda b: (Out(c_uint), _module(b)))
KERNELS.add("cuModuleEnumerateFunctions", lambda b: (Out(), 1, _module(b)))

# Links.
KERNELS.add(
    "cuLinkCreate cuLinkCreate_v2",
    lambda b: (0, None, None, Out()),
    lambda b, *given: cu.cuLinkDestroy(given[-1].value),
)
KERNELS.add(
    "cuLinkAddData cuLinkAddData_v2",
    lambda b: (_link(b), PTX, IMAGE, len(IMAGE), None, 0, None, None),
)
KERNELS.add(
    "cuLinkAddFile cuLinkAddFile_v2",
    lambda b: (_link(b), PTX, str(FILE).encode(), 0, None, None),
)
KERNELS.add("cuLinkComplete", lambda b: (_full_link(b), Out(), Out(c_size_t)))
KERNELS.add("cuLinkDestroy", lambda b: (_begun(),))

# Libraries.
KERNELS.add("cuLibraryLoadData", lambda b: (Out(), IMAGE, *NONE), then(cu.cuLibraryUnload))
KERNELS.add(
    "cuLibraryLoadFromFile",
    lambda b: (Out(), str(FILE).encode(), *NONE),
    then(cu.cuLibraryUnload),
)
KERNELS.add("cuLibraryUnload", lambda b: (_loaded(),))
KERNELS.add("cuLibraryGetKernel", lambda b: (Out(), _library(b), b"nothing"))


def _resident(b: Bench) -> int:
    """Return a library that is in the context already."""
    value(c_void_p, cu.cuLibraryGetModule, _library(b))
    return _library(b)


KERNELS.add("cuLibraryGetModule", lambda b: (Out(), _resident(b)))
KERNELS.add(
    "cuLibraryGetGlobal", lambda b: (Out(c_uint64), Out(c_size_t), _resident(b), b"counter")
)
KERNELS.add("cuLibraryGetManaged", lambda b: (Out(c_uint64), None, _library(b), b"no"), answer=500)
KERNELS.add("cuLibraryGetKernelCount", lambda b: (Out(c_uint), _library(b)))
KERNELS.add("cuLibraryEnumerateKernels", lambda b: (Out(), 1, _library(b)))

# What is known of kernels.
KERNELS.add("cuFuncGetAttribute", lambda b: (Out(c_int), 0, _function(b)))
KERNELS.add("cuFuncSetAttribute", lambda b: (_function(b), MAX_DYNAMIC, 1024))
KERNELS.add("cuFuncSetCacheConfig", lambda b: (_function(b), 1))
KERNELS.add("cuFuncGetName cuFuncGetModule", lambda b: (Out(), _function(b)))
KERNELS.add("cuFuncIsLoaded", lambda b: (Out(c_int), _function(b)))
KERNELS.add("cuFuncLoad", lambda b: (_function(b),))
KERNELS.add(
    "cuFuncGetParamInfo", lambda b: (_function(b, b"mixed"), 1, Out(c_size_t), Out(c_size_t))
)
KERNELS.add("cuFuncGetParamCount", lambda b: (_function(b), Out(c_size_t)))
KERNELS.add("cuKernelGetFunction", lambda b: (Out(), (_resident(b), _kernel(b))[1]))
KERNELS.add("cuKernelGetLibrary cuKernelGetName", lambda b: (Out(), _kernel(b)))
KERNELS.add("cuKernelGetAttribute", lambda b: (Out(c_int), 0, _kernel(b), 0))
KERNELS.add("cuKernelSetAttribute", lambda b: (MAX_DYNAMIC, 1024, _kernel(b), 0))
KERNELS.add("cuKernelSetCacheConfig", lambda b: (_kernel(b), 1, 0))
KERNELS.add("cuKernelGetParamInfo", lambda b: (_kernel(b), 1, Out(c_size_t), Out(c_size_t)))
KERNELS.add("cuKernelGetParamCount", lambda b: (_kernel(b), Out(c_size_t)))
KERNELS.add(
    "cuOccupancyMaxActiveBlocksPerMultiprocessor", lambda b: (Out(c_int), _function(b), 64, 0)
)
KERNELS.add(
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    lambda b: (Out(c_int), _function(b), 64, 0, 0),
)
KERNELS.add(
    "cuOccupancyMaxPotentialBlockSize",
    lambda b: (Out(c_int), Out(c_int), _function(b), SHARED_OF(0), 0, 0),
)
KERNELS.add(
    "cuOccupancyMaxPotentialBlockSizeWithFlags",
    lambda b: (Out(c_int), Out(c_int), _function(b), SHARED_OF(0), 0, 0, 0),
)
KERNELS.add(
    "cuOccupancyAvailableDynamicSMemPerBlock", lambda b: (Out(c_size_t), _function(b), 1, 64)
)


# Launches.
def _given(b: Bench) -> Any:
    return b.keep(pointers(c_uint64(b.device), c_uint(9)))


KERNELS.add(
    "cuLaunchKernel",
    lambda b: (_function(b, b"poke"), *[1] * 6, 0, b.stream, _given(b), None),
)
KERNELS.add(
    "cuLaunchCooperativeKernel",
    lambda b: (_function(b, b"poke"), *[1] * 6, 0, b.stream, _given(b)),
)
KERNELS.add(
    "cuLaunchKernelEx",
    lambda b: (
        Out(Configuration((1, 1, 1), (1, 1, 1), 0, b.stream, None, 0)),
        _function(b, b"poke"),
        _given(b),
        None,
    ),
)
KERNELS.add("cuFuncSetBlockShape", lambda b: (_function(b), 1, 1, 1))
KERNELS.add("cuFuncSetSharedSize cuParamSetSize", lambda b: (_function(b), 8))
KERNELS.add("cuParamSeti", lambda b: (_function(b), 0, 1))
KERNELS.add("cuParamSetf", lambda b: (_function(b), 0, 1.0))
KERNELS.add("cuParamSetv", lambda b: (_function(b), 0, Out(c_uint64(1)), 8))
KERNELS.add("cuLaunch", lambda b: (_function(b),))
KERNELS.add("cuLaunchGrid", lambda b: (_function(b), 1, 1))
KERNELS.add("cuLaunchGridAsync", lambda b: (_function(b), 1, 1, b.stream))
