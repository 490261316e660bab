"""What C++ offers: templates, classes, lambdas, calls, switches. All exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from .harness import CORPUS, Kernel, entries

FILE = "languages.cu"


@pytest.mark.parametrize(
    ("mangled", "dtype", "factor"),
    [("12multiply_allIiLi3E", np.int32, 3), ("12multiply_allIdLin2E", np.float64, -2)],
)
def test_instances_of_a_template(mangled: str, dtype: type, factor: int) -> None:
    """Found in the PTX by what their names contain."""
    (name,) = [entry for entry in entries(CORPUS / FILE) if mangled in entry]
    values = np.arange(100, dtype=dtype)
    Kernel(FILE, name).launch(1, 128, values, 100)
    np.testing.assert_array_equal(values, np.arange(100) * factor)


def test_a_template_of_the_device(random: np.random.Generator) -> None:
    """Behind a kernel with a plain name."""
    values = random.integers(-99, 99, 200).astype(np.int32)
    expected = np.clip(values, -20, 50)
    Kernel(FILE, "clamp_ints").launch(2, 128, values, -20, 50, 200)
    np.testing.assert_array_equal(values, expected)


def test_a_class_with_operators(random: np.random.Generator) -> None:
    """Fractions in lowest terms, against Python's."""
    a, b = random.integers(1, 100, (2, 200, 2)).astype(np.int32)
    a[::2, 0] *= -1
    b[::10] = a[::10]  # equal ones, none of which is less
    sums, less = np.zeros((200, 2), np.int32), np.zeros(200, np.int32)
    Kernel(FILE, "add_fractions").launch(2, 128, a, b, sums, less, 200)
    for i in range(200):
        x, y = Fraction(*a[i].tolist()), Fraction(*b[i].tolist())
        assert (Fraction(*sums[i].tolist()), sums[i, 1], less[i]) == (
            x + y,
            (x + y).denominator,
            x < y,
        )


def test_lambdas() -> None:
    """With and without captures."""
    out = np.zeros(100, np.int32)
    Kernel(FILE, "lambdas").launch(1, 128, out, 100)
    np.testing.assert_array_equal(out, [sum(k * k for k in range(i)) + 3 * i for i in range(100)])


def test_recursion() -> None:
    """Fibonacci's numbers, each thread to its own depth."""
    out = np.zeros(18, np.int32)
    Kernel(FILE, "fibonaccis").launch(1, 32, out, 18)
    expected = [0, 1]
    while len(expected) < 18:
        expected.append(expected[-1] + expected[-2])
    np.testing.assert_array_equal(out, expected)


def _run(program: list[int], value: int) -> int:
    """Do what the kernel's little machine does, in 32 bits."""
    number, k = value, 0

    def wrapped(n: int) -> int:
        return (n + 2**31) % 2**32 - 2**31

    while k < len(program):
        step = program[k] % 20
        quotient = abs(number) // 7 * (1 if number >= 0 else -1)
        rest = abs(number) % 1001 * (1 if number >= 0 else -1)
        number = {
            0: number + 1,
            1: number - 3,
            2: number * 5,
            3: number ^ 0x55,
            4: ~number,
            5: number << 1,
            6: number >> 2,
            7: number | 0x1001,
            8: number & 0xFFFFFF,
            9: -number,
            10: number + k,
            11: quotient,
            12: rest,
            13: number + wrapped(number << 3),
            14: min(number, 100) + 17,
            15: number + 17,
            16: number ^ number >> 5,
            17: number,
        }.get(step, number - value)
        number = wrapped(number)
        k += 2 if step == 17 else 1
    return number


def test_a_switch_with_many_cases(random: np.random.Generator) -> None:
    """One falls through, one changes the loop, one is the default."""
    programs, out = random.integers(0, 256, (150, 30), dtype=np.uint8), np.zeros(150, np.int32)
    Kernel(FILE, "run_programs").launch(2, 96, programs, 30, out, 150)
    assert out.tolist() == [_run(program.tolist(), i) for i, program in enumerate(programs)]


def test_results_through_pointers(random: np.random.Generator) -> None:
    """To variables of a thread's own, from a function that is really called."""
    numbers, sums = random.integers(0, 2**31, 200).astype(np.int32), np.zeros(200, np.int32)
    Kernel(FILE, "digits").launch(2, 128, numbers, sums, 200)
    assert sums.tolist() == [sum(map(int, str(number))) for number in numbers]
