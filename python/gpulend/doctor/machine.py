"""What this machine has: GPUs, a driver and why that one, compilers; and what is missing."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from gpulend import _native, _toolkit
from gpulend.doctor.report import Compiler, Driver, Framework, Missing
from gpulend.exceptions import CompileError

NVIDIA = "0x10de"
# Classes of PCI devices that compute or show pictures.
DISPLAY = "0x03"
THE_LINE = re.compile(r"gpulend: using the simulated GPU, because (.*?);", re.S)


def nvidia_devices(folder: Path = Path("/sys/bus/pci/devices")) -> int:
    """Count the NVIDIA GPUs that the kernel sees, with or without a driver."""
    count = 0
    for device in folder.glob("*"):
        try:
            vendor = (device / "vendor").read_text().strip()
            kind = (device / "class").read_text().strip()
        except OSError:
            continue
        count += vendor == NVIDIA and kind.startswith(DISPLAY)
    return count


def why(kind: str | None, library: str | None, said: str) -> str | None:
    """Say why this driver is used: what was asked for, and what was found."""
    asked = os.environ.get("GPULEND_DEVICE", "")
    if kind is None:
        return None
    if kind == "cuda":
        return f"a CUDA driver can be loaded: {library}"
    if asked == "simulated":
        return "GPULEND_DEVICE=simulated asks for it"
    found = THE_LINE.search(said)
    if found is None:
        return "the loader finds it in the place of a CUDA driver, as `gpulend run` arranges"
    count = nvidia_devices()
    seen = f"{count or 'no'} NVIDIA GPU{'s' * (count != 1)} on this machine's PCI bus"
    return f"{found[1]}; {seen}"


def nvrtc() -> dict[str, str | None]:
    """Look for NVIDIA's compiler as a library, where `gpulend.compile` does."""
    try:
        path, version = _native.describe_nvrtc(_toolkit.folders()[0])
    except CompileError as error:
        return {"nvrtc": None, "nvrtc_version": None, "nvrtc_problem": str(error)}
    return {
        "nvrtc": os.fspath(path),
        "nvrtc_version": ".".join(map(str, version)),
        "nvrtc_problem": None,
    }


def for_driver(package: str, driver: Driver) -> str:
    """Return the name under which a package is made for the CUDA version of a real driver."""
    if driver.kind != "cuda" or driver.cuda is None:
        return package
    major = int(driver.cuda.partition(".")[0])
    if package.startswith("nvidia-"):
        return _native.nvidia_package(package, major)
    return re.sub(r"-cuda\d+x$", f"-cuda{major}x", package)


def missing(
    driver: Driver, compiler: Compiler, frameworks: Sequence[Framework], devices: int
) -> list[Missing]:
    """List what would do more here, each with the command that installs it."""
    found = []
    if driver.kind != "cuda" and devices:
        found.append(
            Missing(
                "a driver for the NVIDIA GPU that is here",
                "apt install nvidia-driver (Debian), ubuntu-drivers install (Ubuntu), "
                "dnf install cuda-drivers (Fedora, RHEL)",
            )
        )
    if compiler.clang is None:
        found.append(Missing("a compiler for CUDA C", "pip install 'gpulend[sim]'"))
    if compiler.nvrtc is None:
        package = for_driver("nvidia-cuda-nvrtc", driver)
        found.append(Missing("NVRTC, NVIDIA's compiler", f"pip install {package}"))
    for framework in frameworks:
        if framework.state == "not installed":
            found.append(Missing(framework.name, framework.install))
        elif framework.state == "broken":
            command = framework.install.replace("install", "install --force-reinstall", 1)
            found.append(Missing(f"{framework.name} that can be imported", command))
    return found
