/* Calls every group of functions of libgpulend_rt.so, and checks what they do. It exits with 0 if all is well.
 *
 *   cargo build -p gpulend-runtime
 *   gcc -std=c11 -Wall -Werror -I crates/core/headers/program crates/runtime/tests/calls.c -o calls \
 *       -L target/debug -lgpulend_rt -lpthread -Wl,-rpath,$PWD/target/debug
 *   LD_LIBRARY_PATH=<folder of libcuda.so.1> ./calls
 *
 * The start-up code that clang would write is written here by hand. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_runtime_api.h"

/* What crates/runtime/src asserts of its own structs. */
_Static_assert(sizeof(struct cudaDeviceProp) == 1032, "cudaDeviceProp");
_Static_assert(offsetof(struct cudaDeviceProp, totalGlobalMem) == 288, "cudaDeviceProp");
_Static_assert(sizeof(struct cudaFuncAttributes) == 144, "cudaFuncAttributes");
_Static_assert(offsetof(struct cudaFuncAttributes, maxThreadsPerBlock) == 24, "cudaFuncAttributes");
_Static_assert(offsetof(struct cudaFuncAttributes, clusterDimMustBeSet) == 52, "cudaFuncAttributes");
_Static_assert(offsetof(struct cudaFuncAttributes, clusterSchedulingPolicyPreference) == 68, "cudaFuncAttributes");
_Static_assert(offsetof(struct cudaFuncAttributes, nonPortableClusterSizeAllowed) == 72, "cudaFuncAttributes");
_Static_assert(sizeof(struct cudaPointerAttributes) == 24, "cudaPointerAttributes");
_Static_assert(offsetof(struct cudaPointerAttributes, devicePointer) == 8, "cudaPointerAttributes");
_Static_assert(sizeof(struct cudaMemcpy3DParms) == 160, "cudaMemcpy3DParms");
_Static_assert(offsetof(struct cudaMemcpy3DParms, dstArray) == 64, "cudaMemcpy3DParms");
_Static_assert(offsetof(struct cudaMemcpy3DParms, kind) == 152, "cudaMemcpy3DParms");
_Static_assert(sizeof(struct cudaMemPoolProps) == 88, "cudaMemPoolProps");
_Static_assert(sizeof(cudaLaunchAttribute) == 72, "cudaLaunchAttribute");
_Static_assert(sizeof(cudaLaunchConfig_t) == 56, "cudaLaunchConfig_t");
_Static_assert(sizeof(struct cudaKernelNodeParams) == 56, "cudaKernelNodeParams");

/* What a compiler declares by itself. */
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
int __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid,
                           void *bid, void *block, void *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
                       int constant, int global);
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **stream);

static const char image[] =
    ".version 7.0\n.target sm_52\n.address_size 64\n"
    ".visible .global .align 4 .b8 table[16];\n"
    ".visible .const .align 4 .b8 factor[4];\n"
    ".visible .entry scale(.param .u64 data, .param .u32 count) {\n"
    "  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<5>;\n"
    "  ld.param.u64 %rd1, [data]; ld.param.u32 %r1, [count];\n"
    "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
    "  mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.u32 %p1, %r5, %r1; @%p1 bra DONE;\n"
    "  cvta.to.global.u64 %rd2, %rd1; mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd2, %rd3;\n"
    "  ld.const.f32 %f1, [factor]; ld.global.f32 %f2, [%rd4]; mul.f32 %f3, %f1, %f2; st.global.f32 [%rd4], %f3;\n"
    "DONE: ret;\n}\n"
    ".visible .entry wild(.param .u64 address) {\n"
    "  .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
    "  ld.param.u64 %rd1, [address]; mov.u32 %r1, 7; st.global.u32 [%rd1], %r1; ret;\n}\n";
static const char broken[] = ".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry bad() { nonsense; }\n";

struct wrapper {
    int magic;
    int version;
    const void *data;
    void *unused;
};
static struct wrapper good_wrapper = {0x466243b1, 1, image, NULL};
static struct wrapper broken_wrapper = {0x466243b1, 1, broken, NULL};
/* Their addresses stand for the kernels and variables. */
static char scale_host, wild_host, bad_host, unknown_host, absent_host;
static float factor_host;
static int table_host[4];

static int line_failed;
#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "calls.c:%d: %s\n", __LINE__, #condition);          \
            line_failed = __LINE__;                                             \
        }                                                                       \
    } while (0)
#define IS(expected, call)                                                                             \
    do {                                                                                               \
        cudaError_t got_ = (call);                                                                     \
        if (got_ != (expected)) {                                                                      \
            fprintf(stderr, "calls.c:%d: %s: %s\n", __LINE__, #call, cudaGetErrorName(got_));          \
            line_failed = __LINE__;                                                                    \
        }                                                                                              \
    } while (0)
#define OK(call) IS(cudaSuccess, call)
/* A driver may lack it. */
#define OK_IF_SUPPORTED(call)                                                                      \
    do {                                                                                           \
        cudaError_t told_ = (call);                                                                \
        if (told_ == cudaErrorNotSupported) fprintf(stderr, "not supported: %s\n", #call);         \
        else OK(told_);                                                                            \
        cudaGetLastError();                                                                        \
    } while (0)

static dim3 shape(unsigned x, unsigned y, unsigned z) {
    dim3 made = {x, y, z};
    return made;
}

static void **good, **bad;
static void register_images(void) {
    good = __cudaRegisterFatBinary(&good_wrapper);
    __cudaRegisterFunction(good, &scale_host, "scale", "scale", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(good, &wild_host, "wild", "wild", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(good, &absent_host, "absent", "absent", -1, 0, 0, 0, 0, 0);
    __cudaRegisterVar(good, (char *)&factor_host, "factor", "factor", 0, 4, 1, 0);
    __cudaRegisterVar(good, (char *)table_host, "table", "table", 0, 16, 0, 0);
    __cudaRegisterFatBinaryEnd(good);
    bad = __cudaRegisterFatBinary(&broken_wrapper);
    __cudaRegisterFunction(bad, &bad_host, "bad", "bad", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFatBinaryEnd(bad);
}

static void errors(void) {
    IS(cudaErrorInvalidValue, cudaMalloc(NULL, 4));
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(!strcmp(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady"));
    CHECK(!strcmp(cudaGetErrorName(cudaSuccess), "cudaSuccess"));
    CHECK(!strcmp(cudaGetErrorString((cudaError_t)12345), "unrecognized error code"));
    CHECK(strlen(cudaGetErrorString(cudaErrorIllegalAddress)) > 5);
    IS(cudaErrorInvalidValue, cudaGetDeviceCount(NULL));
    IS(cudaErrorInvalidValue, cudaEventCreate(NULL));
    IS(cudaErrorInvalidValue, cudaStreamCreate(NULL));
    IS(cudaErrorInvalidValue, cudaGetDeviceProperties(NULL, 0));
    IS(cudaErrorInvalidValue, cudaMemcpy3D(NULL));
    IS(cudaErrorInvalidValue, cudaLaunchHostFunc(0, NULL, NULL));
    cudaGetLastError();
}

static void devices(void) {
    int count = 0, device = -1, value = 0, version = 0, least = 1, greatest = 1;
    unsigned flags = 0;
    size_t bytes = 0;
    char bus[32] = "";
    struct cudaDeviceProp about;
    OK(cudaGetDeviceCount(&count));
    CHECK(count > 0);
    OK(cudaGetDevice(&device));
    CHECK(device == 0);
    OK(cudaSetDevice(0));
    IS(cudaErrorInvalidDevice, cudaSetDevice(count));
    IS(cudaErrorInvalidDevice, cudaSetDevice(-1));
    OK(cudaGetDevice(&device));
    CHECK(device == 0);
    OK(cudaSetValidDevices(&device, 1));
    memset(&about, 0xff, sizeof about);
    OK(cudaGetDeviceProperties(&about, 0));
    CHECK(strlen(about.name) > 0 && about.warpSize == 32 && about.totalGlobalMem > 0);
    CHECK(about.maxThreadsPerBlock >= 512 && about.maxGridSize[2] > 0 && about.multiProcessorCount > 0);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(value == about.major && value > 4);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrUnifiedAddressing, 0));
    CHECK(value == about.unifiedAddressing);
    OK(cudaChooseDevice(&device, &about));
    CHECK(device >= 0 && device < count);
    OK(cudaDriverGetVersion(&version));
    CHECK(version >= 11000);
    OK(cudaRuntimeGetVersion(&version));
    CHECK(version == CUDART_VERSION);
    OK(cudaGetDeviceFlags(&flags));
    CHECK(flags & cudaDeviceMapHost);
    OK(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
    OK(cudaDeviceSetLimit(cudaLimitStackSize, bytes));
    OK(cudaThreadSetLimit(cudaLimitStackSize, bytes));
    enum cudaFuncCache cache;
    OK(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
    OK(cudaDeviceGetCacheConfig(&cache));
    OK(cudaThreadSetCacheConfig(cudaFuncCachePreferNone));
    enum cudaSharedMemConfig banks;
    OK(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeFourByte));
    OK(cudaDeviceGetSharedMemConfig(&banks));
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest <= least);
    OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    OK(cudaDeviceGetByPCIBusId(&device, bus));
    CHECK(device == 0);
    if (count > 1) OK(cudaDeviceCanAccessPeer(&value, 0, 1));
    OK(cudaInitDevice(0, 0, 0));
    OK(cudaDeviceSynchronize());
    OK(cudaThreadSynchronize());
    OK(cudaProfilerStart());
    OK(cudaProfilerStop());
    OK_IF_SUPPORTED(cudaCtxResetPersistingL2Cache());
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPoint("cuInit", &function, cudaEnableDefault, &found));
    CHECK(function && found == cudaDriverEntryPointSuccess);
    cudaGetLastError();
}

static void memory(void) {
    void *device = (void *)1, *host = NULL, *other = NULL;
    size_t free_bytes = 0, total = 0;
    unsigned flags = 0;
    struct cudaPointerAttributes about;
    OK(cudaMalloc(&device, 0));
    CHECK(device == NULL);
    OK(cudaFree(NULL));
    OK(cudaMalloc(&device, 1000));
    CHECK(device != NULL);
    OK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes > 0 && free_bytes <= total);
    OK(cudaPointerGetAttributes(&about, device));
    CHECK(about.type == cudaMemoryTypeDevice && about.device == 0 && about.devicePointer == device);
    OK(cudaPointerGetAttributes(&about, &about));
    CHECK(about.type == cudaMemoryTypeUnregistered);
    OK(cudaMallocHost(&host, 256));
    OK(cudaPointerGetAttributes(&about, host));
    CHECK(about.type == cudaMemoryTypeHost && about.hostPointer == host);
    OK(cudaHostGetDevicePointer(&other, host, 0));
    CHECK(other != NULL);
    OK(cudaFreeHost(host));
    OK(cudaFreeHost(NULL));
    OK(cudaHostAlloc(&host, 256, cudaHostAllocMapped | cudaHostAllocPortable));
    OK(cudaHostGetFlags(&flags, host));
    CHECK(flags & cudaHostAllocMapped);
    OK(cudaFreeHost(host));
    host = aligned_alloc(4096, 8192);
    OK(cudaHostRegister(host, 8192, cudaHostRegisterDefault));
    IS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(host, 8192, cudaHostRegisterDefault));
    OK(cudaHostUnregister(host));
    free(host);
    int *managed = NULL;
    OK(cudaMallocManaged((void **)&managed, 4096, cudaMemAttachGlobal));
    if (managed) {
        managed[3] = 5;
        OK(cudaPointerGetAttributes(&about, managed));
        CHECK(about.type == cudaMemoryTypeManaged);
        OK_IF_SUPPORTED(cudaMemAdvise(managed, 4096, cudaMemAdviseSetReadMostly, 0));
        OK_IF_SUPPORTED(cudaMemPrefetchAsync(managed, 4096, 0, 0));
        OK_IF_SUPPORTED(cudaMemPrefetchAsync(managed, 4096, cudaCpuDeviceId, 0));
        OK(cudaDeviceSynchronize());
        CHECK(managed[3] == 5);
        OK(cudaFree(managed));
    }
    OK(cudaFree(device));
    IS(cudaErrorInvalidValue, cudaFree((void *)0x1234));
    cudaGetLastError();
}

static void copies(void) {
    unsigned char from[64], to[64], *device, *second, *rows;
    size_t pitch = 0;
    for (int i = 0; i < 64; i++) from[i] = (unsigned char)i;
    OK(cudaMalloc((void **)&device, 64));
    OK(cudaMalloc((void **)&second, 64));
    OK(cudaMemcpy(device, from, 64, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(second, device, 64, cudaMemcpyDeviceToDevice));
    memset(to, 0, 64);
    OK(cudaMemcpy(to, second, 64, cudaMemcpyDeviceToHost));
    CHECK(!memcmp(from, to, 64));
    memset(to, 0, 64);
    OK(cudaMemcpy(to, from, 64, cudaMemcpyHostToHost));
    CHECK(!memcmp(from, to, 64));
    memset(to, 0, 64);
    OK(cudaMemcpy(to, second, 64, cudaMemcpyDefault));
    CHECK(!memcmp(from, to, 64));
    OK(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
    IS(cudaErrorInvalidMemcpyDirection, cudaMemcpy(to, from, 4, (enum cudaMemcpyKind)5));
    CHECK(cudaMemcpy(device, second, 4096, cudaMemcpyDeviceToDevice) != cudaSuccess);
    cudaGetLastError();
    OK(cudaMemset(device, 0x1ff, 32));
    OK(cudaMemsetAsync(device + 32, 7, 32, 0));
    OK(cudaMemcpyAsync(second, device, 64, cudaMemcpyDeviceToDevice, 0));
    OK(cudaMemcpyAsync(to, second, 64, cudaMemcpyDeviceToHost, 0));
    OK(cudaStreamSynchronize(0));
    CHECK(to[0] == 255 && to[31] == 255 && to[32] == 7 && to[63] == 7);
    OK(cudaMemcpyAsync(device, from, 64, cudaMemcpyHostToDevice, 0));
    OK(cudaMemcpyAsync(to, device, 64, cudaMemcpyDefault, 0));
    OK(cudaStreamSynchronize(0));
    CHECK(!memcmp(from, to, 64));
    OK(cudaMemcpyPeer(second, 0, device, 0, 16));
    OK(cudaMemcpyPeerAsync(second, 0, device, 0, 16, 0));

    OK(cudaMallocPitch((void **)&rows, &pitch, 8, 8));
    CHECK(pitch >= 8);
    OK(cudaMemset2D(rows, pitch, 3, 8, 8));
    OK(cudaMemcpy2D(rows, pitch, from, 8, 8, 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DAsync(to, 8, rows, pitch, 8, 8, cudaMemcpyDeviceToHost, 0));
    OK(cudaStreamSynchronize(0));
    CHECK(!memcmp(to, from, 32) && to[32] == 3 && to[63] == 3);
    IS(cudaErrorInvalidPitchValue, cudaMemcpy2D(rows, pitch, from, 4, 8, 4, cudaMemcpyHostToDevice));
    OK(cudaFree(rows));

    struct cudaPitchedPtr cube;
    struct cudaExtent extent = make_cudaExtent(4, 4, 4);
    OK(cudaMalloc3D(&cube, extent));
    CHECK(cube.ptr && cube.xsize == 4 && cube.ysize == 4 && cube.pitch >= 4);
    OK(cudaMemset3D(cube, 9, extent));
    struct cudaMemcpy3DParms copy;
    memset(&copy, 0, sizeof copy);
    copy.srcPtr = make_cudaPitchedPtr(from, 4, 4, 4);
    copy.dstPtr = cube;
    copy.dstPos = make_cudaPos(0, 0, 1);
    copy.extent = make_cudaExtent(4, 4, 2);
    copy.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&copy));
    memset(&copy, 0, sizeof copy);
    copy.srcPtr = cube;
    copy.dstPtr = make_cudaPitchedPtr(to, 4, 4, 4);
    copy.extent = extent;
    copy.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3DAsync(&copy, 0));
    OK(cudaStreamSynchronize(0));
    CHECK(to[0] == 9 && to[15] == 9 && !memcmp(to + 16, from, 32) && to[48] == 9 && to[63] == 9);
    OK(cudaFree(cube.ptr));
    OK(cudaFree(second));
    OK(cudaFree(device));
}

static void symbols(void) {
    int numbers[4] = {1, 2, 3, 4}, back[4] = {0};
    void *address = NULL;
    size_t size = 0;
    OK(cudaGetSymbolSize(&size, table_host));
    CHECK(size == 16);
    OK(cudaGetSymbolAddress(&address, table_host));
    CHECK(address != NULL);
    OK(cudaMemcpyToSymbol(table_host, numbers, 16, 0, cudaMemcpyHostToDevice));
    OK(cudaMemcpyToSymbolAsync(table_host, numbers, 4, 12, cudaMemcpyHostToDevice, 0));
    OK(cudaMemcpyFromSymbol(back, table_host, 16, 0, cudaMemcpyDeviceToHost));
    CHECK(back[0] == 1 && back[2] == 3 && back[3] == 1);
    OK(cudaMemcpyFromSymbolAsync(back, table_host, 4, 4, cudaMemcpyDeviceToHost, 0));
    OK(cudaDeviceSynchronize());
    CHECK(back[0] == 2);
    IS(cudaErrorInvalidValue, cudaMemcpyToSymbol(table_host, numbers, 16, 4, cudaMemcpyHostToDevice));
    IS(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(table_host, numbers, 16, 0, cudaMemcpyDeviceToHost));
    IS(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(numbers, numbers, 16, 0, cudaMemcpyHostToDevice));
    IS(cudaErrorInvalidSymbol, cudaGetSymbolSize(&size, &unknown_host));
    cudaGetLastError();
}

/* Scales ten numbers on a stream by the factor, and returns whether all are right. */
static int scale_ten(cudaStream_t stream, float by) {
    float numbers[10], *device = NULL;
    int count = 10, right = 1;
    void *arguments[] = {&device, &count};
    for (int i = 0; i < 10; i++) numbers[i] = (float)i;
    OK(cudaMemcpyToSymbol(&factor_host, &by, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaMalloc((void **)&device, sizeof numbers));
    OK(cudaMemcpyAsync(device, numbers, sizeof numbers, cudaMemcpyHostToDevice, stream));
    OK(cudaLaunchKernel(&scale_host, shape(2, 1, 1), shape(8, 1, 1), arguments, 0, stream));
    OK(cudaMemcpyAsync(numbers, device, sizeof numbers, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 10; i++) right &= numbers[i] == (float)i * by;
    OK(cudaFree(device));
    return right;
}

static void *thread_body(void *data) {
    *(int *)data = scale_ten(cudaStreamPerThread, 3);
    return NULL;
}

static void launches(void) {
    dim3 grid, block;
    size_t shared = 0;
    void *stream = NULL;
    CHECK(__cudaPushCallConfiguration(shape(1, 2, 3), shape(4, 5, 6), 7, NULL) == 0);
    CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == 0);
    CHECK(grid.x == 1 && grid.z == 3 && block.x == 4 && block.z == 6 && shared == 7 && !stream);
    CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream) == cudaErrorMissingConfiguration);
    CHECK(scale_ten(0, 2));
    IS(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(&unknown_host, shape(1, 1, 1), shape(1, 1, 1), NULL, 0, 0));
    IS(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(&absent_host, shape(1, 1, 1), shape(1, 1, 1), NULL, 0, 0));
    CHECK(cudaLaunchKernel(&bad_host, shape(1, 1, 1), shape(1, 1, 1), NULL, 0, 0) == cudaErrorInvalidPtx);
    float *device = NULL;
    int count = 0;
    void *arguments[] = {&device, &count};
    IS(cudaErrorInvalidConfiguration,
       cudaLaunchKernel(&scale_host, shape(1, 1, 1), shape(4096, 1, 1), arguments, 0, 0));
    IS(cudaErrorInvalidConfiguration, cudaLaunchKernel(&scale_host, shape(0, 1, 1), shape(1, 1, 1), arguments, 0, 0));
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    OK(cudaLaunchCooperativeKernel(&scale_host, shape(1, 1, 1), shape(8, 1, 1), arguments, 0, 0));
    cudaLaunchConfig_t configuration;
    memset(&configuration, 0, sizeof configuration);
    configuration.gridDim = shape(1, 1, 1);
    configuration.blockDim = shape(8, 1, 1);
    OK(cudaLaunchKernelExC(&configuration, &scale_host, arguments));
    OK(cudaDeviceSynchronize());
    /* The thread's factor is the only one then. */
    pthread_t thread;
    int right = 0;
    pthread_create(&thread, NULL, thread_body, &right);
    pthread_join(thread, NULL);
    CHECK(right);
}

static void functions(void) {
    struct cudaFuncAttributes about;
    cudaFunction_t handle = NULL;
    const char *name = NULL;
    int blocks = 0, grid = 0, block = 0;
    size_t bytes = 0, offset = 1;
    OK(cudaFuncGetAttributes(&about, &scale_host));
    CHECK(about.maxThreadsPerBlock > 0 && about.numRegs > 0 && about.sharedSizeBytes == 0);
    OK(cudaFuncSetAttribute(&scale_host, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024));
    IS(cudaErrorInvalidValue, cudaFuncSetAttribute(&scale_host, (enum cudaFuncAttribute)3, 1));
    OK(cudaFuncSetCacheConfig(&scale_host, cudaFuncCachePreferShared));
    OK(cudaFuncSetSharedMemConfig(&scale_host, cudaSharedMemBankSizeDefault));
    OK(cudaGetFuncBySymbol(&handle, &scale_host));
    CHECK(handle != NULL);
    OK_IF_SUPPORTED(cudaFuncGetName(&name, &scale_host));
    CHECK(!name || !strcmp(name, "scale"));
    OK_IF_SUPPORTED(cudaFuncGetParamInfo(&scale_host, 1, &offset, &bytes));
    CHECK(bytes == 0 || (bytes == 4 && offset == 8));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &scale_host, 128, 0));
    CHECK(blocks > 0);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, &scale_host, 128, 0, cudaOccupancyDefault));
    OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, &scale_host, 0, 0));
    CHECK(grid > 0 && block >= 32);
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, &scale_host, 1, 128));
    CHECK(bytes > 0);
    cudaGetLastError();
}

static void add_one(void *data) { ++*(int *)data; }
static void add_two(cudaStream_t stream, cudaError_t status, void *data) {
    (void)stream;
    if (status == cudaSuccess) *(int *)data += 2;
}

static void streams_and_events(void) {
    cudaStream_t one, two, high;
    cudaEvent_t start, end, quiet;
    unsigned flags = 9;
    int priority = 9, calls = 0, least, greatest;
    unsigned long long id = 0;
    float time = -1;
    OK(cudaStreamCreate(&one));
    OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    OK(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest));
    OK(cudaStreamGetFlags(two, &flags));
    CHECK(flags == cudaStreamNonBlocking);
    OK(cudaStreamGetPriority(high, &priority));
    CHECK(priority == greatest);
    OK_IF_SUPPORTED(cudaStreamGetId(one, &id));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreateWithFlags(&end, cudaEventDefault));
    OK(cudaEventCreateWithFlags(&quiet, cudaEventDisableTiming));
    OK(cudaEventRecord(start, one));
    CHECK(scale_ten(one, 5));
    OK(cudaEventRecordWithFlags(end, one, cudaEventRecordDefault));
    OK(cudaStreamWaitEvent(two, end, 0));
    OK(cudaLaunchHostFunc(two, add_one, &calls));
    OK(cudaStreamAddCallback(two, add_two, &calls, 0));
    OK(cudaStreamSynchronize(two));
    CHECK(calls == 3);
    OK(cudaEventSynchronize(end));
    OK(cudaEventQuery(end));
    OK(cudaStreamQuery(one));
    OK(cudaEventElapsedTime(&time, start, end));
    CHECK(time >= 0);
    IS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&time, start, quiet));
    cudaGetLastError();
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
    OK(cudaEventDestroy(quiet));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
    OK(cudaStreamDestroy(high));
}

static void pools(void) {
    cudaMemPool_t pool = NULL, mine = NULL;
    void *memory = NULL;
    unsigned long long threshold = 1 << 20, value = 0;
    struct cudaMemPoolProps properties;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    CHECK(value == threshold);
    OK(cudaMallocAsync(&memory, 1024, 0));
    OK(cudaMemsetAsync(memory, 0, 1024, 0));
    OK(cudaFreeAsync(memory, 0));
    OK(cudaMallocAsync(&memory, 0, 0));
    CHECK(memory == NULL);
    OK(cudaFreeAsync(NULL, 0));
    memset(&properties, 0, sizeof properties);
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    OK(cudaMemPoolCreate(&mine, &properties));
    OK(cudaDeviceSetMemPool(0, mine));
    OK(cudaDeviceGetMemPool(&pool, 0));
    CHECK(pool == mine);
    OK(cudaMallocFromPoolAsync(&memory, 64, mine, 0));
    OK(cudaFreeAsync(memory, 0));
    OK(cudaStreamSynchronize(0));
    OK(cudaMemPoolTrimTo(mine, 0));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaDeviceSetMemPool(0, pool));
    OK(cudaMemPoolDestroy(mine));
}

static void graphs(void) {
    cudaStream_t stream;
    cudaGraph_t graph = NULL, clone = NULL, empty = NULL;
    cudaGraphExec_t executable = NULL;
    enum cudaStreamCaptureStatus status;
    enum cudaGraphNodeType type;
    cudaGraphNode_t nodes[4];
    size_t count = 0;
    unsigned long long id = 0;
    unsigned char *device, back[16];
    OK(cudaMalloc((void **)&device, 16));
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL));
    OK(cudaMemsetAsync(device, 6, 16, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphGetNodes(graph, NULL, &count));
    CHECK(count == 1);
    OK(cudaGraphGetNodes(graph, nodes, &count));
    OK(cudaGraphNodeGetType(nodes[0], &type));
    CHECK(type == cudaGraphNodeTypeMemset);
    OK(cudaGraphInstantiate(&executable, graph, 0));
    OK(cudaGraphUpload(executable, stream));
    OK(cudaMemset(device, 0, 16));
    OK(cudaGraphLaunch(executable, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(back, device, 16, cudaMemcpyDeviceToHost));
    CHECK(back[0] == 6 && back[15] == 6);
    cudaGraphExecUpdateResultInfo result;
    OK_IF_SUPPORTED(cudaGraphExecUpdate(executable, graph, &result));
    OK_IF_SUPPORTED(cudaGraphClone(&clone, graph));
    if (clone) OK(cudaGraphDestroy(clone));
    OK(cudaGraphExecDestroy(executable));
    /* The graph has the only reference, so the object goes with it. */
    cudaUserObject_t object = NULL;
    int destroyed = 0;
    OK(cudaUserObjectCreate(&object, &destroyed, add_one, 1, cudaUserObjectNoDestructorSync));
    OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 1000 && !*(volatile int *)&destroyed; i++) usleep(1000);
    CHECK(destroyed == 1);

    /* A graph made by hand: fill, launch, copy. */
    OK_IF_SUPPORTED(cudaGraphCreate(&empty, 0));
    if (empty) {
        float *numbers, by = 4, one = 1, three[3] = {0};
        int three_count = 3;
        OK(cudaMemcpyToSymbol(&factor_host, &by, 4, 0, cudaMemcpyHostToDevice));
        OK(cudaMalloc((void **)&numbers, 12));
        struct cudaMemsetParams fill = {numbers, 0, 0, 4, 3, 1};
        memcpy(&fill.value, &one, 4);
        void *arguments[] = {&numbers, &three_count};
        struct cudaKernelNodeParams kernel = {&scale_host, {1, 1, 1}, {8, 1, 1}, 0, arguments, NULL};
        OK(cudaGraphAddMemsetNode(&nodes[0], empty, NULL, 0, &fill));
        OK(cudaGraphAddKernelNode(&nodes[1], empty, nodes, 1, &kernel));
        OK(cudaGraphAddMemcpyNode1D(&nodes[2], empty, nodes + 1, 1, three, numbers, 12, cudaMemcpyDeviceToHost));
        OK(cudaGraphAddEmptyNode(&nodes[3], empty, nodes + 2, 1));
        OK(cudaGraphInstantiate(&executable, empty, 0));
        OK(cudaGraphLaunch(executable, stream));
        OK(cudaStreamSynchronize(stream));
        CHECK(three[0] == 4 && three[2] == 4);
        OK(cudaGraphExecDestroy(executable));
        OK(cudaGraphDestroy(empty));
        OK(cudaFree(numbers));
    }
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(device));
}

static void arrays(void) {
    struct cudaChannelFormatDesc format = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned), got;
    struct cudaExtent extent;
    unsigned flags = 9;
    unsigned char from[32], to[32] = {0};
    cudaArray_t array = NULL;
    cudaTextureObject_t object = 0;
    struct cudaResourceDesc resource;
    struct cudaTextureDesc how;
    for (int i = 0; i < 32; i++) from[i] = (unsigned char)i;
    OK(cudaMallocArray(&array, &format, 8, 4, cudaArrayDefault));
    OK(cudaArrayGetInfo(&got, &extent, &flags, array));
    CHECK(got.x == 8 && got.f == cudaChannelFormatKindUnsigned && extent.width == 8 && extent.height == 4 && !flags);
    OK(cudaMemcpy2DToArray(array, 0, 0, from, 8, 8, 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DFromArray(to, 8, array, 0, 0, 8, 4, cudaMemcpyDeviceToHost));
    CHECK(!memcmp(from, to, 32));
    IS(cudaErrorInvalidValue, cudaMemcpy2DToArray(array, 4, 0, from, 8, 8, 4, cudaMemcpyHostToDevice));
    memset(&resource, 0, sizeof resource);
    memset(&how, 0, sizeof how);
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    OK(cudaCreateTextureObject(&object, &resource, &how, NULL));
    CHECK(object != 0);
    OK(cudaDestroyTextureObject(object));
    OK(cudaFreeArray(array));
    IS(cudaErrorInvalidResourceHandle, cudaFreeArray(array));
    cudaGetLastError();
}

static void processes(void) {
    cudaIpcMemHandle_t handle;
    void *device;
    OK(cudaMalloc(&device, 1 << 21));
    OK_IF_SUPPORTED(cudaIpcGetMemHandle(&handle, device));
    OK(cudaFree(device));
}

/* A kernel's wild access loses the context. A reset brings a new one on the simulated GPU; on hardware the process is lost,
   as CUDA documents for this error. Returns the error that stays. */
static cudaError_t lost_context(void) {
    uint64_t address = 64;
    void *arguments[] = {&address};
    OK(cudaLaunchKernel(&wild_host, shape(1, 1, 1), shape(1, 1, 1), arguments, 0, 0));
    cudaError_t lost = cudaDeviceSynchronize();
    CHECK(lost == cudaErrorIllegalAddress || lost == cudaErrorLaunchFailure);
    CHECK(cudaGetLastError() == lost);
    CHECK(cudaGetLastError() == lost);
    void *device = NULL;
    IS(lost, cudaMalloc(&device, 16));
    cudaDeviceReset();
    CHECK(cudaGetLastError() == cudaSuccess);
    const char *driver = getenv("GPULEND_TEST_DRIVER");
    if (driver && !strcmp(driver, "real")) {
        IS(lost, cudaMalloc(&device, 16));
        return lost;
    }
    CHECK(scale_ten(0, 7));
    return cudaSuccess;
}

/* Each device has its own copy of a variable, and a thread begins with the first device. */
static void *other_thread(void *data) {
    OK(cudaGetDevice((int *)data));
    return NULL;
}

static void two_devices(void) {
    int count = 0, first = 11, second = 22, back = 0, device = -1;
    unsigned char *here, *there, bytes[4] = {1, 2, 3, 4}, got[4] = {0};
    pthread_t thread;
    OK(cudaGetDeviceCount(&count));
    if (count < 2) return;
    OK(cudaMemcpyToSymbol(table_host, &first, 4, 0, cudaMemcpyHostToDevice));
    OK(cudaMalloc((void **)&here, 4));
    OK(cudaMemcpy(here, bytes, 4, cudaMemcpyHostToDevice));
    OK(cudaSetDevice(1));
    OK(cudaGetDevice(&device));
    CHECK(device == 1);
    OK(cudaMemcpyToSymbol(table_host, &second, 4, 0, cudaMemcpyHostToDevice));
    CHECK(scale_ten(0, 9));
    OK(cudaMalloc((void **)&there, 4));
    OK(cudaMemcpyPeer(there, 1, here, 0, 4));
    OK(cudaMemcpy(got, there, 4, cudaMemcpyDeviceToHost));
    CHECK(!memcmp(got, bytes, 4));
    pthread_create(&thread, NULL, other_thread, &device);
    pthread_join(thread, NULL);
    CHECK(device == 0);
    /* The other device is untouched by a reset of this one. */
    OK(cudaDeviceReset());
    OK(cudaSetDevice(0));
    OK(cudaMemcpyFromSymbol(&back, table_host, 4, 0, cudaMemcpyDeviceToHost));
    CHECK(back == first);
    OK(cudaMemcpy(got, here, 4, cudaMemcpyDeviceToHost));
    OK(cudaFree(here));
}

int main(void) {
    /* Hardware loses a context by a kernel's mistake; the simulated GPU does so on request. */
    setenv("GPULEND_SIM_STICKY", "1", 0);
    register_images();
    errors();
    devices();
    memory();
    copies();
    symbols();
    launches();
    functions();
    streams_and_events();
    pools();
    graphs();
    arrays();
    processes();
    two_devices();
    OK(cudaDeviceReset());
    CHECK(scale_ten(0, 6));
    symbols();
    cudaError_t lost = lost_context();
    __cudaUnregisterFatBinary(bad);
    __cudaUnregisterFatBinary(good);
    IS(lost ? lost : cudaErrorInvalidDeviceFunction,
       cudaLaunchKernel(&scale_host, shape(1, 1, 1), shape(1, 1, 1), NULL, 0, 0));
    if (!line_failed) puts("all is well");
    return line_failed ? 1 : 0;
}
