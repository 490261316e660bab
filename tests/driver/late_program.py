"""A program that needs nothing but ctypes, to start quickly: `late_program.py LIBRARY WHAT`.

missing, waited: one stream writes a buffer, another copies it out, without and with a wait; prints
`old`, `new` or `torn`. order: prints the order in which host functions of four streams run.
"""

import ctypes
import sys
from ctypes import byref, c_size_t, c_uint64, c_void_p

SIZE = 4096
NON_BLOCKING = 1

cu = ctypes.CDLL(sys.argv[1])


def call(name, *arguments):
    """Call the driver, and end if it refuses."""
    code = getattr(cu, name)(*arguments)
    if code:
        sys.exit(f"{name} answered {code}")


def made(kind, name, *arguments):
    """Call a function that puts what it makes into its first argument."""
    result = kind()
    call(name, byref(result), *arguments)
    return result


def stream():
    """Make a stream that has nothing to do with the others."""
    return made(c_void_p, "cuStreamCreate", NON_BLOCKING)


def hand_over(wait):
    """Write in one stream and read in another."""
    buffer, size = made(c_uint64, "cuMemAlloc_v2", c_size_t(SIZE)), c_size_t(SIZE)
    out = made(c_void_p, "cuMemAllocHost_v2", size)
    writer, reader = stream(), stream()
    call("cuMemsetD8_v2", buffer, 1, size)
    call("cuCtxSynchronize")
    call("cuMemsetD8Async", buffer, 2, size, writer)
    if wait:
        event = made(c_void_p, "cuEventCreate", 2)
        call("cuEventRecord", event, writer)
        call("cuStreamWaitEvent", reader, event, 0)
    call("cuMemcpyDtoHAsync_v2", out, buffer, size, reader)
    call("cuStreamSynchronize", reader)
    seen = ctypes.string_at(out.value, SIZE)
    return {b"\1" * SIZE: "old", b"\2" * SIZE: "new"}.get(seen, "torn")


def order():
    """Queue host functions on streams that nothing orders; name each as it runs."""
    ran = []
    note = ctypes.CFUNCTYPE(None, c_void_p)(lambda number: ran.append(f"{number:x}"))
    streams = [stream() for _ in range(4)]
    for number in range(4):
        for which, queue in enumerate(streams, 1):
            call("cuLaunchHostFunc", queue, note, c_void_p(16 * which + number))
    call("cuCtxSynchronize")
    return " ".join(ran)


call("cuInit", 0)
call("cuCtxSetCurrent", made(c_void_p, "cuDevicePrimaryCtxRetain", 0))
print(order() if sys.argv[2] == "order" else hand_over(wait=sys.argv[2] == "waited"))
