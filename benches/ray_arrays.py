"""Time arrays between two actors of Ray: by gpulend's transports, and by Ray's own for CUDA.

One actor returns one array, or 170, by a tensor transport; another takes them and answers; the time
is from the first call to the answer. "leases" are gpulend's, "tensors" are torch's by the transport
`gpulend-torch`, "Ray" are torch's by `cuda_ipc`, and "no array" is the two calls alone. Cold: the
receiver has nothing of that memory open. Kept: it still has an array of the same allocation. On a
machine without a GPU the simulated one runs without checks, and leases alone are sent.
"""

from __future__ import annotations

import os
import time
import warnings
from statistics import median
from typing import Any

os.environ.setdefault("GPULEND_SIM_CHECK", "off")

import gpulend
import gpulend.ray
import ray
import record

# Ray wants to know a transport before it sees a method that uses it.
gpulend.ray.carry("torch")
ROUNDS, WARM = 60, 10
MANY = 170
ELEMENTS = 1 << 18  # 1 MiB of float32


class Source:
    """Sends slices of one allocation."""

    def __init__(self, torch_too: bool) -> None:
        self.block = gpulend.zeros((MANY, ELEMENTS), "float32", shared=True)
        gpulend.synchronize()
        if torch_too:
            import torch

            gpulend.ray.carry("torch")
            self.tensors = torch.zeros((MANY, ELEMENTS), device="cuda")
            torch.cuda.synchronize()

    def nothing(self, count: int) -> list[int]:
        """Send as many numbers."""
        return list(range(count))

    @ray.method(tensor_transport="gpulend")
    def leases(self, count: int) -> list[Any]:
        """Send leases."""
        return [self.block[index] for index in range(count)]

    @ray.method(tensor_transport="gpulend-torch")
    def tensors_of_ours(self, count: int) -> list[Any]:
        """Send tensors by gpulend's transport."""
        return [self.tensors[index] for index in range(count)]

    @ray.method(tensor_transport="cuda_ipc")
    def tensors_of_rays(self, count: int) -> list[Any]:
        """Send tensors by Ray's transport."""
        return [self.tensors[index] for index in range(count)]


class Sink:
    """Receives arrays, and perhaps keeps the first."""

    def __init__(self, torch_too: bool) -> None:
        self.kept: Any = None
        if torch_too:
            import torch

            gpulend.ray.carry("torch")
            torch.zeros(1, device="cuda")

    def take(self, arrays: list[Any], keep: bool) -> int:
        """Say how many came."""
        self.kept = arrays[0] if keep else None
        return len(arrays)


WAYS = {
    "gpulend, leases": "leases",
    "tensors by gpulend": "tensors_of_ours",
    "Ray, tensors by cuda_ipc": "tensors_of_rays",
    "no array": "nothing",
}


def measure(source: Any, sink: Any, torch_too: bool) -> record.Times:
    """Return the median time of each way by job."""
    times: record.Times = {}
    ways = WAYS if torch_too else {way: WAYS[way] for way in ("gpulend, leases", "no array")}
    for count, words in ((1, "one array"), (MANY, f"{MANY} arrays")):
        for keep in (False, True):
            job = f"{words}, {'mapping kept' if keep else 'cold'}"
            times[job] = {}
            for way, name in ways.items():
                taken = []
                for _ in range(WARM + ROUNDS):
                    start = time.perf_counter_ns()
                    arrays = getattr(source, name).remote(count)
                    ray.get(sink.take.remote(arrays, keep), timeout=60)
                    taken.append(time.perf_counter_ns() - start)
                    del arrays
                times[job][way] = median(taken[WARM:])
    return times


def main() -> None:
    options = record.options("ray_arrays", __doc__)
    torch_too = not gpulend.empty(1).simulated
    share = {"num_cpus": 0, "num_gpus": 0.4 if torch_too else 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    actor = ray.remote(enable_tensor_transport=True, **share)
    source, sink = actor(Source).remote(torch_too), actor(Sink).remote(torch_too)
    found = record.rows([measure(source, sink, torch_too) for _ in range(options.runs)])
    ray.shutdown()
    driver = gpulend._native.describe_driver()
    print(f"{driver}\n\n| job | way | µs |\n|---|---|---|")
    for row in found:
        for way, ns in sorted(row["ns"].items(), key=lambda item: min(item[1])):
            print(f"| {row['job']} | {way} | {min(ns) / 1000:.0f} |")
    record.write(
        options,
        found,
        figure=f"median of {ROUNDS} messages",
        machine=str(driver),
        packages=("torch", "ray", "gpulend"),
    )


if __name__ == "__main__":
    main()
