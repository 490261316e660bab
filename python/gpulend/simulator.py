"""The simulated GPU: where its libraries lie, what it saw, and faults on demand.

`gpulend.simulate` chooses it for this process, `gpulend run -- CMD` for a program, and
`GPULEND_DEVICE=simulated` for whatever uses gpulend. The functions below need no choice, except
that `report` and `faults` want it loaded: by gpulend, or by another client that found it.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any

from gpulend import _native


def library() -> str:
    """Return the path of `libgpulend_sim.so`, which offers CUDA's driver API.

    >>> from gpulend import simulator
    >>> simulator.library().rpartition("/")[2]
    'libgpulend_sim.so'
    """
    return _native.simulator_library()


def driver_folder() -> str:
    """Return the folder in which the simulated GPU is called `libcuda.so.1`.

    On `LD_LIBRARY_PATH` it makes a program that loads CUDA's driver find the simulated GPU.

    >>> import os
    >>> from gpulend import simulator
    >>> sorted(os.listdir(simulator.driver_folder()))
    ['libcuda.so', 'libcuda.so.1']
    """
    return _native.driver_folder()


def report() -> dict[str, Any]:
    """Tell what the simulated GPU of this process saw.

    `calls` and `unsupported` count functions by name, `faults` lists what the program did wrong,
    `live` counts what it has not given back.

    >>> import gpulend
    >>> from gpulend import simulator
    >>> gpulend.simulate()
    >>> simulator.report()["calls"]["cuInit"]
    1
    """
    told: dict[str, Any] = json.loads(_native.report())
    return told


class Faults:
    """Rules in force; leaving the `with` block ends them."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _native.set_faults("")


def faults(rules: str) -> Faults:
    """Say what shall go wrong on the simulated GPU of this process, from now on.

    Rules are parted by semicolons and replace those before: `cuMemAlloc#3=OUT_OF_MEMORY` fails the
    third call of a function from now, `memory=64MiB` ends each device's memory there, `lost=0`
    loses a device. No rules, or the end of a `with` block, end it.

    >>> import gpulend
    >>> from gpulend import simulator
    >>> gpulend.simulate()
    >>> with simulator.faults("cuMemAlloc#1=OUT_OF_MEMORY"):
    ...     pass  # the first allocation here would fail
    """
    _native.set_faults(rules)
    return Faults()
