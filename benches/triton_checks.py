"""Time two kernels of Triton's on the simulated GPU: what each check costs.

The kernels are those of `examples/clients/triton`. Each mode is a process of its own; rounds of all
modes are interleaved, and the best round counts. Every result is compared before it is timed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
PROJECT = HERE.parents[1] / "examples" / "clients" / "triton"
ROUNDS = 7
ARCHS = ("sm_75", "sm_80")
MODES = ("off", "memory", "races")  # of GPULEND_SIM_CHECK; the last is the default
ROWS, COLUMNS, SIDE = 1024, 1000, 256


def main() -> None:
    workers = {(arch, mode): Worker(arch, mode) for arch in ARCHS for mode in MODES}
    best: dict[tuple[str, str, str], float] = {}
    for _ in range(ROUNDS):
        for (arch, mode), worker in workers.items():
            for job in ("softmax", "matmul"):
                row = (job, arch, mode)
                best[row] = min(best.get(row, 1e9), worker.ask(job))
    for job, words in (
        ("softmax", f"softmax of {ROWS} rows of {COLUMNS} floats"),
        ("matmul", f"product of halves, {SIDE}³, tiles of 32"),
    ):
        for arch in ARCHS:
            print(f"\n{words}, {arch}")
            for mode in MODES:
                seconds = best[job, arch, mode]
                ratio = seconds / best[job, arch, "off"]
                print(f"  checks {mode:<9} {seconds * 1e3:9.2f} ms {ratio:7.2f} x off")
    for worker in workers.values():
        worker.end()


class Worker:
    """A process that runs a job when asked."""

    def __init__(self, arch: str, mode: str):
        settings = {"GPULEND_SIM_ARCH": arch, "GPULEND_SIM_CHECK": mode}
        self._process = subprocess.Popen(
            [sys.executable, str(HERE), "work"],
            env={**os.environ, "GPULEND_DEVICE": "simulated", **settings},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, job: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(job + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()


def work() -> None:
    import gpulend.triton  # noqa: F401
    import torch

    sys.path.insert(0, str(PROJECT))
    from kernels import matmul, softmax

    x = torch.randn(ROWS, COLUMNS)
    a, b = torch.randn(2, SIDE, SIDE).half()
    torch.testing.assert_close(softmax(x), torch.softmax(x, dim=1))
    wanted = (a.double() @ b.double()).float()
    torch.testing.assert_close(matmul(a, b), wanted, atol=1e-3, rtol=0)
    jobs = {"softmax": lambda: softmax(x), "matmul": lambda: matmul(a, b)}
    for line in sys.stdin:
        job = jobs[line.strip()]
        started = time.perf_counter()
        job()
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    work() if sys.argv[1:] == ["work"] else main()
