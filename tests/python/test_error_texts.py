"""Codes come from one table, and each language reads hints in its own words."""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import gpulend
import pytest
from conftest import need
from gpulend import _codes, exceptions
from gpulend._native import ERROR_CODES
from gpulend.ctypes_api import _check
from machines import python

ROOT = Path(__file__).parents[2]
PYTHON_WORDS = (
    "astype",
    "None",
    "True",
    "False",
    "copy=",
    "stream=",
    "device=",
    "check=",
    "strided=",
    "owner=",
    "deleter=",
    "numpy",
    "NumPy",
    "torch",
    "cupy",
    "ctypes",
    "tensor.",
    "lease.",
    ".item()",
    "gpulend.",
    "pip ",
    "Python",
    "bytes([",
)
# Wrong calls of C, each with a word of C's own that its text must have; `c` has the functions.
REFUSALS = """
    import ctypes, json
    import gpulend
    from gpulend import ctypes_api as c
    loaded = c.library()
    texts = {}

    def refused(words, function, *arguments):
        try:
            getattr(loaded, "gpulend_" + function)(*arguments)
        except gpulend.Error as error:
            texts[f"{error.code} {words}"] = loaded.gpulend_last_error().decode()
        else:
            raise AssertionError(f"{function} {words}: not refused")

    def handle():
        return ctypes.c_uint64()

    def zeros(dtype, *shape, device=0):
        made = handle()
        extents = (ctypes.c_int64 * len(shape))(*shape)
        loaded.gpulend_zeros(device, dtype, len(shape), extents, 0, made)
        return made

    refused("GPULEND_DTYPE", "dtype_parse", b"float33", ctypes.c_uint32())
    a, host = zeros(c.FLOAT32, 64), zeros(c.FLOAT32, 64, device=c.HOST)
    part, other = handle(), zeros(c.FLOAT64, 64)
    refused("gpulend_simulate()", "simulate", b"devices=7,seed=3")
    loaded.gpulend_slice(a, 0, 0, 32, 1, part)
    refused("gpulend_free()", "release", a)
    refused("elements", "reshape", part, 1, (ctypes.c_int64 * 1)(7), handle())
    stream = handle()
    loaded.gpulend_stream_create(0, 0, stream)
    refused("pass 0", "used_on", host, stream)
    shape = (ctypes.c_int64 * 1)(1 << 20)
    address = ctypes.c_uint64()
    loaded.gpulend_pointer(a, 0, address)
    claim = dict(address=address.value, shape=shape, ndim=1, dtype=c.FLOAT32, flags=c.UNOWNED)
    refused("claim's shape", "wrap", c.Claim(device=0, **claim), c.DELETER(), None, handle())
    refused("GPULEND_ANY_DEVICE", "wrap", c.Claim(device=1, **claim), c.DELETER(), None, handle())
    few = (ctypes.c_int64 * 1)(2)
    claim |= dict(address=address.value + 2, shape=few)
    refused("GPULEND_UINT8", "wrap", c.Claim(device=0, **claim), c.DELETER(), None, handle())
    claim |= dict(address=address.value, flags=c.UNOWNED | c.READONLY)
    frozen = handle()
    loaded.gpulend_wrap(c.Claim(device=0, **claim), c.DELETER(), None, frozen)
    refused("GPULEND_READONLY", "fill", frozen, ctypes.byref(ctypes.c_float(1)), 4, 0)
    refused("gpulend_to_dlpack_versioned()", "to_dlpack", frozen, 0, 0, ctypes.c_void_p())
    """
LAUNCHES = """
    TEXT = b'''struct pair { int a; float b; };
    extern "C" __global__ void f(float *p, int n, float x, struct pair s, float4 *q) {}
    '''
    module, kernel = handle(), handle()
    source = c.Source(text=TEXT, bytes=len(TEXT), device=0)
    loaded.gpulend_compile(source, module)
    loaded.gpulend_kernel_get(module, b"f", kernel)

    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]

    def launch(words, *arguments, flags=0):
        right = [a, 1, 1.0, Pair(), part]
        right[: len(arguments)] = arguments
        shape = c.LaunchShape(grid=(1, 1, 1), block=(1, 1, 1), flags=flags)
        refused(words, "launch", kernel, shape, c.arguments(*right), 5)

    launch("convert it to float32", other)
    launch("gpulend_null_argument()", 5)
    launch("gpulend_null_argument()", a, None)
    launch("gpulend_int_argument()", a, 1.5)
    launch("gpulend_copy_to_host()", a, part)
    launch("gpulend_copy_from_host()", host)
    launch("const", frozen)
    launch("gpulend_double_argument()", a, 1, Pair())
    launch("gpulend_bytes_argument()", a, 1, 1.0, 7)
    launch("declare the parameter double", a, 1, 1e300)
    strided, skewed = handle(), handle()
    loaded.gpulend_slice(a, 0, 0, 64, 2, strided)
    launch("GPULEND_STRIDED", strided)
    loaded.gpulend_slice(a, 0, 1, 33, 1, skewed)
    launch("multiple", a, 1, 1.0, Pair(), skewed)
    LAUNCHING = b"__global__ void f() {}\\nint main() { f<<<1, 1>>>(); }\\n"
    mistaken = c.Source(text=LAUNCHING, bytes=len(LAUNCHING), device=0)
    refused("gpulend_launch()", "compile", mistaken, handle())
    nvidia = c.Source(text=TEXT, bytes=len(TEXT), device=0, compiler=c.COMPILER_NVRTC)
    refused("GPULEND_COMPILER_ANY", "compile", nvidia, handle())
    junk = c.Source(text=b"\\x7fELFjunk", bytes=8, device=0)
    refused("cubin", "compile", junk, handle())
    """


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return what `gpulend_last_error()` says about wrong calls."""
    need("ziglang")
    program = REFUSALS + LAUNCHES + "\n    print(json.dumps(texts))\n"
    return json.loads(python(program, GPULEND_DEVICE="simulated", GPULEND_SIM_DEVICES="2").stdout)


def test_texts_of_c_have_no_words_of_python(texts):
    """A program in C cannot follow a hint that names a call of Python."""
    assert len(texts) > 20
    for call, text in texts.items():
        found = [word for word in PYTHON_WORDS if word in text]
        assert not found, (call, text)


def test_hints_of_c_name_what_c_has(texts):
    """Each text has the word of C's that helps, and functions that are in the header."""
    header = (ROOT / "include/gpulend.h").read_text()
    for call, text in texts.items():
        words = call.split(" ", 1)[1]
        assert words in text, (call, text)
        for name in re.findall(r"\b(?:gpulend|GPULEND)_\w+", text):
            assert re.search(rf"\b{name}\b", header) or name == "GPULEND_DEVICE", (name, text)


def test_python_raises_the_class_of_the_table():
    """The classes of `gpulend.exceptions` and those that the table names are the same."""
    named = {kind for _, _, kind, _ in ERROR_CODES}
    defined = {
        name
        for name, kind in vars(exceptions).items()
        if isinstance(kind, type) and issubclass(kind, gpulend.Error)
    }
    assert named == defined
    for number, _, kind, _ in ERROR_CODES:
        with pytest.raises(gpulend.Error) as caught:
            _check(_Silent(), number)
        assert (type(caught.value).__name__, caught.value.code) == (kind, number)


class _Silent(ctypes.CDLL):
    """A library whose last error says nothing."""

    def __init__(self) -> None:
        super().__init__(None)

    def gpulend_last_error(self) -> bytes:
        return b""


def test_each_code_is_raised_somewhere():
    """A code that no source names would be dead."""
    files = [
        path
        for folder in ("crates/core/src", "crates/python/src", "crates/capi/src", "python/gpulend")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".rs", ".py") and path.name not in ("codes.rs", "_codes.py")
    ]
    words = set(re.findall(r"\b[A-Z_]{3,}\b", "\n".join(path.read_text() for path in files)))
    assert [name for _, name, _, _ in ERROR_CODES if name not in words] == []


def test_python_names_its_codes():
    """No number of the table is written down in Python: `_codes` has the names."""
    numbers = {str(number) for number, *_ in ERROR_CODES}
    for path in (ROOT / "python/gpulend").rglob("*.py"):
        literals = re.findall(r"[,(]\s*(\d{3,4})\s*,?\s*\)", path.read_text())
        assert not numbers & set(literals), path
    assert _codes.NO_FRAMEWORK == 254
    assert _codes.CLASSES[110] == "OutOfRangeError"
