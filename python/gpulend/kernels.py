"""Kernels: CUDA C++ in, launches on arrays of any framework out."""

from __future__ import annotations

import importlib.util
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpulend import _native
from gpulend.compiler import ziglang
from gpulend.exceptions import CompileWarning, SecondModuleWarning

if TYPE_CHECKING:
    from gpulend._native import Device, Module

__all__ = ["compile"]

# Headers of the caller's own.
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
# Files that are compiled already.
_IMAGES = (".ptx", ".cubin", ".fatbin")
# Where wheels of NVIDIA's keep NVRTC and headers below their namespace package.
_WHEELS = ("cu13", "cuda_nvrtc", "cu12")


def compile(
    source: str | bytes | os.PathLike[str],
    *,
    device: str | int | Device | None = None,
    options: Sequence[str] = (),
    names: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    compiler: str = "auto",
    file: str | None = None,
) -> Module:
    """Compile CUDA C++, or take what is compiled already, and return its kernels and variables.

    `source` is a text in CUDA C++; PTX, as text or bytes; a cubin or fatbin, as bytes; or the path
    (a `Path`) of a file with one of them. `options` are spelled as for nvcc, NVRTC or clang,
    `headers` are texts that it may include, by name. `names` are instances of templates that shall
    be in the module, as "scale<float>". `file` is what diagnostics call the text.

    On a real GPU NVRTC compiles, if it can be loaded, and else a clang; on the simulated one a
    clang. `compiler` may insist on "nvrtc" or "clang". What was compiled before is found on disk.

    Mistakes raise `gpulend.CompileError` with the lines of the source.

    >>> import gpulend
    >>> module = gpulend.compile("__global__ void add(float *x, float y) { x[threadIdx.x] += y; }")
    >>> x = gpulend.zeros(3, "float32")
    >>> module["add"][1, 3](x, 0.5)
    >>> x.to_host()
    array([0.5, 0.5, 0.5], dtype=float32)
    """
    for name, given in (("options", options), ("names", names)):
        if isinstance(given, str):
            raise TypeError(f"{name} is a str; give a list of them")
    if isinstance(source, os.PathLike):
        path = Path(source)
        file = file or os.fspath(path)
        source = path.read_bytes() if path.suffix in _IMAGES else _text(path)
        if isinstance(source, str):
            beside, others = _beside(path.parent, source)
            headers = {**beside, **(headers or {})}
            options = (*options, *(f"-I{folder}" for folder in others))
    if isinstance(source, str) and _is_ptx(source):
        source = source.encode()
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _native.load_module(bytes(source), device)
    folders, includes = nvidia_folders()
    module, doubts = _native.compile_module(
        source,
        file or "kernel.cu",
        list(options),
        list((headers or {}).items()),
        list(names),
        compiler,
        device,
        ziglang(),
        folders,
        includes,
    )
    for where, line, column, severity, text in doubts:
        if severity == "warning":
            warnings.warn(f"{where}:{line}:{column}: {text}", CompileWarning, stacklevel=2)
    return module


def _text(file: Path) -> str:
    """Return what is in a file; bytes that are no UTF-8 are mostly in comments."""
    return file.read_text(encoding="utf-8-sig", errors="replace")


def _beside(folder: Path, text: str) -> tuple[dict[str, str], list[Path]]:
    """Return the files that a text includes by name, and those that they include.

    Files below the folder are texts by name, so that what is compiled can be kept; of others the
    folders are returned, in which the compiler then looks.
    """
    found: dict[str, str] = {}
    folders: list[Path] = []
    seen: set[Path] = set()
    texts = [(folder, text)]
    while texts:
        place, text = texts.pop()
        for name in _INCLUDE.findall(text):
            file = place / name
            # What is named from the root the compiler finds itself.
            if Path(name).is_absolute() or file in seen or not file.is_file():
                continue
            seen.add(file)
            included = _text(file)
            if place == folder and ".." not in Path(name).parts:
                found[name] = included
            elif place not in folders:
                folders.append(place)
            texts.append((file.parent, included))
    return found, folders


def _is_ptx(text: str) -> bool:
    """Return whether a text is PTX: its first words, after comments, are `.version`."""
    for line in text.splitlines():
        words = line.strip()
        if words and not words.startswith("//"):
            return words.startswith(".version")
    return False


def nvidia_folders() -> tuple[list[str], list[str]]:
    """Return the folders in which NVRTC and CUDA's headers may lie, besides the loader's own."""
    roots = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    roots.append("/usr/local/cuda")
    libraries = [os.path.join(root, part) for root in roots for part in ("lib64", "lib")]
    includes = [os.path.join(root, "include") for root in roots]
    found = importlib.util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        libraries += [os.path.join(folder, wheel, "lib") for wheel in _WHEELS]
        headers = ("cu13", "cuda_runtime", "cuda_cccl", "cu12")
        includes += [os.path.join(folder, wheel, "include") for wheel in headers]
    return (
        [folder for folder in libraries if os.path.isdir(folder)],
        [folder for folder in includes if os.path.isdir(folder)],
    )


def tell_compilers() -> None:
    """Tell C code of this process where Python keeps compilers."""
    _native.tell_compilers(ziglang(), *nvidia_folders())


def warn_apart(name: str) -> None:
    """Warn that an instance has variables of its own."""
    warnings.warn(
        f"{name} was asked for after its module was loaded, so it is in a second module, with "
        f'variables of its own; compile with names=["{name}"] to have one',
        SecondModuleWarning,
        stacklevel=2,
    )
