"""Waves in Taichi, as a project would have them: nothing here knows of gpulend."""

import taichi as ti

TILE = 64


@ti.kernel
def drop(height: ti.template(), x: ti.f32, y: ti.f32):
    """Let something fall into the water."""
    for i, j in height:
        height[i, j] -= ti.exp(-0.1 * ((i - x) ** 2 + (j - y) ** 2))


@ti.kernel
def step(height: ti.template(), speed: ti.template()):
    """Move the water on, between walls."""
    for i, j in height:
        middle = height[i, j]
        pull = 0.0
        for k in ti.static(range(4)):
            x = ti.min(ti.max(i + ti.static((-1, 1, 0, 0)[k]), 0), height.shape[0] - 1)
            y = ti.min(ti.max(j + ti.static((0, 0, -1, 1)[k]), 0), height.shape[1] - 1)
            pull += height[x, y] - middle
        speed[i, j] += 0.2 * pull
    for i, j in height:
        height[i, j] += speed[i, j]


@ti.kernel
def volume(height: ti.template()) -> ti.f32:
    """Return how much water there is."""
    total = 0.0
    for i, j in height:
        total += height[i, j]
    return total


@ti.kernel
def crests(height: ti.template(), above: ti.f32, found: ti.template()):
    """List the cells of each row that are higher than that, in no order."""
    for i, j in height:
        if height[i, j] > above:
            found[i].append(j)


@ti.kernel
def lengths(found: ti.template(), into: ti.template()):
    """Write how long each list is."""
    for i in into:
        into[i] = found[i].length()


@ti.kernel
def mirror(row: ti.types.ndarray(ti.f32, 1), together: ti.template()):
    """Turn each tile of a row around, in shared memory; its threads must meet before they read."""
    ti.loop_config(block_dim=TILE)
    for i in range(row.shape[0]):
        tile = ti.simt.block.SharedArray((TILE,), ti.f32)
        tile[i % TILE] = row[i]
        if ti.static(together):
            ti.simt.block.sync()
        row[i] = tile[TILE - 1 - i % TILE]
