"""The comparison of random programs: it finds what is planted, and the piece that makes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .cases import MARK, Program, family, producer
from .on_hardware import Worker

HEAD = """.version 7.8
.target sm_75
.address_size 64
.visible .entry kernel(.param .u64 input, .param .u64 output, .param .u64 work,
    .param .u64 counters, .param .u8 small, .param .f64 real)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<2>;
    ld.param.u64 %d0, [output];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d1, %r0, 16;
    add.u64 %d0, %d0, %d1;
    mov.u32 %r1, 5;
"""
TAIL = """    st.global.b32 [%d0], %r0;
    st.global.b32 [%d0+8], %r1;
    ret;
}
"""


def word(*registers: int) -> str:
    """Return a thread's two registers as the output holds them."""
    return "".join(register.to_bytes(4, "little").hex() + "cdcdcdcd" for register in registers)


def described(*pieces: tuple[str, str]) -> str:
    """Return a program of two threads, with what each of its pieces is said to change."""
    lines = ["seed 7", "grid 1 1 1", "block 2 1 1", "shared 0", "registers %r0 %r1"]
    lines += [f"buffer {name} {'00' * 8}" for name in ("input", "work", "counters")]
    lines += [f"first {name} {'00' * 8}" for name in ("input", "work", "counters")]
    lines.insert(6, f"buffer output {'cd' * 32}")
    lines.append(f"first output {word(0, 5, 1, 5)}")
    lines += [f"piece {changes}" for _, changes in pieces]
    text = MARK.join([HEAD, *(f"    {code}\n" for code, _ in pieces), TAIL])
    return "\n".join([*lines, "text", text])


ADD = ("add.u32 %r1, %r1, %r0;", f"output+24={word(6)}")
DOUBLE = ("shl.b32 %r0, %r0, 1;", f"output+16={word(2)}")
WRONG = ("mul.lo.u32 %r1, %r1, %r1;", f"output+8={word(25)} output+24={word(37)}")  # it is 36
NONE = ("frobnicate.u32 %r1, %r0;", "")
TRAP = ("trap;", "")


def compare(folder: Path, *pieces: tuple[str, str]) -> tuple[dict, str, int]:
    """Run the comparison for one program; return its result, what is printed, and the code."""
    (folder / "7.case").write_text(described(*pieces))
    options = [str(folder), "--processes", "1", "--json", str(folder / "results")]
    ran = subprocess.run(
        [sys.executable, "-m", "kernels.on_hardware", *options],
        env={**os.environ, "GPULEND_SIM_STICKY": "1"},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    (result,) = json.loads((folder / "results").read_text())
    return result, ran.stdout, ran.returncode


def test_a_program_that_is_right(tmp_path: Path) -> None:
    """With all its instructions."""
    result, said, code = compare(tmp_path, ADD, DOUBLE)
    assert (code, result["pieces"], result["refused"]) == (0, 2, [])
    assert result["families"] == ["add.u32", "shl.b32"]
    assert "1 programs: 1 taken whole" in said


def test_a_difference_is_traced(tmp_path: Path) -> None:
    """To the piece, the thread and the register, with what the operands held."""
    result, said, code = compare(tmp_path, ADD, WRONG, DOUBLE)
    found = result["difference"]
    assert (code, found["piece"], found["family"]) == (1, 2, "mul.lo.u32")
    assert found["producer"] == WRONG[0]
    (difference,) = found["differences"]
    assert (difference["thread"], difference["what"]) == (1, "%r1")
    assert (difference["expected"], difference["found"]) == ("cdcdcdcd00000025", "cdcdcdcd00000024")
    assert int(difference["before"]["%r1"][8:], 16) == 6
    assert "1 different" in said


@pytest.mark.parametrize("after", [WRONG, DOUBLE])
def test_a_refused_instruction_does_not_take_what_is_before_it(
    tmp_path: Path, after: tuple[str, str]
) -> None:
    """What is after it, it does."""
    result, said, code = compare(tmp_path, ADD, NONE, after)
    assert (code, result["pieces"], result["of"]) == (0, 1, 3)
    assert [refusal["line"] for refusal in result["refused"]] == [NONE[0]]
    assert result["families"] == ["add.u32"]
    assert "1 up to a refused instruction" in said


def test_a_launch_that_fails_is_traced_too(tmp_path: Path) -> None:
    """In processes of their own: it takes the context with it."""
    result, _, code = compare(tmp_path, ADD, DOUBLE, TRAP, ADD)
    found = result["difference"]
    assert (code, found["piece"], found["family"]) == (1, 3, "trap")
    assert found["answer"] == {"code": 719}


def test_a_process_that_ends_is_replaced(tmp_path: Path) -> None:
    """As where the driver's compiler crashes."""
    (tmp_path / "7.case").write_text(described(ADD))
    worker = Worker(tmp_path)
    assert worker.ask(7, 1) == {"differences": []}
    assert worker._process is not None
    worker._process.kill()
    worker._process.wait()
    assert isinstance(worker.ask(7, 1)["code"], str)
    assert worker.ask(7, 1) == {"differences": []}
    worker.close()


def test_lines_are_understood(tmp_path: Path) -> None:
    """Guards, vectors, labels and what stores."""
    assert family("    @!%p0 add.cc.u32 %r0, %r1, %r2;") == "add.cc.u32"
    assert [family(line) for line in ("{", "L1:", ".param .b32 n;", "")] == [""] * 4
    lines = "ld.v2.u32 {%r0, %r1}, [%d0];\nadd.u32 %r2, %r1, %r0;\nst.global.u32 [%d0], %r1;"
    assert producer(lines, "%r1").startswith("ld.v2")
    assert producer(lines, "%r2").startswith("add")
    assert producer(lines, "work+8").startswith("st.global")
    (tmp_path / "7.case").write_text(described(ADD, DOUBLE))
    program = Program.read(tmp_path, 7)
    assert program.expected(2)["output"].hex() == word(0, 5, 2, 6)
    assert program.place("output", 24) == (1, "%r1")
