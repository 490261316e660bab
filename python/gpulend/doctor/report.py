"""What the doctor found, as plain values: the keys of `--json` are these fields."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

# Of `Pair.status`: those that are healthy, and those that are not.
HEALTHY = ("zero copy", "refused", "no array")
UNHEALTHY = ("copied", "failed", "crashed", "timed out", "broken")
SCHEMA = 1


@dataclass(frozen=True)
class Pair:
    """One ordered pair of frameworks: how the hand-over went, or why it did not."""

    producer: str
    consumer: str
    status: str
    memory: str | None = None
    borrowed_by: str | None = None
    lent_by: str | None = None
    zero_copy: bool = False
    order: str | None = None
    order_on_default_streams: str | None = None
    host_waits: int | None = None
    host_waits_counted_by: str | None = None
    readonly: str | None = None
    capture: str | None = None
    nanoseconds: float | None = None
    problem: str | None = None
    note: str | None = None

    @property
    def problems(self) -> list[str]:
        """What is wrong with it, a line each."""
        found = []
        if self.status in UNHEALTHY:
            found.append(f"{self.status.upper()}: {self.problem}")
        if self.order == "NOT ORDERED":
            found.append("NOT ORDERED: another stream does not wait for the producer's")
        if self.order_on_default_streams == "NOT ORDERED":
            found.append("NOT ORDERED: the consumer's usual stream does not wait")
        if self.readonly == "LOST":
            found.append("LOST: read-only memory arrives writable")
        if self.capture == "LOST":
            found.append("LOST: a stream capture, by a hand-over inside of it")
        return found

    @property
    def healthy(self) -> bool:
        """Whether nothing was copied, lost, left out of order or broken."""
        return not self.problems


@dataclass(frozen=True)
class Framework:
    """One framework: which release, or why there is none, and what installs it."""

    name: str
    version: str | None
    problem: str | None
    install: str
    import_seconds: float | None = None
    # How its arrays come in, where that depends on its release.
    route: str | None = None

    @property
    def state(self) -> str:
        """Say in a word or two how it is."""
        if self.version is not None:
            return "here"
        return "not installed" if self.problem is None else "broken"


@dataclass(frozen=True)
class Gpu:
    """One device of the driver that gpulend chose."""

    device: str
    name: str
    memory: int
    compute_capability: str
    simulated: bool


@dataclass(frozen=True)
class Driver:
    """The driver that gpulend chose and why, or why it has none."""

    kind: str | None
    library: str | None
    cuda: str | None
    gpus: list[Gpu]
    why: str | None
    problem: str | None

    def __str__(self) -> str:
        if self.kind is None:
            return f"driver: none: {self.problem}"
        what = "the simulated GPU" if self.kind == "simulated" else "a real driver"
        lines = [f"driver: {what}, CUDA {self.cuda}", f"library: {self.library}"]
        for gpu in self.gpus:
            size = f"{gpu.memory / 2**30:.1f} GiB, compute capability {gpu.compute_capability}"
            mark = " (simulated)" if gpu.simulated else ""
            lines.append(f"{gpu.device}: {gpu.name}, {size}{mark}")
        if self.why is not None:
            lines.append(f"why: {self.why}")
        if self.problem is not None:
            lines.append(f"PROBLEM: {self.problem}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Compiler:
    """What compiles kernels: a clang, and NVIDIA's NVRTC."""

    clang: str | None
    clang_version: str | None
    clang_problem: str | None
    nvrtc: str | None
    nvrtc_version: str | None
    nvrtc_problem: str | None


@dataclass(frozen=True)
class Missing:
    """Something that would do more, and the command that installs it."""

    what: str
    command: str


@dataclass(frozen=True)
class Report:
    """All that the doctor found."""

    gpulend: str
    python: str
    system: str
    driver: Driver
    compiler: Compiler
    frameworks: list[Framework]
    pairs: list[Pair]
    missing: list[Missing]
    seconds: float
    schema: int = field(default=SCHEMA)
    # Why entry points of installed packages bring no framework.
    entry_points: list[str] = field(default_factory=list)

    @property
    def healthy(self) -> bool:
        """Whether no pair, no framework or entry point is broken, and a driver works."""
        broken = any(framework.state == "broken" for framework in self.frameworks)
        broken = broken or bool(self.entry_points)
        driver_broken = self.driver.kind is not None and self.driver.problem is not None
        return all(pair.healthy for pair in self.pairs) and not broken and not driver_broken

    @property
    def installed(self) -> list[str]:
        """The names of the frameworks that are here, broken ones too."""
        states = ("here", "broken")
        return [framework.name for framework in self.frameworks if framework.state in states]

    def pair(self, producer: str, consumer: str) -> Pair:
        """Return what was found about an ordered pair."""
        for pair in self.pairs:
            if (pair.producer, pair.consumer) == (producer, consumer):
                return pair
        raise KeyError((producer, consumer))

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        report = asdict(self)
        for values, framework in zip(report["frameworks"], self.frameworks, strict=True):
            values["state"] = framework.state
        for values, pair in zip(report["pairs"], self.pairs, strict=True):
            values["healthy"] = pair.healthy
        return report | {"healthy": self.healthy}


def first_line(error: BaseException) -> str:
    """Return an error's name and the first line of what it says."""
    text = str(error).strip()
    line = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
