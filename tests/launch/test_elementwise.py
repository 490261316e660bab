"""`gpulend.elementwise`: types, shapes, strides and outputs, beside NumPy."""

from __future__ import annotations

import functools
import gc
import weakref

import gpulend
import ml_dtypes
import numpy as np
import pytest
from gpu.resources import REAL, need, stuck
from gpulend import _generated, _native
from hypothesis import given, settings
from hypothesis import strategies as st

from .arrays import MAKERS, WRITABLE
from .gated import held_back


@functools.cache
def made(*definition):
    """Make a kernel once; it compiles for each set of types."""
    return gpulend.elementwise(*definition)


def fma():
    """Return a kernel of the types of its arguments."""
    return made("T x, T y", "T z", "z = x * y + T(1)", "fma")


@pytest.mark.parametrize("name", MAKERS)
def test_arrays_of_every_framework_are_taken(gpu, name):
    """As inputs, and as outputs those that are not read-only; without an output a lease is made."""
    framework = MAKERS[name]()
    x, y = np.arange(12, dtype="float32"), np.full(12, 3, "float32")
    first, second = framework.of(x), framework.of(y)
    found = fma()(first, second)
    assert isinstance(found, gpulend.Lease)
    np.testing.assert_array_equal(found.to_host(), x * y + 1)
    if name in WRITABLE:
        out = framework.of(np.zeros(12, "float32"))
        assert fma()(first, second, out) is out
        np.testing.assert_array_equal(gpulend.borrow(out).to_host(), x * y + 1)
        assert fma()(out, 2, out) is out
        np.testing.assert_array_equal(gpulend.borrow(out).to_host(), (x * y + 1) * 2 + 1)
    else:
        with pytest.raises(gpulend.SignatureError, match=r"argument 3 .z. is read-only"):
            fma()(first, second, framework.of(np.zeros(12, "float32")))


def test_memory_of_the_host_is_refused_as_for_every_kernel(gpu):
    """With the argument's name, and the call that copies it."""
    with pytest.raises(gpulend.SignatureError, match=r"argument 1 .x. .*gpulend\.from_host"):
        fma()(np.zeros(3, "float32"), 1.0)


TYPES = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
]


@pytest.mark.parametrize("dtype", [*TYPES, "complex128"])
def test_a_letter_is_the_type_of_the_arguments(gpu, dtype):
    """One definition, compiled for each type."""
    x = np.arange(1, 6).astype(dtype)
    found = fma()(gpulend.from_host(x), gpulend.from_host(x[::-1].copy()))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.to_host(), x * x[::-1] + x.dtype.type(1))


def test_bfloat16_and_bool_are_types_too(gpu):
    """The first computes in float, as CUDA does."""
    x = np.arange(5).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(fma()(gpulend.from_host(x), 2).to_host(), x * x.dtype.type(2) + 1)
    both = made("bool x, bool y", "bool z", "z = x && !y", "and_not")
    x, y = np.array([True, True, False]), np.array([True, False, False])
    assert both(gpulend.from_host(x), gpulend.from_host(y)).to_host().tolist() == [0, 1, 0]


def test_each_set_of_types_is_compiled_once(gpu, monkeypatch):
    """Shapes, strides along the same axes and values change nothing."""
    seen = []
    compile = gpulend.kernels.compile
    monkeypatch.setattr(
        gpulend.kernels, "compile", lambda *a, **k: seen.append(1) or compile(*a, **k)
    )
    twice = gpulend.elementwise("T x, float s", "T z", "z = x * s", "twice")
    for shape in (3, (4, 5), (2, 3, 4), 1000):
        twice(gpulend.zeros(shape, "float32"), 2.0)
    assert len(seen) == 1
    twice(gpulend.zeros(3, "float64"), 2.0)
    twice(gpulend.zeros(7, "float64"), 3.0)
    assert len(seen) == 2
    twice(gpulend.zeros((4, 6), "float64")[:, :5], 3.0)
    twice(gpulend.zeros((8, 4), "float64")[:, :2], 3.0)
    assert len(seen) == 3


def test_numbers_follow_the_arrays(gpu):
    """A Python number takes the type of the letter; it must fit."""
    x = gpulend.from_host(np.arange(3, dtype="int8"))
    assert fma()(x, 3).dtype == "int8"
    assert fma()(x, np.int64(2)).to_host().tolist() == [1, 3, 5]
    with pytest.raises(gpulend.SignatureError, match=r"argument 2 .y. is 300"):
        fma()(x, 300)
    with pytest.raises(gpulend.SignatureError, match=r"argument 2 .y."):
        fma()(x, 1.5)


def test_numbers_alone_decide_types(gpu):
    """NumPy's by their own, Python's as NumPy would."""
    for value, dtype in ((2, "int64"), (2.0, "float64"), (np.float32(2), "float32")):
        found = fma()(value, 4)
        assert (found.shape, found.dtype, found.item()) == ((), dtype, 9)
    assert fma()(2, np.float32(4)).dtype == "float32"


def test_the_same_layouts_with_other_numbers_and_devices(gpu, second):
    """What was worked out for arguments before is used again where it fits, and only there."""
    kernel = gpulend.elementwise("T x, T y", "T z", "z = x * y", "again")
    for device in ("cuda:0", "cuda:1", "cuda:0"):
        x = gpulend.full(3, 2.0, device=device)
        for number in (2, 3.0, np.float32(4)):
            found = kernel(x, number)
            assert (found.device, found.to_host().tolist()) == (device, [2.0 * number] * 3)
        assert kernel(x[::-1], x).to_host().tolist() == [4, 4, 4]
    for device in (0, 1):
        with gpulend.Stream(device=device):
            assert kernel(2, 3).device == f"cuda:{device}"


@pytest.mark.parametrize("name", MAKERS)
def test_layouts_are_found_by_what_lies_there(gpu, name):
    """Equal layouts have equal keys, in every framework; the key of a number is its class."""
    framework = MAKERS[name]()
    x = framework.of(np.zeros((3, 4), "float32"))
    first, again, number, scalar = _native.layouts_of((x, x, 3, np.float32(2)))
    assert first == again
    assert (number, scalar) == (int, np.float32)
    found = _generated.read(first)
    assert (found.shape, found.strides, found.dtype) == ((3, 4), (4, 1), "float32")
    lease = gpulend.borrow(x)
    assert found.device == (lease.device.index if lease.device.kind == "cuda" else None)
    for other in (lease[:, ::2], lease.T, lease[:2]):
        assert _native.layouts_of((other,)) != (first,)
    assert _native.layouts_of((lease,)) == (first,)


SLICES = st.sampled_from([slice(None), slice(None, None, -1), slice(None, None, 2), slice(1, 3)])


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_any_strides_and_shapes_are_taken(data):
    """Slices, transposes and axes that are repeated, in the output too."""
    x = np.random.default_rng(1).integers(-50, 50, (4, 6, 3)).astype("int32")
    lease = gpulend.from_host(x)
    host, device = x, lease
    if data.draw(st.booleans()):
        host, device = host.T, device.T
    index = tuple(data.draw(st.lists(SLICES, max_size=3)))
    host, device = host[index], device[index]
    other = data.draw(st.sampled_from(["same", "row", "column", "number", "scalar array"]))
    y, y_device = {
        "same": lambda: (host[::-1], device[::-1]),
        "row": lambda: (host[0], device[0]),
        "column": lambda: (host[..., :1], device[..., :1]),
        "number": lambda: (7, 7),
        "scalar array": lambda: (host[0, 0, 0], device[0, 0, 0]),
    }[other]()
    if 0 in host.shape:
        return
    wanted = host * y + 1
    np.testing.assert_array_equal(fma()(device, y_device).to_host(), wanted)
    room = gpulend.zeros((*wanted.shape[:-1], wanted.shape[-1] * 2), "int32")
    out = room[..., ::2]
    assert fma()(device, y_device, out) is out
    np.testing.assert_array_equal(out.to_host(), wanted)
    assert not room[..., 1::2].to_host().any()


def test_an_output_widens_the_inputs(gpu):
    """They are repeated to its shape; it is never repeated itself."""
    x = np.arange(3, dtype="float32")
    out = gpulend.zeros((2, 3), "float32")
    fma()(gpulend.from_host(x), 2.0, out)
    np.testing.assert_array_equal(out.to_host(), [x * 2 + 1] * 2)
    with pytest.raises(gpulend.LayoutError, match=r"z has the shape .1, 3., and the result .2, 3."):
        fma()(gpulend.zeros((2, 3)), 2.0, gpulend.zeros((1, 3)))


def test_no_elements_are_no_launch(gpu):
    """The outputs are there, and empty."""
    assert fma()(gpulend.zeros((0, 3)), 1.0).shape == (0, 3)


def test_several_outputs(gpu):
    """A tuple; those given come back as they are."""
    both = made("T x, T y", "T quotient, T rest", "quotient = x / y; rest = x % y", "divide")
    x = np.arange(10, dtype="int32")
    quotient, rest = both(gpulend.from_host(x), 3)
    np.testing.assert_array_equal(quotient.to_host(), x // 3)
    np.testing.assert_array_equal(rest.to_host(), x % 3)
    given_back = both(gpulend.from_host(x), 4, quotient, rest)
    assert given_back[0] is quotient
    np.testing.assert_array_equal(rest.to_host(), x % 4)


def test_raw_arrays_are_indexed_by_hand(gpu):
    """Of any strides, in the order of their elements; they take no part in the shape."""
    x = np.arange(24, dtype="float32").reshape(4, 6)
    gather = made("raw T x, int64 at", "T z", "z = x[at]", "gather")
    at = np.array([0, 5, 7, 11], "int64")
    lease = gpulend.from_host(x)
    for host, device in ((x, lease), (x.T, lease.T), (x[::2, ::-3], lease[::2, ::-3])):
        index = at % host.size
        found = gather(device, gpulend.from_host(index)).to_host()
        np.testing.assert_array_equal(found, host.reshape(-1)[index])
    scatter = made("raw T x", "raw T z", "z[i * 2] = x[i]; z[i * 2 + 1] = x.size()", "spread")
    out = gpulend.zeros(8, "float32")
    assert scatter(gpulend.from_host(x[0]), out, size=4) is out
    assert out.to_host().tolist() == [0, 6, 1, 6, 2, 6, 3, 6]


def test_the_index_and_the_number_of_elements(gpu):
    """`i` counts in C's order whatever the strides are; `n` and `_ind.size()` are the number."""
    ramp = made("T x", "T z", "z = x + i * 100 + n * 10000 + _ind.size() * 1000000", "ramp")
    x = np.zeros((3, 4), "int32")
    wanted = np.arange(12).reshape(4, 3) * 100 + 12 * 1010000
    np.testing.assert_array_equal(ramp(gpulend.from_host(x).T).to_host(), wanted)


def test_code_around_the_elements(gpu):
    """A preamble, and what runs once a thread; `continue` leaves an element out."""
    kernel = gpulend.elementwise(
        "T x",
        "T z",
        "if (x < T(3)) continue; z = square(x) + by",
        "around",
        preamble="template <class V> __device__ V square(V x) { return x * x; }",
        loop_prep="const T by = BY",
        options=["-DBY=7"],
    )
    out = gpulend.full(6, -1, "float32")
    kernel(gpulend.from_host(np.arange(6, dtype="float32")), out)
    assert out.to_host().tolist() == [-1, -1, -1, 16, 23, 32]


def test_names_of_parameters_meet_no_other(gpu):
    """Whatever they are called, beside what the generated code calls its own."""
    names = ["s", "v", "r", "o", "k", "p", "at", "step", "ind", "x_e0", "I", "R", "size", "data"]
    inputs = ", ".join(f"float {name}" for name in names)
    kernel = gpulend.elementwise(f"raw T y, {inputs}", "T z", f"z = y[i] + {'+'.join(names)}")
    x = gpulend.from_host(np.arange(3, dtype="float32"))
    out = gpulend.zeros(3)
    kernel(x, *[1.0] * len(names), out)
    assert out.to_host().tolist() == [14, 15, 16]


def test_the_block_can_be_chosen(gpu):
    """Otherwise it is the one that fills the device best."""
    size = made("T x", "T z", "z = blockDim.x", "block_size")
    x = gpulend.zeros(2000, "int32")
    assert set(size(x).to_host().tolist()) <= {32 * k for k in range(1, 33)}
    assert set(size(x, block=96).to_host().tolist()) == {96}


# Enough that threads take several elements each, with all kinds of rests behind them.
MANY = 3_000_000 if REAL else 20_000


@pytest.mark.parametrize("rest", [0, 1, 255, 257, 1023])
@pytest.mark.parametrize("block", [None, 96])
def test_threads_take_several_of_many_elements(gpu, rest, block):
    """Every element is computed once, in place too, and has its own index."""
    count = MANY // 1024 * 1024 + rest
    x = np.arange(count, dtype="int32")
    once = made("T x, T y", "T z", "z = x + y * 2 + i", "once")
    lease = gpulend.from_host(x)
    np.testing.assert_array_equal(once(lease, lease, block=block).to_host(), x * 4)
    assert once(lease, 3, lease, block=block) is lease
    np.testing.assert_array_equal(lease.to_host(), x * 2 + 6)
    add = made("T x", "T z", "z += x", "add_to")
    out = gpulend.from_host(x)
    add(gpulend.from_host(x), out, block=block)
    np.testing.assert_array_equal(out.to_host(), x * 2)


@pytest.mark.parametrize("width", [2, 3, 7, 32, 127])
def test_many_elements_of_any_strides(gpu, width):
    """Where an index is divided: rows that are repeated, columns, steps."""
    x = np.arange(MANY // width * width, dtype="int32").reshape(-1, width)
    lease = gpulend.from_host(x)
    for host, device in ((x[:1], lease[:1]), (x[:, :1], lease[:, :1]), (x[::-1], lease[::-1])):
        np.testing.assert_array_equal(fma()(lease, device).to_host(), x * host + 1)
        np.testing.assert_array_equal(fma()(device.T, lease.T).to_host(), (x * host + 1).T)


@pytest.mark.parametrize("leave", ["continue", "return", "break"])
def test_an_element_may_be_left_out_of_many(gpu, leave):
    """Whatever ends it, the others are computed."""
    # A thread's elements are not all multiples of three, as they could be of a power of two.
    rest = made("T x", "T z", f"if (x % 3 == 0) {leave}; z = x", f"rest_{leave}")
    x = np.arange(MANY, dtype="int32")
    out = gpulend.zeros(MANY, "int32")
    rest(gpulend.from_host(x), out)
    np.testing.assert_array_equal(out.to_host(), np.where(x % 3, x, 0))


def test_code_of_threads_sees_one_element_of_many(gpu):
    """An index of the thread is that of the element."""
    place = made("T x", "T z", "z = x + blockIdx.x * blockDim.x + threadIdx.x", "place")
    found = place(gpulend.zeros(MANY, "int32")).to_host()
    np.testing.assert_array_equal(found, np.arange(MANY))


@settings(derandomize=True)
@given(st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_a_division_is_a_multiplication(extent, index):
    """Exact, at the multiples of the extent and beside them too."""
    factor, shift = _generated.divisor(extent)
    assert factor < 2**32
    multiple = index - index % extent
    for one in (index, multiple, max(0, multiple - 1), 2**31 - 1):
        assert ((one * factor >> 32) + one) >> shift == one // extent


def test_the_stream_is_that_of_the_launch(gpu):
    """The result waits for a producer that is held back; the host does not."""
    gate, stream = gpu.gate(), gpulend.Stream()
    late = held_back(gate, gpulend.Stream(), 5)
    fma()(gpulend.zeros(512, "int32"), 1)  # compiled, which may wait
    found = fma()(late, 2, stream=stream)
    assert gate.closed, "the host waited"
    assert stuck(stream)
    gate.open()
    assert set(found.to_host().tolist()) == {11}


def test_a_graph_captures_it(gpu):
    """With the output that was made inside."""
    x = gpulend.full(8, 3.0)
    fma()(x, 2.0)
    gpulend.synchronize()
    with gpulend.capture() as graph:
        y = fma()(x, 2.0)
    x.fill(10)
    graph.launch()
    assert set(y.to_host().tolist()) == {21.0}


def test_gradients_are_read_and_not_written(gpu):
    """As by every launch: an input may require one."""
    torch = need("torch")
    device = "cuda" if REAL else "cpu"
    x = torch.ones(3, requires_grad=True, device=device)
    assert fma()(x, 2.0).to_host().tolist() == [3, 3, 3]
    with pytest.raises(gpulend.ExportError, match=r"argument 3 .z.: the tensor requires grad"):
        fma()(x, 2.0, torch.ones(3, requires_grad=True, device=device))


def test_outputs_are_kept_by_nobody(gpu):
    """The kernel remembers no argument."""
    x = gpulend.zeros(3)
    y = fma()(x, 1.0)
    seen = weakref.ref(x), weakref.ref(y)
    del x, y
    gc.collect()
    assert [one() for one in seen] == [None, None]


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (("x", "T z", ""), "inputs has 'x'; write a type and a name"),
        (("flaot x", "T z", ""), "inputs has the type 'flaot'"),
        (("T x", "T i", ""), "outputs has the name 'i'; i is the index"),
        (("T _x", "T z", ""), "'_x'.*underscore"),
        (("T x", "T x", ""), "two parameters are called 'x'"),
        (("T x", "", ""), "has no outputs"),
        (("T x", "T z", "", "a name"), "name is 'a name'"),
        (("T x[3]", "T z", ""), r"the name 'x\[3\]'"),
    ],
)
def test_a_wrong_definition_is_refused(definition, text):
    """Before anything is compiled."""
    with pytest.raises(gpulend.ProtocolError, match=text):
        gpulend.elementwise(*definition)


def test_wrong_calls_are_refused_by_name(gpu):
    """Before anything is compiled or queued, and the next call works."""
    kernel = fma()
    x = gpulend.zeros(3, "float32")
    with pytest.raises(gpulend.LayoutError, match="y is a float64 array, and T is float32") as hit:
        kernel(x, gpulend.zeros(3, "float64"))
    assert hit.value.code == 152
    with pytest.raises(gpulend.LayoutError, match=r"\(3,\), \(4,\) cannot be repeated") as hit:
        kernel(x, gpulend.zeros(4, "float32"))
    assert hit.value.code == 153
    with pytest.raises(TypeError, match="takes 2 inputs, or those and 1 outputs; 1 arguments"):
        kernel(x)
    with pytest.raises(TypeError, match="z is a number"):
        kernel(x, x, 3)
    with pytest.raises(TypeError, match="size is that of the arrays"):
        kernel(x, x, size=3)
    with pytest.raises(gpulend.ProtocolError):
        kernel(x, "text")
    with pytest.raises(gpulend.LayoutError, match="type Z of z follows from no argument") as hit:
        made("T x", "Z z", "z = x", "other_type")(x)
    assert hit.value.code == 152
    with pytest.raises(gpulend.LayoutError, match="is float8_e5m2, and kernels are made for"):
        kernel(gpulend.zeros(3, "float8_e5m2"), 1)
    with pytest.raises(TypeError, match="say how many elements"):
        made("raw T x", "raw T z", "z[i] = x[i]", "copy_raw")(x, x)
    with pytest.raises(TypeError, match="z is a raw output"):
        made("T x", "raw T z", "z[i] = x", "raw_out")(x)
    with pytest.raises(gpulend.CompileError, match="wrong_code"):
        made("T x", "T z", "z = missing(x)", "wrong_code")(x)
    assert kernel(x, 1.0).to_host().tolist() == [1, 1, 1]
    assert repr(kernel) == "<gpulend.Elementwise fma: T x, T y -> T z>"


def test_an_array_of_another_device_is_refused(gpu, second):
    """The first array chooses the device."""
    x = gpulend.zeros(3, "float32", device="cuda:1")
    assert fma()(x, 1.0).device == "cuda:1"
    with pytest.raises(gpulend.SignatureError, match=r"argument 2 .y. is on cuda:0"):
        fma()(x, gpulend.zeros(3, "float32"))


def test_a_block_of_no_threads_is_refused():
    """It does not mean the best one."""
    double = gpulend.elementwise("float x", "float y", "y = 2 * x")
    with pytest.raises(gpulend.Error):
        double(gpulend.zeros(4, "float32"), block=0)
