"""The list of functions: what is missing says so, versions are found, and a fork ends it all."""

from __future__ import annotations

import ctypes
import json
import os
from collections import Counter
from ctypes import byref, c_int, c_void_p
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from .control import BEHAVING, MISSING, ROWS, Row, fresh, only_simulated, report
from .cuda import check
from .resources import allocate, current, download, start, value
from .variants import cu

pytestmark = only_simulated

NOT_INITIALIZED, NOT_SUPPORTED = 3, 801
FOUND, TOO_OLD = 0, 2  # CUdriverProcAddressQueryResult
DEFAULT, LEGACY, PER_THREAD = 0, 1, 2  # CUdriverProcAddress_flags


def test_no_symbol_is_in_the_list_twice() -> None:
    """Nor has a name two rows; and the library exports them all."""
    names = [name for name, _ in groupby(ROWS, key=lambda row: row.name)]
    symbols = [row.symbol for row in ROWS]
    for words in (names, symbols):
        assert [word for word, n in Counter(words).items() if n > 1] == []
    assert [symbol for symbol in symbols if not hasattr(cu, symbol)] == []


def test_every_name_has_a_symbol_of_each_kind_and_version_once() -> None:
    """Else cuGetProcAddress could not choose."""
    kinds = Counter((row.name, row.since, row.per_thread) for row in ROWS)
    assert [kind for kind, n in kinds.items() if n > 1] == []


@pytest.mark.parametrize("row", MISSING, ids=[row.symbol for row in MISSING])
def test_a_missing_function_says_so_and_is_counted_by_name(row: Row, context: int) -> None:
    """NOT_SUPPORTED, whatever it is given."""
    before = report()["unsupported"].get(row.symbol, 0)
    function = getattr(cu, row.symbol)
    function.restype = c_int
    arguments = () if function.argtypes is None else [kind() for kind in function.argtypes]
    assert [function(*arguments) for _ in range(2)] == [NOT_SUPPORTED, NOT_SUPPORTED]
    assert report()["unsupported"][row.symbol] == before + 2


def _miss() -> int:
    """Call a function that is missing, twice, and free what is no memory."""
    check(cu.cuInit(0))
    check(cu.cuMemFree_v2(0))
    return cu.cuTexRefDestroy(None) + cu.cuTexRefDestroy(None) + cu.cuMemFree_v2(4096)


def test_a_report_is_written_when_a_process_ends(tmp_path: Path) -> None:
    """It names what was called, what was missing and what was wrong."""
    path = tmp_path / "report.json"
    assert fresh(_miss, GPULEND_SIM_REPORT=str(path)) == 2 * NOT_SUPPORTED + 1
    written = json.loads(path.read_text())
    assert written["calls"] == {"cuInit": 1, "cuMemFree_v2": 2}
    assert written["unsupported"] == {"cuTexRefDestroy": 2}
    (fault,) = written["faults"]
    assert (fault["function"], fault["address"], fault["status"]) == ("cuMemFree_v2", "0x1000", 1)
    assert set(written["live"].values()) == {0}


def _expected(name: str, version: int, flags: int) -> str | None:
    """Return the symbol for a name: the newest up to a version; a thread's own if there is one."""
    rows = [row for row in ROWS if row.name == name]
    own = flags == PER_THREAD and any(row.per_thread for row in rows)
    fitting = [row for row in rows if row.per_thread == own and row.since <= version]
    return max(fitting, key=lambda row: row.since).symbol if fitting else None


@pytest.mark.parametrize("flags", [DEFAULT, LEGACY, PER_THREAD])
def test_every_function_is_found_from_its_version_on(context: int, flags: int) -> None:
    """Just below it is the form before, or VERSION_NOT_SUFFICIENT."""
    newest = value(c_int, cu.cuDriverGetVersion)
    wrong = []
    for row in ROWS:
        for version in (row.since, row.since - 1, newest):
            found, status = c_void_p(99), c_int(99)
            ask = (row.name.encode(), byref(found), version, flags, byref(status))
            check(cu.cuGetProcAddress_v2(*ask))
            symbol = _expected(row.name, version, flags)
            address = symbol and ctypes.cast(getattr(cu, symbol), c_void_p).value
            if (found.value, status.value) != (address, FOUND if symbol else TOO_OLD):
                wrong.append((row.name, version, symbol, status.value))
    assert wrong == []


def _called_with_nothing(row: Row) -> int:
    function = getattr(cu, row.symbol)
    return function(*[kind() for kind in function.argtypes])


def _in_child() -> dict[str, int]:
    """Call every function that behaves in a forked child; return the codes."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        codes = {row.symbol: _called_with_nothing(row) for row in BEHAVING if not row.pure}
        os.write(write, json.dumps(codes).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, "the child crashed"
    return json.loads(text)


def _forked() -> dict[str, Any]:
    """Fork with work under way, and go on in the parent."""
    context = start()
    stream, memory = value(c_void_p, cu.cuStreamCreate, 1), allocate(64)
    check(cu.cuMemsetD8Async(memory, 5, 64, stream))
    codes = _in_child()
    check(cu.cuStreamSynchronize(stream))
    seen: dict[str, Any] = {"bytes": list(download(memory, 2)), "same": current() == context}
    check(cu.cuMemsetD8_v2(memory, 6, 64))
    check(cu.cuMemFree_v2(memory))
    check(cu.cuStreamDestroy_v2(stream))
    seen["again"] = [code for code in _in_child().values() if code != NOT_INITIALIZED]
    return {**seen, "codes": codes, "release": cu.cuDevicePrimaryCtxRelease_v2(0)}


def test_after_fork_every_call_in_the_child_is_not_initialised() -> None:
    """And the parent goes on as if nothing had happened."""
    seen = fresh(_forked)
    codes = seen.pop("codes")
    assert {symbol for symbol, code in codes.items() if code != NOT_INITIALIZED} == set()
    assert set(codes) == {row.symbol for row in BEHAVING if not row.pure}
    assert seen == {"bytes": [5, 5], "same": True, "again": [], "release": 0}


def _pure_in_child() -> list[Any]:
    """Fork, and call in the child what needs no machine."""
    start()
    read, write = os.pipe()
    if os.fork() == 0:
        text, found = ctypes.c_char_p(), c_void_p()
        codes = [cu.cuGetErrorName(2, byref(text)), cu.cuGetErrorString(2, byref(text))]
        codes.append(cu.cuGetProcAddress_v2(b"cuInit", byref(found), 12000, 0, None))
        codes.append(cu.cuGetProcAddress(b"cuInit", byref(found), 12000, 0))
        same = found.value == ctypes.cast(cu.cuInit, c_void_p).value
        os.write(write, json.dumps([*codes, same]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        return json.loads(pipe.read())


def test_after_fork_names_and_addresses_are_still_found() -> None:
    """They need no machine."""
    assert fresh(_pure_in_child) == [0, 0, 0, 0, True]
