"""Lays out the pages of the site below target/pages, builds it with Zensical, and checks its links.

Pages are the documents of this repository: docs/, and what is outside it, with links rewritten.
Some are made here: the API from docstrings, the examples, the headers of C and C++.
"""

from __future__ import annotations

import argparse
import html.parser
import inspect
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "target/pages"
SITE = ROOT / "site"
# Documents outside docs/, and where they are on the site.
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SAFETY.md": "safety.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changes.md",
    "examples/README.md": "examples/index.md",
    "benches/README.md": "speed.md",
}
# Sources that have a page: their folders or files, title, and language.
SOURCES = {
    "include/gpulend.h": ("reference/c-header.md", "gpulend.h", "c"),
    "include/gpulend.hpp": ("reference/cpp-header.md", "gpulend.hpp", "cpp"),
    "crates/core/examples/vector_add.rs": ("reference/rust-program.md", "vector_add.rs", "rust"),
}
PROGRAMS = "tests/c/examples"
CRATES = {
    "gpulend": "leases, order, compiling and launching: what Python and C translate to",
    "gpulend_sim": "the simulated GPU",
    "gpulend_capi": "the functions of `gpulend.h`",
}
EXPLANATIONS = ROOT / "python/gpulend/explanations.md"
LANGUAGES = {".py": "python", ".c": "c", ".cpp": "cpp", ".txt": "cmake"}
# The public names of Python, as the API shows them; one that is missing here fails the build.
API = {
    "memory": (
        "Memory",
        "Leases, and the functions that make and describe them.",
        "borrow wrap lend empty zeros full empty_like zeros_like from_host describe Lease Dtype"
        " Device Passport is_available device_count mem_get_info memory Memory"
        " pool.use pool.Use pool.trim pool.limit pool.set_limit pool.reset_peak pool.is_on"
        " pool.set_mode",
    ),
    "order": (
        "Streams and events",
        "What orders work on a GPU.",
        "Stream Event Copy current_stream synchronize timed capture Graph",
    ),
    "kernels": (
        "Modules and kernels",
        "CUDA C++ on arrays of any framework.",
        "compile elementwise reduction Module Kernel Launcher Elementwise Reduction"
        " torch.op jax.call operations.Array",
    ),
    "ledger": ("Ledger", "Who holds what.", "ledger Ledger LedgerEntry"),
    "tickets": (
        "Other processes",
        "[Leases for other processes](../processes.md) of this machine.",
        "Ticket tickets claim claims",
    ),
    "exceptions": (
        "Exceptions",
        "Each is a `gpulend.Error` and a builtin too. [Errors](../errors.md) lists the codes.",
        "Error LayoutError OutOfRangeError ProtocolError ExportError AddressError ReleasedError"
        " StillLentError CompileError KernelError SignatureError NoDeviceError DriverError"
        " OutOfMemoryError TicketError TicketExpiredError TicketVersionError WrongMachineError"
        " NotPermittedError LenderGoneError DeviceNotVisibleError NotShareableError CompileWarning"
        " SecondModuleWarning",
    ),
    "simulator": (
        "Simulated GPU and compiler",
        "What chooses the simulated GPU, and what compiles for it.",
        "simulate simulator.library simulator.driver_folder simulator.report simulator.faults"
        " compiler.to_ptx",
    ),
    "adapters": (
        "Frameworks of other packages",
        "[How a package describes its framework](../frameworks.md#frameworks-of-other-packages).",
        "register adapters.Framework adapters.Adapter adapters.Producer adapters.Consumer"
        " adapters.Probe",
    ),
    "config": ("ctypes: C from Python", "See [C, C++ and ctypes](../c.md).", "config ctypes_api"),
}


def homes() -> dict[Path, Path]:
    """Return the path on the site of each document."""
    docs = ROOT / "docs"
    found = {path: path.relative_to(docs) for path in docs.rglob("*") if path.is_file()}
    found |= {ROOT / source: Path(page) for source, page in OUTSIDE.items()}
    found |= {ROOT / source: Path(page) for source, (page, _, _) in SOURCES.items()}
    found |= {path: Path(f"examples/{path.stem}.md") for path in examples()}
    found[ROOT / "examples/h200.json"] = Path("examples/h200.json")
    found[ROOT / PROGRAMS] = Path("reference/c-programs.md")
    return found


def examples() -> list[Path]:
    """Return the fifteen examples, and the programs of several processes."""
    return sorted(set((ROOT / "examples").glob("*.py")) - {ROOT / "examples/gallery.py"})


def rewrite(text: str, source: Path, found: dict[Path, Path]) -> str:
    """Point the links of a document to where their targets are on the site."""
    here = found[source].parent

    def link(match: re.Match[str]) -> str:
        name, hash_sign, heading = match[1].partition("#")
        if not name:
            return match[0]
        target = (source.parent / name).resolve()
        # What is in a folder that has a page is on that page.
        shown = next((it for it in (target, *target.parents) if it in found), None)
        if shown is None:
            raise SystemExit(f"{source.relative_to(ROOT)}: {match[1]} has no page on the site")
        return f"]({os.path.relpath(found[shown], here)}{hash_sign}{heading})"

    # Code keeps its brackets.
    parts = re.split(r"(^ *```.*?^ *```|`[^`\n]+`(?!\]\())", text, flags=re.S | re.M)
    pattern = r"\]\((?![a-z]+:)([^)\s]+)\)"
    return "".join(part if n % 2 else re.sub(pattern, link, part) for n, part in enumerate(parts))


def with_marks(text: str) -> str:
    """Say which blocks are not run, and leave out what the tests need for the others."""
    text = re.sub(
        r"^<!-- not run: (.*?) -->\n", r"*Not run in the tests: \1.*\n\n", text, flags=re.M
    )
    return re.sub(r"^<!-- (?:setup|new process).*?-->\n", "", text, flags=re.M | re.S)


def put(page: Path, text: str) -> None:
    """Write a page, unless it says the same already: a server builds only what changed."""
    path = PAGES / page
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def lay_out(rust: Path | None = None) -> None:
    """Write every page below target/pages."""
    put(Path("reference/rust-api.md"), rust_page(rust))
    found = homes()
    for source, page in found.items():
        if source.suffix == ".md":
            text = rewrite(with_marks(source.read_text()), source, found)
            put(page, with_links(text) if page.name == "errors.md" else text)
        elif source.suffix in (".png", ".svg", ".css", ".json"):
            (PAGES / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, PAGES / page)
    for source, (name, title, language) in SOURCES.items():
        put(Path(name), f"# {title}\n\n```{language}\n{(ROOT / source).read_text()}```\n")
    for path in examples():
        put(found[path], example_page(path))
    files = sorted(path for path in (ROOT / PROGRAMS).rglob("*") if path.suffix in LANGUAGES)
    programs = "".join(program_section(path) for path in files)
    put(found[ROOT / PROGRAMS], f"# Programs in C and C++\n\nEach runs in the tests.\n{programs}")
    for name, page in api_pages().items():
        put(Path(f"reference/{name}.md"), page)
    for name, page in error_pages().items():
        put(Path(f"errors/{name}.md"), page)


def with_links(text: str) -> str:
    """Give each row of the table of codes an anchor, errors.html#e821, and a link to its class."""
    row = r'| <span id="e\1"></span>[\1](errors/\2.md#e\1) | `\2` |'
    return re.sub(r"^\| (\d+) \| `(\w+)` \|", row, text, flags=re.M)


def error_pages() -> dict[str, str]:
    """Return a page for each class of errors, with a section for each of its codes."""
    from gpulend import _native, exceptions

    explained = EXPLANATIONS.read_text() if EXPLANATIONS.exists() else ""
    section = r"^## (\d+) \w+\n(Why: .*?)(?=^##|\Z)"
    reasons = dict(re.findall(section, explained, flags=re.M | re.S))
    pages: dict[str, str] = {}
    for code, name, kind, meaning in _native.ERROR_CODES:
        if kind not in pages:
            bases = [f"`{base.__name__}`" for base in getattr(exceptions, kind).__bases__]
            words = inspect.getdoc(getattr(exceptions, kind))
            pages[kind] = f"# {kind}\n\n{words} Its bases are {' and '.join(bases)}.\n"
        reason = re.sub(r"^(Why|Mend):", r"\n**\1.**", reasons.get(str(code), ""), flags=re.M)
        title = f"{code}: {meaning.rstrip('.')}"
        pages[kind] += f"\n## {title} {{ #e{code} }}\n\n`{name}`\n{reason}"
    return pages


def example_page(path: Path) -> str:
    """Show an example, with its first words as the title."""
    code = path.read_text()
    title = code.partition("\n")[0].strip('"')
    return f"# {title}\n\n`examples/{path.name}`\n\n```python\n{code}```\n"


def program_section(path: Path) -> str:
    """Show one program."""
    title = path.relative_to(ROOT / PROGRAMS)
    return f"\n## {title}\n\n```{LANGUAGES[path.suffix]}\n{path.read_text()}```\n"


def api_pages() -> dict[str, str]:
    """Return the pages of the API, and compare their names with what gpulend has."""
    import gpulend

    shown = {name for _, _, names in API.values() for name in names.split()}
    # A module is shown by what is in it.
    modules = {name.partition(".")[0] for name in shown if "." in name}
    missing = set(gpulend.__all__) - shown - modules - {"__version__"}
    if missing:
        raise SystemExit(f"scripts/website.py: API shows no {', '.join(sorted(missing))}")
    return {
        f"python-{page}": f"# {title}\n\n{words}\n\n"
        + "\n\n".join(f"::: gpulend.{name}" for name in names.split())
        + "\n"
        for page, (title, words, names) in API.items()
    }


class Links(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to, and what it can be referred to by."""
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        target = values.get("href") if tag in ("a", "link") else values.get("src")
        if target and not re.match(r"[a-z]+:|//", target):
            self.targets.append(target)


def check_links() -> int:
    """Follow every internal link of the built site; return how many lead nowhere."""
    # rustdoc checks its own.
    files = (path for path in SITE.rglob("*.html") if SITE / "rust" not in path.parents)
    pages = {path: Links(path.read_text()) for path in files}
    broken = count = 0
    for path, page in pages.items():
        # The page of errors of a server can be shown at any depth: its links begin at the root.
        if path.name == "404.html":
            continue
        for target in page.targets:
            count += 1
            name, _, anchor = unquote(target).partition("#")
            file = (path.parent / name).resolve() if name else path
            file = file / "index.html" if file.is_dir() else file
            there = file in pages and anchor in pages[file].anchors if anchor else file.exists()
            if not there:
                broken += 1
                print(f"{path.relative_to(SITE)}: {target}", file=sys.stderr)
    print(f"{len(pages)} pages, {count} internal links, {broken} broken")
    return broken


def rust_page(made: Path | None) -> str:
    """Return the page of the crates, with links to what `cargo doc` made."""
    shown = [
        f"| [`{crate}`](../rust/{crate}/index.html) | {words} |"
        if made
        else f"| `{crate}` | {words} |"
        for crate, words in CRATES.items()
    ]
    rows = "\n".join(shown)
    return (
        f"# Rust API\n\n| crate | holds |\n|---|---|\n{rows}\n\n"
        "In a clone, `cargo doc --open -p gpulend` builds and shows the same.\n"
    )


def serve(zensical: str) -> int:
    """Serve the site until the user stops it; pages that change are laid out again."""
    with subprocess.Popen([zensical, "serve"], cwd=ROOT) as server:
        try:
            while server.poll() is None:
                time.sleep(1)
                lay_out()
        except KeyboardInterrupt:
            server.terminate()
    return 0


def main() -> int:
    """Build the site, or serve it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help="serve it at localhost:8000")
    parser.add_argument("--rust", type=Path, help="the folder that cargo doc made, to include")
    chosen = parser.parse_args()
    shutil.rmtree(PAGES, ignore_errors=True)
    lay_out(chosen.rust)
    zensical = str(Path(sys.executable).with_name("zensical"))
    if chosen.serve:
        return serve(zensical)
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run([zensical, "build", "--clean", "--strict"], cwd=ROOT, check=False)
    if done.returncode:
        return done.returncode
    if chosen.rust:
        shutil.copytree(chosen.rust, SITE / "rust")
    return 1 if check_links() else 0


if __name__ == "__main__":
    sys.exit(main())
