"""The process in which frameworks are imported and pairs tried: whatever it does, the doctor lives.

What it finds goes out as lines of JSON, each at once, so that a crash leaves what was found before
it, and what it happened in.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulend.adapters import Framework

Say = Callable[[dict[str, Any]], None]


def main() -> None:
    """Do what the one argument says, as JSON; the parent gives its own search path."""
    # Frameworks print what they like; the lines go where standard output led before.
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    order = json.loads(sys.argv[1])
    JOBS[order["job"]](say, **order["with"])
    lines.close()
    # What frameworks do as they are taken down is not examined here.
    os._exit(0)


def _driver(say: Say) -> None:
    import gpulend
    from gpulend import _native
    from gpulend.doctor.trial import check_driver

    try:
        kind, library, (major, minor), devices = _native.describe_driver()
    except gpulend.Error as error:
        say({"kind": None, "problem": str(error)})
        return
    gpus = [
        {
            "device": f"cuda:{index}",
            "name": name,
            "memory": memory,
            "compute_capability": "{}.{}".format(*capability),
            "simulated": kind == "simulated",
        }
        for index, (name, memory, capability) in enumerate(devices)
    ]
    found = {"kind": kind, "library": library, "cuda": f"{major}.{minor}", "gpus": gpus}
    # Said before it is used: a driver may end the process.
    say(found | {"problem": "the driver ended the process at its first use"})
    say(found | {"problem": check_driver()})


def _quick(say: Say) -> None:
    """Name driver and NVRTC; the driver is asked, and not tried."""
    import gpulend
    from gpulend import _native
    from gpulend.doctor.machine import nvrtc

    try:
        kind, library, (major, minor), devices = _native.describe_driver()
    except gpulend.Error as error:
        say({"problem": str(error)})
    else:
        gpus = [
            f"{name}, {memory / 2**30:.1f} GiB, compute capability {one}.{two}"
            for name, memory, (one, two) in devices
        ]
        say({"kind": kind, "library": library, "cuda": f"{major}.{minor}", "gpus": gpus})
    say(nvrtc())


def _compiler(say: Say) -> None:
    import gpulend
    from gpulend import compiler
    from gpulend.doctor.machine import nvrtc

    clang: dict[str, str | None] = dict.fromkeys(("clang", "clang_version", "clang_problem"))
    try:
        clang["clang"], identity = compiler.find()
        # Before it stand path, size and date, which distinguish compilers of one release.
        clang["clang_version"] = identity[identity.find("clang version") :]
    except gpulend.Error as error:
        clang["clang_problem"] = str(error)
    say(clang | nvrtc())


def _framework(say: Say, name: str, simulated: bool, registered: list[dict[str, Any]]) -> None:
    from gpulend.doctor import subjects
    from gpulend.doctor.report import first_line

    subjects.register(registered)
    framework = subjects.known()[name]
    _show_simulated(simulated)
    begin = time.perf_counter()
    try:
        module = importlib.import_module(framework.module)
    except BaseException as error:
        # A broken installation may raise anything, also SystemExit.
        say({"version": None, "problem": first_line(error)})
        return
    seconds = time.perf_counter() - begin
    version = _version(framework.module, framework.install, module)
    found = {"version": version, "problem": None, "import_seconds": round(seconds, 3)}
    say(found)
    try:
        framework.load()
    except ImportError:
        # An optional part of the framework may be missing; the pairs say what.
        return
    except (Exception, SystemExit) as error:
        say({"version": None, "problem": f"its adapter: {first_line(error)}"})
        return
    route = _route(framework)
    if route is not None:
        say(found | {"route": route})


def _route(framework: Framework) -> str | None:
    """Say how arrays come in that the native half reads if their framework's release passes."""
    from gpulend import _native
    from gpulend.doctor.subjects import SHAPE, TYPE

    try:
        adapter = framework.load()
        proved = any(producer.native == "torch" for producer in adapter.producers)
        if not proved or adapter.probe is None or adapter.probe.host is None:
            return None
        return _native.route(adapter.probe.host(SHAPE, TYPE))
    except Exception:
        # The pairs say why.
        return None


def _version(module: str, distribution: str, imported: Any) -> str:
    names = importlib.metadata.packages_distributions().get(module.partition(".")[0], [])
    wanted = distribution.partition("[")[0]
    for name in (wanted, *names):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return str(getattr(imported, "__version__", "unknown"))


def _pairs(
    say: Say, pairs: list[tuple[str, str]], simulated: bool, registered: list[dict[str, Any]]
) -> None:
    _show_simulated(simulated)
    from gpulend.doctor import subjects
    from gpulend.doctor.trial import Trials

    subjects.register(registered)
    trials = Trials()
    for producer, consumer in pairs:
        say({"begin": [producer, consumer]})
        say({"pair": asdict(trials.run_named(producer, consumer))})


def _way(
    say: Say, function: str, argument: str, simulated: bool, registered: list[dict[str, Any]]
) -> None:
    """Try one way to another process."""
    _show_simulated(simulated)
    from gpulend.doctor import subjects
    from gpulend.doctor.report import first_line
    from gpulend.doctor.trial import NoArray
    from gpulend.doctor.ways import WAYS

    subjects.register(registered)
    try:
        say(WAYS[function](argument))
    except NoArray as error:
        say({"status": "no array", "problem": str(error)})
    except Exception as error:
        say({"status": "failed", "problem": first_line(error)})


def _show_simulated(simulated: bool) -> None:
    """Let frameworks that load a driver find the simulated one, where gpulend uses it."""
    if simulated:
        import gpulend

        gpulend.simulate(expose=True)
    # JAX would take most of a GPU's memory for itself at its first use, and TensorFlow as well.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


JOBS: dict[str, Callable[..., None]] = {
    "compiler": _compiler,
    "driver": _driver,
    "framework": _framework,
    "pairs": _pairs,
    "quick": _quick,
    "way": _way,
}
