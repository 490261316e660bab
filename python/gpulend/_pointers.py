"""Addresses in and out: ctypes pointers, objects with `__int__`, and `Lease.pointer`."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gpulend import _native, adapters
from gpulend._codes import NULL_ADDRESS
from gpulend.exceptions import AddressError

if TYPE_CHECKING:
    from gpulend._native import Lease, _Export

_SIMPLE: type = ctypes.c_void_p.__mro__[1]
_TYPED_POINTER: type = ctypes.POINTER(ctypes.c_int).__mro__[1]


def resolve(value: Any) -> tuple[Any, Any]:
    """Return the address in `value` and the element type that it points to, if it has one."""
    if isinstance(value, _TYPED_POINTER):
        address = ctypes.cast(value, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
        return address, _element(value._type_)  # type: ignore[attr-defined]
    if isinstance(value, (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_ssize_t)):
        return value.value or 0, None
    # The number in a lease is seldom an address.
    if hasattr(value, "__int__") and not isinstance(value, (float, str, bytes, _native.Lease)):
        return int(value), None
    return None, None


def _element(pointee: Any) -> Any:
    """Return the innermost element type of a pointee, or None if it is not a number."""
    while issubclass(pointee, ctypes.Array):
        pointee = pointee._type_
    return pointee if issubclass(pointee, _SIMPLE) else None


def is_pointer(kind: type) -> bool:
    """Return whether objects of a type are ctypes pointers."""
    return issubclass(kind, (ctypes.c_void_p, _TYPED_POINTER))


def is_ctypes(kind: type) -> bool:
    """Return whether objects of a type are ctypes', and so may have any address."""
    return issubclass(kind, _SIMPLE.__mro__[1])


def points_to_array(kind: type) -> bool:
    """Return whether objects of a type are ctypes pointers with a known size."""
    return issubclass(kind, _TYPED_POINTER) and issubclass(kind._type_, ctypes.Array)  # type: ignore[attr-defined]


def contents(pointer: Any) -> Any:
    """Return the array behind a pointer."""
    if not pointer:
        raise AddressError("the pointer is null; there is no array behind it", NULL_ADDRESS)
    return pointer.contents


def hint(value: Any) -> str:
    """Return an alternative to borrowing `value`, for the end of an error message."""
    if isinstance(value, (int, ctypes.c_void_p, _TYPED_POINTER)):
        return "; an address says nothing about shape or owner: use gpulend.wrap(address, shape, …)"
    if isinstance(value, (list, tuple, float)):
        return "; make an array of it first, as with numpy.array(value)"
    if waiting := adapters.unimported(type(value)):
        modules = " or ".join(framework.module for framework in waiting)
        return f"; the adapter for its package is used once {modules} is imported"
    return ""


class Pointer(int):
    """An address that is an int, and a ctypes pointer by `.ctypes`."""

    __slots__ = ()

    @property
    def ctypes(self) -> ctypes.c_void_p:
        """The address as `ctypes.c_void_p`, which ctypes functions do not cut to 32 bits."""
        return ctypes.c_void_p(int(self))


class PointerContext:
    """Holds a lease inside a `with` block and returns its address."""

    def __init__(self, lease: Lease, stream: Any = None) -> None:
        self._lease = lease
        self._stream = stream
        self._exports: list[_Export] = []

    def __enter__(self) -> Pointer:
        export = self._lease._hold_on("pointer()", self._stream)
        self._exports.append(export)
        return Pointer(export.address)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._exports.pop().close()
        except Exception:
            # The block's own exception is more important.
            if kind is None:
                raise


def address_of(array_or_pointer: Any) -> Any:
    """Return the address of an array's first element, or the one in a pointer."""
    kind = type(array_or_pointer)
    if is_pointer(kind) and not points_to_array(kind):
        return resolve(array_or_pointer)[0]
    return _native.locate(array_or_pointer)
