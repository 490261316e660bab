"""Shared memory of the launch, variables of the module, local memory, structures, addresses."""

from __future__ import annotations

import numpy as np

from .harness import Kernel, on_device

FILE = "memories.cu"


def test_two_arrays_in_dynamic_shared_memory(random: np.random.Generator) -> None:
    """Doubles and bytes, exact: a product of 53 bits would be, these have fewer."""
    n = 50
    values = random.integers(-(2**40), 2**40, (3, n)).astype(np.float64)
    small = random.integers(0, 256, (3, n), dtype=np.uint8)
    out = np.zeros_like(values)
    Kernel(FILE, "carve").launch(3, n, values, small, out, n, shared=9 * n)
    np.testing.assert_array_equal(out, values[:, ::-1] * np.roll(small, -1, axis=1))


def test_variables_of_the_module() -> None:
    """First values, values from the host, values from kernels, a pointer to a text; all exact."""
    kernel = Kernel(FILE, "use_variables")
    before, launches = kernel.read("table", np.float64), kernel.read("launches", np.int32)
    kernel.write("scale", np.array([4], np.float32))
    out, text = np.zeros(4), np.zeros(6, np.uint8)
    kernel.launch(1, 32, out, text)
    np.testing.assert_array_equal(before, [1.5, 2.5, 3.5, 4.5])
    np.testing.assert_array_equal(out, before * 4 + [100, 200, 300, 100])
    np.testing.assert_array_equal(kernel.read("table", np.float64), before + np.arange(4))
    assert launches[0] == 40
    assert kernel.read("launches", np.int32)[0] == 41
    assert text.tobytes() == b"hello\0"
    kernel.write("offsets", np.array([1, 2, 3], np.int32))
    kernel.write("table", before)
    kernel.launch(1, 32, out, text)
    np.testing.assert_array_equal(out, before * 4 + [1, 2, 3, 1])
    kernel.write("offsets", np.array([100, 200, 300], np.int32))
    kernel.write("table", before)
    kernel.write("launches", launches)


def test_a_local_array_indexed_by_data(random: np.random.Generator) -> None:
    """Sorting rows of 16."""
    rows = random.integers(-99, 99, (150, 16)).astype(np.int32)
    expected = np.sort(rows, axis=1)
    Kernel(FILE, "sort_rows").launch(2, 96, rows, 150)
    np.testing.assert_array_equal(rows, expected)


def test_an_array_of_structures(random: np.random.Generator) -> None:
    """Fields of four lengths; speeds of few bits times a power of two are exact."""
    fields = [("position", "f8"), ("speed", "f4"), ("kind", "i2"), ("flag", "u1")]
    particles = np.zeros(200, np.dtype(fields, align=True))
    particles["position"] = random.integers(-100, 100, 200)
    particles["speed"] = random.integers(-100, 100, 200) / 4
    particles["kind"] = random.integers(-5, 6, 200)
    particles["flag"] = random.integers(0, 256, 200)
    before = particles.copy()
    Kernel(FILE, "move_particles").launch(2, 128, particles, np.float64(0.5), 200)
    moved = np.where(before["kind"] >= 0, before["speed"] * 0.5, 0)
    np.testing.assert_array_equal(particles["position"], before["position"] + moved)
    np.testing.assert_array_equal(particles["speed"], before["speed"])
    np.testing.assert_array_equal(particles["kind"], -before["kind"])
    np.testing.assert_array_equal(particles["flag"], before["flag"] ^ 255)


def test_addresses_in_memory(random: np.random.Generator) -> None:
    """Rows of different lengths, each an allocation of its own."""
    rows = [random.integers(-99, 99, n).astype(np.int32) for n in (1, 40, 7, 300)]
    lengths, sums = np.array([len(row) for row in rows], np.int32), np.zeros(4, np.int32)
    with on_device(*rows) as addresses:
        table = np.array(addresses, np.uint64)
        Kernel(FILE, "sum_rows").launch(1, 32, table, lengths, sums, 4)
    np.testing.assert_array_equal(sums, [row.sum() for row in rows])


def test_threads_that_have_ended_are_not_waited_for() -> None:
    """Since Volta a barrier waits for those threads of the block that have not ended."""
    values = np.arange(64, dtype=np.int32)
    Kernel("ended.cu", "reverse_some").launch(1, 64, values, 20)
    assert values.tolist() == [*range(19, -1, -1), *range(20, 64)]
