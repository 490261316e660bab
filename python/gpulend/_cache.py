"""`gpulend cache`: where compiled kernels are, how many bytes they take, and how to remove them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpulend import _native

# As the native half names its entries; files with other names are not touched.
ENTRY = re.compile(r"[0-9a-f]{64}\.(ptx|\d+-\d+\.tmp)")


def folder() -> Path | None:
    """Return the folder of the entries, if there is one that nobody else can write."""
    if os.environ.get("GPULEND_CACHE") == "off":
        return None
    return _native.cache_folder("ptx")


def entries(place: Path) -> list[Path]:
    """Return the files that are ours."""
    return sorted(path for path in place.iterdir() if ENTRY.fullmatch(path.name))


def size(files: list[Path]) -> int:
    """Return the bytes of files; one may be removed meanwhile."""
    total = 0
    for file in files:
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue
    return total


def show(action: str | None) -> int:
    """Print the folder, the bytes or both, or remove the entries; return an exit status."""
    place = folder()
    if place is None:
        off = os.environ.get("GPULEND_CACHE") == "off"
        print("off: GPULEND_CACHE=off" if off else "off: no folder that only you can write")
        return 1
    files = entries(place)
    if action == "where":
        print(place)
    elif action == "size":
        print(size(files))
    elif action == "clear":
        freed = size(files)
        for file in files:
            file.unlink(missing_ok=True)
        print(f"removed {len(files)} entries, {in_words(freed)}, from {place}")
    else:
        print(f"{place}: {len(files)} entries, {in_words(size(files))} of at most 256 MiB")
    return 0


def in_words(size: int) -> str:
    """Return a number of bytes in its unit.

    >>> in_words(0), in_words(1536), in_words(5 * 2**20)
    ('0 bytes', '1.5 KiB', '5.0 MiB')
    """
    if size < 1024:
        return f"{size} bytes"
    return f"{size / 1024:.1f} KiB" if size < 1024**2 else f"{size / 1024**2:.1f} MiB"
