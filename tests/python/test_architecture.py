"""What `ARCHITECTURE.md` and `CONTRIBUTING.md` name is in the tree."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PICTURES = re.findall(r"^```text\n(.*?)^```", TEXT, re.S | re.M)
PROSE = re.sub(r"^```.*?^```", "", TEXT, flags=re.S | re.M)
# Capitalised words of a picture that name nothing of ours; all others must be types.
WORDS = {"C", "Mutex", "CMD", "CUDA", "DLPack", "GIL", "GPU", "NVIDIA", "PTX", "Python", "API"}
# Files and functions of others: drivers, C and the frameworks.
FOREIGN = {"atexit", "cuInit", "torch.Tensor", "cupy.ndarray", "libcuda.so.1"}
SPELLING = re.compile(
    r"""(?P<foreign>torch\.Tensor|cupy\.ndarray|libcuda\.so\.1|\batexit\b)
    | (?P<library>\blib\w+\.so\b)
    | (?P<path>\b\w[\w.]*/[\w./]*|\b\w+\.(?:rs|py|h|hpp)\b)
    | (?P<method>\b\w+::\w+)
    | (?P<driver>\bcu[A-Z]\w+)
    | (?P<function>\b[a-z]\w*(?=\(\)))
    | (?P<type>\b[A-Z]\w*)""",
    re.X,
)


@cache
def sources() -> dict[Path, str]:
    """Return every Rust and Python file of the library, with its text."""
    files = [*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("python/gpulend/**/*.py")]
    return {file: file.read_text() for file in files}


def somewhere(pattern: str) -> bool:
    """Say whether a source has a line that matches."""
    return any(re.search(pattern, text, re.M) for text in sources().values())


def is_path(name: str) -> bool:
    """Look from the root, from a crate's sources and from the Python package."""
    name = name.rstrip(".")
    starts = [ROOT, *ROOT.glob("crates/*/src"), *ROOT.glob("crates/*/src/machine")]
    return any((start / name).exists() for start in [*starts, ROOT / "python/gpulend"])


def is_function(name: str) -> bool:
    """Look for its definition."""
    return somewhere(rf"\b(?:fn|def) {name}\b")


def is_type(name: str) -> bool:
    """Look for its definition, by the name that Rust or Python has for it."""
    defined = rf"\b(?:struct|enum|trait|type|union|class) {name}\b"
    return somewhere(defined) or somewhere(rf'#\[pyclass\(.*name = "{name}"')


def is_method(name: str) -> bool:
    """Look for the function in a file that implements the type."""
    kind, _, function = name.partition("::")
    implements = re.compile(rf"^impl(?:<.*?>)? (?:\w+(?:<.*?>)? for )?{kind}\b", re.M)
    defines = re.compile(rf"\bfn {function}\b")
    return any(implements.search(text) and defines.search(text) for text in sources().values())


def is_driver_function(name: str) -> bool:
    """Look in the list of the functions that the core calls."""
    listed = (ROOT / "crates/core/src/driver/functions.rs").read_text()
    return name in FOREIGN or f'"{name}"' in listed


def is_module(name: str) -> bool:
    """Look for a module of the core."""
    return is_path(f"{name}.rs") or is_path(f"{name}/mod.rs")


KINDS = {
    "foreign": lambda name: name in FOREIGN,
    "library": lambda name: somewhere(re.escape(name)),
    "path": is_path,
    "method": is_method,
    "driver": is_driver_function,
    "function": is_function,
    "type": lambda name: name in WORDS or is_type(name),
}


def named_in(text: str) -> set[tuple[str, str]]:
    """Return what a text names, with the kind of each."""
    found = (match for match in SPELLING.finditer(text) if match.lastgroup)
    return {(str(match.lastgroup), match[0]) for match in found}


def missing_from(named: set[tuple[str, str]]) -> list[str]:
    """Return the names that are not there."""
    return sorted(name for kind, name in named if not KINDS[kind](name))


@pytest.mark.parametrize("number", range(4))
def test_what_a_picture_names_is_there(number):
    """Four pictures: the crates, a hand-over, a launch, a release."""
    named = named_in(PICTURES[number])
    assert len(named) >= 8
    assert missing_from(named) == []


def test_there_is_no_sixth_picture():
    """So that none goes unchecked."""
    assert len(PICTURES) == TEXT.count("\n```") // 2 == 5


def test_what_the_sentences_name_is_there():
    """Whatever stands between backticks: a path, a type, a function, a module, or a keyword."""
    names = set(re.findall(r"`([^`]+)`", PROSE))
    assert len(names) >= 30
    missing = []
    for name in sorted(names):
        bare = name.rstrip("=").replace("()", "").split(".")[0] if "/" not in name else name
        spelled = named_in(name) if re.search(r"[A-Z:/]|\(\)|\.\w+$", name) else set()
        if missing_from(spelled) or not (spelled or is_module(bare) or somewhere(rf"\b{bare}\b")):
            missing.append(name)
    assert missing == []


def paths_of(text: str) -> set[str]:
    """Return the paths between backticks that name one file or folder of the tree."""
    words = {word for name in re.findall(r"`([^`\n]+)`", text) for word in name.split()}
    return {word for word in words if "/" in word and not re.search(r"[<>*=…]|^\.venv", word)}


def is_in_the_tree(name: str) -> bool:
    """Look from the root, and where a sentence that names a folder first goes on from there."""
    return is_path(name) or (ROOT / "crates/sim/src/ptx" / name).exists()


def test_the_paths_of_the_contributors_page_are_there():
    """A table of places is worth as much as its paths."""
    paths = paths_of((ROOT / "CONTRIBUTING.md").read_text())
    assert len(paths) >= 60
    built = {"dist/release/upload"}
    assert sorted(path for path in paths - built if not is_in_the_tree(path)) == []


def test_a_path_that_is_not_there_is_noticed():
    """Those with a placeholder name nothing yet."""
    found = paths_of("`crates/absent.rs`, `python/gpulend/adapters/<name>.py` and `make test`")
    assert found == {"crates/absent.rs"}
    assert not is_in_the_tree("crates/absent.rs")


def test_a_name_that_is_not_there_is_noticed():
    """Each kind, once."""
    text = "crates/absent.rs absent.py libabsent.so Absent Lease::absent absent() cuAbsent"
    kinds = {kind for kind, _ in named_in(text)}
    assert kinds == set(KINDS) - {"foreign"}
    assert len(missing_from(named_in(text))) == 7
