"""One file a framework: how it takes a lease, and what it cannot take.

A framework's file describes it by one `CONSUMER`: the element types it takes,
whether its arrays can be read-only and run backwards, and how one is made.
Files are imported when they are first asked for, so that `import gpulend`
imports no framework.
"""

from __future__ import annotations

from importlib import import_module

from gpulend._native import Consumer
from gpulend.exceptions import ProtocolError

FRAMEWORKS = ("numpy", "torch")
CONSUMERS: dict[str, Consumer] = {}


def load(target: str) -> Consumer:
    """Import the adapter of a framework and remember what it says."""
    if target not in FRAMEWORKS:
        known = " and ".join(FRAMEWORKS)
        raise ProtocolError(f"{target!r} is no framework we can lend to; known are {known}", 254)
    try:
        adapter = import_module(f"gpulend.adapters.{target}")
    except ImportError as error:
        raise ProtocolError(
            f"lending to {target} needs {target}, which cannot be imported ({error}); "
            f"install it: `pip install {target}`",
            255,
        ) from error
    consumer: Consumer = adapter.CONSUMER
    CONSUMERS[target] = consumer
    return consumer
