"""The libraries inside the package: what they are, that wheels hold them, that they load."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import need
from gpulend import _native, simulator
from gpulend.build import RUNTIME
from machines import clean_environment, start

ROOT = Path(__file__).parents[2]
DRIVERS = ("libcuda.so", "libcuda.so.1")
PACKED = {"libgpulend_sim.so", *(f"driver/{name}" for name in DRIVERS)}


def folder():
    """Return the folder that holds all of them."""
    return Path(simulator.library()).parent


def elf(*arguments):
    """Return what `readelf` says about a file."""
    done = subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def dynamic(library):
    """Return the dynamic section as a dict of lists."""
    found = {}
    for tag, value in re.findall(r"\((\w+)\)\s+(.*)", elf("-d", str(library))):
        bracketed = re.search(r"\[(.*)\]", value)
        found.setdefault(tag, []).append(bracketed[1] if bracketed else value.strip())
    return found


def exported(library):
    """Return the names that a library offers."""
    rows = [line.split() for line in elf("--dyn-syms", str(library)).splitlines()]
    names = {row[7] for row in rows if len(row) > 7 and row[6].isdigit() and row[4] != "LOCAL"}
    return {name.partition("@")[0] for name in names}


def newest_glibc(library):
    """Return the newest release of glibc that a library asks for."""
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", elf("-V", str(library)))
    return max((int(major), int(minor)) for major, minor in versions)


def test_the_package_holds_the_libraries_and_nothing_else():
    """The drivers have a folder to themselves, for those who put it on the loader's path."""
    found = {path.relative_to(folder()).as_posix() for path in folder().rglob("*.so*")}
    assert found == PACKED
    assert sorted(os.listdir(simulator.driver_folder())) == sorted(DRIVERS)
    assert simulator.driver_folder() == str(folder() / "driver")


def test_the_runtime_offers_cudas_functions_only():
    """Under its own name, never NVIDIA's; it needs no driver to be linked."""
    library = RUNTIME / "libgpulend_rt.so"
    entries = dynamic(library)
    assert entries["SONAME"] == ["libgpulend_rt.so"]
    assert not [name for name in entries["NEEDED"] if name.startswith("libcu")]
    names = exported(library)
    assert {"cudaMalloc", "cudaLaunchKernel", "__cudaRegisterFatBinary"} <= names
    assert [name for name in names if not name.startswith(("cuda", "__cuda"))] == []


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_leads_to_the_simulated_gpu_beside_it(name):
    """The names of a driver's functions, for linkers; the functions are those of the other."""
    library = Path(simulator.driver_folder()) / name
    entries = dynamic(library)
    assert entries["NEEDED"] == ["libgpulend_sim.so"]
    assert entries["SONAME"] == ["libcuda.so.1"]
    assert entries["RUNPATH"] == ["$ORIGIN/.."]
    assert "RPATH" not in entries
    assert entries["FILTER"] == ["libgpulend_sim.so"]
    functions = {name for name in exported(simulator.library()) if name.startswith("cu")}
    assert exported(library) == functions


def test_a_program_that_is_linked_with_the_driver_calls_the_simulated_gpu(tmp_path):
    """Also where the linker leaves out what it thinks unused, as some do without being asked."""
    (tmp_path / "count.c").write_text(
        "#include <stdio.h>\nint cuInit(unsigned); int cuDeviceGetCount(int *);\n"
        "int main(void) { int n = -1; int bad = cuInit(0) || cuDeviceGetCount(&n);"
        ' printf("%d %d\\n", bad, n); return bad; }\n'
    )
    compiler = [*shlex.split(os.environ.get("CC", "cc")), "count.c", "-o", "count"]
    compiler += ["-Wl,--as-needed", "-L", simulator.driver_folder(), "-lcuda"]
    subprocess.run(compiler, cwd=tmp_path, check=True)
    assert dynamic(tmp_path / "count")["NEEDED"][0] == "libcuda.so.1"
    done = start(
        [sys.executable, "-m", "gpulend", "run", "--devices", "3", "--", tmp_path / "count"]
    )
    assert done.stdout == "0 3\n"


def test_the_simulated_gpu_offers_the_drivers_functions_and_ours_only():
    """Nothing that could get into the way of another library, and never unloaded."""
    entries = dynamic(simulator.library())
    assert entries["SONAME"] == ["libgpulend_sim.so"]
    assert "NODELETE" in entries["FLAGS_1"][0]
    names = exported(simulator.library())
    assert [name for name in names if not name.startswith(("cu", "gpulend_sim_"))] == []
    functions = [
        "admit",
        "configure",
        "end",
        "faults",
        "mistake",
        "passive",
        "problem",
        "report",
        "span",
    ]
    assert {name for name in names if name.startswith("gpulend")} == {
        f"gpulend_sim_{name}" for name in functions
    }
    table = (ROOT / "crates/core/src/driver/functions.rs").read_text()
    called = re.findall(r'^    \w+ = "(cu\w+)"', table, re.M)
    assert len(called) >= 40
    assert [name for name in called if name not in names] == []


def test_the_simulated_gpu_needs_no_more_than_the_extension_does():
    """A wheel's tag speaks of the extension only: nothing newer, no other library, no CUDA."""
    native = _native.__file__
    assert newest_glibc(simulator.library()) <= newest_glibc(native)
    usual = {"libc.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0"}
    needed = set(dynamic(simulator.library())["NEEDED"])
    assert needed <= usual | {"ld-linux-x86-64.so.2"}


@pytest.mark.parametrize("name", sorted(PACKED))
def test_what_is_packed_is_stripped(name):
    """No symbols but the dynamic ones, and no lines of sources."""
    sections = elf("-S", str(folder() / name))
    assert ".symtab" not in sections
    assert ".debug" not in sections


def load_backend():
    """Import the build backend, as pip does."""
    specification = importlib.util.spec_from_file_location("backend", ROOT / "scripts/backend.py")
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        backend = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(backend)
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return backend


def test_the_backend_is_maturin_for_every_hook():
    """A hook that is missing here would be one that pip believes does not exist."""
    maturin = need("maturin")
    text = (ROOT / "scripts/backend.py").read_text()
    hooks = {name for name in vars(maturin) if re.match(r"build_|get_requires|prepare_", name)}
    assert len(hooks) == 8
    listed = re.search(r"__all__ = \[(.*?)\]", text, re.S)[1]
    assert set(re.findall(r'"(\w+)"', listed)) == hooks
    backend = load_backend()
    own = {name for name in hooks if getattr(backend, name) is not getattr(maturin, name)}
    assert own == {"build_wheel", "build_editable"}


def test_a_free_threaded_python_is_refused_before_anything_is_built(monkeypatch, tmp_path):
    """With a sentence, where the compiler would have many."""
    need("maturin")
    backend = load_backend()
    monkeypatch.setattr(backend.sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    for build in (backend.build_wheel, backend.build_editable):
        with pytest.raises(SystemExit, match="not for free-threaded CPython yet"):
            build(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def maturin(*arguments):
    """Run maturin on the project with this Python; what was built before is used again."""
    need("maturin")
    command = [sys.executable, "-m", "maturin", *arguments]
    environment = clean_environment(PYO3_PYTHON=sys.executable)
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=1200, env=environment
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, as `maturin build` makes it with the libraries packed before."""
    output = tmp_path_factory.mktemp("wheel")
    maturin("build", "--release", "--interpreter", sys.executable, "--out", str(output))
    return next(output.glob("*.whl"))


def test_a_wheel_holds_the_libraries_as_they_were_packed(wheel):
    """Though git ignores them; maturin's check of the extension does not touch them."""
    with zipfile.ZipFile(wheel) as archive:
        found = [name for name in archive.namelist() if ".so" in name]
        packed = {name for name in found if "_native" not in name}
        runtime = "gpulend/_runtime/libgpulend_rt.so"
        assert packed == {runtime, *(f"gpulend/_simulator/{name}" for name in PACKED)}
        assert archive.read(runtime) == (RUNTIME / "libgpulend_rt.so").read_bytes()
        assert len(found) == len(packed) + 1
        for name in PACKED:
            assert archive.read(f"gpulend/_simulator/{name}") == (folder() / name).read_bytes()


def test_the_libraries_of_an_installed_wheel_load(wheel, tmp_path):
    """In a venv that has nothing else, wherever it lies: also in a folder with a space."""
    place = tmp_path / "a place"
    start([sys.executable, "-m", "venv", "--without-pip", str(place)])
    python = place / "bin/python"
    script = "import site; print(site.getsitepackages()[0])"
    packages = Path(start([python, "-c", script]).stdout.strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    program = (
        "import ctypes, sys\n"
        "from gpulend import simulator, _native\n"
        "driver = ctypes.CDLL(simulator.driver_folder() + '/libcuda.so.1')\n"
        "print(driver.cuInit(0), _native.describe_driver()[0], simulator.library())\n"
    )
    done = start([python, "-c", program], GPULEND_DEVICE="simulated")
    library = packages.resolve() / "gpulend/_simulator/libgpulend_sim.so"
    assert (done.stdout, done.stderr) == (f"0 simulated {library}\n", "")
    # Not the driver: ldd starts it like a program, and glibc cannot start a filter so.
    assert "not found" not in start(["ldd", library]).stdout
    program = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    run = [python, "-m", "gpulend", "run", "--", python, "-c", program]
    assert start(run).stdout == "0\n"


def test_a_source_distribution_can_build_all_of_it(tmp_path):
    """The crate that the extension does not depend on, and the scripts that pack it."""
    tracked = ["git", "ls-files", "--error-unmatch", "crates/sim/Cargo.toml"]
    if (
        shutil.which("git") is None
        or subprocess.run(tracked, cwd=ROOT, capture_output=True).returncode
    ):
        pytest.skip("no git checkout, from which the list of sources comes")
    maturin("sdist", "--out", str(tmp_path))
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"Cargo.toml", "Cargo.lock", "pyproject.toml", "crates/sim/Cargo.toml"}
    wanted |= {"crates/sim/src/lib.rs", "scripts/backend.py", "scripts/simulator.py", "PKG-INFO"}
    assert wanted <= names
    assert [name for name in names if ".so" in name] == []
