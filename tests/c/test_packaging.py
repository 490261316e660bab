"""What `make install` lays out is found by pkg-config and CMake, also after it was moved."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from conftest import HERE, ROOT, STRICT, C, compilers, need_tool, run, succeed


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
    newer = (tmp_path / "CMakeLists.txt").read_text().replace("gpulend 0.1 ", "gpulend 0.2 ")
    (tmp_path / "CMakeLists.txt").write_text(newer)
    asked = [cmake, "-S", tmp_path, "-B", tmp_path / "newer", f"-DCMAKE_PREFIX_PATH={prefix}"]
    assert run(asked).returncode != 0


def test_destdir_comes_before_the_prefix(tmp_path):
    """Packagers lay a prefix out below a folder of their own."""
    need_tool("cargo")
    if not (ROOT / "Cargo.toml").exists():
        pytest.skip("what scripts/bundle.py lays out has no sources")
    command = [
        sys.executable,
        ROOT / "scripts/library.py",
        "--prefix",
        "/usr",
        "--destdir",
        tmp_path,
    ]
    succeed(command)
    assert (tmp_path / "usr/lib/libgpulend.so.0").resolve().name == "libgpulend.so.0.1.0"
    files = {str(path.relative_to(tmp_path / "usr")) for path in (tmp_path / "usr").rglob("*")}
    assert {"include/gpulend.h", "include/gpulend.hpp", "lib/libgpulend.a"} <= files
    text = (tmp_path / "usr/lib/pkgconfig/gpulend.pc").read_text()
    assert str(tmp_path) not in text
