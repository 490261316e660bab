"""Compiler options for C and C++ code that runs inside Python: `python -m gpulend.config`.

    cc -shared -fPIC mine.c $(python -m gpulend.config --cflags --libs) -o mine.so
    cmake -B build -Dgpulend_DIR=$(python -m gpulend.config --cmakedir)

A process has one ledger, so such code uses the functions of the extension module, and not those of
`libgpulend.so`.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from gpulend import _native


def include_folder() -> Path:
    """Return the folder with `gpulend.h` and `gpulend.hpp`."""
    return Path(__file__).with_name("include")


def cmake_folder() -> Path:
    """Return the folder with which CMake's `find_package(gpulend)` finds this Python's gpulend."""
    return Path(__file__).with_name("cmake")


def library() -> Path:
    """Return the file that holds the functions of `gpulend.h` in this Python.

    >>> from gpulend import config
    >>> config.library().name.partition(".")[0]
    '_native'
    """
    return Path(_native.__file__)


def main(arguments: list[str] | None = None) -> None:
    """Print what was asked for, in one line a question."""
    parser = argparse.ArgumentParser(
        prog="python -m gpulend.config", description="Print what C code inside Python needs."
    )
    add = parser.add_argument
    add("--cflags", action="store_true", help="options that find gpulend.h and gpulend.hpp")
    add("--libs", action="store_true", help="options that link the functions of this Python")
    add("--header", action="store_true", help="the path of gpulend.h")
    add("--library", action="store_true", help="the path of the library, for dlopen and ctypes")
    add("--cmakedir", action="store_true", help="the folder for CMake's gpulend_DIR")
    add("--toolchain", action="store_true", help="CMake's toolchain file for CUDA by gpulend build")
    asked = parser.parse_args(arguments)
    folder, name = library().parent, library().name
    flags = []
    if asked.cflags:
        flags.append(f"-I{include_folder()}")
    if asked.libs:
        flags += [f"-L{folder}", f"-l:{name}", f"-Wl,-rpath,{folder}"]
    if flags:
        print(shlex.join(flags))
    if asked.header:
        print(include_folder() / "gpulend.h")
    if asked.library:
        print(library())
    if asked.cmakedir:
        print(cmake_folder())
    if asked.toolchain:
        print(cmake_folder() / "gpulendToolchain.cmake")
    if not any(vars(asked).values()):
        parser.print_help()


if __name__ == "__main__":
    main()
