"""Device code that object files keep for a later link: `-dc` and `-rdc=true` of `gpulend build`.

An object file has it as LLVM bitcode, in a section that linkers leave out of programs. In the place
of an image stands the part's name. One more object file has the image of all parts that are linked
together, and their names, by which the runtime finds it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpulend import _libdevice, _native
from gpulend._build_options import Order, Refused

# What each part begins with. Archives and `ld -r` put parts one behind another.
MARK = b"gpulend: device code "
# What an image begins with; the runtime knows both lines.
PART = "// gpulend: part "
LINKED = "// gpulend: linked "
# The files that may have parts, by their endings.
READ = (".o", ".obj", ".a")
# Options of linkers, by the letters that stand for them.
LETTERS = {"-l": "-l", "--library": "-l", "-L": "-L", "--library-path": "-L"}
# A definition that other files see.
_NAME = r"[\w$.]+"
_DEFINED = re.compile(
    rf"^(?:@(_Z{_NAME}) = (?!internal|private|external )"
    rf"|define (?!internal|private)[^@\n]*@(_Z{_NAME})\()",
    re.M,
)
# What clang puts behind a name that is its file's own and that the host uses, in code for a later
# link. Where the device used the name earlier, it is declared without.
_BEHIND = re.compile(rf"([@$]{_NAME}?)__(?:static|intern)__[0-9a-f]+\b")
# By this clang keeps kernels, whose addresses not every GPU has; they stay without it, too.
_KEPT = "__clang_gpu_used_external"
_USED = re.compile(
    rf"^(@llvm\.compiler\.used = .*?)\[(\d+) x ptr\] \[(.*)ptr @{_KEPT}\b(.*\n)", re.M
)
# How a name of C++ begins, up to the first that it is made of.
_BEGIN = re.compile(r"_Z(?:N[rVK]*[RO]?)?(?:St)?")
_LENGTH = re.compile(r"\d+")
# A variable that a PTX leaves to other files. The size of `.extern .shared` is the launch's.
_EXTERN = re.compile(rf"^\.extern \.(?:global|const)\b[^;\n]*?({_NAME})(?:\[\d*\])*;", re.M)
# Functions that a driver or CUDA's device runtime has, beside those of C's mathematics.
_KNOWN = {"vprintf", "__assertfail", "malloc", "free", "cudaGraphSetConditional"}
# A variable that several files may define, and all have in common: in PTX, and in LLVM's text.
_SHARED = re.compile(
    rf"^(?:\.weak \.(?:global|const)\b|@{_NAME} = (?:weak|linkonce)\w* [^\n]*\baddrspace\([14]\))",
    re.M,
)
# The host's variable in the place of one of the device.
_SHADOW = re.compile(rf"^(@{_NAME} = internal (?!constant)[^\n]*), comdat(?:\(\${_NAME}\))?", re.M)
# An archive that has the names of its members' files alone begins so. (See `man ar`.)
_THIN = b"!<thin>\n"
_REGISTRATION = """
static const char image[] = {
#embed "%s"
};
static const struct { int magic, version; const void *data; void *unused; }
    wrapper = {0x466243b1, 1, image, 0};
void **__cudaRegisterFatBinary(const void *);
void __cudaUnregisterFatBinary(void **);
static void **handle;
__attribute__((constructor)) static void begin(void) {
    handle = __cudaRegisterFatBinary(&wrapper);
}
__attribute__((destructor)) static void end(void) { __cudaUnregisterFatBinary(handle); }
"""


@dataclass(frozen=True)
class Part:
    """The device code of a file."""

    name: str
    older: bool
    """It is for GPUs before Volta alone."""
    code: bytes


def name_of(file: str, output: str, order: Order, text: str) -> str:
    """Return the name of a file's part, another one for each of its object files.

    Of the same file and name they may be built with other options, and renamed.
    """
    options = order.flags, order.device, order.host, order.architectures
    about = os.path.abspath(file), os.path.abspath(output), options, text
    return hashlib.sha256(repr(about).encode()).hexdigest()[:16]


def with_own_names(text: str, part: str) -> str:
    """Return LLVM's text with the part's name behind what is the file's own.

    Two files may have a `static` variable or kernel of the same name. The runtime looks for a name
    with that of the part, too.
    """
    text = _without_addresses(text)
    names = {name for found in _DEFINED.findall(text) for name in found}
    own = {name for name in names if _is_own(name)}
    if marked := {found[1:] for found in _BEHIND.findall(text)}:
        own |= marked
        text = _BEHIND.sub(r"\1", text)
        declared = re.compile(rf"^@({_NAME}) = external [^\n]*\n", re.M)
        text = declared.sub(lambda x: "" if x[1] in marked else x[0], text)
    if not own:
        return text
    named = rf"([@$])({_NAME})"
    return re.sub(named, lambda x: f"{x[0]}__{part}" if x[2] in own else x[0], text)


def _without_addresses(text: str) -> str:
    """Return LLVM's text without the variable that has the addresses of its kernels."""

    def without(found: re.Match[str]) -> str:
        # The last of the list, or what is before others.
        others, rest = found[3].removesuffix(", "), found[4]
        if not others:
            rest = rest.removeprefix(", ")
        fewer = int(found[2]) - 1
        return f"{found[1]}[{fewer} x ptr] [{others}{rest}" if fewer else ""

    text = _USED.sub(without, text)
    return re.sub(rf"^@{_KEPT} = .*\n", "", text, flags=re.M)


def _is_own(name: str) -> bool:
    """Return whether a name of C++ says that it is its file's own.

    clang makes it visible to other files where the host uses it.
    """
    if "_GLOBAL__N_1" in name:
        return True
    if (begin := _BEGIN.match(name)) is None:
        return False
    # An L before a name marks one that is its file's own; within a name it is a letter like others.
    at = begin.end()
    while length := _LENGTH.match(name, at):
        at = length.end() + int(length[0])
    return name.startswith("L", at)


def undefined(ptx: str) -> list[str]:
    """Return the functions and variables that a PTX uses and nobody defines, as C++ writes them."""
    names = {*_libdevice.EXTERN.findall(ptx), *_EXTERN.findall(ptx)}
    left = names - _KNOWN - _libdevice.FUNCTIONS.keys()
    return sorted(_native.demangled(name) or name for name in left)


def has_shared_variables(text: str) -> bool:
    """Return whether device code has `inline` variables, or variables of templates."""
    return _SHARED.search(text) is not None


def with_own_shadows(host: str) -> str:
    """Return LLVM's text of the host with shadows that linkers keep for each file.

    clang puts that of an `inline` variable into a group of which linkers keep one, and makes its
    name the file's own: what is left in the others names nothing.
    """
    return _SHADOW.sub(r"\1", host)


def packed(part: Part) -> bytes:
    """Return what an object file keeps of a part."""
    about = {"name": part.name, "older": part.older, "bytes": len(part.code)}
    return MARK + json.dumps(about).encode() + b"\n" + part.code


def parts(files: Iterable[str]) -> list[Part]:
    """Return the parts of object files and archives that no image among them has yet."""
    found: dict[str, Part] = {}
    linked: set[str] = set()
    for file, content in _contents(files):
        for part in _parts(content):
            if found.setdefault(part.name, part) != part:
                raise Refused(
                    f"{file} has other device code under a name that is taken; compile it again"
                )
        for line in re.findall(re.escape(LINKED.encode()) + rb"([0-9a-f ]+)\n", content):
            linked |= set(line.decode().split())
    return [part for name, part in found.items() if name not in linked]


def _contents(files: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Return the files with what is in them, and those that thin archives name in their place."""
    for file in files:
        with open(file, "rb") as opened:
            content = opened.read()
        if content.startswith(_THIN):
            yield from _contents(_members(file, content))
        else:
            yield file, content


def _members(file: str, content: bytes) -> list[str]:
    """Return the files that a thin archive names."""
    found = []
    table = b""
    at = len(_THIN)
    while at + 60 <= len(content):
        name, size = content[at : at + 16].rstrip(), int(content[at + 48 : at + 58])
        at += 60
        if name in (b"/", b"//", b"/SYM64/"):
            if name == b"//":
                table = content[at : at + size]
            at += size + size % 2
            continue
        if place := re.match(rb"/(\d+)", name):
            # Behind a colon is a place in that file, which is an archive.
            name = table[int(place[1]) :].partition(b"\n")[0]
        found.append(os.path.join(os.path.dirname(file), os.fsdecode(name.removesuffix(b"/"))))
    return list(dict.fromkeys(found))


def _parts(content: bytes) -> Iterator[Part]:
    for found in re.finditer(re.escape(MARK) + rb"(\{[^\n]*\})\n", content):
        about = json.loads(found[1])
        code = content[found.end() : found.end() + about["bytes"]]
        yield Part(about["name"], about["older"], code)


def archives(words: list[str]) -> list[str]:
    """Return the object files and archives that a linker would read, by its words."""
    words = list(_linker_words(words))
    folders = [word[2:] for word in words if word.startswith("-L")]
    files = []
    shared = [".so"]
    for word in words:
        if word in ("-Bstatic", "-Bdynamic"):
            shared = [".so"] if word == "-Bdynamic" else []
        elif word.startswith("-l"):
            names = [f"lib{word[2:]}{ending}" for ending in (*shared, ".a")]
            if word.startswith("-l:"):
                names = [word[3:]]
            every = (os.path.join(folder, name) for folder in folders for name in names)
            first = next(filter(os.path.isfile, every), "")
            files += [first] if first.endswith(READ) else []
        elif word.endswith(READ) and not word.startswith("-"):
            files.append(word)
    return list(dict.fromkeys(files))


def _linker_words(words: Iterable[str]) -> Iterator[str]:
    """Return what the linker gets, with values behind the letters of their options."""
    plain = (
        each
        for word in words
        for each in (word[4:].split(",") if word.startswith("-Wl,") else [word])
    )
    for word in plain:
        name, equals, value = word.partition("=")
        if letter := LETTERS.get(name):
            yield letter + (value if equals else next(plain, ""))
        else:
            yield word


def registration(image: str) -> str:
    """Return a program of C that registers an image."""
    return _REGISTRATION % image
