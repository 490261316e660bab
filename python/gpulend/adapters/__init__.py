"""One file a framework: how it takes a lease, and what it cannot take.

A framework's file has a function `lend(lease, allow_writable_alias)` and one
table of its quirks. Files are imported when they are first asked for, so that
`import gpulend` imports no framework.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from gpulend.exceptions import ProtocolError

Lender = Callable[[Any, bool], Any]

FRAMEWORKS = ("numpy", "torch")
LENDERS: dict[str, Lender] = {}


def load(target: str) -> Lender:
    """Import the adapter of a framework and remember how it lends."""
    if target not in FRAMEWORKS:
        raise ProtocolError(f"{target!r} is no framework we can lend to; known are {FRAMEWORKS}", 254)
    try:
        adapter = import_module(f"gpulend.adapters.{target}")
    except ImportError as error:
        raise ProtocolError(
            f"lending to {target} needs {target}: install it (`pip install {target}`)", 255
        ) from error
    lender: Lender = adapter.lend
    LENDERS[target] = lender
    return lender
