"""How far a float result may lie from the exact one, and why.

GPULEND_TEST_RECORD names a file for how far they do lie: of two drivers, to be put side by side.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

# The unit roundoff: one operation, rounded to nearest, is off by at most this part of its result.
ROUNDOFF = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float64): 2.0**-53}


_recorded: dict[str, float] = {}


def _record(what: str, off: Any) -> None:
    """Keep the greatest distance of the current test, where that is asked for."""
    if not (file := os.environ.get("GPULEND_TEST_RECORD")):
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0].rpartition("/")[2]
    finite = np.asarray(off)[np.isfinite(off)]
    greatest = float(np.max(finite, initial=0.0))
    key = f"{test}: {what}"
    _recorded[key] = max(_recorded.get(key, 0.0), greatest)
    Path(file).write_text(json.dumps(_recorded, indent=1, sort_keys=True))


def assert_sum(got: Any, terms: np.ndarray, axis: int | None = None, steps: int = 1) -> None:
    """Assert that `got` is the sum of `terms` (exact ones, in a wider type) along an axis.

    n terms added in any order and any tree are off by at most (n - 1)·u·sum|x| to first order
    (Higham, Accuracy and Stability, 4.2). Making a term takes up to `steps` roundings more, u·|x|
    each; a fused multiply-add only leaves one out. A factor (1 + 2^-10) covers the higher orders.
    """
    n = terms.size if axis is None else terms.shape[axis]
    unit = ROUNDOFF[np.asarray(got).dtype]
    assert n * unit < 2.0**-11, "too many terms for the bound to first order"
    bound = (n - 1 + steps) * unit * np.abs(terms).sum(axis=axis) * (1 + 2.0**-10)
    off = np.abs(np.asarray(got, terms.dtype) - terms.sum(axis=axis))
    with np.errstate(divide="ignore", invalid="ignore"):
        _record("sum, part of its bound", off / bound)
    assert np.all(off <= bound), f"off by {np.max(off)}, at most {np.max(bound)}"


def assert_ulps(got: np.ndarray, exact: np.ndarray, ulps: float, what: str = "") -> None:
    """Assert that `got` lies within `ulps` spacings of `exact`, which is of a wider type.

    Half an ulp is what rounding to nearest costs.
    """
    same_special = np.isnan(exact) & np.isnan(got) | (np.isinf(exact) & (got == exact))
    spacing = np.spacing(np.abs(exact.astype(got.dtype))).astype(exact.dtype)
    with np.errstate(invalid="ignore"):
        off = np.abs(got.astype(exact.dtype) - exact) / spacing
    _record(f"{what}, ulps", off)
    wrong = ~((off <= ulps) | same_special)
    assert not wrong.any(), (
        f"{what}: {got[wrong][:4]} for {exact[wrong][:4]}, {off[wrong].max()} ulps"
    )
