"""The command line, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys

import gpulend
from conftest import need
from gpulend import _bench, _terminal
from machines import without_driver


def run(*arguments, **variables):
    """Run `gpulend` with arguments, and variables in its environment, in a process of its own."""
    command = [sys.executable, "-m", "gpulend", *arguments]
    environment = os.environ | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_the_demo_shows_the_job_and_four_caught_mistakes():
    """It ends well, and names each of the four errors."""
    done = run("demo")
    assert done.returncode == 0
    assert "NOT CAUGHT" not in done.stdout
    assert done.stdout.partition("\n6. ")[0].count("   ! ") == 4
    for name in ("AddressError", "ProtocolError", "ExportError", "StillLentError"):
        assert name in done.stdout


def test_the_demo_shows_what_torch_adds():
    """One memory for C, torch and NumPy, and two mistakes more."""
    need("torch")
    said = run("demo").stdout.partition("\n8. ")[2]
    assert "torch: [[100.0, 2.0, 3.0], [4.0, 5.0, -1.0]]" in said
    assert said.count("   ! ExportError") == 2


def test_the_demo_needs_no_torch(tmp_path):
    """Where there is none, it says what it would add, and is no failure."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util, sys\n"
        "sys.modules['torch'] = None\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *of: None if name == 'torch' else find(name, *of)\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = run("demo", PYTHONPATH=path)
    assert "8. torch is not installed" in done.stdout
    assert "make demo TORCH=1" in done.stdout
    assert done.returncode == 0, done.stderr


@without_driver
def test_the_demo_runs_a_kernel_and_shows_its_mistake():
    """Argument, line and thread are reported, whatever the environment says of checks."""
    need("ziglang")
    done = run("demo", GPULEND_SIM_CHECK="off")
    assert "makes of 0 to 5: [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]" in done.stdout
    said = " ".join(done.stdout.split())
    assert "! SignatureError: scale: argument 1 (x) is a float64 array, and the kernel" in said
    place = "kernel scale at scale.cu:3, block (1, 0, 0), thread (2, 0, 0): reads 4 bytes at 0x"
    assert f"! KernelError: scale<<<(2, 1, 1), (4, 1, 1)>>>: {place}" in said
    assert "; nearest argument: 1 (x), float*, 24 bytes at 0x" in said
    assert "The next launch works: [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]" in said
    assert done.stderr.startswith(f"gpulend: simulated GPU: {place}")
    assert done.stderr.count("\n") == 1
    assert done.returncode == 0


def test_the_demo_says_why_there_is_no_kernel():
    """No simulated GPU, or no compiler, is no failure."""
    done = run("demo", GPULEND_DEVICE="cuda")
    assert "Left out: GPULEND_DEVICE=cuda allows real GPUs only" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    done = run("demo", GPULEND_CLANG="/bin/false", GPULEND_CACHE="off")
    assert "Left out: /bin/false compiles no CUDA C" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_told():
    """`gpulend --version`."""
    assert run("--version").stdout == f"gpulend {gpulend.__version__}\n"


def test_no_command_is_an_error_with_usage():
    """Nothing to do is said, not guessed."""
    done = run()
    assert done.returncode == 2
    assert "usage: gpulend" in done.stderr


def test_the_bench_copies_both_ways_and_compares_the_bytes():
    """Four copies with their speed; an impossible size is refused."""
    done = run("bench", "--size", "8", GPULEND_SIM_CHECK="off")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("8 MiB, ")
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "host to GPU, the first copy",
        "host to GPU, again",
        "GPU to a new array",
        "GPU to an old array",
    ]
    assert all(line.endswith(" GB/s") for line in lines[1:])
    refused = run("bench", "--size", "0")
    assert refused.returncode == 2
    assert "at least 1 MiB" in refused.stderr


def test_a_copy_that_takes_longer_than_a_second_shows_how_far_it_is(monkeypatch, capsys):
    """Not a shorter one, and nothing is left of the line."""
    monkeypatch.setattr(_terminal, "is_shown", lambda _stream: True)
    short = _bench.Watch("host to GPU")
    short(1 << 20, 4 << 20)
    short.end()
    assert capsys.readouterr().err == ""
    long = _bench.Watch("host to GPU", patience=0)
    for moved in (0, 16, 64):
        long(moved << 20, 64 << 20)
    long.end()
    said = capsys.readouterr().err
    assert "host to GPU, 64 of 64 MiB, 100%, " in said
    assert said.endswith("\r\x1b[K")
