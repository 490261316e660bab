"""How a launch treats Python objects of a type: asked once for each type."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from gpulend.exceptions import CompileError, DriverError, Error, KernelError

# The common bases of ctypes' types.
_SIMPLE: type[ctypes._SimpleCData[Any]] = ctypes.c_int.__mro__[1]
_POINTER: type = ctypes.POINTER(ctypes.c_int).__mro__[1]
_ADDRESSES = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p, ctypes.py_object)


# Packages whose types live as long as the process.
_LIBRARIES = {
    *("builtins", "ctypes", "numpy", "ml_dtypes", "torch", "cupy", "jax", "jaxlib", "tensorflow"),
    *("numba", "pycuda", "pyopencl", "cuda", "tvm_ffi", "gpulend"),
}


def kind(cls: type) -> tuple[str, int | None, bool]:
    """Return the kind of a type's objects for a launch, their size if fixed, and if it lasts."""
    lasts = cls.__module__.partition(".")[0] in _LIBRARIES and "<locals>" not in cls.__qualname__
    return (*_kind(cls), lasts)


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
    if issubclass(cls, (str, list, tuple, dict, set)):
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


# How arrays of a package are converted.
_CONVERSIONS = {
    "torch": "{name}.to(torch.{fit})",
    **dict.fromkeys(("numpy", "jax", "jaxlib", "cupy", "pycuda"), '{name}.astype("{fit}")'),
    "tensorflow": 'tf.cast({name}, "{fit}")',
    "numba": 'cuda.to_device({name}.copy_to_host().astype("{fit}"))',
    "gpulend": 'gpulend.from_host({name}.to_host().astype("{fit}"))',
}


def conversion(cls: type, name: str, fits: list[str]) -> str:
    """Return how to convert an array of a class to one of the element types."""
    packages = (base.__module__.partition(".")[0] for base in cls.__mro__)
    call = next((_CONVERSIONS[package] for package in packages if package in _CONVERSIONS), None)
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
