"""Headers of our own: each function compiles, and leaves nothing that nobody defines."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import PROMISED, need
from gpulend import compiler

need("ziglang")

KERNELS = sorted((Path(__file__).parent / "kernels").glob("*.cu"))
HEADERS = Path(__file__).parents[2] / "crates/core/headers"

# What the simulated GPU brings under C's names.
UNARY = (
    "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 exp10 expm1 log log2 "
    "log10 log1p cbrt erf erfc tgamma lgamma logb j0 j1 y0 y1 sinpi cospi ilogb "
)
BINARY = "atan2 pow hypot fmod remainder nextafter fdim ldexp scalbn"
LIBM = {name + ending for name in (UNARY + BINARY).split() for ending in ("", "f")}
EXTERN = LIBM | {"vprintf", "__assertfail"}
MEETINGS = "_ZZ23__gpulend_grid_place_ofyE6places"


def externs(ptx):
    """The functions that PTX calls and does not define."""
    return set(re.findall(r"\.extern \.func\s+(?:\([^)]*\) )?(\w+)", ptx))


def to_ptx(kernel, *options):
    """Compile a file of `kernels`."""
    return compiler.to_ptx(kernel.read_text(), file=kernel.name, options=["-Wall", *options])


@pytest.mark.parametrize(
    "options", [(), ("-O0",), ("-O1",), ("--use_fast_math",), ("-std=c++20",)], ids=str
)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda path: path.stem)
def test_every_function_compiles_and_calls_nobody_unknown(kernel, options):
    """Without a warning; what stays a call is libm's, printf's or assert's."""
    ptx = to_ptx(kernel, "-Wno-unused-variable", "-Wno-unused-function", *options)
    assert externs(ptx) <= EXTERN
    assert ".visible .entry" in ptx
    assert ".extern .global" not in ptx
    # Blocks of a grid meet in memory of the module.
    assert set(re.findall(r"\.weak \.global .*?(\w+)(?:\[|;)", ptx)) <= {MEETINGS}


def test_all_of_libm_is_called_by_its_name():
    """None is turned into an instruction that no GPU has, and none is missing."""
    kernel = next(path for path in KERNELS if path.stem == "mathematics")
    assert externs(to_ptx(kernel)) == LIBM


def test_every_function_of_the_headers_is_in_a_kernel_here():
    """A function that is added is compiled by a test, or this fails."""
    tested = set(re.findall(r"\w+", " ".join(path.read_text() for path in KERNELS)))
    missing = set()
    for header in HEADERS.rglob("*.h"):
        if header.parent.name == "program":
            # Of whole programs: tests/programs.
            continue
        text = header.read_text()
        declared = re.findall(r"^\s*__GPULEND_(?:BOTH|DEVICE)\s[\w :*&]*?[ *](\w+)\(", text, re.M)
        for name in declared:
            # Helpers, and parameters of macros that are spelled out in the kernels.
            helper = name.startswith(("__gpulend", "make_")) or name in ("name", "back", "sign")
            if not helper and name not in tested:
                missing.add(f"{header.name}: {name}")
    assert missing == set()


def test_printf_packs_values_as_c_promotes_them():
    """An int for what is smaller, a double for a float, each where its alignment allows."""
    source = """
    __global__ void say(char c, float f, short s, const char *t, bool b) {
        printf("%c %f %hd %s %d", c, f, s, t, b);
    }
    """
    ptx = compiler.to_ptx(source)
    assert re.search(r"\.local \.align 8 \.b8\s+__local_depot0\[40\]", ptx)
    stored = {
        int(offset or 0): int(bits)
        for bits, offset in re.findall(r"st\.local\.[bfsu](\d+)\s+\[%\w+(?:\+(\d+))?\]", ptx)
    }
    assert stored == {0: 32, 8: 64, 16: 32, 24: 64, 32: 32}


def test_barriers_are_not_moved_into_branches():
    """A barrier that every thread reaches stays one, although both sides of a branch come to it."""
    source = """
    __global__ void meet(int *p) {
        if (p[threadIdx.x] > 3) p[0] = 1; else p[1] = 2;
        __syncthreads();
        p[2] = p[0] + __shfl_sync(~0u, p[1], 0) + __ballot_sync(~0u, p[3]);
    }
    """
    ptx = compiler.to_ptx(source)
    assert ptx.count("bar.sync") == 1
    assert ptx.count("shfl.sync") == 1
    assert ptx.count("vote.sync") == 1


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda path: path.stem)
def test_nvidias_assembler_takes_it(kernel, tmp_path):
    """Inline PTX is text to a compiler: only an assembler reads it. triton, of torch, has one."""
    # Found, not imported: its LLVM ends a process that has TensorFlow's.
    triton = find_spec("triton")
    ptxas = Path(triton.origin if triton else "").parent / "backends/nvidia/bin/ptxas"
    if not ptxas.exists():
        assert "torch" not in PROMISED, "the torch that was promised brings a triton with ptxas"
        pytest.skip("this triton has no ptxas")
    (tmp_path / "k.ptx").write_text(to_ptx(kernel, "-w"))
    command = [ptxas, "-arch=sm_75", "-c", "-o", tmp_path / "k.cubin", tmp_path / "k.ptx"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
