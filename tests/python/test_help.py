"""What the command line says: suggestions, completion, colours, progress, reports, the cache."""

from __future__ import annotations

import json
import os
import pty
import resource
import shutil
import subprocess
import sys

import gpulend
import pytest
from conftest import need
from gpulend import _completion, _terminal, cli
from gpulend._native import ERROR_CODES
from gpulend.doctor import machine
from gpulend.doctor.report import Driver
from machines import python, start


def run(*arguments, check=True, **variables):
    """Run `gpulend` with arguments."""
    return start([sys.executable, "-m", "gpulend", *arguments], check, **variables)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["docter"], "there is no command docter; did you mean 'doctor'?"),
        (["explian", "821"], "there is no command explian; did you mean 'explain'?"),
        (["zzz"], "there is no command zzz\n"),
        (["doctor", "--quik"], "there is no option --quik; did you mean '--quick'?"),
        (["run", "--devics=2", "--", "true"], "no option --devics=2; did you mean '--devices'?"),
        (["doctor", "--only", "numyp"], "did you mean 'numpy'?"),
        (["explain", "SignatrueError"], "did you mean 'SignatureError'?"),
    ],
)
def test_a_mistyped_word_is_answered_with_a_suggestion(words, said):
    """Status 2, as for every mistake of the command line."""
    done = run(*words, check=False)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_mistyped_framework_and_device_are_answered_with_a_suggestion():
    """Also where a program makes the mistake."""
    for wrong, right in (("torhc", "torch"), ("Numpy", "numpy"), ("tensorfow", "tensorflow")):
        with pytest.raises(gpulend.ProtocolError, match=f"did you mean '{right}'"):
            gpulend.lend(bytearray(8), wrong)
    with pytest.raises(gpulend.ProtocolError) as caught:
        gpulend.lend(bytearray(8), "tinygrad")
    assert "did you mean" not in str(caught.value)
    for wrong, right in (("gpu", "cuda:0"), ("cdua:1", "cuda:1"), ("CUDA0", "cuda:0")):
        with pytest.raises(gpulend.NoDeviceError, match=f"did you mean '{right}'"):
            gpulend.Device(wrong)
    with pytest.raises(gpulend.NoDeviceError) as caught:
        gpulend.Device("mps")
    assert "did you mean" not in str(caught.value)


def test_explain_prints_a_code_a_class_or_all():
    """In full for one, in lines for many."""
    done = run("explain", "821")
    assert done.stdout.startswith("821 SignatureError, also a RuntimeError and a TypeError")
    assert "\nMend: Convert the array" in done.stdout
    assert run("explain", "NoDeviceError").stdout.count("\n") == 16
    assert run("explain").stdout.count("\n") == len(ERROR_CODES)


def test_the_quick_report_names_what_a_bug_report_needs(tmp_path):
    """Driver, CUDA, glibc, packages and variables; secrets and the home folder stay out."""
    variables = {"CUDA_VISIBLE_DEVICES": "0", "JAX_API_TOKEN": "xyzzy", "HOME": str(tmp_path)}
    done = run("doctor", "--quick", GPULEND_DEVICE="simulated", **variables)
    for word in (
        f"gpulend {gpulend.__version__}, Python {sys.version.split()[0]}",
        "glibc ",
        "driver: simulated, CUDA ",
        "  cuda:0: Simulated GPU",
        "NVRTC: ",
        "  CUDA_VISIBLE_DEVICES=0",
        "  GPULEND_DEVICE=simulated",
        "  JAX_API_TOKEN=(hidden)",
        f"numpy {need('numpy').__version__}",
    ):
        assert word in done.stdout, done.stdout
    assert "xyzzy" not in done.stdout
    assert str(tmp_path) not in done.stdout
    found = json.loads(run("doctor", "--quick", "--json", GPULEND_DEVICE="simulated").stdout)
    assert found["kind"] == "simulated"


def test_the_quick_report_imports_no_framework_and_is_quick():
    """Less than a second of CPU time, in both of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run("doctor", "--quick", GPULEND_DEVICE="simulated", PYTHONPROFILEIMPORTTIME="1")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"numpy", "torch", "jax", "tensorflow", "cupy", "numba", "warp"}
    assert "gpulend" in imported
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5


def test_a_broken_driver_does_not_end_the_quick_report(real):
    """It is a line of it."""
    variables = {"LD_LIBRARY_PATH": str(real), "FAKE_CUINIT": "999", "GPULEND_DEVICE": "cuda"}
    done = run("doctor", "--quick", **variables)
    assert "driver: " in done.stdout
    assert "cuInit returned" in done.stdout
    assert "packages: " in done.stdout


@pytest.mark.parametrize(
    ("cuda", "nvrtc", "cupy"),
    [
        ("13.0", "nvidia-cuda-nvrtc", "cupy-cuda13x"),
        ("12.4", "nvidia-cuda-nvrtc-cu12", "cupy-cuda12x"),
    ],
)
def test_what_is_to_be_installed_fits_the_driver(cuda, nvrtc, cupy):
    """A CUDA 12 driver does not run what CUDA 13 compiles."""
    driver = Driver("cuda", "libcuda.so.1", cuda, [], None, None)
    assert machine.for_driver("nvidia-cuda-nvrtc", driver) == nvrtc
    assert machine.for_driver("cupy-cuda13x", driver) == cupy
    assert machine.for_driver("numpy", driver) == "numpy"
    simulated = Driver("simulated", "libgpulend_sim.so", cuda, [], None, None)
    assert machine.for_driver("nvidia-cuda-nvrtc", simulated) == "nvidia-cuda-nvrtc"


def test_the_error_without_nvrtc_fits_the_driver(real):
    """The fake driver says CUDA 12.4."""
    program = """
        from gpulend import _native
        _native.describe_driver()
        try:
            _native.describe_nvrtc([])
        except Exception as error:
            print(error)
        """
    done = python(program, LD_LIBRARY_PATH=str(real), GPULEND_DEVICE="cuda")
    if not done.stdout:
        pytest.skip("the loader finds an NVRTC on this machine")
    assert "pip install nvidia-cuda-nvrtc-cu12" in done.stdout


def test_the_cache_is_shown_and_cleared(tmp_path):
    """Only entries are removed; a file of another name stays."""
    need("ziglang")
    variables = {"GPULEND_CACHE_DIR": str(tmp_path), "GPULEND_DEVICE": "simulated"}
    python("import gpulend; gpulend.compile('__global__ void f() {}')", **variables)
    place = tmp_path / "ptx"
    (place / "mine").write_text("kept")
    entries = [path for path in place.iterdir() if path.name != "mine"]
    assert entries
    size = sum(path.stat().st_size for path in entries)
    assert run("cache", "where", **variables).stdout == f"{place}\n"
    assert run("cache", "size", **variables).stdout == f"{size}\n"
    assert run("cache", **variables).stdout.startswith(f"{place}: {len(entries)} entries, ")
    assert f"removed {len(entries)} entries" in run("cache", "clear", **variables).stdout
    assert [path.name for path in place.iterdir()] == ["mine"]
    done = run("cache", check=False, GPULEND_CACHE="off", **variables)
    assert (done.returncode, done.stdout) == (1, "off: GPULEND_CACHE=off\n")


def complete(*words):
    """Return what bash completes the last word to."""
    script = run("completion", "bash").stdout
    listed = " ".join(f"'{word}'" for word in words)
    script += f'\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}\n_gpulend\nprintf "%s\\n" '
    script += '"${COMPREPLY[@]}"\n'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_values():
    """And files after `--`."""
    assert complete("gpulend", "do") == ["doctor"]
    assert set(cli.build()[1]) < set(complete("gpulend", ""))
    assert complete("gpulend", "doctor", "--q") == ["--quick"]
    assert complete("gpulend", "doctor", "--only", "to") == ["torch"]
    assert complete("gpulend", "run", "--check", "") == ["off", "memory", "races"]
    assert complete("gpulend", "explain", "82")[:2] == ["820", "821"]
    assert complete("gpulend", "cache", "c") == ["clear"]
    assert complete("gpulend", "run", "--", "/etc/hostn") == ["/etc/hostname"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_every_command_and_option(shell):
    """Read by the shell itself where it is installed."""
    parser, commands = cli.build()
    script = _completion.script(shell, parser)
    for name, command in commands.items():
        assert name in script
        for option in command._option_string_actions:
            assert option.lstrip("-") in script
    if shutil.which(shell):
        done = subprocess.run([shell, "--no-execute"], input=script, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def on_terminal(code, **variables):
    """Run a program whose output is a terminal, and return all that it wrote there."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "GPULEND_DEVICE": "simulated"} | variables
    environment = {name: text for name, text in environment.items() if text}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 4096):
                written += part
        except OSError:
            pass  # The other end was closed.
    os.close(ours)
    return written.decode()


EXPLAIN = "from gpulend.cli import main; main(['explain', '821'])"


def test_colours_are_for_terminals_and_no_color_is_respected():
    """`FORCE_COLOR` asks for them elsewhere."""
    assert "\x1b[1m821 SignatureError" in on_terminal(EXPLAIN, NO_COLOR="")
    assert "\x1b" not in on_terminal(EXPLAIN, NO_COLOR="1")
    assert "\x1b" not in on_terminal(EXPLAIN, NO_COLOR="", TERM="dumb")
    assert "\x1b" not in run("explain", "821").stdout
    assert "\x1b[1m821" in run("explain", "821", FORCE_COLOR="1").stdout


def test_the_verdict_of_the_doctor_is_coloured(monkeypatch):
    """Red for what is broken, green for what is well, and nothing else."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    from gpulend.doctor import coloured

    colours = _terminal.Colours(sys.stdout)
    assert coloured("All is well. 3 s.", colours) == "\x1b[32mAll is well.\x1b[0m 3 s."
    assert coloured("numpy  FAIL  3.1", colours) == "numpy  \x1b[31mFAIL\x1b[0m  3.1"
    assert coloured("CRASHED: why", colours) == "\x1b[31mCRASHED\x1b[0m: why"
    assert coloured("FAILSAFE", colours) == "FAILSAFE"


COMPILE = """
import gpulend
from gpulend import _terminal
_terminal.PATIENCE, _terminal.PACE = {patience}, 0.05
gpulend.compile("__global__ void f() {{}}", file="mine.cu")
print("done")
"""


def test_a_long_compilation_says_so_on_a_terminal():
    """One line that is replaced, and removed at the end."""
    need("ziglang")
    written = on_terminal(COMPILE.format(patience=0.01), GPULEND_CACHE="off")
    assert "\r\x1b[Kgpulend: compiling mine.cu, 0 s" in written
    assert written.endswith("\r\x1b[Kdone\r\n")


def test_a_short_compilation_and_one_in_a_pipe_say_nothing():
    """Programs and logs stay as they are."""
    need("ziglang")
    assert on_terminal(COMPILE.format(patience=60)) == "done\r\n"
    done = python(COMPILE.format(patience=0.01), GPULEND_DEVICE="simulated", GPULEND_CACHE="off")
    assert (done.stdout, done.stderr) == ("done\n", "")
