"""Compiles the CUDA files beside it, with PyPI's ziglang, into what the parser's tests read."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
COMMAND = [
    *(sys.executable, "-m", "ziglang", "clang", "-x", "cuda", "--cuda-device-only"),
    *("--cuda-gpu-arch=sm_75", "--cuda-feature=+ptx63", "-nocudainc", "-nocudalib", "-nostdinc"),
    *("-fdebug-compilation-dir=.", "-S"),
]
WAYS = {"O0": ["-O0"], "O3": ["-O3", "-gline-tables-only"]}


def main() -> None:
    """Compiles each file in each way."""
    for source in sorted(FOLDER.glob("*.cu")):
        for way, options in WAYS.items():
            files = [source.name, "-o", f"{source.stem}_{way}.ptx"]
            subprocess.run([*COMMAND, *options, *files], cwd=FOLDER, check=True)


if __name__ == "__main__":
    main()
