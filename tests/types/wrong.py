"""Mistakes that type checkers find: one that they do not find is an unused `type: ignore`."""

from __future__ import annotations

from typing import Literal

import gpulend
import numpy as np


def mistakes(lease: gpulend.Lease, name: str) -> None:
    """Each line is one."""
    lease.lend("torhc")  # type: ignore[call-overload]
    gpulend.lend(lease, "nunpy")  # type: ignore[call-overload]
    # Any text might be misspelt; FrameworkName(name) says that it was meant.
    gpulend.lend(lease, name)  # type: ignore[call-overload]
    gpulend.lend(lease, "torch", steram=1)  # type: ignore[call-overload]
    lease.lend("numpy").no_such_attribute  # type: ignore[attr-defined]
    gpulend.compile("", compiler="nvcc")  # type: ignore[arg-type]
    gpulend.simulate(check="everything")  # type: ignore[arg-type]
    lease.shape = (1,)  # type: ignore[misc]
    gpulend.Lease(np.zeros(3)).borow()  # type: ignore[call-arg, attr-defined]
    kind: Literal["cpu", "gpu"] = lease.device.kind  # type: ignore[assignment]
    print(kind)
