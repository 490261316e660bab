"""The simulated GPU: its libraries, its report, and injected errors.

`gpulend.simulate` chooses it for this process, `gpulend run -- CMD` for a program, and
`GPULEND_DEVICE=simulated` for everything that uses gpulend. `report` and `faults` need it loaded,
by gpulend or by another client; the other functions do not.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any

from gpulend import _native


def library() -> str:
    """Return the path of `libgpulend_sim.so`, which implements CUDA's driver API.

    >>> from gpulend import simulator
    >>> simulator.library().rpartition("/")[2]
    'libgpulend_sim.so'
    """
    return _native.simulator_library()


def driver_folder() -> str:
    """Return the folder in which the simulated GPU has the name `libcuda.so.1`.

    If it is on `LD_LIBRARY_PATH`, a program that loads CUDA's driver finds the simulated GPU.

    >>> import os
    >>> from gpulend import simulator
    >>> sorted(os.listdir(simulator.driver_folder()))
    ['libcuda.so', 'libcuda.so.1']
    """
    return _native.driver_folder()


def report() -> dict[str, Any]:
    """Return the report of this process's simulated GPU.

    `calls` and `unsupported` count functions by name, `faults` lists the program's mistakes,
    `live` counts the objects that it has not freed.

    >>> import gpulend
    >>> from gpulend import simulator
    >>> gpulend.simulate()
    >>> simulator.report()["calls"]["cuInit"]
    1
    """
    found: dict[str, Any] = json.loads(_native.report())
    return found


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
    """Inject errors into this process's simulated GPU, from now on.

    Rules are separated by semicolons and replace earlier ones: `cuMemAlloc#3=OUT_OF_MEMORY` fails
    the third call of a function from now, `memory=64MiB` limits each device's memory, `lost=0`
    loses a device. An empty string, or the end of a `with` block, removes them.

    >>> import gpulend
    >>> from gpulend import simulator
    >>> gpulend.simulate()
    >>> with simulator.faults("cuMemAlloc#1=OUT_OF_MEMORY"):
    ...     pass  # the first allocation here would fail
    """
    _native.set_faults(rules)
    return Faults()
