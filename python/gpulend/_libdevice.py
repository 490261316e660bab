"""C's mathematics for real GPUs, of CUDA's libdevice, where a build finds that.

A driver has no `sin`. nvcc takes it from libdevice, a file of LLVM bitcode that comes with CUDA,
with Triton and with Warp. What a program calls is compiled from there and put into its PTX as weak
functions. The simulated GPU has functions of its own and prefers those.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from gpulend import _toolkit

NAME = "libdevice.10.bc"
_ONE = """
acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi erf erfc exp exp10 exp2 expm1 fabs floor
j0 j1 lgamma log log10 log1p log2 logb nearbyint rint round rsqrt sin sinh sinpi sqrt tan tanh
tgamma trunc y0 y1
"""
_TWO = "atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder"
# Each function of doubles: its result and its parameters. That of floats has an f behind its name.
_FUNCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_ONE.split(), ("double", "double")),
    **dict.fromkeys(_TWO.split(), ("double", "double", "double")),
    **dict.fromkeys(("ldexp", "scalbn"), ("double", "double", "int")),
    "fma": ("double", "double", "double", "double"),
    "ilogb": ("int", "double"),
}
FUNCTIONS = _FUNCTIONS | {
    f"{name}f": tuple(kind.replace("double", "float") for kind in kinds)
    for name, kinds in _FUNCTIONS.items()
}
# A declaration of a function that the driver or another file shall have.
EXTERN = re.compile(
    r"^\.extern \.func\b[^;{]*?([\w$]+)\s*\([^;{)]*\)\s*(?:\.noreturn\s*)?;\n?", re.M
)
_HEAD = re.compile(r"^\.address_size 64\n", re.M)


def find() -> str | None:
    """Return the path of libdevice: of a toolkit that is named, of a package, or of the system."""
    return next((str(file) for file in _places() if file.is_file()), None)


def _places() -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if folder := os.environ.get(variable):
            yield Path(folder, "nvvm/libdevice", NAME)
    for wheel in _toolkit.wheels():
        yield Path(wheel, "nvvm/libdevice", NAME)
    for package, inside in (("triton", "backends/nvidia/lib"), ("warp", "native/libdevice")):
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or ()) if found else ():
            yield Path(folder, inside, NAME)
    yield Path("/usr/local/cuda/nvvm/libdevice", NAME)


def wanted(ptx: str) -> list[str]:
    """Return the functions of C's mathematics that a PTX calls and does not have."""
    return sorted({name for name in EXTERN.findall(ptx) if name in FUNCTIONS})


def source(names: list[str]) -> str:
    """Return CUDA C that defines functions by those of libdevice."""
    lines = []
    for name in names:
        result, *kinds = FUNCTIONS[name]
        declared = ", ".join(f"{kind} {letter}" for kind, letter in zip(kinds, "abc", strict=False))
        passed = ", ".join("abc"[: len(kinds)])
        device = 'extern "C" __attribute__((device'
        lines.append(f"{device})) {result} __nv_{name}({declared});")
        lines.append(
            f"{device}, weak)) {result} {name}({declared}) {{ return __nv_{name}({passed}); }}"
        )
    return "\n".join(lines) + "\n"


def joined(ptx: str, library: str) -> str:
    """Return a PTX with the functions of another, which stand before what calls them."""
    defined = set(re.findall(r"^\.weak \.func\b[^\n]*?([\w$]+)\(\n", library, re.M))
    ptx = EXTERN.sub(lambda found: "" if found[1] in defined else found[0], ptx)
    body = library[_head_end(library) :]
    at = _head_end(ptx)
    return f"{ptx[:at]}\n{body}\n{ptx[at:]}"


def _head_end(ptx: str) -> int:
    found = _HEAD.search(ptx)
    assert found is not None, "clang's PTX says the size of addresses"
    return found.end()
