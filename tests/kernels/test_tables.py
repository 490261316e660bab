"""Functions called through their addresses: tables, variables, parameters, virtual functions."""

from __future__ import annotations

import numpy as np
import pytest

from .harness import Kernel

N = 64


@pytest.fixture
def numbers(random: np.random.Generator) -> np.ndarray:
    """Give two rows of numbers."""
    return random.integers(-999, 999, (2, N)).astype(np.int32)


def test_calls_through_tables(random: np.random.Generator) -> None:
    """Each thread calls another function, of a variable and of a constant."""
    which = random.integers(0, 3, 200).astype(np.int32)
    a, b = random.integers(-999, 999, (2, 200)).astype(np.int32)
    out = np.zeros(200, np.int32)
    Kernel("tables.cu", "call_through_table").launch(2, 128, which, a, b, out, 200)
    first = np.choose(which, [a + b, a * b, np.maximum(a, b)])
    second = np.choose(which & 1, [np.maximum(a, b), a + b])
    np.testing.assert_array_equal(out, first + 1000 * second)


def test_a_variable_is_a_function_until_a_kernel_says_another(numbers: np.ndarray) -> None:
    """What one kernel stores, another calls."""
    out = np.zeros(N, np.int32)
    a, b = numbers
    for which, wanted in ((None, a * b), (2, np.maximum(a, b)), (0, a + b), (1, a * b)):
        if which is not None:
            Kernel("tables.cu", "set_variable").launch(1, 1, which)
        Kernel("tables.cu", "call_variable").launch(1, N, a, b, out)
        np.testing.assert_array_equal(out, wanted)


def test_a_function_is_a_parameter(numbers: np.ndarray) -> None:
    """The host learns its address from a kernel, and passes it as a number."""
    addresses, out = np.zeros(3, np.uint64), np.zeros(N, np.int32)
    Kernel("tables.cu", "tell_addresses").launch(1, 3, addresses)
    assert len({0, *addresses.tolist()}) == 4
    a, b = numbers
    for address, wanted in zip(addresses, [a + b, a * b, np.maximum(a, b)], strict=True):
        Kernel("tables.cu", "call_parameter").launch(1, N, address, a, b, out)
        np.testing.assert_array_equal(out, wanted)


def test_each_thread_chooses(numbers: np.ndarray) -> None:
    """From pointers in its own memory, and passes its choice on to a function."""
    a, b = numbers
    out, wanted = np.zeros(N, np.int32), a.copy()
    Kernel("tables.cu", "choose_per_thread").launch(1, N, a, b, out)
    operations = {"+": np.add, "*": np.multiply, ">": np.maximum}
    for i in range(N):
        own = ["+", ">", "*", "+"]
        own[i & 3] = ">" if i & 4 else "+"
        for _ in range(i & 3):
            wanted[i] = operations[own[i % 3]](wanted[i], b[i])
    np.testing.assert_array_equal(out, wanted)


def areas(which: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return areas, and the sign of scaled ones."""
    return np.where(which, 0.5, 1) * size * size, np.where(which, -1, 1)


def test_virtual_functions(random: np.random.Generator) -> None:
    """Of local objects; one virtual function calls another."""
    which, out = random.integers(0, 2, N).astype(np.int32), np.zeros(N, np.float32)
    Kernel("tables.cu", "virtual_functions").launch(1, N, which, out)
    area, sign = areas(which, np.arange(N) + which)
    np.testing.assert_array_equal(out, (area + 1000 * sign * 2 * area).astype(np.float32))


def test_objects_of_one_kernel_are_used_by_another(random: np.random.Generator) -> None:
    """Their tables are variables of the module, which stay where they are."""
    which, out = random.integers(0, 2, N).astype(np.int32), np.zeros(N, np.float32)
    memory = np.zeros(16 * N, np.int8)
    Kernel("tables.cu", "make_shapes").launch(1, N, which, memory)
    Kernel("tables.cu", "use_shapes").launch(1, N, memory, out)
    area, sign = areas(which, np.arange(N))
    np.testing.assert_array_equal(out, (sign * 3 * area).astype(np.float32)[::-1])


def test_the_block_waits_in_functions_of_a_table(random: np.random.Generator) -> None:
    """All threads of a block call the same one."""
    x, out = random.integers(0, 100, (4, 128)).astype(np.float32), np.zeros((4, 128), np.float32)
    which = np.array([0, 1, 1, 0], np.int32)
    Kernel("tables.cu", "reduce_through_table").launch(4, 128, which, x, out)
    wanted = np.where(which, x.max(1), x.sum(1))
    np.testing.assert_array_equal(out, np.repeat(wanted[:, None], 128, 1))
