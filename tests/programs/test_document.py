"""The program and the library of a common answer, as they stand in it."""

from __future__ import annotations

import re
import shutil
import sys

from conftest import ROOT, Bench

PAGE = ROOT / "examples/programs/README.md"


def listing(language: str) -> str:
    """Return the listing in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return found


def test_the_answers_program_is_built_and_runs(bench: Bench) -> None:
    """It prints each sum that is wrong: none."""
    bench.write("vector_add.c", listing("c"))
    bench.built("-x", "cu", "vector_add.c", "-o", "vector_add")
    assert bench.ran("./vector_add") == ""


def test_the_answers_program_notices_wrong_sums(bench: Bench) -> None:
    """The test above can fail: with a kernel that subtracts, each sum but the first is wrong."""
    bench.write("wrong.cu", listing("c").replace("c[i] = a[i] + b[i];", "c[i] = a[i] - b[i];"))
    bench.built("wrong.cu", "-o", "wrong")
    printed = bench.ran("./wrong").splitlines()
    assert printed == [f"Error at index {i}" for i in range(1, 1024)]


def test_the_answers_python_code_loads_it_as_a_library(bench: Bench) -> None:
    """`lib.main()` of ctypes, in a process that knows nothing of gpulend."""
    bench.write("vector_add.c", listing("c"))
    bench.built("-x", "cu", "-shared", "vector_add.c", "-o", "vector_add.so")
    bench.write("vector_add.py", listing("python") + "print(lib.main())\n")
    assert bench.ran(sys.executable, "vector_add.py") == "0\n"


def test_the_wrapper_with_a_body_is_a_function_for_ctypes(bench: Bench) -> None:
    """It returns 0 and the sums, beside gpulend in the same process."""
    shutil.copy(ROOT / "examples/programs/cuda_wrapper.cu", bench.folder)
    bench.built("-shared", "cuda_wrapper.cu", "-o", "cuda_wrapper.so")
    program = """
import ctypes
import gpulend
lib = ctypes.CDLL('./cuda_wrapper.so')
a, b, c = ((ctypes.c_float * 1000)(*values) for values in (range(1000), range(1000), ()))
before = gpulend.zeros(4, "int32")
print(lib.vectorAddWrapper(a, b, c, 1000), list(c) == list(range(0, 2000, 2)))
print(before.to_host().tolist())
"""
    assert bench.ran(sys.executable, "-c", program) == "0 True\n[0, 0, 0, 0]\n"


def test_a_call_that_fails_in_the_wrapper_is_its_result(bench: Bench) -> None:
    """CUDA's number for memory that ran out is 2."""
    shutil.copy(ROOT / "examples/programs/cuda_wrapper.cu", bench.folder)
    bench.built("-shared", "cuda_wrapper.cu", "-o", "cuda_wrapper.so")
    program = """
import ctypes
lib = ctypes.CDLL('./cuda_wrapper.so')
print(lib.vectorAddWrapper(None, None, None, -1))
"""
    assert bench.ran(sys.executable, "-c", program) == "2\n"
