"""`gpulend build`: what it takes, what it makes, and what it refuses."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile

import pytest
from conftest import GPULEND, HERE, KERNEL, MAIN, Bench


def test_sources_of_three_languages_become_one_program(bench: Bench) -> None:
    """CUDA by clang, C and C++ by the system's compiler, all linked with the runtime."""
    bench.write("kernel.cu", KERNEL)
    bench.write("main.c", MAIN)
    bench.write(
        "other.cpp", "#include <vector>\nint other() { return std::vector<int>(3).size(); }"
    )
    # A standard is for the language that has it.
    bench.built("kernel.cu", "main.c", "other.cpp", "-std=c99", "-std=c++17", "-o", "program")
    assert bench.ran("./program") == "42\n"


def test_object_files_are_linked_by_a_second_command(bench: Bench) -> None:
    """As a Makefile does it: each source by itself, a library among them."""
    bench.write("kernel.cu", KERNEL)
    bench.write("main.cpp", MAIN)
    bench.built("-c", "kernel.cu")
    bench.built("-c", "main.cpp", "-o", "first.o")
    subprocess.run(["ar", "rcs", "libkernel.a", "kernel.o"], cwd=bench.folder, check=True)
    bench.built("first.o", "-L.", "-lkernel", "-lcudart", "-o", "program")
    assert bench.ran("./program") == "42\n"


def test_a_c_source_calls_the_runtime(bench: Bench) -> None:
    """The headers are C too."""
    bench.write(
        "main.c",
        """
#include <cuda_runtime_api.h>
#include <stdio.h>
int main(void) {
    struct cudaDeviceProp about;
    dim3 size = {1, 2, 3};
    void *memory;
    int bad = cudaGetDeviceProperties(&about, 0) || cudaMalloc(&memory, 64) || cudaFree(memory);
    printf("%d %d %u\\n", bad, about.warpSize, size.z);
    return bad;
}
""",
    )
    bench.built("main.c", "-o", "program")
    assert bench.ran("./program") == "0 32 3\n"


def test_a_program_calls_the_driver_too(bench: Bench) -> None:
    """`-lcuda`: driver and runtime share a context."""
    bench.write(
        "driver.cu",
        """
#include <cstdio>
#include <cuda.h>
__global__ void one(int *x) { *x = 1; }
int main() {
    int *x, value = 0;
    size_t size = 0;
    CUdeviceptr base = 0;
    cudaMalloc(&x, 100);
    one<<<1, 1>>>(x);
    CUresult status = cuMemGetAddressRange(&base, &size, reinterpret_cast<CUdeviceptr>(x));
    cuMemcpyDtoH(&value, base, sizeof value);
    printf("%d %zu %d\\n", status, size, value);
}
""",
    )
    bench.built("-lcuda", "driver.cu", "-o", "driver")
    assert bench.ran("./driver") == "0 100 1\n"


def test_options_reach_the_compilers(bench: Bench) -> None:
    """Folders, macros, standards, optimisation, the host's own options, and long names."""
    (bench.folder / "include").mkdir()
    (bench.folder / "include/value.h").write_text("#define VALUE 40\n")
    bench.write(
        "program.cu",
        """
#include <cstdio>
#include <value.h>
#ifndef FROM_HOST_OPTION
#define FROM_HOST_OPTION 0
#endif
__global__ void f(int *x) { *x = VALUE + MORE + int(exp(-1e3 * VALUE)); }
int main() {
    int *x, value = 0;
    cudaMalloc(&x, 4);
    f<<<1, 1>>>(x);
    cudaMemcpy(&value, x, 4, cudaMemcpyDeviceToHost);
    printf("%d %d %ld\\n", value, FROM_HOST_OPTION, __cplusplus);
}
""",
    )
    words = ["-Iinclude", "-DMORE=2", "--std", "c++20", "-O3", "-g", "-lineinfo", "-w"]
    words += ["-Xcompiler", "-DFROM_HOST_OPTION=7,-Wall", "-arch=sm_80", "-m64"]
    words += ["-gencode", "arch=compute_90,code=sm_90", "--expt-relaxed-constexpr"]
    words += ["-Xptxas", "-v", "--use_fast_math", "-maxrregcount=32", "-lcudart", "-lm"]
    words += ["-odir", "made", "-t", "4", "-mtune=generic", "-fopenmp"]
    bench.built("program.cu", *words, "--output-file", "program")
    assert bench.ran("./program") == "42 7 202002\n"


@pytest.mark.parametrize("words", [["@o"], ["-optf", "o"], ["--options-file", "o,p"]], ids=" ".join)
def test_options_are_read_from_files(bench: Bench, words: list[str]) -> None:
    """Their words stand in the place of the option, with quotes and lines as in a shell."""
    bench.write("kernel.cu", KERNEL + MAIN.replace("40", "VALUE"))
    bench.write("o", "-DVALUE='(30 + 10)'\n -o program")
    bench.write("p", "-O1")
    bench.built(*words, "kernel.cu")
    assert bench.ran("./program") == "42\n"


def test_macros_reach_what_is_included_first_and_the_systems_headers(bench: Bench) -> None:
    """`-include`, `NDEBUG`, hardened libraries, and x86's own headers."""
    bench.write("first.h", "inline int first() { return VALUE; }\n")
    bench.write(
        "program.cu",
        """
#include <cstdio>
#ifdef __x86_64__
#include <immintrin.h>
#endif
__global__ void f(int *x) { char bytes[8]; memset(bytes, 1, 8); *x = bytes[7]; assert(false); }
int main() {
    int *x, value = 0;
    cudaMalloc(&x, 4);
    f<<<1, 1>>>(x);
    cudaMemcpy(&value, x, 4, cudaMemcpyDeviceToHost);
    assert(false);
    printf("%d %d\\n", first(), value);
}
""",
    )
    words = ["-DVALUE=3", "-include", "first.h", "-DNDEBUG", "-O2", "-D_FORTIFY_SOURCE=2"]
    bench.built(
        "program.cu", *words, "-L/usr/lib", "-lm", "-Xcudafe", "--diag_suppress=177", "-o", "p"
    )
    assert bench.ran("./p") == "3 1\n"
    bench.built("-c", "program.cu", *words, "-o", "p.o", "-L/usr/lib", "-lm")


def test_a_kept_header_is_there_whole_or_not_at_all(bench: Bench) -> None:
    """Another build may find it at any time, also where the temporary folder is another disk."""
    cache = bench.folder / "cache"
    macros = {f"LONG{number}": "x" * 20_000 for number in range(100)}
    bench.write("long.txt", " ".join(f"-D{name}={value}" for name, value in macros.items()))
    text = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    size = len(text)
    bench.write("kernel.cu", KERNEL)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    header = cache / "program-headers" / f"macros-{name}.h"
    disk = bench.folder.stat().st_dev
    elsewhere = next(each for each in ("/dev/shm", HERE) if os.stat(each).st_dev != disk)
    with tempfile.TemporaryDirectory(dir=elsewhere) as other:
        variables = {"GPULEND_CACHE_DIR": str(cache), "TMPDIR": other}
        command = [*GPULEND, "build", "-optf", "long.txt", "--dryrun", "kernel.cu"]
        for _ in range(3):
            header.unlink(missing_ok=True)
            with subprocess.Popen(
                command, cwd=bench.folder, env=os.environ | variables, stderr=subprocess.DEVNULL
            ) as building:
                while not header.exists() and building.poll() is None:
                    pass
                found = header.stat().st_size
            assert found == size
            assert building.returncode == 0


def test_launches_written_with_spaces_are_understood(bench: Bench) -> None:
    """`<< < … >> >`, as nvcc takes it; messages keep the file's own name and lines."""
    bench.write("spaced.cu", KERNEL.replace("<<<", "<< <").replace(">>>", ">> >") + MAIN)
    bench.built("spaced.cu", "-o", "spaced")
    assert bench.ran("./spaced") == "42\n"
    # Strings and comments are left alone, and so are the numbers of lines.
    bench.write(
        "text.cu",
        "#include <cstdio>\n__global__ void f() {}\nint main() {\n"
        "f<<\n<1, 1>>\n>();  // << < >> >(\n"
        'puts("<< < >> >("); return __LINE__; }\n',
    )
    bench.built("text.cu", "-o", "text")
    done = bench.run("./text")
    assert (done.stdout, done.returncode) == ("<< < >> >(\n", 7)
    bench.write("wrong.cu", KERNEL.replace("<<<", "<< <").replace(">>>", ">> >") + "\nint x = y;")
    done = bench.build("wrong.cu")
    assert "wrong.cu:13:9: error: use of undeclared identifier 'y'" in done.stderr


REFUSED = {
    ("--shraed", "a.cu"): "there is no option --shraed; did you mean '-shared'?",
    ("-dlink", "a.cu"): "-dlink wants object files; compile sources with -dc",
    ("a.txt",): "'a.txt' is neither CUDA, C or C++ nor an object file or library",
    ("-o",): "-o wants a value",
    ("a.cu", "-o", "./a.cu"): "the output ./a.cu is a source",
    ("-c", "a.o"): "-c and --ptx want a source",
    ("-fmad", "maybe", "a.cu"): "-fmad is true or false, not 'maybe'",
    ("-default-stream", "perthread", "a.cu"): (
        "-default-stream is legacy, null or per-thread, not 'perthread'"
    ),
    ("-rdc=ture", "a.cu"): "-rdc is true or false, not 'ture'",
    ("-time", "a.cu"): "there is no option -time",
    ("-threads8", "a.cu"): "there is no option -threads8",
    ("-objtemp", "a.cu"): "there is no option -objtemp",
    ("-lto", "a.cu"): "there is no option -lto",
    ("-lib", "a.cu"): "-lib is not supported",
    ("a.cu", "-optf"): "-optf wants a value",
    ("a.cu", "-optf=none"): "[Errno 2] No such file or directory: 'none'",
    ("-x", "fortran", "a.cu"): "unknown language 'fortran' of -x; give cu, c or c++",
    ("-O2",): "no source; name a .cu file",
    ("-c", "a.cu", "b.cu", "-o", "x.o"): "-o with -c or --ptx names one output",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_wrong_command_line_is_refused_by_name(bench: Bench, words: tuple[str, ...]) -> None:
    """Status 2, one line, and nothing is made."""
    bench.write("a.cu", KERNEL)
    bench.write("b.cu", MAIN)
    done = bench.build(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"gpulend build: {REFUSED[words]}")
    assert sorted(os.listdir(bench.folder)) == ["a.cu", "b.cu"]


def test_errors_of_a_source_are_the_compilers_own(bench: Bench) -> None:
    """With the file and line, and a status that is not 0; no output is left."""
    bench.write("wrong.cu", "__global__ void f(int *x) {\n    *x = missing;\n}\nint main() {}\n")
    done = bench.build("wrong.cu", "-o", "wrong")
    assert done.returncode != 0
    assert "wrong.cu:2:10: error: use of undeclared identifier 'missing'" in done.stderr
    assert not (bench.folder / "wrong").exists()


def test_a_build_shows_its_commands_and_may_stop_there(bench: Bench) -> None:
    """`-v` runs them too; `--dryrun` only prints them."""
    bench.write("kernel.cu", KERNEL + MAIN)
    done = bench.build("--dryrun", "kernel.cu", "-o", "program")
    assert done.returncode == 0
    assert "--cuda-device-only" in done.stderr
    assert "--cuda-host-only" in done.stderr
    assert not (bench.folder / "program").exists()
    done = bench.build("-v", "kernel.cu", "-o", "program")
    assert "--cuda-device-only" in done.stderr
    assert (bench.folder / "program").exists()


def test_help_names_the_command() -> None:
    """`gpulend build --help` and no words at all."""
    done = subprocess.run([*GPULEND, "build", "--help"], capture_output=True, text=True, check=True)
    assert "gpulend build [options] FILE..." in done.stdout
    done = subprocess.run([*GPULEND, "build"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no source; name a .cu file" in done.stderr
