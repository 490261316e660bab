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

from gpulend._build_options import Order, Refused

# What each part begins with. Archives and `ld -r` put parts one behind another.
MARK = b"gpulend: device code "
# What an image begins with; the runtime knows both lines.
PART = "// gpulend: part "
LINKED = "// gpulend: linked "
# A definition that other files see.
_NAME = r"[\w$.]+"
_DEFINED = re.compile(
    rf"^(?:@(_Z{_NAME}) = (?!internal|private|external )"
    rf"|define (?!internal|private)[^@\n]*@(_Z{_NAME})\()",
    re.M,
)
# How a name of C++ begins, up to the first that it is made of.
_BEGIN = re.compile(r"_Z(?:N[rVK]*[RO]?)?(?:St)?")
_LENGTH = re.compile(r"\d+")
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
    own = {name for found in _DEFINED.findall(text) for name in found if _is_own(name)}
    if not own:
        return text
    named = rf"([@$])({_NAME})"
    return re.sub(named, lambda x: f"{x[0]}__{part}" if x[2] in own else x[0], text)


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


def packed(part: Part) -> bytes:
    """Return what an object file keeps of a part."""
    about = {"name": part.name, "older": part.older, "bytes": len(part.code)}
    return MARK + json.dumps(about).encode() + b"\n" + part.code


def parts(files: Iterable[str]) -> list[Part]:
    """Return the parts of object files and archives that no image among them has yet."""
    found: dict[str, Part] = {}
    linked: set[str] = set()
    for file in files:
        with open(file, "rb") as opened:
            content = opened.read()
        for part in _parts(content):
            if found.setdefault(part.name, part) != part:
                raise Refused(
                    f"{file} has other device code under a name that is taken; compile it again"
                )
        for line in re.findall(re.escape(LINKED.encode()) + rb"([0-9a-f ]+)\n", content):
            linked |= set(line.decode().split())
    return [part for name, part in found.items() if name not in linked]


def _parts(content: bytes) -> Iterator[Part]:
    for found in re.finditer(re.escape(MARK) + rb"(\{[^\n]*\})\n", content):
        about = json.loads(found[1])
        code = content[found.end() : found.end() + about["bytes"]]
        yield Part(about["name"], about["older"], code)


def archives(words: list[str]) -> list[str]:
    """Return the object files and archives that a linker would read, by its words."""
    folders = [word[2:] for word in words if word.startswith("-L")]
    files = [word for word in words if word.endswith((".o", ".obj", ".a")) and word[0] != "-"]
    for word in words:
        if word.startswith("-l"):
            shared, static = f"lib{word[2:]}.so", f"lib{word[2:]}.a"
            both = (os.path.join(each, name) for each in folders for name in (shared, static))
            first = next(filter(os.path.isfile, both), "")
            files += [first] if first.endswith(".a") else []
    return list(dict.fromkeys(files))


def registration(image: str) -> str:
    """Return a program of C that registers an image."""
    return _REGISTRATION % image
