"""Tests of the project: on the GPU that Taichi finds, real or simulated."""

from __future__ import annotations

import os

import numpy as np
import pytest
import taichi as ti
import waves

SHAPE = (24, 40)


@pytest.fixture(scope="module", autouse=True)
def taichi() -> None:
    """Start Taichi on a GPU: where it finds none, it would take the CPU."""
    ti.init(arch=ti.cuda, enable_fallback=False, offline_cache=False, device_memory_GB=0.1)


def test_waves_are_those_of_numpy() -> None:
    """After five steps; and no water is lost."""
    height, speed = ti.field(ti.f32, SHAPE), ti.field(ti.f32, SHAPE)
    waves.drop(height, 7, 30)
    wanted, pace = height.to_numpy(), np.zeros(SHAPE, np.float32)
    for _ in range(5):
        waves.step(height, speed)
        wall = np.pad(wanted, 1, mode="edge")
        around = wall[:-2, 1:-1] + wall[2:, 1:-1] + wall[1:-1, :-2] + wall[1:-1, 2:]
        pace += np.float32(0.2) * (around - 4 * wanted)
        wanted = wanted + pace
    np.testing.assert_allclose(height.to_numpy(), wanted, atol=1e-5)
    assert waves.volume(height) == pytest.approx(float(wanted.sum()), rel=1e-4)


def test_crests_are_listed() -> None:
    """In a list for each row, which grows: the kernel allocates its memory."""
    height, found, long = ti.field(ti.f32, SHAPE), ti.field(ti.i32), ti.field(ti.i32, SHAPE[0])
    ti.root.dense(ti.i, SHAPE[0]).dynamic(ti.j, 64, chunk_size=4).place(found)
    values = np.random.default_rng(1).random(SHAPE, dtype=np.float32)
    height.from_numpy(values)
    waves.crests(height, 0.75, found)
    waves.lengths(found, long)
    for row, wanted in enumerate(values > 0.75):
        assert {found[row, k] for k in range(long[row])} == set(np.flatnonzero(wanted))


def test_tiles_are_mirrored() -> None:
    """By threads that meet."""
    row = np.arange(4 * waves.TILE, dtype=np.float32)
    wanted = row.reshape(-1, waves.TILE)[:, ::-1].reshape(-1)
    waves.mirror(row, True)
    np.testing.assert_array_equal(row, wanted)


@pytest.mark.skipif(os.environ.get("GPULEND_DEVICE") != "simulated", reason="a GPU does not check")
def test_threads_that_do_not_meet_are_found() -> None:
    """On a GPU this is right or wrong by chance."""
    with pytest.raises(RuntimeError, match="CUDA_ERROR_LAUNCH_FAILED"):
        waves.mirror(np.zeros(4 * waves.TILE, np.float32), False)
