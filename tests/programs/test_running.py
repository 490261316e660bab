"""Programs of `gpulend build` while they run: what they compute, print and report."""

from __future__ import annotations

import json
import subprocess
from importlib import metadata

import pytest
from conftest import HERE, KERNEL, MAIN, PROMISED, REAL, Bench


@pytest.mark.parametrize("name", ["driver", "grids", "language", "objects", "runtime", "textures"])
def test_a_program_that_checks_itself_finds_nothing(bench: Bench, name: str) -> None:
    """The driver's functions, grids that wait, C++ in kernels, objects, the runtime, textures."""
    bench.built(str(HERE / f"{name}.cu"), "-O2", "-lcuda", "-o", name)
    assert bench.ran(f"./{name}") == "0 failures\n"


def test_the_drivers_header_is_c_too(bench: Bench) -> None:
    """With its structs and functions, of which one is called."""
    bench.write(
        "main.c",
        """
#include <cuda.h>
#include <stdio.h>
int main(void) {
    CUDA_MEMCPY2D rows = {0};
    CUmemAllocationProp about = {CU_MEM_ALLOCATION_TYPE_PINNED};
    int major, minor;
    int bad = cuInit(0) || cuDeviceComputeCapability(&major, &minor, 0);
    printf("%d %zu %zu\\n", bad, sizeof rows, sizeof about);
    return bad;
}
""",
    )
    bench.built("main.c", "-lcuda", "-o", "main")
    assert bench.ran("./main") == "0 128 32\n"


def test_the_runtimes_functions_answer_as_documented(bench: Bench) -> None:
    """A program of C, with PTX of its own, that calls each group of them."""
    source = HERE.parents[1] / "crates/runtime/tests/calls.c"
    bench.built(str(source), "-o", "calls", "-pthread")
    bench.ran("./calls")


def test_a_program_has_shuffles_of_its_own_types(bench: Bench) -> None:
    """Under a name that CUDA had before 9, beside ours for plain types; and tiles exchange all."""
    bench.write(
        "shuffle.cu",
        """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
struct Both { float sum; double most; short count; };
__device__ Both both(Both a, Both b) {
    return {a.sum + b.sum, a.most > b.most ? a.most : b.most, short(a.count + b.count)};
}
__global__ void together(float *x) {
    auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
    Both mine = {float(threadIdx.x), 0.5 * threadIdx.x, 1};
    Both all = cooperative_groups::reduce(tile, mine, both);
    if (threadIdx.x == 9) *x = all.sum + 1000 * all.most + 100000 * all.count;
}
__device__ float4 __shfl_down(const float4 from, int by, int width = 32) {
    return float4{__shfl_down(from.x, by, width), 0, 0, __shfl_down_sync(~0u, from.w, by, width)};
}
__global__ void f(float *x) {
    float4 mine = {float(threadIdx.x), 0, 0, float(threadIdx.x + 100)};
    mine = __shfl_down(mine, 4);
    if (threadIdx.x == 3) *x = mine.x + mine.w;
}
int main() {
    float *x, value = 0;
    cudaMalloc(&x, sizeof value);
    f<<<1, 32>>>(x);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    printf("%g ", value);
    together<<<1, 32>>>(x);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    printf("%g\\n", value);
}
""",
    )
    bench.built("shuffle.cu", "-o", "shuffle")
    assert bench.ran("./shuffle") == "114 807592\n"


def test_tiles_are_parts_of_their_parents(bench: Bench) -> None:
    """A tile's number is that among its parent's; a group of some lanes has tiles of these."""
    bench.write(
        "tiles.cu",
        """
#include <cooperative_groups.h>
#include <cstdio>
namespace cg = cooperative_groups;
__device__ unsigned int seen[10];
__global__ void work(unsigned int thread) {
    auto block = cg::this_thread_block();
    auto of_block = cg::tiled_partition<4>(block);
    auto of_warp = cg::tiled_partition<4>(cg::tiled_partition<32>(block));
    cg::thread_block_tile<4> plain = of_warp;
    if (threadIdx.x == thread) {
        seen[0] = of_block.meta_group_rank(), seen[1] = of_block.meta_group_size();
        seen[2] = of_warp.meta_group_rank(), seen[3] = of_warp.meta_group_size();
        seen[4] = plain.meta_group_rank(), seen[5] = plain.meta_group_size();
    }
    if (threadIdx.x % 2 == 1) {
        cg::thread_group tile = cg::tiled_partition(cg::coalesced_threads(), 4);
        tile.sync();
        if (threadIdx.x == thread) seen[6] = tile.thread_rank(), seen[7] = tile.size();
    }
    __syncwarp();
    cg::thread_group eight = cg::tiled_partition(block, 8);
    eight.sync();
    cg::thread_group two = cg::tiled_partition(eight, 2);
    two.sync();
    if (threadIdx.x == thread) seen[8] = two.thread_rank(), seen[9] = two.size();
}
int main() {
    unsigned int host[10];
    work<<<1, 64>>>(45);
    int status = cudaMemcpyFromSymbol(host, seen, sizeof host);
    printf("%d", status);
    for (unsigned int value : host) printf(" %u", value);
}
""",
    )
    bench.built("tiles.cu", "-o", "tiles")
    assert bench.ran("./tiles") == "0 11 16 3 8 3 8 2 4 1 2"


PER_THREAD = """
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <cuda_runtime.h>
std::atomic<bool> overtaken{false};
static void wait(void *seen) {
    for (int i = 0; i < 300 && !overtaken; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    *static_cast<bool *>(seen) = overtaken;
}
#ifdef __NVCC__
__device__ int last;
__global__ void add(int *x) { last = ++*x; }
int work() {
    int *x, value = 40, other = 0;
    cudaMalloc(&x, sizeof value);
    cudaMemcpy(x, &value, sizeof value, cudaMemcpyHostToDevice);
    add<<<1, 1>>>(x);
    cudaStreamSynchronize(0);
    add<<<1, 1>>>(x);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&other, last, sizeof other);
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaArray_t array;
    cudaMallocArray(&array, &format, 1);
    cudaMemcpyToArray(array, 0, 0, &value, sizeof value, cudaMemcpyHostToDevice);
    int kept = 0;
    cudaMemcpyFromArray(&kept, array, 0, 0, sizeof kept, cudaMemcpyDeviceToHost);
    return value == other && value == kept ? value : -1;
}
#else
int work() {
    int *x, value = 0x2a2a2a2a;
    cudaMalloc((void **)&x, sizeof value);
    cudaMemset(x, 42, sizeof value);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    return value & 0xff;
}
#endif
int main() {
    bool seen = false;
    cudaLaunchHostFunc(0, wait, &seen);
    int result = 0;
    std::thread([&] { result = work(), overtaken = true; }).join();
    cudaStreamSynchronize(0);
    // Only a thread's own stream can be captured.
    cudaError_t capture = cudaStreamBeginCapture(0, cudaStreamCaptureModeRelaxed);
    printf("%d %d %d\\n", result, seen, capture);
}
"""


@pytest.mark.parametrize(
    "words",
    [
        ["--default-stream", "per-thread", "program.cu"],
        ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1", "program.cu"],
        ["-Xcompiler", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM", "program.cu"],
        ["-default-stream=per-thread", "program.cpp"],
    ],
    ids=" ".join,
)
def test_stream_0_is_the_threads_own_if_the_program_wants_that(
    bench: Bench, words: list[str]
) -> None:
    """A thread's work passes that of another thread, whose default stream waits."""
    bench.write("program.cu", PER_THREAD)
    bench.write("program.cpp", PER_THREAD)
    bench.built(*words, "-o", "own", "-pthread")
    assert bench.ran("./own") == "42 1 0\n"
    # The legacy stream is one for all.
    bench.built(words[-1], "--default-stream", "legacy", "-o", "legacy", "-pthread")
    assert bench.ran("./legacy").split()[:2] == ["42", "0"]


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
#include <cooperative_groups.h>
#include <cub/cub.cuh>
#include <nv/target>
#include <cstdio>
#ifndef __NVCC__
#error "the macro is the program's also after these headers"
#endif
static_assert(cuda::is_thread_block_group_v<cooperative_groups::thread_block>, "one class");
__global__ void work(float *x, int *count) {
    cooperative_groups::this_thread_block().sync();
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


def _need_cccl() -> None:
    try:
        metadata.files("nvidia-cuda-cccl")
    except metadata.PackageNotFoundError:
        if "cccl" in PROMISED:
            raise
        pytest.skip("nvidia-cuda-cccl is not installed")


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


@pytest.mark.skipif(REAL, reason="a real GPU waits for ever")
@pytest.mark.parametrize(
    ("word", "mark", "thread", "says"),
    [
        ("leaves", "WAITS", 0, "waits at a barrier of the whole grid where block (2, 0, 0) never"),
        ("plain", "WAITS", 0, "waits at a barrier of the whole grid, in a launch that is not"),
        ("misses", "RACES", 32, "writes 4 bytes of shared memory at offset 128, which thread 31"),
    ],
)
def test_a_barrier_of_the_grid_that_cannot_be_passed_is_named(
    bench: Bench, word: str, mark: str, thread: int, says: str
) -> None:
    """A block that has left, a plain launch; and memory that no barrier orders."""
    source = HERE / "grids.cu"
    bench.built(str(source), "-o", "grids")
    done = bench.run("./grids", word, GPULEND_SIM_CHECK="races")
    assert done.stdout == "cudaErrorLaunchFailure\n"
    lines = enumerate(source.read_text().splitlines(), 1)
    (number,) = [number for number, line in lines if line.endswith(f"// {mark}")]
    where = f"grids.cu:{number}, block (0, 0, 0), thread ({thread}, 0, 0): "
    assert f"{where}{says}" in done.stderr


@pytest.mark.skipif(REAL, reason="a kernel cannot ask a real GPU")
def test_a_grid_knows_whether_it_can_wait(bench: Bench) -> None:
    """On the simulated GPU."""
    bench.built(str(HERE / "grids.cu"), "-o", "grids")
    assert bench.ran("./grids", "valid") == "0\n"


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


def test_a_kernel_image_that_the_driver_refuses_is_told_with_the_drivers_words(
    bench: Bench,
) -> None:
    """Once, at the first launch; the program goes on with CUDA's error."""
    bench.write("kernel.cu", KERNEL.replace("x[", 'asm("nothing.such.u32;"); x[') + MAIN)
    bench.built("kernel.cu", "-o", "program")
    done = bench.run("./program")
    assert (done.returncode, done.stdout) == (0, "40\n")
    assert done.stderr.count("gpulend: a kernel image was refused: ") == 1
    assert "nothing" in done.stderr
