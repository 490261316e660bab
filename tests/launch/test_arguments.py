"""Arguments by value: each type's limits, bit for bit, and structures."""

from __future__ import annotations

import ctypes
import math
import struct
from functools import cache, partial

import gpulend
import ml_dtypes
import numpy as np
import pytest
from gpu.resources import REAL
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from .arrays import compiled, right_launch

# C's type: (NumPy's name of what a pointer to it takes, bits, signed)
INTEGERS = {
    "char": ("int8", 8, True),
    "signed char": ("int8", 8, True),
    "unsigned char": ("uint8", 8, False),
    "short": ("int16", 16, True),
    "unsigned short": ("uint16", 16, False),
    "int": ("int32", 32, True),
    "unsigned": ("uint32", 32, False),
    "long": ("int64", 64, True),
    "unsigned long": ("uint64", 64, False),
    "long long": ("int64", 64, True),
    "unsigned long long": ("uint64", 64, False),
    "int8_t": ("int8", 8, True),
    "uint16_t": ("uint16", 16, False),
    "int32_t": ("int32", 32, True),
    "size_t": ("uint64", 64, False),
}
FLOATS = {"float": "float32", "double": "float64", "__half": "float16"}
OTHERS = {
    "bool": "bool",
    "__nv_bfloat16": "bfloat16",
    "float2": "complex64",
    "double2": "complex128",
}
DTYPES = {**{name: row[0] for name, row in INTEGERS.items()}, **FLOATS, **OTHERS}
HEAD = "#include <stdint.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
ECHO = """
#define ECHO(name, type) extern "C" __global__ void name(type value, type *out) { *out = value; }
"""
# A kernel runs in every example.
EXAMPLES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def symbol(name):
    """Return the kernel's name for a type."""
    return "echo_" + name.replace(" ", "_")


@cache
def echoes():
    """Compile one kernel for each type: it writes its argument."""
    rows = "".join(f"ECHO({symbol(name)}, {name})\n" for name in DTYPES)
    return compiled(HEAD + ECHO + rows)


def arrived(name, value):
    """Return what a kernel got for a value, as a NumPy scalar."""
    out = gpulend.empty(1, DTYPES[name])
    echoes()[symbol(name)][1, 1](value, out)
    return out.to_host()[0]


def refused(name, value):
    """See that a value is refused, with the parameter's name, and that nothing was written."""
    out = gpulend.zeros(1, DTYPES[name])
    with pytest.raises(gpulend.SignatureError, match=r"argument 1\b") as caught:
        echoes()[symbol(name)][1, 1](value, out)
    assert 820 <= caught.value.code <= 849
    assert symbol(name) in str(caught.value)
    assert not out.to_host().view(np.uint8).any()


def limits(name):
    """Return the least and the greatest number of a type."""
    _, bits, signed = INTEGERS[name]
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


@pytest.mark.parametrize("name", INTEGERS)
def test_the_limits_of_an_integer_are_exact(name):
    """Both ends arrive; one more on either side is refused, with the number in the text."""
    low, high = limits(name)
    for value in (low, low + 1, 0, 1, high - 1, high):
        assert int(arrived(name, value)) == value
        assert int(arrived(name, np.dtype(DTYPES[name]).type(value))) == value
    for value in (low - 1, high + 1, -(2**64), 2**64, 2**200):
        refused(name, value)
    with pytest.raises(gpulend.SignatureError, match=str(high + 1)):
        arrived(name, high + 1)
    right_launch()


@pytest.mark.parametrize("name", INTEGERS)
@EXAMPLES
@given(value=st.integers(-(2**66), 2**66) | st.integers(-300, 300) | st.integers(-70_000, 70_000))
@example(value=2**31)
@example(value=-(2**63) - 1)
def test_an_integer_arrives_or_is_refused(name, value):
    """Nothing is cut to fewer bits."""
    low, high = limits(name)
    if low <= value <= high:
        assert int(arrived(name, value)) == value
    else:
        refused(name, value)


class Whole:
    """A number that is none of Python's own."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [True, False, np.int8(7), np.uint64(100), Whole(42)])
def test_whatever_has_an_index_is_an_integer(name, value):
    """Small numbers of any type go into all."""
    assert int(arrived(name, value)) == value.__index__()


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [1.0, np.float64(2), 1j, "1", None, b"1", [1], (1,), np.array(1)])
def test_what_is_no_integer_is_refused(name, value):
    """A float is not rounded, a text not read, an array of one not unpacked."""
    refused(name, value)


def bits(value, dtype):
    """Return a number's bits in a type."""
    return np.asarray(value, dtype=dtype).view(f"u{np.dtype(dtype).itemsize}").item()


@pytest.mark.parametrize(("name", "width"), [("float", 32), ("double", 64), ("__half", 16)])
@EXAMPLES
@given(data=st.data())
def test_a_float_arrives_bit_for_bit(name, width, data):
    """Zeros of both signs, denormals and infinities too; of a NaN, that it is one."""
    value = data.draw(st.floats(width=width))
    for given_value in (value, np.dtype(DTYPES[name]).type(value)):
        got = arrived(name, given_value)
        if np.isnan(value):
            assert np.isnan(got)
        else:
            assert bits(got, DTYPES[name]) == bits(value, DTYPES[name])


@EXAMPLES
@given(value=st.floats(-3e38, 3e38))
@example(value=0.1)
@example(value=1e-50)
def test_a_float_that_needs_rounding_is_rounded_to_the_nearest(value):
    """Python's floats are doubles: a float parameter gets what NumPy would make of it."""
    assert bits(arrived("float", value), "float32") == bits(np.float32(value), "float32")


@pytest.mark.parametrize(
    ("name", "most", "beyond"),
    [("float", 3.4028234663852886e38, 3.5e38), ("__half", 65504.0, 70000.0)],
)
def test_a_float_that_would_become_infinite_is_refused(name, most, beyond):
    """Infinity itself is taken: it was meant."""
    for sign in (1, -1):
        assert float(arrived(name, sign * most)) == sign * most
        assert np.isinf(arrived(name, sign * float("inf")))
        refused(name, sign * beyond)
        refused(name, np.float64(sign * 1e300))
        refused(name, sign * 10**60)
    refused("double", 10**400)
    assert float(arrived("double", 1.7976931348623157e308)) == 1.7976931348623157e308


@pytest.mark.parametrize("name", FLOATS)
def test_whole_numbers_are_floats_too(name):
    """Of Python and of NumPy; other things are not."""
    for value in (0, 3, -2048, np.int16(5), np.float32(0.5), np.float16(0.25), np.float64(-8)):
        assert float(arrived(name, value)) == float(value)
    for value in (1j, "1.5", None, b"12345678", [1.0], np.array(1.0), np.ones(1)):
        refused(name, value)


@EXAMPLES
@given(word=st.integers(0, 2**16 - 1))
def test_a_bfloat16_arrives_bit_for_bit(word):
    """As a Python float, every one of which it has is exact."""
    value = np.uint16(word).view(ml_dtypes.bfloat16)
    got = arrived("__nv_bfloat16", float(value))
    # ml_dtypes warns when it is asked of a signalling one.
    if math.isnan(float(value)):
        assert math.isnan(float(got))
    else:
        assert got.view(np.uint16) == word


@pytest.mark.parametrize("value", [True, False, np.bool_(True), np.bool_(False), 0, 1, np.int64(1)])
def test_a_bool_is_one_or_zero(value):
    """And nothing else, in its byte."""
    assert arrived("bool", value).view(np.uint8) == int(value)


@pytest.mark.parametrize("value", [2, -1, 256, 0.5, "", "True", None, [], np.int8(3), b"\1"])
def test_what_is_no_bool_is_refused(value):
    """Truth is not asked for: a list that is not empty would be true."""
    refused("bool", value)


@pytest.mark.parametrize("name", ["float2", "double2"])
def test_a_complex_number_is_two_floats(name):
    """Python's, NumPy's, and a float with no imaginary part."""
    for value in (1 + 2j, -0.5j, np.complex64(3 - 4j), np.complex128(1e-3j), 2.5, complex("inf")):
        assert arrived(name, value) == np.dtype(DTYPES[name]).type(value)
    for value in ("1j", None, [1, 2], np.array(1j)):
        refused(name, value)
    refused("float2", 1e39j)
    refused("float2", complex(1e39, 0))


STRUCTS = """
struct Particle { double position; float speed; short kind; unsigned char flag; };
struct Padded { char tag; double value; char last; };
struct Tiny { unsigned char one; };
struct Big { int values[100]; };
struct Nested { Padded inner; Tiny tiny[3]; };
struct Rows { const float *data; int n; };

extern "C" __global__ void particle(char before, Particle p, short after, double *out) {
    out[0] = p.position; out[1] = p.speed; out[2] = p.kind; out[3] = p.flag;
    out[4] = before; out[5] = after;
}
extern "C" __global__ void padded(Padded p, double *out) {
    out[0] = p.tag; out[1] = p.value; out[2] = p.last;
}
extern "C" __global__ void tiny(Tiny t, Tiny u, double *out) { out[0] = t.one; out[1] = u.one; }
extern "C" __global__ void big(Big b, double *out) {
    for (int i = 0; i < 100; ++i) out[i] = b.values[i];
}
extern "C" __global__ void nested(Nested n, double *out) {
    out[0] = n.inner.value; out[1] = n.tiny[0].one; out[2] = n.tiny[2].one;
}
extern "C" __global__ void rows(Rows r, double *out) {
    for (int i = 0; i < r.n; ++i) out[i] = r.data[i];
}
extern "C" __global__ void quad(float4 q, int3 i, uchar4 c, double *out) {
    out[0] = q.x; out[1] = q.y; out[2] = q.z; out[3] = q.w;
    out[4] = i.x; out[5] = i.y; out[6] = i.z; out[7] = c.w;
}
"""


class Particle(ctypes.Structure):
    """The same as the kernel's."""

    _fields_ = [
        *[("position", ctypes.c_double), ("speed", ctypes.c_float)],
        *[("kind", ctypes.c_short), ("flag", ctypes.c_ubyte)],
    ]


class Rows(ctypes.Structure):
    """An address and a length."""

    _fields_ = [("data", ctypes.c_uint64), ("n", ctypes.c_int)]


PARTICLE = np.dtype(
    [("position", "f8"), ("speed", "f4"), ("kind", "i2"), ("flag", "u1")], align=True
)
PADDED = np.dtype([("tag", "i1"), ("value", "f8"), ("last", "i1")], align=True)


def by_value(name, *words, count=8):
    """Launch a kernel that writes what it got as doubles."""
    out = gpulend.zeros(count, "float64")
    compiled(STRUCTS)[name][1, 1](*words, out)
    return out.to_host().tolist()


@pytest.mark.parametrize("form", ["record", "array", "row", "structure", "bytes"])
def test_a_structure_arrives_with_its_neighbours(form):
    """Between a char and a short, whose places its alignment decides."""
    value = {
        "record": np.array((1.5, -2.25, -300, 200), PARTICLE)[()],
        "array": np.array((1.5, -2.25, -300, 200), PARTICLE),
        "row": np.array([(1.5, -2.25, -300, 200)] * 2, PARTICLE)[1],
        "structure": Particle(1.5, -2.25, -300, 200),
        "bytes": struct.pack("=dfhBx", 1.5, -2.25, -300, 200),
    }[form]
    assert by_value("particle", -5, value, 999)[:6] == [1.5, -2.25, -300, 200, -5, 999]


def test_padding_and_nesting_are_the_compiler_s():
    """NumPy's aligned records lie as C lays them."""
    padded = np.array((7, 2.5, -8), PADDED)
    assert padded.nbytes == 24
    assert by_value("padded", padded[()])[:3] == [7, 2.5, -8]
    nested = padded.tobytes() + bytes([1, 2, 3]) + bytes(5)
    assert by_value("nested", nested)[:3] == [2.5, 1, 3]
    assert by_value("tiny", bytes([200]), bytes([17]))[:2] == [200, 17]
    numbers = np.arange(100, dtype=np.int32)
    assert by_value("big", numbers.tobytes(), count=100) == list(range(100))


def test_a_record_without_padding_is_refused():
    """15 bytes are not 16, and reading the sixteenth would be reading somebody else's."""
    packed = np.array((1.5, 2.5, 3, 4), np.dtype(PARTICLE.descr[:4]))
    assert packed.itemsize == 15
    for wrong in (packed, packed[()], packed.tobytes(), bytes(17), b"", (1.5, 2.5, 3, 4)):
        with pytest.raises(gpulend.SignatureError, match=r"particle.*argument 2 \(p\).*16"):
            by_value("particle", 0, wrong, 0)
    right_launch()


def test_vectors_by_value_are_structures():
    """As bytes, of exactly their size."""
    four, three = struct.pack("4f", 1, 2, 3, 4), struct.pack("3i", 5, 6, 7)
    assert by_value("quad", four, three, bytes(range(4))) == [1, 2, 3, 4, 5, 6, 7, 3]
    with pytest.raises(gpulend.SignatureError, match=r"argument 2 \(i\).*12"):
        by_value("quad", four, bytes(16), bytes(4))


def test_an_address_inside_a_structure():
    """Nobody can check it; it is the user's own, as it is the user's to keep the memory."""
    data = gpulend.from_host(np.arange(5, dtype=np.float32))
    assert by_value("rows", Rows(data.address, 5))[:5] == [0, 1, 2, 3, 4]


def test_forty_parameters_keep_their_places():
    """Of four sizes, in turns."""
    kinds = ["signed char", "double", "short", "float", "long long"]
    names = ", ".join(f"{kinds[i % 5]} p{i}" for i in range(40))
    writes = " ".join(f"out[{i}] = p{i};" for i in range(40))
    module = compiled(f'extern "C" __global__ void many({names}, double *out) {{ {writes} }}')
    out = gpulend.zeros(40, "float64")
    module["many"][1, 1](*[i - 20 for i in range(40)], out)
    assert out.to_host().tolist() == list(range(-20, 20))


RAISE = """
extern "C" __global__ void raise(float *x, int by, float *y) {
    x[threadIdx.x] += by;
    y[threadIdx.x] += 2 * by;
}
"""


def test_code_in_an_argument_cannot_end_a_lease_of_the_launch():
    """A lease is kept before arbitrary code runs, and one that has ended is refused."""
    launch = compiled(RAISE)["raise"][1, 32]
    x, y = gpulend.zeros(32, "float32"), gpulend.zeros(32, "float32")

    class Sneaky:
        def __init__(self, lease):
            self.lease = lease

        def __index__(self):
            self.lease.release()
            return 1

    with pytest.raises(gpulend.StillLentError):
        launch(x, Sneaky(x), y)
    with pytest.raises(gpulend.ReleasedError):
        launch(x, Sneaky(y), y)
    assert not x.released
    assert y.released
    launch(x, 1, x)
    assert (x.to_host() == 3).all()


def test_a_launcher_is_called_in_every_way_that_python_has():
    """Arguments on Python's stack, in tuples and dicts, none at all, and from C."""
    launch = compiled(RAISE)["raise"][1, 32]
    x, y = gpulend.zeros(32, "float32"), gpulend.zeros(32, "float32")
    launch(x, 1, y)
    launch(x, 1, *[y])
    launch(x, 1, y, shared=0, stream=None)
    launch(*(x, 1, y), check=True)
    launch.__call__(x, 1, y)
    partial(launch, x)(1, y)
    assert list(map(launch, [x, x], [1, 1], [y, y])) == [None, None]
    assert (x.to_host() == 8).all()
    assert (y.to_host() == 16).all()
    with pytest.raises(gpulend.SignatureError, match="takes 3 arguments, and got 0"):
        launch()
    with pytest.raises(TypeError, match="factor is not a keyword of a launch"):
        launch(x, 1, y, factor=1)


@pytest.mark.parametrize("count", [16, 17, 24, 25, 60])
def test_kernels_have_many_parameters(count):
    """All of them arrive, whether the frame is on the stack or not."""
    names = [f"p{i}" for i in range(count - 1)]
    parameters = ", ".join(f"int {name}" for name in names)
    stores = " ".join(f"out[{i}] = {name};" for i, name in enumerate(names))
    source = f'extern "C" __global__ void store(int *out, {parameters}) {{ {stores} }}'
    out = gpulend.zeros(count - 1, "int32")
    compiled(source)["store"][1, 1](out, *range(7, count + 6))
    assert out.to_host().tolist() == list(range(7, count + 6))


def made(source, argument, dtype, count=1, options=()):
    """Return what the kernel `f` of a source made of an argument."""
    out = gpulend.zeros(count, dtype)
    gpulend.compile(source, options=options)["f"][1, 1](argument, out)
    return out.to_host()


@pytest.mark.parametrize("number", [1, -1, 2**70, -(2**100)])
def test_a_parameter_of_16_bytes_gets_16_bytes(gpu, number):
    """The frame holds one word for `__int128`, and the driver reads two: whatever lies behind."""
    source = """
    __global__ void f(__int128 x, long long *o) {
        o[0] = (long long)x;
        o[1] = (long long)(x >> 64);
    }
    """
    options = ["--device-int128"] if REAL else []
    low, high = made(source, number, "int64", 2, options).tolist()
    assert (high << 64) + (low & (2**64 - 1)) == number


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", ["float2", "double2"])
def test_an_int_past_128_bits_is_no_other_number(gpu, kind, sign):
    """For complex parameters the mark for "too large" was taken as a number: 1.7e38."""
    source = f"__global__ void f({kind} x, {kind} *o) {{ *o = x; }}"
    with pytest.raises(gpulend.SignatureError):
        made(source, sign * 10**400, "float32" if kind == "float2" else "float64", 2)
    right_launch()


def test_a_large_int_is_a_double(gpu):
    """A double holds 10**100; the float of it is taken."""
    source = "__global__ void f(double x, double *o) { *o = x; }"
    assert made(source, 10**100, "float64")[0] == 1e100


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_long_double_that_overflows_is_refused(gpu, kind):
    """It is finite, and became infinite on the way to 64 bits."""
    large = np.longdouble("1e4000")
    if not np.isfinite(large):
        pytest.skip("long double is double here")
    source = f"__global__ void f({kind} x, {kind} *o) {{ *o = x; }}"
    with pytest.raises(gpulend.SignatureError):
        made(source, large, "float32" if kind == "float" else "float64")
    right_launch()


@pytest.mark.parametrize("number", [2049.0000001, 1 + 2**-11 + 2**-40, 2**-25 + 2**-60])
def test_a_half_is_rounded_once(gpu, number):
    """From 64 bits to 16: the low bits decide what lies just past the middle."""
    source = "#include <cuda_fp16.h>\n__global__ void f(__half x, __half *o) { *o = x; }"
    assert made(source, number, "float16")[0] == np.float16(number)


def test_a_structure_may_have_a_field_of_any_name(gpu):
    """One named `tobytes` is no method."""

    class Odd(ctypes.Structure):
        _fields_ = [("tobytes", ctypes.c_int)]

    source = "struct S { int a; }; __global__ void f(S s, int *o) { *o = s.a; }"
    assert made(source, Odd(5), "int32")[0] == 5
