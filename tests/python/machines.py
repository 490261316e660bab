"""Programs in processes of their own, and a library that passes for a real driver.

Which driver a process uses is chosen once, so every test of it starts a process.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# A driver as far as gpulend looks, whose cuInit answers what FAKE_CUINIT says.
FAKE = r"""
#include <stdlib.h>
#include <string.h>
int fake_marker = 1;
int cuInit(unsigned flags) {
    const char *code = getenv("FAKE_CUINIT");
    return code ? atoi(code) : 0;
}
int cuDriverGetVersion(int *version) { *version = 12040; return 0; }
int cuGetErrorName(int code, const char **name) {
    *name = code == 100 ? "CUDA_ERROR_NO_DEVICE" : code == 3 ? "CUDA_ERROR_NOT_INITIALIZED" : NULL;
    return *name ? 0 : 1;
}
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int room, int device) { strncpy(name, "Fake GPU", room); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)3 << 30; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    *value = which == 75 ? 9 : 0;
    return 0;
}
int cuDeviceGetUuid_v2(char *uuid, int device) { memset(uuid, 7, 16); return 0; }
int cuPointerGetAttributes(unsigned count, int *which, void **values, size_t address) { return 0; }
"""

# The driver's functions that gpulend looks up, and so must be there.
FUNCTIONS = re.findall(
    r'^    \w+ = "(cu\w+)"',
    (Path(__file__).parents[2] / "crates/core/src/driver/functions.rs").read_text(),
    re.M,
)


def stubs(source: str) -> str:
    """Return functions that answer "not supported", for those that a source lacks."""
    return "".join(f"int {name}() {{ return 801; }}\n" for name in FUNCTIONS if name not in source)


FAKE += stubs(FAKE)

# What every program may use: who is mapped, and what gpulend says or refuses.
PRELUDE = """
import ctypes, os, sys
def mapped(*names):
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
    return sorted(path for path in paths if os.path.basename(path).startswith(names))
def kind():
    from gpulend import _native
    return _native.describe_driver()[0]
def refusal(use):
    import gpulend
    try:
        use()
    except gpulend.Error as error:
        return f"{type(error).__name__} {error.code} {error}"
    return "not refused"
"""


def compile_c(source, output, *options):
    """Compile C text into a library or a program."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, "-x", "c", "-", "-w", "-o", str(output), *options]
    subprocess.run(command, input=source, text=True, check=True)
    return output


def fake_driver(folder, *, soname="libcuda.so.1"):
    """Put the library that passes for a real driver into a folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    return compile_c(FAKE, folder / soname, "-shared", "-fPIC", f"-Wl,-soname,{soname}")


def clean_environment(**variables):
    """Return this process's environment without gpulend's variables, with others set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPULEND_")}
    return kept | {name: str(value) for name, value in variables.items()}


def start(command, check=True, **variables):
    """Run a command to its end; by default it must end well."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        env=clean_environment(**variables),
    )
    if check:
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done


def python(program, check=True, **variables):
    """Run a Python program after the prelude."""
    text = PRELUDE + textwrap.dedent(program)
    return start([sys.executable, "-c", text], check, **variables)


def gpulend_run(*arguments, check=True, **variables):
    """Run `gpulend run` with arguments."""
    return start([sys.executable, "-m", "gpulend", "run", *arguments], check, **variables)


def a_driver_is_here():
    """Tell whether this machine has a driver of its own, which `auto` would take."""
    program = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    return start([sys.executable, "-c", program], check=False).returncode == 0


# What gpulend says when it takes the simulated GPU without having been asked.
THE_LINE = "gpulend: using the simulated GPU, because "
without_driver = pytest.mark.skipif(a_driver_is_here(), reason="this machine has a driver")
