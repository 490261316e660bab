"""`gpulend doctor --quick`: what a bug report needs, in less than a second.

No framework is imported, and no GPU is used: the driver says what it is, in a process of its own.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
from pathlib import Path
from typing import Any

from gpulend import _cache, adapters
from gpulend._native import __version__
from gpulend.compiler import ziglang
from gpulend.doctor import machine
from gpulend.doctor.child import Child, Died

LIMIT = 20.0  # seconds for a driver that hangs
# Packages beside the frameworks that matter for hand-overs and compilations.
PACKAGES = (
    *("cuda-bindings", "cuda-pathfinder", "cuda-python", "cupy-cuda11x", "cupy-cuda12x", "cupy"),
    *("jaxlib", "ml_dtypes", "numba", "nvidia-cuda-cccl", "nvidia-cuda-nvrtc"),
    *("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"),
    *("tensorflow-cpu", "triton", "typing_extensions", "ziglang"),
)
# Variables that decide what is loaded, seen and compiled.
VARIABLE = re.compile(
    r"(GPULEND|CUDA|NVIDIA|NVRTC|JAX|XLA|CUPY|NUMBA|PYOPENCL|POCL|OCL)_\w+"
    r"|TF_(CPP|ENABLE|FORCE|GPU|XLA)_\w+"
    r"|LD_(LIBRARY_PATH|PRELOAD)|PYTHON(PATH|HOME|MALLOC)|TMPDIR|XDG_CACHE_HOME"
    r"|VIRTUAL_ENV|CONDA_PREFIX"
)
# Variables that may hold what nobody should paste.
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.I)


def look() -> dict[str, Any]:
    """Return what is here, as plain values; `--json` prints them."""
    child = Child("quick", LIMIT)
    found: dict[str, Any] = {
        "gpulend": __version__,
        "python": f"{platform.python_version()}, {platform.python_implementation()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "distribution": _distribution(),
        "glibc": _glibc(),
        "kernel_driver": _kernel_driver(),
        "nvidia_gpus_on_pci": machine.nvidia_devices(),
        "packages": _packages(),
        "variables": _variables(),
        "clang": os.environ.get("GPULEND_CLANG") or ziglang() or shutil.which("clang"),
        "cache": _cached(),
    }
    try:
        for message in child.messages():
            found |= message
    except Died as error:
        found["problem"] = f"using the driver: {error}"
    return found


def text(found: dict[str, Any]) -> str:
    """Return it as lines to be pasted; the home folder is written as `~`."""
    lines = [f"gpulend {found['gpulend']}, Python {found['python']}"]
    lines.append(f"{found['system']}, {found['distribution']}, glibc {found['glibc']}")
    lines.append(f"NVIDIA kernel module: {found['kernel_driver'] or 'none'}")
    lines.append(f"NVIDIA GPUs on the PCI bus: {found['nvidia_gpus_on_pci']}")
    if found.get("library"):
        lines.append(f"driver: {found['kind']}, CUDA {found['cuda']}, {found['library']}")
    if found.get("problem"):
        lines.append(f"driver: {found['problem']}")
    for index, gpu in enumerate(found.get("gpus", ())):
        lines.append(f"  cuda:{index}: {gpu}")
    nvrtc = found.get("nvrtc")
    lines.append(f"NVRTC: {found['nvrtc_version']}, {nvrtc}" if nvrtc else "NVRTC: none")
    lines.append(f"clang: {found['clang'] or 'none'}")
    lines.append(f"cache: {found['cache']}")
    packages = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    lines.append(f"packages: {packages or 'none'}")
    lines.append("variables:" if found["variables"] else "variables: none")
    lines += [f"  {name}={value}" for name, value in found["variables"].items()]
    home = os.path.expanduser("~")
    whole = "\n".join(lines)
    return whole.replace(f"{home}/", "~/") if len(home) > 1 else whole


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "unknown distribution"


def _glibc() -> str | None:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ") or None
    except (OSError, ValueError):
        # Another C library.
        return None


def _kernel_driver(file: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """Return the version of NVIDIA's kernel module, if it is loaded."""
    try:
        found = re.search(r"\d+\.\d+(\.\d+)?", file.read_text())
    except OSError:
        return None
    return found[0] if found else None


def _packages() -> dict[str, str]:
    """Return the installed packages that matter, by name; none is imported."""
    frameworks = [item.install.partition("[")[0] for item in adapters.FRAMEWORKS.values()]
    found = {}
    for name in sorted({*frameworks, *PACKAGES}):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _variables() -> dict[str, str]:
    return {
        name: "(hidden)" if SECRET.search(name) else value
        for name, value in sorted(os.environ.items())
        if VARIABLE.fullmatch(name)
    }


def _cached() -> str:
    place = _cache.folder()
    if place is None:
        return "off"
    return f"{place}, {_cache.in_words(_cache.size(_cache.entries(place)))}"
