"""The device code of a program by itself: whether it compiles, and the simulated GPU takes it.

A program that builds has its PTX inside. Of another one each CUDA source is compiled for the device
alone. Where headers are missing that come with libraries for the host, empty ones take their place,
and what the source wants of them is declared as integers and functions that do nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

# What a program is told once, for each attempt to compile it.
ROUNDS = 12
MISSING = re.compile(r"'([^']+)' file not found|fatal error: ([^ :]+): No such file")
TYPE = re.compile(r"unknown type name '(\w+)'")
NAME = re.compile(r"use of undeclared identifier '(\w+)'")
# Headers of what runs on the device: without them nothing is known.
DEVICE_HEADERS = re.compile(r"^(?:thrust/|cub/|cuda/|cooperative_groups|mma\.h|cuda_)")
IMAGE = re.compile(rb"\.version \d+\.\d+\n\.target sm_\d+")
LOAD = """
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
context, module = ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuInit(0) == 0
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
for file in sys.argv[1:]:
    if driver.cuModuleLoadData(ctypes.byref(module), open(file, "rb").read() + b"\\0"):
        sys.exit(3)
"""

Call = Callable[[list[str], str, float], tuple[int | None, str]]


def of_binary(file: Path) -> list[bytes]:
    """Return the PTX in a program."""
    texts = file.read_bytes().split(b"\0")
    return [text for text in texts if IMAGE.search(text) and b".entry" in text]


def of_sources(
    sources: list[str], options: list[str], folder: str, call: Call, command: str
) -> tuple[list[bytes], str]:
    """Compile sources for the device; return their PTX, or why one of them does not compile."""
    texts = []
    missing: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch:
        for source in sources:
            stubs = Path(scratch)
            (stubs / "names.h").write_text("")
            words = [command, "build", "--ptx", "-I", scratch, "-ferror-limit=0", *options]
            words += ["-include", str(stubs / "names.h"), "-x", "cu", source]
            words += ["-o", str(stubs / "made.ptx")]
            known: set[str] = set()
            for _ in range(ROUNDS):
                status, output = call(words, folder, 600)
                if status == 0:
                    break
                if not _declare(output, Path(folder, source), stubs, known, missing):
                    errors = re.findall(r"\berror: (.*)", output)
                    return [], (errors or ["?"])[0][:160]
            else:
                return [], "too many names are missing"
            text = (stubs / "made.ptx").read_bytes()
            if b".entry" in text:
                texts.append(text)
    return texts, ""


def _declare(output: str, source: Path, stubs: Path, known: set[str], missing: set[str]) -> bool:
    """Put what an attempt missed into the folder of stubs; return whether there was anything."""
    found = {first or second for first, second in MISSING.findall(output)}
    found = {name for name in found if not DEVICE_HEADERS.match(name)}
    for name in found - missing:
        file = stubs / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    if found - missing:
        missing |= found
        return True
    types = set(TYPE.findall(output)) - known
    names = set(NAME.findall(output)) - known - types
    if not missing or not types | names:
        return False
    texts = [each for each in source.parent.rglob("*") if each.suffix in (".cu", ".h", ".cuh")]
    text = "\n".join(each.read_text(errors="replace") for each in texts)
    with (stubs / "names.h").open("a") as file:
        for name in sorted(types):
            file.write(f"typedef long long {name};\n")
        for name in sorted(names):
            if re.search(rf"\b{name}\s*\(", text):
                file.write(f"template <class... T> int {name}(T &&...) {{ return 0; }}\n")
            else:
                file.write(f"enum {{ {name} = {len(known) + 1} }};\n")
            known.add(name)
    known |= types
    return True


def refusal(texts: list[bytes], command: str) -> str:
    """Return why the simulated GPU refuses one of the images, or nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for number, text in enumerate(texts):
            files.append(str(Path(scratch, f"{number}.ptx")))
            Path(files[-1]).write_bytes(text)
        words = [command, "run", "--", sys.executable, "-c", LOAD, *files]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[0][:160]
