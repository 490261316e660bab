"""Kernels on disk: found again, never trusted blindly; and the `nvcc` of `gpulend run`."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from conftest import need
from gpulend import _native, compiler
from machines import clean_environment, gpulend_run, start

need("ziglang")

STORE = "__global__ void store(int *p) { p[threadIdx.x] = 7; }\n"
OLD_REDUCTION = """
extern "C" __global__ void sum(int *out) {
    __shared__ int values[64];
    int lane = threadIdx.x;
    values[lane] = lane;
    values[lane + 32] = 0;
    __syncthreads();
    volatile int *step = values;
    for (int half = 16; half; half /= 2) step[lane] = step[lane] + step[lane + half];
    if (lane == 0) *out = step[0];
}
"""
LAUNCH_REDUCTION = """
import ctypes, sys
from ctypes import byref, c_int, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")
context, module, function, place, answer = c_void_p(), c_void_p(), c_void_p(), c_uint64(), c_int()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(byref(place), 4) == 0
assert cuda.cuModuleLoadData(byref(module), open(sys.argv[1], "rb").read() + bytes(1)) == 0
assert cuda.cuModuleGetFunction(byref(function), module, b"sum") == 0
given = (c_void_p * 1)(ctypes.addressof(place))
assert cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, given, None) == 0
code = cuda.cuCtxSynchronize()
assert cuda.cuMemcpyDtoH_v2(byref(answer), place, ctypes.c_size_t(4)) == 0
print(code, answer.value)
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("GPULEND_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compile_once(source=STORE, file="kernel.cu", options=(), headers=()):
    """PTX, and whether it was compiled before."""
    ptx, _, cached = _native.compile_ptx(
        source, file, list(options), list(headers), compiler.ziglang()
    )
    return ptx, cached


@pytest.mark.parametrize("how", ["absolute", "macro"])
def test_a_header_outside_of_the_recipe_is_read_again(cache, tmp_path, how):
    """It may change, and nothing in the recipe says so."""
    header = tmp_path / "value.h"
    name = f'"{header}"'
    include = f"#include {name}\n" if how == "absolute" else f"#define NAME {name}\n#include NAME\n"
    source = include + "__global__ void store(int *p) { *p = VALUE; }\n"
    found = []
    for value in (4711, 4712):
        header.write_text(f"#define VALUE {value}\n")
        ptx, cached = compile_once(source)
        assert not cached
        found.append(str(value) in str(ptx))
    assert found == [True, True]


def test_a_source_is_compiled_once(cache):
    """By its text, name, options and headers; each of them makes it another."""
    first, cached = compile_once()
    assert not cached
    assert compile_once() == (first, True)
    for other in (
        {"source": STORE + " "},
        {"file": "other.cu"},
        {"options": ["-O1"]},
        {"headers": [("a.h", "")]},
        {"headers": [("a.h", "1")]},
    ):
        assert not compile_once(**other)[1]
        assert compile_once(**other)[1]
    assert cache.stat().st_mode & 0o777 == 0o700
    assert {path.suffix for path in (cache / "ptx").iterdir()} == {".ptx"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (cache / "ptx").iterdir())


def test_another_compiler_compiles_again(cache, tmp_path, monkeypatch):
    """The compiler's path, size, time and version are part of the key."""
    compile_once()
    other = tmp_path / "clang"
    other.write_text(f'#!/bin/sh\nexec {compiler.ziglang()} clang "$@"\n')
    other.chmod(0o700)
    monkeypatch.setenv("GPULEND_CLANG", str(other))
    assert not compile_once()[1]
    assert compile_once()[1]
    os.utime(other, (1, 1))
    assert not compile_once()[1]


def test_a_tampered_entry_is_removed_and_compiled_again(cache):
    """Whatever was done to it."""
    first, _ = compile_once()
    (entry,) = (cache / "ptx").iterdir()
    right = entry.read_bytes()
    for wrong in (
        right.replace(b"store", b"stare"),
        right[:-1],
        right + b"\n",
        b"",
        b"\xff" * 100,
        right.replace(b"gpulend-ptx-2", b"gpulend-ptx-3"),
    ):
        entry.write_bytes(wrong)
        assert compile_once() == (first, False)
        assert compile_once() == (first, True)


def test_sources_that_read_other_folders_are_not_kept(cache, tmp_path):
    """What lies there may change unseen."""
    (tmp_path / "value.h").write_text("#define VALUE 1\n")
    source = '#include "value.h"\n__global__ void k(int *p) { *p = VALUE; }'
    one, _ = compile_once(source, options=["-I", str(tmp_path)])
    (tmp_path / "value.h").write_text("#define VALUE 2\n")
    two, cached = compile_once(source, options=["-I", str(tmp_path)])
    assert one != two
    assert not cached
    assert not cache.exists()


def test_a_folder_that_others_can_write_is_not_used(tmp_path):
    """One line says so, once; compiling goes on without."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    program = (
        f"from gpulend import compiler\nfor _ in range(2): assert compiler.to_ptx({STORE!r})\n"
    )
    command = [sys.executable, "-c", program]
    done = start(command, GPULEND_CACHE_DIR=folder)
    assert done.stderr.count("\n") == 1
    assert f"{folder} can be written by others" in done.stderr
    assert list(folder.iterdir()) == []
    done = start(command, GPULEND_CACHE_DIR=folder, GPULEND_CACHE="off")
    assert done.stderr == ""
    unwritable = "/proc/nowhere"
    done = start(command, GPULEND_CACHE_DIR=unwritable)
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_folder_of_another_user_is_not_used(tmp_path):
    """Who owns it can change what it holds."""
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    program = f"from gpulend import compiler\ncompiler.to_ptx({STORE!r})\n"
    done = start([sys.executable, "-c", program], GPULEND_CACHE_DIR=folder)
    assert "belongs to another user" in done.stderr
    assert list(folder.iterdir()) == []


def test_the_cache_lies_where_caches_lie(tmp_path):
    """`XDG_CACHE_HOME`, else `.cache` of the home; off means off."""
    command = [sys.executable, "-c", f"from gpulend import compiler\ncompiler.to_ptx({STORE!r})"]
    start(command, XDG_CACHE_HOME=tmp_path / "xdg")
    assert len(list((tmp_path / "xdg/gpulend/ptx").glob("*.ptx"))) == 1
    start(command, XDG_CACHE_HOME="", HOME=tmp_path / "home")
    assert len(list((tmp_path / "home/.cache/gpulend/ptx").glob("*.ptx"))) == 1
    start(command, XDG_CACHE_HOME=tmp_path / "none", GPULEND_CACHE="off")
    assert not (tmp_path / "none").exists()


def test_a_folder_that_holds_other_files_keeps_them(cache):
    """However large they are and whatever they are called: the cache has a folder of its own."""
    cache.mkdir(mode=0o700)
    theirs = [cache / name for name in ("results.tmp", "mine.ptx", "0" * 64 + ".ptx")]
    for file in theirs:
        file.touch()
        os.truncate(file, 300 << 20)
    compile_once()
    assert [file.exists() for file in theirs] == [True] * 3
    assert compile_once()[1]


def test_processes_that_compile_at_once_do_not_disturb_each_other(cache):
    """All get the same PTX, and one whole entry is left."""
    program = f"from gpulend import compiler\nprint(hash(compiler.to_ptx({STORE!r})))"
    variables = clean_environment(GPULEND_CACHE_DIR=cache, PYTHONHASHSEED=0)
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=variables)
        for _ in range(4)
    ]
    answers = {process.communicate(timeout=120)[0] for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert len(answers) == 1
    assert len(list((cache / "ptx").iterdir())) == 1
    assert compile_once()[1]


def test_gpulend_run_brings_an_nvcc_of_this_python(tmp_path):
    """As PyCUDA calls it: version, cubin beside the current folder, ptx, preprocessing."""
    (tmp_path / "value.h").write_text("#define VALUE 11\n")
    source = tmp_path / "kernel.cu"
    source.write_text('#include "value.h"\nextern "C" __global__ void k(int *p) { *p = VALUE; }\n')

    def nvcc(*words, check=True):
        line = 'cd "$0" && exec nvcc "$@"'
        variables = {"XDG_CACHE_HOME": tmp_path / "xdg"}
        return gpulend_run("--", "sh", "-c", line, tmp_path, *words, check=check, **variables)

    assert re.search(r"release \d+\.\d+", nvcc("--version").stdout)
    nvcc("--cubin", "-arch", "sm_75", "-I/nowhere", "-O3", "kernel.cu")
    assert ".visible .entry k(" in (tmp_path / "kernel.cubin").read_text()
    nvcc("--ptx", "-o", "there.ptx", "-lineinfo", str(source))
    assert "11" in (tmp_path / "there.ptx").read_text()
    before = nvcc("--preprocess", "kernel.cu", "--compiler-options", "-P").stdout
    (tmp_path / "value.h").write_text("#define VALUE 12\n")
    assert nvcc("-E", "kernel.cu").stdout != before
    source.write_text("__global__ void k(int *p) { *p = 1 / 0; }\n")
    done = nvcc("--cubin", "kernel.cu")
    assert done.stderr.startswith("kernel.cu:1:36: warning: division by zero")
    assert done.stderr.count("\n") == 1
    source.write_text("int x = y;\n")
    done = nvcc("--cubin", "kernel.cu", check=False)
    assert done.returncode == 1
    assert "kernel.cu:1:9: error: use of undeclared identifier 'y'" in done.stderr
    # What is no image alone is a program's.
    done = nvcc(check=False)
    assert (done.returncode, done.stderr) == (2, "gpulend build: no source; name a .cu file\n")
    for wrong in (("--cubin",), ("--cubin", "kernel.cu", "b.cu"), ("--cubin", "-o")):
        done = nvcc(*wrong, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("nvcc (gpulend): ")


def test_the_nvcc_of_gpulend_run_comes_before_any_other_and_leaves_no_litter(tmp_path):
    """One folder for each Python; a module of our name in the current folder is not ours."""
    (tmp_path / "gpulend.py").write_text("raise SystemExit('the wrong module')\n")
    line = f"cd {tmp_path} && command -v nvcc && nvcc --version"
    variables = {"XDG_CACHE_HOME": tmp_path / "xdg"}
    places = set()
    for _ in range(2):
        done = gpulend_run("--", "sh", "-c", line, **variables)
        places.add(done.stdout.splitlines()[0])
        assert "gpulend" in done.stdout.splitlines()[1]
    (place,) = places
    assert place.startswith(str(tmp_path / "xdg/gpulend/nvcc-"))
    assert os.listdir(os.path.dirname(place)) == ["nvcc"]


def test_the_nvcc_of_gpulend_run_keeps_warps_in_step_where_old_kernels_want_it(tmp_path):
    """At volatile accesses of shared memory: a reduction without barriers gives the sum."""
    source = tmp_path / "kernel.cu"
    source.write_text(OLD_REDUCTION)
    program = tmp_path / "program.py"
    program.write_text(LAUNCH_REDUCTION)
    line = 'cd "$0" && nvcc --cubin kernel.cu && "$@"'
    variables = {"XDG_CACHE_HOME": tmp_path / "xdg"}
    words = ("sh", "-c", line, tmp_path, sys.executable, program, "kernel.cubin")
    assert gpulend_run("--", *words, **variables).stdout == "0 496\n"
    # The same kernel without that has a race, which is reported.
    (tmp_path / "kernel.ptx").write_text(compiler.to_ptx(OLD_REDUCTION))
    words = (sys.executable, program, tmp_path / "kernel.ptx")
    assert gpulend_run("--", *words, **variables).stdout.startswith("719 ")
