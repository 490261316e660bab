"""Programs of C11 and C++17 against the libraries as they are installed."""

from __future__ import annotations

import os
import re

import pytest
from conftest import CPP, HERE, REAL, C, build, compilers, link, link_static, need_tool, succeed

CALLS = os.environ.get("GPULEND_ATTACK_CALLS", "1000000")


@pytest.mark.parametrize("compiler", [C, CPP], ids=["C11", "C++17"])
@pytest.mark.parametrize("linked", [link, link_static], ids=["shared", "static"])
def test_every_function_does_its_job(compiler, linked, stage, tmp_path):
    """The tour calls each one, right and wrong, from both languages and both libraries."""
    program = build(compiler, tmp_path / "tour", [HERE / "tour.c"], *linked(stage))
    library = str(stage / "lib/gpulend/libgpulend_sim.so")
    said = succeed([program], GPULEND_SIM_LIBRARY=library)
    assert said.splitlines()[-1] == "done"


@pytest.mark.parametrize("compiler", [C, CPP], ids=["C11", "C++17"])
@pytest.mark.parametrize("linked", [link, link_static], ids=["shared", "static"])
def test_kernels_are_launched_and_mistakes_told(compiler, linked, stage, tmp_path):
    """Arguments, variables, templates, structs, timers, and on the simulated GPU a fault."""
    program = build(compiler, tmp_path / "kernels", [HERE / "kernels.c"], *linked(stage))
    library = str(stage / "lib/gpulend/libgpulend_sim.so")
    said = succeed([program, *compilers().arguments()], GPULEND_SIM_LIBRARY=library)
    assert said.splitlines()[-1] == "done"


def test_the_tour_leaves_no_function_out():
    """A function that is added to the header is added to the tour."""
    header = (HERE.parents[1] / "include/gpulend.h").read_text()
    functions = set(re.findall(r"^[\w ]+[ *](gpulend_\w+)\(", header, re.M))
    tour = "".join((HERE / name).read_text() for name in ("tour.c", "kernels.c", "check.h"))
    assert len(functions) > 60
    assert {name for name in functions if f"{name}(" not in tour} == set()


def test_handles_of_cpp_free_themselves(stage, tmp_path):
    """The wrapper frees once, also where something throws."""
    program = build(CPP, tmp_path / "handles", [HERE / "handles.cpp"], *link(stage))
    assert succeed([program, *compilers().arguments()]) == "done\n"


@pytest.mark.parametrize("linked", [link, link_static], ids=["shared", "static"])
@pytest.mark.parametrize("idle", ["50", "0"])
def test_what_is_freed_right_before_the_exit_is_deleted(linked, idle, stage, tmp_path):
    """The queue is drained while the driver works, also where nothing else makes work go on."""
    program = build(C, tmp_path / "exit", [HERE / "exit.c"], *linked(stage))
    library = str(stage / "lib/gpulend/libgpulend_sim.so")
    said = succeed([program], GPULEND_SIM_LIBRARY=library, GPULEND_SIM_IDLE=idle)
    assert said == "20 deleted\n"


@pytest.mark.skipif(REAL, reason="valgrind knows no GPU's driver")
@pytest.mark.parametrize(
    ("compiler", "source", "arguments"),
    [
        (C, "tour.c", []),
        (C, "kernels.c", compilers),
        (CPP, "handles.cpp", compilers),
        (C, "attack.c", ["40000"]),
        (C, "exit.c", []),
    ],
    ids=["tour", "kernels", "handles", "attack", "exit"],
)
def test_valgrind_finds_no_error_and_no_leak(compiler, source, arguments, stage, tmp_path):
    """Neither in the program nor in either library, nor in the code that kernels become."""
    need_tool("valgrind")
    hide = tmp_path / "hide.o"
    build(C, hide, [HERE / "hide.c"], "-c")
    program = build(compiler, tmp_path / "program", [HERE / source], str(hide), *link(stage))
    # What the simulated GPU holds at exit is reachable, some of it by inner pointers only.
    leaks = ["--leak-check=full", "--errors-for-leak-kinds=definite,indirect"]
    told = compilers().arguments() if arguments is compilers else arguments
    # Whether memory is mapped is asked of the kernel, which valgrind takes for an access.
    known = f"--suppressions={HERE.parents[1] / 'scripts/valgrind.supp'}"
    command = ["valgrind", "-q", "--error-exitcode=99", known, *leaks, program, *told]
    # Faults of kernels are the simulated GPU's own to find.
    check = "memory" if source == "kernels.c" else "off"
    succeed(command, GPULEND_SIM_MEMORY="64MiB", GPULEND_SIM_CHECK=check)


def test_attacks_on_handles_are_refused_with_words(stage, tmp_path):
    """A million calls of 16 threads, most of them wrong."""
    program = build(C, tmp_path / "attack", [HERE / "attack.c"], *link(stage))
    said = succeed([program, CALLS], GPULEND_SIM_CHECK="off")
    refused = int(re.match(r"(\d+) refused", said)[1])
    assert refused > int(CALLS) // 4
    assert int(re.search(r"(\d+) launched", said)[1]) > 0


@pytest.mark.skipif(REAL, reason="a real driver does not fail on demand")
def test_what_cannot_be_wrapped_is_not_deleted(stage, tmp_path):
    """Also where the last of the driver's calls is the one that fails."""
    program = build(C, tmp_path / "refused", [HERE / "refused.c"], *link(stage))
    assert succeed([program], GPULEND_SIM_FAULTS="cuEventRecord#1=UNKNOWN") == "done\n"


def test_a_forked_child_goes_on_with_the_hosts_memory(stage, tmp_path):
    """While other threads use handles; the GPU stays with the parent."""
    program = build(C, tmp_path / "fork", [HERE / "fork.c"], *link(stage))
    assert succeed([program]) == "done\n"


def test_the_manuals_program_runs(stage, tmp_path):
    """`docs/c.md` shows a whole one."""
    manual = (HERE.parents[1] / "docs/c.md").read_text()
    source = tmp_path / "manual.c"
    source.write_text(re.search(r"^```c\n(.*?)^```", manual, re.S | re.M)[1])
    succeed([build(C, tmp_path / "manual", [source], *link(stage))])


def test_the_headers_stand_alone(stage, tmp_path):
    """Each can be included first, and twice."""
    for compiler, header in [(C, "gpulend.h"), (CPP, "gpulend.h"), (CPP, "gpulend.hpp")]:
        source = tmp_path / "only.c"
        source.write_text(
            f"#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n"
        )
        build(compiler, tmp_path / "only", [source], *link(stage))


def test_the_cpp_wrapper_is_about_a_page():
    """It is read in one sitting."""
    lines = (HERE.parents[1] / "include/gpulend.hpp").read_text().splitlines()
    assert len(lines) < 230
