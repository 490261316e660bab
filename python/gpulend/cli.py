"""The command line: `gpulend doctor` and `gpulend demo`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from gpulend._native import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="gpulend", description="Lend memory between frameworks: no copies, checked pointers."
    )
    parser.add_argument("--version", action="version", version=f"gpulend {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor", help="what is here, and which pairs of frameworks exchange how, proved now"
    )
    doctor.add_argument("--json", action="store_true", help="print JSON instead of tables")
    commands.add_parser("demo", help="the main job in under a minute, then four mistakes")
    chosen = parser.parse_args(arguments)
    # Imported on use: each pulls frameworks in, which takes seconds.
    if chosen.command == "demo":
        from gpulend.demo import demo

        return demo()
    from gpulend.doctor import examine, render

    report = examine()
    print(json.dumps(report.as_dict(), indent=2) if chosen.json else render(report))
    return 0 if report.healthy else 1


if __name__ == "__main__":
    sys.exit(main())
