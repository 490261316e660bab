"""What the docstrings show is what happens."""

from __future__ import annotations

import doctest
import re
import runpy
import sys
from pathlib import Path

import gpulend
import pytest
from gpulend import _ledger, _native, adapters
from machines import start

OBJECTS = [
    (gpulend, "gpulend"),
    (_ledger, "gpulend._ledger"),
    (_native.describe, "gpulend.describe"),
    (_ledger.ledger, "gpulend.ledger"),
    (gpulend.Lease, "gpulend.Lease"),
    (gpulend.Lease.pointer, "gpulend.Lease.pointer"),
    (gpulend.Dtype, "gpulend.Dtype"),
    (gpulend.Device, "gpulend.Device"),
    (gpulend.borrow, "gpulend.borrow"),
    (gpulend.wrap, "gpulend.wrap"),
    (gpulend.lend, "gpulend.lend"),
]
# doctest finds native methods by no means of its own.
METHODS = [
    (method, f"gpulend.{kind.__name__}.{name}")
    for kind in (gpulend.Lease, gpulend.Dtype, gpulend.Device)
    for name, method in sorted(vars(kind).items())
    if ">>>" in (method.__doc__ or "") and name != "pointer"
]
WITHOUT_EXAMPLES = ("gpulend._ledger",)
# What chooses a driver does so for its whole process.
CHOOSING = [
    "gpulend:simulate",
    "gpulend.simulator:library",
    "gpulend.simulator:driver_folder",
    "gpulend.simulator:report",
    "gpulend.simulator:faults",
    "gpulend:Stream",
    "gpulend:current_stream",
    "gpulend:empty",
    "gpulend:zeros",
    "gpulend:full",
    "gpulend:empty_like",
    "gpulend:from_host",
    "gpulend:compile",
    "gpulend:Module.variable",
    "gpulend:Kernel",
    "gpulend:Kernel.forall",
    "gpulend:Kernel.signature",
    "gpulend:timed",
    "gpulend:elementwise",
    "gpulend:reduction",
    "gpulend:zeros_like",
    "gpulend:is_available",
    "gpulend:device_count",
    "gpulend:mem_get_info",
    "gpulend:memory",
    "gpulend:capture",
    "gpulend:Copy",
    "gpulend:Event.elapsed",
    "gpulend:Stream.priority_range",
    "gpulend:Kernel.occupancy",
    "gpulend:Kernel.best_size",
    "gpulend._elements:encode",
]


@pytest.mark.parametrize(("thing", "name"), OBJECTS + METHODS, ids=lambda value: str(value)[:40])
def test_the_examples_of_a_docstring_are_true(thing, name):
    """Every example in a docstring runs and prints what it says."""
    test = doctest.DocTestParser().get_doctest(thing.__doc__ or "", {}, name, None, 0)
    if name not in WITHOUT_EXAMPLES:
        assert test.examples, f"{name} shows no example"
    report = []
    runner = doctest.DocTestRunner()
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)
    test.globs.clear()


@pytest.mark.parametrize("name", CHOOSING)
def test_the_examples_of_what_chooses_a_driver_are_true(name):
    """As above, each in a process of its own."""
    program = (
        "import doctest, pkgutil, sys\n"
        "import gpulend, numpy as np\n"
        f"text = pkgutil.resolve_name({name!r}).__doc__\n"
        "from gpulend._elements import encode\n"
        "names = {'np': np, 'encode': encode}\n"
        "test = doctest.DocTestParser().get_doctest(text, names, 'example', None, 0)\n"
        "assert test.examples\n"
        "flags = doctest.ELLIPSIS\n"
        "sys.exit(doctest.DocTestRunner(optionflags=flags).run(test).failed)\n"
    )
    done = start([sys.executable, "-c", program], GPULEND_DEVICE="auto")
    assert done.stdout == ""


def test_the_documents_link_to_what_is_there():
    """Each relative link leads to a file, and to a heading of it where it names one."""
    root = Path(__file__).parents[2]
    folders = (".", "docs", "docs/*", "examples", "benches")
    broken, found = [], 0
    for page in (page for folder in folders for page in root.glob(f"{folder}/*.md")):
        prose = re.sub(r"```.*?```|`[^`\n]*`(?!\]\()", "", page.read_text(), flags=re.S)
        for link in re.findall(r"\]\((?!https?:)([^)\n]+)\)", prose):
            found += 1
            name, _, heading = link.partition("#")
            target = page.parent / name if name else page
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.M) if heading else []
            anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            if not target.exists() or (heading and heading not in anchors):
                broken.append(f"{page.name}: {link}")
    assert broken == []
    assert found > 60


def test_the_documents_name_files_that_are_there():
    """Paths from the root; sources of Rust without `src`, and tests, by the end of their paths."""
    root = Path(__file__).parents[2]
    files = [*root.glob("tests/**/*.py"), *root.glob("crates/**/*.rs")]
    ends = "\n".join(file.relative_to(root).as_posix().replace("/src/", "/") for file in files)
    missing, found = [], 0
    for page in [*root.glob("*.md"), *root.glob("docs/**/*.md")]:
        for name in re.findall(r"`([\w./*<>-]+)`", page.read_text()):
            from_root = re.match(r"(?:crates|docs|examples|include|python|scripts|tests)/", name)
            by_end = re.fullmatch(r"(?:[\w/]+/)?(?:test_\w+\.py|\w+\.rs)", name)
            if not (from_root or by_end):
                continue
            found += 1
            there = by_end and re.search(rf"/{re.escape(name)}$", ends, re.M)
            if not there and not list(root.glob(re.sub(r"<\w+>\*?", "*", name).rstrip("/"))):
                missing.append(f"{page.name}: {name}")
    assert missing == []
    assert found > 200


def test_the_description_for_pypi_is_the_readme():
    """Without links that lead into the clone, which PyPI does not have."""
    root = Path(__file__).parents[2]
    made = runpy.run_path(str(root / "scripts/description.py"))["description"]()
    assert made == (root / "python/README.md").read_text(), "run: python scripts/description.py"
    assert re.findall(r"\]\((?!https?:|#)[^)]*\.\w+\)", made) == []


def test_every_dependency_has_a_row():
    """`docs/dependencies.md` says of each which crates use it, and why."""
    root = Path(__file__).parents[2]
    used: dict[str, set[str]] = {}
    for manifest in root.glob("crates/*/Cargo.toml"):
        table = re.search(r"^\[dependencies\]\n(.*?)(?=^\[|\Z)", manifest.read_text(), re.S | re.M)
        for name in re.findall(r"^([\w-]+)", table[1], re.M) if table else ():
            if not name.startswith("gpulend"):
                crate = re.sub("^cranelift-.*", "cranelift", name)
                used.setdefault(crate, set()).add(manifest.parent.name)
    table = (root / "docs/dependencies.md").read_text().partition("|---|---|---|")[2]
    text = table.partition("\n\n")[0]
    rows = re.findall(r"^\| ([\w-]+)(?: \([^)]*\))? \| ([a-z, ]+) \|", text, re.M)
    listed = {name: set(crates.split(", ")) for name, crates in rows if crates != "tests"}
    assert len(rows) == len(dict(rows))
    assert listed == used


def test_every_framework_has_a_row():
    """`docs/frameworks.md` has each framework that one can lend to, and of no other."""
    text = (Path(__file__).parents[2] / "docs/frameworks.md").read_text()
    assert re.findall(r"^\| `([\w.]+)` \|", text, re.M) == list(adapters.FRAMEWORKS)


def test_every_file_with_unsafe_code_is_listed():
    """`SAFETY.md` names each file that holds some, and no other."""
    root = Path(__file__).parents[2]
    holding = {
        path.relative_to(root / "crates").as_posix().replace("/src", "")
        for path in (root / "crates").glob("*/src/**/*.rs")
        if re.search(
            r"^[^/\n]*\bunsafe (?:\{|impl|(?:extern \"C\" )?fn [\w$])", path.read_text(), re.M
        )
    }
    listed = set()
    for row in re.findall(r"^\| (`.*?`) \|", (root / "SAFETY.md").read_text(), re.M):
        first, *others = re.findall(r"`([a-z_/]+\.rs)`", row)
        # Only the first of a row names the folder.
        listed |= {first, *(str(Path(first).with_name(name)) for name in others)}
    assert holding == listed
