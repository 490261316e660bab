"""Builds the simulated GPU and the runtime of programs, and puts them into the Python package.

`python/gpulend/_runtime/libgpulend_rt.so` is what `gpulend build` links programs with.
`python/gpulend/_simulator/libgpulend_sim.so` is the simulated GPU. `driver/` beside it holds
libraries under the names that programs ask the loader for. They are filters: they have the names of
a driver's functions, so that linkers find them, and the loader takes the functions themselves from
the simulated GPU. They have a folder to themselves, so that a loader's path that names it finds a
driver there and nothing else.

    python3 scripts/simulator.py [--quick] [--target TRIPLE --glibc VERSION]

`--quick` builds without optimisations. The core is built on the way, which the extension needs
next: what is linked as a whole keeps one processor busy, and this the others. With a target
cargo-zigbuild links for it and for that release of glibc: scripts/release.py.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKED = ROOT / "python/gpulend/_simulator"
SIMULATOR = "libgpulend_sim.so"
RUNTIME = ROOT / "python/gpulend/_runtime/libgpulend_rt.so"
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
    RUNTIME.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PACKED) as folder:
        made = Path(folder)
        if asked.target:
            # The system's tools know this machine's format only: the linker strips.
            for name, built in _build(_cross(asked.target, asked.glibc)).items():
                shutil.copy(built, made / name)
            zig = [sys.executable, "-m", "ziglang"]
            compiler = [*zig, "cc", "-target", f"{machine}-linux-gnu.{asked.glibc}"]
            # zig's compiler passes few options on to its linker.
            linker = [*zig, "ld.lld"]
        else:
            tool = shlex.split(os.environ.get("STRIP", "strip"))
            for name, built in _build(_native(asked.quick)).items():
                _run([*tool, "--strip-unneeded", "-o", str(made / name), str(built)])
            compiler = shlex.split(os.environ.get("CC", "cc"))
            linker = []
        _link(compiler, linker, made)
        _put(made / SIMULATOR, PACKED / SIMULATOR)
        _put(made / RUNTIME.name, RUNTIME)
        for name in DRIVERS:
            _put(made / DRIVERS[0], PACKED / "driver" / name)


def _native(quick: bool) -> list[str]:
    """Return the command that builds for this machine."""
    kind = [] if quick else ["--release"]
    return [os.environ.get("CARGO", "cargo"), "build", *kind, "--package", "gpulend-capi"]


def _cross(target: str, glibc: str) -> list[str]:
    """Return the command that builds for a target."""
    names = ("gpulend-sim", "gpulend-runtime")
    settings = (f'profile.release.package.{name}.strip="symbols"' for name in names)
    strip = [word for setting in settings for word in ("--config", setting)]
    return ["cargo-zigbuild", "zigbuild", "--release", "--target", f"{target}.{glibc}", *strip]


def _build(command: list[str]) -> dict[str, Path]:
    """Build the crates and return where cargo says it put each library."""
    crates = ["--package", "gpulend-sim", "--package", "gpulend-runtime"]
    told = ["--message-format=json-render-diagnostics"]
    done = _run([*command, *crates, *told], stdout=subprocess.PIPE)
    found: dict[str, Path] = {}
    for message in map(json.loads, done.stdout.splitlines()):
        for file in message.get("filenames", ()):
            if Path(file).name in (SIMULATOR, RUNTIME.name):
                found[Path(file).name] = Path(file)
    if len(found) < 2:
        sys.exit(f"cargo named no {SIMULATOR} or no {RUNTIME.name}; see crate-type in Cargo.toml")
    return found


def _link(compiler: list[str], linker: list[str], folder: Path) -> None:
    """Make a filter of the simulated GPU, which is in the folder above its own when installed.

    Without a linker the compiler links.
    """
    source, made = folder / "driver.c", folder / "driver.o"
    # None of these is ever called: the loader finds the simulated GPU's first.
    source.write_text("".join(f"int {name}(void) {{ return 999; }}\n" for name in _symbols()))
    _run([*compiler, "-c", "-O1", "-fPIC", str(source), "-o", str(made)])
    # Nothing in it calls the simulated GPU, and the linker would leave it out.
    options = ["--no-as-needed", str(folder / SIMULATOR), f"--filter={SIMULATOR}"]
    options += [f"-soname={DRIVERS[0]}", "--enable-new-dtags", "-rpath=$ORIGIN/.."]
    if not linker:
        linker = [*compiler, "-nostdlib"]
        options = [f"-Wl,{word}" if word.startswith("-") else word for word in options]
    _run([*linker, "-shared", "-s", str(made), *options, "-o", str(folder / DRIVERS[0])])


def _symbols() -> list[str]:
    """Return the symbols of a driver's functions, from the table of all that there are."""
    table = (ROOT / "crates/sim/src/api/table.rs").read_text()
    return sorted(set(re.findall(r"\b\d+ \w+ (cu\w+)", table)))


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
