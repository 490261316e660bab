"""`gpulend run`: programs that know nothing of gpulend, reports and faults."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest
from conftest import need
from gpulend import compiler
from machines import PRELUDE, THE_LINE, compile_c, gpulend_run, python, start

# What a program that knows nothing of gpulend does to find CUDA.
FINDS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names) {
    void *driver = dlopen(count > 1 ? names[1] : "libcuda.so.1", RTLD_NOW);
    if (!driver) return puts("none");
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    const char *others = dlsym(driver, "gpulend_sim_report") ? "ours" : "?";
    puts(dlsym(driver, "fake_marker") ? "real" : others);
    return init ? init(0) : 99;
}
"""


@pytest.fixture(scope="module")
def finder(tmp_path_factory):
    """A C program that loads CUDA's driver, initialises it and says which one it found."""
    return compile_c(FINDS, tmp_path_factory.mktemp("finder") / "finder", "-ldl")


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcuda.so"])
def test_a_program_under_gpulend_run_finds_the_simulated_gpu(finder, real, name):
    """By either name; also where a real driver lies on the loader's path, because it was asked."""
    assert gpulend_run("--", finder, name).stdout == "ours\n"
    assert gpulend_run("--", finder, name, LD_LIBRARY_PATH=real).stdout == "ours\n"


def test_without_gpulend_run_a_real_driver_is_not_shadowed(finder, real):
    """Neither by installing gpulend nor by using it in another process."""
    assert start([finder], LD_LIBRARY_PATH=real).stdout == "real\n"
    program = f"import gpulend, subprocess; kind(); subprocess.run([{str(finder)!r}], check=True)"
    done = python(program, LD_LIBRARY_PATH=real, GPULEND_DEVICE="auto")
    assert done.stdout == "real\n"


def test_gpulend_run_is_the_program_itself(tmp_path):
    """Exit status, signals, arguments, standard streams and folder are the program's own."""
    assert gpulend_run("--", "sh", "-c", "exit 7", check=False).returncode == 7
    killed = gpulend_run("--", "sh", "-c", "kill -TERM $$", check=False)
    assert killed.returncode == -signal.SIGTERM
    shown = gpulend_run("--", "sh", "-c", 'printf "%s|" "$@"', "sh", "a b", "--", "-x", "")
    assert shown.stdout == "a b|--|-x||"
    without = gpulend_run("sh", "-c", 'printf "%s|" "$@"', "sh", "--", "--devices")
    assert without.stdout == "--|--devices|"
    # Python ignores SIGPIPE and SIGXFSZ, and what is ignored is inherited.
    ignored = gpulend_run("--", "grep", "SigIgn", "/proc/self/status").stdout.split()[1]
    assert int(ignored, 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0


def test_a_command_that_cannot_be_run_is_told_as_shells_do(tmp_path):
    """127 where there is none, 126 where it cannot be run, 2 where none was given."""
    done = gpulend_run("--", "no-such-command", check=False)
    assert (done.returncode, done.stdout) == (127, "")
    assert "'no-such-command'" in done.stderr
    assert done.stderr.count("\n") == 1
    plain = tmp_path / "plain"
    plain.write_text("no program")
    done = gpulend_run("--", plain, check=False)
    assert done.returncode == 126
    assert str(plain) in done.stderr
    for nothing in ((), ("--",), ("--devices", "2"), ("--devices", "2", "--")):
        done = gpulend_run(*nothing, check=False)
        assert done.returncode == 2
        assert "gpulend run" in done.stderr


def test_options_reach_the_program_as_environment(tmp_path):
    """All of them; the report's path is absolute, the loader's path has ours in front."""
    options = {"devices": "2", "memory": "1GiB", "seed": "7", "check": "off", "timeout": "5"}
    rules = "cuMemAlloc#3=OUT_OF_MEMORY"
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    given += ["--faults", rules, "--report", "report.json", "--sticky", "--accept-nvvm"]
    done = gpulend_run(*given, "--", "env", LD_LIBRARY_PATH="/somewhere:/else")
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    for name, value in options.items():
        assert found[f"GPULEND_SIM_{name.upper()}"] == value
    assert found["GPULEND_SIM_FAULTS"] == rules
    assert found["GPULEND_SIM_STICKY"] == found["GPULEND_SIM_ACCEPT_NVVM"] == "1"
    assert found["GPULEND_SIM_REPORT"] == os.path.abspath("report.json")
    assert found["GPULEND_DEVICE"] == "simulated"
    ours, _, others = found["LD_LIBRARY_PATH"].partition(":")
    assert os.path.basename(ours) == "driver"
    assert others == "/somewhere:/else"
    # A trailing colon would put the current folder on the path.
    shown = 'echo "$LD_LIBRARY_PATH" "$GPULEND_SIM_STICKY" "$GPULEND_SIM_ACCEPT_NVVM"'
    alone = gpulend_run("--", "sh", "-c", shown, LD_LIBRARY_PATH="")
    assert alone.stdout == f"{ours}  \n"


def test_the_program_is_told_where_the_compiler_of_this_python_is():
    """It may know nothing of Python and its packages."""
    need("ziglang")
    done = gpulend_run("--", "sh", "-c", 'echo "$GPULEND_ZIGLANG"')
    assert done.stdout == f"{compiler.ziglang()}\n"


def test_the_report_lies_where_it_was_asked_for(finder, tmp_path):
    """Also when the program went elsewhere meanwhile."""
    where = os.path.relpath(tmp_path / "report.json")
    gpulend_run("--report", where, "--", "sh", "-c", f"cd / && {finder}")
    assert json.loads((tmp_path / "report.json").read_text())["calls"]["cuInit"] == 1


def test_a_setting_that_cannot_be_is_told_before_the_program_starts():
    """The program itself would only see that cuInit fails."""
    wrong = {"devices": "30", "memory": "lots", "seed": "x", "check": "hard", "timeout": "soon"}
    for option, value in wrong.items():
        done = gpulend_run(f"--{option}", value, "--", "echo", "started", check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("gpulend run: the simulated GPU refuses ")
        assert option in done.stderr.lower()
        assert value in done.stderr
    done = gpulend_run("--faults", "nonsense", "--", "echo", "started", check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_gpulend_inside_gpulend_run_uses_the_same_simulated_gpu():
    """One library, one machine: what a stranger sees is what gpulend sees."""
    program = PRELUDE + (
        "driver = ctypes.CDLL('libcuda.so.1'); driver.cuInit(0)\n"
        "from gpulend import simulator, _native\n"
        "print(simulator.report()['calls'].get('cuInit'))\n"
        "print(kind(), len(_native.describe_driver()[3]), len(mapped('libgpulend_sim')))\n"
    )
    done = gpulend_run("--devices", "2", "--", sys.executable, "-c", program)
    assert (done.stdout, done.stderr) == ("1\nsimulated 2 1\n", "")
    nested = [sys.executable, "-m", "gpulend", "run", "--seed", "1", "--"]
    done = gpulend_run("--devices", "2", "--", *nested, sys.executable, "-c", program)
    assert (done.stdout, done.stderr) == ("1\nsimulated 2 1\n", "")


def test_a_loaders_path_set_by_hand_is_understood(finder):
    """`auto` then says that it simulates; `cuda` refuses what passes for a real driver."""
    found = python("from gpulend import simulator; print(simulator.driver_folder())").stdout.strip()
    assert start([finder], LD_LIBRARY_PATH=found).stdout == "ours\n"
    done = python("print(kind())", LD_LIBRARY_PATH=found)
    assert done.stdout == "simulated\n"
    assert done.stderr.startswith(THE_LINE)
    assert done.stderr.count("\n") == 1
    done = python("print(refusal(kind))", LD_LIBRARY_PATH=found, GPULEND_DEVICE="cuda")
    assert done.stdout.startswith("NoDeviceError 913 ")


def test_torch_built_for_cuda_survives_gpulend_run():
    """It wants tables that are no public interface; without them it has no device, in its words."""
    torch = need("torch")
    if torch.version.cuda is None:
        pytest.skip("torch was built without CUDA")
    program = "import torch; print(torch.cuda.is_available(), torch.ones(3).sum().item())"
    done = gpulend_run("--", sys.executable, "-W", "ignore", "-c", program)
    assert done.stdout == "False 3.0\n"
    # One line says why torch sees no device.
    assert done.stderr.startswith("gpulend: simulated GPU: refused with code 500: found a call of")
    assert done.stderr.count("\n") == 1


def test_a_program_that_insists_on_its_own_driver_keeps_it(real, tmp_path):
    """The loader asks DT_RPATH, and a path with a slash, before us; gpulend in it then refuses."""
    old = ("-Wl,--disable-new-dtags", f"-Wl,-rpath,{real}")
    stubborn = compile_c(FINDS, tmp_path / "stubborn", "-ldl", *old)
    assert gpulend_run("--", stubborn).stdout == "real\n"
    program = PRELUDE + (
        f"theirs = ctypes.CDLL({str(real / 'libcuda.so.1')!r})\nprint(refusal(kind))"
    )
    done = gpulend_run("--", sys.executable, "-c", program)
    assert done.stdout.startswith("NoDeviceError 910 ")


def test_a_report_and_faults_want_a_simulated_gpu(real):
    """Neither chooses one; where there is none they say so."""
    program = """
        from gpulend import simulator
        print({})
        print(refusal(simulator.report)[:17], refusal(lambda: simulator.faults(""))[:17])
        print(mapped("libgpulend_sim"))
        """
    done = python(program.format("None"), GPULEND_DEVICE="simulated")
    assert done.stdout == "None\nNoDeviceError 915 NoDeviceError 915\n[]\n"
    done = python(program.format("kind()"), LD_LIBRARY_PATH=real)
    assert done.stdout == "cuda\nNoDeviceError 915 NoDeviceError 915\n[]\n"


def test_faults_end_with_their_block_and_bad_rules_are_refused():
    """Also when the block ends by an exception; a refused rule changes nothing."""
    done = python(
        """
        import gpulend
        from gpulend import simulator
        gpulend.simulate()
        driver = ctypes.CDLL(simulator.library())
        count = ctypes.byref(ctypes.c_int())
        try:
            with simulator.faults("cuDeviceGetCount#1=NO_DEVICE"):
                print(driver.cuDeviceGetCount(count), driver.cuDeviceGetCount(count))
                raise ZeroDivisionError
        except ZeroDivisionError:
            print(driver.cuDeviceGetCount(count))
        simulator.faults("cuDeviceGetCount#2=NO_DEVICE")
        print(refusal(lambda: simulator.faults("nonsense"))[:44])
        print(driver.cuDeviceGetCount(count), driver.cuDeviceGetCount(count))
        print(refusal(lambda: simulator.faults("a\\0b"))[:16])
        """
    )
    assert done.stdout.splitlines() == [
        "100 0",
        "0",
        "DriverError 1002 the simulated GPU refuses n",
        "0 100",
        "DriverError 1002",
    ]
