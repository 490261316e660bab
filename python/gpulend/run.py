"""`gpulend run`: any program on the simulated GPU."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

from gpulend import _native, exceptions, nvcc, ptxas, simulator
from gpulend.compiler import ziglang

# As in shells: the program cannot be run, or was not found.
CANNOT_RUN, NOT_FOUND = 126, 127
LOADER_PATH = "LD_LIBRARY_PATH"


def environment(settings: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables by which a program finds the simulated GPU, with these settings."""
    # The loader looks here before it looks where the system keeps a real driver. An empty entry
    # would be the current folder.
    path = [simulator.driver_folder(), os.environ.get(LOADER_PATH, "")]
    chosen = {
        LOADER_PATH: ":".join(filter(None, path)),
        "GPULEND_DEVICE": "simulated",
        # Programs that compile kernels call nvcc; the simulated GPU cannot load NVIDIA's output.
        "PATH": os.pathsep.join([nvcc.install(), os.environ.get("PATH", os.defpath)]),
        # Triton assembles the PTX of its kernels with this program.
        "TRITON_PTXAS_PATH": ptxas.install(),
        # Another installation of gpulend in the program must use the same library.
        "GPULEND_SIM_LIBRARY": simulator.library(),
    }
    # A program without Python finds the compiler of this Python's packages only by this variable.
    if (compiler := ziglang()) is not None:
        chosen["GPULEND_ZIGLANG"] = compiler
    given = {
        f"GPULEND_SIM_{name.upper()}": value
        for name, value in settings.items()
        if value is not None
    }
    return chosen | given


def run(program: list[str], settings: Mapping[str, str | None]) -> int:
    """Become the program; return an exit status only if that fails."""
    try:
        os.environ.update(environment(settings))
        # Otherwise the program would only see that cuInit fails.
        _native.rehearse()
    except exceptions.Error as error:
        print(f"gpulend run: {error}", file=sys.stderr)
        return 2
    try:
        _become(program)
    except FileNotFoundError:
        print(f"gpulend run: no command {program[0]!r}; check its name and PATH", file=sys.stderr)
        return NOT_FOUND
    except OSError as error:
        print(f"gpulend run: cannot run {program[0]!r}: {error.strerror}", file=sys.stderr)
        return CANNOT_RUN


def _become(program: list[str]) -> NoReturn:
    for name in ("SIGPIPE", "SIGXFSZ"):
        # Python ignores these two for itself, and a program would inherit that.
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execvp(program[0], program)
