"""Kernels with one mistake each: the code, the report with line and thread, and life after it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_int, c_void_p
from dataclasses import dataclass

import numpy as np
import pytest
from driver.control import only_simulated
from driver.cuda import check, cu
from driver.resources import allocate, current, start, value

from .harness import (
    MISTAKES,
    Bare,
    Kernel,
    Size,
    alone,
    fault_sentences,
    module_of,
    on_device,
)

pytestmark = [only_simulated, pytest.mark.usefixtures("mistaken")]

OUT_OF_BOUNDS, MISALIGNED, ASSERTION, TIMEOUT, OTHER = 700, 716, 710, 702, 719
WILD_CALL = 718
Place = tuple[int, int, int]
SENTENCE = re.compile(
    r"kernel (\w+) at (\w+\.cu):(\d+), block \((\d+), (\d+), (\d+)\), "
    r"thread \((\d+), (\d+), (\d+)\): (.+)"
)


def ints(n: int) -> np.ndarray:
    """Give 0, 1, 2 and so on."""
    return np.arange(n, dtype=np.int32)


@dataclass(frozen=True)
class Mistake:
    """A launch of the kernel that its file is named after, and who goes wrong in it."""

    code: int
    grid: Size = 1
    block: Size = 32
    arrays: tuple[np.ndarray, ...] = ()
    numbers: tuple[int, ...] = ()
    shared: int = 0
    place: Place = (0, 0, 0)  # the block
    threads: Callable[[int], bool] = bool  # by the number on the first axis
    says: str = ""


def only(number: int) -> Callable[[int], bool]:
    """Accept one thread."""
    return lambda thread: thread == number


def below(number: int) -> Callable[[int], bool]:
    """Accept threads before this one."""
    return lambda thread: thread < number


PLACES = np.array([0, 1, 2, 3, 4, 5, 6, 7, *[0] * 12, 1000, *[0] * 11], np.int32)
WILD = np.where(ints(32) == 11, 0xDEAD0, 0).astype(np.uint64)
AGREED = np.where(ints(64) == 41, 6, 5).astype(np.int32)
BINS = np.where(ints(64) == 37, 16, ints(64) % 16).astype(np.int32)

TABLE = {
    "read_past_end": Mistake(
        OUT_OF_BOUNDS, 2, 64, (ints(128), ints(128)), (), 0, (1, 0, 0), only(63), "reads"
    ),
    "write_past_end": Mistake(
        OUT_OF_BOUNDS, 2, 64, (ints(128),), (), 0, (1, 0, 0), only(63), "writes"
    ),
    "negative_index": Mistake(
        OUT_OF_BOUNDS, 2, 64, (np.zeros(128), np.zeros(128)), threads=only(0), says="reads"
    ),
    "misaligned_vector": Mistake(
        MISALIGNED, arrays=(np.zeros(32, np.float32), np.zeros(4, np.float32)), threads=only(2)
    ),
    "misaligned_int": Mistake(MISALIGNED, arrays=(ints(8),), threads=only(4)),
    "shared_past_end": Mistake(
        OUT_OF_BOUNDS, arrays=(ints(32),), numbers=(1,), threads=only(31), says="writes"
    ),
    "dynamic_shared_past_end": Mistake(
        OUT_OF_BOUNDS, 1, 96, (np.ones(96, np.float32),), (), 95 * 4, threads=only(95)
    ),
    "local_past_end": Mistake(OUT_OF_BOUNDS, arrays=(PLACES, ints(32)), threads=only(20)),
    "uninitialised_shared": Mistake(OTHER, 1, 64, (ints(64),), threads=only(63 - 40)),
    "race_of_writes": Mistake(OTHER, 1, 64, (ints(64),), threads=below(64)),
    "race_of_values": Mistake(OTHER, 1, 64, (AGREED, ints(64)), threads=only(41), says="thread 40"),
    "race_in_reduction": Mistake(OTHER, 1, 128, (np.ones(128, np.float32),), threads=below(64)),
    "race_in_warp": Mistake(OTHER, arrays=(ints(32),), threads=below(32)),
    "race_in_matrix": Mistake(OTHER, arrays=(ints(32),), threads=below(32), says="thread 0"),
    "race_across_warps": Mistake(OTHER, 1, 64, (ints(64),), threads=below(64)),
    "two_barriers": Mistake(OTHER, 1, 64, (ints(64),), threads=below(64)),
    "lanes_never_come": Mistake(OTHER, arrays=(ints(32),), threads=below(16)),
    "launched_plainly": Mistake(
        OTHER, 4, 64, (ints(256),), threads=only(0), says="in a launch that is not cooperative"
    ),
    "failed_assertion": Mistake(ASSERTION, 2, 64, (ints(128),), place=(1, 0, 0), threads=only(6)),
    "trapped": Mistake(OTHER, 2, 64, (ints(128),), place=(1, 0, 0), threads=only(6)),
    "inside_function": Mistake(
        OUT_OF_BOUNDS, 2, 64, (ints(100),), (100,), 0, (1, 0, 0), only(36), "writes"
    ),
    "endless_recursion": Mistake(OTHER, arrays=(ints(4),), threads=only(6)),
    "heap_past_end": Mistake(
        OUT_OF_BOUNDS, arrays=(ints(32),), threads=only(9), says="beyond the end of 42 bytes"
    ),
    "heap_use_after_free": Mistake(
        OUT_OF_BOUNDS, arrays=(ints(32),), threads=only(3), says="which a kernel has freed"
    ),
    "heap_double_free": Mistake(OTHER, 1, 64, (ints(64),), threads=only(33), says="freed already"),
    "heap_wild_free": Mistake(
        OTHER, arrays=(ints(32),), threads=only(7), says="which malloc did not return"
    ),
    "wild_call": Mistake(WILD_CALL, arrays=(WILD, ints(32)), threads=only(11), says="at 0xdead0"),
    "pure_virtual": Mistake(
        WILD_CALL, arrays=(ints(1),), threads=only(0), says="__cxa_pure_virtual, which is defined"
    ),
    "atomic_past_end": Mistake(
        OUT_OF_BOUNDS, 1, 64, (BINS, np.zeros(16, np.uint32)), threads=only(37)
    ),
}


def marked(name: str) -> list[int]:
    """Return the lines of a file that say HERE."""
    lines = (MISTAKES / f"{name}.cu").read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if "// HERE" in line]


@contextmanager
def one_fault() -> Iterator[list[str]]:
    """Give a list in which the sentence of the one fault of the block will be."""
    before, new = fault_sentences(), []
    yield new
    new.extend(fault_sentences()[len(before) :])
    assert len(new) == 1, new


def assert_sentence(
    sentence: str, name: str, place: Place, threads: Callable[[int], bool], says: str = ""
) -> None:
    """See that it names the kernel, the line, the block, and a thread that goes wrong."""
    found = SENTENCE.fullmatch(sentence)
    assert found, sentence
    kernel, file, line, *numbers, words = found.groups()
    block, thread = tuple(map(int, numbers[:3])), tuple(map(int, numbers[3:]))
    assert (kernel, file) == (name, f"{name}.cu")
    assert int(line) in marked(name), sentence
    assert block == place, sentence
    assert threads(thread[0]), sentence
    assert thread[1:] == (0, 0), sentence
    assert says in words


def assert_alive() -> None:
    """See that the context works on: a right kernel gives right numbers and no code."""
    a, b, out = np.ones(500, np.float32), np.full(500, 2, np.float32), np.zeros(500, np.float32)
    Kernel("vectors.cu", "vector_add").launch(4, 128, a, b, out, 500)
    assert set(out.tolist()) == {3.0}


def launch(name: str, mistake: Mistake, *words: np.uint64) -> int:
    """Launch, and return what waiting for it answers."""
    kernel = Bare(MISTAKES / f"{name}.cu", name)
    code = kernel.start(
        mistake.grid, mistake.block, *words, *mistake.numbers, shared=mistake.shared
    )
    check(code)
    return cu.cuCtxSynchronize()


@pytest.mark.parametrize("name", TABLE)
def test_a_mistake_is_found_where_it_is(name: str) -> None:
    """Once; then the context works on."""
    mistake = TABLE[name]
    with on_device(*mistake.arrays) as addresses:
        with one_fault() as sentences:
            assert launch(name, mistake, *map(np.uint64, addresses)) == mistake.code
        assert cu.cuCtxSynchronize() == 0
    assert_sentence(sentences[0], name, mistake.place, mistake.threads, mistake.says)
    assert_alive()


def test_block_and_thread_are_told_on_three_axes() -> None:
    """The last thread of the last block."""
    cells = ints(8 * 6 * 4)
    with on_device(cells) as (address,), one_fault() as sentences:
        mistake = Mistake(OUT_OF_BOUNDS, (4, 3, 2), (2, 2, 2), numbers=(8, 6, 4))
        assert launch("wrong_corner", mistake, np.uint64(address)) == OUT_OF_BOUNDS
    here = marked("wrong_corner")[0]
    wanted = f"kernel wrong_corner at wrong_corner.cu:{here}, block (3, 2, 1), thread (1, 1, 1): "
    assert sentences[0].startswith(wanted), sentences[0]
    assert_alive()


def test_a_null_pointer() -> None:
    """Is the memory of nobody."""
    with one_fault() as sentences:
        assert launch("null_pointer", Mistake(OUT_OF_BOUNDS), np.uint64(0)) == OUT_OF_BOUNDS
    assert_sentence(sentences[0], "null_pointer", (0, 0, 0), only(3), "writes")
    assert_alive()


def test_use_after_free() -> None:
    """The host frees, then launches."""
    address = allocate(64)
    check(cu.cuMemFree_v2(address))
    with one_fault() as sentences:
        code = launch("use_after_free", Mistake(OUT_OF_BOUNDS), np.uint64(address))
    assert code == OUT_OF_BOUNDS
    assert_sentence(sentences[0], "use_after_free", (0, 0, 0), only(9))
    assert_alive()


def test_host_memory_that_was_never_registered() -> None:
    """An array of NumPy's, which keeps its value."""
    array = ints(4)
    with one_fault() as sentences:
        code = launch("host_memory", Mistake(OUT_OF_BOUNDS), np.uint64(array.ctypes.data))
    assert code == OUT_OF_BOUNDS
    assert array.tolist() == [0, 1, 2, 3]
    assert_sentence(sentences[0], "host_memory", (0, 0, 0), only(1), "writes")
    assert_alive()


def test_a_write_to_a_constant() -> None:
    """Through an address that the host asked for: kernels may only read it."""
    kernel, out = Bare(MISTAKES / "write_to_constant.cu", "write_to_constant"), ints(32)
    address, _ = kernel.variable("table")
    with on_device(out) as (to,), one_fault() as sentences:
        words = (np.uint64(address), np.uint64(to))
        code = launch("write_to_constant", Mistake(OUT_OF_BOUNDS), *words)
        assert code == OUT_OF_BOUNDS
    assert_sentence(sentences[0], "write_to_constant", (0, 0, 0), only(8), "writes")
    assert_alive()


def loop_for_ever() -> None:
    """Launch a kernel that never ends; for a process of its own."""
    start()
    with on_device(np.zeros(1, np.int32)) as (flag,), one_fault() as sentences:
        code = launch("endless_loop", Mistake(TIMEOUT), np.uint64(flag))
    assert_alive()
    print(json.dumps([code, *sentences]))


def test_an_endless_loop_ends_at_the_time_limit() -> None:
    """Of one second here."""
    code, sentence = json.loads(alone(loop_for_ever, GPULEND_SIM_TIMEOUT="1").splitlines()[-1])
    assert code == TIMEOUT
    assert_sentence(sentence, "endless_loop", (0, 0, 0), below(32))


def use_other_device() -> None:
    """Launch on one device with an address of another; for a process of its own."""
    context = start()
    check(cu.cuCtxSetCurrent(value(c_void_p, cu.cuDevicePrimaryCtxRetain, 1)))
    address = allocate(64)
    check(cu.cuCtxSetCurrent(context))
    assert current() == context
    with one_fault() as sentences:
        code = launch("other_device", Mistake(OUT_OF_BOUNDS), np.uint64(address))
    assert_alive()
    print(json.dumps([value(c_int, cu.cuDeviceGetCount), code, *sentences]))


def test_memory_of_another_device() -> None:
    """Without access between the two."""
    printed = alone(use_other_device, GPULEND_SIM_DEVICES="2")
    devices, code, sentence = json.loads(printed.splitlines()[-1])
    assert (devices, code) == (2, OUT_OF_BOUNDS)
    assert_sentence(sentence, "other_device", (0, 0, 0), only(2), "writes")


def test_every_mistake_has_its_test() -> None:
    """So that no file lies here unused."""
    others = {"wrong_corner", "null_pointer", "use_after_free", "host_memory", "endless_loop"}
    others |= {"write_to_constant", "other_device"}
    assert {file.stem for file in MISTAKES.glob("*.cu")} == set(TABLE) | others
    assert all(marked(file.stem) for file in MISTAKES.glob("*.cu"))
    assert len({module_of(file) for file in MISTAKES.glob("*.cu")}) == len(TABLE) + len(others)
