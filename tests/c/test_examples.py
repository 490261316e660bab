"""Whole programs: vector addition in C, with ctypes alone, and by a C++ library inside Python."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest
from conftest import CPP, HERE, REAL, C, build, compilers, link, need, succeed
from gpulend import _toolkit, config

EXAMPLES = HERE / "examples"


def test_a_c_program_adds_vectors(stage, tmp_path):
    """It allocates, copies, launches and frees; a compiler is where GPULEND_CLANG says."""
    program = build(C, tmp_path / "vector_add", [EXAMPLES / "vector_add.c"], *link(stage))
    assert succeed([program], **compilers().environment()) == "0 errors\n"


@pytest.mark.skipif(REAL, reason="`gpulend run` is of the simulated GPU")
def test_under_gpulend_run_a_c_program_compiles_with_the_compiler_of_python(stage, tmp_path):
    """No other is on its PATH, and nothing names one but `gpulend run`."""
    compilers()
    program = build(C, tmp_path / "vector_add", [EXAMPLES / "vector_add.c"], *link(stage))
    command = [sys.executable, "-m", "gpulend", "run", "--", program]
    empty = {"PATH": str(tmp_path), "GPULEND_CLANG": ""}
    assert succeed(command, **empty) == "0 errors\n"


def test_python_calls_the_c_programs_main(stage, tmp_path):
    """The same source as a library: `main` is a function as any."""
    library = tmp_path / "vector_add.so"
    build(C, library, [EXAMPLES / "vector_add.c"], "-shared", "-fPIC", *link(stage))
    program = f"import ctypes, sys; sys.exit(ctypes.CDLL({str(library)!r}).main())"
    said = succeed([sys.executable, "-I", "-c", program], **compilers().environment())
    assert said == "0 errors\n"


@pytest.mark.parametrize("native", [True, False], ids=["extension", "libgpulend"])
def test_a_program_needs_nothing_but_ctypes(native, stage):
    """Allocate, copy, compile, launch, copy back, free; what is wrong is refused with words."""
    library = config.library() if native else stage / "lib/libgpulend.so"
    program = [sys.executable, "-I", EXAMPLES / "vector_add.py", library, *compilers().arguments()]
    lines = succeed(program).splitlines()
    assert lines[0] == "0 errors"
    assert lines[1].startswith("822 vectorAdd: argument 2 (b)")
    assert lines[2].startswith("500 this lease was released")


def test_a_cpp_library_hands_its_memory_to_torch(tmp_path):
    """Python passes arrays in, gets sums and leases back; torch takes them without a copy."""
    need("torch")
    options = shlex.split(succeed([sys.executable, "-m", "gpulend.config", "--cflags", "--libs"]))
    library = tmp_path / "wrapper.so"
    build(CPP, library, [EXAMPLES / "wrapper.cpp"], "-shared", "-fPIC", *options)
    lines = succeed([sys.executable, EXAMPLES / "wrapper.py", library]).splitlines()
    assert lines == [
        "vectorAddWrapper: right",
        "the same address: True",
        "held: lease 4096 export 4096",
        "the same memory: -1.0",
        "held by torch: True",
        "held at last: 0",
        "freed once: 500",
    ]


def _whole_toolkit() -> Path:
    """Find an installed CUDA with all its headers: wheels leave some out."""
    nvcc = shutil.which("nvcc")
    roots = [Path(nvcc).resolve().parents[1]] if nvcc else []
    roots += [Path(folder).parent for folder in _toolkit.folders()[1]]
    whole = [root for root in roots if (root / "include/crt/host_defines.h").exists()]
    return whole[0] if whole else pytest.skip("no CUDA toolkit")


@pytest.mark.skipif(not REAL, reason="CUDA's runtime library wants more than the simulated GPU has")
def test_memory_of_cuda_malloc_goes_to_torch_and_is_freed_once(tmp_path):
    """A C++ library wraps what it allocated; torch reads it in order; cudaFree comes at the end."""
    need("torch")
    toolkit = _whole_toolkit()
    options = shlex.split(succeed([sys.executable, "-m", "gpulend.config", "--cflags", "--libs"]))
    folders = [toolkit / "lib64", toolkit / "lib"]
    cuda = [
        "-isystem",
        str(toolkit / "include"),
        *(f"-L{folder}" for folder in folders),
        "-lcudart",
    ]
    found = [f"-Wl,-rpath,{folder}" for folder in folders]
    library = tmp_path / "runtime.so"
    source = EXAMPLES / "runtime.cpp"
    build(CPP, library, [source], "-shared", "-fPIC", *options, *cuda, *found)
    lines = succeed([sys.executable, EXAMPLES / "runtime.py", library]).splitlines()
    assert lines == [
        "the same address: True",
        "on cuda:0",
        "its sum: 499500.0",
        "freed while torch has it: 0",
        "freed at last: 1",
    ]


def test_a_camera_server_in_cpp_lends_frames_to_python(stage, tmp_path):
    """Tickets are lines of text; each frame is opened in the other process, and given back."""
    programs = HERE.parents[1] / "examples/camera"
    server = build(CPP, tmp_path / "camera", [programs / "server.cpp"], *link(stage))
    lines = succeed([sys.executable, programs / "consumer.py", server]).splitlines()
    assert lines == [f"cuda:0 (480, 640, 3) light {10.0 * number}" for number in range(1, 6)]
