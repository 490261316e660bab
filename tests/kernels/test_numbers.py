"""Fractals, bodies, chance, primes."""

from __future__ import annotations

import math

import numpy as np

from .harness import Kernel, blocks

WIDTH, HEIGHT, MOST = 60, 44, 50


def escapes(z: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Count the steps until |z|² > 4."""
    steps = np.zeros(np.broadcast(z, c).shape, np.int32)
    z = np.broadcast_to(z, steps.shape).copy()
    going = np.ones(steps.shape, bool)
    for _ in range(MOST):
        going &= z.real**2 + z.imag**2 <= 4
        steps += going
        z = np.where(going, z * z + c, z)
    return steps


def assert_steps(got: np.ndarray, z: np.ndarray, c: np.ndarray) -> None:
    """Assert equality wherever rounding cannot decide.

    A step's roundings, fused or not, are some 2^-52 of numbers near 1: as if z had begun a little
    elsewhere. Where starts 2^-48 away on either side take as many steps, so must the kernel; the
    few others lie on the border.
    """
    near = [
        escapes(z + d, c + d) for d in (0, 2.0**-48, -(2.0**-48), 2.0**-48 * 1j, -(2.0**-48) * 1j)
    ]
    certain = np.all([steps == near[0] for steps in near], axis=0)
    assert certain.mean() > 0.98
    assert len(np.unique(near[0])) > 10
    np.testing.assert_array_equal(got[certain], near[0][certain])


def test_mandelbrot() -> None:
    """A loop of another length in each thread."""
    steps = np.zeros((HEIGHT, WIDTH), np.int32)
    Kernel("numbers.cu", "mandelbrot").launch((8, 6), (8, 8), steps, WIDTH, HEIGHT, MOST)
    x, y = np.arange(WIDTH), np.arange(HEIGHT)[:, None]
    c = (-2.0 + 2.5 * x / WIDTH) + 1j * (-1.25 + 2.5 * y / HEIGHT)
    assert_steps(steps, np.zeros_like(c), c)


def test_julia() -> None:
    """The same with another start."""
    steps, c = np.zeros((HEIGHT, WIDTH), np.int32), -0.8 + 0.156j
    words = (WIDTH, HEIGHT, MOST, np.float64(c.real), np.float64(c.imag))
    Kernel("numbers.cu", "julia").launch((8, 6), (8, 8), steps, *words)
    x, y = np.arange(WIDTH), np.arange(HEIGHT)[:, None]
    z = (-1.5 + 3.0 * x / WIDTH) + 1j * (-1.5 + 3.0 * y / HEIGHT)
    assert_steps(steps, z, np.full_like(z, c))


def test_complex_multiply(random: np.random.Generator) -> None:
    """Whole numbers below 2^25: products below 2^51 are exact in doubles."""
    a, b = (random.integers(-(2**25), 2**25, (2, 500, 2))).astype(np.float64)
    out = np.zeros_like(a)
    Kernel("numbers.cu", "complex_multiply").launch(4, 128, a, b, out, 500)
    expected = np.stack(
        [a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1], a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]], 1
    )
    np.testing.assert_array_equal(out, expected)


def test_n_body(random: np.random.Generator) -> None:
    """n terms added, each of about 16 roundings.

    The distance is 1 to 6 roundings deep and comes with the power -3/2; rsqrt is within 2 ulps
    (4 roundings), thrice; three products and the difference: 9 + 12 + 4 = 25 parts of 2^-24.
    """
    n = 150
    bodies = random.uniform(-1, 1, (n, 4)).astype(np.float32)
    pull = np.full((n, 4), 9, np.float32)
    Kernel("numbers.cu", "n_body").launch(blocks(n, 64), 64, bodies, pull, n)
    wide = bodies.astype(np.float64)
    apart = wide[None, :, :3] - wide[:, None, :3]
    square = (apart**2).sum(-1) + np.float32(0.01)
    terms = apart * (wide[None, :, 3] / square**1.5)[:, :, None]
    bound = (n + 25) * 2.0**-24 * np.abs(terms).sum(1) * 1.01
    assert np.all(np.abs(pull[:, :3] - terms.sum(1)) <= bound)
    assert not pull[:, 3].any()


def test_pi_by_chance() -> None:
    """The same generator in NumPy: exact. And the number is near pi, within 4 deviations."""
    threads, each = 512, 100
    inside = np.zeros(1, np.uint64)
    Kernel("numbers.cu", "monte_carlo_pi").launch(4, 128, inside, each)
    state = (np.arange(1, threads + 1, dtype=np.uint64) * 2654435761 % 2**32).astype(np.uint32)
    hits = 0
    for _ in range(each):
        state ^= state << 13
        state ^= state >> 17
        state ^= state << 5
        x, y = (state & 0xFFFF).astype(np.uint64), (state >> 16).astype(np.uint64)
        hits += int((x * x + y * y < 2**32).sum())
    assert int(inside[0]) == hits
    n = threads * each
    assert abs(hits / n - math.pi / 4) < 4 * math.sqrt(math.pi / 4 * (1 - math.pi / 4) / n)


def test_sieve() -> None:
    """One bit a number, many threads on a word."""
    n = 3200
    bits = np.full(n // 32, 0xFFFFFFFF, np.uint32)
    Kernel("numbers.cu", "sieve").launch(1, 64, bits, n)
    got = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))[2:]
    expected = [p for p in range(2, n) if all(p % d for d in range(2, math.isqrt(p) + 1))]
    np.testing.assert_array_equal(got, expected)


def test_collatz() -> None:
    """Starts beyond 32 bits too."""
    starts = np.append(np.arange(1, 500, dtype=np.uint64), np.uint64(2**40 - 87))
    steps = np.zeros(500, np.int32)
    Kernel("numbers.cu", "collatz").launch(4, 128, starts, steps, 500)
    expected = []
    for number in map(int, starts):
        count = 0
        while number != 1:
            number, count = (number // 2 if number % 2 == 0 else 3 * number + 1), count + 1
        expected.append(count)
    np.testing.assert_array_equal(steps, expected)
