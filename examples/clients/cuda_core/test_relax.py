"""The graph computes what NumPy computes, in every run and with every check on."""

from __future__ import annotations

import numpy as np
from relax import relax


def test_the_graph_computes_what_numpy_does() -> None:
    """After six steps."""
    rod = np.random.default_rng(1).random(1000, dtype=np.float32)
    wanted = rod.copy()
    for _ in range(6):
        middle = 0.5 * wanted[1:-1] + 0.25 * (wanted[:-2] + wanted[2:])
        wanted = np.concatenate([wanted[:1], middle, wanted[-1:]])
    np.testing.assert_allclose(relax(rod, 3), wanted, rtol=1e-5)
