"""Python and C in one process: one ledger, leases that cross, and each released once."""

from __future__ import annotations

import ctypes
import gc
import shlex
import sys

import gpulend
import pytest
from conftest import HERE, C, build, need, succeed
from gpulend import ctypes_api as c

torch = need("torch")


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    """A library that was linked as `python -m gpulend.config` says."""
    ask = [sys.executable, "-m", "gpulend.config", "--cflags", "--libs"]
    options = shlex.split(succeed(ask))
    file = tmp_path_factory.mktemp("extension") / "extension.so"
    build(C, file, [HERE / "extension.c"], "-shared", "-fPIC", *options)
    return ctypes.CDLL(str(file))


@pytest.fixture(autouse=True)
def _nothing_stays_held():
    before = len(gpulend.ledger())
    yield
    gc.collect()
    assert len(gpulend.ledger()) == before


def _floats(extension, count: int) -> ctypes.c_uint64:
    handle = ctypes.c_uint64()
    assert extension.make_floats(ctypes.c_int64(count), ctypes.byref(handle)) == 0
    return handle


def test_a_lease_made_in_c_is_lent_to_torch_and_released_once(extension):
    """Python's ledger has it, torch sees its memory, its deleter runs when the last is gone."""
    before = extension.how_often_freed()
    handle = _floats(extension, 5)
    entries = [entry for entry in gpulend.ledger() if entry.who == "a C program"]
    assert [(entry.kind, entry.nbytes) for entry in entries] == [("lease", 20)]
    lease = c.lease(handle)
    tensor = lease.lend("torch")
    assert tensor.tolist() == [0, 1, 2, 3, 4]
    assert tensor.data_ptr() == lease.address
    with pytest.raises(gpulend.StillLentError, match="torch"):
        lease.release()
    del lease
    assert extension.how_often_freed() == before
    with pytest.raises(gpulend.ReleasedError):
        c.library().gpulend_free(handle)
    del tensor
    gc.collect()
    assert extension.how_often_freed() == before + 1


def test_c_frees_while_python_still_holds_a_slice(extension):
    """Whoever lets go last releases."""
    before = extension.how_often_freed()
    part = c.lease(_floats(extension, 6))[2:4]
    assert extension.how_often_freed() == before
    assert part.to_host().tolist() == [2, 3]
    del part
    assert extension.how_often_freed() == before + 1


def test_a_lease_of_python_is_used_by_c():
    """C gets a handle, writes, and says who holds it."""
    lease = gpulend.zeros(4, "int32")
    library = c.library()
    handle = c.handle(lease)
    number = ctypes.c_int32(7)
    library.gpulend_fill(handle, ctypes.byref(number), 4, 0)
    assert lease.to_host().tolist() == [7] * 4
    with pytest.raises(gpulend.StillLentError, match="sub-lease"):
        lease.release()
    library.gpulend_free(handle)
    lease.release()


def test_memory_of_a_gpu_goes_from_c_to_torch():
    """Allocated by C on the GPU, filled on a stream, seen by torch."""
    library = c.library()
    stream, handle = ctypes.c_uint64(), ctypes.c_uint64()
    library.gpulend_stream_create(0, 0, stream)
    shape = (ctypes.c_int64 * 2)(2, 3)
    library.gpulend_allocate(0, c.FLOAT32, 2, shape, stream, handle)
    value = ctypes.c_float(2.5)
    library.gpulend_fill(handle, ctypes.byref(value), 4, stream)
    info = c.LeaseInfo()
    library.gpulend_info(handle, info)
    assert (info.device, info.ndim, info.bytes) == (0, 2, 24)
    tensor = c.lease(handle).lend("torch")
    assert tensor.tolist() == [[2.5] * 3] * 2
    assert tensor.data_ptr() == info.address
    library.gpulend_stream_free(stream)


def test_a_refusal_is_the_exception_python_has_for_it():
    """Class, code and words of ctypes_api are those of the rest."""
    library = c.library()
    handle = ctypes.c_uint64()
    with pytest.raises(gpulend.ProtocolError, match="not a handle") as caught:
        library.gpulend_free(1)
    assert caught.value.code == 270
    shape = (ctypes.c_int64 * 1)(1 << 61)
    with pytest.raises(gpulend.LayoutError) as caught:
        library.gpulend_allocate(0, c.FLOAT32, 1, shape, 0, handle)
    assert caught.value.code == 104
    shape[0] = 1 << 52
    with pytest.raises(gpulend.OutOfMemoryError) as caught:
        library.gpulend_allocate(c.HOST, c.UINT8, 1, shape, 0, handle)
    assert caught.value.code == 1000
    passport = c.Passport()
    with pytest.raises(gpulend.AddressError, match="not mapped"):
        library.gpulend_describe(1 << 60, passport)
    with pytest.raises(gpulend.ProtocolError, match="not a handle"):
        c.lease(12345)


def test_a_wrapped_array_of_ctypes_calls_its_deleter_once():
    """A deleter written in Python is called with the context, address and bytes."""
    library = c.library()
    numbers = (ctypes.c_double * 3)(1, 2, 3)
    seen = []
    deleter = c.DELETER(lambda context, address, size: seen.append((context, address, size)))
    shape = (ctypes.c_int64 * 1)(3)
    claim = c.Claim(
        address=ctypes.addressof(numbers), shape=shape, ndim=1, device=c.HOST, dtype=c.FLOAT64
    )
    handle = ctypes.c_uint64()
    library.gpulend_wrap(claim, deleter, 99, handle)
    assert seen == []
    library.gpulend_free(handle)
    assert seen == [(99, ctypes.addressof(numbers), 24)]
    with pytest.raises(gpulend.ProtocolError, match="who keeps the memory alive"):
        library.gpulend_wrap(claim, c.DELETER(), None, handle)


class _Pair(ctypes.Structure):
    _fields_ = [("first", ctypes.c_float), ("second", ctypes.c_int32)]


SOURCE = b"""
struct Pair { float first; int second; };
__device__ int calls;
__global__ void mix(double *x, const float *y, Pair pair, float by, bool twice) {
    atomicAdd(&calls, 1);
    x[threadIdx.x] = (y ? y[threadIdx.x] : pair.second) * by * (twice ? 2 : 1) + pair.first;
}
"""


@pytest.fixture
def mix():
    """A kernel compiled through ctypes, by the compiler that Python knows, and its module."""
    library, module, kernel = c.library(), ctypes.c_uint64(), ctypes.c_uint64()
    library.gpulend_compile(c.Source(text=SOURCE), module)
    library.gpulend_kernel_get(module, b"mix", kernel)
    yield kernel, module
    library.gpulend_kernel_free(kernel)
    library.gpulend_module_free(module)


def test_a_kernel_of_ctypes_takes_leases_of_python(mix):
    """Leases by handle, NULL, structures, numbers; and its variable is a lease of Python's."""
    kernel, module = mix
    library, x = c.library(), gpulend.zeros(3, "float64")
    handle, y = (
        ctypes.c_uint64(c.handle(x)),
        ctypes.c_uint64(c.handle(gpulend.full(3, 5, "float32"))),
    )
    shape = c.LaunchShape(grid=(1, 1, 1), block=(3, 1, 1))
    library.gpulend_launch(kernel, shape, c.arguments(handle, y, _Pair(1.5, 4), 0.5, True), 5)
    assert x.to_host().tolist() == [6.5] * 3
    library.gpulend_launch(kernel, shape, c.arguments(handle, None, _Pair(0, -4), 1, 0), 5)
    assert x.to_host().tolist() == [-4] * 3
    calls = ctypes.c_uint64()
    library.gpulend_module_variable(module, b"calls", calls)
    assert c.lease(calls).to_host() == 6
    library.gpulend_free(y)
    library.gpulend_free(handle)


def test_refused_launches_are_the_exceptions_python_has_for_them(mix):
    """`SignatureError`, `KernelError` and `CompileError`, with code and words."""
    kernel, module = mix
    library, other = c.library(), ctypes.c_uint64()
    with pytest.raises(gpulend.SignatureError, match="takes 5 arguments, and got 2") as caught:
        library.gpulend_forall(kernel, 3, c.arguments(None, None), 2, 0)
    assert caught.value.code == 820
    with pytest.raises(gpulend.SignatureError, match=r"argument 1 \(x\) is the float -2.5"):
        library.gpulend_forall(kernel, 3, c.arguments(-2.5, None, _Pair(), 1, 1), 5, 0)
    with pytest.raises(gpulend.KernelError, match="mix") as caught:
        library.gpulend_kernel_get(module, b"mixed", other)
    assert caught.value.code == 801
    assert not isinstance(caught.value, gpulend.SignatureError)
    source = c.Source(text=b"__global__ void f() { missing; }", file=b"mine.cu")
    with pytest.raises(gpulend.CompileError, match=r"mine\.cu[:(]1"):
        library.gpulend_compile(source, other)
    with pytest.raises(TypeError, match="cannot be an argument of a kernel"):
        c.arguments("three")
