"""Memory that ends at a limit, and rules: how they are set, refused, and taken back."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

import pytest

from .control import faults, fresh, only_simulated, problem, report, set_faults
from .cuda import check
from .resources import Resources, allocate, value
from .variants import cu

pytestmark = only_simulated

MIB = 1 << 20
OUT_OF_MEMORY = 2
RESERVED = 5  # CUmemPool_attribute


def _info() -> tuple[int, int]:
    free, total = c_size_t(), c_size_t()
    check(cu.cuMemGetInfo_v2(byref(free), byref(total)))
    assert free.value <= total.value == value(c_size_t, cu.cuDeviceTotalMem_v2, 0)
    return free.value, total.value


def _free() -> int:
    return _info()[0]


def _used() -> int:
    free, total = _info()
    return total - free


def _code(size: int) -> int:
    """Try to allocate; return the code, and free at once what there is."""
    out = c_uint64(99)
    code = cu.cuMemAlloc_v2(byref(out), size)
    assert (code == 0) == (out.value not in (0, 99))
    return code or cu.cuMemFree_v2(out)


def test_memory_ends_at_the_limit(gpu: Resources) -> None:
    """To the byte of the granularity; freeing makes room; without the rule all is there again."""
    before = _free()
    with faults(f"memory={_used() + 4 * MIB}"):
        assert _free() == 4 * MIB
        assert (_code(4 * MIB + 1), _code(4 * MIB)) == (OUT_OF_MEMORY, 0)
        large = allocate(3 * MIB)
        assert _free() == MIB
        small = allocate(MIB)
        assert _free() == 0
        assert _code(1) == OUT_OF_MEMORY
        check(cu.cuMemFree_v2(large))
        assert _free() == 3 * MIB
        assert (_code(3 * MIB + 1), _code(3 * MIB)) == (OUT_OF_MEMORY, 0)
        check(cu.cuMemFree_v2(small))
        assert _free() == 4 * MIB
    assert _free() == before
    assert _code(64 * MIB) == 0


def test_a_limit_below_what_is_in_use_leaves_nothing_free(gpu: Resources) -> None:
    """What there is stays, and works; there is room again when enough of it is gone."""
    before = _free()
    limit, held = _used() + 2 * MIB, allocate(4 * MIB)
    with faults(f"memory={limit}"):
        assert (_free(), _code(1)) == (0, OUT_OF_MEMORY)
        check(cu.cuMemsetD8_v2(held, 1, 4 * MIB))
        check(cu.cuMemFree_v2(held))
        assert (_free(), _code(2 * MIB)) == (2 * MIB, 0)
    assert _free() == before


@pytest.mark.parametrize("limit", ["1048576", "1024KiB", "1MiB"])
def test_a_limit_is_a_number_of_bytes(gpu: Resources, limit: str) -> None:
    """Or of KiB, MiB, GiB."""
    used = _used()
    with faults(f"memory={limit}"):
        assert _free() == MIB - used
    with faults("memory=1GiB"):
        assert _free() == 1024 * MIB - used
    with faults("memory=0"):
        assert (_free(), _code(1)) == (0, OUT_OF_MEMORY)


ALLOCATIONS: dict[str, Callable[[Resources, Any], int]] = {
    "plain": lambda gpu, out: cu.cuMemAlloc_v2(out, 4 * MIB),
    "pitch": lambda gpu, out: cu.cuMemAllocPitch_v2(out, byref(c_size_t()), MIB, 4, 4),
    "async": lambda gpu, out: cu.cuMemAllocAsync(out, 4 * MIB, None),
    "pool": lambda gpu, out: cu.cuMemAllocFromPoolAsync(out, 4 * MIB, gpu.pool(), None),
}


@pytest.mark.parametrize("kind", ALLOCATIONS)
def test_the_limit_holds_for_all_device_memory(gpu: Resources, kind: str) -> None:
    """Whatever allocates it; without the limit the same call works."""
    before, out = report()["live"]["bytes"], c_uint64(99)
    with faults(f"memory={_used() + 3 * MIB}"):
        assert ALLOCATIONS[kind](gpu, byref(out)) == OUT_OF_MEMORY
        assert out.value in (0, 99)
        assert report()["live"]["bytes"] == before
    check(ALLOCATIONS[kind](gpu, byref(out)))
    check(cu.cuMemFree_v2(out))


def test_the_limit_does_not_hold_for_memory_of_the_host(gpu: Resources) -> None:
    """Pinned memory is no memory of the device."""
    with faults("memory=0"):
        check(cu.cuMemFreeHost(value(c_void_p, cu.cuMemAllocHost_v2, MIB)))


def test_what_a_pool_reserves_is_not_free(gpu: Resources) -> None:
    """All of it, and only that."""
    before, pool = _free(), gpu.pool()
    address = gpu.alloc_async(16, None, pool)
    reserved = c_uint64()
    check(cu.cuMemPoolGetAttribute(pool, RESERVED, byref(reserved)))
    missing = before - _free()
    check(cu.cuMemFreeAsync(address, None))
    check(cu.cuCtxSynchronize())
    assert missing == reserved.value
    assert _free() == before


def test_a_pool_reserves_nothing_beyond_the_limit(gpu: Resources) -> None:
    """A small block is refused if the pool would have to reserve too much for it."""
    before, pool, out = _free(), gpu.pool(), c_uint64()
    with faults(f"memory={_used() + MIB}"):
        code = cu.cuMemAllocFromPoolAsync(byref(out), 16, pool, None)
    used = before - _free()
    if code == 0:
        check(cu.cuMemFreeAsync(out, None))
        check(cu.cuCtxSynchronize())
    assert used <= MIB
    assert code in (0, OUT_OF_MEMORY)


REFUSED = {
    "cuNope#1=2": "cuNope",
    "cuMemAlloc_v9#1=2": "cuMemAlloc_v9",
    "cudaMalloc#1=2": "cudaMalloc",
    "cuMemAlloc_v2": "cuMemAlloc_v2",
    "cuMemAlloc_v2=2": "cuMemAlloc_v2=2",
    "cuMemAlloc_v2#1": "cuMemAlloc_v2#1",
    "cuMemAlloc_v2#=2": "cuMemAlloc_v2#=2",
    "cuMemAlloc_v2#0=2": "cuMemAlloc_v2#0=2",
    "cuMemAlloc_v2#-1=2": "cuMemAlloc_v2#-1=2",
    "cuMemAlloc_v2#x=2": "cuMemAlloc_v2#x=2",
    "cuMemAlloc_v2#1=": "cuMemAlloc_v2#1=",
    "cuMemAlloc_v2#1=0": "cuMemAlloc_v2#1=0",
    "cuMemAlloc_v2#1=-2": "-2",
    "cuMemAlloc_v2#1=NOPE": "NOPE",
    "cuMemAlloc_v2#1=99999999999": "99999999999",
    "#1=2": "#1=2",
    "=": "=",
    "memory=": "memory",
    "memory=much": "much",
    "memory=-1": "-1",
    "memory=1QiB": "1QiB",
    "memory=99999999999999999999GiB": "99999999999999999999GiB",
    "lost=": "lost=",
    "lost=x": "lost=x",
    "lost=-1": "lost=-1",
    "found=1": "found=1",
}


@pytest.mark.parametrize("rules", REFUSED)
def test_a_wrong_rule_is_refused_by_name_and_changes_nothing(gpu: Resources, rules: str) -> None:
    """INVALID_VALUE; good rules beside it do not count either, and those that hold go on."""
    with faults(f"cuCtxGetDevice#2=700;memory={_used() + 4 * MIB}"):
        assert cu.cuCtxGetDevice(byref(c_int())) == 0
        for text in (rules, f"cuCtxGetDevice#*=2;lost=0;memory=1MiB;{rules}"):
            assert cu.gpulend_sim_faults(text.encode()) == 1
            assert REFUSED[rules] in problem()
        codes = [cu.cuCtxGetDevice(byref(c_int())) for _ in range(3)]
        assert (codes, _free()) == ([700, 0, 0], 4 * MIB)
    assert problem() == ""


@pytest.mark.parametrize("text", [None, b"\xff\xfe#1=2", b"cuMemAlloc_v2#1=2;\xff"])
def test_what_is_no_text_is_refused(gpu: Resources, text: bytes | None) -> None:
    """NULL, and bytes that are not UTF-8."""
    assert cu.gpulend_sim_faults(text) == 1
    assert problem()
    set_faults("")


def test_blanks_and_empty_rules_do_not_matter(gpu: Resources) -> None:
    """Between rules, and around them."""
    with faults(" ; cuCtxGetDevice#1 = 700 ;; "):
        assert [cu.cuCtxGetDevice(byref(c_int())) for _ in range(2)] == [700, 0]
    set_faults(" ; ")


def _before_the_start() -> list[Any]:
    """Set rules too early, then start."""
    return [cu.gpulend_sim_faults(b"memory=1MiB"), problem(), cu.cuInit(0), report()["faults"]]


def test_rules_need_a_machine_to_hold_for() -> None:
    """Before cuInit they are refused: NOT_INITIALIZED, and cuInit is named."""
    code, why, start, seen = fresh(_before_the_start)
    assert (code, start, seen) == (3, 0, [])
    assert "cuInit" in why


def _start() -> list[Any]:
    """Start as the environment says, and return what follows from its rules."""
    codes: list[Any] = [cu.cuInit(0), problem()]
    if codes[0] == 0:
        check(cu.cuCtxCreate_v2(byref(c_void_p()), 0, 0))
        codes += [cu.cuMemAlloc_v2(byref(c_uint64()), MIB) for _ in range(3)]
        codes += [_free(), cu.cuInit(0)]
    return codes


def test_the_environment_sets_rules_from_the_start() -> None:
    """All kinds of them; without any, nothing fails."""
    rules = "cuMemAlloc#2=UNKNOWN;memory=4MiB"
    assert fresh(_start, GPULEND_SIM_FAULTS=rules) == [0, "", 0, 999, 0, 2 * MIB, 0]
    assert fresh(_start, GPULEND_SIM_FAULTS="") == [0, "", 0, 0, 0, fresh(_whole) - 3 * MIB, 0]


def _starts() -> list[int]:
    """Start three times."""
    return [cu.cuInit(0) for _ in range(3)]


def test_rules_of_the_environment_hold_for_the_first_call() -> None:
    """Starting may itself fail, and then work."""
    assert fresh(_starts, GPULEND_SIM_FAULTS="cuInit#1=100") == [100, 0, 0]
    assert fresh(_starts, GPULEND_SIM_FAULTS="cuInit#2=NO_DEVICE") == [0, 100, 0]


def _whole() -> int:
    """Return how much is free on a fresh device."""
    check(cu.cuInit(0))
    check(cu.cuCtxCreate_v2(byref(c_void_p()), 0, 0))
    return _free()


@pytest.mark.parametrize("rules", ["cuNope#1=2", "memory=much", "cuMemAlloc_v2#1"])
def test_a_wrong_rule_in_the_environment_stops_the_start(rules: str) -> None:
    """INVALID_VALUE from cuInit, and the reason by name."""
    code, why = fresh(_start, GPULEND_SIM_FAULTS=rules)
    assert code == 1
    assert REFUSED.get(rules, rules) in why
