"""XLA's handlers, called as XLA calls them and as it should not: every call frame is checked."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Iterator
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpulend import _native

from .conftest import REAL, need
from .kernels import kernel

EXECUTE, BUFFER, SCALAR, S64, F32 = 3, 1, 3, 5, 11
N = 4


class Head(Structure):
    """What every struct begins with."""

    _fields_ = [("size", c_size_t), ("extension", c_void_p)]


class Buffer(Head):
    """An array of XLA's."""

    _fields_ = [("dtype", c_int), ("data", c_void_p), ("rank", c_int64), ("dims", c_void_p)]


class Buffers(Head):
    """Operands, or results."""

    _fields_ = [("count", c_int64), ("types", c_void_p), ("buffers", c_void_p)]


class Attributes(Head):
    """What the program says to the handler."""

    _fields_ = [
        *[("count", c_int64), ("types", c_void_p)],
        *[("names", c_void_p), ("values", c_void_p)],
    ]


class Frame(Head):
    """A call."""

    _fields_ = [
        *[("api", c_void_p), ("context", c_void_p), ("stage", c_int)],
        *[("operands", Buffers), ("results", Buffers), ("attributes", Attributes)],
    ]


class ErrorCreate(Head):
    """What XLA makes an error of."""

    _fields_ = [("message", c_char_p), ("code", c_int)]


class Version(Head):
    """A version of the interface."""

    _fields_ = [("major", c_int), ("minor", c_int)]


CREATE = CFUNCTYPE(c_void_p, POINTER(ErrorCreate))


class Api(Head):
    """XLA's own functions, of which the first makes errors."""

    _fields_ = [("version", Version), ("internal", c_void_p), ("create", CREATE)]
    _fields_ += [(f"function{place}", c_void_p) for place in range(17)]


class Span(Structure):
    """A text."""

    _fields_ = [("start", c_char_p), ("length", c_size_t)]


class Scalar(Structure):
    """A number."""

    _fields_ = [("dtype", c_int), ("value", c_void_p)]


class Call:
    """A call of `scale` on one operand and one result, to be spoilt."""

    def __init__(self) -> None:
        self.x, self.y = np.arange(N, dtype="float32"), np.zeros(N, "float32")
        sources = [(0,), (1,), 3.0, N]
        number = _native.xla_launch(kernel("scale"), N, None, 0, sources, [[N], [N]], 1, [])
        self.number, self.errors = c_int64(number), []
        self.dims = (c_int64 * 1)(N)
        self.kinds = (c_int * 1)(BUFFER)
        self.operand, self.result = self.buffer(self.x), self.buffer(self.y)
        self.scalar = Scalar(S64, ctypes.addressof(self.number))
        self.name = Span(b"launch", 6)
        self.attribute_kinds = (c_int * 1)(SCALAR)
        self.api = Api(size=ctypes.sizeof(Api), create=CREATE(self.create))
        self.frame = Frame(
            size=ctypes.sizeof(Frame),
            api=ctypes.addressof(self.api),
            stage=EXECUTE,
            operands=self.buffers(self.operand),
            results=self.buffers(self.result),
            attributes=Attributes(
                size=ctypes.sizeof(Attributes),
                count=1,
                types=ctypes.addressof(self.attribute_kinds),
                names=self.pointer_to("names", self.name),
                values=self.pointer_to("values", self.scalar),
            ),
        )

    def create(self, request: Any) -> int:
        """Make an error, as XLA would."""
        self.errors.append(request.contents.message.decode())
        return 1

    def pointer_to(self, name: str, thing: Structure) -> int:
        """Return the address of a pointer to a thing, which is kept."""
        kept = (c_void_p * 1)(ctypes.addressof(thing))
        setattr(self, f"_{name}", kept)
        return ctypes.addressof(kept)

    def buffer(self, array: Any) -> Buffer:
        """Describe an array."""
        size, data = ctypes.sizeof(Buffer), array.ctypes.data
        dims = ctypes.addressof(self.dims)
        return Buffer(size=size, dtype=F32, data=data, rank=1, dims=dims)

    def buffers(self, buffer: Buffer) -> Buffers:
        """Describe a list of one array."""
        return Buffers(
            size=ctypes.sizeof(Buffers),
            count=1,
            types=ctypes.addressof(self.kinds),
            buffers=self.pointer_to(f"at_{ctypes.addressof(buffer)}", buffer),
        )

    def run(self, handler: int = 0) -> str | None:
        """Call a handler; return what the error says, if there is one."""
        function = CFUNCTYPE(c_void_p, c_void_p)(_native.xla_handlers()[handler])
        returned = function(ctypes.addressof(self.frame))
        assert bool(returned) == bool(self.errors)
        return self.errors[-1] if self.errors else None


@pytest.fixture
def call() -> Iterator[Call]:
    """Give a call that is right until a test spoils it; the next one works all the same."""
    yield Call()
    if not REAL:
        after = Call()
        assert after.run() is None
        assert after.y.tolist() == [0.0, 3.0, 6.0, 9.0]


SPOILT: dict[str, tuple[Any, str]] = {
    "short frame": (lambda c: setattr(c.frame, "size", 40), "does not know this version"),
    "short interface": (lambda c: setattr(c.api, "size", 80), "does not know this version"),
    "other version": (lambda c: setattr(c.api.version, "major", 1), "does not know this version"),
    "stage": (lambda c: setattr(c.frame, "stage", 1), "no handler for XLA's stage 1"),
    "no attribute": (lambda c: setattr(c.frame.attributes, "count", 0), "no attribute `launch`"),
    "other attribute": (lambda c: setattr(c.name, "length", 5), "no attribute `launch`"),
    "attribute of a kind": (lambda c: c.attribute_kinds.__setitem__(0, 4), "no attribute `launch`"),
    "number of a type": (lambda c: setattr(c.scalar, "dtype", F32), "no attribute `launch`"),
    "unknown launch": (lambda c: setattr(c.number, "value", 7), "a kernel of another process"),
    "too few operands": (lambda c: setattr(c.frame.operands, "count", 0), "another number of buff"),
    "negative count": (
        lambda c: setattr(c.frame.results, "count", -1),
        "another number of buffers",
    ),
    "no buffer": (lambda c: c.kinds.__setitem__(0, 9), "is no buffer"),
    "short buffer": (lambda c: setattr(c.operand, "size", 16), "is no buffer"),
    "shape": (lambda c: c.dims.__setitem__(0, 5), r"has shape \[5\], and its launch is for \[4\]"),
    "axes": (
        lambda c: setattr(c.result, "rank", 0),
        r"has shape \[\], and its launch is for \[4\]",
    ),
    "element type": (lambda c: setattr(c.operand, "dtype", 12), r"error 821: .*is a float64 array"),
    "unknown type": (
        lambda c: setattr(c.operand, "dtype", 99),
        "no name for XLA's element type 99",
    ),
    "no memory": (lambda c: setattr(c.operand, "data", 1 << 20), "gpulend error 404"),
}


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.skipif(REAL, reason="the platform is the host's")
def test_a_spoilt_call_is_refused(call: Call, how: str) -> None:
    """With a text for XLA, and nothing is launched."""
    spoil, said = SPOILT[how]
    spoil(call)
    error = call.run()
    assert error is not None
    assert re.search(said, error), error
    assert not call.y.any()


def test_no_frame_is_no_call() -> None:
    """There is nobody to tell."""
    for handler in _native.xla_handlers():
        assert not CFUNCTYPE(c_void_p, c_void_p)(handler)(None)


@pytest.mark.skipif(REAL, reason="the GPU is real")
def test_a_program_on_a_gpu_needs_a_gpu(call: Call) -> None:
    """The other platform's handler does not run kernels on the simulated one."""
    error = call.run(handler=1)
    assert error is not None
    assert "JAX runs on a GPU, and gpulend on the simulated one" in error
    assert not call.y.any()


HEADER = """
#include "xla/ffi/api/c_api.h"
#define SAME(a, b) _Static_assert((a) == (b), #a)
SAME(XLA_FFI_API_MAJOR, 0);
SAME(sizeof(struct XLA_FFI_Buffer), 48);
SAME(offsetof(struct XLA_FFI_Buffer, dims), 40);
SAME(sizeof(struct XLA_FFI_Args), 40);
SAME(sizeof(struct XLA_FFI_Rets), 40);
SAME(sizeof(struct XLA_FFI_Attrs), 48);
SAME(sizeof(XLA_FFI_Scalar), 16);
SAME(sizeof(XLA_FFI_ByteSpan), 16);
SAME(offsetof(struct XLA_FFI_CallFrame, api), 16);
SAME(offsetof(struct XLA_FFI_CallFrame, stage), 32);
SAME(offsetof(struct XLA_FFI_CallFrame, args), 40);
SAME(offsetof(struct XLA_FFI_CallFrame, rets), 80);
SAME(XLA_FFI_CallFrame_STRUCT_SIZE, 168);
SAME(sizeof(struct XLA_FFI_Metadata_Extension), 32);
SAME(XLA_FFI_Metadata_STRUCT_SIZE, 36);
SAME(XLA_FFI_Error_Create_Args_STRUCT_SIZE, 28);
SAME(sizeof(struct XLA_FFI_Error_Destroy_Args), 24);
SAME(sizeof(struct XLA_FFI_Stream_Get_Args), 32);
SAME(XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, 28);
SAME(offsetof(struct XLA_FFI_Api, XLA_FFI_Error_Create), 48);
SAME(offsetof(struct XLA_FFI_Api, XLA_FFI_Error_Destroy), 64);
SAME(offsetof(struct XLA_FFI_Api, XLA_FFI_Stream_Get), 80);
SAME(offsetof(struct XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get), 184);
SAME(XLA_FFI_ExecutionStage_EXECUTE, 3);
SAME(XLA_FFI_Extension_Metadata, 1);
SAME(XLA_FFI_ArgType_BUFFER, 1);
SAME(XLA_FFI_RetType_BUFFER, 1);
SAME(XLA_FFI_AttrType_SCALAR, 3);
SAME(XLA_FFI_DataType_S64, 5);
SAME(XLA_FFI_DataType_F32, 11);
SAME(XLA_FFI_DataType_BF16, 16);
SAME(XLA_FFI_DataType_PRED, 1);
SAME(XLA_FFI_Error_Code_INVALID_ARGUMENT, 3);
SAME(XLA_FFI_Error_Code_INTERNAL, 13);
"""


def test_layouts_are_those_of_the_installed_header(tmp_path: Path) -> None:
    """The numbers that `crates/python/src/xla/abi.rs` asserts, by a C compiler."""
    jax = need("jax")
    source = tmp_path / "layouts.c"
    source.write_text(HEADER)
    compiler = os.environ.get("CC", "cc")  # which building gpulend needs too
    include = f"-I{jax.ffi.include_dir()}"
    subprocess.run([compiler, include, "-c", "-o", tmp_path / "layouts.o", source], check=True)
