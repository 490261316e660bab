"""Kernels: CUDA C++ in, launches on arrays of any framework out."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gpulend import _native, _toolkit
from gpulend._terminal import Patience
from gpulend.compiler import warn_of, ziglang
from gpulend.exceptions import SecondModuleWarning

if TYPE_CHECKING:
    from gpulend._native import Device, Module

__all__ = ["compile"]

# Headers of the caller's own.
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
# Files that are compiled already.
_IMAGES = (".ptx", ".cubin", ".fatbin")


def compile(
    source: str | bytes | os.PathLike[str],
    *,
    device: str | int | Device | None = None,
    options: Sequence[str] = (),
    names: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    compiler: Literal["auto", "nvrtc", "clang"] = "auto",
    file: str | None = None,
) -> Module:
    """Compile CUDA C++, or load compiled code, and return its kernels and variables.

    `source` is CUDA C++ as text; PTX, as text or bytes; a cubin or fatbin, as bytes; or the path
    (a `Path`) of a file with one of them. `options` are spelled as for nvcc, NVRTC or clang.
    `headers` are contents that it may include, by name. `names` are template instances to put into
    the module, such as `scale<float>`. `file` is the name of the source in diagnostics.

    For a real GPU NVRTC compiles if it can be loaded, otherwise clang; for the simulated GPU
    clang. `compiler` may be "nvrtc" or "clang" to require one. Compiled code is cached on disk.

    Errors raise `gpulend.CompileError` with the lines of the source.

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
    if isinstance(source, str) and _native.is_image(source):
        source = source.encode()
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _native.load_module(bytes(source), device)
    file = file or "kernel.cu"
    with Patience(f"compiling {file}"):
        module, doubts = _native.compile_module(
            source,
            file,
            list(options),
            list((headers or {}).items()),
            list(names),
            compiler,
            device,
            ziglang(),
            _toolkit.roots,
        )
    warn_of(doubts)
    return module


def _text(file: Path) -> str:
    """Return the text of a file; bytes that are not UTF-8 are mostly in comments."""
    return file.read_text(encoding="utf-8-sig", errors="replace")


def _beside(folder: Path, text: str) -> tuple[dict[str, str], list[Path]]:
    """Return the files that a text includes by name, and those that they include.

    Files below the folder are returned as text, so that the result can be cached; for others the
    folder is returned, for the compiler to search.
    """
    found: dict[str, str] = {}
    folders: list[Path] = []
    seen: set[Path] = set()
    texts = [(folder, text)]
    while texts:
        place, text = texts.pop()
        for name in _INCLUDE.findall(text):
            file = place / name
            # The compiler finds absolute paths itself.
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


def set_compilers() -> None:
    """Set the paths of Python's compilers for C code in this process."""
    # At import: what would have to be imported to be asked is not.
    _native.set_compilers(ziglang(), _toolkit.wheels())


def warn_apart(name: str) -> None:
    """Warn that a template instance has variables of its own."""
    warnings.warn(
        f"{name} was asked for after its module was loaded, so it is in a second module, with "
        f'variables of its own; compile with names=["{name}"] to have one',
        SecondModuleWarning,
        stacklevel=2,
    )
