/* One walk over the CUDA driver API in C11: every line printed must be the same on every driver.
 *
 * cc -std=c11 -Wall -Wextra -Werror -I<folder of cuda.h> conformance.c -ldl -o conformance
 * ./conformance [library, default libcuda.so.1]
 *
 * The library is opened at run time, and all functions but one are found by cuGetProcAddress.
 * The exit status counts the answers that were not the expected ones.
 *
 * They are asked for as of CUDA 12.8: there each base name below means the function that cuda.h
 * of CUDA 13 declares by it. At 13.0 cuCtxGetDevice and cuCtxSynchronize want a context.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if CUDA_VERSION < 13000
#error "cuda.h of CUDA 13 is needed: the names below stand for its versions of the functions"
#endif

#define AS_OF 12080
#define FUNCTIONS(X)                                                                              \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString)                         \
    X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem)  \
    X(cuDeviceGetAttribute) X(cuDeviceGetPCIBusId) X(cuDeviceGetByPCIBusId)                       \
    X(cuDeviceCanAccessPeer) X(cuDeviceGetDefaultMemPool) X(cuDevicePrimaryCtxRetain)             \
    X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxGetState) X(cuCtxCreate) X(cuCtxDestroy)     \
    X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxSetCurrent) X(cuCtxGetCurrent)                  \
    X(cuCtxGetDevice) X(cuCtxGetApiVersion) X(cuCtxSynchronize) X(cuMemAlloc) X(cuMemFree)        \
    X(cuMemAllocPitch) X(cuMemGetInfo) X(cuMemGetAddressRange) X(cuMemAllocHost)                  \
    X(cuMemFreeHost) X(cuMemHostAlloc) X(cuMemHostGetFlags) X(cuMemHostGetDevicePointer)          \
    X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemAllocManaged) X(cuPointerGetAttribute)     \
    X(cuPointerGetAttributes) X(cuPointerSetAttribute) X(cuMemcpy) X(cuMemcpyHtoD)                \
    X(cuMemcpyDtoH) X(cuMemcpyDtoD) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpy2D)       \
    X(cuMemcpy3D) X(cuMemsetD8) X(cuMemsetD16) X(cuMemsetD32) X(cuMemsetD8Async)                  \
    X(cuMemsetD2D32) X(cuStreamCreate) X(cuStreamCreateWithPriority) X(cuStreamDestroy)           \
    X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuStreamGetFlags)              \
    X(cuStreamWaitValue32) X(cuStreamWriteValue32) X(cuLaunchHostFunc)          \
    X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize)     \
    X(cuEventElapsedTime) X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemPoolCreate)                 \
    X(cuMemPoolDestroy) X(cuMemPoolGetAttribute) X(cuMemPoolSetAttribute) X(cuMemPoolTrimTo)      \
    X(cuMemAllocFromPoolAsync) X(cuStreamBeginCapture) X(cuStreamEndCapture)                      \
    X(cuStreamIsCapturing) X(cuStreamGetCaptureInfo) X(cuThreadExchangeStreamCaptureMode)         \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy)       \
    X(cuGraphGetNodes) X(cuModuleLoadData) X(cuModuleUnload)

/* `name` expands to the versioned symbol that cuda.h declares; `#name` stays the base name. */
#define DECLARE(name) static __typeof__(&name) p_##name;
FUNCTIONS(DECLARE)
#undef DECLARE
#define CALL(name) (*p_##name)

static __typeof__(&cuGetProcAddress) look_up;
static const char *topic;
static int wrong;

static void expect(const char *name, long long value, long long expected)
{
    printf("%s: %s = %lld\n", topic, name, value);
    if (value != expected) {
        fprintf(stderr, "%s: %s is %lld, not %lld\n", topic, name, value, expected);
        wrong++;
    }
}

static void must(CUresult code, int line)
{
    if (code != CUDA_SUCCESS) {
        fprintf(stderr, "line %d: error %d\n", line, (int)code);
        exit(100);
    }
}
#define MUST(call) must((call), __LINE__)

static int same(CUdeviceptr address, int byte, size_t size)
{
    unsigned char data[4096];
    MUST(CALL(cuMemcpyDtoH)(data, address, size));
    for (size_t i = 0; i < size; i++)
        if (data[i] != byte)
            return 0;
    return 1;
}

static void find_functions(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(101);
    }
    void *symbol = dlsym(library, "cuGetProcAddress_v2");
    if (!symbol) {
        fprintf(stderr, "no cuGetProcAddress_v2 in %s\n", path);
        exit(101);
    }
    memcpy(&look_up, &symbol, sizeof symbol);
    CUdriverProcAddressQueryResult status;
#define FIND(name)                                                                                \
    if (look_up(#name, &symbol, AS_OF, CU_GET_PROC_ADDRESS_DEFAULT, &status) || !symbol) {        \
        fprintf(stderr, "no %s in %s\n", #name, path);                                            \
        exit(101);                                                                                \
    }                                                                                             \
    memcpy(&p_##name, &symbol, sizeof symbol);
    FUNCTIONS(FIND)
#undef FIND
    topic = "functions";
    expect("an unknown name", look_up("cuNope", &symbol, AS_OF, 0, &status), CUDA_SUCCESS);
    expect("its status", status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    expect("its address", symbol != NULL, 0);
    expect("a version too old", look_up("cuMemAllocAsync", &symbol, 10000, 0, &status), 0);
    expect("its status", status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

static void start(void)
{
    int number = 0;
    const char *text = "";
    topic = "start";
    expect("count before init", CALL(cuDeviceGetCount)(&number), CUDA_ERROR_NOT_INITIALIZED);
    expect("init with flags", CALL(cuInit)(1), CUDA_ERROR_INVALID_VALUE);
    expect("init", CALL(cuInit)(0), CUDA_SUCCESS);
    MUST(CALL(cuDriverGetVersion)(&number));
    expect("version at least 12000", number >= 12000, 1);
    expect("name of 1", CALL(cuGetErrorName)(CUDA_ERROR_INVALID_VALUE, &text), 0);
    printf("%s: that name = %s\n", topic, text);
    expect("name of 12345", CALL(cuGetErrorName)((CUresult)12345, &text), 1);
    expect("that name is NULL", text == NULL, 1);
    expect("text of 12345", CALL(cuGetErrorString)((CUresult)12345, &text), 1);
}

static void devices(void)
{
    int number = 0;
    size_t total = 0;
    char text[256];
    CUuuid uuid, again;
    CUdevice device = -1;
    topic = "devices";
    MUST(CALL(cuDeviceGetCount)(&number));
    expect("at least one", number >= 1, 1);
    expect("get 0", CALL(cuDeviceGet)(&device, 0), 0);
    expect("handle of 0", device, 0);
    expect("get 1000", CALL(cuDeviceGet)(&device, 1000), CUDA_ERROR_INVALID_DEVICE);
    expect("get into NULL", CALL(cuDeviceGet)(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    MUST(CALL(cuDeviceGetName)(text, sizeof text, 0));
    expect("has a name", text[0] != 0, 1);
    MUST(CALL(cuDeviceGetUuid)(&uuid, 0));
    MUST(CALL(cuDeviceGetUuid)(&again, 0));
    expect("uuid is stable", memcmp(&uuid, &again, sizeof uuid), 0);
    MUST(CALL(cuDeviceTotalMem)(&total, 0));
    expect("has memory", total > 0, 1);
    MUST(CALL(cuDeviceGetAttribute)(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    expect("warp size", number, 32);
    MUST(CALL(cuDeviceGetAttribute)(&number, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    expect("unified addressing", number, 1);
    MUST(CALL(cuDeviceGetAttribute)(&number, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    expect("pools", number, 1);
    expect("attribute 0", CALL(cuDeviceGetAttribute)(&number, 0, 0), CUDA_ERROR_INVALID_VALUE);
    MUST(CALL(cuDeviceGetPCIBusId)(text, sizeof text, 0));
    expect("by its pci address", CALL(cuDeviceGetByPCIBusId)(&device, text), 0);
    expect("that device", device, 0);
    MUST(CALL(cuDeviceCanAccessPeer)(&number, 0, 0));
    expect("peer of itself", number, 0);
}

static void *in_another_thread(void *unused)
{
    CUcontext context = NULL;
    CUdeviceptr address;
    (void)unused;
    expect("current in a new thread", CALL(cuCtxGetCurrent)(&context), 0);
    expect("which is NULL", context == NULL, 1);
    expect("allocate without context", CALL(cuMemAlloc)(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
    expect("free nothing without context", CALL(cuMemFree)(0), 0);
    return NULL;
}

static CUcontext contexts(void)
{
    CUcontext primary, context, current;
    CUdevice device;
    unsigned int number;
    int active;
    pthread_t thread;
    topic = "contexts";
    expect("release without retain", CALL(cuDevicePrimaryCtxRelease)(0), CUDA_ERROR_INVALID_CONTEXT);
    expect("pop of nothing", CALL(cuCtxPopCurrent)(&current), CUDA_ERROR_INVALID_CONTEXT);
    MUST(CALL(cuDevicePrimaryCtxRetain)(&primary, 0));
    MUST(CALL(cuDevicePrimaryCtxGetState)(0, &number, &active));
    expect("active", active, 1);
    MUST(CALL(cuCtxSetCurrent)(primary));
    MUST(CALL(cuCtxGetDevice)(&device));
    expect("device", device, 0);
    MUST(CALL(cuCtxGetApiVersion)(primary, &number));
    expect("api version", number, 3020);
    expect("create", CALL(cuCtxCreate)(&context, NULL, 0, 0), 0);
    MUST(CALL(cuCtxGetCurrent)(&current));
    expect("created is current", current == context, 1);
    MUST(CALL(cuCtxPushCurrent)(primary));
    MUST(CALL(cuCtxPopCurrent)(&current));
    expect("popped what was pushed", current == primary, 1);
    expect("destroy", CALL(cuCtxDestroy)(context), 0);
    MUST(CALL(cuCtxGetCurrent)(&current));
    expect("the one below is current", current == primary, 1);
    expect("push NULL", CALL(cuCtxPushCurrent)(NULL), CUDA_ERROR_INVALID_VALUE);
    expect("destroy the primary", CALL(cuCtxDestroy)(primary), CUDA_ERROR_INVALID_CONTEXT);
    if (pthread_create(&thread, NULL, in_another_thread, NULL) || pthread_join(thread, NULL))
        exit(102);
    return primary;
}

static void memory(void)
{
    CUdeviceptr address, base, other;
    size_t size, pitch, free_bytes, total;
    unsigned int flags;
    void *host;
    topic = "memory";
    expect("allocate 0", CALL(cuMemAlloc)(&address, 0), CUDA_ERROR_INVALID_VALUE);
    expect("allocate 2^62", CALL(cuMemAlloc)(&address, (size_t)1 << 62), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(CALL(cuMemAlloc)(&address, 1000));
    expect("alignment", address % 512, 0);
    MUST(CALL(cuMemGetAddressRange)(&base, &size, address + 999));
    expect("base", base == address, 1);
    expect("size", (long long)size, 1000);
    expect("range past the end", CALL(cuMemGetAddressRange)(&base, &size, address + 1000), 500);
    expect("free inside", CALL(cuMemFree)(address + 8), CUDA_ERROR_INVALID_VALUE);
    expect("free", CALL(cuMemFree)(address), 0);
    expect("free twice", CALL(cuMemFree)(address), CUDA_ERROR_INVALID_VALUE);
    expect("free 0", CALL(cuMemFree)(0), 0);
    MUST(CALL(cuMemAllocPitch)(&other, &pitch, 100, 3, 4));
    expect("pitch of 100", (long long)pitch, 512);
    MUST(CALL(cuMemFree)(other));
    expect("pitch of elements of 3", CALL(cuMemAllocPitch)(&other, &pitch, 100, 3, 3), 1);
    MUST(CALL(cuMemGetInfo)(&free_bytes, &total));
    expect("free is at most total", free_bytes <= total, 1);
    MUST(CALL(cuMemHostAlloc)(&host, 1000, CU_MEMHOSTALLOC_WRITECOMBINED));
    MUST(CALL(cuMemHostGetFlags)(&flags, host));
    expect("flags of write-combined memory", flags, 6);
    MUST(CALL(cuMemHostGetDevicePointer)(&address, host, 0));
    expect("pinned at one address", address == (CUdeviceptr)(uintptr_t)host, 1);
    MUST(CALL(cuMemFreeHost)(host));
    host = aligned_alloc(4096, 8192);
    if (!host)
        exit(102);
    expect("register", CALL(cuMemHostRegister)(host, 8192, 0), 0);
    expect("register again", CALL(cuMemHostRegister)(host, 4096, 0), 712);
    expect("unregister", CALL(cuMemHostUnregister)(host), 0);
    expect("unregister again", CALL(cuMemHostUnregister)(host), 713);
    free(host);
    MUST(CALL(cuMemAllocManaged)(&address, 1000, CU_MEM_ATTACH_GLOBAL));
    memset((void *)(uintptr_t)address, 7, 1000);
    expect("managed memory is read by the device", same(address, 7, 1000), 1);
    MUST(CALL(cuMemFree)(address));
}

static void pointers(CUcontext primary)
{
    CUdeviceptr address;
    CUcontext context = NULL;
    unsigned int type = 9, managed = 9, set = 1;
    int device = 9;
    size_t size = 0;
    unsigned long long id, next;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_CONTEXT};
    void *values[] = {&type, &managed, &device, &size, &context};
    topic = "pointers";
    MUST(CALL(cuMemAlloc)(&address, 1000));
    MUST(CALL(cuPointerGetAttributes)(5, names, values, address + 500));
    expect("memory type", type, CU_MEMORYTYPE_DEVICE);
    expect("managed", managed, 0);
    expect("device", device, 0);
    expect("size", (long long)size, 1000);
    expect("context", context == primary, 1);
    expect("host pointer", CALL(cuPointerGetAttribute)(&id, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                                       address), CUDA_ERROR_INVALID_VALUE);
    expect("sync memops", CALL(cuPointerSetAttribute)(&set, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                                      address), 0);
    MUST(CALL(cuPointerGetAttribute)(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    MUST(CALL(cuMemFree)(address));
    expect("of freed memory", CALL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                          address), CUDA_ERROR_INVALID_VALUE);
    expect("many of freed memory", CALL(cuPointerGetAttributes)(3, names, values, address), 0);
    expect("its type", type, 0);
    expect("its device", device, -2);
    MUST(CALL(cuMemAlloc)(&address, 1000));
    MUST(CALL(cuPointerGetAttribute)(&next, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    expect("a new buffer id", next != id, 1);
    MUST(CALL(cuMemFree)(address));
}

static void copies(void)
{
    CUdeviceptr a, b;
    unsigned char data[1024], back[1024];
    CUDA_MEMCPY2D flat;
    CUDA_MEMCPY3D box;
    topic = "copies";
    for (int i = 0; i < 1024; i++)
        data[i] = (unsigned char)(i * 7 + i / 251);
    MUST(CALL(cuMemAlloc)(&a, 1000));
    MUST(CALL(cuMemAlloc)(&b, 1000));
    MUST(CALL(cuMemcpyHtoD)(a, data, 1000));
    MUST(CALL(cuMemcpyDtoD)(b, a, 1000));
    MUST(CALL(cuMemcpyDtoH)(back, b, 1000));
    expect("there and back", memcmp(data, back, 1000), 0);
    MUST(CALL(cuMemsetD8)(a, 0xEE, 1000));
    expect("one byte too many", CALL(cuMemcpyHtoD)(a, data, 1001), CUDA_ERROR_INVALID_VALUE);
    expect("nothing was written", same(a, 0xEE, 1000), 1);
    expect("of nothing from nowhere", CALL(cuMemcpy)(0, 0, 0), 0);
    expect("to nowhere", CALL(cuMemcpyHtoD)(0, data, 1), CUDA_ERROR_INVALID_VALUE);
    memset(&flat, 0, sizeof flat);
    flat.srcMemoryType = CU_MEMORYTYPE_HOST;
    flat.srcHost = data;
    flat.srcPitch = 32;
    flat.srcXInBytes = 3;
    flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    flat.dstDevice = b;
    flat.dstPitch = 64;
    flat.dstY = 1;
    flat.WidthInBytes = 10;
    flat.Height = 4;
    expect("rectangle", CALL(cuMemcpy2D)(&flat), 0);
    MUST(CALL(cuMemcpyDtoH)(back, b + 64 * 4, 10));
    expect("its last row", memcmp(back, data + 32 * 3 + 3, 10), 0);
    flat.dstPitch = 5;
    expect("pitch below width", CALL(cuMemcpy2D)(&flat), CUDA_ERROR_INVALID_VALUE);
    memset(&box, 0, sizeof box);
    box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = b;
    box.srcPitch = 16;
    box.srcHeight = 4;
    box.dstMemoryType = CU_MEMORYTYPE_HOST;
    box.dstHost = back;
    box.dstPitch = 8;
    box.dstHeight = 3;
    box.WidthInBytes = 8;
    box.Height = 3;
    box.Depth = 5;
    MUST(CALL(cuMemcpyHtoD)(b, data, 1000));
    expect("box", CALL(cuMemcpy3D)(&box), 0);
    expect("its last row", memcmp(back + 8 * (4 * 3 + 2), data + 16 * (4 * 4 + 2), 8), 0);
    box.Depth = 17;
    expect("box too deep", CALL(cuMemcpy3D)(&box), CUDA_ERROR_INVALID_VALUE);
    expect("memset 16 at an odd address", CALL(cuMemsetD16)(a + 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    expect("memset 32 past the end", CALL(cuMemsetD32)(a, 1, 251), CUDA_ERROR_INVALID_VALUE);
    expect("memset 32", CALL(cuMemsetD32)(a, 0x05050505, 250), 0);
    expect("its bytes", same(a, 5, 1000), 1);
    expect("memset of a rectangle", CALL(cuMemsetD2D32)(a, 100, 0x06060606, 5, 3), 0);
    expect("its last row", same(a + 200, 6, 20) && same(a + 220, 5, 780), 1);
    MUST(CALL(cuMemFree)(a));
    MUST(CALL(cuMemFree)(b));
}

static void count_up(void *counter)
{
    ++*(int *)counter;
}

static void streams_and_events(void)
{
    CUstream first, second, none;
    CUevent event, late, untimed;
    CUdeviceptr device;
    unsigned char *out;
    volatile uint32_t *gate;
    unsigned int flags;
    float time;
    int count = 0;
    topic = "streams";
    MUST(CALL(cuStreamCreate)(&first, CU_STREAM_NON_BLOCKING));
    MUST(CALL(cuStreamCreateWithPriority)(&second, CU_STREAM_NON_BLOCKING, -100));
    expect("flags 2", CALL(cuStreamCreate)(&none, 2), CUDA_ERROR_INVALID_VALUE);
    MUST(CALL(cuStreamGetFlags)(second, &flags));
    expect("flags", flags, 1);
    expect("destroy the legacy stream", CALL(cuStreamDestroy)(CU_STREAM_LEGACY), 400);
    MUST(CALL(cuMemAllocHost)((void **)&gate, 64));
    MUST(CALL(cuMemAllocHost)((void **)&out, 64));
    MUST(CALL(cuMemAlloc)(&device, 8));
    MUST(CALL(cuMemsetD8)(device, 1, 8));
    MUST(CALL(cuCtxSynchronize)());
    MUST(CALL(cuEventCreate)(&event, 0));
    MUST(CALL(cuEventCreate)(&late, 0));
    MUST(CALL(cuEventCreate)(&untimed, CU_EVENT_DISABLE_TIMING));
    *gate = 0;
    out[0] = 0;
    MUST(CALL(cuEventRecord)(event, first));
    MUST(CALL(cuEventSynchronize)(event));
    MUST(CALL(cuStreamWaitValue32)(first, (CUdeviceptr)(uintptr_t)gate, 1, 0));
    MUST(CALL(cuMemsetD8Async)(device, 2, 8, first));
    MUST(CALL(cuLaunchHostFunc)(first, count_up, &count));
    MUST(CALL(cuEventRecord)(late, first));
    MUST(CALL(cuStreamWaitEvent)(second, late, 0));
    MUST(CALL(cuMemcpyDtoHAsync)(out, device, 8, second));
    expect("behind a gate", CALL(cuStreamQuery)(first), CUDA_ERROR_NOT_READY);
    expect("behind an event behind it", CALL(cuStreamQuery)(second), CUDA_ERROR_NOT_READY);
    expect("byte before", out[0], 0);
    topic = "events";
    expect("pending", CALL(cuEventQuery)(late), CUDA_ERROR_NOT_READY);
    expect("time of a pending one", CALL(cuEventElapsedTime)(&time, event, late), 600);
    expect("never recorded", CALL(cuEventQuery)(untimed), 0);
    expect("time of an untimed one", CALL(cuEventElapsedTime)(&time, event, untimed), 400);
    *gate = 1;
    MUST(CALL(cuStreamSynchronize)(second));
    topic = "streams";
    expect("byte after", out[0], 2);
    expect("host function ran", count, 1);
    topic = "events";
    expect("done", CALL(cuEventQuery)(late), 0);
    expect("time", CALL(cuEventElapsedTime)(&time, event, late), 0);
    expect("is not negative", time >= 0, 1);
    expect("query of NULL", CALL(cuEventQuery)(NULL), CUDA_ERROR_INVALID_HANDLE);
    MUST(CALL(cuStreamWriteValue32)(first, (CUdeviceptr)(uintptr_t)gate, 77, 0));
    MUST(CALL(cuStreamSynchronize)(first));
    topic = "streams";
    expect("written value", *gate, 77);
    MUST(CALL(cuStreamDestroy)(first));
    MUST(CALL(cuStreamDestroy)(second));
    MUST(CALL(cuEventDestroy)(event));
    MUST(CALL(cuEventDestroy)(late));
    MUST(CALL(cuEventDestroy)(untimed));
    MUST(CALL(cuMemFreeHost)((void *)gate));
    MUST(CALL(cuMemFreeHost)(out));
    MUST(CALL(cuMemFree)(device));
}

static void pools(void)
{
    CUmemoryPool pool, standard;
    CUmemPoolProps wanted;
    CUstream stream;
    CUdeviceptr address;
    cuuint64_t number = 0;
    topic = "pools";
    memset(&wanted, 0, sizeof wanted);
    wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    MUST(CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    MUST(CALL(cuMemPoolCreate)(&pool, &wanted));
    MUST(CALL(cuMemAllocFromPoolAsync)(&address, 1000, pool, stream));
    MUST(CALL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &number));
    expect("used", (long long)number, 1000);
    expect("free", CALL(cuMemFreeAsync)(address, stream), 0);
    expect("fill after that", CALL(cuMemsetD8Async)(address, 1, 8, stream), 1);
    expect("free again", CALL(cuMemFreeAsync)(address, stream), CUDA_ERROR_INVALID_VALUE);
    MUST(CALL(cuStreamSynchronize)(stream));
    MUST(CALL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &number));
    expect("used at most", (long long)number, 1000);
    number = 0;
    expect("reset", CALL(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &number), 0);
    expect("trim", CALL(cuMemPoolTrimTo)(pool, 0), 0);
    MUST(CALL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &number));
    expect("reserved", (long long)number, 0);
    expect("allocate nothing", CALL(cuMemAllocAsync)(&address, 0, stream), 0);
    MUST(CALL(cuDeviceGetDefaultMemPool)(&standard, 0));
    expect("destroy the default", CALL(cuMemPoolDestroy)(standard), CUDA_ERROR_INVALID_VALUE);
    MUST(CALL(cuMemPoolDestroy)(pool));
    MUST(CALL(cuStreamDestroy)(stream));
}

static void capture(void)
{
    CUstream stream, other;
    CUevent fork, join;
    CUgraph graph = NULL;
    CUgraphExec executable;
    CUstreamCaptureStatus status;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr device, address;
    cuuint64_t id = 0;
    size_t nodes = 99;
    int count = 0;
    topic = "capture";
    MUST(CALL(cuMemAlloc)(&device, 64));
    MUST(CALL(cuMemsetD8)(device, 0, 64));
    MUST(CALL(cuCtxSynchronize)());
    MUST(CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    MUST(CALL(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    MUST(CALL(cuEventCreate)(&fork, CU_EVENT_DISABLE_TIMING));
    MUST(CALL(cuEventCreate)(&join, CU_EVENT_DISABLE_TIMING));
    expect("of the legacy stream", CALL(cuStreamBeginCapture)(NULL, mode), 900);
    expect("end of nothing", CALL(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    MUST(CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    expect("twice", CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 401);
    expect("allocate in it", CALL(cuMemAlloc)(&address, 16), 900);
    MUST(CALL(cuStreamIsCapturing)(stream, &status));
    expect("status after that", status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    expect("end of an invalid one", CALL(cuStreamEndCapture)(stream, &graph), 901);
    expect("its graph is NULL", graph == NULL, 1);
    MUST(CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(CALL(cuThreadExchangeStreamCaptureMode)(&mode));
    expect("the mode before", mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    expect("allocate when relaxed", CALL(cuMemAlloc)(&address, 16), 0);
    MUST(CALL(cuMemFree)(address));
    MUST(CALL(cuThreadExchangeStreamCaptureMode)(&mode));
    MUST(CALL(cuStreamGetCaptureInfo)(stream, &status, &id, NULL, NULL, NULL, NULL));
    expect("status", status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    expect("has an id", id != 0, 1);
    MUST(CALL(cuMemsetD8Async)(device, 1, 64, stream));
    MUST(CALL(cuEventRecord)(fork, stream));
    MUST(CALL(cuStreamWaitEvent)(other, fork, 0));
    MUST(CALL(cuMemsetD8Async)(device, 2, 32, other));
    MUST(CALL(cuLaunchHostFunc)(other, count_up, &count));
    MUST(CALL(cuEventRecord)(join, other));
    MUST(CALL(cuStreamWaitEvent)(stream, join, 0));
    expect("end", CALL(cuStreamEndCapture)(stream, &graph), 0);
    MUST(CALL(cuGraphGetNodes)(graph, NULL, &nodes));
    expect("nodes", (long long)nodes, 3);
    expect("nothing ran", same(device, 0, 64) && count == 0, 1);
    MUST(CALL(cuGraphInstantiateWithFlags)(&executable, graph, 0));
    expect("destroy the graph", CALL(cuGraphDestroy)(graph), 0);
    for (int i = 1; i <= 3; i++) {
        MUST(CALL(cuMemsetD8)(device, 0, 64));
        MUST(CALL(cuCtxSynchronize)());
        MUST(CALL(cuGraphLaunch)(executable, stream));
        MUST(CALL(cuStreamSynchronize)(stream));
        expect("launched", same(device, 2, 32) && same(device + 32, 1, 32) && count == i, 1);
    }
    expect("destroy the executable", CALL(cuGraphExecDestroy)(executable), 0);
    MUST(CALL(cuEventDestroy)(fork));
    MUST(CALL(cuEventDestroy)(join));
    MUST(CALL(cuStreamDestroy)(stream));
    MUST(CALL(cuStreamDestroy)(other));
    MUST(CALL(cuMemFree)(device));
}

/* Written by hand. */
static const char ptx[] = ".version 6.3\n.target sm_75\n.address_size 64\n"
                          ".visible .entry nothing() { ret; }\n";

static void modules(void)
{
    CUmodule module;
    topic = "modules";
    expect("load", CALL(cuModuleLoadData)(&module, ptx), 0);
    expect("unload", CALL(cuModuleUnload)(module), 0);
    expect("no module", CALL(cuModuleLoadData)(&module, "no module at all"), 200);
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    find_functions(count > 1 ? arguments[1] : "libcuda.so.1");
    start();
    devices();
    CUcontext primary = contexts();
    memory();
    pointers(primary);
    copies();
    streams_and_events();
    pools();
    capture();
    modules();
    topic = "end";
    expect("synchronize", CALL(cuCtxSynchronize)(), 0);
    expect("release", CALL(cuDevicePrimaryCtxRelease)(0), 0);
    return wrong > 99 ? 99 : wrong;
}
