"""What `make install` lays out is found by pkg-config and CMake, also after it was moved."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import gpulend
import pytest
from conftest import HERE, ROOT, STRICT, C, compilers, need, need_tool, run, succeed
from gpulend import config


@pytest.fixture(scope="module")
def prefix(stage, tmp_path_factory) -> Path:
    """Give a prefix at another place than the one it was laid out for."""
    folder = tmp_path_factory.mktemp("installed") / "moved"
    shutil.copytree(stage, folder, symlinks=True)
    return folder


@pytest.mark.parametrize("kind", [[], ["--static"]], ids=["shared", "static"])
def test_pkg_config_finds_it(kind, prefix, tmp_path):
    """`cc program.c $(pkg-config --cflags --libs gpulend)` runs on the simulated GPU."""
    where = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    pkg_config = need_tool("pkg-config")
    flags = succeed([pkg_config, *kind, "--cflags", "--libs", "gpulend"], **where).split()
    if kind:
        flags = [
            str(prefix / "lib/libgpulend.a") if flag == "-lgpulend" else flag for flag in flags
        ]
    program = tmp_path / "tour"
    succeed([*C, *STRICT, HERE / "tour.c", "-o", program, *flags])
    libraries = {"LD_LIBRARY_PATH": str(prefix / "lib")}
    if kind:
        libraries["GPULEND_SIM_LIBRARY"] = str(prefix / "lib/gpulend/libgpulend_sim.so")
    assert succeed([program], **libraries).endswith("done\n")
    assert succeed([pkg_config, "--modversion", "gpulend"], **where) == "0.1.0\n"


def test_cmake_finds_it(prefix, tmp_path):
    """`find_package(gpulend)` and both imported targets."""
    cmake = need_tool("cmake")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\n"
        "project(tour C CXX)\n"
        "set(CMAKE_CXX_STANDARD 17)\n"
        "find_package(gpulend 0.1 REQUIRED CONFIG)\n"
        f"add_executable(tour {HERE / 'tour.c'})\n"
        "target_link_libraries(tour PRIVATE gpulend::gpulend)\n"
        f"add_executable(handles {HERE / 'handles.cpp'})\n"
        "target_link_libraries(handles PRIVATE gpulend::static)\n"
    )
    made = tmp_path / "made"
    succeed([cmake, "-S", tmp_path, "-B", made, f"-DCMAKE_PREFIX_PATH={prefix}"])
    succeed([cmake, "--build", made])
    assert succeed([made / "tour"]).endswith("done\n")
    simulator = str(prefix / "lib/gpulend/libgpulend_sim.so")
    handles = [made / "handles", *compilers().arguments()]
    assert succeed(handles, GPULEND_SIM_LIBRARY=simulator) == "done\n"


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        *(("0.1", True), ("0", True), ("0.1.0", True), ("0.1...<0.2", True), ("", True)),
        *(("0.2", False), ("1", False), ("0.1.1", False), ("0.2...<1", False)),
    ],
)
def test_cmake_compares_versions(wanted, found, prefix, tmp_path):
    """A series before 1.0 is a minor release; a bare major takes each of its series."""
    cmake = need_tool("cmake")
    text = f"find_package(gpulend {wanted} REQUIRED CONFIG)\n"
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.19)\nproject(asked NONE)\n{text}"
    )
    asked = [cmake, "-S", tmp_path, "-B", tmp_path / "made", f"-DCMAKE_PREFIX_PATH={prefix}"]
    assert (run(asked).returncode == 0) == found


@pytest.mark.parametrize("libdir", ["lib", "lib64", "/usr/lib/x86_64-linux-gnu"])
def test_destdir_comes_before_the_prefix_and_libdir_is_below_it(libdir, tmp_path):
    """Packagers lay a prefix out below a folder of their own; some name that of libraries too."""
    need_tool("cargo")
    if not (ROOT / "Cargo.toml").exists():
        pytest.skip("what scripts/bundle.py lays out has no sources")
    script = [sys.executable, ROOT / "scripts/library.py", "--prefix", "/usr", "--libdir", libdir]
    succeed([*script, "--destdir", tmp_path])
    usr = tmp_path / "usr"
    lib = usr / libdir.removeprefix("/usr/")
    assert (lib / "libgpulend.so.0").resolve().name == "libgpulend.so.0.1.0"
    files = {str(path.relative_to(usr)) for path in usr.rglob("*")}
    assert {"include/gpulend.h", "include/gpulend.hpp"} <= files
    assert {path.parent for path in usr.rglob("libgpulend.*")} == {lib}
    text = (lib / "pkgconfig/gpulend.pc").read_text()
    assert str(tmp_path) not in text
    where = {"PKG_CONFIG_PATH": str(lib / "pkgconfig")}
    flags = succeed([need_tool("pkg-config"), "--cflags", "--libs", "gpulend"], **where).split()
    program = tmp_path / "tour"
    succeed([*C, HERE / "tour.c", "-o", program, *flags, f"-Wl,-rpath,{lib}"])
    assert succeed([program]).endswith("done\n")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(tour C)\nfind_package(gpulend 0 REQUIRED)\n"
        f"add_executable(again {HERE / 'tour.c'})\n"
        "target_link_libraries(again PRIVATE gpulend::gpulend)\n"
    )
    cmake, made = need_tool("cmake"), tmp_path / "made"
    succeed([cmake, "-S", tmp_path, "-B", made, f"-Dgpulend_DIR={lib / 'cmake/gpulend'}"])
    succeed([cmake, "--build", made])
    assert succeed([made / "again"]).endswith("done\n")


def test_the_libraries_folder_is_in_the_prefix():
    """What is found by its place in the prefix cannot be outside of it."""
    if not (ROOT / "Cargo.toml").exists():
        pytest.skip("what scripts/bundle.py lays out has no sources")
    script = [sys.executable, ROOT / "scripts/library.py", "--prefix", "/usr"]
    done = run([*script, "--libdir", "/opt/lib"])
    assert done.returncode == 1
    assert "/opt/lib is not below the prefix /usr" in done.stderr


def test_the_package_has_the_rules_of_the_library_for_versions():
    """Under the version that it has itself."""
    template = ROOT / "crates/capi/packaging/gpulendConfigVersion.cmake.in"
    if not template.exists():
        pytest.skip("what scripts/bundle.py lays out has no sources")
    wanted = template.read_text().replace("@VERSION@", gpulend.__version__)
    assert (config.cmake_folder() / "gpulendConfigVersion.cmake").read_text() == wanted


def test_cmake_finds_the_gpulend_of_python(tmp_path):
    """`find_package(gpulend)` in the folder that `gpulend.config --cmakedir` names."""
    cmake = need_tool("cmake")
    folder = succeed([sys.executable, "-m", "gpulend.config", "--cmakedir"]).strip()
    binding = HERE / "examples/bindings"
    settings = [f"-Dgpulend_DIR={folder}", f"-DPython_EXECUTABLE={sys.executable}"]
    for module, option in (("pybind11", "--cmakedir"), ("nanobind", "--cmake_dir")):
        need(module)
        place = succeed([sys.executable, "-m", module, option]).strip()
        settings.append(f"-D{module}_DIR={place}")
    made = tmp_path / "made"
    succeed([cmake, "-S", binding, "-B", made, "-DCMAKE_BUILD_TYPE=Debug", *settings])
    succeed([cmake, "--build", made])
    path = os.pathsep.join(filter(None, [str(made), os.environ.get("PYTHONPATH")]))
    lines = succeed([sys.executable, binding / "scale.py"], PYTHONPATH=path).splitlines()
    for name in ("pybind11_scale", "nanobind_scale"):
        assert lines.pop(0) == f"{name} [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]"
        assert lines.pop(0).startswith("scale: argument 1 (x) is a float64 array")
        assert lines.pop(0) == "TypeError"
    assert lines == []
