"""Peers of benches/operations.py that a compiler makes: an operation of torch in C++, and a handler
of XLA's in C++.

Each is built once into a folder, and found there by later runs. nvcc compiles the kernel and links;
the host's compiler sees the headers of torch, which takes nvcc several times as long. On a machine
without a GPU the same sources are built with a loop in place of the kernel, so that all of it but
the launch can be tried there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

SOURCES = Path(__file__).parent
# What the headers of newer releases of torch ask for; those of older ones and of XLA take it too.
OPTIONS = ("-O2", "-std=c++20", "-fPIC", "-w")


def build(folder: Path, name: str, include: list[str], link: list[str], arch: str | None) -> Path:
    """Return the library of `name`.cpp and the kernel, for a GPU of `arch`, or for the host."""
    key = hashlib.sha256(repr((include, link, arch, sys.version)).encode())
    for source in (SOURCES / f"{name}.cpp", SOURCES / "scale.cu"):
        key.update(source.read_bytes())
    library = folder / f"{name}-{key.hexdigest()[:16]}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    objects = [folder / f"{name}.o", folder / f"{name}-scale.o"]
    flags = [*OPTIONS, *(f"-I{path}" for path in include)]
    host = os.environ.get("CXX", "c++")
    unfinished = library.with_suffix(".unfinished")
    if arch is None:
        kernel = [host, *OPTIONS, "-x", "c++"]
        linker = [host, "-shared"]
    else:
        # Before torch's own folder, whose headers of CUDA may be of another version.
        flags += ["-DBENCH_ON_GPU", f"-I{toolkit() / 'include'}"]
        kernel = [str(nvcc()), "-O3", f"-arch={arch}", "-Xcompiler", "-fPIC"]
        linker = [str(nvcc()), "-shared", f"-arch={arch}"]
    run([host, *flags, "-c", str(SOURCES / f"{name}.cpp"), "-o", str(objects[0])])
    run([*kernel, "-c", str(SOURCES / "scale.cu"), "-o", str(objects[1])])
    run([*linker, *map(str, objects), "-o", str(unfinished), *link])
    unfinished.rename(library)
    print(f"{name} was built in {time.perf_counter() - start:.1f} s: {library}", flush=True)
    return library


def run(command: list[str]) -> None:
    """Run a compiler; an error has the end of what it wrote."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-3000:]}")


def nvcc() -> Path:
    """Return the compiler of CUDA C++: on PATH, or of the toolkit that CUDA_HOME names."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    found = shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin")
    if found is None:
        raise RuntimeError("no nvcc on PATH or in CUDA_HOME")
    return Path(found)


def toolkit() -> Path:
    """Return the folder of the toolkit, with its headers."""
    home = nvcc().resolve().parents[1]
    if not (home / "include/cuda_runtime_api.h").exists():
        raise RuntimeError(f"no include/cuda_runtime_api.h in {home}, the toolkit of nvcc")
    return home


def torch_operation(folder: Path, arch: str | None) -> Path:
    """Build the operation of torch."""
    import torch
    from torch.utils.cpp_extension import include_paths

    libraries = str(Path(torch.__file__).parent / "lib")
    names = ["c10", "torch", "torch_cpu"] + (["c10_cuda", "torch_cuda"] if arch else [])
    link = [f"-L{libraries}", *(f"-l{name}" for name in names)]
    return build(folder, "torch_op", include_paths(), link, arch)


def xla_handler(folder: Path, arch: str | None) -> Path:
    """Build the handler of XLA's."""
    import jax

    return build(folder, "xla_handler", [jax.ffi.include_dir()], [], arch)
