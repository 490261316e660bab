"""Graphs and sparse matrices."""

from __future__ import annotations

import numpy as np
import pytest

from .harness import Kernel, blocks
from .tolerance import assert_sum


def test_floyd_and_warshall(random: np.random.Generator) -> None:
    """All the shortest ways, against products of the (min, +) algebra."""
    n = 40
    distance = random.integers(1, 1000, (n, n)).astype(np.int32)
    distance[random.random((n, n)) < 0.8] = 10**6
    np.fill_diagonal(distance, 0)
    expected = distance.copy()
    for _ in range(6):  # 2^6 edges are more than any shortest way has
        expected = (expected[:, :, None] + expected[None, :, :]).min(axis=1)
    kernel = Kernel("graphs.cu", "floyd_warshall_step")
    for via in range(n):
        out = np.zeros_like(distance)
        kernel.launch((3, 3), (16, 16), distance, out, n, via)
        distance = out
    np.testing.assert_array_equal(distance, expected)


def test_search_by_levels(random: np.random.Generator) -> None:
    """Steps until nothing changes."""
    n = 300
    edges = np.unique(random.integers(0, n, (2 * n, 2)), axis=0).astype(np.int32)
    starts = np.searchsorted(edges[:, 0], np.arange(n + 1)).astype(np.int32)
    targets = edges[:, 1].copy()
    level = np.full(n, -1, np.int32)
    level[0] = 0
    kernel, now = Kernel("graphs.cu", "search_step"), 0
    while True:
        changed = np.zeros(1, np.int32)
        kernel.launch(blocks(n, 128), 128, starts, targets, level, now, changed, n)
        now += 1
        if not changed[0]:
            break
    expected, queue = {0: 0}, [0]
    for node in queue:
        for target in targets[starts[node] : starts[node + 1]].tolist():
            if target not in expected:
                expected[target] = expected[node] + 1
                queue.append(target)
    assert level.max() > 3
    np.testing.assert_array_equal(level, [expected.get(node, -1) for node in range(n)])


@pytest.mark.parametrize("name", ["sparse_row_per_thread", "sparse_row_per_warp"])
def test_sparse_product(random: np.random.Generator, name: str) -> None:
    """Rows of any length, empty ones too."""
    rows, columns = 90, 200
    dense = random.standard_normal((rows, columns), np.float32)
    dense[random.random((rows, columns)) < random.random((rows, 1))] = 0
    dense[17] = 0
    where = np.nonzero(dense)
    starts = np.searchsorted(where[0], np.arange(rows + 1)).astype(np.int32)
    x, y = random.standard_normal(columns, np.float32), np.full(rows, 9, np.float32)
    words = (starts, where[1].astype(np.int32), dense[where], x, y, rows)
    threads = rows * (32 if name.endswith("warp") else 1)
    Kernel("graphs.cu", name).launch(blocks(threads, 128), 128, *words)
    assert_sum(y, dense.astype(np.float64) * x, axis=1)
