"""Where NVIDIA's compiler and headers are looked for."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from gpulend import _native, _toolkit
from machines import python


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    """A folder like an installed CUDA, which no variable names."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "lib").mkdir()
    (tmp_path / "include" / "cccl").mkdir(parents=True)
    return tmp_path


def test_cuda_pathfinder_is_asked_where_it_is_installed(toolkit, monkeypatch):
    """It knows places that we do not; what it does not support is not asked."""
    asked = []

    def find(part):
        asked.append(part)
        return str(toolkit / "include" / "cccl") if part == "cccl" else None

    fake = SimpleNamespace(
        SUPPORTED_HEADERS_CTK={"cccl": "", "nvrtc": ""}, find_nvidia_header_directory=find
    )
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", fake)
    assert _toolkit.roots() == [str(toolkit), *_toolkit.wheels()]
    assert asked == ["nvrtc", "cccl"]
    libraries, headers = _toolkit.folders()
    assert str(toolkit / "lib") in libraries
    assert str(toolkit / "include") in headers


def test_wheels_are_found_without_cuda_pathfinder(monkeypatch):
    """Nothing but the wheels themselves is needed."""
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    assert _toolkit.roots() == _toolkit.wheels()


def test_a_named_cuda_comes_before_packages(toolkit, tmp_path, monkeypatch):
    """A folder that is not there, or that is named by a relative path, is left out."""
    other = tmp_path / "named"
    (other / "lib64").mkdir(parents=True)
    monkeypatch.setenv("CUDA_HOME", "relative")
    monkeypatch.setenv("CUDA_PATH", str(other))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relative" / "lib").mkdir(parents=True)
    libraries, headers = _native.toolkit_folders([str(toolkit), str(tmp_path / "missing")])
    assert libraries[0] == other / "lib64"
    assert libraries[-1] == toolkit / "lib"
    assert headers[-1] == toolkit / "include"
    assert not any("relative" in str(folder) for folder in libraries)


def test_a_relative_folder_of_cuda_pathfinder_is_left_out(toolkit, monkeypatch):
    """It takes CUDA_HOME as it is; we take no relative path, wherever it comes from."""
    monkeypatch.chdir(toolkit)
    fake = SimpleNamespace(
        SUPPORTED_HEADERS_CTK={"nvrtc": ""},
        find_nvidia_header_directory=lambda _part: "relative/include",
    )
    for part in ("lib", "include"):
        (toolkit / "relative" / part).mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", fake)
    assert "relative" in _toolkit.roots()
    libraries, headers = _toolkit.folders()
    assert not any(folder.startswith("relative") for folder in libraries + headers)


def test_the_simulated_gpu_looks_for_no_toolkit():
    """What takes long to import is imported only for NVRTC."""
    program = (
        "import sys, gpulend\n"
        "gpulend.compile('__global__ void f(int *p) { *p = 1; }')\n"
        "assert 'cuda.pathfinder' not in sys.modules\n"
    )
    python(program, GPULEND_DEVICE="simulated")
