"""For the API of the site: examples of docstrings are blocks of code, overloads one method."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*?(?=\n\s*\n|\Z)", re.M | re.S)


def fenced(text: str) -> str:
    """Put each example between fences."""
    return EXAMPLE.sub(lambda match: f"```pycon\n{match[0]}\n```", text)


class Docstrings(griffe.Extension):
    """Sees every object that is documented."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Show a method that has overloads only: the general one, with their docstring."""
        for name, overloads in cls.overloads.items():
            if overloads and name not in cls.members:
                shown = overloads[-1]
                documented = (each.docstring for each in overloads if each.docstring)
                if (docstring := next(documented, None)) is not None:
                    shown.docstring = griffe.Docstring(fenced(docstring.value), parent=shown)
                cls.set_member(name, shown)
