"""The command line: `gpulend doctor`, `gpulend demo` and `gpulend run`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence

from gpulend._native import __version__

# Options of `gpulend run` that become `GPULEND_SIM_*`.
SETTINGS = (
    *("devices", "memory", "seed", "check", "timeout", "sticky", "accept_nvvm"),
    *("faults", "report"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="gpulend", description="Share GPU memory between frameworks without copies."
    )
    parser.add_argument("--version", action="version", version=f"gpulend {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor", help="try every pair of installed frameworks, and show GPU and compiler"
    )
    doctor.add_argument("--json", action="store_true", help="print JSON instead of tables")
    doctor.add_argument("--html", metavar="FILE", help="write a page with the matrix into FILE")
    doctor.add_argument(
        "--only", metavar="NAMES", help="try only these frameworks, such as numpy,torch"
    )
    doctor.add_argument(
        "--limit",
        metavar="SECONDS",
        type=float,
        default=60.0,
        help="how long an import or a pair may take; default 60",
    )
    commands.add_parser("demo", help="the main job in under a minute, four mistakes, a kernel")
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
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Split by hand: argparse treats `--` differently in different releases of Python.
    cut = given.index("--") if given[:1] == ["run"] and "--" in given else len(given)
    chosen = parser.parse_args(given[:cut])
    if chosen.command == "run":
        program = chosen.program + (given[cut:] if chosen.program else given[cut + 1 :])
        return _run(run, chosen, program)
    # Imported on use: each pulls frameworks in, which takes seconds.
    if chosen.command == "demo":
        from gpulend.demo import demo

        return demo()
    return _doctor(doctor, chosen)


def _doctor(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> int:
    from gpulend.doctor import examine, page, render

    only = [name for name in (chosen.only or "").split(",") if name]
    try:
        report = examine(only, chosen.limit)
    except ValueError as error:
        parser.error(str(error))
    print(json.dumps(report.as_dict(), indent=2) if chosen.json else render(report))
    if chosen.html is not None:
        try:
            with open(chosen.html, "w", encoding="utf-8") as file:
                file.write(page(report))
        except OSError as error:
            parser.error(f"--html: {error}")
    return 0 if report.healthy else 1


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
