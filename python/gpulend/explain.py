"""`gpulend explain 821`: what an error means, why it is raised, and how to mend it.

Numbers, names, classes and meanings come from the native half's table of codes; why and how to mend
from `explanations.md` beside this file, a section for each code.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from gpulend import exceptions
from gpulend._native import ERROR_CODES
from gpulend._suggestions import did_you_mean

__all__ = ["Explanation", "explanations", "find"]

PAGE = Path(__file__).with_name("explanations.md")
_SECTION = re.compile(r"^## (\d+) (\w+)\nWhy: (.*?)\nMend: (.*?)\n(?=\n##|\Z)", re.M | re.S)


@dataclass(frozen=True)
class Explanation:
    """What is known about a code."""

    code: int
    name: str
    kind: str
    meaning: str
    why: str
    mend: str

    @property
    def builtins(self) -> list[str]:
        """The builtin exceptions by which it is caught too."""
        kind = getattr(exceptions, self.kind)
        return [base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"][:-3]


def explanations() -> dict[int, Explanation]:
    """Return what is known about each code, by its number."""
    page = {
        int(code): (" ".join(why.split()), " ".join(mend.split()))
        for code, _, why, mend in _SECTION.findall(PAGE.read_text(encoding="utf-8"))
    }
    return {
        code: Explanation(code, name, kind, meaning, *page[code])
        for code, name, kind, meaning in ERROR_CODES
    }


def find(what: str) -> list[Explanation]:
    """Return what a number, a name or a class of errors means; `LookupError` if it is none.

    >>> from gpulend import explain
    >>> explain.find("821")[0].meaning
    "The array's elements have another type than the pointer's."
    """
    known = explanations()
    word = what.strip().removeprefix("GPULEND_").removeprefix("gpulend.")
    if word.isdecimal() and int(word) in known:
        return [known[int(word)]]
    found = [one for one in known.values() if one.name == word.upper()]
    found = found or [one for one in known.values() if one.kind.lower() == word.lower()]
    if found:
        return found
    names = {one.name for one in known.values()} | {one.kind for one in known.values()}
    near = did_you_mean(word, names)
    if word.isdecimal():
        near = "; without one all are listed. CUDA's own codes are in the message of 810 and 1001"
    raise LookupError(f"{what!r} is no error code, no name of one and no class{near}")


def in_full(one: Explanation, width: int) -> str:
    """Return an explanation as lines of text."""
    also = f", also a {' and a '.join(one.builtins)}" if one.builtins else ""
    parts = [one.meaning, f"Why: {one.why}", f"Mend: {one.mend}"]
    wrapped = [textwrap.fill(part, width, break_long_words=False) for part in parts]
    return "\n\n".join([f"{one.code} {one.kind}{also} ({one.name})", *wrapped])


def in_short(one: Explanation) -> str:
    """Return an explanation as one line."""
    return f"{one.code:>4} {one.kind:<17} {one.meaning}"
