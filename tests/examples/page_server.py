"""Runs the Python blocks of pages, each page in a process of its own.

Imports what most pages import once, and forks for each page, so that a page does not cost an
import of torch. Reads one JSON object a line, `{"blocks": [[name, code], ...], "bare": bool}`, and
answers with one.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import fnmatch
import gc
import io
import json
import linecache
import os
import signal
import sys
import tokenize
import traceback
from typing import Any

import numpy  # noqa: F401 - imported for the pages

with contextlib.suppress(ImportError):
    import torch  # noqa: F401

import gpulend

PATIENCE = 120  # seconds for one page
# `gpulend run` sets these; a page that chooses the driver itself starts without them.
SHOWN = ("GPULEND_DEVICE", "GPULEND_SIM_LIBRARY", "LD_LIBRARY_PATH")


class Wrong(Exception):
    """A page says something that did not happen."""


def comments(code: str) -> dict[int, str]:
    """Return the comments behind code, by line."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip():
            found[token.start[0]] = token.string.lstrip("# ")
    return found


def matches(said: str, happened: str) -> bool:
    """Compare with what a page says, where `…` stands for anything."""
    pattern = "*".join(part.replace("[", "[[]") for part in said.split("…"))
    return fnmatch.fnmatchcase(happened, pattern)


def run_block(name: str, code: str, names: dict[str, Any]) -> None:
    """Run a block statement by statement, and compare what happens with the comments."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    lines, said = code.splitlines(), comments(code)
    for statement in ast.parse(code, name).body:
        last = statement.end_lineno or statement.lineno
        spanned = range(statement.lineno, last + 1)
        printed = [said[n] for n in spanned if n in said and "print(" in lines[n - 1]]
        error = said.get(last, "").partition(": ")
        expected = error[0] if error[0].endswith("Error") and " " not in error[0] else ""
        output = io.StringIO()
        tree = ast.Module([statement], [])
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(tree, name, "exec"), names)
        except Exception as raised:
            if type(raised).__name__ != expected:
                raise
            if error[2] and not matches(f"…{error[2]}…", str(raised)):
                raise Wrong(f"{name}, line {last}: the error says {raised}") from raised
        else:
            if expected:
                raise Wrong(f"{name}, line {last}: no {expected}")
        happened = output.getvalue().rstrip("\n")
        if printed and not matches("\n".join(printed), happened):
            raise Wrong(f"{name}, line {last}: prints {happened!r}")


def run_page(blocks: list[list[str]]) -> dict[str, str]:
    """Run the blocks in one namespace, and say how it went."""
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for name, code in blocks:
            run_block(name, code, names)
        # A kernel that nobody waited for may have gone wrong. Pages of the host have no GPU.
        if any(entry.kind == "lease" for entry in gpulend.ledger()):
            gpulend.synchronize()
    except ModuleNotFoundError as error:
        return {"result": "missing", "detail": error.name or str(error)}
    except Exception:
        return {"result": "failed", "detail": traceback.format_exc()}
    return {"result": "ok", "detail": ""}


def in_a_child(request: dict[str, Any]) -> dict[str, str]:
    """Fork, run the page there, and return what the child says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        # Answers have standard output for themselves; what C prints goes elsewhere.
        os.dup2(2, 1)
        # Ends a page that hangs, in C too.
        signal.alarm(PATIENCE)
        if request["bare"]:
            for name in SHOWN:
                os.environ.pop(name, None)
        answer = run_page(request["blocks"])
        with os.fdopen(writing, "w") as pipe:
            json.dump(answer, pipe)
        # What libraries do at exit is done and seen; freeing a million objects of torch is not.
        atexit._run_exitfuncs()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        return {"result": "failed", "detail": f"the process ended with {status}\n{text}"}
    answer: dict[str, str] = json.loads(text)
    return answer


def main() -> None:
    """Answer until the input ends."""
    # A collection in a child would copy every page that it shares with this process.
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(in_a_child(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
