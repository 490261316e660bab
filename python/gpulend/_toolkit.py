"""Where packages of Python's and of conda's keep NVIDIA's compiler and headers.

What is looked for below these folders, and which others there are, the core knows.
"""

from __future__ import annotations

import importlib.util
import os

from gpulend import _native

# Folders of NVIDIA's wheels, below their namespace package.
_WHEELS = ("cu13", "cuda_nvrtc", "cuda_runtime", "cuda_cccl", "cuda_nvcc", "cu12")
# What has headers beside it that are wanted.
_PARTS = ("nvrtc", "cudart", "cccl")


def wheels() -> list[str]:
    """Return the folders that NVIDIA's wheels may have; nothing is imported."""
    found = importlib.util.find_spec("nvidia")
    places = (found.submodule_search_locations or ()) if found else ()
    return [os.path.join(place, wheel) for place in places for wheel in _WHEELS]


def cccl() -> str | None:
    """Return the folder of the headers of Thrust, CUB and libcu++, where a package has them."""
    places = (
        os.path.join(wheel, *inside)
        for wheel in wheels()
        for inside in (("include", "cccl"), ("include",))
    )
    return next((place for place in places if os.path.isdir(os.path.join(place, "thrust"))), None)


def roots() -> list[str]:
    """Return the folders with a `lib` or an `include` of NVIDIA's.

    cuda-pathfinder finds them where it is installed, because it knows conda and distributions
    too. To import it takes some 30 ms.
    """
    try:
        from cuda.pathfinder import SUPPORTED_HEADERS_CTK, find_nvidia_header_directory
    except ImportError:
        return wheels()
    parts = [part for part in _PARTS if part in SUPPORTED_HEADERS_CTK]
    found = [folder for part in parts if (folder := find_nvidia_header_directory(part))]
    # Newer toolkits have the headers of CCCL one folder deeper.
    found = [os.path.dirname(folder.removesuffix("/cccl")) for folder in found]
    return list(dict.fromkeys([*found, *wheels()]))


def folders() -> tuple[list[str], list[str]]:
    """Return where NVRTC and where CUDA's headers may lie, besides where the loader looks."""
    libraries, headers = _native.toolkit_folders(roots())
    return [os.fspath(folder) for folder in libraries], [os.fspath(folder) for folder in headers]
