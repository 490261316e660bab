"""Arrays as arguments: each element type against each pointee, layouts, null, what checks leave."""

from __future__ import annotations

import functools

import gpulend
import numpy as np
import pytest
from gpu.resources import REAL, device_count, need

from .arrays import MAKERS, READ_ONLY, compiled, right_launch

WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = (
    *("bool", *WHOLE, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
# What a pointer to each type of C takes: exactly these.
TAKES = {
    "char": ("int8", "uint8"),
    "signed char": ("int8",),
    "unsigned char": ("uint8",),
    "short": ("int16",),
    "unsigned short": ("uint16",),
    "int": ("int32",),
    "unsigned int": ("uint32",),
    "long": ("int64",),
    "unsigned long": ("uint64",),
    "long long": ("int64",),
    "unsigned long long": ("uint64",),
    "int8_t": ("int8",),
    "uint32_t": ("uint32",),
    "size_t": ("uint64",),
    "bool": ("bool",),
    "__half": ("float16",),
    "__nv_bfloat16": ("bfloat16",),
    "float": ("float32",),
    "double": ("float64",),
    "float2": ("complex64", "float32"),
    "double2": ("complex128", "float64"),
    "float3": ("float32",),
    "float4": ("float32",),
    "int2": ("int32",),
    "uint4": ("uint32",),
    "short4": ("int16",),
    "uchar4": ("uint8",),
    "float *": ("int64", "uint64"),
    "void *": ("int64", "uint64"),
    "Particle": DTYPES,
    "void": DTYPES,
}
HEAD = """
#include <stdint.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct Particle { double position; float speed; short kind; };
typedef float real;
using Pointer = const float *;
"""


def symbol(pointee):
    """Return the kernel's name for a pointee."""
    return "takes_" + pointee.replace(" ", "_").replace("*", "pointer")


@functools.cache
def takers():
    """Compile one kernel for each pointee; it does nothing."""
    rows = "".join(f"__global__ void {symbol(name)}({name} *p) {{}}\n" for name in TAKES)
    return compiled(HEAD + rows)


@pytest.mark.parametrize("pointee", TAKES)
def test_a_pointer_takes_exactly_the_right_types(pointee):
    """Each of fifteen element types, refused by both names or taken."""
    kernel = takers()[symbol(pointee)]
    taken, refusals = [], {}
    for dtype in DTYPES:
        array = gpulend.zeros(24, dtype)
        try:
            kernel[1, 1](array)
            taken.append(dtype)
        except gpulend.SignatureError as error:
            refusals[dtype] = (str(error), error.code)
    for dtype, (text, code) in refusals.items():
        assert dtype in text
        assert "argument 1 (p)" in text
        assert symbol(pointee) in text
        assert 820 <= code <= 849
    assert sorted(taken) == sorted(TAKES[pointee])
    right_launch()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int64", "complex64", "float16"])
def test_tensors_have_the_same_types(dtype):
    """What torch calls them does not matter."""
    torch = need("torch")
    tensor = torch.zeros(24, dtype=getattr(torch, dtype), device="cuda" if REAL else "cpu")
    for pointee, takes in TAKES.items():
        if dtype in takes:
            takers()[symbol(pointee)][1, 1](tensor)
        else:
            with pytest.raises(gpulend.SignatureError, match=dtype):
                takers()[symbol(pointee)][1, 1](tensor)


SPELLINGS = (
    *("float *p", "const float *p", "float p[]", "float *__restrict__ p", "float *const p"),
    *("volatile float *p", "const volatile float *p", "real *p", "const real *__restrict__ p"),
    *("float const *p", "Pointer p", "float p[8]", "decltype(1.0f) *p"),
)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("linkage", ["", 'extern "C" '])
def test_the_spelling_of_a_pointer_does_not_matter(spelling, linkage):
    """All of them point to floats, whatever stands around, and only to floats."""
    module = compiled(f"{HEAD}{linkage}__global__ void spelled({spelling}) {{}}")
    module["spelled"][1, 1](gpulend.zeros(8, "float32"))
    module["spelled"][1, 1](None)
    with pytest.raises(gpulend.SignatureError, match="float64"):
        module["spelled"][1, 1](gpulend.zeros(8, "float64"))
    readable = "const" in spelling.replace("*const", "") or "Pointer" in spelling
    array = gpulend.zeros(8, "float32").as_readonly()
    if readable:
        module["spelled"][1, 1](array)
    else:
        with pytest.raises(gpulend.SignatureError, match="const"):
            module["spelled"][1, 1](array)


@pytest.mark.parametrize("pointee", TAKES)
def test_none_is_a_null_pointer(pointee):
    """For each type; the kernel sees zero."""
    source = f"{HEAD}__global__ void null({pointee} *p, int *out) {{ *out = p == nullptr; }}"
    out = gpulend.zeros(1, "int32")
    compiled(source)["null"][1, 1](None, out)
    assert out.to_host().tolist() == [1]


SUMS = """
extern "C" __global__ void gather(const float *p, int stride, int n, float *out) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = p[i * stride];
}
extern "C" __global__ void grid2(const float *p, int s0, int s1, int n0, int n1, float *out) {
    for (int i = 0; i < n0; ++i) for (int j = 0; j < n1; ++j) out[i * n1 + j] = p[i * s0 + j * s1];
}
extern "C" __global__ void quads(const float4 *p, int n, float *out) {
    for (int i = 0; i < n; ++i) out[i] = p[i].x + p[i].y + p[i].z + p[i].w;
}
extern "C" __global__ void address(const void *p, unsigned long long *out) { *out = (size_t)p; }
extern "C" __global__ void first(const int *p, int *out) { *out = *p; }
extern "C" __global__ void raise(int *p) { *p += 1; }
"""


def sums(name):
    """Return a kernel."""
    return compiled(SUMS)[name][1, 32]


@pytest.mark.parametrize("step", [2, 3, -1, -4])
def test_strides_are_the_kernel_s_matter_when_asked_for(step):
    """The address is that of the first element, also of one that runs backwards."""
    host = np.arange(100, dtype=np.float32)
    lease = gpulend.from_host(host)[::step]
    out = gpulend.zeros(lease.shape, "float32")
    with pytest.raises(gpulend.SignatureError, match="strided=True"):
        sums("gather")(lease, step, len(lease), out)
    sums("gather")(lease, step, len(lease), out, strided=True)
    np.testing.assert_array_equal(out.to_host(), host[::step])


@pytest.mark.parametrize("framework", ["gpulend", "torch", "lent"])
def test_the_order_of_fortran(framework):
    """A transposed matrix is refused, and read right by a kernel that knows strides."""
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = MAKERS[framework]().of(host).T
    out = gpulend.zeros((4, 3), "float32")
    with pytest.raises(gpulend.SignatureError, match="contiguous"):
        sums("grid2")(array, 1, 4, 4, 3, out)
    sums("grid2")(array, 1, 4, 4, 3, out, strided=True)
    np.testing.assert_array_equal(out.to_host(), host.T)
    compiled(SUMS)["grid2"].launch(1, 1, (array, 1, 4, 4, 3, out), strided=True)


def test_what_is_contiguous_in_fact_is_taken():
    """Axes of one element and arrays of none have strides that nobody follows."""
    lease = gpulend.from_host(np.arange(24, dtype=np.float32).reshape(4, 6))
    out = gpulend.zeros(6, "float32")
    for array in (lease[1], lease[2:3], lease[2:3, 1:4], lease[:, ::2][:1, :1], lease[::2][:0]):
        sums("gather")(array, 1, array.size, out)
    sums("gather")(lease[2:3, 1:4], 1, 3, out)
    assert out.to_host()[:3].tolist() == [13, 14, 15]
    torch = need("torch")
    column = torch.arange(5.0, device="cuda" if REAL else "cpu").reshape(5, 1).t()
    sums("gather")(column, 1, 5, out)
    assert out.to_host()[:5].tolist() == [0, 1, 2, 3, 4]


def test_a_slice_of_a_lease_begins_where_it_begins():
    """And is written there alone."""
    lease = gpulend.zeros(10, "int32")
    out = gpulend.zeros(1, "uint64")
    sums("address")(lease[3:7], out)
    assert out.to_host()[0] == lease.address + 12
    compiled(SUMS)["raise"][1, 1](lease[3:7])
    assert lease.to_host().tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_other_views_of_a_lease():
    """Reshaped, of another type, borrowed again, wrapped: the address and type of the view."""
    lease = gpulend.from_host(np.array([1.0, 2.0], np.float32))
    out = gpulend.zeros(1, "int32")
    bits = int(np.float32(1).view(np.int32))
    sums("first")(lease.view("int32"), out)
    assert out.to_host().tolist() == [bits]
    sums("first")(gpulend.borrow(lease.view("int32").reshape(1, 2, 1)), out)
    sums("first")(gpulend.wrap(lease.address, 2, "int32", owner=lease), out)
    assert out.to_host().tolist() == [bits]


@pytest.mark.parametrize("framework", ["gpulend", "torch", "lent"])
def test_an_array_of_no_axes_is_an_address_to_a_pointer(framework):
    """As everywhere: only numbers by value are taken as numbers."""
    maker = MAKERS[framework]()
    array = maker.of(np.array(41, np.int32))
    compiled(SUMS)["raise"][1, 1](array)
    assert maker.values(array) == 42


@pytest.mark.parametrize("framework", MAKERS)
def test_empty_arrays_are_taken(framework):
    """Of the right type; the kernel has nothing to touch."""
    maker = MAKERS[framework]()
    out = gpulend.zeros(1, "float32")
    sums("gather")(maker.of(np.zeros(0, np.float32)), 1, 0, out)
    sums("quads")(maker.of(np.zeros((0, 4), np.float32)), 0, out)
    with pytest.raises(gpulend.SignatureError, match="int32"):
        sums("gather")(maker.of(np.zeros(0, np.int32)), 1, 0, out)


@pytest.mark.parametrize("framework", ["gpulend", "torch", "lent"])
def test_vectors_want_whole_and_aligned_ones(framework):
    """Four floats from a multiple of sixteen."""
    array = MAKERS[framework]().of(np.arange(32, dtype=np.float32))
    out = gpulend.zeros(8, "float32")
    sums("quads")(array, 8, out)
    assert out.to_host().tolist() == [16.0 * i + 6 for i in range(8)]
    base = 4 if gpulend.describe(array).address % 16 == 0 else 0
    sums("quads")(array[base : base + 8], 2, out)
    for wrong in (array[1:], array[:31], array[2:30], array[1:5]):
        with pytest.raises(gpulend.SignatureError, match=r"quads.*\(p\).*16"):
            sums("quads")(wrong, 1, out)


@pytest.mark.parametrize("framework", READ_ONLY)
def test_read_only_arrays_are_read(framework):
    """Const is all they want, also behind a lease and a slice of it."""
    array = MAKERS[framework]().of(np.arange(5, dtype=np.float32))
    out = gpulend.zeros(5, "float32")
    for argument in (array, gpulend.borrow(array), gpulend.borrow(array)[1:4]):
        sums("gather")(argument, 1, 3, out)
    assert out.to_host().tolist() == [1, 2, 3, 0, 0]
    for argument in (array, gpulend.borrow(array)):
        with pytest.raises(gpulend.SignatureError, match=r"argument 4 \(out\).*const"):
            sums("gather")(gpulend.zeros(5, "float32"), 1, 3, argument)


def test_without_checks_types_and_layouts_are_the_caller_s(gpu):
    """The kernel gets the address, as from other libraries."""
    floats = gpulend.from_host(np.array([1.0, 5.0, 2.0], np.float32))
    out = gpulend.zeros(1, "int32")
    sums("first")(floats, out, check=False)
    assert out.to_host()[0] == np.float32(1).view(np.int32)
    sums("first")(floats[::2], out, check=False)
    compiled(SUMS)["first"].launch(1, 1, (floats.as_readonly(), out.as_readonly()), check=False)
    compiled(SUMS)["raise"][1, 1](out.as_readonly(), check=False)
    assert out.to_host()[0] == np.float32(1).view(np.int32) + 1
    right_launch()


def test_without_checks_count_and_device_are_still_asked(gpu):
    """They cost nothing, and what follows would be worse than a wrong number."""
    lease = gpulend.zeros(4, "int32")
    for arguments in ((), (lease,), (lease, lease, lease)):
        with pytest.raises(gpulend.SignatureError, match="first"):
            sums("first")(*arguments, check=False)
    if device_count() > 1:
        with pytest.raises(gpulend.SignatureError, match="cuda:1"):
            sums("first")(gpulend.zeros(4, "int32", device="cuda:1"), lease, check=False)
    ended = gpulend.zeros(4, "int32")
    ended.release()
    with pytest.raises(gpulend.ReleasedError):
        sums("first")(ended, lease, check=False)
    right_launch()


def test_addresses_of_rows(gpu):
    """A table of addresses is an array of numbers to us."""
    source = """
    extern "C" __global__ void sum_rows(float **rows, const int *lengths, float *out) {
        float sum = 0;
        for (int i = 0; i < lengths[threadIdx.x]; ++i) sum += rows[threadIdx.x][i];
        out[threadIdx.x] = sum;
    }"""
    rows = [gpulend.full(n, n, "float32") for n in (1, 4, 9)]
    out = gpulend.zeros(3, "float32")
    lengths = gpulend.from_host(np.array([1, 4, 9], np.int32))
    for dtype in (np.uint64, np.int64):
        table = gpulend.from_host(np.array([row.address for row in rows], dtype))
        compiled(source)["sum_rows"][1, 3](table, lengths, out)
        assert out.to_host().tolist() == [1, 16, 81]


def test_records_go_where_a_structure_is_pointed_to(gpu):
    """NumPy's records as bytes: a pointer to a user's own type takes all."""
    source = (
        HEAD
        + """
    extern "C" __global__ void move(Particle *p, int n) {
        if (threadIdx.x < n) p[threadIdx.x].position += p[threadIdx.x].speed;
    }"""
    )
    dtype = np.dtype([("position", "f8"), ("speed", "f4"), ("kind", "i2")], align=True)
    host = np.zeros(5, dtype)
    host["position"], host["speed"] = np.arange(5), 0.5
    lease = gpulend.from_host(host.view(np.uint8))
    compiled(source)["move"][1, 32](lease, 5)
    moved = lease.to_host().view(dtype)
    assert moved["position"].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
