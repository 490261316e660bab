"""Modules: loading, finding names, unloading. The PTX below was written by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from ctypes import (
    addressof,
    byref,
    c_int,
    c_size_t,
    c_uint,
    c_uint64,
    c_void_p,
    create_string_buffer,
)

import pytest

from .cuda import SIMULATED, check, cu, library_path
from .resources import Resources, value
from .test_pointers import DEVICE_ORDINAL, MEMORY_TYPE, RANGE_SIZE, attribute

MAX_REGISTERS, ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE = 0, 5, 6  # CUjit_option

PTX = b"""
.version 6.3
.target sm_75
.address_size 64

.visible .global .align 4 .u32 counter = 7;

.visible .entry nothing()
{
    ret;
}
\0"""


def test_a_module_is_loaded_from_text_and_unloaded(gpu: Resources) -> None:
    """By both functions."""
    module = value(c_void_p, cu.cuModuleLoadData, PTX)
    again = value(c_void_p, cu.cuModuleLoadDataEx, PTX, 0, None, None)
    assert module != again
    check(cu.cuModuleUnload(module))
    check(cu.cuModuleUnload(again))


def test_names_of_a_module_are_found(gpu: Resources) -> None:
    """A kernel and a variable, each by its own function; what is not there is NOT_FOUND."""
    module = value(c_void_p, cu.cuModuleLoadData, PTX)
    assert value(c_void_p, cu.cuModuleGetFunction, module, b"nothing")
    address, size = c_uint64(), c_size_t()
    check(cu.cuModuleGetGlobal_v2(byref(address), byref(size), module, b"counter"))
    assert size.value == 4
    out = c_void_p()
    assert cu.cuModuleGetFunction(byref(out), module, b"nope") == 500
    assert cu.cuModuleGetFunction(byref(out), module, b"counter") == 500
    assert cu.cuModuleGetGlobal_v2(byref(address), byref(size), module, b"nope") == 500
    assert cu.cuModuleGetGlobal_v2(byref(address), byref(size), module, b"nothing") == 1
    assert cu.cuModuleGetFunction(byref(out), module, None) == 1
    assert cu.cuModuleGetFunction(byref(out), None, b"nothing") == 400
    check(cu.cuModuleUnload(module))


def test_a_variable_is_memory_of_the_device(gpu: Resources) -> None:
    """It has its first value, can be copied but not freed, and goes with its module."""
    module = value(c_void_p, cu.cuModuleLoadData, PTX)
    address = value(c_uint64, cu.cuModuleGetGlobal_v2, None, module, b"counter")
    number = c_uint()
    check(cu.cuMemcpyDtoH_v2(byref(number), address, 4))
    assert number.value == 7
    check(cu.cuMemcpyHtoD_v2(address, byref(c_uint(8)), 4))
    check(cu.cuMemcpyDtoH_v2(byref(number), address, 4))
    assert number.value == 8
    assert cu.cuMemcpyDtoH_v2((c_uint * 2)(), address, 5) == 1
    assert [attribute(n, address) for n in (MEMORY_TYPE, DEVICE_ORDINAL, RANGE_SIZE)] == [2, 0, 4]
    assert cu.cuMemFree_v2(address) == 1
    check(cu.cuModuleUnload(module))
    assert cu.cuPointerGetAttribute(byref(number), MEMORY_TYPE, address) == 1


@pytest.mark.parametrize(
    ("image", "code"),
    [
        (None, 1),
        (b"this is no module at all\0", 200),
        (bytes(64), 200),
        (b"\x7fELF" + bytes(200), 200),
        (PTX.replace(b".version 6.3", b""), 200),
        (PTX.replace(b"sm_75", b"sm_999"), 218),
        (PTX.replace(b"6.3", b"99.9"), 222),
    ],
    ids=["null", "text", "zeros", "elf", "no version", "target", "version"],
)
def test_what_is_no_module_is_refused(gpu: Resources, image: bytes | None, code: int) -> None:
    """No image, wrong PTX, PTX too new."""
    module = c_void_p()
    assert cu.cuModuleLoadData(byref(module), image) == code
    assert module.value is None


def test_ptx_with_a_wrong_instruction(gpu: Resources) -> None:
    """Is refused by who assembles it; the log names the line and the word."""
    module, log = c_void_p(), create_string_buffer(4096)
    wrong = PTX.replace(b"ret;", b"rett;")
    assert cu.cuModuleLoadData(byref(module), wrong) == 218
    options = (c_int * 2)(ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE)
    values = (c_void_p * 2)(addressof(log), len(log))
    assert cu.cuModuleLoadDataEx(byref(module), wrong, 2, options, values) == 218
    assert module.value is None
    assert b"rett" in log.value
    assert b"line 10" in log.value


def test_options_for_the_compiler_are_taken(gpu: Resources) -> None:
    """Those that change nothing here, too; without an error the log is empty."""
    log = create_string_buffer(b"old", 64)
    options = (c_int * 3)(MAX_REGISTERS, ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE)
    values = (c_void_p * 3)(32, addressof(log), len(log))
    module = value(c_void_p, cu.cuModuleLoadDataEx, PTX, 3, options, values)
    assert log.value == b""
    check(cu.cuModuleUnload(module))


def test_the_functions_of_a_module_are_listed(gpu: Resources) -> None:
    """As many as there are, or as there is room for."""
    module = value(c_void_p, cu.cuModuleLoadData, PTX)
    assert value(c_uint, cu.cuModuleGetFunctionCount, module) == 1
    functions = (c_void_p * 3)()
    check(cu.cuModuleEnumerateFunctions(functions, 1, module))
    assert [functions[0], functions[1]] == [
        value(c_void_p, cu.cuModuleGetFunction, module, b"nothing"),
        None,
    ]
    assert cu.cuModuleGetFunctionCount(None, module) == 1
    assert cu.cuModuleEnumerateFunctions(None, 1, module) == 1
    check(cu.cuModuleUnload(module))


def test_null_handles_are_refused(gpu: Resources) -> None:
    """NULL modules are INVALID_HANDLE, NULL results INVALID_VALUE."""
    assert cu.cuModuleLoadData(None, PTX) == 1
    assert cu.cuModuleUnload(None) == 400


# Loads each image that it is given, twice, and once where the reason has a place to go.
LOADS = """
import ctypes, sys
cu = ctypes.CDLL(sys.argv[1])
context, module, log = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(999)
cu.cuInit(0)
cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cu.cuCtxSetCurrent(context)
options, values = (ctypes.c_int * 2)(5, 6), (ctypes.c_void_p * 2)(ctypes.addressof(log), 999)
for image in sys.argv[2:]:
    arguments = ctypes.byref(module), image.encode()
    said = cu.cuModuleLoadDataEx(*arguments, 2, options, values)
    if not log.value:
        sys.exit(f"{said} without a reason")
for image in sys.argv[2:] * 2:
    nothing = None, None, 0, None, None, 0
    print(cu.cuLibraryLoadData(ctypes.byref(module), image.encode(), *nothing))
"""


@pytest.mark.skipif(not SIMULATED, reason="of the simulated GPU alone")
def test_why_an_image_is_refused_is_told_once_where_nobody_else_tells_it() -> None:
    """A client that gives no buffer for it, as cuda.core, would show a bare number."""
    head = ".version 6.3\n.target sm_75\n.address_size 64\n"
    images = [
        "// Generated by NVIDIA NVVM Compiler\n" + head,
        head.replace("75", "90"),
        head + ".visible .entry k() { rett; }",
        head + ".visible .entry k() { tex.1d.v4.f32.f32 {a, b, c, d}, [t, {x}]; }",
        "no PTX",
    ]
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADS, library_path(), *images],
        env={**os.environ, "GPULEND_SIM_REPORT": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.split() == ["218", "218", "218", "218", "200"] * 2
    hints = ["gpulend run --accept-nvvm", "compute_75", "rett", "tex", "wanted PTX"]
    told = ran.stderr.splitlines()
    assert len(told) == len(hints)
    for line, hint in zip(told, hints, strict=True):
        assert line.startswith("gpulend: simulated GPU: refused with code 2")
        assert hint in line
