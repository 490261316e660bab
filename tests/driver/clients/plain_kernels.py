"""The driver by ctypes alone, as a program without any package: memory, a module, launches.

The first argument is a file of PTX: what was made of `kernels.cu`. The second, `goes-on`, says that
a device outlives a faulty kernel, which hardware does not.
"""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

COUNT, BLOCK = 1000, 125
ILLEGAL_ADDRESS = 700

cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuMemAlloc_v2.argtypes = [POINTER(c_uint64), c_size_t]
cuda.cuMemFree_v2.argtypes = [c_uint64]
cuda.cuMemcpyHtoD_v2.argtypes = [c_uint64, c_void_p, c_size_t]
cuda.cuMemcpyDtoH_v2.argtypes = [c_void_p, c_uint64, c_size_t]
cuda.cuModuleGetFunction.argtypes = [POINTER(c_void_p), c_void_p, c_char_p]
cuda.cuModuleGetGlobal_v2.argtypes = [POINTER(c_uint64), POINTER(c_size_t), c_void_p, c_char_p]
cuda.cuLaunchKernel.argtypes = [c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p]


def check(code):
    """Raise a code in words, unless it says success."""
    if code:
        text = c_char_p()
        cuda.cuGetErrorName(code, byref(text))
        raise RuntimeError(text.value.decode())


def launch(function, blocks, threads, *values, shared=0):
    """Launch on the default stream."""
    addresses = (c_void_p * len(values))(*map(ctypes.addressof, values))
    check(cuda.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, None, addresses, None))


def function(name):
    """Return a kernel of the module."""
    handle = c_void_p()
    check(cuda.cuModuleGetFunction(byref(handle), module, name))
    return handle


device, context, module = c_int(), c_void_p(), c_void_p()
check(cuda.cuInit(0))
check(cuda.cuDeviceGet(byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(byref(context), device))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuModuleLoadData(byref(module), Path(sys.argv[1]).read_bytes() + b"\0"))

numbers = (c_float * COUNT)(*range(COUNT))
result = (c_float * COUNT)()
size = ctypes.sizeof(numbers)
given, out, word = c_uint64(), c_uint64(), c_uint64()
for place in (given, out):
    check(cuda.cuMemAlloc_v2(byref(place), size))
check(cuda.cuMemAlloc_v2(byref(word), 4))
check(cuda.cuMemcpyHtoD_v2(given, numbers, size))

# Scaled, then turned around in blocks, through shared memory.
launch(function(b"scale"), COUNT // BLOCK, BLOCK, given, c_float(0.5), c_int(COUNT))
launch(function(b"turn"), COUNT // BLOCK, BLOCK, out, given, shared=4 * BLOCK)
check(cuda.cuMemcpyDtoH_v2(result, out, size))
firsts = range(0, COUNT, BLOCK)
assert list(result) == [i / 2 for first in firsts for i in reversed(range(first, first + BLOCK))]

# A variable of the module, written from here and read by a kernel.
address, length = c_uint64(), c_size_t()
check(cuda.cuModuleGetGlobal_v2(byref(address), byref(length), module, b"added"))
assert length.value == 4
check(cuda.cuMemcpyHtoD_v2(address, byref(c_int(30)), 4))
launch(function(b"poke"), 1, 1, word, c_int(12))
answer = c_int()
check(cuda.cuMemcpyDtoH_v2(byref(answer), word, 4))
assert answer.value == 42

# A kernel that writes far outside: the next call that waits says so.
launch(function(b"poke"), 1, 1, c_uint64(0x10), c_int(12))
assert cuda.cuCtxSynchronize() == ILLEGAL_ADDRESS
if sys.argv[2:] == ["goes-on"]:
    launch(function(b"poke"), 1, 1, word, c_int(13))
    check(cuda.cuMemcpyDtoH_v2(byref(answer), word, 4))
    assert answer.value == 43
    for place in (given, out, word):
        check(cuda.cuMemFree_v2(place))
    check(cuda.cuModuleUnload(module))
    check(cuda.cuDevicePrimaryCtxRelease_v2(device))
print("ctypes did it")
