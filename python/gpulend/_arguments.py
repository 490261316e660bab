"""How a launch treats Python objects of a type: asked once for each type."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from gpulend import _native, adapters
from gpulend.exceptions import CompileError, DriverError, Error, KernelError

# The common bases of ctypes' types.
_SIMPLE: type[ctypes._SimpleCData[Any]] = ctypes.c_int.__mro__[1]
_POINTER: type = ctypes.POINTER(ctypes.c_int).__mro__[1]
_ADDRESSES = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p, ctypes.py_object)


# Packages, beside frameworks, whose types live as long as the process.
_LIBRARIES = frozenset(("builtins", "ctypes", "ml_dtypes", "gpulend"))


def kind(cls: type) -> tuple[str, int | None, bool]:
    """Return the kind of a type's objects for a launch, their size if fixed, and if it lasts."""
    package = adapters.module_of(cls).partition(".")[0]
    known = package in _LIBRARIES or any(
        package in framework.packages for framework in [*adapters.FRAMEWORKS.values()]
    )
    return (*_kind(cls), known and "<locals>" not in cls.__qualname__)


def _kind(cls: type) -> tuple[str, int | None]:
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(cls, numpy.generic):
        return _of_numpy(numpy, cls)
    if issubclass(cls, (*_ADDRESSES, _POINTER)):
        return "other", None
    if issubclass(cls, _SIMPLE):
        return "boxed", ctypes.sizeof(cls)
    if issubclass(cls, (ctypes.Structure, ctypes.Union, bytes, bytearray)):
        return "record", None
    if issubclass(cls, int):
        return "integer", None
    if issubclass(cls, float):
        return "float", None
    if issubclass(cls, complex):
        return "complex", None
    if issubclass(cls, (str, list, tuple, dict, set, type)):
        return "other", None
    return "array", None


def _of_numpy(numpy: Any, cls: type) -> tuple[str, int | None]:
    if issubclass(cls, numpy.bool_):
        return "bool", None
    # A long double has values that no parameter can hold.
    if issubclass(cls, (numpy.timedelta64, numpy.longdouble)):
        return "other", None
    if issubclass(cls, numpy.integer):
        return "integer", None
    if issubclass(cls, numpy.floating):
        return "float", numpy.dtype(cls).itemsize
    if issubclass(cls, numpy.complexfloating):
        return "complex", None
    # Records, and numbers of ml_dtypes, whose bits are passed unchanged.
    if issubclass(cls, numpy.void) or cls.__module__.partition(".")[0] == "ml_dtypes":
        return "record", None
    return "other", None


def record(value: Any) -> bytes:
    """Return the bytes of a struct."""
    if isinstance(value, (ctypes.Structure, ctypes.Union, bytes, bytearray)):
        return bytes(value)
    made: bytes = value.tobytes()
    return made


def is_record(array: Any) -> bool:
    """Return whether a NumPy array is one struct, which a parameter takes by value."""
    return array.ndim == 0 and array.dtype.names is not None


def structs_as_bytes(array: Any) -> Any:
    """Return the bytes of an array of structs, with an axis more; None if it is no such array."""
    numpy = sys.modules["numpy"]
    if not isinstance(array, numpy.ndarray) or array.dtype.names is None or array.dtype.hasobject:
        return None
    # NumPy takes another size of elements along an axis without gaps, as one of extent 1 is.
    return array[..., numpy.newaxis].view(numpy.uint8)


def conversion(cls: type, name: str, fits: list[str]) -> str:
    """Return how to convert an array of a class to one of the element types."""
    if issubclass(cls, _native.Lease):
        call: str | None = 'gpulend.from_host({name}.to_host().astype("{fit}"))'
    else:
        found = adapters.producer_of(cls)
        call = found[1].conversion if found is not None else None
    if call is None:
        return f"convert it to {' or '.join(fits)}"
    return f"convert it ({' or '.join(call.format(name=name, fit=fit) for fit in fits)})"


def place_error(error: BaseException, place: str) -> None:
    """Raise the error about an object again, with the argument that it was for.

    Errors that name the argument already stay unchanged, and so do those of others.
    """
    if not isinstance(error, Error) or isinstance(error, KernelError):
        return
    if isinstance(error, CompileError | DriverError):
        return
    raise type(error)(f"{place}: {error}", error.code) from error.__cause__
