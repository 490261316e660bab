"""Builds the simulated GPU's libraries and puts them into the Python package.

`python/gpulend/_simulator/libgpulend_sim.so` is the simulated GPU. `driver/` beside it holds
libraries without a function of their own, under the names that programs ask the loader for, whose
one dependency is the simulated GPU. They have a folder to themselves, so that a loader's path that
names it finds a driver there and nothing else.

    python3 scripts/simulator.py [--quick] [--target TRIPLE --glibc VERSION]

`--quick` builds without optimisations, and the core on the way, which the extension needs next.
With a target cargo-zigbuild links for it and for that release of glibc: scripts/release.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKED = ROOT / "python/gpulend/_simulator"
SIMULATOR = "libgpulend_sim.so"
# Most programs ask for the first; some, as Numba and `find_library("cuda")`, for the second.
DRIVERS = ("libcuda.so.1", "libcuda.so")
MACHINES = ("x86_64", "aarch64")


def main(arguments: list[str] | None = None) -> None:
    """Build the libraries and put them into the package."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="without optimisations")
    parser.add_argument("--target", help="build for another machine, by cargo-zigbuild")
    parser.add_argument("--glibc", help="the oldest release of glibc that it must run with")
    asked = parser.parse_args(arguments)
    machine = asked.target.partition("-")[0] if asked.target else platform.machine()
    if platform.system() != "Linux" or machine not in MACHINES:
        print("the simulated GPU is for Linux on x86-64 and aarch64; packing gpulend without it")
        return
    (PACKED / "driver").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PACKED) as folder:
        made = Path(folder)
        if asked.target:
            # The system's tools know this machine's format only: the linker strips.
            built = _build(_cross(asked.target, asked.glibc))
            shutil.copy(built, made / SIMULATOR)
            compiler = [sys.executable, "-m", "ziglang", "cc"]
            compiler += ["-target", f"{machine}-linux-gnu.{asked.glibc}"]
        else:
            built = _build(_native(asked.quick))
            tool = shlex.split(os.environ.get("STRIP", "strip"))
            _run([*tool, "--strip-unneeded", "-o", str(made / SIMULATOR), str(built)])
            compiler = shlex.split(os.environ.get("CC", "cc"))
        _link(compiler, made / SIMULATOR, made / DRIVERS[0])
        _put(made / SIMULATOR, PACKED / SIMULATOR)
        for name in DRIVERS:
            _put(made / DRIVERS[0], PACKED / "driver" / name)


def _native(quick: bool) -> list[str]:
    """Return the command that builds for this machine."""
    kind = ["--package", "gpulend-capi"] if quick else ["--release"]
    return [os.environ.get("CARGO", "cargo"), "build", *kind]


def _cross(target: str, glibc: str) -> list[str]:
    """Return the command that builds for a target."""
    strip = ["--config", 'profile.release.package.gpulend-sim.strip="symbols"']
    return ["cargo-zigbuild", "zigbuild", "--release", "--target", f"{target}.{glibc}", *strip]


def _build(command: list[str]) -> Path:
    """Build the crate and return where cargo says it put the library."""
    told = ["--package", "gpulend-sim", "--message-format=json-render-diagnostics"]
    done = _run([*command, *told], stdout=subprocess.PIPE)
    for message in map(json.loads, done.stdout.splitlines()):
        for file in message.get("filenames", ()):
            if Path(file).name == SIMULATOR:
                return Path(file)
    sys.exit(f"cargo built gpulend-sim but named no {SIMULATOR}; see crate-type in its Cargo.toml")


def _link(compiler: list[str], simulator: Path, driver: Path) -> None:
    """Make a library of nothing that needs the simulated GPU in the folder above its own."""
    options = [
        *("-shared", "-nostdlib", "-s", "-x", "c", os.devnull, "-x", "none"),
        # Nothing in it calls the simulated GPU, and the linker would leave it out.
        *("-Wl,--no-as-needed", str(simulator)),
        *(f"-Wl,-soname,{DRIVERS[0]}", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/.."),
        *("-o", str(driver)),
    ]
    _run([*compiler, *options])


def _put(made: Path, place: Path) -> None:
    """Replace a file whole, if it is another: a process may have the old one mapped."""
    if place.exists() and place.read_bytes() == made.read_bytes():
        return
    copy = made.with_suffix(".new")
    copy.write_bytes(made.read_bytes())
    copy.chmod(0o755)
    copy.replace(place)
    print(f"packed {place.relative_to(ROOT)}")


def _run(command: list[str], stdout: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a tool in the project's root; end with its status if it fails."""
    try:
        return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=stdout)
    except FileNotFoundError:
        sys.exit(
            f"cannot find {command[0]}; building gpulend needs Rust, a C compiler and binutils"
        )
    except subprocess.CalledProcessError as error:
        sys.exit(f"{shlex.join(command)} failed with status {error.returncode}")


if __name__ == "__main__":
    main()
