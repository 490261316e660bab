"""Device code of `gpulend build`: linked across files, as PTX, for older GPUs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import KERNEL, MAIN, REAL, Bench
from gpulend import _device_code, build


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


def test_linked_files_have_one_barrier_of_the_grid(bench: Bench) -> None:
    """Each brings it, and a kernel passes it in its own file and in another, in turn."""
    bench.write(
        "one.cu",
        """
#include <cooperative_groups.h>
#include <cstdio>
__device__ void meet();
__device__ int total;
__global__ void work(int rounds) {
    for (int i = 1; i <= rounds; i++) {
        if (threadIdx.x == 0) atomicAdd(&total, 1);
        cooperative_groups::this_grid().sync();
        if (total != i * gridDim.x) __trap();
        meet();
    }
}
int main() {
    int rounds = 10, count = 0;
    void *arguments[] = {&rounds};
    cudaError_t launched = cudaLaunchCooperativeKernel((void *)work, 8, 64, arguments);
    cudaError_t ran = cudaMemcpyFromSymbol(&count, total, sizeof count);
    printf("%d %d %d\\n", launched, ran, count);
}
""",
    )
    bench.write(
        "two.cu",
        """
#include <cooperative_groups.h>
__device__ void meet() { cooperative_groups::this_grid().sync(); }
""",
    )
    for option in ("-O0", "-O3"):
        bench.built("-rdc=true", option, "one.cu", "two.cu", "-o", "program")
        assert bench.ran("./program") == "0 0 80\n"


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
    # Both are among what clang keeps, the kernel of the lambda first.
    bench.write(
        "lambda.cu",
        """
template <class F> __global__ void run(F f) { f(); }
__constant__ int first = 1;
int main() {
    int value = 3;
    run<<<1, 1>>>([] __device__() { printf("%d\\n", first); });
    cudaDeviceSynchronize();
    cudaMemcpyToSymbol(first, &value, sizeof value);
    run<<<1, 1>>>([] __device__() { printf("%d\\n", first); });
    cudaDeviceSynchronize();
}
""",
    )
    bench.built("-rdc=true", "lambda.cu", "-include", "stdio.h", "-o", "lambdas")
    assert bench.ran("./lambdas") == "1\n3\n"
    # A launch in a kernel is refused, as without the option.
    bench.write("kernel.cu", KERNEL + "__global__ void twice(int *x) { add<<<1, 1>>>(x, 1); }")
    done = bench.build("-dc", "kernel.cu")
    assert done.returncode == 1
    assert "kernel launch from __device__ or __global__ function" in done.stderr


SEPARATE = {
    "one.cu": """
#include <cstdio>
__device__ int twice(int value);
extern __device__ int offset;
extern __constant__ int factor;
static __device__ int own = 1;
static __global__ void work(int *x) { *x = twice(*x) * factor + offset + own; }
void set(int value);
int other();
int shared_names();
int main() {
    int *x, value = 20, more = 300;
    cudaMalloc(&x, sizeof value);
    cudaMemcpy(x, &value, sizeof value, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(own, &more, sizeof more);
    set(2);
    work<<<1, 1>>>(x);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    printf("%d %d %d\\n", value, other(), shared_names());
}
""",
    # The same names of its own: a variable that the host writes, and a kernel.
    "two.cu": """
__device__ int offset;
static __device__ int own = 5;
__device__ int thrice(int value);
static __global__ void work(int *x) { *x = thrice(own); }
void set(int value) { cudaMemcpyToSymbol(offset, &value, sizeof value); }
int other() {
    int *x, value = 6;
    cudaMalloc(&x, sizeof value);
    cudaMemcpyToSymbol(own, &value, sizeof value);
    work<<<1, 1>>>(x);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    return value;
}
""",
    "three.cu": """
__constant__ int factor = 10;
__device__ int twice(int value) { return 2 * value; }
__device__ int thrice(int value) { return 3 * value; }
namespace SSL { __device__ int L1 = 1; __device__ int L4init(int x) { return x + L1; } }
struct Level { __device__ static int setL2(int x); __device__ int L3(int x) const; };
__device__ int Level::setL2(int x) { return 2 * x; }
__device__ int Level::L3(int x) const { return 3 * x; }
""",
    # Names of other files' that have an L and a digit, as one's own have.
    "four.cu": """
namespace SSL { extern __device__ int L1; __device__ int L4init(int x); }
struct Level { __device__ static int setL2(int x); __device__ int L3(int x) const; };
namespace own { static __device__ int L5 = 5; }
__global__ void work(int *x) {
    *x = SSL::L4init(*x) + Level::setL2(*x) + Level().L3(*x) + SSL::L1 + own::L5;
}
int shared_names() {
    int *x, value = 10, more = 900;
    cudaMalloc(&x, sizeof value);
    cudaMemcpy(x, &value, sizeof value, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(own::L5, &more, sizeof more);
    work<<<1, 1>>>(x);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    return value;
}
""",
    # A variable as in four.cu, which the host does not see.
    "five.cu": """
namespace own { static __device__ int L5; }
__global__ void count(int *x) { *x = own::L5++; }
""",
}


@pytest.mark.parametrize("way", ["-dc", "-rdc=true", "archive", "-dlink", "ld -r"])
def test_device_code_of_object_files_is_linked_later(bench: Bench, way: str) -> None:
    """Each file by itself; the link finds functions and variables in files and archives."""
    for name, text in SEPARATE.items():
        bench.write(name, text)
        bench.built(*(["-rdc=true", "-c"] if way == "-rdc=true" else ["-dc"]), name)
    inputs = [name.replace(".cu", ".o") for name in SEPARATE]
    if way == "archive":
        subprocess.run(["ar", "rcs", "libparts.a", *inputs[1:]], cwd=bench.folder, check=True)
        inputs = ["one.o", "-L.", "-lparts"]
    if way == "ld -r":
        subprocess.run(["ld", "-r", *inputs, "-o", "all.o"], cwd=bench.folder, check=True)
        inputs = ["all.o"]
    if way == "-dlink":
        # The last step may be the C++ compiler's.
        bench.built("-dlink", *inputs, "-o", "device.o")
        tool = ["g++", *inputs, "device.o", "-o", "program", f"-L{build.RUNTIME}"]
        tool += ["-lgpulend_rt", f"-Wl,-rpath,{build.RUNTIME}"]
        subprocess.run(tool, cwd=bench.folder, check=True)
        assert bench.ran("./program") == "702 18 962\n"
        # Or ours, which links nothing twice.
        inputs.append("device.o")
    bench.built(*inputs, "-o", "program")
    assert bench.ran("./program") == "702 18 962\n"


@pytest.mark.parametrize("way", ["-dc", "-rdc=true"])
def test_explicit_instances_of_templates_are_used_in_other_files(bench: Bench, way: str) -> None:
    """Of functions, of members of classes, and of their variables, which the host writes."""
    bench.write(
        "one.cu",
        """
template <class T> __device__ T times(T x) { return x * 7; }
template __device__ int times<int>(int);
template <class T> struct Add { __device__ T to(T x); };
template <class T> __device__ T Add<T>::to(T x) { return x + 100; }
template struct Add<int>;
template <int N> struct Table { static __device__ int value; };
template <int N> __device__ int Table<N>::value = N * 1000;
template struct Table<5>;
static __device__ int own = 10000;
static __global__ void work(int *x) { *x += own; }
void more(int *x) {
    int value = 20000;
    cudaMemcpyToSymbol(own, &value, sizeof value);
    work<<<1, 1>>>(x);
}
""",
    )
    bench.write(
        "two.cu",
        """
#include <cstdio>
template <class T> __device__ T times(T x);
extern template __device__ int times<int>(int);
template <class T> struct Add { __device__ T to(T x); };
template <int N> struct Table { static __device__ int value; };
void more(int *x);
static __global__ void work(int *x) { *x = times(3) + Add<int>().to(0) + Table<5>::value; }
int main() {
    int *x, value = 0;
    cudaMalloc(&x, sizeof value);
    work<<<1, 1>>>(x);
    more(x);
    // A variable of a function, in both files of the same name.
    static __device__ int local = 1;
    int two = 2;
    cudaMemcpyToSymbol(local, &two, sizeof two);
    cudaMemcpyFromSymbol(&two, local, sizeof two);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    printf("%d %d\\n", value, two);
}
""",
    )
    if way == "-dc":
        bench.built("-dc", "one.cu", "two.cu")
        bench.built("one.o", "two.o", "-o", "program")
    else:
        bench.built("-rdc=true", "one.cu", "two.cu", "-o", "program")
    assert bench.ran("./program") == "25121 2\n"


@pytest.mark.parametrize(
    "words",
    [
        "thin/libparts.a",
        "-Lthin -lparts",
        "-Lthick -l:libparts.a",
        "-Lthick -Wl,-lparts",
        "-Wl,-Lthick,--library=parts",
        "-Xlinker -Lthick -Xlinker -l -Xlinker parts",
        "-Wl,thick/libparts.a",
        "-Lshared -Lthick -Wl,-Bstatic -lparts -Wl,-Bdynamic",
    ],
)
def test_device_code_is_linked_of_every_archive_that_the_linker_reads(
    bench: Bench, words: str
) -> None:
    """Thin ones name their files, by paths from where they are; options name archives."""
    for name, text in SEPARATE.items():
        bench.write(name, text)
        bench.built("-dc", name)
    others = [name.replace(".cu", ".o") for name in SEPARATE][1:]
    for folder in ("thin", "thick", "shared"):
        (bench.folder / folder).mkdir()
    subprocess.run(["ar", "rcsT", "thin/libparts.a", *others], cwd=bench.folder, check=True)
    subprocess.run(["ar", "rcs", "thick/libparts.a", *others], cwd=bench.folder, check=True)
    bench.write("shared/libparts.so", "")
    bench.built("one.o", *words.split(), "-o", "program")
    assert bench.ran("./program") == "702 18 962\n"


def test_an_object_file_that_was_built_twice_and_renamed_is_linked_twice(bench: Bench) -> None:
    """Each keeps its own device code, also where only the host's part differs."""
    bench.write(
        "kernel.cu",
        """
static __device__ int counted = START;
static __global__ void count(int *x) { *x = counted++; }
int NAME() {
    int *x, value;
    cudaMalloc(&x, sizeof value);
    count<<<1, 1>>>(x);
    cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost);
    return value;
}
""",
    )
    bench.write(
        "main.cpp",
        """
#include <cstdio>
int first();
int second();
int third();
int main() {
    for (int i = 0; i < 2; i++) {
        int a = first(), b = second(), c = third();
        printf("%d %d %d\\n", a, b, c);
    }
}
""",
    )
    for name, start in (("first", 10), ("second", 20), ("third", 20)):
        bench.built("-dc", "kernel.cu", f"-DNAME={name}", f"-DSTART={start}", "-o", "kernel.o")
        (bench.folder / "kernel.o").rename(bench.folder / f"{name}.o")
    bench.built("main.cpp", "first.o", "second.o", "third.o", "-o", "program")
    assert bench.ran("./program") == "10 20 20\n11 21 21\n"
    # Two codes of one name, as of two releases of clang: none of them is left out unsaid.
    for name in ("one.o", "two.o"):
        part = _device_code.Part("0123456789abcdef", False, name.encode())
        (bench.folder / name).write_bytes(_device_code.packed(part))
    done = bench.build("main.cpp", "one.o", "two.o")
    assert done.returncode == 2
    assert "two.o has other device code under a name that is taken" in done.stderr


def test_two_libraries_keep_their_linked_device_code_apart(bench: Bench) -> None:
    """A variable of the same object file is another one in each library."""
    bench.write(
        "count.cu",
        """
__device__ int counted;
__global__ void add(int by) { counted += by; }
extern "C" int count(int by) {
    int value = -1;
    add<<<1, 1>>>(by);
    cudaMemcpyFromSymbol(&value, counted, sizeof value);
    return value;
}
""",
    )
    bench.built("-dc", "count.cu")
    bench.built("-shared", "count.o", "-o", "liba.so")
    bench.built("-shared", "count.o", "-o", "libb.so")
    program = "import ctypes; a, b = map(ctypes.CDLL, ('./liba.so', './libb.so')); "
    program += "print(a.count(1), b.count(10), a.count(100), b.count(1000))"
    assert bench.ran(sys.executable, "-c", program) == "1 10 101 1010\n"


def test_an_object_file_whose_device_code_was_not_linked_says_so(bench: Bench) -> None:
    """A link without ours leaves launches with an error, and one line says what to do."""
    bench.write("kernel.cu", KERNEL.replace("return value;", "return cudaGetLastError();") + MAIN)
    bench.built("-dc", "kernel.cu")
    tool = ["g++", "kernel.o", "-o", "program", f"-L{build.RUNTIME}", "-lgpulend_rt"]
    subprocess.run([*tool, f"-Wl,-rpath,{build.RUNTIME}"], cwd=bench.folder, check=True)
    done = bench.run("./program")
    assert done.stdout == "200\n"
    assert "gpulend: device code of an object file was not linked" in done.stderr
    # Without any device code, -dlink makes an object file with nothing in it.
    bench.write("plain.cpp", "int plain() { return 1; }")
    bench.built("-c", "plain.cpp")
    bench.built("-dlink", "plain.o")
    assert (bench.folder / "a_dlink.o").stat().st_size > 0


COMMON = """
inline __device__ int plain = 1;
template <class T> __device__ T templated = 2;
struct Class { static inline __constant__ int member = 3; };
inline __device__ int *local() { static __device__ int place; return &place; }
"""
COPIES = (
    COMMON
    + """
#include <stdio.h>
__global__ void {name}() {
    printf("{name} %d %d %d\\n", plain, templated<int>, Class::member);
}
void copy_{name}(int value) {
    cudaMemcpyToSymbol(plain, &value, sizeof value);
    value *= 10;
    cudaMemcpyToSymbol(templated<int>, &value, sizeof value);
    value *= 10;
    cudaMemcpyToSymbol(Class::member, &value, sizeof value);
}
void show_{name}() {
    {name}<<<1, 1>>>();
    cudaDeviceSynchronize();
    int found;
    cudaMemcpyFromSymbol(&found, plain, sizeof found);
    printf("host %d\\n", found);
    fflush(stdout);
}
"""
)
BOTH_COPY = """
void copy_one(int); void copy_two(int); void show_one(); void show_two();
int main() { copy_one(4); copy_two(5); show_one(); show_two(); return 0; }
"""


@pytest.mark.parametrize("way", ["apart", "linked"])
def test_hosts_of_several_files_copy_to_inline_variables_and_those_of_templates(
    bench: Bench, way: str
) -> None:
    """Linked, all files have one such variable; otherwise each has its own."""
    for name in ("one", "two"):
        bench.write(f"{name}.cu", COPIES.replace("{name}", name))
    bench.write("main.cpp", BOTH_COPY)
    options = ["-rdc=true"] if way == "linked" else []
    bench.built(*options, "one.cu", "two.cu", "main.cpp", "-O2", "-g", "-o", "program")
    first = 5 if way == "linked" else 4
    one = f"one {first} {first}0 {first}00\nhost {first}\n"
    assert bench.ran("./program") == one + "two 5 50 500\nhost 5\n"


@pytest.mark.parametrize("options", [["-MD"], ["-MMD", "-MF", "made.d"], ["-MD", "-MT", "made.o"]])
def test_make_reads_of_the_object_file_what_it_depends_on(bench: Bench, options) -> None:
    """Also where the host's code takes two steps."""
    bench.write("one.cu", COPIES.replace("{name}", "one"))
    bench.built(*options, "-c", "one.cu", "-o", "made.o")
    assert (bench.folder / "made.d").read_text().startswith("made.o: one.cu")


ELSEWHERE = """
__device__ int elsewhere(int);
extern __device__ int counter[];
extern "C" __device__ void plain_name();
__global__ void kernel(int *out) { *out = elsewhere(counter[1]) + sin(1.0); plain_name(); }
int main() { kernel<<<1, 1>>>(nullptr); }
"""


def test_what_no_device_code_defines_is_told_by_the_link(bench: Bench) -> None:
    """As nvcc's linker does, and its assembler where nothing is linked; with C++ names."""
    bench.write("main.cu", ELSEWHERE)
    bench.write("rest.cu", "__device__ int elsewhere(int x) { return x; }")
    alone = bench.build("main.cu")
    assert alone.returncode == 2
    assert "nothing on the device defines counter, elsewhere(int), plain_name;" in alone.stderr
    assert "-rdc=true" in alone.stderr
    bench.built("-dc", "main.cu", "rest.cu")
    linked = bench.build("main.o", "rest.o")
    assert linked.returncode == 2
    assert "nothing on the device defines counter, plain_name;" in linked.stderr
    more = '__device__ int counter[2]; extern "C" __device__ void plain_name() {}'
    bench.write("more.cu", more)
    bench.built("-dc", "more.cu")
    bench.built("main.o", "rest.o", "more.o")
    # A launch where clang cannot know that a kernel comes there.
    both = "__host__ __device__ void both(int *x) { add<<<1, 1>>>(x, 1); }"
    bench.write("launch.cu", KERNEL + both + "__global__ void twice(int *x) { both(x); }" + MAIN)
    done = bench.build("-rdc=true", "launch.cu")
    assert done.returncode == 2
    assert "defines cudaGetParameterBuffer, cudaLaunchDevice;" in done.stderr


def test_linked_device_code_for_older_gpus_keeps_its_warps_in_lockstep(bench: Bench) -> None:
    """What the compilation said of GPUs holds for the link."""
    bench.write("sum.cu", LOCKSTEP)
    bench.built("-dc", "sum.cu", "-arch=sm_60")
    bench.built("sum.o", "-o", "older")
    assert bench.ran("./older") == "0 32\n"


def test_ptx_alone_is_written(bench: Bench) -> None:
    """`--ptx` makes what a driver loads, and nothing of the host."""
    bench.write("kernel.cu", KERNEL)
    bench.built("--ptx", "kernel.cu")
    text = (bench.folder / "kernel.ptx").read_text()
    assert ".target sm_75" in text
    assert ".entry _Z3addPii" in text
    bench.built("-fatbin", "kernel.cu")
    assert (bench.folder / "kernel.fatbin").read_text() == text


LOCKSTEP = """
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
"""


def test_a_program_for_older_gpus_keeps_its_warps_in_lockstep(bench: Bench) -> None:
    """A sum without barriers inside a warp is right for sm_60, and a race for sm_70."""
    bench.write("sum.cu", LOCKSTEP)
    bench.built("sum.cu", "-arch=sm_60", "-o", "older")
    assert bench.ran("./older") == "0 32\n"
    for architecture, older in (("sm_60", True), ("sm_70", False)):
        bench.built("--ptx", f"-arch={architecture}", "sum.cu")
        assert (build.MEET in (bench.folder / "sum.ptx").read_text()) == older
    if not REAL:
        bench.built("sum.cu", "-arch=sm_70", "-o", "newer")
        assert bench.ran("./newer").split()[0] == "719"


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
    for kind in ("ptx", "cubin", "fatbin"):
        bench.built(f"-{kind}", "mask.cu")
        assert ".version 7.6" in (bench.folder / f"mask.{kind}").read_text()
    bench.write("plain.cu", KERNEL + MAIN)
    bench.built("plain.cu", "-o", "plain")
    assert b".version 6.3" in (bench.folder / "plain").read_bytes()
