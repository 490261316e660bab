"""CUDA C++ to PTX without NVIDIA's software.

>>> from gpulend import compiler
>>> ptx = compiler.to_ptx("__global__ void one(int *p) { *p = 1; }")
>>> ".target sm_75" in ptx
True

The compiler is a clang: that of `GPULEND_CLANG`, of the package ziglang (`gpulend[sim]`), or on
PATH. Compiled code is cached on disk: see `docs/compiler.md`.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence

from gpulend import _native
from gpulend._terminal import Patience
from gpulend.exceptions import CompileWarning

__all__ = ["find", "to_ptx"]


def to_ptx(
    source: str,
    *,
    file: str = "kernel.cu",
    options: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> str:
    """Compile CUDA C++ and return its PTX.

    `file` is the name of the source in diagnostics and in the PTX; it need not exist. `options` are
    spelled as for nvcc, NVRTC or clang. `headers` are contents that it may include, by name.

    Errors raise `gpulend.CompileError`. Each warning about the caller's own source is a
    `gpulend.CompileWarning`.
    """
    if isinstance(options, str):
        raise TypeError("options is a str; give a list of options")
    with Patience(f"compiling {file}"):
        ptx, doubts, _ = _native.compile_ptx(
            source, file, list(options), list((headers or {}).items()), ziglang()
        )
    warn_of(doubts)
    return ptx


def warn_of(doubts: Iterable[tuple[str, int, int, str, str]]) -> None:
    """Warn the caller's caller of what a compiler found doubtful."""
    for where, line, column, severity, text in doubts:
        if severity == "warning":
            warnings.warn(f"{where}:{line}:{column}: {text}", CompileWarning, stacklevel=3)


def find() -> tuple[str, str]:
    """Return the path of the current compiler, and a string that identifies it."""
    program, identity = _native.describe_compiler(ziglang())
    return os.fspath(program), identity


def ziglang() -> str | None:
    """Return the path of ziglang's program, if it is installed; it is not imported."""
    found = importlib.util.find_spec("ziglang")
    folders = found.submodule_search_locations if found else None
    return os.path.join(folders[0], "zig") if folders else None
