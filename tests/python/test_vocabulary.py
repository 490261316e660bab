"""The words: element types, devices and exceptions."""

from __future__ import annotations

import ctypes
import pickle
import subprocess
import sys

import gpulend
import numpy as np
import pytest
from conftest import need

torch = need("torch")
ml_dtypes = need("ml_dtypes")

# name: DLPack code, bits
TYPES = {
    **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    "bfloat16": (4, 16),
    **{f"complex{bits}": (5, bits) for bits in (32, 64, 128)},
    "bool": (6, 8),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6),
    "float4_e2m1fn": (17, 4),
    "bcomplex32": (18, 32),
    **{f"int{bits}": (0, bits) for bits in (2, 4)},
    **{f"uint{bits}": (1, bits) for bits in (2, 4)},
}
TYPESTRS = {
    "|b1": "bool",
    "|i1": "int8",
    "|u1": "uint8",
    "<i2": "int16",
    "<u2": "uint16",
    "<i4": "int32",
    "<u4": "uint32",
    "<i8": "int64",
    "<u8": "uint64",
    "<f2": "float16",
    "<f4": "float32",
    "<f8": "float64",
    "<c8": "complex64",
    "<c16": "complex128",
}
CTYPES = {
    ctypes.c_bool: "bool",
    ctypes.c_int8: "int8",
    ctypes.c_uint8: "uint8",
    ctypes.c_int16: "int16",
    ctypes.c_uint16: "uint16",
    ctypes.c_int32: "int32",
    ctypes.c_uint32: "uint32",
    ctypes.c_int64: "int64",
    ctypes.c_uint64: "uint64",
    ctypes.c_float: "float32",
    ctypes.c_double: "float64",
    ctypes.c_size_t: "uint64",
    ctypes.c_long: "int64",
}


@pytest.mark.parametrize("name", TYPES)
def test_an_element_type_is_dlpacks_code_bits_and_one_lane(name):
    """Law 7: all DLPack codes to 18, each under the name that NumPy and ml_dtypes spell."""
    dtype = gpulend.Dtype(name)
    assert (dtype.code, dtype.bits, dtype.lanes) == (*TYPES[name], 1)
    assert dtype.name == str(dtype) == name
    assert dtype.itemsize == -(-dtype.bits // 8)
    assert not dtype.padded


@pytest.mark.parametrize("typestr", TYPESTRS)
def test_a_typestr_names_an_element_type(typestr):
    """NumPy's typestrs are understood, native order spelled either way."""
    assert gpulend.Dtype(typestr).name == TYPESTRS[typestr]
    assert gpulend.Dtype("=" + typestr[1:]).name == TYPESTRS[typestr]
    assert gpulend.Dtype(np.dtype(typestr)).name == TYPESTRS[typestr]
    assert gpulend.Dtype(np.dtype(typestr).type).name == TYPESTRS[typestr]


@pytest.mark.parametrize("name", [name for name in TYPES if hasattr(ml_dtypes, name)])
def test_ml_dtypes_are_element_types_by_class_and_by_dtype(name):
    """A type of ml_dtypes is the type of the same name; as a NumPy dtype it fills whole bytes."""
    kind = getattr(ml_dtypes, name)
    assert gpulend.Dtype(kind).name == name
    dtype = gpulend.Dtype(np.dtype(kind))
    assert dtype.name == name
    assert dtype.padded == (dtype.bits < 8)


@pytest.mark.parametrize(
    "name", [name for name in TYPES if TYPES[name][1] >= 8 and hasattr(torch, name)]
)
def test_torch_types_are_element_types(name):
    """A torch dtype is the type of the same name."""
    assert gpulend.Dtype(getattr(torch, name)).name == name
    assert gpulend.Dtype(name) == getattr(torch, name)


@pytest.mark.parametrize("kind", CTYPES)
def test_ctypes_are_element_types(kind):
    """A ctypes number is the type of its width."""
    assert gpulend.Dtype(kind).name == CTYPES[kind]
    assert gpulend.Dtype(CTYPES[kind]) == kind


@pytest.mark.parametrize(
    "wrong",
    ["float3", "", "float32 ", "<V2", "|O", "<U3", "<M8[ns]", None, 3, object(), "é", "<f3"],
)
def test_what_names_no_type_is_refused_by_name(wrong):
    """An unknown name is a LayoutError that repeats it."""
    with pytest.raises(gpulend.LayoutError, match="names no element type") as caught:
        gpulend.Dtype(wrong)
    assert str(wrong) in str(caught.value)


@pytest.mark.parametrize("wrong", [">f4", ">i8", np.dtype(">c8")])
def test_big_endian_types_are_refused_by_name(wrong):
    """The other byte order is a LayoutError, never silently swapped."""
    with pytest.raises(gpulend.LayoutError, match="big-endian"):
        gpulend.Dtype(wrong)


def test_types_compare_by_what_they_are():
    """Equal to its name and to the same type elsewhere, and to nothing else."""
    dtype = gpulend.Dtype("float32")
    for same in ("float32", "<f4", np.float32, np.dtype("f4"), torch.float32, ctypes.c_float):
        assert dtype == same
        assert (dtype != same) is False
    for other in ("float64", "nonsense", np.float64, torch.int32, 3, None, object()):
        assert dtype != other
        assert (dtype == other) is False
    assert gpulend.Dtype("int4") != gpulend.Dtype("int4", padded=True)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ["float32", "int4", "bfloat16", "bcomplex32"])
def test_types_hash_pickle_and_repr_to_themselves(name, padded):
    """A type can be a key, can travel and can be read back from its repr."""
    dtype = gpulend.Dtype(name, padded=padded and name == "int4")
    assert hash(dtype) == hash(gpulend.Dtype(name, padded=dtype.padded))
    assert pickle.loads(pickle.dumps(dtype)) == dtype
    assert eval(repr(dtype), {"gpulend": gpulend}) == dtype
    if not dtype.padded:
        assert {dtype: 1}[name] == 1


@pytest.mark.parametrize(
    ("given", "kind", "index"),
    [
        ("cpu", "cpu", 0),
        ("cpu:0", "cpu", 0),
        ("cuda", "cuda", 0),
        ("cuda:3", "cuda", 3),
        ("opencl:1", "opencl", 1),
        (gpulend.Device("cuda:2"), "cuda", 2),
        (torch.device("cpu"), "cpu", 0),
        (torch.device("cuda:1"), "cuda", 1),
    ],
)
def test_a_device_is_a_kind_and_an_index(given, kind, index):
    """Devices are parsed from names and from torch's devices."""
    device = gpulend.Device(given)
    assert (device.kind, device.index) == (kind, index)
    assert device == given
    assert str(device) == (kind if kind == "cpu" else f"{kind}:{index}")
    assert pickle.loads(pickle.dumps(device)) == device
    assert eval(repr(device), {"gpulend": gpulend}) == device
    assert {device: 1}[str(device)] == 1


@pytest.mark.parametrize("number", [0, 3, np.int64(3)])
def test_a_number_is_a_cuda_device(number):
    """As torch, CuPy and Numba take it; it is not equal to the device, which has a name's hash."""
    device = gpulend.Device(number)
    assert device == f"cuda:{number}"
    assert device != number


@pytest.mark.parametrize(
    "wrong", ["gpu", "cpu:1", "cuda:-1", "cuda:", "cuda:x", "", None, -1, 300, True, 1.5]
)
def test_what_names_no_device_is_refused_by_name(wrong):
    """An unknown device is a NoDeviceError that repeats it."""
    with pytest.raises(gpulend.NoDeviceError, match="names no device") as caught:
        gpulend.Device(wrong)
    assert str(wrong) in str(caught.value)


def test_different_devices_differ():
    """Kind and index both count."""
    assert gpulend.Device("cpu") != gpulend.Device("cuda")
    assert gpulend.Device("cuda:0") != "cuda:1"
    assert gpulend.Device("cuda:0") != 0


BASES = {
    "Error": Exception,
    "LayoutError": ValueError,
    "ProtocolError": TypeError,
    "ExportError": BufferError,
    "AddressError": ValueError,
    "ReleasedError": ValueError,
    "StillLentError": RuntimeError,
    "NoDeviceError": RuntimeError,
    "DriverError": RuntimeError,
    "OutOfMemoryError": MemoryError,
    "TicketError": ValueError,
    "TicketExpiredError": ValueError,
    "TicketVersionError": ValueError,
    "WrongMachineError": ValueError,
    "NotPermittedError": ValueError,
    "LenderGoneError": RuntimeError,
    "DeviceNotVisibleError": RuntimeError,
    "NotShareableError": BufferError,
}


@pytest.mark.parametrize("name", BASES)
def test_an_exception_is_also_a_builtin_and_can_travel(name):
    """Each is a gpulend.Error and a builtin, and survives pickling with its code."""
    kind = getattr(gpulend, name)
    assert issubclass(kind, gpulend.Error)
    assert issubclass(kind, BASES[name])
    error = pickle.loads(pickle.dumps(kind("what was found", 123)))
    assert type(error) is kind
    assert (str(error), error.code) == ("what was found", 123)


def test_a_raised_error_can_travel():
    """What the native half raises pickles too."""
    with pytest.raises(gpulend.LayoutError) as caught:
        gpulend.Dtype("float3")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), str(error)) == (gpulend.LayoutError, str(caught.value))
    assert error.code == caught.value.code > 0


SUBMODULES = """
import gpulend
assert gpulend.adapters.HOST_WAITS is not None
assert callable(gpulend.config.library) and callable(gpulend.ctypes_api.library)
assert callable(gpulend.compiler.to_ptx) and callable(gpulend.simulator.report)
try:
    gpulend.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise SystemExit("there is one")
"""


def test_submodules_are_there_as_the_documents_write_them():
    """After `import gpulend` alone, in a process that has imported none of them."""
    done = subprocess.run([sys.executable, "-c", SUBMODULES], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_public_name_is_there():
    """`__all__` lists what can be imported."""
    assert [name for name in gpulend.__all__ if not hasattr(gpulend, name)] == []
    assert set(BASES) <= set(gpulend.__all__)
