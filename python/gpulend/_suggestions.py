"""Names that are near a mistyped one, for messages: nothing here decides what a name means."""

from __future__ import annotations

import re
from collections.abc import Iterable

# What others call the kinds of devices.
_KINDS = {
    "cpu": "cpu",
    "host": "cpu",
    "cuda": "cuda",
    "gpu": "cuda",
    "nvidia": "cuda",
    "opencl": "opencl",
    "cl": "opencl",
}
_DEVICE = re.compile(r"([a-z]+)\W?(\d{0,3})", re.A)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a mistyped one is most like, if one is.

    >>> nearest("torhc", ["numpy", "torch"])
    'torch'
    >>> nearest("tinygrad", ["numpy", "torch"])
    """
    # It is imported where a mistake was made, and nowhere else.
    from difflib import get_close_matches

    lower = {text.lower(): text for text in known}
    found = get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    return lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message: a question if there is a name to suggest, else nothing."""
    found = nearest(name, known)
    return f"; did you mean {found!r}?" if found is not None else ""


def device(name: str) -> str | None:
    """Return the device that a name probably means.

    >>> device("gpu"), device("cdua:1"), device("CUDA0"), device("mps")
    ('cuda:0', 'cuda:1', 'cuda:0', None)
    """
    read = _DEVICE.fullmatch(name.strip().lower())
    if read is None:
        return None
    word = nearest(read[1], _KINDS)
    if word is None:
        return None
    kind = _KINDS[word]
    return kind if kind == "cpu" else f"{kind}:{int(read[2] or 0)}"
