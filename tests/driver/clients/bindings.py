"""cuda.bindings as its users write it: the driver API, function by function."""

import ctypes

from cuda.bindings import driver

SIZE = 1000


def check(result):
    """Return the values of a call, or raise its code."""
    code, *values = result
    assert code == driver.CUresult.CUDA_SUCCESS, code
    return values[0] if len(values) == 1 else values


check(driver.cuInit(0))
device = check(driver.cuDeviceGet(0))
context = check(driver.cuDevicePrimaryCtxRetain(device))
check(driver.cuCtxSetCurrent(context))
stream = check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
other = check(driver.cuStreamCreateWithPriority(0, -1))
event = check(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DEFAULT))

# Memory and what is known of it.
plain = check(driver.cuMemAlloc(SIZE))
pooled = check(driver.cuMemAllocAsync(SIZE, stream))
pinned = check(driver.cuMemAllocHost(SIZE))
attribute = driver.CUpointer_attribute
base, size, first = check(
    driver.cuPointerGetAttributes(
        3,
        [
            attribute.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
            attribute.CU_POINTER_ATTRIBUTE_BUFFER_ID,
        ],
        int(plain) + 10,
    )
)
assert (int(base), size) == (int(plain), SIZE)
assert check(driver.cuMemGetAddressRange(plain))[1] == SIZE
free, total = check(driver.cuMemGetInfo())
assert 0 < free < total

# Copies, fills and their order.
data = bytes(i % 251 for i in range(SIZE))
ctypes.memmove(pinned, data, SIZE)
check(driver.cuMemcpyHtoDAsync(plain, pinned, SIZE, stream))
check(driver.cuEventRecord(event, stream))
check(driver.cuStreamWaitEvent(other, event, 0))
check(driver.cuMemcpyDtoDAsync(pooled, plain, SIZE, other))
result = bytearray(SIZE)
check(driver.cuStreamSynchronize(other))
check(driver.cuMemcpyDtoH(result, pooled, SIZE))
assert result == data
check(driver.cuMemsetD32Async(pooled, 0x01020304, SIZE // 4, other))
check(driver.cuStreamSynchronize(other))
check(driver.cuMemcpyDtoH(result, pooled, SIZE))
assert result == bytes([4, 3, 2, 1]) * (SIZE // 4)

# A capture, replayed.
check(
    driver.cuStreamBeginCapture(
        stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    )
)
check(driver.cuMemcpyHtoDAsync(plain, pinned, SIZE, stream))
graph = check(driver.cuStreamEndCapture(stream))
executable = check(driver.cuGraphInstantiate(graph, 0))
ctypes.memset(pinned, 9, SIZE)
check(driver.cuGraphLaunch(executable, stream))
check(driver.cuStreamSynchronize(stream))
check(driver.cuMemcpyDtoH(result, plain, SIZE))
assert result == bytes([9]) * SIZE

# Mistakes are answered, and nothing breaks.
assert driver.cuMemcpyDtoH(result, plain, SIZE + 1)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE
check(driver.cuMemFree(plain))
assert driver.cuMemFree(plain)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE
again = check(driver.cuMemAlloc(SIZE))
second = check(driver.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_BUFFER_ID, again))
assert second != first

check(driver.cuGraphExecDestroy(executable))
check(driver.cuGraphDestroy(graph))
check(driver.cuMemFree(again))
check(driver.cuMemFreeAsync(pooled, stream))
check(driver.cuMemFreeHost(pinned))
check(driver.cuEventDestroy(event))
check(driver.cuStreamDestroy(other))
check(driver.cuStreamDestroy(stream))
check(driver.cuDevicePrimaryCtxRelease(device))
print("the bindings did it")
