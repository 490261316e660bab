"""Copies the docstrings of the compiled module into its stub: `make stub`.

Signatures and types in the stub are written by hand; what editors show on hover comes from the Rust
sources, by way of the compiled module. `tests/python/test_types.py` fails when the two differ.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path
from types import ModuleType

STUB = Path(__file__).parents[1] / "python/gpulend/_native.pyi"
WIDTH = 100  # columns, as ruff wants them
Owner = ModuleType | type


def documented(tree: ast.Module, module: ModuleType) -> list[tuple[ast.AST, str, str]]:
    """Return what the stub defines: its node, its name, and the docstring that it should have."""
    found: list[tuple[ast.AST, str, str]] = [(tree, module.__name__, wanted(module, 0))]
    _collect(tree.body, module, "", found)
    return found


def _collect(
    body: list[ast.stmt], owner: Owner, within: str, found: list[tuple[ast.AST, str, str]]
) -> None:
    overloaded = set()
    for node in body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        thing = vars(owner).get(node.name)
        if isinstance(node, ast.ClassDef) and isinstance(thing, type):
            found.append((node, node.name, wanted(thing, 4)))
            _collect(node.body, thing, f"{node.name}.", found)
            continue
        # An editor shows the docstring of the first overload for all.
        text = "" if node.name in overloaded else wanted(thing, node.col_offset + 4)
        if any(
            isinstance(name, ast.Name) and name.id == "overload" for name in node.decorator_list
        ):
            overloaded.add(node.name)
        found.append((node, f"{within}{node.name}", text))


def wanted(thing: object, indent: int) -> str:
    """Return a docstring as the stub has it: lines that fit, without what Python says itself."""
    # Python words `__eq__` and its like.
    kinds = (
        "module",
        "type",
        "builtin_function_or_method",
        "method_descriptor",
        "staticmethod",
        "getset_descriptor",
    )
    text = getattr(thing, "__doc__", None) if type(thing).__name__ in kinds else None
    if not text or getattr(thing, "__name__", "") == "__new__":
        return ""
    return "\n\n".join(_fitted(part, WIDTH - indent) for part in text.strip().split("\n\n"))


def _fitted(paragraph: str, width: int) -> str:
    """Break a paragraph whose lines are too long; examples and lists stay as they are."""
    lines = paragraph.splitlines()
    # Room for the quotes of a docstring of one line.
    if max(map(len, lines)) <= width - 6 or lines[0].startswith((">>>", "- ", "    ")):
        return paragraph
    return textwrap.fill(" ".join(lines), width - 6, break_long_words=False, break_on_hyphens=False)


def rewritten(source: str, module: ModuleType) -> str:
    """Return the stub with the docstrings of the module."""
    tree = ast.parse(source)
    lines = source.splitlines()
    # From the last to the first, so that the numbers of lines before stay right.
    for node, _, text in reversed(documented(tree, module)):
        assert isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
        indent = "" if isinstance(node, ast.Module) else " " * (node.col_offset + 4)
        quoted = _quoted(text, indent)
        first = node.body[0]
        if ast.get_docstring(node) is not None:
            assert first.end_lineno is not None
            lines[first.lineno - 1 : first.end_lineno] = quoted
            if not quoted and isinstance(node, ast.FunctionDef):
                lines[first.lineno - 2] += " ..."
        elif quoted and isinstance(node, ast.FunctionDef):
            # `def name(...) -> type: ...`, perhaps with a comment behind.
            lines[first.lineno - 1] = re.sub(r" \.\.\.(?=$|  #)", "", lines[first.lineno - 1])
            lines[first.lineno : first.lineno] = quoted
        elif quoted:
            lines[first.lineno - 1 : first.lineno - 1] = quoted
    return "\n".join(lines) + "\n"


def _quoted(text: str, indent: str) -> list[str]:
    if not text:
        return []
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if "\n" not in text and not text.endswith('"'):
        return [f'{indent}"""{text}"""']
    return [f"{indent}{line}".rstrip() for line in [*f'"""{text}'.splitlines(), '"""']]


def main() -> None:
    """Write the stub, in ruff's format."""
    from gpulend import _native

    STUB.write_text(rewritten(STUB.read_text(), _native))
    ruff = Path(sysconfig.get_path("scripts")) / "ruff"
    subprocess.run([ruff, "format", "--quiet", STUB], check=True)


if __name__ == "__main__":
    sys.exit(main())
