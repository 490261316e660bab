"""Compile what `nvrtc.c` wrote into a folder: PTX, the log and the names of kernels go back there.

Results are kept by a hash of what they are made from: tests of clients compile the same few kernels
often.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from pathlib import Path

# A variable for each name that was asked for: its value in the PTX is the name of the kernel.
PROBE = "gpulend_nvrtc_name_"
TYPES = "typedef unsigned long long cudaGraphConditionalHandle;\n"
WORDS = "#define CUDARTAPI\n#define __cudart_builtin__\n"


def _texts(folder: Path, file: str) -> list[str]:
    path = folder / file
    return path.read_text().split("\0")[:-1] if path.exists() else []


def _probes(names: list[str]) -> str:
    lines = (f"__device__ void *{PROBE}{i} = (void *)({name});" for i, name in enumerate(names))
    return 'extern "C" {\n' + "\n".join(lines) + "\n}\n" if names else ""


def _compile(source: str, name: str, options: list[str], headers: dict[str, str]) -> str:
    from gpulend import compiler  # only where nothing was kept

    dropped = ("--gpu-architecture", "-arch", "--relocatable-device-code", "-rdc", "--device-debug")
    kept = [option for option in options if not option.startswith(dropped)]
    return compiler.to_ptx(source, file=name, options=kept, headers=headers)


def main(folder: Path) -> int:
    """Write `ptx` and `lowered`, or `log` and a status that is not zero."""
    (source,), (name,) = _texts(folder, "source"), _texts(folder, "name")
    options, names, pairs = (_texts(folder, file) for file in ("options", "names", "headers"))
    headers = dict(zip(pairs[::2], pairs[1::2], strict=True))
    whole = f"{WORDS}{TYPES}#line 1\n{source}\n{_probes(names)}"
    seed = repr((whole, name, options, headers)).encode()
    place = Path(tempfile.gettempdir()) / f"gpulend-nvrtc-kept-{os.getuid()}"
    kept = place / hashlib.sha256(seed).hexdigest()
    if kept.exists():
        ptx = kept.read_text()
    else:
        try:
            ptx = _compile(whole, name, options, headers)
        except Exception as error:  # whatever it is, NVRTC's caller reads it in the log
            (folder / "log").write_text(f"{name}(1): error: {error}\n")
            return 1
        place.mkdir(mode=0o700, exist_ok=True)
        # Whole or not at all: other processes read it.
        half = kept.with_suffix(f".{os.getpid()}")
        half.write_text(ptx)
        half.replace(kept)
    found = dict(re.findall(rf"{PROBE}(\d+)\s*=\s*(?:generic\()?([\w$]+)", ptx))
    (folder / "lowered").write_text(
        "".join(found.get(str(i), "") + "\0" for i in range(len(names)))
    )
    lines = [line for line in ptx.splitlines() if PROBE not in line]
    (folder / "ptx").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
