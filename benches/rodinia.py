"""Time programs of Rodinia on the simulated GPU beside their OpenCL versions on PoCL.

    python benches/rodinia.py CHECKOUT [--opencl PREFIX] [--only NAMES] [--runs 3]

CHECKOUT is a clone of Rodinia whose OpenCL versions choose a device by number, such as
github.com/yuhc/gpu-rodinia. PREFIX is where OpenCL's headers and library are, `/usr` as a rule.
It is for Debian on x86-64, with its packages ocl-icd-opencl-dev and libpocl2.

Both versions get the same work, and a row is the time of the whole process: compiling kernels,
copies and the host's part are in it. PoCL keeps compiled kernels from run to run; its first run is
not counted. The simulated GPU compiles them each time. Contestants take turns, and the best run
counts. A program that prints an error has no time, whatever its exit status. The kernels are
Rodinia's own: some differ between the two languages, in block sizes too.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

GPULEND = [sys.executable, "-m", "gpulend"]
LIMIT = 300
# The programs ask for a GPU, and PoCL offers a processor.
ANY_DEVICE = """#include <CL/cl.h>
#undef CL_DEVICE_TYPE_GPU
#define CL_DEVICE_TYPE_GPU CL_DEVICE_TYPE_ALL
"""
# What the programs print where a call failed, mostly with an exit status of 0.
MISTAKE = re.compile(
    r"^.*(?:\b(?:errors?|exception|fail(?:ed|ure)?)\b|\bCL_(?:INVALID|OUT_OF|BUILD)_\w+).*$",
    re.I | re.M,
)
OLD_C = ["-Wno-implicit-int", "-Wno-implicit-function-declaration", "-Wno-int-conversion"]


@dataclass
class Program:
    """One program in both languages: sources, other words of the build, and its work."""

    name: str
    cuda: list[str]
    opencl: list[str]
    work: list[str]
    opencl_work: list[str] = field(default_factory=list)
    folder: str = ""
    opencl_folder: str = ""
    compiler: str = "g++ -std=gnu++14 -fpermissive"

    @property
    def cuda_folder(self) -> str:
        """Return the folder of the sources in CUDA C."""
        return self.folder or self.name

    @property
    def its_opencl_folder(self) -> str:
        """Return the folder of the sources in OpenCL."""
        return self.opencl_folder or self.name


TIMING = "../util/timing.c"
PROGRAMS = [
    Program(
        "backprop",
        ["backprop.c", "facetrain.c", "imagenet.c", "backprop_cuda.cu", *OLD_C],
        ["backprop_ocl.cpp", TIMING, "-xc++", "backprop.c", "imagenet.c", "facetrain.c"],
        ["524288"],
        ["-n", "524288"],
    ),
    Program("bfs", ["bfs.cu"], ["bfs.cpp", "timer.cc", TIMING], ["graph.txt"]),
    Program(
        "gaussian",
        ["gaussian.cu"],
        ["clutils.cpp", "gaussianElim.cpp", "utils.cpp", TIMING],
        ["-s", "1024", "-q"],
    ),
    Program(
        "hotspot",
        ["hotspot.cu"],
        ["OpenCL_helper_library.c", "hotspot.c", TIMING],
        ["1024", "2", "100", "heat.txt", "power.txt", "out.txt"],
    ),
    Program(
        "lavaMD",
        [
            *("-I.", "main.c", "kernel/kernel_gpu_cuda_wrapper.cu", "util/num/num.c"),
            *("util/timer/timer.c", "util/device/device.cu"),
        ],
        [
            *("main.c", "kernel/kernel_gpu_opencl_wrapper.c", "util/num/num.c", TIMING),
            *("util/timer/timer.c", "util/opencl/opencl.c"),
        ],
        ["-boxes1d", "8"],
        compiler="gcc -std=gnu89",
    ),
    Program(
        "lud",
        ["-I../common", "lud.cu", "lud_kernel.cu", "../common/common.c"],
        ["-I../common", "-I../../util", "lud.cpp", "../common/common.c", "../../util/timing.c"],
        ["-s", "1024"],
        folder="lud/cuda",
        opencl_folder="lud/ocl",
    ),
    Program("nw", ["needle.cu"], ["nw.c", TIMING], ["4096", "10"], ["4096", "10", "./nw.cl"]),
    Program(
        "pathfinder",
        ["pathfinder.cu"],
        ["main.cpp", "OpenCL.cpp", TIMING],
        ["100000", "100", "20"],
        ["-c", "100000", "-r", "100", "-h", "20"],
    ),
]


def write_inputs(folder: Path) -> None:
    """Write a random graph and a chip's temperatures and powers."""
    numbers = random.Random(1)
    nodes, edges = 1 << 20, 6
    with (folder / "graph.txt").open("w") as file:
        file.write(f"{nodes}\n")
        file.writelines(f"{edges * node} {edges}\n" for node in range(nodes))
        file.write(f"0\n{edges * nodes}\n")
        file.writelines(f"{numbers.randrange(nodes)} 1\n" for _ in range(edges * nodes))
    for name, low, high in (("heat.txt", 320.0, 340.0), ("power.txt", 0.0, 0.01)):
        lines = (f"{numbers.uniform(low, high):.6f}\n" for _ in range(1024 * 1024))
        (folder / name).write_text("".join(lines))


def build(words: list[str], folder: Path) -> None:
    """Run a compiler, and say what it said if it failed."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\nin {folder}:\n{done.stderr[-2000:]}")


def seconds(words: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Run a program; return how long it took, or raise what it said of a mistake."""
    start = time.monotonic()
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LIMIT,
        check=False,
    )
    taken = time.monotonic() - start
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise RuntimeError(f"exit status {done.returncode}: {' '.join(last)}")
    if found := MISTAKE.search(done.stdout + done.stderr):
        raise RuntimeError(f"it says: {found[0].strip()[:200]}")
    return taken


def contestants(program: Program, root: Path) -> dict[str, tuple[list[str], Path]]:
    """Return the commands of a program, and where each runs."""
    cuda, opencl = root / "cuda" / program.cuda_folder, root / "opencl" / program.its_opencl_folder
    for folder in (cuda, opencl):
        for name in ("graph.txt", "heat.txt", "power.txt"):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(root / name)
    # lud looks for its kernels one folder up from its sources.
    place = opencl.parent if program.its_opencl_folder.count("/") else opencl
    binary = str(root / f"{program.name}-cuda")

    def simulated(check: str, *before: str) -> tuple[list[str], Path]:
        return [*before, *GPULEND, "run", "--check", check, "--", binary, *program.work], cuda

    work = program.opencl_work or program.work
    return {
        "PoCL": ([str(root / f"{program.name}-opencl"), *work, "-p", "0", "-d", "0"], place),
        "off": simulated("off"),
        "off, one core": simulated("off", "taskset", "-c", "0"),
        "memory": simulated("memory"),
        "races": simulated("races"),
    }


def main() -> int:
    """Build and time the programs that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a clone of Rodinia")
    parser.add_argument(
        "--opencl", type=Path, default=Path("/usr"), help="where CL/cl.h's include is"
    )
    parser.add_argument("--only", default="", help="programs, with commas between them")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    asked = {name for name in options.only.split(",") if name}
    with tempfile.TemporaryDirectory(prefix="rodinia-") as place:
        root = Path(place)
        for language in ("cuda", "opencl"):
            unused = shutil.ignore_patterns("*.tar", "*.gz", "*.o")
            shutil.copytree(options.checkout / language, root / language, ignore=unused)
        (root / "any_device.h").write_text(ANY_DEVICE)
        write_inputs(root)
        libraries = options.opencl / "lib/x86_64-linux-gnu"
        (root / "vendors").mkdir()
        (root / "vendors/pocl.icd").write_text("libpocl.so.2\n")
        paths = filter(None, (str(libraries), os.environ.get("LD_LIBRARY_PATH")))
        of_pocl = {"LD_LIBRARY_PATH": ":".join(paths), "OCL_ICD_VENDORS": str(root / "vendors")}
        print(f"{'seconds':12} {'PoCL':>8} {'off':>8} {'one core':>9} {'memory':>8} {'races':>8}")
        for program in PROGRAMS:
            if asked and program.name not in asked:
                continue
            output = ["-o", str(root / f"{program.name}-cuda")]
            build(
                [*GPULEND, "build", "-O2", "-w", *program.cuda, *output],
                root / "cuda" / program.cuda_folder,
            )
            build(
                [
                    *program.compiler.split(),
                    *("-O3", "-w", "-DTIMING", "-DCL_TARGET_OPENCL_VERSION=120", "-fopenmp"),
                    *("-include", str(root / "any_device.h"), "-I../util"),
                    f"-I{options.opencl / 'include'}",
                    *program.opencl,
                    *("-o", str(root / f"{program.name}-opencl")),
                    *(f"-L{libraries}", "-lOpenCL", "-lm"),
                ],
                root / "opencl" / program.its_opencl_folder,
            )
            commands = contestants(program, root)
            best = dict.fromkeys(commands, float("inf"))
            wrong: dict[str, str] = {}
            for turn in range(options.runs + 1):
                for name, (words, folder) in commands.items():
                    if name in wrong or (turn == 0 and name != "PoCL"):
                        continue
                    more = of_pocl if name == "PoCL" else {}
                    try:
                        taken = seconds(words, folder, {**os.environ, **more})
                    except (RuntimeError, subprocess.TimeoutExpired) as error:
                        wrong[name] = str(error)
                        continue
                    if turn:
                        best[name] = min(best[name], taken)
            cells = [
                f"{'-' if name in wrong else format(best[name], '.2f'):>{width}}"
                for name, width in zip(best, (8, 8, 9, 8, 8), strict=True)
            ]
            print(f"{program.name:12} {' '.join(cells)}", flush=True)
            for name, text in wrong.items():
                print(f"    {name}: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
