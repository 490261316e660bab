"""CUDA C++ to PTX: what comes out, what is said about mistakes, and which compiler is used."""

from __future__ import annotations

import os
import pickle
import re
import stat
import sys
import warnings

import gpulend
import pytest
from conftest import need
from gpulend import compiler
from machines import PRELUDE, start

need("ziglang")

STORE = "__global__ void store(int *p) {\n    p[threadIdx.x] = 7;\n}\n"


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    """A cache of each test's own."""
    monkeypatch.setenv("GPULEND_CACHE_DIR", str(tmp_path / "cache"))


def mistake(source, **given):
    """What compiling a wrong source raises."""
    with pytest.raises(gpulend.CompileError) as caught:
        compiler.to_ptx(source, **given)
    return caught.value


def test_ptx_is_for_the_simulated_gpu_and_knows_the_callers_lines():
    """Target, version, and `.loc` in the file that the caller named, never in a temporary one."""
    for file in ("kernel.cu", "/some where/k.cu", 'odd "name".cu', "../up.cu"):
        ptx = compiler.to_ptx(STORE, file=file)
        assert ".version 6.3" in ptx
        assert ".target sm_75" in ptx
        assert re.findall(r"^\s*\.file\s+\d+ (.*)$", ptx, re.M) == [
            '"' + file.replace('"', '\\"') + '"'
        ]
        assert re.search(r"\.loc\s+1 2 ", ptx)
        assert os.environ.get("TMPDIR", "/tmp") not in ptx


def test_ptx_is_of_the_release_that_has_its_instructions():
    """clang writes one for all; a real driver refuses instructions that came later."""
    for code, release in (
        ("*p = __activemask()", "6.3"),
        ("nvcuda::wmma::mma_sync(d, a, b, c); *p = d.x[0]", "6.5"),
        ('asm("bmsk.clamp.b32 %0, %1, 3;" : "=r"(*p) : "r"(4))', "7.6"),
    ):
        source = f"""
#include <mma.h>
using namespace nvcuda::wmma;
__global__ void f(int *p) {{
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, row_major> b;
    fragment<accumulator, 16, 16, 16, float> c, d;
    fill_fragment(a, *p), fill_fragment(b, *p), fill_fragment(c, *p);
    {code};
}}
"""
        for _ in ("compiled", "kept"):
            assert f"\n.version {release}\n" in compiler.to_ptx(source)


def test_a_fault_inside_a_header_would_be_told_with_the_line_that_called():
    """Our headers have no lines of their own in the PTX."""
    source = "__global__ void add(float *p) {\n\n    atomicAdd(p, sqrtf(*p));\n}\n"
    ptx = compiler.to_ptx(source)
    before, _, _ = ptx.partition("atom.add.f32")
    assert re.findall(r"\.loc\s+(\d+) (\d+) ", before)[-1] == ("1", "3")
    assert ptx.count(".file") == 1


def test_a_mistake_is_told_by_the_callers_file_line_column_and_text():
    """In the message as compilers write it, and in parts; never by a temporary path."""
    error = mistake("\n__global__ void k() {\n    int x = y;\n}\n", file="mine.cu")
    assert error.code == 704
    assert isinstance(error, ValueError)
    assert "mine.cu:3:13: error: use of undeclared identifier 'y'" in str(error)
    assert "    int x = y;" in str(error)
    assert error.diagnostics == [
        ("mine.cu", 3, 13, "error", "use of undeclared identifier 'y'"),
    ]
    assert "/tmp" not in str(error)
    assert "generated" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.diagnostics) == (str(error), 704, error.diagnostics)


def test_a_mistake_in_a_given_header_is_told_by_its_name():
    """`headers` are found by the name they are included by."""
    source = '#include "deep/mine.h"\n#include <other.h>\n__global__ void k(int *p) { *p = A + B; }'
    right = {"deep/mine.h": "#define A 1\n", "other.h": "#define B 2\n"}
    assert "3;" in compiler.to_ptx(source, headers=right)
    error = mistake(source, headers={**right, "deep/mine.h": "\nint a = b;\n#define A 1\n"})
    assert error.diagnostics[0][:4] == ("deep/mine.h", 2, 9, "error")
    assert "/tmp" not in str(error)
    assert mistake(source).diagnostics[0][4] == "'deep/mine.h' file not found"
    for name in ("../a.h", "/a.h", "", "a/", "a\n.h"):
        assert mistake("", headers={name: ""}).code == 708
    assert mistake("", file="a\nb.cu").code == 708


def test_what_our_headers_add_to_a_mistake_is_short():
    """Candidates are named; the macros that made them are not shown."""
    error = mistake('__global__ void k(int *p) { atomicAdd(p, "a"); }')
    assert "no matching function for call to 'atomicAdd'" in str(error)
    assert "candidate function not viable" in str(error)
    assert "__GPULEND" not in str(error)


def test_a_launch_in_the_source_says_how_to_launch():
    """Only the device's part is compiled; whole programs are refused, not half compiled."""
    error = mistake("__global__ void k() {}\nint main() { k<<<1, 1>>>(); }")
    assert error.code == 705
    assert "<<<...>>>" in str(error)
    assert "gpulend.compile(source)[" in str(error)
    assert error.diagnostics[0][:2] == ("kernel.cu", 2)


def test_doubts_about_the_callers_text_are_warnings_and_come_back_from_the_cache():
    """One for each place; none about our headers."""
    source = "__global__ void k(int *p) { int unused = 3; *p = 1; }"
    for _ in range(2):
        with pytest.warns(
            gpulend.CompileWarning, match=r"^kernel.cu:1:33: unused variable"
        ) as warned:
            compiler.to_ptx(source, options=["-Wall"])
        assert len(warned) == 1
        assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiler.to_ptx(STORE, options=["-Wall", "-Wextra"])
        compiler.to_ptx(source, options=["-Wall", "-w"])
    assert mistake(source, options=["-Wall", "-Werror"]).code == 704


def test_options_of_nvcc_are_understood_and_unknown_ones_refused_by_name(tmp_path):
    """Translated, or ignored where they mean nothing here."""
    source = "__global__ void k(float *p) { p[0] = p[1] * p[2] + p[3] + A; p[4] = sinf(p[5]); }"
    plain = compiler.to_ptx(source, options=["-DA=1"])
    assert "fma.rn.f32" in plain
    assert ".extern .func" in plain
    apart = compiler.to_ptx(source, options=["-D", "A=1", "--fmad=false"])
    assert "fma.rn.f32" not in apart
    fast = compiler.to_ptx(source, options=["--define-macro=A=1", "--use_fast_math"])
    assert "sin.approx.f32" in fast
    assert ".extern .func" not in fast
    ignored = ["-arch=sm_90", "-gencode", "arch=compute_80,code=sm_80", "-lineinfo", "-G", "-m64"]
    assert compiler.to_ptx(source, options=["-DA=1", *ignored]) == plain
    (tmp_path / "value.h").write_text("#define A 1\n")
    included = compiler.to_ptx('#include "value.h"\n' + source, options=["-I", str(tmp_path)])
    assert "fma.rn.f32" in included
    assert "cached" in compiler.to_ptx("__global__ void cached() {}", options=["-std=c++20"])
    by_default = "int f(int x) { return x; }\n__global__ void k(int *p) { *p = f(*p); }"
    assert mistake(by_default).code == 704
    compiler.to_ptx(by_default, options=["--device-as-default-execution-space"])
    for wrong in ("-fplugin=a.so", "-Wl,x", "-o", "a.cu", "-std=c++99", "-rdc=true", "@file"):
        error = mistake(source, options=["-DA=1", wrong])
        assert error.code == 703
        assert f'"{wrong}"' in str(error)
    with pytest.raises(TypeError, match="a list of options"):
        compiler.to_ptx(source, options="-DA=1")


def test_macros_of_the_caller_do_not_reach_our_headers():
    """Neither those of options nor those before an #include; NDEBUG means what it says."""
    names = ["A", "B", "T", "N", "x", "y", "value", "mask", "Size", "place", "old", "bits", "type"]
    options = [f"-D{name}=oops oops" for name in names]
    body = "__global__ void k(int *p) { assert(*p); *p = atomicAdd(p, 1); }\n"
    assert "__assertfail" in compiler.to_ptx(body, options=options)
    assert "__assertfail" not in compiler.to_ptx(body, options=[*options, "-DNDEBUG"])
    late = "".join(f"#define {name} oops oops\n" for name in names)
    late += "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cooperative_groups.h>\n"
    assert compiler.to_ptx(late + body)
    assert "42;" in compiler.to_ptx(
        "__global__ void k(int *p) { *p = F(41); }", options=["-DF(z)=z + 1", "-DG", "-UG"]
    )
    error = mistake("", options=["-D1=2"])
    assert error.diagnostics[0][:2] == ("<options>", 1)
    assert mistake("", options=["-DA=1\nint b;"]).code == 703


def test_the_environment_changes_nothing(monkeypatch, tmp_path):
    """Folders that compilers look into by themselves are not looked into."""
    (tmp_path / "secret.h").write_text("")
    for name in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    assert mistake("#include <secret.h>").code == 704
    assert mistake("#include <iostream>").code == 704


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    """Neither after success nor after a mistake; the folder meanwhile is the user's alone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    compiler.to_ptx(STORE)
    mistake("int x = y;")
    assert os.listdir(tmp_path / "temporary") == []
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    assert mistake("int z = y;").code == 709


def script(path, text):
    """Write a program of the shell."""
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_the_compiler_of_the_environment_is_used_before_all_others(tmp_path, monkeypatch):
    """And refused with what it said if it is not one."""
    zig = compiler.ziglang()
    wrapper = script(tmp_path / "my-clang", f'exec {zig} clang "$@"\n')
    monkeypatch.setenv("GPULEND_CLANG", wrapper)
    assert compiler.find()[0] == wrapper
    assert "clang version" in compiler.find()[1]
    assert compiler.to_ptx(STORE)
    wrong = {
        "missing": None,
        "fails": "echo broken >&2; exit 3\n",
        "old": "echo clang version 9.0.1\n",
        "other": "echo gcc 12\n",
        "silent": "[ $1 = --version ] && echo clang version 19.1.0\nexit 0\n",
    }
    for name, text in wrong.items():
        path = script(tmp_path / name, text) if text else str(tmp_path / name)
        monkeypatch.setenv("GPULEND_CLANG", path)
        error = mistake(STORE)
        assert error.code == 702
        assert path in str(error)
    monkeypatch.setenv("GPULEND_CLANG", str(tmp_path / "fails"))
    assert "broken" in str(mistake(STORE))


def test_without_ziglang_a_clang_of_path_is_used_if_it_works(tmp_path, monkeypatch):
    """One that does not work is passed over; without any, the message names the remedy."""
    zig = compiler.ziglang()
    monkeypatch.delenv("GPULEND_CLANG", raising=False)
    monkeypatch.setattr(compiler, "ziglang", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    error = mistake(STORE)
    assert error.code == 701
    assert "pip install gpulend[sim]" in str(error)
    script(tmp_path / "clang", "exit 1\n")
    works = script(tmp_path / "clang-17", f'exec {zig} clang "$@"\n')
    assert compiler.find()[0] == works
    assert ".target sm_75" in compiler.to_ptx(STORE)


def test_a_compiler_that_breaks_down_is_told_apart_from_a_mistake(tmp_path, monkeypatch):
    """A crash has its own code, with what the compiler said."""
    zig = compiler.ziglang()
    text = (
        f'case "$*" in *source.cu*) echo oh no >&2; kill -SEGV $$;; esac\nexec {zig} clang "$@"\n'
    )
    monkeypatch.setenv("GPULEND_CLANG", script(tmp_path / "crashing", text))
    error = mistake(STORE)
    assert error.code == 707
    assert "oh no" in str(error)
    assert "signal 11" in str(error)


def test_importing_the_compiler_starts_nothing():
    """Neither a driver nor a compiler nor ziglang's own module."""
    program = PRELUDE + (
        "import gpulend.compiler\n"
        "print('ziglang' in sys.modules, mapped('libcuda', 'libgpulend_sim'))\n"
    )
    done = start([sys.executable, "-c", program])
    assert done.stdout == "False []\n"
