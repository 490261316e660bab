"""The build backend that `pyproject.toml` names: packs the simulated GPU, then is maturin.

Every hook is maturin's own (PEP 517, PEP 660); the two that make something installable first build
what maturin would not, because its libraries are no part of the extension module.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any

import maturin
import simulator
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel and return its name."""
    _pack()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel that leads to this tree and return its name."""
    _pack()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def _pack() -> None:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        # Its objects begin with other fields, and hot paths read objects by their fields.
        sys.exit(
            "gpulend is not for free-threaded CPython yet: "
            f"use the usual build of Python {sys.version_info.major}.{sys.version_info.minor}"
        )
    if shutil.which("cargo") is None and not os.environ.get("MATURIN_NO_INSTALL_RUST"):
        # maturin asked for it where there is no Rust, and would use it itself a moment later.
        from puccinialin import setup_rust

        os.environ.update(setup_rust())
    simulator.main([])
