"""The command line of `gpulend build`, with options as nvcc has them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpulend._suggestions import did_you_mean

LANGUAGES = {
    **dict.fromkeys((".cu",), "cuda"),
    **dict.fromkeys((".c",), "c"),
    **dict.fromkeys((".cpp", ".cc", ".cxx", ".C", ".c++"), "c++"),
}
LINKED = (".o", ".a", ".so", ".obj")

# Options of nvcc, gcc and clang that the compilers get as they are.
KEPT = re.compile(
    r"-(?:std=.*|O[0-3sg]?|Ofast|g[0-9]?|w|W(?!l,|a,|p,).*|f.*|m(?!axrregcount).*|pedantic.*|ansi)"
)
KEPT_WITH_VALUE = ("-I", "-isystem", "-D", "-U", "-include", "-iquote")
LONG = {
    "--include-path": "-I",
    "--system-include": "-isystem",
    "--define-macro": "-D",
    "--undefine-macro": "-U",
    "--pre-include": "-include",
    "--library": "-l",
    "--library-path": "-L",
    "--output-file": "-o",
    "--optimize": "-O",
    "--std": "-std",
    "--compiler-options": "-Xcompiler",
    "--linker-options": "-Xlinker",
    "--x": "-x",
    "--gpu-architecture": "-arch",
    "--gpu-code": "-code",
    "--generate-code": "-gencode",
    "--maxrregcount": "-maxrregcount",
    "--ptxas-options": "-Xptxas",
    "--nvlink-options": "-Xnvlink",
    "--compiler-bindir": "-ccbin",
    "--cudart": "-cudart",
    "--default-stream": "-default-stream",
    "--relocatable-device-code": "-rdc",
    "--threads": "-t",
    "--diag-suppress": "-diag-suppress",
    **{f"-{name}": name for name in ("-ftz", "-prec-div", "-prec-sqrt", "-fmad")},
}
# They name what is the same for every program here: one PTX for all GPUs, one runtime.
IGNORED = {
    *("-lineinfo", "--generate-line-info", "-G", "--device-debug", "-keep", "--keep", "-res-usage"),
    *("--resource-usage", "-m64", "--expt-relaxed-constexpr", "-expt-relaxed-constexpr"),
    *("--expt-extended-lambda", "-expt-extended-lambda", "--extended-lambda", "-extended-lambda"),
    *("-restrict", "--restrict", "--disable-warnings", "-allow-unsupported-compiler"),
    *("--allow-unsupported-compiler", "-cudart=shared", "-cudart=static", "--no-align-double"),
    *("-forward-unknown-to-host-compiler", "--forward-unknown-to-host-compiler", "-link", "--link"),
}
IGNORED_WITH_VALUE = (
    *("-arch", "-code", "-gencode", "-maxrregcount", "-Xptxas", "-Xnvlink", "-ccbin", "-cudart"),
    *("-t", "-diag-suppress", "-Xcudafe", "-keep-dir", "-odir"),
)
# Options of nvcc, which are no -o or -l with a value joined to it.
NOT_JOINED = ("-objtemp", "-opt-info", "-lto", "-ltoir")
OPTIONS_FILE = ("-optf", "--options-file")
# All of them are PTX as text, which drivers load like the others.
IMAGES = ("ptx", "cubin", "fatbin")
# What makes stream 0 the calling thread's own.
PER_THREAD = "CUDA_API_PER_THREAD_DEFAULT_STREAM"
# Part of the program anyway.
OWN_LIBRARIES = ("cudart", "cudart_static", "cudadevrt", "gpulend_rt")
ARITHMETIC = ("-ftz", "-prec-div", "-prec-sqrt", "-fmad")


class Refused(Exception):
    """A wrong command line, or a tool that is missing; the text says what to do."""


@dataclass
class Order:
    """What is to be built."""

    inputs: list[tuple[str, str]] = field(default_factory=list)
    """Sources with their languages, and the linker's words with none, in the order given."""
    output: str | None = None
    goal: str = "link"
    """`link`, `compile`, `device link` or `ptx`."""
    ending: str = ".ptx"
    shared: bool = False
    flags: list[str] = field(default_factory=list)
    """For every compilation."""
    device: list[str] = field(default_factory=list)
    """For the device's compilations alone."""
    host: list[str] = field(default_factory=list)
    relocatable: bool = False
    per_thread: bool = False
    """Stream 0 is the calling thread's own."""
    architectures: list[int] = field(default_factory=list)
    """Those that the program was written for; the code is the same."""
    verbose: bool = False
    dry: bool = False


def read(arguments: Sequence[str]) -> Order:
    """Return the order that command-line arguments stand for."""
    order = Order()
    language = None
    words = _Words(_expanded(arguments))
    for word in words:
        if not word.startswith("-") or word == "-":
            order.inputs.append((word, language or _language(word)))
        elif word in ("-c", "--compile"):
            order.goal = "compile"
        elif word.lstrip("-") in IMAGES:
            order.goal, order.ending = "ptx", "." + word.lstrip("-")
        elif word in ("-shared", "--shared"):
            order.shared = True
        elif word in ("-v", "--verbose", "-n", "--dryrun", "-dryrun"):
            order.verbose, order.dry = True, order.dry or word not in ("-v", "--verbose")
        elif word in ("-dc", "--device-c", "-dw", "--device-w"):
            order.goal, order.relocatable = "compile", word in ("-dc", "--device-c")
        elif word in ("-dlink", "--device-link"):
            order.goal = "device link"
        elif word in ("-use_fast_math", "--use_fast_math"):
            order.device += [
                "-D__GPULEND_FAST_MATH",
                "-ffast-math",
                "-fgpu-flush-denormals-to-zero",
                # Or clang would make instructions of functions that only a library has.
                "-fmath-errno",
            ]
        elif word in ("-lib", "--lib"):
            raise Refused(f"{word} is not supported; ar makes libraries")
        elif (name := words.option(word, ARITHMETIC)) is not None:
            order.device += _arithmetic(name, words.value(name))
        elif word in IGNORED:
            pass
        elif not _read_with_value(order, words, word):
            if words.option(word, ("-x",)):
                named = words.value("-x")
                language = {"cu": "cuda", "cuda": "cuda", "c": "c", "c++": "c++"}.get(named)
                if language is None:
                    raise Refused(f"unknown language {named!r} of -x; give cu, c or c++")
            elif KEPT.fullmatch(word) or word in ("-MD", "-MMD", "-MP", "-pthread", "-pipe"):
                order.flags.append(word)
            else:
                known = [
                    *KEPT_WITH_VALUE,
                    *LONG,
                    *IGNORED,
                    *IGNORED_WITH_VALUE,
                    *OPTIONS_FILE,
                    "-shared",
                    "-rdc",
                ]
                raise Refused(f"there is no option {word}{did_you_mean(word, known)}")
    options = " ".join([*order.flags, *order.host])
    order.per_thread = re.search(rf"(?:^| )-D ?{PER_THREAD}\b", options) is not None
    _check(order)
    return order


def _check(order: Order) -> None:
    """Refuse what cannot be made."""
    sources = [file for file, kind in order.inputs if kind]
    if not sources and not any(file.endswith(LINKED) for file, _ in order.inputs):
        raise Refused("no source; name a .cu file")
    if order.goal in ("compile", "ptx") and not sources:
        raise Refused("-c and --ptx want a source; an object file is linked without them")
    if order.output and order.goal != "link" and len(sources) > 1:
        raise Refused("-o with -c or --ptx names one output; give one source")
    if sources and order.goal == "device link":
        raise Refused("-dlink wants object files; compile sources with -dc")
    if order.output is not None:
        for file in sources:
            if os.path.realpath(file) == os.path.realpath(order.output):
                raise Refused(f"the output {order.output} is a source")


def _expanded(arguments: Sequence[str]) -> Iterator[str]:
    """Return the words, with those of a file in the place of `@file` and `-optf file`."""
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in OPTIONS_FILE:
            value = value if equals else next(words, "")
            if not value:
                raise Refused(f"{name} wants a value")
            files = value.split(",")
        elif word.startswith("@"):
            files = [word[1:]]
        else:
            yield word
            continue
        for file in files:
            try:
                # Files that name files are not read: one could name itself.
                yield from shlex.split(Path(file).read_text(encoding="utf-8"))
            except ValueError as error:
                raise Refused(f"{file} cannot be read: {error}") from error


def _read_with_value(order: Order, words: _Words, word: str) -> bool:
    """Take an option that has a value, joined to it or as the next word; return whether it did."""
    # First: one of them begins as -o does.
    if (name := words.option(word, IGNORED_WITH_VALUE)) is not None:
        found = re.findall(r"(?:sm|compute)_(\d+)", words.value(name))
        order.architectures += map(int, found)
    elif (name := words.option(word, ("-o",))) is not None:
        order.output = words.value(name)
    elif (name := words.option(word, ("-Xcompiler",))) is not None:
        order.host += words.values(name)
    elif (name := words.option(word, ("-Xlinker",))) is not None:
        order.inputs += [(f"-Wl,{value}", "") for value in words.values(name)]
    elif (name := words.option(word, ("-std", "-O"))) is not None:
        order.flags.append(f"{name}{'=' if name == '-std' else ''}{words.value(name)}")
    elif (name := words.option(word, ("-MF", "-MT", "-MQ"))) is not None:
        order.flags += [name, words.value(name)]
    elif (name := words.option(word, ("-rdc",))) is not None:
        order.relocatable = _one_of(name, words.value(name), ("true", "false")) == "true"
    elif (name := words.option(word, ("-default-stream",))) is not None:
        kinds = ("legacy", "null", "per-thread")
        if _one_of(name, words.value(name), kinds) == "per-thread":
            order.flags += ["-D", PER_THREAD]
    elif (name := words.option(word, ("-l", "-L"))) is not None:
        value = words.value(name)
        if not (name == "-l" and value in OWN_LIBRARIES):
            order.inputs.append((name + value, ""))
    elif (name := words.option(word, KEPT_WITH_VALUE)) is not None:
        order.flags += [name, words.value(name)]
    elif word.startswith("-Wl,"):
        order.inputs.append((word, ""))
    else:
        return False
    return True


def _language(file: str) -> str:
    ending = os.path.splitext(file)[1]
    if ending in LANGUAGES:
        return LANGUAGES[ending]
    if ending in LINKED or ".so." in os.path.basename(file):
        return ""
    raise Refused(
        f"{file!r} is neither CUDA, C or C++ nor an object file or library, by its ending"
    )


def _one_of(name: str, value: str, wanted: Sequence[str]) -> str:
    """Return the value of an option that has only some."""
    if value not in wanted:
        *most, last = wanted
        raise Refused(f"{name} is {', '.join(most)} or {last}, not {value!r}")
    return value


def _arithmetic(name: str, value: str) -> list[str]:
    is_on = _one_of(name, value, ("true", "false")) == "true"
    if name == "-fmad":
        return [f"-ffp-contract={'fast' if is_on else 'off'}"]
    if name == "-ftz" and is_on:
        return ["-fgpu-flush-denormals-to-zero"]
    # Divisions and roots are exact in any case.
    return []


class _Words:
    """The words of a command line, one after another."""

    def __init__(self, arguments: Iterable[str]) -> None:
        self._rest = list(arguments)
        self._joined: str | None = None

    def __iter__(self) -> Iterator[str]:
        while self._rest:
            word = self._rest.pop(0)
            name, equals, value = word.partition("=")
            if name in LONG:
                word = LONG[name]
                self._joined = value if equals else None
            yield word
            self._joined = None

    def option(self, word: str, names: Sequence[str]) -> str | None:
        """Return which of the options this is, if it is one: `-Ifolder` is `-I`."""
        for name in sorted(names, key=len, reverse=True):
            if word == name:
                return name
            # Long names take their value after an equals sign; letters take it at once.
            if word.startswith(name + "=") and len(name) > 2:
                self._joined = word[len(name) + 1 :]
                return name
            is_joined = word.startswith(name) and len(name) == 2 and word not in NOT_JOINED
            # A number of threads has digits only: other words that begin so are other options.
            if is_joined and (name != "-t" or re.fullmatch(r"=?\d+", word[2:])):
                self._joined = word[2:]
                return name
        return None

    def value(self, option: str) -> str:
        """Return the value of the option that was read last."""
        if self._joined is not None:
            return self._joined
        if not self._rest:
            raise Refused(f"{option} wants a value")
        return self._rest.pop(0)

    def values(self, option: str) -> list[str]:
        """Return its values, which commas separate."""
        return [value for value in re.split(r"[,\s]", self.value(option).strip("\"'")) if value]
