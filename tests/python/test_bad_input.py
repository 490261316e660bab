"""Bad input: a named error that says what was found, one release, and the next call works."""

from __future__ import annotations

import array
import ctypes
import mmap
import subprocess
import sys

import gpulend
import numpy as np
import pytest
from capsules import Producer, Sample, capsule

BUILTIN = {
    gpulend.LayoutError: ValueError,
    gpulend.ProtocolError: TypeError,
    gpulend.ExportError: BufferError,
    gpulend.AddressError: ValueError,
    gpulend.NoDeviceError: RuntimeError,
}


def assert_refused(kind, found, call, *arguments, **options):
    """The call raises exactly `kind`, names `found`, and spoils nothing for the next."""
    with pytest.raises(kind, match=found) as caught:
        call(*arguments, **options)
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, BUILTIN[kind])
    assert isinstance(error.code, int)
    assert error.code > 0
    numbers = array.array("i", [4, 5])
    assert gpulend.borrow(numbers).to_host().tolist() == [4, 5]
    good = Sample()
    assert gpulend.borrow(good.capsule()).to_host().tolist() == [0.0, 1.0, 2.0]
    assert good.released == 1


TENSORS = {
    "ndim -1": (dict(ndim=-1), gpulend.LayoutError, "-1 axes"),
    "ndim 65": (dict(shape=(1,) * 65), gpulend.LayoutError, "65 axes"),
    "NULL shape": (dict(shape=None, ndim=2), gpulend.ProtocolError, "shape is null"),
    "NULL data": (dict(data=None), gpulend.AddressError, "null .* 3 elements"),
    "misaligned": (dict(byte_offset=1), gpulend.AddressError, "not a multiple of 4.*float32"),
    "offset past the end": (
        dict(byte_offset=2**64 - 8),
        gpulend.AddressError,
        "18446744073709551608",
    ),
    "span past the end": (
        dict(data=2**64 - 8),
        gpulend.AddressError,
        "12 bytes at 0xfffffffffffffff8 run past",
    ),
    "span before the start": (
        dict(data=4, strides=(-1,)),
        gpulend.AddressError,
        "0x4 run past",
    ),
    "negative extent": (dict(shape=(2, -3)), gpulend.LayoutError, "axis 1 has extent -3"),
    "size overflow": (dict(shape=(2**40, 2**40)), gpulend.LayoutError, "axis .* past .* 64 bits"),
    "stride overflow": (dict(strides=(2**62,)), gpulend.LayoutError, "axis 0 .* 64 bits"),
    "code 19": (dict(dtype=(19, 32, 1)), gpulend.LayoutError, "code 19 and 32 bits"),
    "code 255": (dict(dtype=(255, 8, 1)), gpulend.LayoutError, "code 255 and 8 bits"),
    "float of 7 bits": (dict(dtype=(2, 7, 1)), gpulend.LayoutError, "code 2 and 7 bits"),
    "int of 0 bits": (dict(dtype=(0, 0, 1)), gpulend.LayoutError, "code 0 and 0 bits"),
    "lanes 2": (dict(dtype=(2, 32, 2)), gpulend.LayoutError, "2 lanes"),
    "lanes 0": (dict(dtype=(2, 32, 0)), gpulend.LayoutError, "0 lanes"),
    "cuda": (dict(device=(2, 1)), gpulend.NoDeviceError, "cuda:1"),
    "device 99": (dict(device=(99, 0)), gpulend.NoDeviceError, "99"),
    "device -1": (dict(device=(-1, 0)), gpulend.NoDeviceError, "-1"),
}
VERSIONS = [(0, 8), (2, 0), (4_000_000_000, 1)]
NOWHERE = 0x100000


class Odd(np.ndarray):
    """A kind of NumPy's arrays whose tensors are not NumPy's."""

    def __dlpack__(self, **_options):
        """Hand out what the test wants."""
        return self.sample.capsule()


def odd(sample):
    """An array of that kind."""
    made = np.zeros(3, np.float32).view(Odd)
    made.sample = sample
    return made


STRANGERS = {
    "capsule": lambda sample: sample.capsule(),
    "__dlpack__": lambda sample: Producer(sample.capsule),
    "a kind of ndarray": odd,
}
ABSENT = {
    "nowhere": (dict(data=NOWHERE), "0x100000 is not mapped"),
    "nowhere, and large": (dict(data=NOWHERE, shape=(1 << 20,)), "0x100000 is not mapped"),
    "an offset too far": (dict(byte_offset=1 << 46), "is not mapped"),
    "some pages too long": (dict(shape=(1 << 40,)), "ends after"),
    "too far apart": (dict(strides=(1 << 40,)), "ends after"),
    "before its start": (dict(shape=(2, 1 << 20), strides=(-(1 << 42), 1)), "mapp|run past"),
}


@pytest.mark.parametrize("by", STRANGERS)
@pytest.mark.parametrize("case", ABSENT)
def test_a_tensor_of_memory_that_is_not_there_is_refused_and_released_once(case, by):
    """Host memory of an unknown producer is checked with the kernel."""
    lie, found = ABSENT[case]
    for versioned in (True, False):
        sample = Sample(versioned=versioned, **lie)
        assert_refused(gpulend.AddressError, found, gpulend.borrow, STRANGERS[by](sample))
        assert sample.released == 1


def test_a_tensor_that_ends_where_its_memory_does_is_taken():
    """Neither a byte too few nor one too many, on few pages and on many."""
    page = mmap.PAGESIZE
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for count in (2, 100):
        pages = mmap.mmap(-1, count * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        assert libc.mprotect(start + (count - 1) * page, page, 0) == 0
        fits = (count - 1) * page // 4
        whole, longer = Sample((fits,), data=start), Sample((fits + 1,), data=start)
        assert gpulend.borrow(whole.capsule()).to_host().sum() == 0
        assert_refused(gpulend.AddressError, "ends after", gpulend.borrow, longer.capsule())
        assert (whole.released, longer.released) == (1, 1)
        assert libc.mprotect(start, count * page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


class Described:
    """An array interface with a made-up address, which NumPy believes."""

    def __init__(self, address, shape):
        data = (address, False)
        self.__array_interface__ = dict(version=3, typestr="<f4", shape=shape, data=data)


BELIEVED = {
    "NumPy": lambda count: np.asarray(Described(NOWHERE, (count,))),
    "a buffer": lambda count: memoryview((ctypes.c_float * count).from_address(NOWHERE)),
}
COPIES = {
    "to_host": lambda lease: lease.to_host(),
    "lend": lambda lease: lease.lend("numpy", copy=True),
    "__dlpack__": lambda lease: lease.__dlpack__(copy=True),
    "copy_from": lambda lease: lease.copy_from(np.zeros(lease.shape, np.float32)),
    "copy_to": lambda lease: lease.copy_to(np.zeros(lease.shape, np.float32)),
    "copied from": lambda lease: good(lease).copy_from(lease),
    "copied to": lambda lease: good(lease).copy_to(lease),
    "from the end": lambda lease: lease[::-1].to_host(),
}


def good(lease):
    """A lease like another, of memory that is there."""
    return gpulend.borrow(np.zeros(lease.shape, np.float32))


@pytest.mark.parametrize("use", COPIES)
@pytest.mark.parametrize("count", [6, 1 << 20])
@pytest.mark.parametrize("by", BELIEVED)
def test_memory_that_is_not_there_is_not_copied(by, count, use):
    """Producers that `borrow` trusts can be wrong themselves, so copies check again."""
    lease = gpulend.borrow(BELIEVED[by](count))
    assert_refused(gpulend.AddressError, "is not mapped", COPIES[use], lease)


@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])
@pytest.mark.parametrize("by", ["capsule", "__dlpack__"])
@pytest.mark.parametrize("case", TENSORS)
def test_a_tensor_that_cannot_be_is_refused_and_released_once(case, by, versioned):
    """A lying DLPack tensor is a named error and its deleter runs once."""
    fields, kind, found = TENSORS[case]
    sample = Sample(versioned=versioned, **fields)
    given = Producer(sample.capsule) if by == "__dlpack__" else sample.capsule()
    assert_refused(kind, found, gpulend.borrow, given)
    del given
    assert sample.released == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("by", ["capsule", "__dlpack__"])
def test_another_major_version_is_refused_and_released_once(version, by):
    """Of a struct with another major only the deleter is touched."""
    sample = Sample(version=version, shape=None, ndim=-7, dtype=(99, 99, 99), data=1)
    given = Producer(sample.capsule) if by == "__dlpack__" else sample.capsule()
    found = f"{version[0]}\\.{version[1]}"
    assert_refused(gpulend.ProtocolError, found, gpulend.borrow, given)
    del given
    assert sample.released == 1


def test_another_minor_version_and_unknown_flags_are_taken():
    """Minor releases only add: they are read as ours."""
    sample = Sample(version=(1, 99), flags=1 << 40)
    lease = gpulend.borrow(sample.capsule())
    assert lease.to_host().tolist() == [0.0, 1.0, 2.0]
    assert not lease.readonly
    del lease
    assert sample.released == 1


@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])
def test_a_capsule_is_taken_once(versioned):
    """A second consumer of a capsule is refused, and the first keeps the memory."""
    sample = Sample(versioned=versioned)
    given = sample.capsule()
    lease = gpulend.borrow(given)
    assert_refused(gpulend.ProtocolError, "consumed", gpulend.borrow, given)
    assert sample.released == 0
    assert lease.to_host().tolist() == [0.0, 1.0, 2.0]
    del lease, given
    assert sample.released == 1


@pytest.mark.parametrize(
    "name", [b"tensor", b"dltensor_versione", b"dltensor2", b"used_dltensor_versioned", b"\xff"]
)
def test_a_capsule_of_another_name_is_refused_untouched(name):
    """What a capsule of another name holds is unknown, so it is not touched."""
    sample = Sample()
    given = capsule(sample.pointer, name)
    found = "consumed" if name.startswith(b"used") else name.decode(errors="replace")
    if name == b"\xff":
        found = "capsule"
    assert_refused(gpulend.ProtocolError, found, gpulend.borrow, given)
    del given
    assert sample.released == 0


def test_a_capsule_without_a_name_is_refused_untouched():
    """No name is no tensor."""
    sample = Sample()
    given = capsule(sample.pointer, None)
    assert_refused(gpulend.ProtocolError, "no name", gpulend.borrow, given)
    assert sample.released == 0


GARBAGE = [None, 3, "dltensor", b"dltensor", object(), (), np.zeros(2), Producer(None)]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda value: type(value).__name__)
def test_a_producer_that_returns_garbage_is_refused(garbage):
    """Whatever `__dlpack__` returns that is no capsule is named by its type."""
    given = Producer(garbage)
    assert_refused(gpulend.ProtocolError, type(garbage).__name__, gpulend.borrow, given)


def _raise(error):
    def answer():
        raise error

    return answer


@pytest.mark.parametrize("error", [KeyError("lost"), BufferError("lost"), TypeError("lost")])
def test_a_producer_that_raises_is_refused_with_its_reason(error):
    """What `__dlpack__` raised is named and kept as the cause."""
    given = Producer(_raise(error))
    assert_refused(gpulend.ProtocolError, "__dlpack__.*lost", gpulend.borrow, given)
    with pytest.raises(gpulend.ProtocolError) as caught:
        gpulend.borrow(given)
    assert caught.value.__cause__ is error


class Wrapper:
    """A producer that is made of another, and borrows that one."""

    calls = 0

    def __init__(self, inner, forwards=True):
        self.inner, self.forwards = inner, forwards

    def __dlpack__(self, **options):
        """Hand out what the other does."""
        Wrapper.calls += 1
        try:
            return gpulend.borrow(self.inner()).__dlpack__(max_version=(1, 0))
        except gpulend.Error as error:
            if self.forwards:
                raise
            raise TypeError("could not") from error


@pytest.mark.parametrize("forwards", [True, False])
def test_producers_made_of_producers_are_not_asked_over_and_over(forwards):
    """A `TypeError` from inside is no reason for each to ask the next one twice."""
    made = Wrapper(_raise(TypeError("not today")), forwards)
    for _ in range(15):
        made = Wrapper(lambda inner=made: inner, forwards)
    Wrapper.calls = 0
    with pytest.raises(gpulend.ProtocolError):
        gpulend.borrow(made)
    assert Wrapper.calls <= 16 * 17


class Old:
    """A producer from before versions."""

    def __init__(self, sample):
        self.sample = sample

    def __dlpack__(self, stream=None):
        """Hand out a capsule, if asked as DLPack 0.8 has it."""
        return self.sample.capsule()


class Forwarding:
    """A producer that passes on whatever it is asked."""

    def __init__(self, inner):
        self.inner = inner

    def __dlpack__(self, **options):
        """Ask the other."""
        return self.inner.__dlpack__(**options)


class Nested(Old):
    """An old producer that borrows another to answer."""

    def __dlpack__(self, stream=None):
        """Hand out what was borrowed."""
        return gpulend.borrow(self.sample).__dlpack__(max_version=(1, 0))


def test_producers_from_before_versions_are_asked_again_without_one():
    """Straight, passed on by another producer, and inside of another old one."""
    sample = Sample()
    for made in (
        Old(sample),
        Forwarding(Old(sample)),
        Nested(Old(sample)),
        Nested(Nested(Old(sample))),
        Forwarding(Nested(Old(sample))),
    ):
        before = sample.released
        lease = gpulend.borrow(made)
        assert lease.address == sample.address
        del lease
        assert sample.released == before + 1


RECURSIVE = """
import sys
import gpulend

class Dlpack:
    def __dlpack__(self, **options):
        return gpulend.borrow(self).__dlpack__()

class Interface:
    @property
    def __array_interface__(self):
        return gpulend.borrow(self).__array_interface__

# The interpreter's limit, one that is reached sooner, and one that the stack does not hold.
for limit in (sys.getrecursionlimit(), 100, 100_000):
    sys.setrecursionlimit(limit)
    for kind in (Dlpack, Interface):
        try:
            gpulend.borrow(kind())
        except BaseException as error:
            print(type(error).__name__)
print(gpulend.borrow(bytearray(3)).shape)
"""


def test_recursion_without_end_is_a_recursion_error():
    """Also where it is the first error of the process."""
    done = subprocess.run(
        [sys.executable, "-c", RECURSIVE], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.splitlines(), done.stderr) == (["RecursionError"] * 6 + ["(3,)"], "")


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_inside_a_producer_stays_an_interrupt(interrupt):
    """Ctrl-C while a producer runs is no error of the producer."""
    with pytest.raises(interrupt):
        gpulend.borrow(Producer(_raise(interrupt())))


def test_a_producer_whose_device_raises_is_refused():
    """`__dlpack_device__` may lie as much as `__dlpack__`."""

    class Broken(Producer):
        def __dlpack_device__(self):
            raise RuntimeError("no device today")

    class Odd(Producer):
        @property
        def __dlpack_device__(self):
            raise RuntimeError("no device today")

    for kind in (Broken, Odd):
        given = kind(Sample().capsule)
        assert_refused(gpulend.ProtocolError, "no device today", gpulend.borrow, given)


def test_an_object_that_speaks_no_protocol_is_refused_by_type():
    """The error names the type, what was looked for, and where an address belongs."""
    for thing in (object(), 3.5, [1, 2], {}, None):
        found = type(thing).__name__
        assert_refused(gpulend.ProtocolError, found, gpulend.borrow, thing)
    assert_refused(gpulend.ProtocolError, r"gpulend\.wrap", gpulend.borrow, 0x1000)


FLOATS = (ctypes.c_float * 6)(*range(6))
GOOD = {
    "shape": (6,),
    "typestr": "<f4",
    "data": (ctypes.addressof(FLOATS), False),
    "version": 3,
}
MISSING = object()
DICTS = {
    "typestr of another type": ({"typestr": 4}, gpulend.ProtocolError, "typestr"),
    "unknown typestr": ({"typestr": "zz"}, gpulend.LayoutError, "zz"),
    "void typestr": ({"typestr": "|V4"}, gpulend.LayoutError, "V4"),
    "big-endian": ({"typestr": ">f4"}, gpulend.LayoutError, "big-endian"),
    "negative shape": ({"shape": (-6,)}, gpulend.LayoutError, "extent -6"),
    "shape of floats": ({"shape": (6.0,)}, gpulend.ProtocolError, "shape"),
    "shape of another type": ({"shape": 6}, gpulend.ProtocolError, "shape"),
    "shape past 64 bits": ({"shape": (2**70,)}, gpulend.ProtocolError, "shape"),
    "size overflow": ({"shape": (2**40, 2**40)}, gpulend.LayoutError, "64 bits"),
    "version 99": ({"version": 99}, gpulend.ProtocolError, "version is 99"),
    "version -1": ({"version": -1}, gpulend.ProtocolError, "version is -1"),
    "version of another type": ({"version": "3"}, gpulend.ProtocolError, "version"),
    "data of another type": ({"data": ("x", False)}, gpulend.ProtocolError, "data"),
    "data too short": ({"data": (4096,)}, gpulend.ProtocolError, "data"),
    "data negative": ({"data": (-4, False)}, gpulend.ProtocolError, "data"),
    "data NULL": ({"data": (0, False)}, gpulend.AddressError, "null .* 6 elements"),
    "data misaligned": (
        {"data": (ctypes.addressof(FLOATS) + 1, False)},
        gpulend.AddressError,
        "multiple of 4",
    ),
    "strides of another rank": ({"strides": (4, 4)}, gpulend.LayoutError, "1 axes .* has 2"),
    "strides not whole": ({"strides": (3,)}, gpulend.LayoutError, "3 bytes"),
    "strides of another type": ({"strides": "x"}, gpulend.ProtocolError, "strides"),
    "a mask": ({"mask": FLOATS}, gpulend.ProtocolError, "mask"),
    "stream 0": ({"stream": 0}, gpulend.ProtocolError, "stream is 0"),
    "stream of another type": ({"stream": "x"}, gpulend.ProtocolError, "stream"),
    **{
        f"{key} missing": ({key: MISSING}, gpulend.ProtocolError, f"{key}.* missing")
        for key in ("shape", "typestr", "data", "version")
    },
}
INTERFACES = ("__array_interface__", "__cuda_array_interface__")


def with_interface(attribute, value):
    """Return an object of a new class with one interface attribute."""
    return type("Liar", (), {attribute: value})()


@pytest.mark.parametrize("attribute", INTERFACES)
@pytest.mark.parametrize("case", DICTS)
def test_a_lying_interface_dict_is_refused(attribute, case):
    """Each wrong field of the dict is a named error."""
    lie, kind, found = DICTS[case]
    fields = {key: value for key, value in {**GOOD, **lie}.items() if value is not MISSING}
    given = with_interface(attribute, fields)
    assert_refused(kind, found, gpulend.borrow, given)


@pytest.mark.parametrize("attribute", INTERFACES)
@pytest.mark.parametrize("value", [None, 3, [], "x"], ids=repr)
def test_an_interface_that_is_no_dict_is_refused(attribute, value):
    """The interface itself may be garbage."""
    given = with_interface(attribute, value)
    assert_refused(gpulend.ProtocolError, attribute, gpulend.borrow, given)


@pytest.mark.parametrize("attribute", INTERFACES)
def test_an_interface_that_raises_is_refused(attribute):
    """A property that raises is named with what it raised."""
    given = with_interface(attribute, property(lambda _self: 1 // 0))
    assert_refused(gpulend.ProtocolError, "division", gpulend.borrow, given)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_true_cuda_dict_is_understood_and_has_no_device_here(version):
    """CUDA memory is not lent by this release, and the error says so."""
    for extra in ({}, {"strides": None}, {"strides": (4,), "stream": 1}, {"mask": None}):
        given = with_interface("__cuda_array_interface__", {**GOOD, "version": version, **extra})
        assert_refused(gpulend.NoDeviceError, "cuda", gpulend.borrow, given)


def test_a_host_dict_with_an_unmapped_address_is_refused():
    """A host address that is not mapped is an AddressError, wherever it comes from."""
    given = with_interface("__array_interface__", {**GOOD, "data": (0x1234567890123450, False)})
    assert_refused(gpulend.AddressError, "0x1234567890123450", gpulend.borrow, given)


def wrap_floats(**changes):
    """Wrap six floats, with some arguments changed."""
    arguments = {
        "address": ctypes.addressof(FLOATS),
        "shape": (2, 3),
        "dtype": "float32",
        "owner": FLOATS,
        **changes,
    }
    return gpulend.wrap(**arguments)


WRAPS = {
    "fabricated": ({"address": 0x1234567890123456 & ~3}, gpulend.AddressError, "not mapped"),
    "first page": ({"address": 4096}, gpulend.AddressError, "0x1000 is not mapped"),
    "null": ({"address": 0}, gpulend.AddressError, "null .* 6 elements"),
    "null pointer": ({"address": ctypes.c_void_p()}, gpulend.AddressError, "null"),
    "negative": ({"address": -8}, gpulend.AddressError, "-8"),
    "past 64 bits": ({"address": 2**64}, gpulend.AddressError, str(2**64)),
    "last bytes": ({"address": 2**64 - 4}, gpulend.AddressError, "0xfffffffffffffffc"),
    "text": ({"address": "0x1000"}, gpulend.ProtocolError, "str"),
    "a float": ({"address": 4096.0}, gpulend.ProtocolError, "float"),
    "misaligned": (
        {"address": ctypes.addressof(FLOATS) + 2},
        gpulend.AddressError,
        "not a multiple of 4",
    ),
    "wrong rank": ({"strides": (1,)}, gpulend.LayoutError, "2 axes .* has 1"),
    "negative extent": ({"shape": (2, -3)}, gpulend.LayoutError, "extent -3"),
    "size overflow": ({"shape": (2**40, 2**40)}, gpulend.LayoutError, "64 bits"),
    "stride overflow": ({"strides": (2**62, 1)}, gpulend.LayoutError, "64 bits"),
    "65 axes": ({"shape": (1,) * 65}, gpulend.LayoutError, "65 axes"),
    "unknown dtype": ({"dtype": "float3"}, gpulend.LayoutError, "float3"),
    "big-endian": ({"dtype": ">f4"}, gpulend.LayoutError, "big-endian"),
    "another device": ({"device": "opencl:0"}, gpulend.NoDeviceError, "opencl:0"),
    "no device": ({"device": "tpu"}, gpulend.NoDeviceError, "tpu"),
    "no owner": ({"owner": None}, gpulend.ProtocolError, "owner=.*deleter=.*unowned=True"),
    "two owners": ({"unowned": True}, gpulend.ProtocolError, "owner=.*deleter=.*unowned=True"),
    "deleter not callable": ({"owner": None, "deleter": 3}, gpulend.ProtocolError, "deleter"),
    "a stream": ({"ready_on": 7}, gpulend.ProtocolError, "ready_on=7"),
}


@pytest.mark.parametrize("case", WRAPS)
def test_an_address_that_is_not_what_was_said_is_refused(case):
    """`wrap` checks every argument before it uses it."""
    changes, kind, found = WRAPS[case]
    assert_refused(kind, found, wrap_floats, **changes)


def test_a_span_that_runs_off_its_mapping_is_refused():
    """Both ends of the span are asked for, whichever way the strides run."""
    page = mmap.PAGESIZE
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    pages = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert libc.mprotect(start, page, 0) == 0
    assert libc.mprotect(start + 2 * page, page, 0) == 0
    try:
        inside = gpulend.wrap(start + page, page, "uint8", unowned=True)
        assert inside.to_host().sum() == 0
        for address, strides in ((start + page, (1,)), (start + 2 * page - 1, (-1,))):
            arguments = (address, page + 1, "uint8", strides)
            assert_refused(gpulend.AddressError, "mapping", gpulend.wrap, *arguments, unowned=True)
    finally:
        assert libc.mprotect(start, 3 * page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize(
    "made_up",
    [
        lambda: ctypes.cast(0x1234560, ctypes.POINTER(ctypes.c_float * 6)),
        lambda: (ctypes.c_float * 6).from_address(0x1234560),
        lambda: ctypes.c_float.from_address(0x1234560),
    ],
)
def test_a_ctypes_object_at_a_made_up_address_is_refused(made_up):
    """ctypes believes any address; the kernel is asked before we do."""
    with pytest.raises(gpulend.AddressError, match="0x1234560 is not mapped"):
        gpulend.borrow(made_up())


def test_a_null_pointer_to_an_array_is_refused():
    """There is nothing behind it."""
    with pytest.raises(gpulend.AddressError, match="null") as caught:
        gpulend.borrow(ctypes.POINTER(ctypes.c_float * 6)())
    assert caught.value.code == 401
