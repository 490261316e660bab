"""The programs of Rodinia from b+tree to kmeans, with their inputs and references."""

from __future__ import annotations

import re
import struct
from collections import deque

import numpy as np
from jobs import OLD_C, Job, Wrong, case, need, same


@case(
    *("b+tree", "b+tree", "main.c", "kernel/kernel_gpu_cuda_wrapper.cu", "-I."),
    *("kernel/kernel_gpu_cuda_wrapper_2.cu", "util/timer/timer.c", "util/num/num.c"),
    "util/cuda/cuda.cu",
)
def b_plus_tree(job: Job) -> str:
    """Look keys and ranges up; every second number is in the tree."""
    size = 6000
    numbers = np.arange(0, size, 2)
    lines = "\n".join(map(str, job.random.permutation(numbers)))
    job.write("numbers.txt", f"{size}\n{lines}\n")
    # The program puts no zero behind what it reads.
    job.write("commands.txt", "k 60 \nj 40 500 \n\0")
    copies = job.run("file", "numbers.txt", "command", "commands.txt")
    keys = copies.sent(4, "i4")
    same("values found", copies.got(0, "i4"), np.where(keys % 2 == 0, keys, -1))
    starts, ends = copies.sent(11, "i4"), copies.sent(12, "i4")
    even = starts % 2 == 0
    same("range starts", copies.got(1, "i4"), np.where(even, starts // 2, 0))
    lengths = np.where(ends % 2 == 0, ends // 2 - np.where(even, starts // 2, 0) + 1, 0)
    same("range lengths", copies.got(2, "i4"), lengths)
    return "Python: lookups and ranges"


@case(
    *("backprop", "backprop", "backprop.c", "facetrain.c", "imagenet.c", "backprop_cuda.cu"),
    *("-Xcompiler", "-fopenmp", *OLD_C),
)
def backprop(job: Job) -> str:
    """Train once; both kernels are computed again."""
    inputs, hidden = 512, 16
    copies = job.run(inputs)
    units = copies.sent(0)
    weights = copies.sent(1).reshape(inputs + 1, hidden + 1).astype("f8")
    products = weights[1:, 1:] * units[1:, None]
    sums = products.reshape(inputs // 16, 16, hidden).sum(1)
    same("partial sums", copies.got(0).reshape(-1, hidden), sums, 1e-5)
    delta = copies.sent(2).astype("f8")
    wanted = weights.copy()
    wanted[1:, 1:] += 0.3 * delta[1:] * units[1:, None]
    wanted[0, 1:] += 0.3 * delta[1:]
    same("weights", copies.got(2).reshape(wanted.shape), wanted, 1e-5, 1e-7)
    return "NumPy: partial sums and weights"


@case("bfs", "bfs", "bfs.cu")
def bfs(job: Job) -> str:
    """Levels of a random graph, part of which is not reached."""
    nodes = 1500
    edges = [job.random.integers(0, nodes - 50, 3).tolist() for _ in range(nodes)]
    lines = [str(nodes), *(f"{3 * i} 3" for i in range(nodes)), "0", str(3 * nodes)]
    lines += [f"{end} 1" for ends in edges for end in ends]
    job.run(job.write("graph.txt", "\n".join(lines) + "\n"))
    levels = [-1] * nodes
    levels[0] = 0
    queue = deque([0])
    while queue:
        node = queue.popleft()
        for end in edges[node]:
            if levels[end] < 0:
                levels[end] = levels[node] + 1
                queue.append(end)
    found = [int(cost) for cost in re.findall(r"cost:(-?\d+)", job.read("result.txt"))]
    same("levels", found, levels)
    return "Python: levels"


def _cfd(job: Job, dtype: str) -> str:
    """Flow over a grid of cells with a wall, 2000 steps, which the sources fix."""
    columns, rows = 24, 16
    count = columns * rows
    neighbours = np.full((count, 4), -2)
    for i in range(rows):
        for j in range(columns):
            sides = ((i, j + 1), (i, j - 1), (i + 1, j), (i - 1, j))
            for k, (y, x) in enumerate(sides):
                if 0 <= y < rows and 0 <= x < columns:
                    neighbours[i * columns + j, k] = y * columns + x
                elif y < 0 and 8 <= x < 16:
                    neighbours[i * columns + j, k] = -1
    sides = np.array([(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)], float)
    outward = np.repeat(sides[None], count, 0)
    outward[neighbours == -1] = (0.05, -1, 0)
    areas = 1 + 0.1 * job.random.integers(0, 3, count)
    lines = [str(count)]
    for i in range(count):
        sides = [
            f"{-1 if end == -2 else end + 1} {' '.join(map(str, normal))}"
            for end, normal in zip(neighbours[i], outward[i], strict=True)
        ]
        lines.append(f"{areas[i]} {' '.join(sides)}")
    copies = job.run(job.write("mesh.txt", "\n".join(lines) + "\n"))
    found = copies.got(-1, dtype).reshape(5, count)
    wanted = _euler(neighbours, -outward, areas)
    need(float(np.ptp(wanted[0])) > 0.01, "the flow has no wave in it")
    precise = dtype == "f8"
    same("flow", found, wanted, 1e-9 if precise else 2e-3, 1e-9 if precise else 2e-3)
    return "NumPy: 2000 steps of the flow"


def _euler(neighbours: np.ndarray, normals: np.ndarray, areas: np.ndarray) -> np.ndarray:
    """Return density, momenta and energy after 2000 steps of the finite-volume scheme."""

    def state(values: np.ndarray) -> tuple[np.ndarray, ...]:
        velocity = values[1:4] / values[0]
        squared = (velocity**2).sum(0)
        pressure = 0.4 * (values[4] - 0.5 * values[0] * squared)
        flux = np.empty((5, 3, values.shape[1]))
        flux[0] = values[1:4]
        flux[1:4] = values[1:4, None] * velocity + pressure * np.eye(3)[:, :, None]
        flux[4] = velocity * (values[4] + pressure)
        return flux, pressure, np.sqrt(squared), np.sqrt(1.4 * pressure / values[0])

    free = np.array([1.4, 1.4 * 1.2, 0, 0, 0.5 * 1.4 * 1.2**2 + 1 / 0.4])
    free_flux = state(free[:, None])[0]
    values = np.repeat(free[:, None], len(areas), 1)
    inside, wall, far = neighbours >= 0, neighbours == -1, neighbours == -2
    lengths = np.linalg.norm(normals, axis=2)
    for _ in range(2000):
        old = values
        _, _, speed, sound = state(values)
        factors = 0.5 / (np.sqrt(areas) * (speed + sound))
        for j in range(3):
            flux, pressure, speed, sound = state(values)
            total = np.zeros_like(values)
            for k, normal in enumerate(normals.transpose(1, 2, 0)):
                end = neighbours[:, k]
                other = np.where(inside[:, k], end, 0)
                smooth = (
                    -0.5
                    * float(np.float32(0.2))
                    * lengths[:, k]
                    * (speed + speed[other] + sound + sound[other])
                )
                through = 0.5 * np.einsum("dn,vdn->vn", normal, flux + flux[:, :, other])
                total += inside[:, k] * (smooth * (values - values[:, other]) + through)
                total[1:4] += wall[:, k] * normal * pressure
                total += far[:, k] * 0.5 * np.einsum("dn,vdn->vn", normal, flux + free_flux)
            values = old + factors / (3 + 1 - j) * total
    return values


HELPERS = ("-ISAMPLES", "-I../GL")


@case("cfd", "euler3d", "euler3d.cu", *HELPERS)
def euler3d(job: Job) -> str:
    """Single precision."""
    return _cfd(job, "f4")


@case("cfd", "euler3d_double", "euler3d_double.cu", *HELPERS)
def euler3d_double(job: Job) -> str:
    """Double precision."""
    return _cfd(job, "f8")


@case("cfd", "pre_euler3d", "pre_euler3d.cu", *HELPERS)
def pre_euler3d(job: Job) -> str:
    """Single precision, fluxes computed first."""
    return _cfd(job, "f4")


@case("cfd", "pre_euler3d_double", "pre_euler3d_double.cu", *HELPERS)
def pre_euler3d_double(job: Job) -> str:
    """Double precision, fluxes computed first."""
    return _cfd(job, "f8")


@case(
    *("dwt2d", "dwt2d", "main.cu", "dwt.cu", "components.cu", "dwt_cuda/fdwt53.cu", "-I."),
    *("dwt_cuda/fdwt97.cu", "dwt_cuda/common.cu", "dwt_cuda/rdwt97.cu", "dwt_cuda/rdwt53.cu"),
    "-DOUTPUT",
)
def dwt2d(job: Job) -> str:
    """Three levels of both transforms of a picture with three components."""
    width, height = 192, 128
    y, x = np.mgrid[:height, :width]
    waves = [128 + 90 * np.sin(x / (9 + c)) * np.cos(y / (7 + 2 * c)) for c in range(3)]
    noise = job.random.integers(-20, 20, (height, width, 3))
    picture = np.clip(np.stack(waves, 2) + noise, 0, 255).astype("u1")
    job.write("../../data/dwt2d/picture.rgb", picture.tobytes())
    for option, dtype in (("-5", "i4"), ("-9", "f4")):
        copies = job.run("-d", f"{width}x{height}", "-f", option, "-l", 3, "picture.rgb", "out")
        for c in range(3):
            part = picture[:, :, c].astype("i8")
            wanted = _wavelet(part - 128 if option == "-5" else part / 255 - 0.5, option, 3)
            near = 0 if option == "-5" else 1e-5
            same(f"component {c} with {option}", copies.got(-3 + c, dtype), wanted, near, near)
    return "NumPy: 5/3 exactly, 9/7 nearly"


def _wavelet(part: np.ndarray, option: str, levels: int) -> np.ndarray:
    """Return the coefficients of all levels: the coarsest first, band after band."""

    def lift(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        even, odd = rows[0::2].copy(), rows[1::2].copy()

        def around_odd() -> np.ndarray:
            return even + np.concatenate([even[1:], even[-1:]])

        def around_even() -> np.ndarray:
            return odd + np.concatenate([odd[:1], odd[:-1]])

        if option == "-5":
            # Divisions of C round to zero.
            odd -= np.trunc(around_odd() / 2).astype("i8")
            even += np.trunc((around_even() + 2) / 4).astype("i8")
            return even, odd
        odd += -1.586134342 * around_odd()
        even += -0.05298011854 * around_even()
        odd += 0.8829110762 * around_odd()
        even += 0.4435068522 * around_even()
        return even / 1.230174104914, odd * 1.230174104914

    bands: list[np.ndarray] = []
    for _ in range(levels):
        top, bottom = lift(part)
        (top_left, top_right), (low_left, low_right) = lift(top.T), lift(bottom.T)
        bands = [top_right.T, low_left.T, low_right.T, *bands]
        part = top_left.T
    return np.concatenate([band.ravel() for band in (part, *bands)])


@case("gaussian", "gaussian", "gaussian.cu")
def gaussian(job: Job) -> str:
    """A linear system whose solution is found from the triangle that the GPU leaves."""
    size = 48
    matrix = job.random.uniform(-1, 1, (size, size)) + 8 * np.eye(size)
    right = job.random.uniform(-1, 1, size)
    text = "\n".join(" ".join(f"{value:.6f}" for value in row) for row in (*matrix, right))
    copies = job.run("-f", job.write("matrix.txt", f"{size}\n{text}\n"))
    upper = np.triu(copies.got(1).reshape(size, size)).astype("f8")
    found = np.linalg.solve(upper, copies.got(2).astype("f8"))
    matrix, right = copies.sent(1).reshape(size, size), copies.sent(2)
    same("solution", found, np.linalg.solve(matrix.astype("f8"), right.astype("f8")), 1e-4, 1e-6)
    return "NumPy: solution"


def _video(frames: np.ndarray) -> bytes:
    """Return an AVI file without compression of grey frames, rows from the bottom up."""
    count, height, width = frames.shape

    def chunk(name: bytes, data: bytes) -> bytes:
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    words = struct.pack("<10I", 0, 0, 0, 1, 25, 0, count, width * height, 0, 0)
    header = chunk(b"strh", b"vidsDIB " + words + bytes(8))
    header += chunk(b"strf", struct.pack("<IiiHHIIIIII", 40, width, height, 1, 8, *[0] * 6))
    movie, index = b"movi", b""
    for frame in frames:
        index += struct.pack("<4sIII", b"00db", 16, len(movie), width * height)
        movie += chunk(b"00db", frame[::-1].tobytes())
    body = b"AVI " + chunk(b"LIST", b"hdrl" + header) + chunk(b"LIST", movie)
    return chunk(b"RIFF", body + chunk(b"idx1", index))


def _texture(job: Job, height: int, width: int) -> np.ndarray:
    """Return a smooth random picture between 0 and 1."""
    picture = job.random.uniform(size=(height, width))
    for _ in range(6):
        picture = (
            picture + sum(np.roll(picture, step, axis) for step in (1, -1) for axis in (0, 1))
        ) / 5
    return (picture - picture.min()) / np.ptp(picture)


@case("heartwall", "heartwall", "main.cu", "AVI/avilib.c", "AVI/avimod.c", "-IAVI", "-DOUTPUT")
def heartwall(job: Job) -> str:
    """A picture that moves between two frames: every point must move with it."""
    scene = (20 + 200 * _texture(job, 620, 520)).astype("u1")
    moved = np.roll(scene, (3, -4), (0, 1))
    job.run(job.write("heart.avi", _video(np.stack([scene, moved]))), 2)
    copies = job.copies
    for name, index, step in (("rows", 0, 3), ("columns", 1, -4)):
        for kind, points in ((0, 20), (2, 31)):
            found = copies.got(index + kind, "i4").reshape(points, 2)
            try:
                same(f"{name} of points", found[:, 1] - found[:, 0], np.full(points, step))
            except Wrong as error:
                text = "a barrier is missing at kernel.cu:769, which has one in the copy at 463"
                raise Wrong(f"{error} ({text})") from None
    return "invariant: each point moves as the picture does"


def _heat(size: int, layers: int | None = None) -> tuple[float, ...]:
    """Return the step over the capacity, and one over the resistances, of a chip's grid."""
    edge = 0.016 / size
    capacity = 0.5 * 1.75e6 * 0.0005 * edge * edge
    step = 0.001 / (3.0e6 / (0.5 * 0.0005 * 1.75e6))
    thick = 0.0005 / layers if layers else 0.0005
    return step / capacity, 2 * 100 * 0.0005, 100 * edge * edge / thick


def _column(values: np.ndarray) -> str:
    return "\n".join(f"{value:.6f}" for value in values.ravel()) + "\n"


@case("hotspot", "hotspot", "hotspot.cu")
def hotspot(job: Job) -> str:
    """Temperatures of a chip after 6 steps."""
    size, steps = 64, 6
    heat = job.random.uniform(320, 340, (size, size))
    power = job.random.uniform(0, 1e-2, (size, size))
    job.write("heat.txt", _column(heat))
    job.write("power.txt", _column(power))
    copies = job.run(size, 2, steps, "heat.txt", "power.txt", "out.txt")
    scale, lateral, upward = _heat(size)
    for _ in range(steps):
        wide = np.pad(heat, 1, mode="edge")
        change = power + (wide[2:, 1:-1] + wide[:-2, 1:-1] - 2 * heat) * lateral
        change += (wide[1:-1, 2:] + wide[1:-1, :-2] - 2 * heat) * lateral
        heat = heat + scale * (change + (80 - heat) * upward)
    same("temperatures", copies.got(-1).reshape(size, size), heat, 1e-5)
    same(
        "file",
        [float(line.split()[1]) for line in job.read("out.txt").splitlines()],
        heat.ravel(),
        1e-5,
    )
    return "NumPy: stencil"


@case("hotspot3D", "3D", "3D.cu")
def hotspot_3d(job: Job) -> str:
    """Temperatures of a chip with layers: those before the last step, which is what it copies."""
    size, layers, steps = 128, 4, 10
    heat = job.random.uniform(320, 340, (size, size, layers))
    power = job.random.uniform(0, 1e-2, (size, size, layers))
    job.write("heat.txt", _column(heat))
    job.write("power.txt", _column(power))
    job.run(size, layers, steps, "power.txt", "heat.txt", "out.txt")
    scale, lateral, upward = _heat(size, layers)
    side, above = scale * lateral, scale * upward
    # opt1.cu:96 copies the buffer that the last step read.
    for _ in range(steps - 1):
        wide = np.pad(heat, 1, mode="edge")
        middle = slice(1, -1)
        new = heat * (1 - (4 * side + 3 * above)) + scale * power + above * 80
        for axis, factor in ((0, side), (1, side), (2, above)):
            for end in (slice(2, None), slice(None, -2)):
                new += factor * wide[tuple(end if a == axis else middle for a in range(3))]
        heat = new
    found = [float(line.split()[1]) for line in job.read("out.txt").splitlines()]
    same("temperatures", found, heat.ravel(), 1e-5)
    return "NumPy: stencil"


@case(
    *("huffman", "huffman", "main_test_cu.cu", "stats_logger.cpp", "vlc_kernel_sm64huff.cu"),
    *("scan.cu", "pack_kernels.cu", "cpuencode.cpp"),
)
def huffman(job: Job) -> str:
    """Encode bytes of uneven frequency."""
    data = (job.random.normal(100, 9, 64 * 1024)).astype("u1")
    job.run(job.write("data.in", data.tobytes()))
    need("PASS! vectors are matching!" in job.output, "its own verification fails")
    # It counts windows that overlap, because hist.cu:101 takes counts of ints for those of bytes.
    window = len(data) // 32
    counts = np.zeros(256, int)
    for start in range(0, len(data) // 4, window // 4):
        counts += np.bincount(data[start : start + window], minlength=256)
    same("histogram", job.copies.got(0, "u4"), counts)
    return "its own comparison with the CPU's encoder; NumPy: histogram"


@case(
    *("hybridsort", "hybridsort", "bucketsort.cu", "mergesort.cu", "main.cu", "-I../GL"),
    "-DVERIFY",
)
def hybridsort(job: Job) -> str:
    """Sort random numbers."""
    values = job.random.uniform(0, 1, 6000).astype("f4")
    copies = job.run(job.write("numbers.txt", " ".join(f"{value:.8g}" for value in values)))
    same("order", copies.got(-1), np.sort(values), 1e-6)
    need("PASSED" in job.output, "its own verification fails")
    return "NumPy: sorted; its own verification"


@case(
    *("kmeans", "kmeans", "cluster.c", "getopt.c", "kmeans.c", "kmeans_clustering.c"),
    *("kmeans_cuda.cu", "rmse.c", "-Xcompiler", "-fopenmp", "-include", "KMEANS", *OLD_C),
)
def kmeans(job: Job) -> str:
    """Cluster points around five places.

    kmeans_cuda.cu:189 names a symbol by a string, which CUDA refuses since its release 5: an option
    names the symbol.
    """
    count, features, clusters = 700, 6, 5
    places = job.random.uniform(0, 60, (clusters, features))
    points = places[job.random.integers(0, clusters, count)]
    points = np.round(points + job.random.normal(0, 3, points.shape), 3).astype("f4")
    text = "\n".join(f"{i} {' '.join(map(str, point))}" for i, point in enumerate(points))
    copies = job.run("-o", "-i", job.write("points.txt", text + "\n"))
    # It takes points from the start, and swaps each for one from the end.
    order = list(range(count))
    centres = []
    for i in range(clusters):
        centres.append(points[order[i]].astype("f8"))
        order[i], order[count - 1 - i] = order[count - 1 - i], order[i]
    centres, old = np.array(centres), None
    while True:
        member = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
        for i in range(clusters):
            if (member == i).any():
                centres[i] = points[member == i].mean(0)
        if old is not None and (member == old).all():
            break
        old = member
    same("membership", copies.got(-1, "i4"), member)
    lines = re.findall(r"^\d+:((?: \S+)+)$", job.output, re.M)
    same("centres", [[float(word) for word in line.split()] for line in lines], centres, 0, 6e-3)
    return "NumPy: membership and centres"
