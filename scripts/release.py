"""Builds everything that a release uploads, checks it, and lists it with sizes. Uploads nothing.

    python scripts/release.py [--machine NAME]... [--python 3.X]... [--smoke MACHINE:3.X=COMMAND]...

What is built goes to `dist/release`: a source distribution, from which all wheels are built, wheels
for each CPython on x86-64 and aarch64, linked by zig for glibc 2.28, and the crates. Each wheel is
audited; it is then installed beside NumPy and tried, if a Python for it is here. `--smoke` names
one that is not found by itself, such as another machine's, which the kernel starts by qemu-user:

    --smoke 'aarch64:3.11=env QEMU_LD_PREFIX=ROOT ROOT/usr/bin/python3.11'

`make release` runs it with the tools that it needs (the group `release` in pyproject.toml).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "dist/release"
UPLOAD = WORK / "upload"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBC = "2.28"
# PyPI takes no more than this for one file, unless asked.
MOST_BYTES = 100 << 20
# In the order in which they are published.
CRATES = ("gpulend-common", "gpulend-sim", "gpulend", "gpulend-capi")
# What wheels hold beside Python's files, and the machine of each in its ELF header.
LIBRARIES = {
    "gpulend/_runtime/libgpulend_rt.so",
    "gpulend/_simulator/libgpulend_sim.so",
    "gpulend/_simulator/driver/libcuda.so",
    "gpulend/_simulator/driver/libcuda.so.1",
}
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
# The README's example, as far as it goes without torch.
EXAMPLE = """
import gpulend, numpy as np
lease = gpulend.from_host(np.arange(6, dtype="float32"))
module = gpulend.compile("__global__ void scale(float *x, float y) { x[threadIdx.x] *= y; }")
module["scale"][1, 6](lease, 10)
assert lease.to_host().tolist() == [0, 10, 20, 30, 40, 50] and lease.simulated
print(gpulend.__version__, lease)
"""


# zig links an unwinder of its own into each library. A thread that ends inside of one, as Python's
# may at exit, is unwound by the system's libgcc_s, and the two do not understand each other.
UNWINDER = {
    "GCC_3.0": (
        *("DeleteException", "GetDataRelBase", "GetIP", "GetLanguageSpecificData"),
        *("GetRegionStart", "GetTextRelBase", "RaiseException", "Resume", "SetGR", "SetIP"),
    ),
    "GCC_3.3": ("Backtrace", "FindEnclosingFunction", "GetCFA", "Resume_or_Rethrow"),
    "GCC_4.2.0": ("GetIPInfo",),
}


class Wheel(NamedTuple):
    """A wheel and what it is for."""

    file: Path
    python: str
    machine: str


def main() -> None:
    """Build, check, try and list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", action="append", choices=MACHINES, help="default: all")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="default: all")
    parser.add_argument("--smoke", action="append", default=[], metavar="MACHINE:3.X=COMMAND")
    parser.add_argument("--no-crates", action="store_true", help="leave the crates out")
    asked = parser.parse_args()
    named = dict(word.split("=", 1) for word in asked.smoke)
    shutil.rmtree(UPLOAD, ignore_errors=True)
    UPLOAD.mkdir(parents=True)
    source = build_source()
    wheels = []
    for machine in asked.machine or MACHINES:
        wheels += build_wheels(source, machine, asked.python or list(PYTHONS))
    tried = {wheel.file.name: check(wheel) + ", " + smoke(wheel, named) for wheel in wheels}
    if not asked.no_crates:
        package_crates()
    show(tried)


def build_source() -> Path:
    """Make the source distribution and unpack it: the wheels are built from what is uploaded."""
    run([sys.executable, "-m", "maturin", "sdist", "--out", UPLOAD])
    (archive,) = UPLOAD.glob("*.tar.gz")
    folder = WORK / "source"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    return unpacked


def build_wheels(source: Path, machine: str, pythons: list[str]) -> list[Wheel]:
    """Build the simulated GPU for a machine, then a wheel for each Python around it."""
    target = f"{machine}-unknown-linux-gnu"
    name = f"CARGO_TARGET_{target.upper().replace('-', '_')}_RUSTFLAGS"
    flags = {name: f"-C link-arg={make_unwinder(machine)}"}
    simulator = [sys.executable, source / "scripts/simulator.py"]
    run([*simulator, "--target", target, "--glibc", GLIBC], cwd=source, **flags)
    tag = f"manylinux_{GLIBC.replace('.', '_')}"
    maturin = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--zig"]
    maturin += ["--target", target, "--compatibility", tag, "--out", UPLOAD]
    run([*maturin, "--interpreter", *(f"python{it}" for it in pythons)], cwd=source, **flags)
    built = []
    for python in pythons:
        name = f"cp{python.replace('.', '')}"
        (file,) = UPLOAD.glob(f"gpulend-*-{name}-{name}-{tag}_{machine}.whl")
        built.append(Wheel(file, python, machine))
    return built


def make_unwinder(machine: str) -> Path:
    """Make a library with the names of the system's libgcc_s and nothing else, to link with."""
    folder = WORK / "unwinder" / machine
    folder.mkdir(parents=True, exist_ok=True)
    versions = {key: [f"_Unwind_{name}" for name in names] for key, names in UNWINDER.items()}
    names = [name for names in versions.values() for name in names]
    (folder / "names.c").write_text("".join(f"void {name}(void) {{}}\n" for name in names))
    (folder / "names.map").write_text(
        "".join(f"{key} {{ global: {'; '.join(names)}; }};\n" for key, names in versions.items())
    )
    library = folder / "libgcc_s.so.1"
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{GLIBC}"]
    options = [f"-Wl,-soname,{library.name}", f"-Wl,--version-script={folder / 'names.map'}"]
    run([*zig, "-shared", "-nostdlib", *options, folder / "names.c", "-o", library])
    return library


def check(wheel: Wheel) -> str:
    """Audit a wheel and look into it; return the oldest platform that it runs on."""
    said = run([sys.executable, "-m", "auditwheel", "show", wheel.file], capture=True)
    words = " ".join(said.split())
    found = re.search(r'following platform tag: "(manylinux_(\d+)_(\d+)_\w+)"', words)
    if found is None or (int(found[2]), int(found[3])) > tuple(map(int, GLIBC.split("."))):
        sys.exit(f"{wheel.file.name} does not suit its tag:\n{said}")
    with zipfile.ZipFile(wheel.file) as archive:
        libraries = {name for name in archive.namelist() if ".so" in name}
        native = {name for name in libraries if name.startswith("gpulend/_native.cpython-")}
        if len(native) != 1 or libraries - native != LIBRARIES:
            sys.exit(f"{wheel.file.name} holds {sorted(libraries)}")
        for name in libraries:
            content = archive.read(name)
            if int.from_bytes(content[18:20], "little") != ELF_MACHINES[wheel.machine]:
                sys.exit(f"{name} in {wheel.file.name} is not for {wheel.machine}")
            if "driver" not in name and b"\0libgcc_s.so.1\0" not in content:
                sys.exit(f"{name} in {wheel.file.name} has an unwinder of its own")
    if wheel.file.stat().st_size > MOST_BYTES:
        sys.exit(f"{wheel.file.name} is larger than PyPI takes")
    return f"auditwheel: {found[1]}"


def smoke(wheel: Wheel, named: dict[str, str]) -> str:
    """Install a wheel beside NumPy alone, and run the example, the doctor and the demo."""
    command = named.get(f"{wheel.machine}:{wheel.python}")
    if command is None and wheel.machine == platform.machine():
        command = interpreter(wheel.python)
    if command is None:
        return "no Python for it here"
    words = shlex.split(command)
    folder = WORK / f"smoke-{wheel.machine}-{wheel.python}"
    shutil.rmtree(folder, ignore_errors=True)
    variables = {"GPULEND_DEVICE": "simulated", "GPULEND_CACHE": "off"}
    if len(words) == 1:
        run([*words, "-m", "venv", folder])
        words = [str(folder / "bin/python")]
        run([*words, "-m", "pip", "install", "-q", f"{wheel.file}[sim]", "numpy"])
    else:
        # A Python of another machine: pip and zig of this one lay packages out and compile.
        chosen = ["--platform", f"manylinux_{GLIBC.replace('.', '_')}_{wheel.machine}"]
        chosen += ["--python-version", wheel.python, "--only-binary=:all:"]
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target", folder]
        run([*pip, *chosen, wheel.file, "numpy"])
        zig = [sys.executable, "-c", "import ziglang; print(ziglang.__path__[0])"]
        variables["GPULEND_ZIGLANG"] = run(zig, capture=True).strip() + "/zig"
        variables["PYTHONPATH"] = str(folder)
    for arguments in (
        ["-c", EXAMPLE],
        ["-m", "gpulend", "demo"],
        ["-m", "gpulend", "doctor", "--quick"],
        ["-m", "gpulend", "doctor", "--only", "numpy", "--limit", "600"],
    ):
        run([*words, *arguments], cwd=WORK, **variables)
    return "example, demo and doctor ran"


def interpreter(python: str) -> str | None:
    """Find a Python of this version: on the path, or among those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [shutil.which(f"python{python}"), *sorted(pyenv.glob(f"{python}.*/bin/python"))]
    for place in filter(None, places):
        asked = [str(place), "-c", "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        if answer.stdout.strip() == python:
            return shlex.quote(str(place))
    return None


def package_crates() -> None:
    """Pack the crates, each built from its package alone."""
    packages = [word for name in CRATES for word in ("--package", name)]
    run(["cargo", "package", "--locked", "--allow-dirty", *packages], cwd=ROOT)
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "package"
    for name in CRATES:
        shutil.copy(max(folder.glob(f"{name}-[0-9]*.crate"), key=os.path.getmtime), UPLOAD)


def show(tried: dict[str, str]) -> None:
    """List what would be uploaded."""
    print("\nwould be uploaded, from", UPLOAD)
    for file in sorted(UPLOAD.iterdir()):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        size = file.stat().st_size
        print(f"{size:>11,} bytes  sha256 {digest}…  {file.name}  {tried.get(file.name, '')}")


def run(
    command: list[str | Path], cwd: Path = ROOT, capture: bool = False, **variables: str
) -> str:
    """Run a tool; end with its status if it fails. Return what it printed, if that is asked for."""
    words = list(map(str, command))
    print("+", shlex.join(words if len(words) < 12 else [*words[:11], "…"]), flush=True)
    tools = str(Path(sys.executable).parent)
    path = os.pathsep.join([tools, os.environ.get("PATH", "")])
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, "PATH": path, **variables},
        stdout=subprocess.PIPE if capture else None,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{shlex.join(words)} failed with status {done.returncode}")
    return done.stdout or ""


if __name__ == "__main__":
    main()
