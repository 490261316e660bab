"""A program that ends while the simulated GPU still has work: `ending_program.py LIBRARY WHAT`.

It knows nothing of gpulend. What it prints goes past Python's buffers, which are gone by then.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from ctypes import byref, c_uint, c_uint64, c_void_p

cu = ctypes.CDLL(sys.argv[1])
HEAD = b".version 6.3\n.target sm_75\n.address_size 64\n"
KERNELS = {
    "wrong": b"st.global.u32 [64], 1;",
    "right": b"ld.param.u64 %rd1, [x]; st.global.u32 [%rd1], 7;",
    "endless": b"AGAIN: bra AGAIN;",
}
begun = threading.Event()


def check(status: int) -> None:
    """Fail unless a call succeeded."""
    if status:
        sys.exit(f"status {status}")


def say(text: str) -> None:
    """Write a line at once."""
    os.write(1, f"{text}\n".encode())


def slow() -> None:
    """Be under way for a while, with and without Python's lock."""
    begun.set()
    for _ in range(20):
        time.sleep(0.01)
    say("returned")


@ctypes.CFUNCTYPE(None, c_void_p)
def function(_: int | None) -> None:
    """A host function, or what a user object's end calls."""
    slow()


@ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_int, c_void_p)
def callback(*_: object) -> None:
    """A stream's callback."""
    slow()


check(cu.cuInit(0))
context, stream, memory = c_void_p(), c_void_p(), c_uint64()
check(cu.cuDevicePrimaryCtxRetain(byref(context), 0))
check(cu.cuCtxSetCurrent(context))
check(cu.cuStreamCreate(byref(stream), 1))
check(cu.cuMemAlloc_v2(byref(memory), ctypes.c_size_t(64)))


def launch(what: str) -> int:
    """Launch a kernel; return what the call answers."""
    module, kernel = c_void_p(), c_void_p()
    body = b".visible .entry k(.param .u64 x) { .reg .b64 %rd<2>; " + KERNELS[what] + b" ret; }"
    check(cu.cuModuleLoadData(byref(module), HEAD + body))
    check(cu.cuModuleGetFunction(byref(kernel), module, b"k"))
    arguments = (c_void_p * 1)(ctypes.cast(byref(memory), c_void_p))
    one = c_uint(1)
    status: int = cu.cuLaunchKernel(
        kernel, one, one, one, one, one, one, c_uint(0), stream, arguments, None
    )
    return status


def begin() -> None:
    """Ask until the function runs."""
    while not begun.is_set():
        cu.cuStreamQuery(stream)
        time.sleep(0.001)


def graph() -> None:
    """Run a graph with a host function in it."""
    made, ready = c_void_p(), c_void_p()
    check(cu.cuStreamBeginCapture_v2(stream, 0))
    check(cu.cuLaunchHostFunc(stream, function, None))
    check(cu.cuStreamEndCapture(stream, byref(made)))
    check(cu.cuGraphInstantiateWithFlags(byref(ready), made, c_uint64(0)))
    check(cu.cuGraphLaunch(ready, stream))


def user_object() -> None:
    """Give up an object whose end calls a function."""
    made = c_void_p()
    check(cu.cuUserObjectCreate(byref(made), None, function, c_uint(1), c_uint(1)))
    check(cu.cuUserObjectRelease(made, c_uint(1)))


match sys.argv[2].split("-"):
    case ["function", how]:
        check(cu.cuLaunchHostFunc(stream, function, None))
    case ["callback", how]:
        check(cu.cuStreamAddCallback(stream, callback, None, c_uint(0)))
    case ["graph", how]:
        graph()
    case ["object", how]:
        user_object()
    case ["behind", how]:
        check(cu.cuLaunchHostFunc(stream, function, None))
        check(launch("wrong"))
    case ["launch", what]:
        how = f"answered {launch(what)}"
    case ["bounded", what]:
        check(launch(what))
        how = f"ended {cu.gpulend_sim_end(c_uint(200))}"
if how == "begun":
    begin()
    # Between the end of Python and that of the process the function asks for Python's lock.
    libc = ctypes.CDLL(None)
    libc.__cxa_atexit(libc.usleep, c_void_p(500_000), None)
say(how)
if sys.argv[2].startswith("bounded"):
    # The exit would wait once more.
    os._exit(0)
