"""Run all examples of this folder and print one row for each, beside what the recorded run says.

python examples/gallery.py
python examples/gallery.py --record examples/h200.json    on a machine with a GPU

Each example runs in a process of its own. One whose framework is not installed is `missing`; one
that wants a real GPU, where there is none, is `GPU-only`. Neither makes the exit status other
than 0; an example that fails does.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RECORD = HERE / "h200.json"
# Frameworks that find a GPU by themselves, and are shown the simulated one by `gpulend run`.
SHOWN = ("pycuda",)
# Frameworks that want more of a GPU than the simulated one has.
REAL_ONLY = ("cupy", "numba")
PATIENCE = 300  # seconds for one example
OK = "ok {id} (cuda:[0-9]+(?:-simulated)?) {framework} ([^ ]+)"
# What may matter for a recorded run, beside the frameworks that examples print themselves.
BESIDE = ("numpy", "numba-cuda", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc", "ml_dtypes")


@dataclass(frozen=True)
class Example:
    """A file whose name begins with its number and its framework."""

    file: Path

    @property
    def id(self) -> str:
        """Document and number in it."""
        return self.file.name.split("_")[0]

    @property
    def framework(self) -> str:
        """The module that the document is about."""
        return self.file.name.split("_")[1]

    @property
    def wish(self) -> str:
        """The first line of the file, without the number."""
        return self.file.read_text().splitlines()[0].removeprefix(f'"""{self.id}: ')


@dataclass(frozen=True)
class Outcome:
    """What became of one run: `ok`, `missing`, `GPU-only` or `failed`, and its text."""

    result: str
    detail: str = ""
    output: str = ""
    errors: str = ""


def find() -> list[Example]:
    """Return all examples in their order."""
    return [Example(file) for file in sorted(HERE.glob("[0-9][0-9][0-9]-[0-9]_*.py"))]


def command(example: Example, simulated: bool) -> list[str]:
    """Return the command that runs an example on the chosen kind of GPU."""
    plain = [sys.executable, str(example.file)]
    shown = simulated and example.framework in SHOWN
    return [sys.executable, "-m", "gpulend", "run", "--", *plain] if shown else plain


def environment(example: Example, simulated: bool) -> dict[str, str]:
    """Return the environment for an example: the kind of GPU is named, so nothing else is taken."""
    found = {**os.environ, "GPULEND_DEVICE": "simulated" if simulated else "cuda"}
    # TensorFlow's GPU build would take most of the GPU's memory at its first use.
    found.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    if example.framework == "pycuda":
        # PyCUDA has no wheels: scripts/pycuda builds it there.
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        built = ROOT / ".pycuda" / "lib" / version / "site-packages"
        found["PYTHONPATH"] = os.pathsep.join(
            filter(None, [found.get("PYTHONPATH"), str(built) if built.exists() else ""])
        )
    return found


def run(example: Example, simulated: bool) -> Outcome:
    """Run an example and look at the line that it must end with."""
    try:
        done = subprocess.run(
            command(example, simulated),
            env=environment(example, simulated),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome("failed", f"not done after {PATIENCE} seconds")
    # Errors of gpulend end with a note that names a command.
    lines = [line for line in done.stderr.splitlines() if not line.startswith("`gpulend explain")]
    told = ("\n".join(lines).strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    absent = re.fullmatch(r"ModuleNotFoundError: No module named '([^']+)'", told)
    if done.returncode and absent and absent[1].split(".")[0] != "gpulend":
        return Outcome("missing", absent[1].split(".")[0], done.stdout, done.stderr)
    if done.returncode and simulated and example.framework in REAL_ONLY:
        return Outcome("GPU-only", "", done.stdout, done.stderr)
    lines = done.stdout.splitlines()
    ending = OK.format(id=re.escape(example.id), framework=re.escape(example.framework))
    matched = re.fullmatch(ending, lines[-1] if lines else "")
    if done.returncode or not matched or matched[1].endswith("-simulated") != simulated:
        return Outcome("failed", told, done.stdout, done.stderr)
    return Outcome("ok", matched[2], done.stdout, done.stderr)


def is_simulated() -> bool:
    """Ask a process of its own which kind of GPU gpulend takes here."""
    question = "import gpulend; print(gpulend.empty(1).simulated)"
    done = subprocess.run(
        [sys.executable, "-c", question], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"gallery: no GPU, real or simulated:\n{done.stderr.strip()}")
    return done.stdout.strip() == "True"


def recorded(told: dict[str, Any], example: Example) -> str:
    """Say in few words what the recorded run of an example was."""
    found = told["examples"].get(example.id, {"result": "not run"})
    if found["result"] != "ok":
        return str(found["result"]).split(":")[0]
    return f"ok {found['output'][-1].split()[-1]}"


def show(simulated: bool) -> int:
    """Run all and print the table; return how many failed."""
    told = json.loads(RECORD.read_text())
    examples = find()
    width = max(len(example.wish) for example in examples)
    here = "here, simulated GPU" if simulated else "here, real GPU"
    print(f"{'':<5}  {'wish':<{width}}  {here:<19}  H200")
    count: dict[str, int] = {}
    failed = []
    for example in examples:
        outcome = run(example, simulated)
        count[outcome.result] = count.get(outcome.result, 0) + 1
        said = f"ok {outcome.detail}" if outcome.result == "ok" else outcome.result
        there = recorded(told, example)
        print(f"{example.id}  {example.wish:<{width}}  {said:<19}  {there}", flush=True)
        if outcome.result == "failed":
            failed.append(f"{example.file.name}:\n{outcome.output}{outcome.errors}")
    there = sum(found["result"] == "ok" for found in told["examples"].values())
    when = f", {told['date']}, commit {told['commit'][:12]}" if told["commit"] else ""
    counted = ", ".join(f"{number} {result}" for result, number in sorted(count.items()))
    print(f"{len(examples)} examples; here: {counted}; H200: {there} ok{when}")
    print("\n".join(failed), end="", file=sys.stderr)
    return len(failed)


def commit_of_tree() -> str:
    """Return the commit that is checked out, or end if that is not all that runs."""
    asked = [["git", "rev-parse", "HEAD"], ["git", "status", "--porcelain", "-uno"]]
    answers = [
        subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        for words in asked
    ]
    if any(answer.returncode for answer in answers):
        sys.exit("gallery: no git here that tells the commit; name it: --commit HASH")
    if answers[1].stdout:
        sys.exit(f"gallery: not what was committed; commit first:\n{answers[1].stdout}")
    return answers[0].stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of packages that examples use without printing them."""
    found = {}
    for name in BESIDE:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def entry(outcome: Outcome) -> dict[str, Any]:
    """Return what is recorded of one run."""
    if outcome.result == "missing":
        return {"result": f"not run: no module {outcome.detail}"}
    result = "ok" if outcome.result == "ok" else f"failed: {outcome.detail}"
    return {"result": result, "output": outcome.output.splitlines()}


def record(file: Path, commit: str | None) -> int:
    """Run all on a real GPU and write down what happened; return how many failed."""
    if is_simulated():
        sys.exit("gallery: a recorded run is one on a real GPU, and here is none")
    from gpulend import __version__, _native  # by now it is known that there is a real driver

    commit = commit or commit_of_tree()
    entries = {example.id: entry(run(example, simulated=False)) for example in find()}
    _, _, driver, devices = _native.describe_driver()
    whole = {
        "commit": commit,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "gpu": devices[0][0],
        "cuda": ".".join(map(str, driver)),
        "python": platform.python_version(),
        "gpulend": __version__,
        "versions": versions(),
        "examples": entries,
    }
    file.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    for name, told in entries.items():
        print(name, told["result"])
    return sum(told["result"].startswith("failed") for told in entries.values())


def main() -> int:
    """Show the gallery, or record it."""
    parser = argparse.ArgumentParser(description="Run all examples.")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write what a real GPU gives")
    parser.add_argument("--commit", help="what is recorded, where git cannot tell")
    options = parser.parse_args()
    if options.record:
        return min(1, record(options.record, options.commit))
    return min(1, show(is_simulated()))


if __name__ == "__main__":
    sys.exit(main())
