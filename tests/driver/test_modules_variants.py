"""Modules from a file, and how the driver loads them."""

from __future__ import annotations

from ctypes import byref, c_int, c_void_p
from pathlib import Path

from .calls import MODULE
from .control import only_simulated
from .cuda import check
from .lab import Lab, value
from .variants import cu

pytestmark = only_simulated

EAGER, LAZY = 1, 2


def test_a_module_is_loaded_from_a_file(gpu: Lab, tmp_path: Path) -> None:
    """FILE_NOT_FOUND and INVALID_IMAGE if there is none, or it is something else."""
    module, path = c_void_p(), tmp_path / "module.ptx"
    assert cu.cuModuleLoad(byref(module), str(path).encode()) == 301
    path.write_bytes(b"no module")
    assert cu.cuModuleLoad(byref(module), str(path).encode()) == 200
    assert cu.cuModuleLoad(byref(module), None) == 1
    assert module.value is None
    path.write_bytes(MODULE.read_bytes())
    check(cu.cuModuleLoad(byref(module), str(path).encode()))
    assert cu.cuModuleUnload(module) == 0
    assert cu.cuModuleUnload(module) == 400


def test_the_loading_mode_is_one_of_two(gpu: Lab) -> None:
    """Eager or lazy."""
    assert value(c_int, cu.cuModuleGetLoadingMode) in (EAGER, LAZY)
    assert cu.cuModuleGetLoadingMode(None) == 1
