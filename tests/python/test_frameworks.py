"""Frameworks of other packages take part as ours do, registered by hand or by an entry point."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import sys
import weakref
from pathlib import Path
from types import ModuleType

import gpulend
import numpy as np
import pytest
from conftest import need
from gpulend import _native, adapters
from gpulend.adapters import Adapter, Consumer, Framework, Makes, Producer, Takes
from machines import start
from test_command_line import run

# A framework whose arrays speak no protocol, and its adapter, as another package would bring them.
BLOCKS = """
import numpy as np
class Block:
    def __init__(self, array):
        self.array = array
    @property
    def address(self):
        return self.array.ctypes.data
"""
ADAPTER = """
import blocks
import numpy as np
from gpulend.adapters import Adapter, Consumer, Makes, Probe, Producer, Takes, made_of

def place(block):
    return None

def fill(block, byte):
    block.array.fill(byte)
    return block

ADAPTER = Adapter(
    producers=(
        Producer(
            knows=made_of(("blocks", "Block")),
            place=place,
            stand_in=lambda block, stream, ready_on: block.array,
            protocol="blocks",
            stands_in=True,
            conversion="Block.of({name}, '{fit}')",
        ),
    ),
    consumer=Consumer(
        takes=Takes(types=["float32", "uint8"], readonly=True),
        makes=Makes(lease=lambda lease: blocks.Block(np.from_dlpack(lease)), protocol="building"),
        address="address",
    ),
    probe=Probe(
        address=lambda block: block.address,
        host=lambda shape, dtype: blocks.Block(np.zeros(shape, dtype)),
        copied=lambda host, where: blocks.Block(host.copy()),
        fill=fill,
        values=lambda block: block.array,
    ),
)
"""
POINTS = """[gpulend.frameworks]
broken = blocks_gpulend:NO_SUCH_NAME
blocks = blocks_gpulend:FRAMEWORK
"""
PLUGIN = """
from gpulend.adapters import Framework
FRAMEWORK = Framework("blocks", "blocks_adapter")
"""


@pytest.fixture
def installed(tmp_path):
    """Lay out a package with two entry points, one of them broken; return the search path."""
    files = {"blocks": BLOCKS, "blocks_adapter": ADAPTER, "blocks_gpulend": PLUGIN}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    info = tmp_path / "blocks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: blocks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    return os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))


@pytest.fixture
def registry():
    """Take away afterwards what a test registers."""
    before = dict(adapters.FRAMEWORKS)
    yield
    for name in adapters.FRAMEWORKS.keys() - before.keys():
        del adapters.FRAMEWORKS[name]
        adapters.CONSUMERS.pop(name, None)
    _native._forget_routes()


class Crate:
    """An array of a framework that is registered in this process."""

    def __init__(self, array):
        self.array = array
        self.address = array.ctypes.data

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def crates(**producer):
    """Describe the framework of crates."""
    adapter = Adapter(
        producers=(Producer(knows=lambda cls: issubclass(cls, Crate), **producer),),
        consumer=Consumer(
            takes=Takes(types=["float32"]),
            makes=Makes(lease=lambda lease: Crate(np.from_dlpack(lease))),
            address="address",
        ),
    )
    return Framework("crates", adapter, module=__name__)


def test_a_registered_framework_is_borrowed_from_and_lent_to(registry):
    """By its name, both at the same address; what it lacks is refused as for any other."""
    gpulend.register(crates(immutable=False))
    array = np.arange(4, dtype=np.float32)
    crate = gpulend.lend(array, "crates")
    assert (type(crate), crate.address) == (Crate, array.ctypes.data)
    assert gpulend.lend(crate, "numpy").ctypes.data == array.ctypes.data
    with pytest.raises(gpulend.ExportError, match="crates has no element type float64"):
        gpulend.lend(np.zeros(3), "crates")
    with pytest.raises(gpulend.ExportError, match="read-only"):
        gpulend.borrow(array).as_readonly().lend("crates")


def test_registering_takes_effect_on_types_that_were_borrowed_before(registry):
    """Their routes are forgotten."""
    crate = Crate(np.zeros(3, np.float32))
    assert _native.route(crate) == "DLPack"
    assert not gpulend.borrow(crate).readonly

    def refuse(_crate, used):
        raise gpulend.ExportError(f"no crate is {used}", 350)

    gpulend.register(crates(refuse=refuse))
    with pytest.raises(gpulend.ExportError, match="no crate is kept"):
        gpulend.borrow(crate)
    assert gpulend.borrow(crate, check=False).shape == (3,)


CRANE = {
    "place": lambda _crate: None,
    "stand_in": lambda crate, _stream, _ready_on: crate.array,
    "protocol": "crane",
}


@pytest.mark.parametrize("options", [{}, CRANE], ids=["protocol", "adapter"])
def test_what_an_adapter_calls_immutable_is_read_only(registry, options):
    """Whether the adapter or a protocol brings the array in, and whatever that says."""
    gpulend.register(crates(immutable=True, **options))
    crate = Crate(np.zeros(3, np.float32))
    assert _native.route(crate) == options.get("protocol", "DLPack")
    assert gpulend.borrow(crate).readonly


def test_a_name_is_registered_once(registry):
    """The same object again is accepted; another one of that name is refused, in words."""
    first = crates()
    gpulend.register(first)
    gpulend.register(first)
    with pytest.raises(gpulend.ProtocolError, match="'crates' is registered already"):
        gpulend.register(crates())
    with pytest.raises(gpulend.ProtocolError, match="'numpy' is registered already"):
        gpulend.register(Framework("numpy", Adapter()))
    with pytest.raises(gpulend.ProtocolError, match=r"is not a gpulend\.adapters\.Framework"):
        gpulend.register("crates")
    assert adapters.FRAMEWORKS["crates"] is first


def test_types_without_a_module_are_borrowed():
    """As ctypes makes them where nobody has a name."""
    array = eval("(ctypes.c_double * 977)()", {"ctypes": ctypes})
    assert not hasattr(type(array), "__module__")
    assert gpulend.borrow(array).shape == (977,)


def test_a_framework_that_only_produces_takes_nothing(registry):
    """It has no consumer, and lending to it says so."""
    gpulend.register(Framework("springs", Adapter()))
    with pytest.raises(gpulend.ProtocolError, match="springs takes no memory"):
        gpulend.lend(np.zeros(3), "springs")


LAZY = """
import sys, warnings, gpulend
warnings.simplefilter("always")
gpulend.borrow(bytearray(3))
print("blocks_gpulend" in sys.modules)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import blocks
    import numpy as np
    array = np.zeros(3, np.float32)
    FIRST
    gpulend.borrow(blocks.Block(array))
print([str(warning.message) for warning in said])
block = gpulend.lend(array, "blocks")
print(type(block).__name__, block.address == array.ctypes.data)
print(gpulend._native.route(block))
"""


@pytest.mark.parametrize("first", ["pass", 'gpulend.lend(array, "blocks")'])
def test_an_entry_point_is_read_when_something_unknown_is_met(installed, first):
    """A type or a name; once, and the broken one of the two is named and breaks nothing."""
    program = LAZY.replace("FIRST", first)
    done = start([sys.executable, "-c", program], PYTHONPATH=installed)
    lazy, warned, lent, route = done.stdout.splitlines()
    assert lazy == "False"
    assert warned.count("brings no framework") == 1
    assert "'broken' (blocks_gpulend:NO_SUCH_NAME)" in warned
    assert (lent, route) == ("Block True", "blocks")


def test_the_doctor_examines_a_framework_of_another_package(installed):
    """Zero copy both ways, with its own names for what it is borrowed and made by."""
    names = "gpulend,numpy,blocks"
    done = run("doctor", "--json", "--only", names, PYTHONPATH=installed)
    report = json.loads(done.stdout)
    pairs = {(pair["producer"], pair["consumer"]): pair for pair in report["pairs"]}
    assert len(pairs) == 9
    assert {pair["status"] for pair in pairs.values()} == {"zero copy"}
    assert pairs["blocks", "numpy"]["borrowed_by"] == "blocks"
    assert pairs["numpy", "blocks"]["lent_by"] == "building"
    versions = {item["name"]: item["version"] for item in report["frameworks"]}
    assert versions["blocks"] == "1.0"


LAUNCH = """
import gpulend, blocks
import numpy as np
source = "__global__ void add(const float *a, float *b) { b[threadIdx.x] += a[0]; }"
add = gpulend.compile(source)["add"]
a, b = (blocks.Block(np.full(4, value, np.float32)) for value in (1, 2))
add[1, 4](a, b)
print(b.array.tolist())
add[1, 4](gpulend.borrow(a), gpulend.borrow(b))
print(b.array.tolist())
try:
    add[1, 4](a, blocks.Block(np.zeros(4, np.int32)))
except gpulend.SignatureError as error:
    print(error)
"""


def test_a_launch_takes_arrays_of_a_framework_of_another_package(installed):
    """Its host arrays stand in on a simulated GPU, as it says; a wrong one is refused in words."""
    need("ziglang")
    done = start(
        [sys.executable, "-W", "ignore", "-c", LAUNCH],
        PYTHONPATH=installed,
        GPULEND_DEVICE="simulated",
    )
    array, lease, words = done.stdout.splitlines()
    assert (array, lease) == (str([3.0] * 4), str([4.0] * 4))
    assert "convert it (Block.of(b, 'float32'))" in words


def test_a_framework_of_another_package_is_in_the_matrix_of_laws(installed):
    """Each law that the suite checks of ours, from and to it, by its adapter's probe."""
    suite = Path(__file__).parents[1] / "gpu/test_matrix.py"
    pairs = "numpy-blocks or blocks-numpy or blocks-blocks"
    done = start(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-W",
            "ignore:the entry point",
            "-k",
            pairs,
            str(suite),
        ],
        PYTHONPATH=installed,
        GPULEND_PROMISED="numpy,blocks",
    )
    assert re.search(r"^(\d+) passed, \d+ deselected", done.stdout, re.M), done.stdout


EXAMINE = """
import gpulend
from gpulend.adapters import Framework
from gpulend.doctor import examine
gpulend.register(Framework("bricks", "blocks_adapter", module="blocks", install="blocks"))
report = examine(["gpulend", "bricks"])
print([(pair.producer, pair.consumer, pair.status) for pair in report.pairs])
"""


def test_the_doctor_examines_what_its_own_process_registered(installed):
    """Its processes import the adapter that was named."""
    done = start([sys.executable, "-W", "ignore", "-c", EXAMINE], PYTHONPATH=installed)
    sides = ("gpulend", "bricks")
    assert done.stdout.strip() == str([(a, b, "zero copy") for a in sides for b in sides])


def test_a_type_that_was_met_before_its_framework_was_imported_is_known_after(
    registry, monkeypatch
):
    """The error before says which import is missing."""

    class Box:
        def __init__(self):
            self.array = np.zeros(3, np.float32)

    producer = Producer(
        knows=lambda cls: cls is Box,
        place=lambda _box: None,
        stand_in=lambda box, _stream, _ready_on: box.array,
    )
    adapter = Adapter(producers=(producer,))
    gpulend.register(Framework("boxes", adapter, module="boxes_lib", packages=(__name__,)))
    with pytest.raises(gpulend.ProtocolError, match="once boxes_lib is imported") as caught:
        gpulend.borrow(Box())
    assert caught.value.code == 250
    monkeypatch.setitem(sys.modules, "boxes_lib", ModuleType("boxes_lib"))
    assert gpulend.borrow(Box()).shape == (3,)


def test_an_answer_that_was_begun_before_another_thread_registered_is_not_remembered(registry):
    """It did not know of the new framework."""

    class Sack:
        def __init__(self):
            self.array = np.zeros(5, np.float32)

    def of_sacks(cls):
        return cls is Sack

    def knows(cls):
        if cls is Sack and "sacks" not in adapters.FRAMEWORKS:
            # As another thread would, meanwhile.
            producer = Producer(
                knows=of_sacks,
                place=lambda _sack: None,
                stand_in=lambda sack, _stream, _ready_on: sack.array,
            )
            adapter = Adapter(producers=(producer,))
            gpulend.register(Framework("sacks", adapter, module=__name__))
        return False

    adapter = Adapter(producers=(Producer(knows=knows),))
    gpulend.register(Framework("slow", adapter, module=__name__))
    with pytest.raises(gpulend.ProtocolError):
        gpulend.borrow(Sack())
    assert gpulend.borrow(Sack()).shape == (5,)


class Described:
    """Memory of somebody else's."""

    def __init__(self, interface):
        self.__array_interface__ = interface


@pytest.mark.parametrize(
    "stand_in",
    [
        lambda block: Described(block.array.__array_interface__),
        lambda block: (ctypes.c_float * 4).from_address(block.array.ctypes.data),
    ],
    ids=["interface", "ctypes"],
)
def test_a_lease_keeps_the_array_that_another_one_stands_in_for(registry, stand_in):
    """What stands in may merely describe the memory."""

    class Block:
        def __init__(self):
            self.array = np.full(4, 7, np.float32)

    producer = Producer(
        knows=lambda cls: cls is Block,
        place=lambda _block: None,
        stand_in=lambda block, _stream, _ready_on: stand_in(block),
    )
    gpulend.register(Framework("blocks", Adapter(producers=(producer,)), module=__name__))
    block = Block()
    kept = weakref.ref(block.array)
    lease = gpulend.borrow(block)
    del block
    gc.collect()
    assert kept() is not None
    assert lease.to_host().tolist() == [7] * 4
    lease.release()
    gc.collect()
    assert kept() is None


class Address:
    """An array that is an address, and what it keeps."""

    def __init__(self, address, kept=None):
        self.address = address
        self.kept = kept


WRONG = {
    "an empty name": lambda: Framework("", Adapter()),
    "a null byte": lambda: Framework("x\0y", Adapter()),
    "a surrogate": lambda: Framework("\ud800", Adapter()),
    "a trailing blank": lambda: Framework("torch ", Adapter()),
    "a comma": lambda: Framework("a,b", Adapter()),
    "a name that is a number": lambda: Framework(3, Adapter()),
    "other case": lambda: Framework("NumPy", Adapter()),
    "our own name": lambda: Framework("gpulend", Adapter()),
    "an adapter that is a number": lambda: Framework("wrong", 3),
    "packages of numbers": lambda: Framework("wrong", Adapter(), packages=(1, 2)),
    "packages that are a str": lambda: Framework("wrong", Adapter(), packages="abc"),
    "a module that is a number": lambda: Framework("wrong", Adapter(), module=3),
    "producers": lambda: Framework("wrong", Adapter(producers=3)),
    "a producer": lambda: Framework("wrong", Adapter(producers=(3,))),
    "a consumer": lambda: Framework("wrong", Adapter(consumer=3)),
    "knows": lambda: Framework("wrong", Adapter(producers=(Producer(knows=None),))),
    "stand_in alone": lambda: Framework(
        "wrong",
        Adapter(producers=(Producer(knows=callable, stand_in=lambda a, _s, _r: a),)),
    ),
    "takes": lambda: Framework("wrong", Adapter(consumer=Consumer(takes=3, makes=Makes()))),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_framework_that_is_described_wrongly_is_refused(registry, what):
    """When it is registered, in words, and nothing stays of it."""
    before = dict(adapters.FRAMEWORKS)
    with pytest.raises(gpulend.ProtocolError) as caught:
        gpulend.register(WRONG[what]())
    assert caught.value.code == 253
    assert before == adapters.FRAMEWORKS


@pytest.mark.parametrize("place", [-1, 10**30, "x", 1.5])
def test_a_place_that_is_none_is_refused_in_words(registry, place):
    """The adapter returned it."""
    gpulend.register(crates(place=lambda _crate: place, stand_in=lambda c, _s, _r: c.array))
    with pytest.raises(gpulend.ProtocolError, match=r"place\(.*Crate\) of the adapter") as caught:
        gpulend.borrow(Crate(np.zeros(3, np.float32)))
    assert caught.value.code == 253


def test_what_stand_in_raises_is_the_cause(registry):
    """The message names the function, and not a method that the array does not have."""

    def raises(_crate, _stream, _ready_on):
        raise ValueError("a bug")

    gpulend.register(crates(place=lambda _crate: None, stand_in=raises))
    with pytest.raises(gpulend.ProtocolError, match=r"the adapter's stand_in\(") as caught:
        gpulend.borrow(Crate(np.zeros(3, np.float32)))
    assert caught.value.code == 251
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("address", ["nowhere", lambda _a: "s", lambda _a: -1, lambda _a: 1 / 0])
def test_an_address_that_cannot_be_read_is_refused_in_words(registry, address):
    """With what failed as the cause."""
    consumer = Consumer(
        takes=Takes(types=["float32"]),
        makes=Makes(lease=lambda lease: Address(lease.address, lease)),
        address=address,
    )
    gpulend.register(Framework("lost", Adapter(consumer=consumer), module=__name__))
    with pytest.raises(gpulend.ProtocolError, match="does not tell the address") as caught:
        gpulend.lend(np.zeros(3, np.float32), "lost")
    assert caught.value.code == 253
    assert caught.value.__cause__ is not None
