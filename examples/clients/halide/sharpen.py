"""Pictures in Halide, as a project would have them: nothing here knows of gpulend."""

from __future__ import annotations

import halide as hl
import numpy as np

# Any GPU since Volta.
TARGET = (
    hl.get_host_target()
    .with_feature(hl.TargetFeature.CUDA)
    .with_feature(hl.TargetFeature.CUDACapability70)
)


def sharpen(picture: np.ndarray) -> np.ndarray:
    """Return the picture with twice its distance to its blur, and that blur in shared memory."""
    x, y, block_x, block_y = hl.Var("x"), hl.Var("y"), hl.Var("block_x"), hl.Var("block_y")
    inner_x, inner_y = hl.Var("inner_x"), hl.Var("inner_y")
    clamped = hl.BoundaryConditions.repeat_edge(hl.Buffer(picture))
    across, down, sharp = hl.Func("across"), hl.Func("down"), hl.Func("sharp")
    across[x, y] = (clamped[x - 1, y] + 2 * clamped[x, y] + clamped[x + 1, y]) / 4
    down[x, y] = (across[x, y - 1] + 2 * across[x, y] + across[x, y + 1]) / 4
    sharp[x, y] = 2 * clamped[x, y] - down[x, y]

    sharp.gpu_tile(x, y, block_x, block_y, inner_x, inner_y, 16, 8)
    across.compute_at(sharp, block_x).gpu_threads(x, y)
    height, width = picture.shape
    return _on_host(sharp.realize([width, height], TARGET))


def columns(picture: np.ndarray) -> np.ndarray:
    """Return the sum of each column, by atomics of all threads."""
    height, width = picture.shape
    source = hl.Buffer(picture)
    x, block, thread, total = hl.Var("x"), hl.Var("block"), hl.Var("thread"), hl.Func("total")
    row = hl.RDom([(0, height)])
    total[x] = 0
    total[x] += source[x, row.x]
    total.gpu_tile(x, block, thread, 32)
    update = total.update().atomic().split(x, block, thread, 32, hl.TailStrategy.GuardWithIf)
    update.reorder(thread, block, row.x).gpu_blocks(block, row.x).gpu_threads(thread)
    return _on_host(total.realize([width], TARGET))


def _on_host(result: hl.Buffer) -> np.ndarray:
    result.copy_to_host()
    return np.array(result)
