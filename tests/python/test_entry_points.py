"""Entry points of other packages: one that is broken, slow or interrupted spoils no other."""

from __future__ import annotations

import json
import os
import sys

import pytest
from machines import start
from test_command_line import run

GOOD = """
from gpulend.adapters import Adapter, Framework
F = Framework("{name}", Adapter())
"""
# What each program begins with.
PRELUDE = """
import sys, threading, time, warnings
import gpulend
from gpulend import adapters
class Unknown: pass
def meet():
    try:
        gpulend.borrow(Unknown())
    except gpulend.ProtocolError as error:
        assert error.code == 250, error
def good():
    return sorted(name for name in adapters.FRAMEWORKS if name.startswith("good"))
"""


@pytest.fixture
def package(tmp_path):
    """Return a function that lays out a package with one entry point, and one for the path."""

    def lay_out(name, module, points="[gpulend.frameworks]\n{name} = {name}_plugin:F\n"):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points.format(name=name))
        (tmp_path / f"{name}_plugin.py").write_text(module.format(name=name))
        return str(tmp_path)

    return lay_out


def several(package, bad):
    """Lay out a bad plug-in among good ones; return the search path."""
    for index in range(4):
        package(f"good{index}", GOOD)
    return package("bad", bad)


def program(text, path, *options, check=True):
    """Run a program that finds the packages."""
    found = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
    return start([sys.executable, *options, "-c", PRELUDE + text], check, PYTHONPATH=found)


@pytest.mark.parametrize("use", ["register", "borrow", "unknown"])
def test_a_plug_in_that_another_thread_imports_may_call_us(package, use):
    """That thread holds the lock of the module, for which the reader of entry points waits."""
    uses = {
        "register": "gpulend.register(Framework('extra', Adapter()))",
        "borrow": "gpulend.borrow(b'x')",
        "unknown": "import contextlib\nwith contextlib.suppress(gpulend.Error):\n"
        "    gpulend.borrow(type('U', (), dict())())",
    }
    path = package("plug", GOOD + "import gpulend, time\ntime.sleep(0.5)\n" + uses[use])
    text = """
def imports():
    import plug_plugin
threads = [threading.Thread(target=target, daemon=True) for target in (imports, meet)]
for thread in threads:
    thread.start()
    time.sleep(0.2)
for thread in threads:
    thread.join(20)
print([thread.is_alive() for thread in threads], "plug" in adapters.FRAMEWORKS, flush=True)
import os
os._exit(0)
"""
    done = program(text, path)
    assert done.stdout.strip() == "[False, False] True", done.stderr
    assert "brings no framework" not in done.stderr


@pytest.mark.parametrize("code", [0, 7, "'no GPU here'"])
def test_a_plug_in_that_exits_is_warned_of(package, code):
    """The program goes on, and the others are there."""
    path = several(package, f"import sys\nsys.exit({code})\n")
    done = program("meet()\nprint(good())", path)
    assert done.stdout.strip() == str([f"good{index}" for index in range(4)])
    assert "the entry point 'bad' (bad_plugin:F)" in done.stderr
    assert "SystemExit" in done.stderr


@pytest.mark.parametrize(
    ("points", "named"),
    [
        ("[other.group]\nno equals sign here\n", False),
        ("[gpulend.frameworks]\nno equals sign here\n", True),
    ],
    ids=["of others", "ours"],
)
def test_a_file_that_cannot_be_read_spoils_no_other(package, points, named):
    """Only if it speaks of our group is it warned of, with the name of its package."""
    for index in range(4):
        package(f"good{index}", GOOD)
    path = package("crooked", GOOD, points)
    done = program("meet()\nprint(good())", path)
    assert done.stdout.strip() == str([f"good{index}" for index in range(4)])
    assert ("the entry points of crooked cannot be read" in done.stderr) == named


def test_a_newer_version_hides_an_older_one_behind_it(package, tmp_path):
    """As for everything that is imported."""
    path = package("good0", GOOD)
    older = tmp_path / "older"
    older.mkdir()
    info = older / "good0-0.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: good0\nVersion: 0.9\n")
    (info / "entry_points.txt").write_text("[gpulend.frameworks]\nold = no_such_module:F\n")
    done = program("meet()\nprint(good())", os.pathsep.join((path, str(older))))
    assert (done.stdout.strip(), done.stderr) == ("['good0']", "")


def test_an_interrupt_is_passed_on_and_the_rest_read_later(package):
    """At the next chance, before the one that was interrupted."""
    path = several(package, "raise KeyboardInterrupt\n")
    text = """
for _ in range(2):
    try:
        meet()
    except KeyboardInterrupt:
        print("interrupted")
print(good())
"""
    done = program(text, path).stdout.splitlines()
    assert done == ["interrupted", "interrupted", str([f"good{index}" for index in range(4)])]


def test_a_warning_that_is_an_error_comes_once(package):
    """The rest is read at the next chance."""
    path = several(package, "raise ValueError('bad')\n")
    text = """
try:
    meet()
except UserWarning as warning:
    print("bad_plugin" in str(warning))
meet()
print(good())
"""
    done = program(text, path, "-W", "error").stdout.splitlines()
    assert done == ["True", str([f"good{index}" for index in range(4)])]


def test_the_framework_of_a_subclass_is_asked_before_that_of_its_base(package):
    """Its package is not known yet, and its base is NumPy's."""
    plugin = """
import numpy
from gpulend import ExportError
from gpulend.adapters import Adapter, Framework, Producer
class Metres(numpy.ndarray): pass
def refuse_type(cls):
    raise ExportError("metres are no numbers", 350)
units = Producer(knows=lambda cls: cls is Metres, refuse_type=refuse_type)
F = Framework("{name}", Adapter(producers=(units,)), module=__name__)
"""
    text = """
import numpy
from units_plugin import Metres
try:
    gpulend.borrow(numpy.zeros(3).view(Metres))
except gpulend.ExportError as error:
    print(error)
"""
    assert program(text, package("units", plugin)).stdout.strip() == "metres are no numbers"


def test_threads_that_come_meanwhile_see_all_of_them(package):
    """They do not take the half that was read for the whole."""
    slow = """
import time
time.sleep(0.2)
from gpulend.adapters import Adapter, Framework, Producer
def knows(cls):
    return cls.__name__ == "Box_{name}"
box = Producer(knows=knows, place=lambda x: None, stand_in=lambda x, s, r: x.array)
F = Framework("{name}", Adapter(producers=(box,)), module="__main__")
"""
    for index in range(4):
        path = package(f"good{index}", slow)
    text = """
boxes = [type(f"Box_good{index}", (), dict(array=bytearray(3))) for index in range(4)]
shapes = dict()
def go(index):
    time.sleep(0.1 * index)
    shapes[index] = gpulend.borrow(boxes[index]()).shape
threads = [threading.Thread(target=go, args=(index,)) for index in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(shapes.items()))
"""
    done = program(text, path)
    assert done.stdout.strip() == str([(index, (3,)) for index in range(4)]), done.stderr


@pytest.mark.parametrize(
    "use",
    ["gpulend.register(adapters.Framework('child', adapters.Adapter()))", "meet()", "lend()"],
)
def test_a_forked_child_waits_for_no_thread_of_its_parent(package, use):
    """What that thread was importing is left out, and the others are read."""
    package("good0", GOOD)
    path = package("slow", "import time\ntime.sleep(2)\n" + GOOD)
    text = f"""
import os, signal
def lend():
    try:
        gpulend.lend(b"x", "slow")
    except gpulend.ProtocolError as error:
        assert error.code == 254
threading.Thread(target=meet, daemon=True).start()
while "slow_plugin" not in sys.modules:
    time.sleep(0.01)
child = os.fork()
if child == 0:
    signal.alarm(10)
    {use}
    adapters.read_entry_points()
    os._exit(0 if good() == ["good0"] else 1)
print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""
    assert program(text, path).stdout.strip() == "0"


def test_the_doctor_reports_what_is_broken_and_prints_json_alone(package):
    """A plug-in that prints, one that raises, and one that exits: none ends the examination."""
    package("loud", "print('hello')\nimport os\nos.write(1, b'again')\n" + GOOD)
    package("broken", "raise ValueError('a bug')\n")
    path = package("gone", "import sys\nsys.exit(0)\n")
    found = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
    done = run("doctor", "--json", "--only", "gpulend", PYTHONPATH=found)
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"]) == (1, False)
    broken, gone = sorted(report["entry_points"])
    assert "'broken' (broken_plugin:F)" in broken
    assert "ValueError: a bug" in broken
    assert "'gone' (gone_plugin:F)" in gone
    shown = run("doctor", "--only", "gpulend", PYTHONPATH=found).stdout
    assert "BROKEN: the entry point 'gone'" in shown


POINTER = """
from gpulend.adapters import Framework
F = Framework("{name}", "bad_adapter", module="json")
"""
ADAPTERS = {
    "none": "x = 1\n",
    "number": "ADAPTER = 5\n",
    "exits": "import sys\nsys.exit(0)\n",
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_module_without_an_adapter_is_broken(package, tmp_path, adapter):
    """For the doctor, and for those who lend to the framework."""
    path = package("bad", POINTER)
    (tmp_path / "bad_adapter.py").write_text(ADAPTERS[adapter])
    found = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
    done = run("doctor", "--json", "--only", "gpulend,bad", PYTHONPATH=found)
    report = json.loads(done.stdout)
    states = {item["name"]: (item["state"], item["problem"]) for item in report["frameworks"]}
    assert states["bad"][0] == "broken"
    assert "adapter" in states["bad"][1]
    assert (done.returncode, report["healthy"]) == (1, False)
    text = """
try:
    gpulend.lend(b"x", "bad")
except gpulend.ProtocolError as error:
    print(error.code, error)
"""
    code = "255" if adapter == "exits" else "253"
    assert program(text, path).stdout.startswith(f"{code} ")
