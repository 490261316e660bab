"""Which driver a process uses: what the environment, the program and the machine say."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest
from conftest import need
from machines import (
    PRELUDE,
    a_driver_is_here,
    compile_c,
    fake_driver,
    gpulend_run,
    python,
    start,
)

THE_LINE = "gpulend: using the simulated GPU, because "
without_driver = pytest.mark.skipif(a_driver_is_here(), reason="this machine has a driver")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A folder with a library that passes for a real driver."""
    return fake_driver(tmp_path_factory.mktemp("real")).parent


def test_importing_gpulend_loads_no_driver(real):
    """Neither a real one that lies ready, nor the simulated one, also with all of the package."""
    done = python(
        """
        import gpulend, gpulend.simulator, gpulend.cli, gpulend.doctor, gpulend.run
        gpulend.simulator.library()
        print(mapped("libcuda.so", "libgpulend_sim"))
        """,
        LD_LIBRARY_PATH=real,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


# Saying nothing, and saying `auto`.
AUTO = {"unset": {}, "auto": {"GPULEND_DEVICE": "auto"}}


@without_driver
@pytest.mark.parametrize("choice", [*AUTO, "empty"])
def test_auto_without_a_driver_is_the_simulated_gpu_and_says_so_once(choice):
    """One line on stderr that names the reason and both ways out, however often it is used."""
    variables = AUTO.get(choice, {"GPULEND_DEVICE": ""})
    done = python("print(kind(), kind(), kind())", **variables)
    assert done.stdout == "simulated simulated simulated\n"
    assert done.stderr.startswith(THE_LINE)
    assert done.stderr.count("\n") == 1
    for word in ("libcuda.so.1", "GPULEND_DEVICE=simulated", "GPULEND_DEVICE=cuda"):
        assert word in done.stderr


def test_simulated_says_nothing():
    """Whoever asks for it need not be told."""
    done = python("print(kind())", GPULEND_DEVICE="simulated")
    assert (done.stdout, done.stderr) == ("simulated\n", "")


@pytest.mark.parametrize("wrong", ["CUDA", "gpu", "simulated "])
def test_another_choice_is_refused_with_the_three(wrong):
    """Nothing is guessed, neither at first use nor by `simulate`."""
    done = python("print(refusal(kind))", GPULEND_DEVICE=wrong)
    assert done.stdout.startswith("NoDeviceError 904 ")
    assert repr(wrong)[1:-1] in done.stdout
    assert "auto, cuda or simulated" in done.stdout
    done = python("import gpulend; print(refusal(gpulend.simulate))", GPULEND_DEVICE=wrong)
    assert done.stdout.startswith("NoDeviceError 904 ")


@without_driver
def test_cuda_without_a_driver_is_refused_with_the_loaders_reason():
    """No simulated GPU where only a real one will do."""
    done = python("print(refusal(kind)); print(mapped('libgpulend_sim'))", GPULEND_DEVICE="cuda")
    assert done.stdout.startswith("NoDeviceError 905 ")
    assert "libcuda.so.1: cannot open shared object file" in done.stdout
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize("choice", ["auto", "cuda"])
def test_a_real_driver_is_taken_where_one_can_be_loaded(real, choice):
    """And its symbols stay out of everybody's way."""
    done = python(
        """
        from gpulend import _native
        print(_native.describe_driver())
        print(hasattr(ctypes.CDLL(None), "cuInit"), mapped("libgpulend_sim"))
        """,
        GPULEND_DEVICE=choice,
        LD_LIBRARY_PATH=real,
    )
    library = str(real / "libcuda.so.1")
    described = ("cuda", library, (12, 4), [("Fake GPU", 3 << 30, (9, 0))])
    assert (done.stdout, done.stderr) == (f"{described}\nFalse []\n", "")


@pytest.mark.parametrize("choice", ["auto", "cuda"])
@pytest.mark.parametrize(
    ("code", "name", "advice"),
    [
        (100, "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"),
        (3, "CUDA_ERROR_NOT_INITIALIZED", "spawn"),
        (34, "CUDA_ERROR_STUB_LIBRARY", "LD_LIBRARY_PATH"),
        (12345, "12345", "nvidia-smi"),
    ],
)
def test_a_real_driver_that_does_not_start_is_an_error_that_says_why(
    real, choice, code, name, advice
):
    """Never a reason to simulate in silence."""
    done = python(
        "print(refusal(kind)); print(mapped('libgpulend_sim'))",
        GPULEND_DEVICE=choice,
        LD_LIBRARY_PATH=real,
        FAKE_CUINIT=code,
    )
    assert done.stdout.startswith("NoDeviceError 906 ")
    for word in (str(real), name, str(code), advice):
        assert word in done.stdout
    assert done.stdout.endswith("[]\n")
    assert done.stderr == ""


def test_a_library_that_is_no_driver_is_told_by_what_it_lacks(tmp_path):
    """Neither under CUDA's name nor under the simulated GPU's."""
    empty = compile_c("", tmp_path / "libcuda.so.1", "-shared", "-Wl,-soname,libcuda.so.1")
    done = python("print(refusal(kind))", LD_LIBRARY_PATH=tmp_path)
    assert done.stdout.startswith("NoDeviceError 907 ")
    assert "cuInit" in done.stdout
    other = empty.rename(tmp_path / "libother.so")
    done = python("print(refusal(kind))", GPULEND_DEVICE="simulated", GPULEND_SIM_LIBRARY=other)
    assert done.stdout.startswith("NoDeviceError 907 ")


@pytest.mark.parametrize(
    "use", ["kind", "gpulend.simulate", "lambda: gpulend.simulate(expose=True)"]
)
def test_the_simulated_gpu_is_refused_beside_a_real_driver(real, use):
    """Two drivers in one process would mix up their memory."""
    done = python(
        f"""
        import gpulend
        theirs = ctypes.CDLL({str(real / "libcuda.so.1")!r})
        print(refusal({use}))
        print(mapped("libgpulend_sim"))
        """,
        GPULEND_DEVICE="simulated",
    )
    assert done.stdout.startswith("NoDeviceError 910 ")
    assert str(real / "libcuda.so.1") in done.stdout
    assert done.stdout.endswith("[]\n")


def test_a_real_driver_under_another_name_is_noticed_too(tmp_path):
    """As NVIDIA's own file is called, and as `auto` would not find it."""
    library = fake_driver(tmp_path, soname="libcuda.so.580.65.06")
    done = python(
        f"theirs = ctypes.CDLL({str(library)!r}); print(refusal(kind))", GPULEND_DEVICE="simulated"
    )
    assert done.stdout.startswith("NoDeviceError 910 ")


def test_a_failed_choice_poisons_nothing(real):
    """The next one starts afresh: other environment, other settings, same process."""
    done = python(
        """
        import gpulend
        print(refusal(kind)[:17])                                       # a driver that fails
        os.environ["GPULEND_DEVICE"] = "nonsense"
        print(refusal(kind)[:17])
        os.environ["GPULEND_DEVICE"] = "simulated"
        print(refusal(lambda: gpulend.simulate(devices=99))[:17])
        print(refusal(lambda: gpulend.simulate(memory="lots"))[:17])
        print(mapped("libcuda.so"))
        gpulend.simulate(devices=3)
        from gpulend import _native
        print(kind(), len(_native.describe_driver()[3]))
        """,
        LD_LIBRARY_PATH=real,
        FAKE_CUINIT=100,
    )
    assert done.stdout.splitlines() == [
        "NoDeviceError 906",
        "NoDeviceError 904",
        "DriverError 1002 ",
        "ProtocolError 253",
        "[]",
        "simulated 3",
    ]


def test_a_choice_is_kept(real):
    """What the environment says later no longer matters."""
    done = python(
        f"""
        import gpulend
        print(kind())
        os.environ["GPULEND_DEVICE"] = "cuda"
        theirs = ctypes.CDLL({str(real / "libcuda.so.1")!r})
        print(kind())
        """,
        GPULEND_DEVICE="simulated",
    )
    assert done.stdout == "simulated\nsimulated\n"


def test_threads_that_choose_at_once_agree():
    """One of them chooses, the others wait for it."""
    done = python(
        """
        import threading
        start, found = threading.Barrier(16), []
        def use():
            start.wait()
            found.append(kind())
        threads = [threading.Thread(target=use) for _ in range(16)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(found == ["simulated"] * 16)
        from gpulend import simulator
        print(simulator.report()["calls"].get("cuInit"))
        """,
        GPULEND_DEVICE="simulated",
    )
    assert done.stdout == "True\n1\n"


def test_settings_shape_the_simulated_gpu_over_the_environment():
    """What is said counts; what is not said is as the environment has it."""
    shape = """
        import gpulend
        from gpulend import _native
        gpulend.simulate({})
        devices = _native.describe_driver()[3]
        print(len(devices), devices[0][1])
        """
    environment = {"GPULEND_SIM_DEVICES": 3, "GPULEND_SIM_MEMORY": "2GiB"}
    assert python(shape.format(""), **environment).stdout == f"3 {2 << 30}\n"
    given = "devices=2, memory='1GiB', seed=7"
    assert python(shape.format(given), **environment).stdout == f"2 {1 << 30}\n"
    assert python(shape.format(f"memory={1 << 30}"), **environment).stdout == f"3 {1 << 30}\n"


def test_simulate_may_be_repeated_but_not_changed():
    """Asking again for the same is no error; another wish comes too late, and says for what."""
    done = python(
        """
        import gpulend
        gpulend.simulate(devices=2, memory="1GiB")
        gpulend.simulate(2, 1 << 30)
        print(refusal(lambda: gpulend.simulate(devices=3)))
        print(refusal(lambda: gpulend.simulate(devices=2, memory="1GiB", expose=True)))
        print(refusal(gpulend.simulate)[:17])
        """
    )
    first, second, third = done.stdout.splitlines()
    assert first.startswith("NoDeviceError 911 the simulated GPU (devices=2,memory=1073741824) ")
    assert second.startswith("NoDeviceError 911 ")
    assert third == "NoDeviceError 911"


def test_simulate_after_first_use_is_too_late_unless_it_asks_for_nothing_else(real):
    """A real driver in use is named; the simulated GPU in use is what was asked for."""
    done = python(
        "import gpulend; kind(); gpulend.simulate(); print(refusal(lambda: gpulend.simulate(2)))",
        GPULEND_DEVICE="simulated",
    )
    assert done.stdout.startswith("NoDeviceError 911 the simulated GPU (the usual settings)")
    done = python("import gpulend; kind(); print(refusal(gpulend.simulate))", LD_LIBRARY_PATH=real)
    assert done.stdout.startswith(f"NoDeviceError 911 the CUDA driver ({real}/libcuda.so.1)")


def test_simulate_does_not_overrule_who_wants_a_real_gpu():
    """The environment is the operator's word."""
    done = python(
        "import gpulend; print(refusal(gpulend.simulate)); print(mapped('libgpulend_sim'))",
        GPULEND_DEVICE="cuda",
    )
    assert done.stdout.startswith("NoDeviceError 912 ")
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize(
    "wrong",
    [
        *("devices=-1", "devices=2**64", "devices='2'", "devices=True", "devices=1.5"),
        *("memory='lots'", "memory=-1", "memory='1GiB,seed=3'", "memory=b'1'", "seed='x'"),
    ],
)
def test_an_argument_that_cannot_be_read_is_named(wrong):
    """It is refused before anything is loaded."""
    done = python(
        f"""
        import gpulend
        print(refusal(lambda: gpulend.simulate({wrong})))
        print(mapped("libgpulend_sim"))
        """
    )
    assert done.stdout.startswith(f"ProtocolError 253 {wrong.partition('=')[0]} is ")
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize("wrong", ["devices=0", "devices=9", "memory=1"])
def test_a_setting_that_cannot_be_is_refused_in_the_simulated_gpus_words(wrong):
    """And nothing was chosen."""
    done = python(
        f"""
        import gpulend
        print(refusal(lambda: gpulend.simulate({wrong})))
        gpulend.simulate(devices=1)
        """
    )
    name, _, value = wrong.partition("=")
    assert done.stdout.startswith(f"DriverError 1002 the simulated GPU refuses {wrong}: ")
    assert f"found {value}, wanted" in done.stdout
    assert name in done.stdout


@without_driver
def test_other_libraries_find_the_simulated_gpu_only_if_it_is_exposed():
    """By CUDA's names, and it is the same one."""
    program = """
        import gpulend
        from gpulend import simulator
        def find(name):
            try:
                return ctypes.CDLL(name)
            except OSError:
                return None
        gpulend.simulate(expose={})
        found = find("libcuda.so.1")
        print(found is not None, hasattr(ctypes.CDLL(None), "cuInit"))
        if found:
            ours = ctypes.CDLL(simulator.library())
            address = lambda library: ctypes.cast(library.cuInit, ctypes.c_void_p).value
            print(address(found) == address(ours), found.cuInit(0), len(mapped("libgpulend_sim")))
        """
    assert python(program.format(False)).stdout == "False False\n"
    assert python(program.format(True)).stdout == "True True\nTrue 0 1\n"


def test_a_forked_child_gets_a_clear_refusal():
    """A driver does not cross a fork; the parent goes on."""
    done = python(
        """
        import gpulend
        print(kind(), flush=True)
        child = os.fork()
        if child == 0:
            print(refusal(kind), refusal(gpulend.simulate), sep="\\n", flush=True)
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), kind())
        """,
        GPULEND_DEVICE="simulated",
    )
    first, second, third, last = done.stdout.splitlines()
    assert (first, last) == ("simulated", "7 simulated")
    assert second == third
    assert second.startswith("NoDeviceError 914 ")
    assert "spawn" in second


def test_a_child_forked_before_the_choice_makes_its_own():
    """And so does its parent."""
    done = python(
        """
        import gpulend
        child = os.fork()
        if child:
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(kind(), flush=True)
        """,
        GPULEND_DEVICE="simulated",
    )
    assert done.stdout == "simulated\n0\nsimulated\n"


def test_a_driver_that_forks_while_it_starts_does_not_hang(tmp_path):
    """NVIDIA's does, to load its kernel module: no lock of ours may be held then."""
    source = """
        #include <unistd.h>
        #include <sys/wait.h>
        int cuInit(unsigned flags) {
            int child = fork();
            if (child == 0) _exit(0);
            waitpid(child, 0, 0);
            return 100;
        }
        int cuGetErrorName(int code, const char **name) { return 1; }
        int cuDriverGetVersion, cuDeviceGetCount, cuDeviceGet, cuDeviceGetName, cuDeviceTotalMem_v2,
            cuDeviceGetAttribute;
        """
    compile_c(source, tmp_path / "libcuda.so.1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    done = python("print(refusal(kind))", LD_LIBRARY_PATH=tmp_path)
    assert done.stdout.startswith("NoDeviceError 906 ")


ORDERS = {
    "torch before gpulend": "import torch; import gpulend; kind()",
    "gpulend before torch": "import gpulend; import torch; kind()",
    "gpulend used before torch": "import gpulend; kind(); import torch",
    "torch used before gpulend": "import torch; torch.cuda.is_available(); import gpulend; kind()",
    "simulate before torch": "import gpulend; gpulend.simulate(); import torch",
    "simulate after torch": "import torch; import gpulend; gpulend.simulate()",
}


@without_driver
@pytest.mark.parametrize("choice", AUTO)
@pytest.mark.parametrize("order", ORDERS)
def test_torch_built_for_cuda_keeps_saying_that_it_has_none(order, choice):
    """The simulated GPU is ours alone: no crash, and no word beyond the one line."""
    torch = need("torch")
    if torch.version.cuda is None:
        pytest.skip("torch was built without CUDA")
    done = python(
        f"""
        {ORDERS[order]}
        print(kind(), torch.cuda.is_available(), torch.cuda.device_count())
        print(torch.ones(3).sum().item(), mapped("libcuda.so"))
        lent = gpulend.lend(torch.ones(3), "numpy")
        """,
        **AUTO[choice],
    )
    assert done.stdout == "simulated False 0\n3.0 []\n"
    line = "" if "simulate" in order else THE_LINE
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == bool(line)


def test_a_missing_simulated_gpu_is_told_with_where_it_was_looked_for(tmp_path):
    """And `auto` tells both reasons."""
    missing = tmp_path / "libgpulend_sim.so"
    done = python(
        """
        from gpulend import simulator
        for use in (kind, simulator.library, simulator.driver_folder):
            print(refusal(use))
        """,
        GPULEND_DEVICE="simulated",
        GPULEND_SIM_LIBRARY=missing,
    )
    for line in done.stdout.splitlines():
        assert line.startswith("NoDeviceError 908 ")
        assert str(missing) in line
    if not a_driver_is_here():
        done = python("print(refusal(kind))", GPULEND_SIM_LIBRARY=missing)
        assert done.stdout.startswith("NoDeviceError 909 ")
        assert str(missing) in done.stdout
        assert "libcuda.so.1" in done.stdout


def test_the_doctor_tells_of_every_kind_of_driver(real, tmp_path):
    """Simulated, real, or none and why; none is no illness."""
    doctor = [sys.executable, "-m", "gpulend", "doctor"]
    text = start(doctor, GPULEND_DEVICE="simulated", GPULEND_SIM_DEVICES=2).stdout
    assert "driver: the simulated GPU, CUDA " in text
    assert "cuda:1: Simulated GPU, " in text
    assert "(simulated)" in text
    text = start(doctor, LD_LIBRARY_PATH=real).stdout
    assert f"driver: a real driver, CUDA 12.4, {real}/libcuda.so.1" in text
    assert "cuda:0: Fake GPU, 3.0 GiB, compute capability 9.0\n" in text
    text = start(doctor, LD_LIBRARY_PATH=real, FAKE_CUINIT=100).stdout
    assert "driver: none: " in text
    assert "CUDA_ERROR_NO_DEVICE" in text


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
    options = {"devices": "2", "memory": "1GiB", "seed": "7", "check": "off"}
    rules = "cuMemAlloc#3=OUT_OF_MEMORY"
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    given += ["--faults", rules, "--report", "report.json"]
    done = gpulend_run(*given, "--", "env", LD_LIBRARY_PATH="/somewhere:/else")
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    for name, value in options.items():
        assert found[f"GPULEND_SIM_{name.upper()}"] == value
    assert found["GPULEND_SIM_FAULTS"] == rules
    assert found["GPULEND_SIM_REPORT"] == os.path.abspath("report.json")
    assert found["GPULEND_DEVICE"] == "simulated"
    ours, _, others = found["LD_LIBRARY_PATH"].partition(":")
    assert os.path.basename(ours) == "driver"
    assert others == "/somewhere:/else"
    # A trailing colon would put the current folder on the path.
    alone = gpulend_run("--", "sh", "-c", "echo $LD_LIBRARY_PATH", LD_LIBRARY_PATH="")
    assert alone.stdout == f"{ours}\n"


def test_the_report_lies_where_it_was_asked_for(finder, tmp_path):
    """Also when the program went elsewhere meanwhile."""
    where = os.path.relpath(tmp_path / "report.json")
    gpulend_run("--report", where, "--", "sh", "-c", f"cd / && {finder}")
    assert json.loads((tmp_path / "report.json").read_text())["calls"]["cuInit"] == 1


def test_a_setting_that_cannot_be_is_told_before_the_program_starts():
    """The program itself would only see that cuInit fails."""
    for option, value in (("devices", "30"), ("memory", "lots"), ("check", "hard"), ("seed", "x")):
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
    assert (done.stdout, done.stderr) == ("False 3.0\n", "")


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
