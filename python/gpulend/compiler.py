"""CUDA C++ to PTX without NVIDIA's software.

>>> from gpulend import compiler
>>> ptx = compiler.to_ptx("__global__ void one(int *p) { *p = 1; }")
>>> ".target sm_75" in ptx
True

The compiler is a clang: of `GPULEND_CLANG`, of the package ziglang (`pip install gpulend[sim]`),
or on PATH. What was compiled before is kept on disk; `docs/compiler.md` tells where.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence

from gpulend import _native
from gpulend.exceptions import CompileWarning

__all__ = ["find", "to_ptx"]


def to_ptx(
    source: str,
    *,
    file: str = "kernel.cu",
    options: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> str:
    """Compile a text in CUDA C++ and return its PTX.

    `file` is what diagnostics and the lines of the PTX call it; it need not exist. `options` are
    spelled as for nvcc, NVRTC or clang. `headers` are texts that it may include, by name.

    Mistakes raise `gpulend.CompileError`. What is doubtful in the caller's own text is warned of,
    as one `gpulend.CompileWarning` for each place.
    """
    if isinstance(options, str):
        raise TypeError("options is a str; give a list of options")
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
    """Return the path of the compiler that is used now, and what tells it from any other."""
    program, identity = _native.describe_compiler(ziglang())
    return os.fspath(program), identity


def ziglang() -> str | None:
    """Return where ziglang keeps its program, if it is installed; it is not imported."""
    found = importlib.util.find_spec("ziglang")
    folders = found.submodule_search_locations if found else None
    return os.path.join(folders[0], "zig") if folders else None
