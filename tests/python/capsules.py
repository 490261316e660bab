"""DLPack capsules for tests: DLPack tensors and exchange tables whose every field may lie.

`Sample` makes a managed tensor, legacy or versioned, and counts how often its
deleter runs. `Producer` hands capsules of it out as an array would. `Table` is
a C exchange API in ctypes.
"""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import (
    POINTER,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)

import gpulend

Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)

# Functions of our own: how ctypes.pythonapi's are called is for all libraries, Warp among them.
pythonapi = ctypes.PyDLL(None)
pythonapi.PyCapsule_New.restype = py_object
pythonapi.PyCapsule_New.argtypes = (c_void_p, c_char_p, c_void_p)
pythonapi.PyCapsule_IsValid.restype = c_int
pythonapi.PyCapsule_IsValid.argtypes = (c_void_p, c_char_p)
pythonapi.PyCapsule_GetPointer.restype = c_void_p
pythonapi.PyCapsule_GetPointer.argtypes = (py_object, c_char_p)
pythonapi.PyCapsule_GetName.restype = c_char_p
pythonapi.PyCapsule_GetName.argtypes = (py_object,)
pythonapi.PyCapsule_SetName.argtypes = (py_object, c_char_p)

LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
READ_ONLY, IS_COPIED, SUBBYTE_PADDED = 1, 2, 4
FLOAT32 = (2, 32, 1)
COMPACT = object()  # strides: as C orders them


class DLTensor(ctypes.Structure):
    """`DLTensor`, with device and element type spread out."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Managed(ctypes.Structure):
    """`DLManagedTensor`: the layout before versions."""

    _fields_ = [("tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", DLTensor),
    ]


def _longs(values):
    return None if values is None else (c_int64 * max(len(values), 1))(*values)


def _compact(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


class Sample:
    """A tensor over 16 floats of our own, counting its releases; any field can be set wrongly.

    `data`, `ndim`, `shape` and `strides` go to the struct as they are given,
    None as NULL. `deleter=False` leaves the deleter NULL.
    """

    def __init__(
        self,
        shape=(3,),
        strides=COMPACT,
        dtype=FLOAT32,
        *,
        versioned=True,
        version=(1, 3),
        flags=0,
        device=(1, 0),
        data=COMPACT,
        ndim=COMPACT,
        byte_offset=0,
        deleter=True,
    ):
        self.numbers = (ctypes.c_float * 16)(*range(16))
        self.address = ctypes.addressof(self.numbers)
        self._releases = 0
        self._handed = []  # else a refused one would die, and run Python, with the error set
        self.struct = Versioned() if versioned else Managed()
        self.name = VERSIONED if versioned else LEGACY
        self._shape = _longs(shape)
        self._strides = _longs(_compact(shape or ()) if strides is COMPACT else strides)
        tensor = self.struct.tensor
        tensor.data = self.address if data is COMPACT else data
        tensor.device_type, tensor.device_id = device
        tensor.ndim = len(shape or ()) if ndim is COMPACT else ndim
        tensor.code, tensor.bits, tensor.lanes = dtype
        tensor.shape, tensor.strides = self._shape, self._strides
        tensor.byte_offset = byte_offset
        if versioned:
            (self.struct.major, self.struct.minor), self.struct.flags = version, flags
        self._deleter = Deleter(self._release)
        if deleter:
            self.struct.deleter = ctypes.cast(self._deleter, c_void_p)

    def _release(self, _pointer):
        self._releases += 1

    @property
    def released(self):
        """How often the deleter ran, all capsules that nobody else holds being dead."""
        self._handed.clear()
        return self._releases

    @property
    def pointer(self):
        """Where the managed tensor lies."""
        return ctypes.addressof(self.struct)

    def capsule(self, name=None):
        """A fresh capsule of the tensor; left unconsumed, it releases the tensor as it dies."""
        made = capsule(self.pointer, name or self.name, _drop_unconsumed)
        self._handed.append(made)
        return made


class Immortal(Sample):
    """A sample as a C library has it: never freed, and writing an x to stdout at each release."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        pythonapi.Py_IncRef(py_object(self))

    def _release(self, _pointer, write=os.write):
        write(1, b"x")


@_Destructor
def _drop_unconsumed(capsule_address):
    for name, struct in ((LEGACY, Managed), (VERSIONED, Versioned)):
        if pythonapi.PyCapsule_IsValid(capsule_address, name):
            get = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(
                ("PyCapsule_GetPointer", pythonapi)
            )
            release(get(capsule_address, name), struct)


def in_a_bare_thread(function_address, argument):
    """Run a C function on a thread that Python has never heard of, without the GIL."""
    libc = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    arguments = (c_void_p(function_address), c_void_p(argument))
    assert libc.pthread_create(ctypes.byref(thread), None, *arguments) == 0
    assert libc.pthread_join(thread, None) == 0


def release_in_a_bare_thread(exported):
    """Consume a capsule and release it from a thread that Python has never heard of."""
    pointer, struct = consume(exported)
    in_a_bare_thread(struct.from_address(pointer).deleter, pointer)


def settle():
    """Wait until the reaper has released all that threads without the GIL left to it."""
    done, block = threading.Event(), ctypes.c_int()
    lease = gpulend.wrap(ctypes.addressof(block), (), "int32", deleter=lambda *_: done.set())
    exported = lease.__dlpack__()
    del lease
    release_in_a_bare_thread(exported)
    assert done.wait(60)


def release(pointer, struct=Versioned):
    """Call a managed tensor's deleter as a consumer does, without the GIL."""
    deleter = struct.from_address(pointer).deleter
    if deleter:
        Deleter(deleter)(pointer)


_names = {}


def capsule(pointer, name, destructor=None):
    """Make a capsule; its name is kept for good, as the C API wants."""
    kept = _names.setdefault(name, ctypes.create_string_buffer(name) if name else None)
    text = ctypes.cast(kept, c_char_p) if kept is not None else None
    return pythonapi.PyCapsule_New(pointer, text, ctypes.cast(destructor, c_void_p))


def consume(exported):
    """Take a capsule as a consumer does: rename it and return the tensor's address and struct."""
    name = pythonapi.PyCapsule_GetName(exported)
    pointer = pythonapi.PyCapsule_GetPointer(exported, name)
    used = _names.setdefault(b"used_" + name, ctypes.create_string_buffer(b"used_" + name))
    pythonapi.PyCapsule_SetName(exported, ctypes.cast(used, c_char_p))
    return pointer, {LEGACY: Managed, VERSIONED: Versioned}[name]


class Producer:
    """An array of some framework that speaks `__dlpack__`, and hands out what a test gives it."""

    def __init__(self, answer, device=(1, 0)):
        self.answer, self.device = answer, device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """Hand out a capsule, or whatever was asked of this capsules."""
        return self.answer() if callable(self.answer) else self.answer

    def __dlpack_device__(self):
        """Say where the memory is."""
        return self.device


class Header(ctypes.Structure):
    """`DLPackExchangeAPIHeader`."""

    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("prev_api", c_void_p)]


SetError = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
Allocator = ctypes.PYFUNCTYPE(c_int, POINTER(DLTensor), POINTER(c_void_p), c_void_p, SetError)
FromPy = ctypes.PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))
ToPy = ctypes.PYFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))
TensorFromPy = ctypes.PYFUNCTYPE(c_int, py_object, POINTER(DLTensor))
WorkStream = ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))


class Table(ctypes.Structure):
    """`DLPackExchangeAPI`."""

    _fields_ = [
        ("header", Header),
        ("allocator", Allocator),
        ("from_py", FromPy),
        ("to_py", ToPy),
        ("tensor_from_py", TensorFromPy),
        ("work_stream", WorkStream),
    ]


TABLE_NAME = b"dlpack_exchange_api"


def table_of(kind):
    """Read the table that a class publishes."""
    pointer = pythonapi.PyCapsule_GetPointer(kind.__dlpack_c_exchange_api__, TABLE_NAME)
    return Table.from_address(pointer)


def foreign_table(from_py, version=(1, 3), prev_api=None):
    """Make a table with which objects are exported by `from_py(object) -> Sample`.

    An exception in `from_py` is a failure that set no Python error.
    """

    @FromPy
    def export(thing, out):
        try:
            out[0] = from_py(thing).pointer
        except Exception:
            return -1
        return 0

    @TensorFromPy
    def show(thing, out):
        out[0] = from_py(thing).struct.tensor
        return 0

    @WorkStream
    def stream(_kind, _index, out):
        out[0] = None
        return 0

    older = ctypes.addressof(prev_api) if prev_api is not None else None
    table = Table(Header(*version, older))
    table.from_py, table.tensor_from_py, table.work_stream = export, show, stream
    table.kept = (export, show, stream, prev_api)
    return table
