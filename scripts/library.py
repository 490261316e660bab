"""Builds libgpulend for C programs and lays it out as it is installed.

    python3 scripts/library.py [--prefix FOLDER] [--libdir FOLDER] [--destdir FOLDER]

Without a prefix it goes to `c` in cargo's target folder, where the tests find it. Libraries go to
`lib` of the prefix, or where `--libdir` says: `lib64`, or `lib/x86_64-linux-gnu` as on Debian.

The shared library is linked from the static one: rustc passes the linker its own list of exported
symbols, and linkers take no second one, so by it there would be no symbol versions.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "crates/capi/packaging"
SIMULATOR = ROOT / "python/gpulend/_simulator"
SONAME = "libgpulend.so.0"
# What `rustc --print native-static-libs` names; gpulend.pc and gpulendConfig.cmake have them too.
SYSTEM = ("-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc")


def main() -> None:
    """Build, link and lay out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=Path, help="where it will be found, as /usr/local")
    parser.add_argument("--libdir", default="lib", help="folder of libraries in the prefix")
    parser.add_argument("--destdir", default="", help="put the prefix below this folder")
    options = parser.parse_args()
    libdir = _below(options.prefix, options.libdir)
    static = _build()
    if options.prefix is None:
        folder = static.parents[1] / "c"
    else:
        prefix = Path(os.path.abspath(options.prefix))
        folder = Path(options.destdir) / prefix.relative_to("/") if options.destdir else prefix
    _lay_out(static, folder, libdir)
    print(folder)


def _below(prefix: Path | None, libdir: str) -> str:
    """Return the folder of libraries relative to the prefix, so that both can be moved."""
    whole = os.path.normpath(os.path.join(prefix or "/", libdir))
    found = os.path.relpath(whole, prefix or "/")
    if found.startswith(os.pardir):
        sys.exit(f"the folder of libraries {whole} is not below the prefix {prefix}")
    return found


def _lay_out(static: Path, folder: Path, libdir: str) -> None:
    version = re.findall(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[0]
    lib, include = folder / libdir, folder / "include"
    for place in (lib / "pkgconfig", lib / "cmake/gpulend", include):
        place.mkdir(parents=True, exist_ok=True)
    shared = lib / f"libgpulend.so.{version}"
    _link(static, shared)
    for name in (SONAME, "libgpulend.so"):
        link = lib / name
        link.unlink(missing_ok=True)
        link.symlink_to(shared.name)
    strip = shlex.split(os.environ.get("STRIP", "strip"))
    _run([*strip, "--strip-debug", "-o", str(lib / "libgpulend.a"), str(static)])
    for header in (ROOT / "include").iterdir():
        shutil.copy(header, include / header.name)
    for template, place in (
        ("gpulend.pc.in", lib / "pkgconfig/gpulend.pc"),
        ("gpulendConfig.cmake.in", lib / "cmake/gpulend/gpulendConfig.cmake"),
        ("gpulendConfigVersion.cmake.in", lib / "cmake/gpulend/gpulendConfigVersion.cmake"),
    ):
        text = (PACKAGING / template).read_text().replace("@VERSION@", version)
        up = os.path.relpath(folder, place.parent)
        place.write_text(text.replace("@LIBDIR@", libdir).replace("@UP@", up))
    if SIMULATOR.is_dir():
        shutil.copytree(SIMULATOR, lib / "gpulend", dirs_exist_ok=True)
    else:
        print("without the simulated GPU: scripts/simulator.py builds it", file=sys.stderr)


def _build() -> Path:
    """Build the crate and return where cargo says it put the static library."""
    command = [os.environ.get("CARGO", "cargo"), "build", "--release", "--package", "gpulend-capi"]
    done = _run([*command, "--message-format=json-render-diagnostics"], stdout=subprocess.PIPE)
    for message in map(json.loads, done.stdout.splitlines()):
        for file in message.get("filenames", ()):
            if Path(file).name == "libgpulend_capi.a":
                return Path(file)
    sys.exit("cargo built gpulend-capi but named no libgpulend_capi.a; see crate-type there")


def _link(static: Path, shared: Path) -> None:
    """Make the shared library: exactly the listed symbols, with their versions."""
    options = [
        *("-shared", "-o", str(shared), f"-Wl,-soname,{SONAME}"),
        *(f"-Wl,--version-script={PACKAGING / 'libgpulend.map'}", "-Wl,--no-undefined-version"),
        *("-Wl,--whole-archive", str(static), "-Wl,--no-whole-archive", "-Wl,--gc-sections"),
        # Threads and handlers at exit of ours outlive a client's dlclose.
        *("-Wl,-z,nodelete", "-Wl,-z,relro,-z,now", "-Wl,--no-undefined", "-Wl,--as-needed"),
        *("-Wl,--strip-debug", *SYSTEM),
    ]
    _run([*shlex.split(os.environ.get("CC", "cc")), *options])


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
