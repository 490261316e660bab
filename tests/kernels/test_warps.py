"""Shuffles, votes, barriers, cooperative groups. All exact."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from .harness import Kernel

LANE = np.arange(32)


def test_shuffles(random: np.random.Generator) -> None:
    """By index, up, down, across, and within parts of a warp; beyond the part stays one's own."""
    n = 128
    values = random.integers(0, 10**6, n).astype(np.int32)
    out = np.zeros((8, n), np.int32)
    Kernel("warps.cu", "shuffles").launch(2, 64, values, out, n)
    sources = [
        np.full(32, 5),
        (LANE * 7 + 3) % 32,
        np.where(LANE >= 3, LANE - 3, LANE),
        np.where(LANE + 9 < 32, LANE + 9, LANE),
        LANE ^ 13,
        LANE // 8 * 8 + 2,
        np.where(LANE % 4 >= 1, LANE - 1, LANE),
        np.where(LANE % 16 + 2 < 16, LANE + 2, LANE),
    ]
    warps = values.reshape(-1, 32)
    for row, source in zip(out, sources, strict=True):
        np.testing.assert_array_equal(row.reshape(-1, 32), warps[:, source])


def test_shuffles_of_wide_and_floating_values(random: np.random.Generator) -> None:
    """Doubles and 64-bit integers travel in two words."""
    doubles = random.standard_normal(32)
    longs = random.integers(-(2**63), 2**63, 32)
    floats = random.standard_normal(32).astype(np.float32)
    d, wide, f = np.zeros(32), np.zeros(32, np.int64), np.zeros(32, np.float32)
    Kernel("warps.cu", "shuffles_wide").launch(1, 32, doubles, longs, floats, d, wide, f)
    np.testing.assert_array_equal(d, doubles[LANE ^ 1])
    np.testing.assert_array_equal(wide, longs[np.minimum(LANE + 1, 31)])
    np.testing.assert_array_equal(f, floats[np.maximum(LANE - 1, 0)])


def test_shuffles_of_half_a_warp_each() -> None:
    """In two branches, each naming its lanes alone."""
    values, out = np.arange(100, 132, dtype=np.int32), np.zeros(32, np.int32)
    Kernel("warps.cu", "shuffle_halves").launch(1, 32, values, out)
    expected = np.where(LANE < 16, (LANE ^ 1) + 1100, (LANE ^ 2) + 2100)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("low", "high"), [(0, 100), (6, 90), (7, 8), (0, 3000)])
def test_votes(random: np.random.Generator, low: int, high: int) -> None:
    """Any, all, ballot, active, match."""
    n = 96
    values = random.integers(low, high, n).astype(np.int32)
    out = np.zeros((7, n), np.uint32)
    Kernel("warps.cu", "votes").launch(1, n, values, out, n)
    for w, warp in enumerate(values.reshape(-1, 32)):
        got = out[:, 32 * w : 32 * w + 32]
        mask = sum(1 << lane for lane in range(32) if warp[lane] % 3 == 0)
        same = [sum(1 << other for other in range(32) if warp[other] == v) for v in warp]
        assert set(got[0].tolist()) == {int((warp > 90).any())}
        assert set(got[1].tolist()) == {int((warp > 5).all())}
        assert set(got[2].tolist()) == {mask}
        assert set(got[3].tolist()) == {0xFFFFFFFF}
        assert got[4].tolist() == same
        alike = len(set(warp // 1000)) == 1
        assert set(got[5].tolist()) == {0xFFFFFFFF if alike else 0}
        assert set(got[6].tolist()) == {int(alike)}


def test_votes_of_a_block(random: np.random.Generator) -> None:
    """Count, and, or."""
    values = random.integers(0, 100, 128 * 6).astype(np.int32)
    values[:128], values[128:256] = 4, 96
    out = np.zeros((6, 128, 3), np.int32)
    Kernel("warps.cu", "block_votes").launch(6, 128, values, out)
    for block, part in zip(out, values.reshape(6, 128), strict=True):
        expected = [(part % 2).sum(), (part > 3).all(), (part > 95).any()]
        np.testing.assert_array_equal(block, np.tile(expected, (128, 1)))


def test_ranks_among_chosen_lanes(random: np.random.Generator) -> None:
    """A ballot before the branch."""
    values, rank = random.integers(0, 100, 128).astype(np.int32), np.zeros(128, np.int32)
    Kernel("warps.cu", "ranks").launch(2, 64, values, rank)
    chosen = (values % 4 == 1).reshape(-1, 32)
    expected = np.where(chosen, np.cumsum(chosen, axis=1) - 1, -1)
    np.testing.assert_array_equal(rank.reshape(-1, 32), expected)


def test_a_barrier_in_a_loop() -> None:
    """As many turns as the block's number says."""
    values = np.arange(4 * 64, dtype=np.int32)
    expected = [np.roll(row, -(10 + b)) + 10 + b for b, row in enumerate(values.reshape(4, 64))]
    Kernel("warps.cu", "barrier_in_loop").launch(4, 64, values, 10)
    np.testing.assert_array_equal(values.reshape(4, 64), expected)


def test_a_barrier_in_a_uniform_branch() -> None:
    """Blocks that take it and blocks that do not."""
    values, out = np.arange(1, 257, dtype=np.int32), np.zeros(256, np.int32)
    Kernel("warps.cu", "barrier_in_uniform_branch").launch(4, 64, values, out)
    rows = values.reshape(4, 64)
    expected = [row[::-1] if b % 2 == 0 else -row for b, row in enumerate(rows)]
    np.testing.assert_array_equal(out.reshape(4, 64), expected)


def test_an_exchange_within_a_warp() -> None:
    """`__syncwarp` is enough."""
    values, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    Kernel("warps.cu", "exchange_in_warp").launch(1, 64, values, out)
    i = np.arange(64)
    np.testing.assert_array_equal(out, 2 * values[i ^ 31 ^ 1])


def test_reduce_of_a_warp(random: np.random.Generator) -> None:
    """Every lane gets it; sums wrap."""
    values, out = random.integers(0, 2**32, 64, dtype=np.uint32), np.zeros((64, 5), np.uint32)
    Kernel("warps.cu", "warp_reduce").launch(1, 64, values, out)
    for w, warp in enumerate(values.reshape(2, 32)):
        bits = [reduce(op, warp) for op in (np.bitwise_and, np.bitwise_xor)]
        expected = np.array([warp.sum(dtype=np.uint32), warp.min(), warp.max(), *bits])
        np.testing.assert_array_equal(out[32 * w : 32 * w + 32], np.tile(expected, (32, 1)))


def test_tiles_of_cooperative_groups(random: np.random.Generator) -> None:
    """Of 8 and of 32."""
    values = random.integers(-100, 100, 256).astype(np.int32)
    eights, warps = np.zeros(32, np.int32), np.zeros(8, np.int32)
    Kernel("groups.cu", "sum_of_tiles").launch(2, 128, values, eights, warps)
    np.testing.assert_array_equal(eights, values.reshape(-1, 8).sum(1))
    np.testing.assert_array_equal(warps, values.reshape(-1, 32).sum(1))


def test_the_block_of_cooperative_groups() -> None:
    """Its rank counts over all axes, its barrier is the block's."""
    values, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    Kernel("groups.cu", "reverse_block").launch(2, (16, 4), values, out)
    np.testing.assert_array_equal(out.reshape(2, 64), values.reshape(2, 64)[:, ::-1])
