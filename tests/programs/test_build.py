"""`gpulend build`: what it takes, what it makes, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from conftest import GPULEND, HERE, REAL, Bench
from gpulend import _libdevice, build

PROMISED = os.environ.get("GPULEND_PROMISED", "").split(",")
KERNEL = """
__global__ void add(int *x, int by) { x[threadIdx.x] += by; }
extern "C" int add_on_gpu(int value, int by) {
    int *x;
    if (cudaMalloc(&x, sizeof(int)) != cudaSuccess) return -1;
    cudaMemcpy(x, &value, sizeof value, cudaMemcpyHostToDevice);
    add<<<1, 1>>>(x, by);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    cudaFree(x);
    return value;
}
"""
MAIN = """
#include <stdio.h>
#ifdef __cplusplus
extern "C"
#endif
int add_on_gpu(int, int);
int main(void) { printf("%d\\n", add_on_gpu(40, 2)); return 0; }
"""


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


def test_device_code_is_linked_across_files(bench: Bench) -> None:
    """`-rdc=true`: a kernel calls a function and uses a variable of another file."""
    bench.write(
        "one.cu",
        """
#include <cstdio>
__device__ int twice(int value);
extern __device__ int offset;
__global__ void work(int *x) { *x = twice(*x) + offset; }
void set(int value);
int main() {
    int *x, value = 20;
    cudaMalloc(&x, sizeof value);
    cudaMemcpy(x, &value, sizeof value, cudaMemcpyHostToDevice);
    set(2);
    work<<<1, 1>>>(x);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    printf("%d\\n", value);
}
""",
    )
    bench.write(
        "two.cu",
        """
__device__ int offset;
__device__ int twice(int value) { return 2 * value; }
void set(int value) { cudaMemcpyToSymbol(offset, &value, sizeof value); }
""",
    )
    bench.built("-rdc=true", "one.cu", "two.cu", "-o", "program")
    assert bench.ran("./program") == "42\n"
    # Without it a file's device code stands alone, and the driver misses the function.
    bench.built("one.cu", "two.cu", "-o", "apart")
    done = bench.run("./apart")
    assert done.stdout == "20\n"
    assert "gpulend: a kernel image was refused" in done.stderr


def test_a_program_for_older_gpus_keeps_its_warps_in_lockstep(bench: Bench) -> None:
    """A sum without barriers inside a warp is right for sm_60, and a race for sm_70."""
    bench.write(
        "sum.cu",
        """
#include <cstdio>
__global__ void sum(int *x) {
    __shared__ volatile int part[64];
    part[threadIdx.x] = x[threadIdx.x];
    part[threadIdx.x + 32] = 0;
    for (int step = 16; step > 0; step /= 2) part[threadIdx.x] += part[threadIdx.x + step];
    x[threadIdx.x] = part[threadIdx.x];
}
int main() {
    int *x, ones[32];
    for (int &one : ones) one = 1;
    cudaMalloc(&x, sizeof ones);
    cudaMemcpy(x, ones, sizeof ones, cudaMemcpyHostToDevice);
    sum<<<1, 32>>>(x);
    cudaError_t status = cudaMemcpy(ones, x, sizeof ones, cudaMemcpyDeviceToHost);
    printf("%d %d\\n", status, ones[0]);
}
""",
    )
    bench.built("sum.cu", "-arch=sm_60", "-o", "older")
    assert bench.ran("./older") == "0 32\n"
    if not REAL:
        bench.built("sum.cu", "-arch=sm_70", "-o", "newer")
        assert bench.ran("./newer").split()[0] == "719"


def test_linked_device_code_keeps_templates_statics_and_lambdas(bench: Bench) -> None:
    """What is a file's own stays so; a launch may be in a lambda."""
    bench.write(
        "one.cu",
        """
#include <cstdio>
#include <thread>
static __device__ int own = 7;
namespace { __device__ int hidden = 8; }
template <class T> __global__ void put(T *x, T value) { *x = value; }
static __global__ void sum(int *x) { *x = own + hidden; }
int other();
int main() {
    int *x, value = 0;
    cudaMalloc(&x, sizeof value);
    std::thread([=] { put<<<1, 1>>>(x, 5); }).join();
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    printf("%d ", value);
    sum<<<1, 1>>>(x);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    printf("%d %d\\n", value, other());
}
""",
    )
    bench.write(
        "two.cu",
        """
template <class T> __global__ void put(T *x, T value) { *x = value; }
int other() {
    int *x, value = 0;
    cudaMalloc(&x, sizeof value);
    put<<<1, 1>>>(x, 6);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    return value;
}
""",
    )
    bench.built("-rdc=true", "one.cu", "two.cu", "-o", "program")
    assert bench.ran("./program") == "5 15 6\n"


def test_ptx_alone_is_written(bench: Bench) -> None:
    """`--ptx` makes what a driver loads, and nothing of the host."""
    bench.write("kernel.cu", KERNEL)
    bench.built("--ptx", "kernel.cu")
    text = (bench.folder / "kernel.ptx").read_text()
    assert ".target sm_75" in text
    assert ".entry _Z3addPii" in text
    bench.built("-fatbin", "kernel.cu")
    assert (bench.folder / "kernel.fatbin").read_text() == text


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


@pytest.mark.parametrize("name", ["language", "objects", "runtime", "textures"])
def test_a_program_that_checks_itself_finds_nothing(bench: Bench, name: str) -> None:
    """C++ in kernels, objects and pointers, the runtime's functions, textures and surfaces."""
    bench.built(str(HERE / f"{name}.cu"), "-O2", "-o", name)
    assert bench.ran(f"./{name}") == "0 failures\n"


MATHEMATICS = """
#include <cmath>
#include <cstdio>
__host__ __device__ double first(double x) { return sin(x) + exp(-x) * pow(x, 1.7) + log(x); }
__host__ __device__ float second(float x) { return cosf(x) + erff(x) * tanhf(x) + atan2f(x, 2); }
__global__ void there(double *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = first(0.01 + i * 0.37), y[i] = second(0.01f + i * 0.37f);
}
int main() {
    const int n = 2000;
    static double x[n];
    static float y[n];
    double *device_x;
    float *device_y;
    cudaMalloc(&device_x, sizeof x);
    cudaMalloc(&device_y, sizeof y);
    there<<<(n + 127) / 128, 128>>>(device_x, device_y, n);
    if (cudaGetLastError() != cudaSuccess) return 3;
    cudaMemcpy(x, device_x, sizeof x, cudaMemcpyDeviceToHost);
    cudaMemcpy(y, device_y, sizeof y, cudaMemcpyDeviceToHost);
    int other = 0, far = 0;
    for (int i = 0; i < n; i++) {
        double wanted = first(0.01 + i * 0.37);
        float wanted_single = second(0.01f + i * 0.37f);
        other += (x[i] != wanted) + (y[i] != wanted_single);
        far += !(fabs(x[i] - wanted) <= 1e-13 * (1 + fabs(wanted)));
        far += !(fabs(y[i] - wanted_single) <= 1e-6 * (1 + fabs(wanted_single)));
    }
    printf("%d far, %d other\\n", far, other);
}
"""


def test_c_s_mathematics_is_libdevices_on_hardware_and_the_hosts_in_the_simulation(
    bench: Bench,
) -> None:
    """Right on both; the simulated GPU does not run what the program brings for hardware."""
    _need_libdevice()
    bench.write("mathematics.cu", MATHEMATICS)
    bench.built("mathematics.cu", "-ffp-contract=off", "-o", "mathematics")
    far, other = bench.ran("./mathematics").strip().split(", ")
    assert far == "0 far"
    if not REAL:
        assert other == "0 other"


EVERY = """
import math, sys
import gpulend, numpy as np
from gpulend import _libdevice
ptx = open(sys.argv[1]).read()
assert not _libdevice.wanted(ptx)
weak = ptx.count("\\n.weak .func")
# The simulated GPU runs what is not weak.
module = gpulend.compile(ptx.replace("\\n.weak .func", "\\n.visible .func").encode())
x = np.array([0.3, 0.7, 0.9])
own = {"cbrt": np.cbrt, "exp10": lambda x: 10**x, "rint": np.rint, "nearbyint": np.rint,
       "round": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x), "logb": lambda x: np.floor(np.log2(x)),
       "sinpi": lambda x: np.sin(np.pi * x), "cospi": lambda x: np.cos(np.pi * x),
       "tgamma": np.vectorize(math.gamma), "lgamma": np.vectorize(math.lgamma),
       "erf": np.vectorize(math.erf), "erfc": np.vectorize(math.erfc), "pow": np.power,
       "fdim": lambda x, y: max(x - y, 0), "remainder": math.remainder}
compared = 0
for name, (result, *kinds) in _libdevice.FUNCTIONS.items():
    plain = name if result == "double" or kinds[0] == "double" else name[:-1]
    function = own.get(plain) or getattr(np, plain, None) or getattr(math, plain, None)
    if function is None or "int" in (result, *kinds) or len(kinds) > 2:
        continue
    compared += 1
    for value in x:
        dtype = "float64" if result == "double" else "float32"
        out = gpulend.zeros(1, dtype)
        values = [np.dtype(dtype).type(v) for v in (value, 0.4)[: len(kinds)]]
        if plain == "acosh":
            values[0] += 1
        module["k_" + name][1, 1](out, *values)
        wanted = function(*[float(v) for v in values])
        if plain == "nextafter":
            wanted = np.nextafter(*values)
        bound = 1e-14 if result == "double" else 1e-6
        assert abs(out.item() - wanted) <= bound * max(1, abs(wanted)), (name, value, wanted, out)
print(weak, compared)
"""


def test_every_function_of_libdevice_is_taken(bench: Bench) -> None:
    """Each is called, compiled from there, and right; the simulated GPU has the same functions."""
    _need_libdevice()
    lines = []
    for name, (result, *kinds) in _libdevice.FUNCTIONS.items():
        declared = [f"{kind} {letter}" for kind, letter in zip(kinds, "abc", strict=False)]
        call = f"{name}({', '.join('abc'[: len(kinds)])})"
        head = f'extern "C" __global__ void k_{name}({result} *out, {", ".join(declared)})'
        lines.append(f"{head} {{ *out = {call}; }}")
    bench.write("every.cu", "\n".join(lines))
    bench.write("every.py", EVERY)
    bench.built("--ptx", "every.cu", "-o", "every.ptx")
    weak, compared = map(int, bench.ran(sys.executable, "every.py", "every.ptx").split())
    assert weak > 70
    assert compared > 80
    if assembler := _assembler():
        subprocess.run([assembler, "-arch=sm_90", "every.ptx"], cwd=bench.folder, check=True)
    rust = (HERE.parents[1] / "crates/sim/src/engine/numbers/math.rs").read_text()
    assert set(re.findall(r"^    (\w+)\(a: .*\) -> \w+ = ", rust, re.M)) == {*_libdevice.FUNCTIONS}


def test_without_libdevice_a_program_is_for_the_simulated_gpu(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its functions stay to be found, and the simulated GPU has them; a real one names them."""
    bench.write("mathematics.cu", MATHEMATICS)
    monkeypatch.setattr(_libdevice, "find", lambda: None)
    monkeypatch.chdir(bench.folder)
    assert build.main(["mathematics.cu", "-ffp-contract=off", "-o", "mathematics"]) == 0
    done = bench.run("./mathematics")
    if REAL:
        assert done.returncode == 3
        assert "Unresolved extern function" in done.stderr
        assert "libdevice.10.bc" in done.stderr
    else:
        assert done.stdout == "0 far, 0 other\n"


def _assembler() -> Path | None:
    """Return NVIDIA's, which is in drivers too, if Triton is here, which brings one."""
    found = importlib.util.find_spec("triton")
    folders = (found.submodule_search_locations or ()) if found else ()
    files = [Path(folder, "backends/nvidia/bin/ptxas") for folder in folders]
    return next((file for file in files if file.is_file()), None)


def _need_libdevice() -> None:
    if _libdevice.find() is None:
        assert "libdevice" not in PROMISED, "no libdevice.10.bc is there"
        pytest.skip("no libdevice.10.bc is there: it comes with CUDA, Triton and Warp")


def test_nvidias_cpp_library_works_in_kernels(bench: Bench) -> None:
    """libcu++ of the package nvidia-cuda-cccl, which comes with torch."""
    _need_cccl()
    bench.write(
        "standard.cu",
        """
#include <cuda/std/array>
#include <cuda/atomic>
#include <cuda/std/complex>
#include <cuda/std/tuple>
#include <cstdio>
__global__ void work(float *x, int *count) {
    cuda::std::array<float, 3> three{1, 2, 3};
    auto pair = cuda::std::make_tuple(three[2], threadIdx.x);
    cuda::std::complex<float> z(cuda::std::get<0>(pair), 4);
    x[cuda::std::get<1>(pair)] = cuda::std::abs(z);
    cuda::atomic_ref<int, cuda::thread_scope_device>(*count).fetch_add(2);
}
int main() {
    float *x, host[8];
    int *count, sum;
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&count, sizeof sum);
    cudaMemset(count, 0, sizeof sum);
    work<<<1, 8>>>(x, count);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    cudaMemcpy(&sum, count, sizeof sum, cudaMemcpyDeviceToHost);
    printf("%g %g %d\\n", host[0], host[7], sum);
}
""",
    )
    bench.built("standard.cu", "-o", "standard")
    assert bench.ran("./standard") == "5 5 16\n"


def test_thrust_and_cub_compute_what_the_host_does(bench: Bench) -> None:
    """Their algorithms, which are found without `-I`, run with all checks and find no mistake."""
    _need_cccl()
    bench.built(str(HERE / "thrust.cu"), "-o", "thrust")
    assert bench.ran("./thrust") == "0 failures\n"
    # What it names itself goes before that package.
    (bench.folder / "own/thrust").mkdir(parents=True)
    (bench.folder / "own/thrust/sort.h").write_text("#define OWN 1\n")
    bench.write("own.cu", "#include <thrust/sort.h>\nint main() { return !OWN; }\n")
    bench.built("own.cu", "-I", "own", "-o", "found")
    bench.ran("./found")


def test_a_release_of_ptx_has_what_the_code_uses(bench: Bench) -> None:
    """`bmsk`, which CUB writes itself, is newer than the rest."""
    bench.write(
        "mask.cu",
        """
#include <cstdio>
__global__ void f(int *x) { asm("bmsk.clamp.b32 %0, %1, 3;" : "=r"(*x) : "r"(4)); }
int main() {
    int *x, value = 0;
    cudaMalloc(&x, 4);
    f<<<1, 1>>>(x);
    cudaMemcpy(&value, x, 4, cudaMemcpyDeviceToHost);
    printf("%d\\n", value);
}
""",
    )
    bench.built("mask.cu", "-o", "mask")
    assert bench.ran("./mask") == "112\n"
    assert b".version 7.6" in (bench.folder / "mask").read_bytes()
    bench.write("plain.cu", KERNEL + MAIN)
    bench.built("plain.cu", "-o", "plain")
    assert b".version 6.3" in (bench.folder / "plain").read_bytes()


def _need_cccl() -> None:
    try:
        metadata.files("nvidia-cuda-cccl")
    except metadata.PackageNotFoundError:
        if "cccl" in PROMISED:
            raise
        pytest.skip("nvidia-cuda-cccl is not installed")


def test_the_runtimes_functions_answer_as_documented(bench: Bench) -> None:
    """A program of C, with PTX of its own, that calls each group of them."""
    source = HERE.parents[1] / "crates/runtime/tests/calls.c"
    bench.built(str(source), "-o", "calls", "-pthread")
    bench.ran("./calls")


def test_a_kernels_output_is_the_programs(bench: Bench) -> None:
    """`printf` in kernels goes to the program's output, in the order of its threads."""
    bench.built(str(HERE / "language.cu"), "-o", "language")
    lines = bench.ran("./language", "speak").splitlines()
    assert sorted(lines) == [
        "no values",
        "thread 0 of 2: text 1.50 1099511627776 x%",
        "thread 1 of 2: text 1.50 1099511627776 x%",
    ]


@pytest.mark.skipif(REAL, reason="a real GPU reports no lines")
def test_a_kernels_mistake_is_reported_with_its_line_and_thread(bench: Bench) -> None:
    """All checks of the simulated GPU hold for whole programs."""
    bench.built(str(HERE / "runtime.cu"), "-o", "runtime")
    done = bench.run("./runtime", "wild")
    assert done.stdout == "cudaErrorIllegalAddress\n"
    assert "runtime.cu:" in done.stderr
    assert "block (0, 0, 0), thread (0, 0, 0): writes 4 bytes" in done.stderr


@pytest.mark.skipif(REAL, reason="a real GPU does not count")
def test_memory_that_is_never_freed_is_in_the_report(bench: Bench) -> None:
    """It says how much is live at the exit."""
    bench.write("leak.cu", "int main() { void *p; return cudaMalloc(&p, 12345); }")
    bench.built("leak.cu", "-o", "leak")
    bench.ran("./leak", GPULEND_SIM_REPORT="report.json")
    live = json.loads((bench.folder / "report.json").read_text())["live"]
    assert (live["allocations"], live["bytes"]) == (1, 12345)


def test_a_program_without_a_driver_says_what_to_do(bench: Bench) -> None:
    """One line, and CUDA's error for it."""
    bench.write(
        "alone.cu",
        "#include <cstdio>\nint main() { void *p; cudaMalloc(&p, 4);"
        ' printf("%s\\n", cudaGetErrorName(cudaMalloc(&p, 4))); }',
    )
    bench.built("alone.cu", "-o", "alone")
    # A folder without a driver hides one that the system may have.
    (bench.folder / "libcuda.so.1").write_text("")
    done = subprocess.run(
        ["./alone"],
        cwd=bench.folder,
        env={"LD_LIBRARY_PATH": str(bench.folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "cudaErrorInsufficientDriver\n"
    assert done.stderr.count("gpulend: there is no CUDA driver") == 1
    assert "gpulend run -- PROGRAM" in done.stderr


REFUSED = {
    ("--shraed", "a.cu"): "there is no option --shraed; did you mean '-shared'?",
    ("-dc", "a.cu"): "-dc links device code of object files",
    ("a.txt",): "'a.txt' is neither CUDA, C or C++ nor an object file or library",
    ("-o",): "-o wants a value",
    ("a.cu", "-o", "./a.cu"): "the output ./a.cu is a source",
    ("-rdc=true", "-c", "a.cu"): "-rdc=true with -c leaves device code to be linked later",
    ("-c", "a.o"): "-c and --ptx want a source",
    ("-fmad", "maybe", "a.cu"): "-fmad is true or false, not 'maybe'",
    ("-lib", "a.cu"): "-lib is not there",
    ("a.cu", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"): "CUDA_API_PER_THREAD_DEFAULT_STREAM is not",
    ("-x", "fortran", "a.cu"): "-x fortran is no language that is compiled here",
    ("--default-stream", "per-thread", "a.cu"): "-default-stream per-thread is not there",
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


def test_a_makefile_for_nvcc_builds(bench: Bench) -> None:
    """`make NVCC="gpulend build"`, and under `gpulend run` the command nvcc itself."""
    bench.write("kernel.cu", KERNEL)
    bench.write("main.cpp", MAIN)
    bench.write(
        "Makefile",
        "program: kernel.o main.o\n\t$(NVCC) -o $@ $^ -lcudart\n"
        "%.o: %.cu\n\t$(NVCC) -O2 -DLEVEL=3 -arch=sm_70 -MD -MF $*.d -c $< -o $@\n"
        "%.o: %.cpp\n\t$(CXX) -c $< -o $@\n",
    )
    make = [_tool("make"), "-s", "NVCC=" + " ".join([*GPULEND, "build"])]
    subprocess.run(make, cwd=bench.folder, check=True)
    assert bench.ran("./program") == "42\n"
    # Whatever make is told that an object file depends on is still there.
    named = (bench.folder / "kernel.d").read_text().replace("\\\n", " ").split()
    assert "kernel.cu" in named
    assert [name for name in named[1:] if not (bench.folder / name).exists()] == []
    for name in ("program", "kernel.o", "main.o"):
        (bench.folder / name).unlink()
    make = [*GPULEND, "run", "--", "make", "-s", "NVCC=nvcc"]
    subprocess.run(make, cwd=bench.folder, check=True)
    assert bench.ran("./program") == "42\n"


def _tool(*names: str) -> str:
    """Return the path of the first that is there, beside this Python too; promised is the first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    assert names[0] not in PROMISED, f"{names[0]} is not there"
    pytest.skip(f"needs {' or '.join(names)}")


@pytest.mark.parametrize("main", ["main.cpp", "main.cu"])
def test_a_project_of_cmake_builds(bench: Bench, main: str) -> None:
    """With the toolchain file; the program's last step is the C++ compiler's, or ours."""
    bench.write("kernel.cu", KERNEL)
    bench.write(main, MAIN)
    bench.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.20)\nproject(program LANGUAGES CXX CUDA)\n"
        "add_library(kernels STATIC kernel.cu)\ntarget_compile_definitions(kernels PUBLIC A=1)\n"
        f"add_executable(program {main})\ntarget_link_libraries(program PRIVATE kernels)\n",
    )
    cmake = _tool("cmake")
    generator = "Unix Makefiles" if _tool("make", "ninja").endswith("make") else "Ninja"
    # That of this Python, which need not be installed with its commands.
    command = bench.folder / "gpulend-nvcc"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpulend.nvcc "$@"\n')
    command.chmod(0o755)
    toolchain = subprocess.run(
        [sys.executable, "-m", "gpulend.config", "--toolchain"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    settings = [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DGPULEND_NVCC={command}"]
    for words in (
        [cmake, "-G", generator, "-S", ".", "-B", "made", *settings],
        [cmake, "--build", "made"],
    ):
        done = subprocess.run(words, cwd=bench.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert bench.ran("made/program") == "42\n"


def test_a_program_finds_its_runtime_beside_itself(bench: Bench) -> None:
    """Moved to another machine with the library next to it."""
    from gpulend.build import RUNTIME

    bench.write("kernel.cu", KERNEL + MAIN)
    bench.built("kernel.cu", "-o", "program")
    found = subprocess.run(
        ["readelf", "-d", "program"], cwd=bench.folder, capture_output=True, text=True, check=True
    ).stdout
    assert f"[{RUNTIME}:$ORIGIN]" in found
    assert "[libgpulend_rt.so]" in found
    assert "libcudart" not in found
    # The path that was linked is gone; the copy beside the program is found.
    moved = bench.folder / "moved"
    moved.mkdir()
    text = (
        (bench.folder / "program")
        .read_bytes()
        .replace(os.fsencode(RUNTIME), b"/" * len(os.fsencode(RUNTIME)))
    )
    (moved / "program").write_bytes(text)
    (moved / "program").chmod(0o755)
    shutil.copy(RUNTIME / "libgpulend_rt.so", moved)
    assert bench.ran("moved/program") == "42\n"


def test_help_names_the_command() -> None:
    """`gpulend build --help` and no words at all."""
    done = subprocess.run([*GPULEND, "build", "--help"], capture_output=True, text=True, check=True)
    assert "gpulend build [options] FILE..." in done.stdout
    done = subprocess.run([*GPULEND, "build"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no source; name a .cu file" in done.stderr
