"""The nvcc that `gpulend run` puts on PATH, for programs that compile kernels while they run.

A "cubin" is PTX as text, which the simulated GPU loads as it would load a cubin. Object files and
programs are made by `gpulend build`.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence

from gpulend import _native, _programs, build, compiler, exceptions

# The suffix of each kind of output.
ENDINGS = {
    "--cubin": ".cubin",
    "-cubin": ".cubin",
    "--fatbin": ".fatbin",
    "-fatbin": ".fatbin",
    "--ptx": ".ptx",
    "-ptx": ".ptx",
}
PREPROCESS = ("-E", "--preprocess")
# Where kept files go, and the host's compiler: neither exists here.
IGNORED_WITH_VALUE = ("-ccbin", "--keep-dir", "-odir", "--output-directory")
IGNORED = ("--keep", "-keep", "-v", "--verbose", "--resource-usage", "-c", "--compile")
VERSION = f"""nvcc: gpulend {_native.__version__}, in the place of NVIDIA (R) Cuda compiler driver
Cuda compilation tools, release 12.0, V12.0.0"""


class _Usage(Exception):
    """A wrong command line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile as nvcc would with these arguments, and return an exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if {"--version", "-V"} & set(given):
        print(VERSION)
        return 0
    if not {*ENDINGS, *PREPROCESS} & set(given):
        return build.main(given)
    try:
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")
            status = _compile(given)
        for doubt in doubts:
            print(_in_words(doubt), file=sys.stderr)
        return status
    except (exceptions.Error, _Usage, OSError) as error:
        print(f"nvcc (gpulend): {error}", file=sys.stderr)
        return 1


def _compile(given: list[str]) -> int:
    source = output = ending = None
    options: list[str] = []
    preprocess = False
    words = iter(given)
    for word in words:
        if word in ENDINGS:
            ending = ENDINGS[word]
        elif word in PREPROCESS:
            preprocess = True
        elif word in IGNORED:
            pass
        elif word in ("-o", "--output-file"):
            output = _value(words, word)
        elif word.startswith("--output-file="):
            output = word.partition("=")[2]
        elif word in IGNORED_WITH_VALUE:
            _value(words, word)
        elif _native.takes_next_word(word):
            options += [word, _value(words, word)]
        elif word.startswith("-") and word != "-":
            options.append(word)
        elif source is None:
            source = word
        else:
            raise _Usage(f"two sources, {source!r} and {word!r}; one at a time")
    if source is None:
        raise _Usage("no source; name a .cu file")
    with open(source, encoding="utf-8") as file:
        text = file.read()
    # A file's own folder is where its #include "..." looks first.
    options += ["-I", os.path.dirname(os.path.abspath(source))]
    if preprocess:
        _write(output, _preprocessed(text, source, options))
        return 0
    ptx = build.in_step(compiler.to_ptx(text, file=source, options=options))
    stem = os.path.splitext(os.path.basename(source))[0]
    _write(output or stem + (ending or ""), ptx)
    return 0


def _preprocessed(text: str, source: str, options: list[str]) -> str:
    """Return a substitute for the preprocessed source: programs hash it to detect changes."""
    # The compiler reads what a preprocessor would, and the PTX changes when that changes.
    return f'# 1 "{source}"\n{text}\n' + compiler.to_ptx(text, file=source, options=options)


def _in_words(doubt: warnings.WarningMessage) -> str:
    """Return a warning in a compiler's format, without the Python line that raised it."""
    place, parted, text = str(doubt.message).partition(": ")
    return f"{place}: warning: {text}" if parted else f"warning: {place}"


def _value(words: Iterator[str], option: str) -> str:
    try:
        return next(words)
    except StopIteration:
        raise _Usage(f"{option} wants a value") from None


def _write(path: str | None, text: str) -> None:
    if path is None or path == "-":
        sys.stdout.write(text)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def install() -> str:
    """Return a folder with a program `nvcc` that calls this module with this Python."""
    # Without the current folder, which is the program's and could contain a module named gpulend.
    code = "import sys; sys.path[:] = filter(None, sys.path); from gpulend.nvcc import main; "
    code += "sys.exit(main())"
    script = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n'
    return _programs.put("nvcc", script)


if __name__ == "__main__":
    sys.exit(main())
