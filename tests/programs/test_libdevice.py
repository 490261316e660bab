"""C's mathematics in kernels: libdevice for hardware, the host's on the simulated GPU."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HERE, PROMISED, REAL, Bench
from gpulend import _libdevice, build

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
