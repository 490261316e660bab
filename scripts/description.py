"""Writes python/README.md, the description on PyPI: README.md without links into the clone."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DESCRIPTION = ROOT / "python/README.md"
READ_ON = """## Read on

The source distribution has the documentation: begin with `docs/start/five-minutes.md`.
`make docs` makes a site of it.
"""


def description() -> str:
    """Return the README as a reader without a clone can use it."""
    text = (ROOT / "README.md").read_text()
    text = re.sub(r"^## Read on\n.*?(?=^```sh\nmake|\Z)", READ_ON + "\n", text, flags=re.S | re.M)
    # Pictures first: a picture may be inside a link.
    text = re.sub(r"^\[?!\[.*\n\n?", "", text, flags=re.M)
    # Code keeps its brackets.
    parts = re.split(r"(^```.*?^```)", text, flags=re.S | re.M)
    link = r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)"
    return "".join(
        part if number % 2 else re.sub(link, r"\1 (`\2`)", part)
        for number, part in enumerate(parts)
    )


def main() -> None:
    """Write it."""
    DESCRIPTION.write_text(description())


if __name__ == "__main__":
    sys.exit(main())
