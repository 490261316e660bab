"""The functions of `gpulend.h` for ctypes, with their argument types declared once.

>>> import ctypes
>>> from gpulend import ctypes_api as c
>>> numbers = (ctypes.c_float * 3)(1, 2, 3)
>>> handle = ctypes.c_uint64()
>>> shape = (ctypes.c_int64 * 1)(3)
>>> library = c.library()
>>> library.gpulend_allocate(0, c.FLOAT32, 1, shape, 0, handle)
0
>>> library.gpulend_copy_from_host(handle, numbers, ctypes.sizeof(numbers), 0)
0
>>> lease = c.lease(handle)
>>> lease.to_host()
array([1., 2., 3.], dtype=float32)

A function that fails raises the same exception as Python's own. Programs that declare the types
themselves do not need this module: `ctypes.CDLL(gpulend.config.library())` is enough.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

from gpulend import _native, exceptions
from gpulend._codes import CLASSES
from gpulend._native import Lease

HOST, ANY_DEVICE = -1, -2
READONLY, UNOWNED, UNCHECKED, READY = 1, 2, 4, 8
SIMULATED, PADDED, COMPACT, HOST_VISIBLE = 16, 32, 64, 128
BLOCKING, AS_CUDA, STRIDED = 256, 512, 1024
COMPILER_ANY, COMPILER_NVRTC, COMPILER_CLANG = 0, 1, 2
ARGUMENT_NULL, ARGUMENT_LEASE, ARGUMENT_INT, ARGUMENT_UINT, ARGUMENT_DOUBLE, ARGUMENT_BYTES = range(
    6
)


def dtype(code: int, bits: int) -> int:
    """Return the number of an element type by its DLPack code and bits."""
    return code | bits << 8 | 1 << 16


INT8, INT16, INT32, INT64 = (dtype(0, bits) for bits in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (dtype(1, bits) for bits in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (dtype(2, bits) for bits in (16, 32, 64))
BFLOAT16, BOOL = dtype(4, 16), dtype(6, 8)
COMPLEX64, COMPLEX128 = dtype(5, 2 * 32), dtype(5, 2 * 64)

DELETER = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_uint64)
"""Frees wrapped memory: `deleter(context, address, bytes)`. Keep it as long as the lease."""


class _Growing(ctypes.Structure):
    """A struct that contains its size, as the library requires."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(ctypes.sizeof(type(self)), *arguments, **fields)


class Claim(_Growing):
    """A description of the memory at an address: `gpulend_claim`."""

    _fields_ = [
        ("size", c_uint64),
        ("address", c_uint64),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("ndim", c_int32),
        ("device", c_int32),
        ("dtype", c_uint32),
        ("flags", c_uint32),
        ("ready_on", c_uint64),
    ]


class LeaseInfo(_Growing):
    """Information about a lease: `gpulend_lease_info`."""

    _fields_ = [
        ("size", c_uint64),
        ("address", c_uint64),
        ("bytes", c_uint64),
        ("device", c_int32),
        ("memory", c_uint32),
        ("dtype", c_uint32),
        ("ndim", c_int32),
        ("flags", c_uint32),
        ("reserved", c_uint32),
    ]


class Passport(_Growing):
    """What is known about an address: `gpulend_passport`."""

    _fields_ = [
        ("size", c_uint64),
        ("address", c_uint64),
        ("base", c_uint64),
        ("bytes", c_uint64),
        ("buffer_id", c_uint64),
        ("context", c_uint64),
        ("pool", c_uint64),
        ("uuid", ctypes.c_uint8 * 16),
        ("device", c_int32),
        ("memory", c_uint32),
        ("known", c_uint32),
        ("shareable", c_uint32),
    ]


class DeviceInfo(_Growing):
    """Information about a GPU: `gpulend_device_info`."""

    _fields_ = [
        ("size", c_uint64),
        ("memory", c_uint64),
        ("major", c_int32),
        ("minor", c_int32),
        ("flags", c_uint32),
        ("reserved", c_uint32),
        ("name", c_char * 256),
    ]


class PoolInfo(_Growing):
    """How much memory of a GPU gpulend has: `gpulend_pool_info`."""

    _fields_ = [
        ("size", c_uint64),
        ("live", c_uint64),
        ("cached", c_uint64),
        ("peak", c_uint64),
        ("reserved", c_uint64),
        ("largest", c_uint64),
        ("blocks", c_uint64),
        ("segments", c_uint64),
        ("limit", c_uint64),
    ]


class Source(_Growing):
    """A source to compile: `gpulend_source`."""

    _fields_ = [
        ("size", c_uint64),
        ("text", c_char_p),
        ("bytes", c_uint64),
        ("file", c_char_p),
        ("options", POINTER(c_char_p)),
        ("names", POINTER(c_char_p)),
        ("header_names", POINTER(c_char_p)),
        ("header_texts", POINTER(c_char_p)),
        ("option_count", c_uint32),
        ("name_count", c_uint32),
        ("header_count", c_uint32),
        ("device", c_int32),
        ("compiler", c_uint32),
        ("reserved", c_uint32),
    ]


class KernelInfo(_Growing):
    """A kernel's resources and limits: `gpulend_kernel_info`."""

    _fields_ = [
        ("size", c_uint64),
        ("max_threads_per_block", c_uint32),
        ("shared_bytes", c_uint32),
        ("constant_bytes", c_uint32),
        ("local_bytes", c_uint32),
        ("registers", c_uint32),
        ("ptx_version", c_uint32),
        ("binary_version", c_uint32),
        ("max_dynamic_shared_bytes", c_uint32),
    ]


class LaunchShape(_Growing):
    """Grid, block and stream of a launch: `gpulend_launch_shape`."""

    _fields_ = [
        ("size", c_uint64),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared", c_uint32),
        ("flags", c_uint32),
        ("stream", c_uint64),
    ]


class Argument(ctypes.Structure):
    """An argument of a kernel: `gpulend_argument`."""

    _fields_ = [("kind", c_uint32), ("bytes", c_uint32), ("value", c_uint64)]


def arguments(*values: object) -> Any:
    """Return the arguments of a launch.

    Each is the handle of a lease (a `c_uint64`), None for NULL, an int, a bool, a float, or a
    ctypes structure, which is read by the launch.
    """
    made: Any = (Argument * len(values))(*map(_argument, values))
    # The addresses of structures are in there.
    made.values = values
    return made


def _argument(value: object) -> Argument:
    if value is None:
        return Argument(ARGUMENT_NULL)
    if isinstance(value, c_uint64):
        return Argument(ARGUMENT_LEASE, 0, value.value)
    if isinstance(value, int):
        if value < 0:
            return Argument(ARGUMENT_INT, 0, c_uint64(c_int64(value).value).value)
        return Argument(ARGUMENT_UINT, 0, value)
    if isinstance(value, float):
        return Argument(ARGUMENT_DOUBLE, 0, c_uint64.from_buffer(ctypes.c_double(value)).value)
    if isinstance(value, ctypes.Structure):
        return Argument(ARGUMENT_BYTES, ctypes.sizeof(value), ctypes.addressof(value))
    raise TypeError(
        f"{value!r} cannot be an argument of a kernel; pass a handle (c_uint64), None, an int, "
        "a float or a ctypes structure"
    )


_place = POINTER(c_uint64)
_flag = POINTER(c_int32)
_numbers = POINTER(c_int64)
_text: tuple[Any, ...] = (c_char_p, c_uint64, _place)
_array: tuple[Any, ...] = (c_int32, c_uint32, c_int32, _numbers, c_uint64, _place)

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "gpulend_dtype_parse": (c_char_p, POINTER(c_uint32)),
    "gpulend_dtype_name": (c_uint32, *_text),
    "gpulend_simulate": (c_char_p,),
    "gpulend_driver": _text,
    "gpulend_device_count": (_flag,),
    "gpulend_device": (c_int32, POINTER(DeviceInfo)),
    "gpulend_synchronize": (c_int32,),
    "gpulend_stream_create": (c_int32, c_uint32, _place),
    "gpulend_stream_wrap": (c_int32, c_uint64, _place),
    "gpulend_stream_number": (c_uint64, _place, _flag),
    "gpulend_stream_enter": (c_uint64,),
    "gpulend_stream_leave": (c_uint64,),
    "gpulend_stream_synchronize": (c_uint64,),
    "gpulend_stream_done": (c_uint64, _flag),
    "gpulend_stream_wait": (c_uint64, c_uint64),
    "gpulend_stream_free": (c_uint64,),
    "gpulend_event_record": (c_uint64, _place),
    "gpulend_event_synchronize": (c_uint64,),
    "gpulend_event_done": (c_uint64, _flag),
    "gpulend_event_free": (c_uint64,),
    "gpulend_allocate": _array,
    "gpulend_zeros": _array,
    "gpulend_wrap": (POINTER(Claim), DELETER, c_void_p, _place),
    "gpulend_free": (c_uint64,),
    "gpulend_release": (c_uint64,),
    "gpulend_info": (c_uint64, POINTER(LeaseInfo)),
    "gpulend_shape": (c_uint64, c_int32, _numbers, _numbers),
    "gpulend_slice": (c_uint64, c_int32, c_int64, c_int64, c_int64, _place),
    "gpulend_reshape": (c_uint64, c_int32, _numbers, _place),
    "gpulend_transpose": (c_uint64, _place),
    "gpulend_view": (c_uint64, c_uint32, _place),
    "gpulend_readonly": (c_uint64, _place),
    "gpulend_pointer": (c_uint64, c_uint64, _place),
    "gpulend_host_pointer": (c_uint64, _place),
    "gpulend_used_on": (c_uint64, c_uint64),
    "gpulend_describe": (c_uint64, POINTER(Passport)),
    "gpulend_copy_from_host": (c_uint64, c_void_p, c_uint64, c_uint64),
    "gpulend_copy_to_host": (c_uint64, c_void_p, c_uint64, c_uint64),
    "gpulend_copy": (c_uint64, c_uint64, c_uint64),
    "gpulend_fill": (c_uint64, c_void_p, c_uint64, c_uint64),
    "gpulend_from_dlpack": (c_void_p, c_uint64, _place),
    "gpulend_from_dlpack_versioned": (c_void_p, c_uint64, _place),
    "gpulend_to_dlpack": (c_uint64, c_uint64, c_uint32, POINTER(c_void_p)),
    "gpulend_to_dlpack_versioned": (c_uint64, c_uint64, c_uint32, POINTER(c_void_p)),
    "gpulend_set_compilers": (c_char_p, c_char_p, c_char_p),
    "gpulend_compile": (POINTER(Source), _place),
    "gpulend_module_names": (c_uint64, *_text),
    "gpulend_module_variables": (c_uint64, *_text),
    "gpulend_module_warnings": (c_uint64, *_text),
    "gpulend_module_variable": (c_uint64, c_char_p, _place),
    "gpulend_module_free": (c_uint64,),
    "gpulend_kernel_get": (c_uint64, c_char_p, _place),
    "gpulend_kernel_signature": (c_uint64, *_text),
    "gpulend_kernel_attributes": (c_uint64, POINTER(KernelInfo)),
    "gpulend_launch": (c_uint64, POINTER(LaunchShape), POINTER(Argument), c_uint64),
    "gpulend_forall": (c_uint64, c_uint64, POINTER(Argument), c_uint64, c_uint64),
    "gpulend_kernel_free": (c_uint64,),
    "gpulend_timer_start": (c_uint64, _place),
    "gpulend_timer_stop": (c_uint64,),
    "gpulend_timer_milliseconds": (c_uint64, POINTER(ctypes.c_double)),
    "gpulend_timer_free": (c_uint64,),
    "gpulend_pool": (c_int32, POINTER(PoolInfo)),
    "gpulend_pool_trim": (c_int32, c_uint64, _place),
    "gpulend_pool_set_limit": (c_int32, c_uint64),
    "gpulend_pool_reset_peak": (c_int32,),
    "gpulend_pool_allocate": (c_uint64, c_uint64, _place),
    "gpulend_pool_free": (c_uint64,),
    "gpulend_allocate_shared": _array,
    "gpulend_ticket": (
        c_uint64,
        c_uint32,
        ctypes.c_double,
        c_uint32,
        c_char_p,
        c_uint64,
        _place,
    ),
    "gpulend_ticket_claim": (c_char_p, c_uint64, _place),
    "gpulend_ticket_withdraw": (c_char_p, c_uint64, POINTER(c_int32)),
    "gpulend_live": (_place,),
    "gpulend_ledger": _text,
}
"""The arguments of each function that returns a status."""

RESULTS: dict[str, Any] = {
    "gpulend_version": c_char_p,
    "gpulend_abi_version": c_uint32,
    "gpulend_last_error": c_char_p,
}
"""What the functions without arguments return."""


_loaded: list[ctypes.CDLL] = []


def library() -> ctypes.CDLL:
    """Return the library of this Python, whose functions raise when they fail."""
    if not _loaded:
        _loaded.append(declare(ctypes.CDLL(_native.__file__)))
    return _loaded[0]


def declare(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the functions of a loaded library, and make them raise when they fail."""
    for name, arguments in ARGUMENTS.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, c_int32
        function.errcheck = lambda status, _function, _arguments: _check(loaded, status)
    for name, result in RESULTS.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = (), result
    return loaded


def lease(handle: int | c_uint64) -> Lease:
    """Take over the lease of a C handle in this process; the handle ends."""
    return _native.lease_of(handle.value if isinstance(handle, c_uint64) else handle)


def handle(lease: Lease) -> int:
    """Return a handle of a lease for C code, which frees it with `gpulend_free`."""
    return _native.handle_of(lease)


def _check(loaded: ctypes.CDLL, status: int) -> int:
    if status == 0:
        return 0
    kind: type[exceptions.Error] = getattr(exceptions, CLASSES.get(status, "Error"))
    raise kind(loaded.gpulend_last_error().decode(), status)
