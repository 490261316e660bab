"""Faults on demand, in every function that behaves: the call fails, and nothing else happens."""

from __future__ import annotations

from ctypes import CFUNCTYPE, byref, c_int, c_uint64, c_void_p

import pytest

from .bench import Bench
from .calls import APART, USES, prepare
from .control import BEHAVING, Row, faults, fresh, only_simulated, report
from .cuda import check
from .resources import Resources, value
from .variants import base, cu

pytestmark = only_simulated

CODES = [2, 46, 700, 719, 999]
HERE = [row for row in BEHAVING if row.symbol not in APART]
EVERY = pytest.mark.parametrize("row", HERE, ids=[row.symbol for row in HERE])


def _inject(row: Row, rule: str, code: int, context: int) -> None:
    """Fail the call once, then make it work, then undo it: nothing may be left."""
    first = report()["live"]
    resources = Resources(context)
    try:
        bench = Bench(resources, row.per_thread)
        call = prepare(row.symbol, bench)
        before = [call.outs(), report()["live"], bench.state()]
        with faults(f"{rule}#1={code}"):
            assert call() == code
            assert [call.outs(), report()["live"], bench.state()] == before
            assert call() == call.answer, "the next call does not work"
        call.undo()
    finally:
        resources.close()
    assert report()["live"] == first, "something is left"


@EVERY
def test_an_injected_fault_is_all_that_happens(row: Row, context: int) -> None:
    """The code comes back, nothing was written, made or ended; the same call then works."""
    for code in CODES:
        _inject(row, row.symbol, code, context)


@EVERY
def test_a_rule_may_name_a_function_as_programs_look_it_up(row: Row, context: int) -> None:
    """Without version and variant: it holds for all of them."""
    _inject(row, row.name, 719, context)


def inject_apart(symbol: str) -> int:
    """Inject in a created context of a fresh process; return how many faults there were."""
    (row,) = [row for row in BEHAVING if row.symbol == symbol]
    check(cu.cuInit(0))
    context = value(c_void_p, cu.cuCtxCreate_v2, 0, 0)
    rules = [(row.symbol, code) for code in CODES] + [(row.name, 719)]
    for rule, code in rules:
        _inject(row, rule, code, context)
    check(cu.cuCtxDestroy_v2(context))
    return len(rules)


@pytest.mark.parametrize("symbol", sorted(APART))
def test_a_function_that_needs_a_process_of_its_own_fails_as_cleanly(symbol: str) -> None:
    """It needs a second device, or ends the context that all other tests use."""
    assert fresh(inject_apart, symbol, GPULEND_SIM_DEVICES="2") == len(CODES) + 1


def test_every_use_is_of_a_function_that_behaves() -> None:
    """No entry outlives its row of the list."""
    assert {base(row.symbol) for row in BEHAVING} == set(USES)


def test_a_rule_counts_from_when_it_is_set(context: int) -> None:
    """The third call fails, and no other; set again, it counts anew."""
    for _ in range(2):
        with faults("cuCtxGetDevice#3=700"):
            codes = [cu.cuCtxGetDevice(byref(c_int())) for _ in range(5)]
        assert codes == [0, 0, 700, 0, 0]


def test_a_rule_with_a_star_fails_every_call_until_it_is_gone(context: int) -> None:
    """Calls of other functions go on."""
    with faults("cuCtxGetDevice#*=719"):
        assert {cu.cuCtxGetDevice(byref(c_int())) for _ in range(5)} == {719}
        assert cu.cuCtxSynchronize() == 0
    assert cu.cuCtxGetDevice(byref(c_int())) == 0


def test_several_rules_hold_at_once(context: int) -> None:
    """For one function or for several; a code may be a number or a name."""
    rules = "cuCtxGetDevice#1=2; cuCtxGetDevice#2=UNKNOWN;cuMemAlloc_v2#1=CUDA_ERROR_OUT_OF_MEMORY"
    with faults(rules):
        assert cu.cuMemAlloc_v2(byref(c_uint64()), 8) == 2
        assert [cu.cuCtxGetDevice(byref(c_int())) for _ in range(3)] == [2, 999, 0]


def test_a_rule_for_a_missing_function_gives_its_code(context: int) -> None:
    """In the place of NOT_SUPPORTED."""
    with faults("cuTexRefDestroy#1=2"):
        assert [cu.cuTexRefDestroy(None), cu.cuTexRefDestroy(None)] == [2, 801]


def test_faults_hold_for_functions_that_were_looked_up(context: int) -> None:
    """A pointer from cuGetProcAddress is the same function."""
    found = c_void_p()
    check(cu.cuGetProcAddress_v2(b"cuCtxGetDevice", byref(found), 12000, 0, None))
    assert found.value is not None
    function = CFUNCTYPE(c_int, c_void_p)(found.value)
    with faults("cuCtxGetDevice#1=700"):
        assert [function(byref(c_int())) for _ in range(2)] == [700, 0]
