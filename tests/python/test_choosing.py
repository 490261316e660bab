"""Which driver a process uses: what the environment, the program and the machine say."""

from __future__ import annotations

import sys

import pytest
from conftest import need
from machines import (
    THE_LINE,
    a_driver_is_here,
    compile_c,
    fake_driver,
    python,
    start,
    stubs,
    without_driver,
)


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
    """A program that asks for it is not warned."""
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


@without_driver
@pytest.mark.parametrize("choice", ["cuda", "CUDA"])
def test_asking_whether_there_is_a_gpu_raises_nothing(choice):
    """There is none; and the next question is answered in the same way."""
    program = "import gpulend; print(gpulend.is_available(), gpulend.device_count())"
    done = python(f"{program}\n{program}\nprint(mapped('libgpulend_sim'))", GPULEND_DEVICE=choice)
    assert (done.stdout, done.stderr) == ("False 0\nFalse 0\n[]\n", "")


def test_a_driver_that_does_not_start_is_no_gpu(real):
    """As one without devices; `gpulend.empty` says why."""
    done = python(
        """
        import gpulend
        print(gpulend.is_available(), gpulend.device_count())
        print(refusal(lambda: gpulend.empty(0)))
        """,
        LD_LIBRARY_PATH=real,
        FAKE_CUINIT="100",
    )
    assert done.stdout.startswith("False 0\nNoDeviceError 906 ")


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


@without_driver
def test_a_driver_that_comes_between_two_calls_is_noticed(real):
    """That there was none is remembered only until the process loads another library."""
    done = python(
        """
        import gpulend
        class Array:
            __cuda_array_interface__ = dict(
                shape=(1,), typestr="<f4", data=(1 << 40, False), version=3, stream=None
            )
        borrow = lambda: gpulend.borrow(Array())
        print(refusal(borrow).split()[1], refusal(borrow).split()[1])
        ctypes.CDLL(DRIVER)
        print(refusal(borrow))
        """.replace("DRIVER", repr(str(real / "libcuda.so.1"))),
        FAKE_CUINIT="100",
    )
    assert done.stdout.startswith("902 902\nNoDeviceError 906 "), done.stdout


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


def test_how_mistakes_are_looked_for_is_said_by_name():
    """All four settings reach the simulated GPU, which is asked for what it has."""
    done = python(
        """
        import gpulend
        wanted = dict(check="off", timeout=5, sticky=True, accept_nvvm=False)
        gpulend.simulate(**wanted)
        gpulend.simulate(**wanted)
        print(refusal(lambda: gpulend.simulate(**wanted | {"sticky": False})))
        """
    )
    settings = "(timeout=5,sticky=1,accept_nvvm=0,check=off)"
    assert done.stdout.startswith(f"NoDeviceError 911 the simulated GPU {settings} ")


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
        *("check='all'", "check=True", "check='off,seed=3'", "timeout=-1", "timeout=1.5"),
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
        """
    source += stubs(source)
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


# Each takes the seconds of an import of torch: the other choice comes with the usual order alone.
CHOSEN = [*((order, "unset") for order in ORDERS), ("torch before gpulend", "auto")]


@without_driver
@pytest.mark.parametrize(("order", "choice"), CHOSEN)
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
    """And `auto` gives both reasons."""
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
    """Simulated, real, or none and why; none is healthy, one that does not work is not."""
    doctor = [sys.executable, "-m", "gpulend", "doctor", "--only", "numpy"]
    text = start(doctor, GPULEND_DEVICE="simulated", GPULEND_SIM_DEVICES=2).stdout
    assert "driver: the simulated GPU, CUDA " in text
    assert "cuda:1: Simulated GPU, " in text
    assert "(simulated)" in text
    done = start(doctor, check=False, LD_LIBRARY_PATH=real)
    assert "driver: a real driver, CUDA 12.4\n" in done.stdout
    assert f"{real}/libcuda.so.1" in done.stdout
    assert "cuda:0: Fake GPU, 3.0 GiB, compute capability 9.0\n" in done.stdout
    # It answers "not supported" to everything that matters.
    assert "PROBLEM: DriverError: " in done.stdout
    assert done.returncode == 1
    text = start(doctor, LD_LIBRARY_PATH=real, FAKE_CUINIT=100).stdout
    assert "driver: none: " in text
    assert "CUDA_ERROR_NO_DEVICE" in text
