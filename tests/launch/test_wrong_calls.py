"""Wrong calls: the class, the code, what was found, what was wanted, the fix; then a right launch.

Every refusal comes before anything is queued, so nothing of the arrays has changed after it.
"""

from __future__ import annotations

import array as arrays
import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gpulend
import numpy as np
import pytest
from driver.cuda import check, cu
from driver.resources import allocate
from frameworks import TensorFlow
from gpu.resources import REAL, need, need_two_devices, only_simulated, python, stuck

from .arrays import VECTOR_ADD, N, compiled, right_launch

SOURCE = (
    VECTOR_ADD
    + """
struct Particle { double position; float speed; short kind; };
extern "C" __global__ void quads(const float4 *q, float4 *out) { *out = *q; }
extern "C" __global__ void pairs(const float2 *p, float2 *out) { *out = *p; }
extern "C" __global__ void text(const char *t, char *out) { *out = *t; }
extern "C" __global__ void table(float **rows, int n) { rows[0][0] = n; }
extern "C" __global__ void words(signed char small, unsigned int size, float by, bool yes) {}
extern "C" __global__ void exact(double d, unsigned long long large, long long whole) {}
extern "C" __global__ void move(Particle p, double *out) { *out = p.position; }
extern "C" __global__ void __launch_bounds__(64) narrow(float *x) { x[0] = 1; }
extern "C" __global__ void nothing() {}
"""
)
SIGNATURE, LAUNCH, EITHER = range(820, 850), range(801, 820), range(801, 850)


class Scene:
    """Three leases for vectorAdd, and others that do not fit."""

    def __init__(self) -> None:
        self.module = compiled(SOURCE)
        self.a, self.b = gpulend.full(N, 1, "float32"), gpulend.full(N, 2, "float32")
        self.c = gpulend.full(N, 9, "float32")

    def __getattr__(self, name: str) -> Any:
        """Return a kernel that one block of 32 threads is launched of."""
        return self.module[name][1, 32]

    def add(self, grid: Any = 4, block: Any = 256, **changed: Any) -> None:
        """Launch vectorAdd with one thing or another in the place of what is right."""
        keywords = {key: changed.pop(key) for key in ("stream", "shared") if key in changed}
        words = {"a": self.a, "b": self.b, "c": self.c, "n": N} | changed
        self.module["vectorAdd"][grid, block](*words.values(), **keywords)

    def of(self, dtype: str, count: int = N) -> gpulend.Lease:
        """Make an array of another type."""
        return gpulend.zeros(count, dtype)

    def torch(self, make: Callable[[Any], Any]) -> Any:
        """Make something of torch on the GPU under test."""
        torch = need("torch")
        with torch.device("cuda" if REAL else "cpu"):
            return make(torch)

    def jax(self) -> Any:
        """Make an array of JAX."""
        return need("jax").numpy.ones(N, "float32")

    def constant(self) -> Any:
        """Make a tensor of TensorFlow."""
        return TensorFlow().of(np.ones(N, np.float32))

    def elsewhere(self) -> gpulend.Lease:
        """Make a lease on the second device."""
        need_two_devices()
        return gpulend.zeros(N, "float32", device="cuda:1")

    def released(self) -> gpulend.Lease:
        """Make a lease that has ended."""
        lease = gpulend.zeros(N, "float32")
        lease.release()
        return lease

    def freed(self) -> gpulend.Lease:
        """Make a lease of memory that was freed since."""
        address = allocate(4 * N)
        lease = gpulend.wrap(address, N, "float32", unowned=True)
        gpulend.synchronize()
        check(cu.cuMemFree_v2(address))
        return lease


@dataclass(frozen=True)
class Wrong:
    """A call, what it raises, and what the text must say; parts are parted by two spaces."""

    call: Callable[[Scene], Any]
    says: str = ""
    error: type[Exception] = gpulend.Error
    codes: range | None = SIGNATURE


def sign(says: str, call: Callable[[Scene], Any]) -> Wrong:
    """Expect a SignatureError."""
    return Wrong(call, says, gpulend.SignatureError, SIGNATURE)


def shape(says: str, call: Callable[[Scene], Any]) -> Wrong:
    """Expect a KernelError about the launch."""
    return Wrong(call, says, gpulend.KernelError, LAUNCH)


def other(error: Any, code: int, says: str, call: Callable[[Scene], Any]) -> Wrong:
    """Expect an error of another class, as it is elsewhere in gpulend."""
    return Wrong(call, says, error, range(code, code + 1))


A, B, C, COUNT = "vectorAdd  argument 1 (a)", "argument 2 (b)", "argument 3 (c)", "argument 4 (n)"
FLOATS = ctypes.c_float * N

WRONG = {
    # how many
    "too few": sign("vectorAdd  3  4", lambda s: s.vectorAdd(s.a, s.b, s.c)),
    "too many": sign("vectorAdd  5  4", lambda s: s.vectorAdd(s.a, s.b, s.c, N, N)),
    "none at all": sign("vectorAdd  0  4", lambda s: s.vectorAdd()),
    "one for nothing": sign("nothing  1  0", lambda s: s.nothing(5)),
    # the type of what a pointer points to
    "float64": sign(
        f"vectorAdd  {B}  float64  const float*  float32  const double*",
        lambda s: s.add(b=s.of("float64")),
    ),
    "int32": sign(f"{A}  int32  const float*  const int*", lambda s: s.add(a=s.of("int32"))),
    "float16": sign(f"{A}  float16  const float*", lambda s: s.add(a=s.of("float16"))),
    "complex64": sign(f"{A}  complex64  const float*", lambda s: s.add(a=s.of("complex64"))),
    "written float64": sign(f"{C}  float64  float*  double*", lambda s: s.add(c=s.of("float64"))),
    "tensor of ints": sign(
        f"{B}  int64  const float*",
        lambda s: s.add(b=s.torch(lambda torch: torch.ones(N, dtype=torch.int64))),
    ),
    "bool for char": sign("text  argument 1 (t)  bool", lambda s: s.text(s.of("bool"), None)),
    "int for float4": sign("quads  argument 1 (q)  int32", lambda s: s.quads(s.of("int32"), None)),
    "double for float2": sign("pairs  (p)  float64", lambda s: s.pairs(s.of("float64"), None)),
    "floats for rows": sign("table  (rows)  float32  uint64", lambda s: s.table(s.a, 1)),
    # what is no array of a GPU
    "numpy": sign(f"{A}  from_host", lambda s: s.add(a=np.ones(N, np.float32))),
    "numpy written": sign(f"{C}  from_host", lambda s: s.add(c=np.ones(N, np.float32))),
    "ctypes array": sign(f"{A}  from_host", lambda s: s.add(a=FLOATS())),
    "bytearray": sign("text  from_host", lambda s: s.text(bytearray(8), None)),
    "array.array": sign(f"{A}  from_host", lambda s: s.add(a=arrays.array("f", [0.0] * N))),
    "lease of numpy": sign(
        f"{A}  cpu  from_host", lambda s: s.add(a=gpulend.borrow(np.ones(N, np.float32)))
    ),
    "address": sign(f"{A}  int  gpulend.wrap", lambda s: s.add(a=s.a.address)),
    "numpy address": sign(f"{A}  gpulend.wrap", lambda s: s.add(a=np.uint64(s.a.address))),
    "void pointer": sign(f"{A}  gpulend.wrap", lambda s: s.add(a=ctypes.c_void_p(s.a.address))),
    "float pointer": sign(
        f"{A}  gpulend.wrap",
        lambda s: s.add(a=ctypes.cast(s.a.address, ctypes.POINTER(ctypes.c_float))),
    ),
    "list": sign(f"{A}  list", lambda s: s.add(a=[1.0] * N)),
    "str for pointer": sign(f"{B}  str", lambda s: s.add(b="b")),
    "float for pointer": sign(f"{B}  float", lambda s: s.add(b=1.5)),
    "True for pointer": sign(f"{B}  bool", lambda s: s.add(b=True)),
    "object": sign(f"{C}  object", lambda s: s.add(c=object())),
    # what must not be written
    "read-only": sign(f"{C}  read-only  const", lambda s: s.add(c=s.c.as_readonly())),
    "jax written": sign(f"{C}  const  copy", lambda s: s.add(c=s.jax())),
    "lease of jax": sign(f"{C}  const", lambda s: s.add(c=gpulend.borrow(s.jax()))),
    "tensorflow written": sign(f"{C}  const  copy", lambda s: s.add(c=s.constant())),
    # layout
    "every second": sign(f"{A}  contiguous  strided=True", lambda s: s.add(a=s.a[::2])),
    "backwards": sign(f"{A}  contiguous  strided=True", lambda s: s.add(a=s.a[::-1])),
    "transposed": sign(f"{C}  contiguous  strided", lambda s: s.add(c=s.c.reshape(10, 100).T)),
    "expanded": sign(
        f"{A}  contiguous", lambda s: s.add(a=s.torch(lambda torch: torch.ones(1).expand(N)))
    ),
    "misaligned for float4": sign("quads  (q)  16", lambda s: s.quads(s.a[1:997], None)),
    "part of a float4": sign("quads  (q)  16", lambda s: s.quads(s.a[:10], None)),
    "odd for float2": sign("pairs  (p)  8", lambda s: s.pairs(s.a[:3], None)),
    # where it is, and whether
    "other device": sign(f"{B}  cuda:1  cuda:0", lambda s: s.add(b=s.elsewhere())),
    "released": other(gpulend.ReleasedError, 500, "", lambda s: s.add(a=s.released())),
    "freed": other(gpulend.AddressError, 411, "", lambda s: s.add(a=s.freed())),
    # numbers
    "float for int": sign(f"{COUNT}  float  int", lambda s: s.add(n=1000.0)),
    "numpy float for int": sign(f"{COUNT}  float", lambda s: s.add(n=np.float32(1000))),
    "int too large": sign(f"{COUNT}  2147483648  int", lambda s: s.add(n=2**31)),
    "int of 100 digits": sign(f"{COUNT}  int", lambda s: s.add(n=10**100)),
    "int too small": sign("words  (small)  -129  -128", lambda s: s.words(-129, 0, 0, False)),
    "negative size": sign("words  (size)  -1  unsigned", lambda s: s.words(0, -1, 0, False)),
    "2**64": sign(
        "exact  (large)  2**64".replace("2**64", str(2**64)), lambda s: s.exact(0, 2**64, 0)
    ),
    "uint64 for int64": sign("exact  (whole)", lambda s: s.exact(0, 0, np.uint64(2**63))),
    "None for int": sign(f"{COUNT}  None  int", lambda s: s.add(n=None)),
    "str for int": sign(f"{COUNT}  str  int", lambda s: s.add(n="1000")),
    "float too large": sign("words  (by)  float", lambda s: s.words(0, 0, 1e39, False)),
    "int too large for float": sign("words  (by)", lambda s: s.words(0, 0, 10**39, False)),
    "complex for float": sign("words  (by)  complex", lambda s: s.words(0, 0, 1j, False)),
    "str for double": sign("exact  (d)  str", lambda s: s.exact("1.5", 0, 0)),
    "two for bool": sign("words  argument 4 (yes)  2", lambda s: s.words(0, 0, 0, 2)),
    "str for bool": sign("words  (yes)  str", lambda s: s.words(0, 0, 0, "yes")),
    "lease for int": sign(f"{COUNT}  .item()", lambda s: s.add(n=gpulend.full((), N, "int32"))),
    "tensor for int": sign(
        f"{COUNT}  .item()", lambda s: s.add(n=s.torch(lambda torch: torch.tensor(N)))
    ),
    "numpy array for int": sign(f"{COUNT}  .item()", lambda s: s.add(n=np.array(N))),
    "jax for float": sign("words  (by)  .item()", lambda s: s.words(0, 0, s.jax()[0], False)),
    # structures
    "short bytes": sign("move  (p)  15  16", lambda s: s.move(bytes(15), None)),
    "long record": sign("move  (p)  24  16", lambda s: s.move(np.zeros((), "f8,f8,f8")[()], None)),
    "dict for struct": sign("move  (p)  dict  16", lambda s: s.move({"position": 1}, None)),
    "int for struct": sign("move  (p)  int", lambda s: s.move(7, None)),
    # the launch
    "no blocks": shape("vectorAdd  grid  0", lambda s: s.add(grid=0)),
    "no threads": shape("vectorAdd  block  0", lambda s: s.add(block=(32, 0))),
    "negative grid": shape("grid  -4", lambda s: s.add(grid=-4)),
    "1025 threads": shape("vectorAdd  1025  1024", lambda s: s.add(block=1025)),
    "2048 threads": shape("vectorAdd  2048  1024", lambda s: s.add(block=(32, 32, 2))),
    "third axis": shape("block  65  64", lambda s: s.add(block=(1, 1, 65))),
    "second axis": shape("grid  65536  65535", lambda s: s.add(grid=(1, 65536))),
    "first axis": shape("grid  2147483648  2147483647", lambda s: s.add(grid=2**31)),
    "beyond C": shape("grid", lambda s: s.add(grid=2**70)),
    "launch bounds": shape("narrow  65  64", lambda s: s.module["narrow"][1, 65](s.a)),
    "much shared memory": shape(f"vectorAdd  {2**24}", lambda s: s.add(shared=2**24)),
    "less shared memory": shape("shared  -1", lambda s: s.add(shared=-1)),
    "forall of less": shape("vectorAdd  -1", lambda s: s.module["vectorAdd"].forall(-1)),
    "four axes": Wrong(lambda s: s.add(grid=(1, 1, 1, 1)), "grid  4", gpulend.KernelError, EITHER),
    "no axes": Wrong(lambda s: s.add(block=()), "block", gpulend.KernelError, EITHER),
    "half a block": Wrong(lambda s: s.add(grid=3.5), "grid  float", gpulend.KernelError, EITHER),
    "stream": other(gpulend.ProtocolError, 253, "", lambda s: s.add(stream="fast")),
    "stream elsewhere": Wrong(
        lambda s: s.add(stream=gpulend.Stream(device=s.elsewhere().device)), "cuda:1", codes=None
    ),
    # what plain bytes would lose
    "requires grad": Wrong(
        lambda s: s.add(c=s.torch(lambda torch: torch.ones(N, requires_grad=True))),
        f"vectorAdd  {C}  requires grad  no_grad  detach",
        codes=None,
    ),
    "conjugate": Wrong(
        lambda s: s.pairs(s.torch(lambda torch: torch.ones(8, dtype=torch.complex64).conj()), None),
        "pairs  argument 1 (p)  resolve_conj",
        codes=None,
    ),
    "sparse": Wrong(
        lambda s: s.add(a=s.torch(lambda torch: torch.ones(N).to_sparse())),
        f"{A}  sparse",
        codes=None,
    ),
}


def forgot_sizes(s: Scene) -> None:
    """Call the kernel itself."""
    s.module["vectorAdd"](s.a, s.b, s.c, N)


def forgot_block(s: Scene) -> None:
    """Name the grid alone."""
    s.module["vectorAdd"][4](s.a, s.b, s.c, N)


def unknown_keyword(s: Scene) -> None:
    """Spell a keyword as another library does."""
    s.vectorAdd(s.a, s.b, s.c, N, shared_mem=3)


def assert_says(text: str, says: str) -> None:
    """See that each part is there: numbers whole, words from their beginning."""
    for part in filter(None, says.split("  ")):
        before = r"(?<!\w)" if part[0] not in "(." else ""
        after = r"(?!\w)" if part[-1].isdigit() else ""
        found = re.search(before + re.escape(part) + after, text, re.IGNORECASE)
        assert found, f"{part!r} is not in: {text}"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_refused_and_the_next_works(gpu, name):
    """Nothing was queued: the output is as it was, and no launch was seen."""
    wrong, scene = WRONG[name], Scene()
    with pytest.raises(wrong.error) as caught:
        wrong.call(scene)
    error = caught.value
    assert isinstance(error, gpulend.Error)
    if isinstance(error, gpulend.KernelError):
        assert isinstance(error, RuntimeError)
    if isinstance(error, gpulend.SignatureError):
        assert isinstance(error, TypeError)
    assert wrong.codes is None or error.code in wrong.codes, (error.code, str(error))
    assert_says(str(error), wrong.says)
    del caught, error
    right_launch()
    assert set(scene.a.to_host().tolist()) == {1.0}
    assert set(scene.c.to_host().tolist()) == {9.0}
    scene.add()
    assert set(scene.c.to_host().tolist()) == {3.0}


@pytest.mark.parametrize("call", [forgot_sizes, forgot_block, unknown_keyword])
def test_what_python_itself_would_refuse(gpu, call):
    """The class is TypeError, wherever it is raised."""
    scene = Scene()
    with pytest.raises(TypeError):
        call(scene)
    right_launch()


def test_the_example_of_the_contract_word_for_word(gpu):
    """The one text that is promised."""
    scene = Scene()
    with pytest.raises(gpulend.SignatureError) as caught:
        scene.add(b=scene.of("float64"))
    assert str(caught.value) == (
        "vectorAdd: argument 2 (b) is a float64 array, and the kernel wants const float*; "
        'convert it (gpulend.from_host(b.to_host().astype("float32"))) or declare const double*'
    )


def _of_float64(framework: str) -> Any:
    """Make an array of a framework whose elements the kernel does not take."""
    if framework == "gpulend":
        return gpulend.zeros(N, "float64")
    module = need(framework)
    if framework == "torch":
        return module.zeros(N, dtype=module.float64, device="cuda" if REAL else "cpu")
    if framework == "numba.cuda":
        return module.to_device(np.zeros(N))
    if framework == "jax":
        # It has no float64 unless it is configured so for good.
        return module.numpy.zeros(N, "int32")
    return module.zeros(N, module.float64)


@pytest.mark.parametrize("framework", ["gpulend", "torch", "jax", "tensorflow", "numba.cuda"])
def test_the_conversion_that_an_error_names_works(gpu, framework):
    """Each framework has its own, and leases have none."""
    if REAL and framework == "tensorflow":
        pytest.skip("its tensors are the host's")
    scene = Scene()
    array = _of_float64(framework)
    with pytest.raises(gpulend.SignatureError, match=r"argument 2 \(b\).*convert it \(") as caught:
        scene.add(b=array)
    call = re.search(r"convert it \((.*)\) or declare", str(caught.value))
    assert call is not None
    names: dict[str, Any] = {"gpulend": gpulend, "b": array}
    if framework == "torch":
        names["torch"] = need("torch")
    if framework == "tensorflow":
        names["tf"] = need("tensorflow")
    if framework == "numba.cuda":
        names["cuda"] = need("numba.cuda")
    scene.add(b=eval(call[1], names))
    assert set(scene.c.to_host().tolist()) == {1.0}


def test_errors_travel(gpu):
    """Pickled, as between processes."""
    import pickle

    with pytest.raises(gpulend.SignatureError) as caught:
        Scene().add(n=1.5)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.code) == (
        gpulend.SignatureError,
        str(caught.value),
        caught.value.code,
    )


def test_the_classes_and_their_order():
    """KernelError is a RuntimeError, SignatureError also a TypeError."""
    assert issubclass(gpulend.SignatureError, gpulend.KernelError)
    assert issubclass(gpulend.KernelError, gpulend.Error)
    assert not issubclass(gpulend.KernelError, TypeError)
    assert len(WRONG) >= 35


# Images without types: what a kernel does with its pointers is unknown, so it may write.

UNTYPED = """
extern "C" __global__ void spoil(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = -1;
}
extern "C" __global__ void sum(float *out, int n, const float *a, const float *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
READ_ONLY = {
    "readonly": lambda s: s.a.as_readonly(),
    "part": lambda s: s.a.as_readonly()[8:],
    "reshaped": lambda s: s.a.as_readonly().reshape(10, 100),
    "wrapped": lambda s: gpulend.wrap(s.a.address, N, "float32", owner=s.a, readonly=True),
    "borrowed again": lambda s: gpulend.borrow(s.a.as_readonly()),
    "jax": lambda s: s.jax(),
    "lease of jax": lambda s: gpulend.borrow(s.jax()),
    "tensorflow": lambda s: s.constant(),
}


def untyped(name: str) -> gpulend.Kernel:
    """Return a kernel of PTX that says the sizes of its parameters and no more."""
    made = compiled(gpulend.compiler.to_ptx(UNTYPED))[name]
    assert not made.typed
    return made


CALLS = {
    "brackets": lambda kernel, *said, **words: kernel[4, 256](*said, **words),
    "launch": lambda kernel, *said, **words: kernel.launch(4, 256, said, **words),
    "forall": lambda kernel, *said, **words: kernel.forall(N)(*said, **words),
}


@only_simulated
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", READ_ONLY)
def test_a_kernel_that_may_write_is_refused_what_must_not_be_written(gpu, name, call):
    """Unknown means "may write": error 838 says which argument, and the memory is as it was."""
    scene, go = Scene(), CALLS[call]
    array = READ_ONLY[name](scene)
    before = _numbers(array)
    for position, arguments in (
        (1, (untyped("spoil"), array, np.int32(8))),
        (1, (untyped("sum"), array, np.int32(8), scene.a, scene.b)),
        (3, (untyped("sum"), scene.c, np.int32(8), array, scene.b)),
        (4, (untyped("sum"), scene.c, np.int32(8), scene.a, array)),
    ):
        with pytest.raises(gpulend.SignatureError) as caught:
            go(*arguments)
        assert caught.value.code == 838
        assert_says(str(caught.value), f"{arguments[0].name}  argument {position}  check=False")
        del caught
    gpulend.synchronize()
    np.testing.assert_array_equal(_numbers(array), before)
    assert set(scene.c.to_host().tolist()) == {9.0}
    CALLS[call](untyped("sum"), scene.c, np.int32(N), scene.a, scene.b)
    assert set(scene.c.to_host().tolist()) == {3.0}
    right_launch()


@only_simulated
def test_a_stand_in_whose_memory_is_out_of_reach_is_refused() -> None:
    """In a process of its own, which the kernel would end."""
    said = python("""
        import ctypes, mmap
        from gpu.resources import REAL
        import gpulend, torch
        source = "__global__ void f(float *x, int n) { x[n] = n; }"
        go, page = gpulend.compile(source)["f"][1, 1], mmap.PAGESIZE
        tensor = torch.frombuffer(mmap.mmap(-1, 3 * page), dtype=torch.float32)
        protect = ctypes.CDLL(None).mprotect
        middle = ctypes.c_void_p(tensor.data_ptr() + page)
        assert protect(middle, ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE) == 0
        go(tensor, page // 4)
        assert protect(middle, ctypes.c_size_t(page), 0) == 0
        try:
            go(tensor, page // 4)
        except gpulend.AddressError as error:
            print(error.code, end="")
    """)
    assert said == "405"


def _numbers(array: Any) -> Any:
    return array.to_host() if isinstance(array, gpulend.Lease) else np.array(array)


@only_simulated
def test_without_checks_an_unknown_kernel_may_have_what_must_not_be_written(gpu):
    """Who says that it only reads is believed."""
    scene, out = Scene(), gpulend.zeros(N, "float32")
    arguments = (out, np.int32(N), scene.a.as_readonly(), gpulend.borrow(scene.jax()))
    for go in CALLS.values():
        go(untyped("sum"), *arguments, check=False)
        assert set(out.to_host().tolist()) == {2.0}
        out.copy_from(np.zeros(N, np.float32))


@only_simulated
@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_whoever_comes_after_an_unknown_kernel_waits_for_a_writer(gpu, call, readonly):
    """Without checks too: it is ordered as what it may be."""
    scene, gate = Scene(), gpu.gate()
    first, second = gpulend.Stream(), gpulend.Stream()
    spoil = untyped("spoil")
    spoil.attributes
    with second:
        seen = gpulend.zeros(N, "float32")
    gpulend.synchronize()
    gate.hold(first)
    array = scene.a.as_readonly() if readonly else scene.a
    CALLS[call](spoil, array, np.int32(N), stream=first, check=not readonly)
    with second:
        seen.copy_from(scene.a)
    assert gate.closed, "the host waited"
    assert stuck(second), "the reader does not wait for a kernel that may write"
    gate.open()
    assert set(seen.to_host().tolist()) == {-1.0}


@only_simulated
@pytest.mark.parametrize("readonly", [False, True])
def test_an_unknown_kernel_waits_for_the_readers_of_what_it_may_write(gpu, readonly):
    """As a writer does: a read that was queued before must see the old numbers."""
    scene, gate = Scene(), gpu.gate()
    reader, writer = gpulend.Stream(), gpulend.Stream()
    spoil = untyped("spoil")
    spoil.attributes
    with reader:
        seen = gpulend.zeros(N, "float32")
    gpulend.synchronize()
    gate.hold(reader)
    with reader:
        seen.copy_from(scene.a)
    array = scene.a.as_readonly() if readonly else scene.a
    spoil[4, 256](array, np.int32(N), stream=writer, check=not readonly)
    assert gate.closed, "the host waited"
    assert stuck(writer), "the kernel would write under a reader"
    gate.open()
    assert set(seen.to_host().tolist()) == {1.0}
    assert set(scene.a.to_host().tolist()) == {-1.0}


def kernel_of_nothing():
    """Return a kernel without parameters."""
    return gpulend.compile("__global__ void nothing() {}")["nothing"]


def test_an_interrupt_passes_through_a_grid(gpu):
    """Only what says that it is no number is a wrong shape."""

    class Interrupted:
        def __index__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernel_of_nothing()[Interrupted(), 1]


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2)])
def test_a_call_without_a_size_says_how_to_give_one(gpu, arguments):
    """`__call__` takes one tuple now, so that its own words are never read."""
    with pytest.raises(TypeError, match=r"nothing\[grid, block\]"):
        kernel_of_nothing()(*arguments)
