"""Random programs on a GPU, against what the simulator's interpreter computed for them.

`cargo test -p gpulend-sim --test differential dump -- --ignored` writes the programs, see
`crates/sim/tests/differential/dump.rs`. `python -m kernels.on_hardware FOLDER`, run in `tests`,
runs them on the driver that GPULEND_TEST_DRIVER names. A difference is traced to the first piece of
the program after which memory is not as it should be.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import ctypes
import json
import os
import queue
import subprocess
import sys
import threading
from ctypes import addressof, byref, c_double, c_int, c_ubyte, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from .cases import Program, family, number, producer, refused_line

PATIENCE = 60  # seconds that one program may take
DEFAULT_LEVEL = 4  # of the driver's compiler
STACK = 16 << 10  # bytes a thread: functions call themselves
SHOWN = 4  # differences of one program

Answer = dict[str, Any]


def _log(options: dict[int, int]) -> tuple[Any, Any, Any]:
    """Return a log of errors with the driver's options and their values."""
    log = ctypes.create_string_buffer(1 << 14)
    options = {5: addressof(log), 6: len(log), **options}  # CU_JIT_ERROR_LOG_BUFFER and its size
    return log, (c_int * len(options))(*options), (c_void_p * len(options))(*options.values())


def _execute(program: Program, pieces: int, level: int) -> Answer:
    """Run the first pieces of a program; say where memory is not as expected."""
    from driver.cuda import SIMULATED, check, cu
    from driver.resources import allocate, download, upload, value

    text = program.part(pieces)
    if not SIMULATED:
        # Some instructions are younger than the target that the simulated GPU goes by.
        text = text.replace(".target sm_75", ".target sm_90", 1)
    log, options, values = _log({7: level} if level != DEFAULT_LEVEL else {})
    module = c_void_p()
    code = cu.cuModuleLoadDataEx(
        byref(module), text.encode() + b"\0", len(options), options, values
    )
    if code:
        return {"refused": log.value.decode(errors="replace") or f"code {code}"}
    kernel = value(c_void_p, cu.cuModuleGetFunction, module, b"kernel")
    addresses = {}
    for name, data in program.before.items():
        addresses[name] = allocate(len(data))
        upload(addresses[name], data)
    given = [*map(c_uint64, addresses.values()), c_ubyte(0x80), c_double(-1.5e-300)]
    places = (c_void_p * len(given))(*map(addressof, given))
    sizes = (*program.grid, *program.block, program.shared)
    code = cu.cuLaunchKernel(kernel, *sizes, None, places, None) or cu.cuCtxSynchronize()
    if code:
        return {"code": code}
    expected = program.expected(pieces)
    found = {name: download(addresses[name], len(data)) for name, data in expected.items()}
    for address in addresses.values():
        check(cu.cuMemFree_v2(address))
    check(cu.cuModuleUnload(module))
    differences = [
        [name, at, number(expected[name][at : at + 8]), number(data[at : at + 8])]
        for name, data in found.items()
        for at in range(0, len(data), 8)
        if data[at : at + 8] != expected[name][at : at + 8]
    ]
    # What is in a register says more than where it went.
    differences.sort(key=lambda difference: difference[0] != "output")
    return {"differences": differences}


def _work(folder: Path) -> None:
    """Answer one line for each line of the input, until it ends."""
    from driver.cuda import check, cu
    from driver.resources import start

    start()
    check(cu.cuCtxSetLimit(0, STACK))
    programs = cache(lambda seed: Program.read(folder, seed))
    for line in sys.stdin:
        seed, pieces, level = map(int, line.split())
        print(json.dumps(_execute(programs(seed), pieces, level)), flush=True)


class Worker:
    """A process that runs programs, and another one when that has lost its context."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, seed: int, pieces: int, level: int = DEFAULT_LEVEL) -> Answer:
        """Run the first pieces of a program."""
        process = self._process or self._start()
        assert process.stdin
        assert process.stdout
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        try:
            process.stdin.write(f"{seed} {pieces} {level}\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        answer = json.loads(line) if line else {"code": "the process ended, or took too long"}
        if "code" in answer:
            self.close()
        return answer

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kernels.on_hardware", "--work", str(self._folder)],
            env={**os.environ, "CUDA_CACHE_DISABLE": "1"},
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._process

    def close(self) -> None:
        """End the process."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _is_right(answer: Answer) -> bool:
    return answer.get("differences") == []


def _wrong_piece(worker: Worker, program: Program, pieces: int) -> int:
    """Return a piece after which memory is wrong, though it is right before; 0 for the rest."""
    if not _is_right(worker.ask(program.seed, 0)):
        return 0
    right, wrong = 0, pieces
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if _is_right(worker.ask(program.seed, middle)):
            right = middle
        else:
            wrong = middle
    return wrong


def _trace(worker: Worker, program: Program, pieces: int) -> Answer:
    """Tell of a wrong result where it comes from."""
    wrong = _wrong_piece(worker, program, pieces)
    answer = worker.ask(program.seed, wrong)
    unoptimised = worker.ask(program.seed, wrong, level=0)
    found: Answer = {
        "piece": wrong,
        "lines": program.pieces[wrong - 1] if wrong else "the frame",
        "right without optimisation": _is_right(unoptimised),
    }
    if "differences" not in answer:
        last = producer(found["lines"], "")
        crashed = isinstance(answer.get("code"), str)  # the driver's compiler, if any
        return {**found, "answer": answer, "family": "no answer" if crashed else family(last)}
    differences = answer["differences"]
    if not differences:
        return {**found, "answer": "right when run again", "family": "not the same every time"}
    first = program.place(differences[0][0], differences[0][1])
    line = producer(found["lines"], first[1])
    found["producer"], found["family"] = line, family(line)
    found["differences"] = []
    for name, at, expected, got in differences[:SHOWN]:
        thread, what = program.place(name, at)
        operands = program.operands(line, thread, wrong - 1) if wrong and thread is not None else {}
        found["differences"].append(
            {"thread": thread, "what": what, "expected": expected, "found": got, "before": operands}
        )
    return found


def _examine(worker: Worker, folder: Path, seed: int) -> Answer:
    """Run one program, as far as the driver's compiler takes it."""
    program = Program.read(folder, seed)
    pieces = len(program.pieces)
    result: Answer = {"seed": seed, "refused": []}
    while True:
        answer = worker.ask(seed, pieces)
        if "refused" not in answer:
            break
        line, said = refused_line(program.part(pieces), answer["refused"])
        piece = program.piece_of(line)
        result["refused"].append({"family": family(line), "line": line, "log": said})
        if piece is None or piece >= pieces:
            return {**result, "pieces": 0}
        pieces = piece
    result.update(pieces=pieces, of=len(program.pieces))
    families = {family(line) for piece in program.pieces[:pieces] for line in piece.splitlines()}
    result["families"] = sorted(families - {""})
    if not _is_right(answer):
        result["difference"] = _trace(worker, program, pieces)
    return result


def _report(results: list[Answer], out: TextIO) -> int:
    """Say what was found; return how many programs are different."""
    equal: collections.Counter[str] = collections.Counter()
    different: collections.Counter[str] = collections.Counter()
    refused: collections.Counter[str] = collections.Counter()
    logs: dict[str, str] = {}
    for result in results:
        for refusal in result["refused"]:
            refused[refusal["family"]] += 1
            logs.setdefault(refusal["family"], f"{refusal['log']} | {refusal['line']}")
        if found := result.get("difference"):
            different[found["family"]] += 1
            print(
                f"seed {result['seed']}: piece {found['piece']}:\n{found['lines'].rstrip()}",
                file=out,
            )
            for key in ("producer", "right without optimisation", "answer"):
                if key in found:
                    print(f"    {key}: {found[key]}", file=out)
            for line in found.get("differences", []):
                print("    " + ", ".join(f"{key} {line[key]}" for key in line), file=out)
        elif result["pieces"]:
            equal.update(result["families"])
    whole = sum(not result["refused"] for result in results)
    run = sum(bool(result["pieces"]) for result in results)
    print(f"\n{'instruction':40}equal  different  refused", file=out)
    for name in sorted({*different, *refused}):
        print(f"{name:40}{equal[name]:5}{different[name]:11}{refused[name]:9}", file=out)
        if name in logs:
            print(f"    {logs[name]}", file=out)
    print(f"{len(equal)} instructions occur in programs that are equal", file=out)
    print(
        f"{len(results)} programs: {whole} taken whole, {run - whole} up to a refused instruction, "
        f"{len(results) - run} not at all; {different.total()} different",
        file=out,
    )
    return different.total()


def main() -> int:
    """Run all programs of a folder; say what is different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", action="store_true", help="be one of the processes")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 12))
    parser.add_argument("--json", type=Path, help="where all results go")
    given = parser.parse_args()
    if given.work:
        _work(given.folder)
        return 0
    workers: queue.Queue[Worker] = queue.Queue()
    for _ in range(given.processes):
        workers.put(Worker(given.folder))

    def examine(seed: int) -> Answer:
        worker = workers.get()
        try:
            return _examine(worker, given.folder, seed)
        finally:
            workers.put(worker)

    seeds = sorted(int(file.name.partition(".")[0]) for file in given.folder.glob("*.case*"))
    with concurrent.futures.ThreadPoolExecutor(given.processes) as pool:
        results = list(pool.map(examine, seeds))
    while not workers.empty():
        workers.get().close()
    if given.json:
        given.json.write_text(json.dumps(results))
    return min(_report(results, sys.stdout), 1)


if __name__ == "__main__":
    sys.exit(main())
