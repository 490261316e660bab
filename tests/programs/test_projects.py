"""Projects of make and CMake that `gpulend build` builds, and where a program finds its runtime."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import GPULEND, KERNEL, MAIN, PROMISED, Bench
from gpulend.build import RUNTIME


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
    _cmake(bench)
    assert bench.ran("made/program") == "42\n"


@pytest.mark.parametrize("main", ["main.cpp", "main.cu"])
def test_a_project_of_cmake_compiles_device_code_apart(bench: Bench, main: str) -> None:
    """`CUDA_SEPARABLE_COMPILATION`, of a static library and of the program."""
    bench.write("kernel.cu", "__device__ int sum(int a, int b);\n" + KERNEL.replace("+= by", _SUM))
    bench.write("sum.cu", "__device__ int sum(int a, int b) { return a + b; }")
    bench.write(main, MAIN)
    bench.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.20)\nproject(program LANGUAGES CXX CUDA)\n"
        "set(CMAKE_CUDA_SEPARABLE_COMPILATION ON)\n"
        "add_library(sums STATIC sum.cu)\nadd_library(kernels STATIC kernel.cu)\n"
        "target_link_libraries(kernels PUBLIC sums)\n"
        f"add_executable(program {main})\ntarget_link_libraries(program PRIVATE kernels)\n"
        # As CMake wants it of a program without CUDA of its own.
        "set_target_properties(program PROPERTIES CUDA_RESOLVE_DEVICE_SYMBOLS ON)\n",
    )
    _cmake(bench)
    assert bench.ran("made/program") == "42\n"


_SUM = "= sum(x[threadIdx.x], by)"


def _cmake(bench: Bench) -> None:
    """Configure and build the project in the folder."""
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


def test_a_program_finds_its_runtime_beside_itself(bench: Bench) -> None:
    """Moved to another machine with the library next to it."""
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


def test_a_makefile_with_a_device_link_builds(bench: Bench) -> None:
    """`-dc`, `-dlink`, and a last step of the C++ compiler's, as NVIDIA's guide has it."""
    bench.write("kernel.cu", "__device__ int sum(int a, int b);\n" + KERNEL.replace("+= by", _SUM))
    bench.write("sum.cu", "__device__ int sum(int a, int b) { return a + b; }")
    bench.write("main.cpp", MAIN)
    bench.write(
        "Makefile",
        "OBJECTS = kernel.o sum.o\n"
        "program: main.o $(OBJECTS) device.o\n\t$(CXX) $^ -o $@ -L$(RUNTIME) -lgpulend_rt\n"
        "device.o: $(OBJECTS)\n\t$(NVCC) -arch=sm_70 -dlink $^ -o $@ -lcudadevrt\n"
        "%.o: %.cu\n\t$(NVCC) -arch=sm_70 --device-c $< -o $@\n"
        "%.o: %.cpp\n\t$(CXX) -c $< -o $@\n",
    )
    make = [_tool("make"), "-s", "NVCC=" + " ".join([*GPULEND, "build"]), f"RUNTIME={RUNTIME}"]
    subprocess.run(make, cwd=bench.folder, check=True)
    assert bench.ran("./program", LD_LIBRARY_PATH=str(RUNTIME)) == "42\n"


def _tool(*names: str) -> str:
    """Return the path of the first that is there, beside this Python too; promised is the first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    assert names[0] not in PROMISED, f"{names[0]} is not there"
    pytest.skip(f"needs {' or '.join(names)}")
