"""The command line: `gpulend doctor`, `demo`, `bench`, `run`, `build`, `explain`, `cache`, …"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn

from gpulend._native import __version__
from gpulend._suggestions import did_you_mean
from gpulend._terminal import Colours

# Options of `gpulend run` that become `GPULEND_SIM_*`.
SETTINGS = (
    *("devices", "memory", "seed", "check", "arch", "timeout", "sticky", "accept_nvvm"),
    *("faults", "report"),
)


class Parser(argparse.ArgumentParser):
    """Reads words, and suggests what a mistyped one may have meant."""

    def refuse(self, words: Sequence[str], known: Iterable[str], what: str) -> NoReturn:
        """End with an error about words that are not known."""
        self.error(f"{what} {' '.join(words)}{did_you_mean(words[0].partition('=')[0], known)}")


def build() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser, and that of each command by its name."""
    parser = Parser(
        prog="gpulend", description="Share GPU memory between frameworks without copies."
    )
    parser.add_argument("--version", action="version", version=f"gpulend {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_doctor(commands)
    commands.add_parser("demo", help="the main job in under a minute, four mistakes, a kernel")
    bench = commands.add_parser(
        "bench", help="copy a large array to the GPU and back, and show how fast"
    )
    bench.add_argument(
        "--size", metavar="MIB", type=int, default=512, help="its mebibytes; default 512"
    )
    _add_run(commands)
    build = commands.add_parser(
        "build",
        help="compile and link a CUDA program by clang, for the simulated GPU and for real ones",
        usage="gpulend build [options] FILE...",
        description="Compile .cu, .cpp, .c and .o files to a program, with nvcc's options.",
    )
    build.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    explain = commands.add_parser(
        "explain", help="what an error code means, why it is raised, and how to mend it"
    )
    explain.add_argument(
        "what", metavar="CODE", nargs="?", help="such as 821 or SignatureError; default: all"
    )
    cache = commands.add_parser("cache", help="show or clear what was compiled before")
    cache.add_argument(
        "action",
        nargs="?",
        choices=("where", "size", "clear"),
        help="the folder alone, the bytes alone, or remove all entries; default: show both",
    )
    completion = commands.add_parser(
        "completion",
        help="print what makes a shell complete gpulend's words",
        epilog='bash: eval "$(gpulend completion bash)"; zsh: the same with zsh; '
        "fish: gpulend completion fish | source",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser, commands.choices


def _add_doctor(commands: argparse._SubParsersAction[Parser]) -> None:
    doctor = commands.add_parser(
        "doctor", help="try every pair of installed frameworks, and show GPU and compiler"
    )
    doctor.add_argument(
        "--quick",
        action="store_true",
        help="only list driver, GPUs, compilers, packages and variables, to paste into a report",
    )
    doctor.add_argument(
        "--processes",
        action="store_true",
        help="try each way to another process instead: every framework's memory, "
        "multiprocessing, Ray, Dask, NIXL",
    )
    doctor.add_argument("--json", action="store_true", help="print JSON instead of tables")
    doctor.add_argument("--html", metavar="FILE", help="write a page with the matrix into FILE")
    doctor.add_argument(
        "--only",
        metavar="NAMES",
        help="try only these frameworks, such as numpy,torch; of --processes also host,spawn,ray,…",
    )
    doctor.add_argument(
        "--limit",
        metavar="SECONDS",
        type=float,
        default=60.0,
        help="how long an import or a pair may take; default 60",
    )


def _add_run(commands: argparse._SubParsersAction[Parser]) -> None:
    run = commands.add_parser(
        "run",
        help="run a program on the simulated GPU",
        usage="gpulend run [options] -- CMD [ARGS]",
        description="Run CMD with the simulated GPU as its CUDA driver, also where a real one is.",
    )
    run.add_argument("--devices", metavar="N", help="number of devices, 1 to 8")
    run.add_argument("--memory", metavar="SIZE", help="memory of each device, such as 1GiB")
    run.add_argument("--seed", metavar="N", help="seed for the order of queued work")
    run.add_argument(
        "--check",
        metavar="HOW",
        help="which mistakes to find: off; memory: wrong accesses of calls and kernels; "
        "races, the default: also races of kernels on shared memory",
    )
    run.add_argument("--arch", metavar="NAME", help="the processor: sm_75, the default, or sm_80")
    run.add_argument("--timeout", metavar="SECONDS", help="how long a kernel may take; 0: no limit")
    run.add_argument(
        "--sticky",
        action="store_const",
        const="1",
        help="a kernel's mistake stays with its context, as on hardware",
    )
    run.add_argument(
        "--accept-nvvm",
        action="store_const",
        const="1",
        help="accept PTX of NVIDIA's compilers, if their licence allows you to",
    )
    run.add_argument(
        "--faults", metavar="RULES", help="errors to inject, such as cuMemAlloc#3=OUT_OF_MEMORY"
    )
    run.add_argument(
        "--report", metavar="PATH", help="file for the report at exit; -: a summary on stderr"
    )
    run.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser, commands = build()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and not given[0].startswith("-") and given[0] not in commands:
        parser.refuse(given[:1], commands, "there is no command")
    if given[:1] == ["build"] and given[1:] not in ([], ["-h"], ["--help"]):
        from gpulend.build import main as build_program

        return build_program(given[1:])
    # Split by hand: argparse treats `--` differently in different releases of Python.
    cut = given.index("--") if given[:1] == ["run"] and "--" in given else len(given)
    chosen, unknown = parser.parse_known_args(given[:cut])
    command = commands[chosen.command]
    if unknown:
        command.refuse(unknown, command._option_string_actions, "there is no option")
    if chosen.command == "run":
        if chosen.program and chosen.program[0].startswith("-"):
            command.refuse(chosen.program[:1], command._option_string_actions, "there is no option")
        program = chosen.program + (given[cut:] if chosen.program else given[cut + 1 :])
        return _run(command, chosen, program)
    try:
        return _do(parser, command, chosen)
    except BrokenPipeError:
        # Whoever read has seen enough, as `head` does; Python must not flush again at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _do(parser: Parser, command: Parser, chosen: argparse.Namespace) -> int:
    # Imported on use: some pull frameworks in, which takes seconds.
    if chosen.command == "demo":
        from gpulend.demo import demo

        return demo()
    if chosen.command == "bench":
        from gpulend._bench import bench

        if chosen.size < 1:
            command.error(f"--size {chosen.size}: an array has at least 1 MiB")
        return bench(chosen.size)
    if chosen.command == "explain":
        return _explain(command, chosen)
    if chosen.command == "build":
        command.error("no source; name a .cu file")
    if chosen.command == "cache":
        from gpulend._cache import show

        return show(chosen.action)
    if chosen.command == "completion":
        from gpulend._completion import script

        print(script(chosen.shell, parser), end="")
        return 0
    return _doctor(command, chosen)


def _explain(parser: Parser, chosen: argparse.Namespace) -> int:
    from gpulend import explain

    if chosen.what is None:
        print("\n".join(explain.in_short(one) for one in explain.explanations().values()))
        return 0
    try:
        found = explain.find(chosen.what)
    except LookupError as error:
        parser.error(error.args[0])
    if len(found) > 1:
        print("\n".join(explain.in_short(one) for one in found))
        return 0
    head, _, rest = explain.in_full(
        found[0], min(100, shutil.get_terminal_size().columns)
    ).partition("\n")
    print(f"{Colours(sys.stdout).bold(head)}\n{rest}")
    return 0


def _doctor(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> int:
    if chosen.quick:
        from gpulend.doctor.quick import look, text

        found = look()
        print(json.dumps(found, indent=2) if chosen.json else text(found))
        return 0
    from gpulend.doctor import coloured, examine, page, processes, render

    report: Any
    only = [name for name in (chosen.only or "").split(",") if name]
    if chosen.processes and chosen.html is not None:
        parser.error("--html: there is no page of --processes; --json is for programs")
    try:
        # Plug-ins print what they like as they are imported; the report alone is the output.
        with _output_to_errors():
            report = (processes.examine if chosen.processes else examine)(only, chosen.limit)
    except ValueError as error:
        parser.error(str(error))
    print(
        json.dumps(report.as_dict(), indent=2)
        if chosen.json
        else coloured(
            (processes.render if chosen.processes else render)(report), Colours(sys.stdout)
        )
    )
    if chosen.html is not None:
        try:
            with open(chosen.html, "w", encoding="utf-8") as file:
                file.write(page(report))
        except OSError as error:
            parser.error(f"--html: {error}")
    return 0 if report.healthy else 1


@contextmanager
def _output_to_errors() -> Iterator[None]:
    """Have what is printed go to stderr, also from code that is not Python's."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _run(parser: argparse.ArgumentParser, chosen: argparse.Namespace, program: list[str]) -> int:
    from gpulend.run import run

    if not program:
        parser.error("no command; write it after --")
    settings = {name: getattr(chosen, name) for name in SETTINGS}
    if chosen.report not in (None, "-"):
        # The program may change the current folder before it ends.
        settings["report"] = os.path.abspath(chosen.report)
    return run(program, settings)


if __name__ == "__main__":
    sys.exit(main())
