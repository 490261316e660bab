"""Modules: names and templates, what a kernel says about itself, sources, images, compilers."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import gpulend
import numpy as np
import pytest
from gpu.resources import REAL, only_real, only_simulated
from gpulend import compiler

from .arrays import VECTOR_ADD, compiled, numbers, right_launch
from .test_threads import in_threads

# Whatever class says that a name is not there, it says so to those who know dicts.
UNKNOWN = (KeyError, gpulend.KernelError)
SOURCE = (
    VECTOR_ADD
    + """
namespace deep { __global__ void inner(int *p) { *p = 3; } }
__global__ void over(float *p) { *p = 1; }
__global__ void over(int *p, int by) { *p = by; }
template <typename T> __global__ void scale(T *x, T by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
template <typename T, int Width> __global__ void shift(const T *from, T *to) {
    to[threadIdx.x] = from[threadIdx.x + Width];
}
extern "C" __global__ void __launch_bounds__(64) tiles(float *x) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void reversed(int *x, int n) {
    extern __shared__ int held[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) held[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = held[n - 1 - i];
}
"""
)
COUNTING = """
__device__ int calls;
template <typename T> __global__ void set(T *x, T to) { *x = to; atomicAdd(&calls, 1); }
__global__ void plain(int *x) { *x = atomicAdd(&calls, 1); }
"""


def module():
    """Return the module of the source above."""
    return compiled(SOURCE)


def one(dtype):
    """Return memory for one number."""
    return gpulend.zeros(1, dtype)


def test_a_module_tells_its_kernels():
    """By names, as a collection, and in words."""
    made = gpulend.compile(VECTOR_ADD + "__global__ void other(int *p) {}")
    assert sorted(made.names) == ["other", "vectorAdd"]
    assert isinstance(made.names, tuple)
    assert list(made) == list(made.names)
    assert len(made) == 2
    assert "vectorAdd" in made
    assert "vectorSub" not in made
    assert made.device == "cuda:0"
    assert made.compiler in ("clang", "nvrtc")
    assert "vectorAdd" in repr(made)


def test_a_kernel_tells_what_it_is():
    """The signature as C has it, stars at the types."""
    kernel = module()["vectorAdd"]
    assert (kernel.name, kernel.symbol, kernel.typed) == ("vectorAdd", "vectorAdd", True)
    assert kernel.signature == "vectorAdd(const float* a, const float* b, float* c, int n)"
    assert kernel.module is module()
    assert "vectorAdd" in repr(kernel)
    assert module()["tiles"].signature == "tiles(float* x)"
    assert module()["deep::inner"].signature.endswith("inner(int* p)")


@pytest.mark.parametrize("name", ["inner", "deep::inner", "deep::inner(int*)", "_ZN4deep5innerEPi"])
def test_a_kernel_has_four_names(name):
    """Base, qualified, with its types, mangled."""
    kernel, out = module()[name], one("int32")
    assert kernel.symbol == "_ZN4deep5innerEPi"
    kernel[1, 1](out)
    assert out.to_host().tolist() == [3]


def test_an_overloaded_name_lists_what_it_could_be():
    """And each of those is a name."""
    with pytest.raises(UNKNOWN) as caught:
        module()["over"]
    assert "over(float*)" in str(caught.value)
    assert "over(int*, int)" in str(caught.value)
    out = one("int32")
    module()["over(int*, int)"][1, 1](out, 8)
    assert out.to_host().tolist() == [8]
    assert module()["over(float*)"].symbol == "_Z4overPf"


@pytest.mark.parametrize("name", ["vectoradd", "", "deep", "vectorAdd(int)", "scal<float>", "réel"])
def test_an_unknown_name_is_told_with_those_there_are(name):
    """Also one that no C program could have."""
    with pytest.raises(UNKNOWN, match="vectorAdd"):
        module()[name]
    assert name not in module()
    right_launch()


def test_a_name_is_a_text():
    """A number would be a position, and there is none."""
    with pytest.raises((TypeError, *UNKNOWN)):
        module()[0]


def test_templates_by_name_before_the_module_is_loaded():
    """No warning, one set of variables, whatever instances are asked for."""
    made = gpulend.compile(COUNTING)
    for name in ("float", "int"):
        kernel = made[f"set<{name}>"]
        assert f"{name}* x" in kernel.signature
        assert f"set<{name}>" in kernel.name
        assert kernel.typed
    for name, dtype, wanted in (("float", "float32", 2.5), ("int", "int32", 7)):
        out = one(dtype)
        made[f"set<{name}>"][1, 1](out, wanted)
        assert out.to_host().tolist() == [wanted]
    assert made.variable("calls").to_host() == 2


def test_a_kernel_taken_before_a_recompilation_still_works():
    """Asking for a template must not leave other kernels with another module's variables."""
    made = gpulend.compile(COUNTING)
    plain = made["plain"]
    made["set<double>"][1, 1](one("float64"), 1.0)
    out = one("int32")
    plain[1, 1](out)
    assert out.to_host().tolist() == [1]


def test_a_template_asked_for_later_has_its_own_variables():
    """Which is warned of, once a name, because a counter is then two."""
    made = gpulend.compile(COUNTING)
    out = one("int32")
    made["plain"][1, 1](out)
    with pytest.warns(gpulend.exceptions.SecondModuleWarning, match="set<int>"):
        late = made["set<int>"]
    late[1, 1](out, 5)
    assert out.to_host().tolist() == [5]
    assert made.variable("calls").to_host() == 1
    assert made["set<int>"].symbol == late.symbol
    made["plain"][1, 1](out)
    assert out.to_host().tolist() == [1]
    assert issubclass(gpulend.exceptions.SecondModuleWarning, RuntimeWarning)


def test_names_said_at_once_need_no_second_module():
    """Two parameters, a number among them, and a namespace's."""
    made = gpulend.compile(SOURCE, names=["scale<double>", "shift<int, 2>"])
    out = gpulend.zeros(4, "int32")
    made["shift<int, 2>"][1, 4](gpulend.from_host(np.arange(6, dtype=np.int32)), out)
    assert out.to_host().tolist() == [2, 3, 4, 5]
    doubles = gpulend.full(100, 1.5, "float64")
    made["scale<double>"].forall(100)(doubles, 2.0, 100)
    assert set(doubles.to_host().tolist()) == {3.0}
    with pytest.raises(gpulend.SignatureError, match="float32"):
        made["scale<double>"][1, 1](one("float32"), 2.0, 1)


@pytest.mark.parametrize("name", ["scale<nothing>", "scale<", "missing<int>", "shift<int>"])
def test_a_template_that_cannot_be_is_told(name):
    """The module works on without it."""
    made = gpulend.compile(SOURCE)
    with pytest.raises((gpulend.CompileError, *UNKNOWN)):
        made[name]
    out = one("int32")
    made["deep::inner"][1, 1](out)
    assert out.to_host().tolist() == [3]
    with pytest.raises((gpulend.CompileError, *UNKNOWN)):
        gpulend.compile(SOURCE, names=[name])


def test_attributes_are_numbers_by_name():
    """All eight; those that the source decides are what it says."""
    found = module()["tiles"].attributes
    assert set(found) == {
        *("max_threads_per_block", "shared_bytes", "constant_bytes", "local_bytes", "registers"),
        *("ptx_version", "binary_version", "max_dynamic_shared_bytes"),
    }
    assert all(type(number) is int and number >= 0 for number in found.values())
    assert found["shared_bytes"] == 256
    assert found["max_threads_per_block"] == 64
    assert module()["vectorAdd"].attributes["shared_bytes"] == 0
    assert 64 <= module()["vectorAdd"].attributes["max_threads_per_block"] <= 1024


@pytest.mark.parametrize("size", [100, 12 * 1024, 15 * 1024])
def test_dynamic_shared_memory(size):
    """Beyond 48 KiB too, for which the driver wants to be asked."""
    host = np.arange(size, dtype=np.int32)
    lease = gpulend.from_host(host)
    module()["reversed"][1, 128](lease, size, shared=4 * size)
    np.testing.assert_array_equal(lease.to_host(), host[::-1])
    module()["reversed"].launch(1, 128, (lease, size), 4 * size)
    np.testing.assert_array_equal(lease.to_host(), host)


def test_headers_and_options():
    """Texts by name, and macros as nvcc spells them."""
    source = '#include "by.h"\nextern "C" __global__ void get(int *p) { *p = BY + FAST; }'
    made = gpulend.compile(source, headers={"by.h": "#define BY 30\n"}, options=["-DFAST=4"])
    out = one("int32")
    made["get"][1, 1](out)
    assert out.to_host().tolist() == [34]
    with pytest.raises(gpulend.CompileError):
        gpulend.compile(source, options=("-DFAST=4",))
    with pytest.raises(gpulend.CompileError, match="no-such-option") as caught:
        gpulend.compile(VECTOR_ADD, options=["--no-such-option"])
    assert caught.value.code == 703
    with pytest.raises(TypeError):
        gpulend.compile(VECTOR_ADD, options="-DFAST=4")


def test_a_file_by_its_path(tmp_path):
    """Its name is in the errors, its folder is where its includes are."""
    (tmp_path / "by.h").write_text("#define BY 5\n")
    file = tmp_path / "mine.cu"
    file.write_text('#include "by.h"\nextern "C" __global__ void get(int *p) { *p = BY; }\n')
    out = one("int32")
    gpulend.compile(file)["get"][1, 1](out)
    assert out.to_host().tolist() == [5]
    file.write_text('#include "by.h"\n\n__global__ void get(int *p) { *p = MISSING; }\n')
    with pytest.raises(gpulend.CompileError, match=r"mine\.cu") as caught:
        gpulend.compile(file)
    where, line, *_ = caught.value.diagnostics[0]
    assert (Path(where).name, line) == ("mine.cu", 3)
    with pytest.raises(OSError, match=r"none\.cu"):
        gpulend.compile(tmp_path / "none.cu")


@pytest.mark.parametrize("file", [None, "other.cu"])
def test_mistakes_are_told_in_the_user_s_lines(file):
    """Whatever else is compiled with it to learn the types."""
    source = "// one\n__global__ void f(int *p) {\n    *p = missing;\n    *p = absent;\n}\n"
    with pytest.raises(gpulend.CompileError) as caught:
        gpulend.compile(source, **({"file": file} if file else {}))
    errors = [row for row in caught.value.diagnostics if row[3] == "error"]
    assert [(row[0], row[1]) for row in errors] == [
        (file or "kernel.cu", 3),
        (file or "kernel.cu", 4),
    ]
    assert "missing" in errors[0][4]
    assert caught.value.code == 704
    assert "    *p = missing;" in str(caught.value)
    right_launch()


@pytest.mark.parametrize(
    "source",
    [
        *("__global__ void f(Unknown *p) {}", "__global__ void f(int *p) { return 1; }"),
        *("__global__ int f() { return 1; }", "__global__ void f(int *p) {", "hello"),
    ],
)
def test_a_mistake_in_any_place_is_a_compile_error(source):
    """Also in the parameters themselves; all of it is in the one line there is."""
    with pytest.raises(gpulend.CompileError) as caught:
        gpulend.compile(source)
    assert caught.value.diagnostics
    assert all(row[:2] == ("kernel.cu", 1) for row in caught.value.diagnostics if row[0])


def test_doubts_are_warned_of_once():
    """Not once for each time that the text is compiled to learn something of it."""
    source = "__global__ void doubtful(int *p) { *p = 1 / 0; }"
    with pytest.warns(gpulend.CompileWarning) as caught:
        gpulend.compile(source)["doubtful"].signature
    assert [str(warning.message).startswith("kernel.cu:1:") for warning in caught] == [True]


@pytest.mark.parametrize("first", ["// .version 6.3 of PTX\n", "/* .version 6.3 */ ", "\n\n"])
def test_a_source_that_speaks_of_ptx_is_none(first):
    """What a comment says does not make an image of it."""
    made = gpulend.compile(first + VECTOR_ADD)
    assert made.compiler != "image"
    assert made["vectorAdd"].typed


@pytest.fixture
def ptx():
    """Compile to PTX, which a machine with a GPU need not be able to."""
    try:
        return compiler.to_ptx(SOURCE)
    except gpulend.CompileError as error:
        if not REAL or error.code not in (701, 702):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("form", ["str", "bytes", "file"])
def test_an_image_is_typed_as_far_as_its_names_are(ptx, form, tmp_path):
    """Mangled names have types; what is extern "C" has sizes only, and says so."""
    if form == "file":
        (tmp_path / "image.ptx").write_text(ptx)
    image = {"str": ptx, "bytes": ptx.encode(), "file": tmp_path / "image.ptx"}[form]
    made = gpulend.compile(image)
    assert made.compiler == "image"
    assert {"vectorAdd", "tiles"} <= set(made.names)
    out = one("int32")
    inner = made["deep::inner"]
    assert inner.typed
    inner[1, 1](out)
    assert out.to_host().tolist() == [3]
    with pytest.raises(gpulend.SignatureError, match=r"inner.*argument 1.*float32.*int\*"):
        inner[1, 1](one("float32"))
    assert not made["vectorAdd"].typed
    assert made["vectorAdd"].signature.startswith("vectorAdd(")
    assert "float" not in made["vectorAdd"].signature


def test_an_image_of_sizes_checks_sizes(ptx):
    """Count and bytes are all that is known: more is refused, and less is not guessed."""
    add = gpulend.compile(ptx)["vectorAdd"][4, 256]
    a, b, out = (
        gpulend.from_host(numbers()),
        gpulend.from_host(numbers()),
        gpulend.zeros(1000, "f4"),
    )
    for n in (1000, np.int32(1000), np.int64(1000)):
        add(a, b, out, n)
        np.testing.assert_array_equal(out.to_host(), numbers() * 2)
    add(a.address, b.address, out.address, 1000)
    add(None, None, None, 0)
    for wrong in ((a, b, out), (a, b, out, 2**32), (a, b, out, 1.5), (a, b, out, out)):
        with pytest.raises(gpulend.SignatureError, match="vectorAdd"):
            add(*wrong)
    with pytest.raises(gpulend.SignatureError, match="from_host"):
        add(numbers(), b, out, 1000)
    source = 'extern "C" __global__ void put(float *p, float x, double y) { *p = x + y; }'
    put = gpulend.compile(compiler.to_ptx(source))["put"][1, 1]
    put(out, np.float32(1.5), np.float64(2))
    assert out.to_host()[0] == 3.5
    for wrong in ((out, 1.5, 2.0), (out, np.float64(1.5), np.float64(2))):
        with pytest.raises(gpulend.SignatureError, match="4"):
            put(*wrong)


@pytest.mark.parametrize(
    "image", [b"", b"\x7fELF" + bytes(60), b"nonsense", ".version 99\nx", b"\xff" * 9]
)
def test_what_is_no_image_is_told(image):
    """When it is given or when it is loaded, and the next module works."""
    with pytest.raises(gpulend.Error):
        gpulend.compile(image)["f"][1, 1]()
    right_launch()


@pytest.mark.parametrize("source", [None, 5, ["x"], object()])
def test_what_is_no_source_is_told(source):
    """As Python does."""
    with pytest.raises(TypeError):
        gpulend.compile(source)


def test_the_compiler_can_be_chosen():
    """auto is clang on the simulated GPU; another name is refused with those there are."""
    with pytest.raises((gpulend.Error, ValueError), match="nvrtc"):
        gpulend.compile(VECTOR_ADD, compiler="gcc")
    if not REAL:
        assert gpulend.compile(VECTOR_ADD).compiler == "clang"
        assert gpulend.compile(VECTOR_ADD, compiler="clang")["vectorAdd"].typed


@only_simulated
def test_nvidia_s_compiler_is_not_for_the_simulated_gpu():
    """Not there, or what it makes may not be run here: either is said."""
    with pytest.raises(gpulend.Error, match=r"(?i)nvrtc|nvidia"):
        gpulend.compile(VECTOR_ADD, compiler="nvrtc")["vectorAdd"].attributes
    right_launch()


def test_threads_ask_for_instances_at_once(gpu):
    """Each compiled the module with its own instance, and the last one's was kept alone."""
    source = f"template<class T> __global__ void s(T *x) {{ *x += 1; }} // {time.monotonic_ns()}"
    module, kinds, kernels = gpulend.compile(source), ["float", "double", "int", "short"], {}
    dtypes = ["float32", "float64", "int32", "int16"]

    def ask(number):
        kernels[number] = module[f"s<{kinds[number]}>"]

    in_threads(4, ask)
    for number, dtype in enumerate(dtypes):
        x = gpulend.zeros(1, dtype)
        kernels[number][1, 1](x)
        assert x.to_host()[0] == 1


def test_threads_ask_for_one_instance_of_a_loaded_module(gpu):
    """They get one second module, with one counter."""
    source = f"""
    __device__ int n;
    template<class T> __global__ void s(T *x) {{ *x = atomicAdd(&n, 1); }}
    __global__ void q() {{}} // {time.monotonic_ns()}
    """
    module, kernels = gpulend.compile(source), []
    module["q"][1, 1]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_threads(3, lambda number: kernels.append(module["s<int>"]))
    x, seen = gpulend.zeros(1, "int32"), []
    for one in kernels:
        one[1, 1](x)
        seen.append(int(x.to_host()[0]))
    assert seen == [0, 1, 2]


def test_a_name_that_finds_a_kernel_is_in_the_module(gpu):
    """`in` and `[]` agree on kernels of namespaces."""
    module = gpulend.compile("namespace N { __global__ void inner() {} }")
    assert module["inner"].name == "N::inner"
    assert "inner" in module


@pytest.mark.parametrize("how", ["nested", "above", "absolute"])
def test_a_file_includes_what_lies_beside_it(gpu, tmp_path, how):
    """As every compiler does: beside the file that includes, above it, and by a full path."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "above.h").write_text("#define V 3\n")
    (tmp_path / "sub" / "deep.h").write_text("#define V 3\n")
    (tmp_path / "sub" / "first.h").write_text('#include "deep.h"\n')
    name = {"nested": "sub/first.h", "above": "../above.h", "absolute": str(tmp_path / "above.h")}
    file = tmp_path / ("sub" if how == "above" else "") / "k.cu"
    file.write_text(f'#include "{name[how]}"\n__global__ void f(int *x) {{ *x = V; }}\n')
    x = gpulend.zeros(1, "int32")
    gpulend.compile(file)["f"][1, 1](x)
    assert x.to_host()[0] == 3


def test_a_header_that_is_no_utf_8_is_taken(gpu, tmp_path):
    """A comment in another encoding harms no compiler."""
    (tmp_path / "old.h").write_bytes(b"// caf\xe9\n#define V 4\n")
    (tmp_path / "k.cu").write_text('#include "old.h"\n__global__ void f(int *x) { *x = V; }\n')
    assert gpulend.compile(tmp_path / "k.cu").names == ("f",)


@only_real
def test_blocks_of_forall_are_large_with_much_shared_memory(gpu):
    """Past 48 KiB the driver answers 0 threads until the kernel is allowed so much."""
    source = (
        "__global__ void f(int *o) { if (threadIdx.x == 0 && blockIdx.x == 0) *o = blockDim.x; }"
    )
    out = gpulend.zeros(1, "int32")
    gpulend.compile(source)["f"].forall(5000)(out, shared=60_000)
    assert out.to_host()[0] > 1
