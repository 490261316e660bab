"""The code blocks of the pages, and what is done with each.

Python blocks of a page run from top to bottom in one process, as a reader would paste them. What
stands behind a `print` is what it must print; an error's name behind a statement is what it must
raise. A comment before a fence says what differs:

    <!-- setup: import gpulend -->     runs before the block, and is not shown
    <!-- new process -->               the block begins a process of its own
    <!-- new process: bare -->         the same, and no environment variable names a driver
    <!-- not run: reason -->           the block is shown only; every such block is counted

`python tests/examples/pages.py` prints the count.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<rest>.*)$")
COMMENT = re.compile(r"<!--\s*(setup|new process|not run)(?:: ?(.*?))?\s*-->", re.S)
# By language: what a block is to its reader, and what the tests do with it.
KINDS = {
    "python": "run",
    "c": "compiled",
    "cpp": "compiled",
    "rust": "doctest",
    "sh": "checked",
    "cmake": "checked",
    "toml": "checked",
    "json": "checked",
    "yaml": "shown",
    "text": "prose",
}


@dataclass
class Block:
    """A fence of a page, with the marks before it."""

    page: Path
    line: int
    language: str
    code: str
    ignored: bool = False
    setup: str = ""
    fresh: bool = False
    bare: bool = False
    not_run: str | None = None

    @property
    def kind(self) -> str:
        """Say what the tests do with it."""
        return "not run" if self.not_run is not None else KINDS.get(self.language, "unknown")

    @property
    def name(self) -> str:
        """Say where it is."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass
class Page:
    """A page and its blocks."""

    path: Path
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the path from the root."""
        return self.path.relative_to(ROOT).as_posix()

    def of(self, *kinds: str) -> list[Block]:
        """Return the blocks that are treated so."""
        return [block for block in self.blocks if block.kind in kinds]


def read(path: Path) -> Page:
    """Find the fences of a page."""
    page = Page(path)
    before: list[str] = []
    opened: re.Match[str] | None = None
    code: list[str] = []
    start = 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened, code, start = fence, [], number
        elif opened is None:
            before = [*before, line] if line.strip() else before
            # Marks stand directly before their fence: other text ends them.
            if line.strip() and not re.match(r"\s*<!--", line) and not _inside_comment(before):
                before = []
        elif fence and not fence["language"]:
            text = "\n".join(code) + "\n"
            block = _block(page.path, start, opened["language"], text, before)
            block.ignored = "ignore" in opened["rest"]
            page.blocks.append(block)
            opened, before = None, []
        else:
            code.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise ValueError(f"{path}:{start}: a fence that never ends")
    return page


def _inside_comment(lines: list[str]) -> bool:
    text = "\n".join(lines)
    return text.rfind("<!--") >= 0 and (
        text.rfind("-->") < text.rfind("<!--") or text.endswith("-->")
    )


def _block(path: Path, line: int, language: str, code: str, before: list[str]) -> Block:
    block = Block(path, line, language, code)
    for mark, value in COMMENT.findall("\n".join(before)):
        if mark == "setup":
            block.setup += f"{value}\n"
        elif mark == "new process":
            block.fresh, block.bare = True, value == "bare"
        else:
            block.not_run = value
    return block


def all_pages() -> list[Page]:
    """Return every page that a reader of the repository or of the site meets."""
    folders = (".", "docs", "docs/*", "examples", "benches", "crates/*")
    paths = {path for folder in folders for path in ROOT.glob(f"{folder}/*.md")}
    return [read(path) for path in sorted(paths)]


def main() -> None:
    """Print how many blocks there are of each kind, and name those that are not run."""
    pages = all_pages()
    blocks = [block for page in pages for block in page.blocks]
    counts = Counter(block.kind for block in blocks)
    for kind, count in sorted(counts.items()):
        print(f"{count:4} {kind}")
    for block in blocks:
        if block.not_run is not None:
            print(f"not run: {block.name}: {block.not_run}")


if __name__ == "__main__":
    main()
