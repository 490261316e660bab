"""`gpulend doctor`, run as a user runs it, also where a framework is broken."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from html.parser import HTMLParser
from itertools import product

import gpulend
import pytest
from conftest import need
from gpulend import _native
from gpulend.doctor import page, render
from gpulend.doctor.report import Compiler, Driver, Framework, Missing, Pair, Report
from gpulend.doctor.subjects import known
from machines import THE_LINE, a_driver_is_here, compile_c, start, without_driver
from test_command_line import run

FAST = "gpulend,numpy,torch"
SUBJECTS = FAST.split(",")


@pytest.fixture(scope="module")
def page_path(tmp_path_factory):
    """Where the page of the one run goes."""
    return tmp_path_factory.mktemp("doctor") / "page.html"


@pytest.fixture(scope="module")
def report(page_path):
    """What `gpulend doctor --json` says here about three frameworks."""
    need("torch")
    done = run("doctor", "--json", "--only", FAST, "--html", str(page_path))
    assert done.stderr == ""
    assert done.returncode == 0
    return json.loads(done.stdout)


def pairs_of(report):
    """Return the pairs of a report by name."""
    return {(pair["producer"], pair["consumer"]): pair for pair in report["pairs"]}


def test_every_ordered_pair_is_tried_proved_and_timed(report):
    """Each with each, itself too."""
    assert set(pairs_of(report)) == set(product(SUBJECTS, SUBJECTS))
    for pair in report["pairs"]:
        assert (pair["status"], pair["zero_copy"], pair["problem"]) == ("zero copy", True, None)
        assert 0 < pair["nanoseconds"] < 1e7
    assert report["healthy"] is True


def test_the_keys_of_the_json_are_those_of_the_documentation(report):
    """A key that is added, renamed or dropped fails this."""
    written = {"frameworks": report["frameworks"][0], "pairs": report["pairs"][0]}
    written |= {name: report[name] for name in ("driver", "compiler")}
    path = os.path.join(os.path.dirname(__file__), "../../docs/doctor.md")
    with open(path) as file:
        text = file.read()
    documented = {
        table: set(re.findall(r"^\| `(\w+)` \|", part, re.M))
        for table, part in re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    }
    assert documented.pop("report") == set(report)
    missing = documented.pop("missing")
    gpus = documented.pop("gpus")
    assert documented == {table: set(values) for table, values in written.items()}
    for entry in report["missing"]:
        assert set(entry) == missing
    for gpu in report["driver"]["gpus"]:
        assert set(gpu) == gpus
    assert report["schema"] == 1


def test_what_becomes_of_read_only_memory_is_told(report):
    """NumPy and leases keep it, torch cannot and refuses."""
    readonly = {pair: values["readonly"] for pair, values in pairs_of(report).items()}
    assert readonly["numpy", "numpy"] == readonly["gpulend", "numpy"] == "kept"
    assert readonly["torch", "gpulend"] == "kept"
    assert {readonly[name, "torch"] for name in SUBJECTS} == {"refused"}


@without_driver
def test_order_waits_and_captures_are_told_on_the_simulated_gpu(report):
    """Streams wait by events, frameworks of the CPU make the host wait, captures survive."""
    pairs = pairs_of(report)
    lease = pairs["gpulend", "gpulend"]
    assert (lease["memory"], lease["order"], lease["host_waits"]) == ("gpu", "event", 0)
    assert lease["order_on_default_streams"] == "same stream"
    torch = pairs["gpulend", "torch"]
    assert (torch["memory"], torch["order"], torch["host_waits"]) == ("gpu", "host wait", 1)
    host = pairs["numpy", "torch"]
    assert (host["memory"], host["order"], host["host_waits"]) == ("host", "host memory", 0)
    assert {pair["host_waits_counted_by"] for pair in pairs.values()} == {"driver calls"}
    assert {pair["capture"] for pair in pairs.values()} == {"yes"}


def test_protocols_are_told(report):
    """By which ways an array comes in and goes out."""
    pair = pairs_of(report)["torch", "numpy"]
    assert pair["borrowed_by"] in ("torch native reader", "DLPack C exchange API")
    assert pair["lent_by"] == "DLPack"
    assert pairs_of(report)["numpy", "torch"]["lent_by"] == "DLPack C exchange API"


def test_the_route_of_torch_is_shown(report):
    """A release that does not pass the proof is read by a slower one, which nothing else shows."""
    routes = {framework["name"]: framework["route"] for framework in report["frameworks"]}
    assert routes["torch"] == _native.route(need("torch").ones(2))


def test_versions_are_told(report):
    """Of what is here, and how long its import takes."""
    assert report["gpulend"] == gpulend.__version__
    for framework in report["frameworks"]:
        assert framework["version"]
        assert framework["state"] == "here"
        assert framework["import_seconds"] >= 0


def test_the_driver_and_why_it_is_used_are_told(report):
    """Which one gpulend would use, and each of its devices; or why there is none."""
    driver = report["driver"]
    assert driver["kind"] == ("cuda" if a_driver_is_here() else "simulated")
    assert driver["problem"] is None
    assert driver["gpus"]
    assert driver["why"]
    for index, gpu in enumerate(driver["gpus"]):
        assert gpu["device"] == f"cuda:{index}"
        assert gpu["simulated"] is (driver["kind"] == "simulated")
        assert gpu["memory"] > 0


@without_driver
def test_why_it_is_the_simulated_gpu(report):
    """What the line on stderr says elsewhere, and what the machine has; or who asked for it."""
    assert "libcuda.so.1" in report["driver"]["why"]
    assert "PCI bus" in report["driver"]["why"]
    asked = run("doctor", "--json", "--only", "numpy", GPULEND_DEVICE="simulated")
    why = json.loads(asked.stdout)["driver"]["why"]
    assert why == "GPULEND_DEVICE=simulated asks for it"
    assert THE_LINE not in asked.stderr


def test_without_any_driver_host_memory_is_still_examined():
    """And the report says why there is no GPU; that does not fail the check."""
    done = run("doctor", "--json", "--only", "numpy,gpulend", GPULEND_DEVICE="nonsense")
    report = json.loads(done.stdout)
    assert report["driver"]["kind"] is None
    assert "nonsense" in report["driver"]["problem"]
    for pair in report["pairs"]:
        assert (pair["memory"], pair["zero_copy"], pair["capture"]) == ("host", True, "no GPU")
        assert pair["host_waits"] is None
    assert done.returncode == 0


def test_the_compiler_is_told(report):
    """A clang with its release, or why there is none."""
    compiler = report["compiler"]
    assert (compiler["clang"] is None) == (compiler["clang_problem"] is not None)
    need("ziglang")
    assert compiler["clang_version"].startswith("clang version ")


def test_a_compiler_that_does_not_work_is_told_with_what_installs_one():
    """As everything that is missing."""
    done = run("doctor", "--json", "--only", "numpy", GPULEND_CLANG="/bin/false")
    report = json.loads(done.stdout)
    assert "/bin/false compiles no CUDA C" in report["compiler"]["clang_problem"]
    commands = [entry["command"] for entry in report["missing"]]
    assert "pip install 'gpulend[sim]'" in commands


NVRTC = """
int nvrtcVersion(int *major, int *minor) { *major = 99; *minor = 7; return 0; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 1; return 0; }
int nvrtcGetSupportedArchs(int *targets) { *targets = 90; return 0; }
"""
NVRTC_REST = (
    *("CreateProgram", "DestroyProgram", "AddNameExpression", "GetLoweredName", "CompileProgram"),
    *("GetProgramLogSize", "GetProgramLog", "GetPTXSize", "GetPTX", "GetCUBINSize", "GetCUBIN"),
)


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_nvrtc_is_looked_for_where_compile_does(tmp_path, variable):
    """Also where a variable names the toolkit."""
    (tmp_path / "lib64").mkdir()
    library = tmp_path / "lib64" / "libnvrtc.so.13"
    rest = "".join(f"int nvrtc{name}() {{ return 0; }}\n" for name in NVRTC_REST)
    compile_c(NVRTC + rest, library, "-shared", "-fPIC")
    settings = {"CUDA_HOME": "", "CUDA_PATH": "", variable: str(tmp_path)}
    done = run("doctor", "--json", "--only", "numpy", **settings)
    compiler = json.loads(done.stdout)["compiler"]
    found = (compiler["nvrtc"], compiler["nvrtc_version"], compiler["nvrtc_problem"])
    assert found == (str(library), "99.7", None)


def path(*folders):
    """Return a search path with folders first."""
    return os.pathsep.join(filter(None, (*folders, os.environ.get("PYTHONPATH"))))


def package(folder, name, text):
    """Put a package of one line into a folder."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)
    return str(folder)


BROKEN = {
    "raises": ("raise RuntimeError('no libcublas\\nand more')", "RuntimeError: no libcublas"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "crashes": (f"import os; os.kill(os.getpid(), {signal.SIGSEGV})", "killed by SIGSEGV"),
    "hangs": ("import time; time.sleep(600)", "no answer in 5 s"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_framework_is_a_row_and_no_crash(how, tmp_path):
    """With the first line of what it said; the others are examined, and the status is 1."""
    text, expected = BROKEN[how]
    folder = package(tmp_path, "cupy", text)
    done = run("doctor", "--json", "--only", "numpy,cupy", "--limit", "5", PYTHONPATH=path(folder))
    report = json.loads(done.stdout)
    pairs = pairs_of(report)
    assert pairs["numpy", "numpy"]["zero_copy"] is True
    for pair in (("numpy", "cupy"), ("cupy", "numpy"), ("cupy", "cupy")):
        assert pairs[pair]["status"] == "broken"
        assert expected in pairs[pair]["problem"]
        assert "\n" not in pairs[pair]["problem"]
    assert "pip install --force-reinstall cupy-cuda13x" in str(report["missing"])
    assert (done.returncode, done.stderr, report["healthy"]) == (1, "", False)


# A CuPy as far as its adapter looks.
FRAGILE = """
import os, sys, types
cuda = sys.modules["cupy.cuda"] = types.ModuleType("cupy.cuda")
cuda.MemoryPointer = cuda.UnownedMemory = cuda.get_current_stream = cuda.Stream = object
"""


@without_driver
def test_a_framework_that_crashes_in_use_ends_its_own_pairs_only(tmp_path):
    """The process is started again for the rest."""
    folder = package(tmp_path, "cupy", f"{FRAGILE}\ndef zeros(*_): os.kill(os.getpid(), 6)")
    done = run("doctor", "--only", "gpulend,numpy,cupy", PYTHONPATH=path(folder))
    assert re.search(r"^cupy +DIED +DIED +DIED$", done.stdout, re.M)
    assert re.search(r"^numpy +[\d.]+ +[\d.]+ +DIED$", done.stdout, re.M)
    assert "CRASHED: the process is killed by SIGABRT" in done.stdout
    assert done.returncode == 1


# A framework that ends the process where a rival was imported before it, and the rival.
JEALOUS = """
import sys, os
if "tvm_ffi" in sys.modules:
    os._exit(7)
import numpy
from gpulend.adapters import Adapter, Consumer, Makes, Probe, Takes
ADAPTER = Adapter(
    consumer=Consumer(takes=Takes(types=["float32"]), makes=Makes(lease=numpy.from_dlpack)),
    probe=Probe(address=lambda array: array.ctypes.data, host=numpy.zeros),
)
"""
RIVAL = """
import numpy
class Tensor:
    def __init__(self, array):
        self.array = numpy.from_dlpack(array)
    def data_ptr(self):
        return self.array.ctypes.data
    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
from_dlpack = Tensor
"""
PLUGIN = """
from gpulend.adapters import Framework
FRAMEWORK = Framework("jealous", "jealous.adapter")
"""


def test_frameworks_that_cannot_live_in_one_process_are_tried_apart(tmp_path):
    """What works without the others is reported so, with what happened beside them."""
    package(tmp_path, "tvm_ffi", RIVAL)
    package(tmp_path, "jealous", "")
    (tmp_path / "jealous" / "adapter.py").write_text(JEALOUS)
    package(tmp_path, "jealous_plugin", PLUGIN)
    info = tmp_path / "jealous-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jealous\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gpulend.frameworks]\njealous = jealous_plugin:FRAMEWORK\n"
    )
    names = "numpy,tvm_ffi,jealous"
    done = run("doctor", "--json", "--only", names, PYTHONPATH=path(str(tmp_path)))
    pairs = pairs_of(json.loads(done.stdout))
    alone = pairs["jealous", "jealous"]
    assert alone["status"] != "crashed"
    assert alone["note"].startswith("only in a process without other frameworks")
    assert "ends with status 7" in alone["note"]
    assert pairs["numpy", "numpy"]["note"] is None
    assert pairs["tvm_ffi", "numpy"]["zero_copy"] is True


def test_where_no_framework_is_installed_each_is_told_with_its_command(tmp_path):
    """That does not fail the check, and gpulend itself is still examined."""
    (tmp_path / "gpulend").symlink_to(os.path.dirname(gpulend.__file__))
    library = os.path.dirname(os.__file__)
    folders = [str(tmp_path), library, os.path.join(library, "lib-dynload")]
    program = (
        f"import sys; sys.path[:] = {folders!r}\n"
        "from gpulend.cli import main\nsys.exit(main(['doctor', '--json']))"
    )
    done = start([sys.executable, "-S", "-c", program], check=False)
    report = json.loads(done.stdout)
    commands = {entry["what"]: entry["command"] for entry in report["missing"]}
    for framework in report["frameworks"][1:]:
        assert framework["state"] == "not installed"
        assert commands[framework["name"]] == framework["install"]
        assert framework["install"].startswith("pip install ")
    assert [pair["status"] for pair in report["pairs"]] == ["zero copy"]
    assert done.returncode == 0


def test_an_unknown_framework_is_a_mistake_of_the_command_line():
    """Status 2, and the known ones are named."""
    done = run("doctor", "--only", "numpy,tinygrad")
    assert done.returncode == 2
    assert "tinygrad: no framework that is examined; known are gpulend, numpy" in done.stderr


def test_a_page_that_cannot_be_written_is_told(tmp_path):
    """Status 2, after the report itself."""
    done = run("doctor", "--only", "numpy", "--html", str(tmp_path / "no" / "page.html"))
    assert done.returncode == 2
    assert "No such file or directory" in done.stderr
    assert "numpy: " in done.stdout


# Rendering: many frameworks, and every kind of outcome.


def made_up(count=None):
    """Make a report with `count` frameworks, in which everything that can be said is said."""
    names = list(known())[:count]
    outcomes = [
        {"status": "zero copy", "order": "event", "order_on_default_streams": "same stream"},
        {"status": "zero copy", "order": "host wait", "host_waits": 12, "readonly": "LOST"},
        {"status": "zero copy", "order": "NOT ORDERED", "readonly": "warned", "capture": "LOST"},
        {"status": "refused", "problem": "ExportError: <u>no</u> & never; " + "why " * 40},
        {"status": "no array", "problem": "it makes no arrays on a GPU here"},
        {"status": "crashed", "problem": "the process is killed by SIGSEGV"},
        {"status": "timed out", "problem": "no answer in 60 s"},
        {"status": "copied", "problem": "the memory is at 0x1 and arrives at 0x2"},
        {"status": "failed", "problem": "RuntimeError: no"},
    ]
    pairs = []
    for number, (producer, consumer) in enumerate(product(names, names)):
        outcome = outcomes[number % len(outcomes)]
        if outcome["status"] == "zero copy":
            outcome = outcome | {
                "zero_copy": True,
                "memory": "host",
                "nanoseconds": 10.0 ** (2 + number % 6),
                "borrowed_by": "__cuda_array_interface__",
                "lent_by": "DLPack C exchange API",
            }
        pairs.append(Pair(producer, consumer, **outcome))
    driver = Driver("simulated", "/lib/libgpulend_sim.so", "13.2", [], "because " * 30, None)
    frameworks = [Framework(name, "1.0", None, f"pip install {name}") for name in names]
    missing = [Missing("a <compiler>", "pip install 'gpulend[sim]'")]
    compiler = Compiler(None, None, "none & nowhere", None, None, "none")
    return Report("1", "3", "Linux", driver, compiler, frameworks, pairs, missing, 1.0)


@pytest.mark.parametrize("width", [80, 90, 100, 200])
@pytest.mark.parametrize("count", [1, 3, 7, len(known())])
def test_the_tables_fit_the_terminal(width, count):
    """Also with every framework that is known, in 80 columns."""
    text = render(made_up(count), width)
    assert max(map(len, text.splitlines())) <= min(width, 100)
    for name in list(known())[:count]:
        assert re.search(rf"^{re.escape(name)} ", text, re.M), name


def test_every_symbol_of_the_narrow_table_is_explained():
    """Where there is no room for words."""
    text = render(made_up(), 80)
    assert "e event, = same stream" in text
    assert "k kept, r refused, w warned, !! LOST" in text
    assert "y yes, r refused" in text
    wide = render(made_up(2), 100)
    assert "event, same stream" in wide
    assert "e event" not in wide


def test_what_is_ill_is_said_in_capitals():
    """With the pairs that it concerns."""
    text = " ".join(render(made_up(), 100).split())
    for words in ("CRASHED:", "TIMED OUT:", "COPIED:", "FAILED:", "NOT ORDERED:", "LOST:"):
        assert words in text, words
    assert "Not well" in text


VOID = {"meta", "br"}


class Checked(HTMLParser):
    """Parses a page strictly: each element is closed, nothing comes from elsewhere."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.pairs, self.tips = [], {}, 0
        self.words = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        """Note cells, and refuse what would be fetched or run."""
        assert tag not in ("script", "link", "img", "iframe", "object"), tag
        values = dict(attributes)
        assert not {"src", "href", "srcset", "onclick"} & set(values)
        if "data-pair" in values:
            assert values["tabindex"] == "0"
            self.pairs[values["data-pair"]] = values["class"]
        self.tips += values.get("class") == "tip"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        """Check the nesting."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Keep the text, and see that style fetches nothing."""
        if self.open and self.open[-1] == "style":
            assert "url(" not in data
            assert "@import" not in data
            assert "prefers-color-scheme: dark" in data
        self.words.append(data)


def test_the_page_is_whole_and_holds_every_pair(report, page_path):
    """One cell and one text to point at for each, and nothing from elsewhere."""
    text = page_path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert 'name="viewport"' in text
    checked = Checked(text)
    wanted = {f"{one} to {two}" for one, two in product(SUBJECTS, SUBJECTS)}
    assert set(checked.pairs) == wanted
    assert checked.tips == len(wanted)


def test_the_page_shows_every_outcome_and_escapes_what_it_is_told():
    """What an error says is text, never markup."""
    report = made_up()
    text = page(report)
    checked = Checked(text)
    assert len(checked.pairs) == len(report.pairs)
    for pair in report.pairs:
        kind = checked.pairs[f"{pair.producer} to {pair.consumer}"].split()
        assert ("bad" in kind) == (not pair.healthy)
        assert any(name[0] == "h" for name in kind) == pair.zero_copy
    assert "<u>" not in text
    assert any("<u>no</u> & never" in words for words in checked.words)
    assert "a <compiler>" in "".join(checked.words)
