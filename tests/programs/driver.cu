// Functions of the driver beside the runtime: mapped memory, arrays, copies of rows, registered memory, links, occupancy.
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <vector>

static int failures = 0;
static void check(bool right, int line) {
    if (right) return;
    printf("line %d\n", line);
    failures++;
}
#define CHECK(...) check((__VA_ARGS__), __LINE__)
#define DONE(call) check((call) == CUDA_SUCCESS, __LINE__)

__global__ void fill(int *x, int value) { x[blockIdx.x * blockDim.x + threadIdx.x] = value + threadIdx.x; }

static void mapped() {
    CUdevice device;
    DONE(cuCtxGetDevice(&device));
    int supported = 0;
    DONE(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
    CHECK(supported == 1);
    CUmemAllocationProp about = {};
    about.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    about.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    size_t step = 0;
    DONE(cuMemGetAllocationGranularity(&step, &about, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUdeviceptr address;
    DONE(cuMemAddressReserve(&address, 2 * step, 0, 0, 0));
    CUmemGenericAllocationHandle handles[2];
    for (int i = 0; i < 2; i++) {
        DONE(cuMemCreate(&handles[i], step, &about, 0));
        DONE(cuMemMap(address + i * step, step, 0, handles[i], 0));
    }
    CUmemAccessDesc access = {about.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DONE(cuMemSetAccess(address, 2 * step, &access, 1));
    unsigned long long flags = 0;
    DONE(cuMemGetAccess(&flags, &about.location, address));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    // Half of the numbers are in each of both.
    int *x = reinterpret_cast<int *>(address + step) - 64, numbers[128];
    fill<<<1, 128>>>(x, 7);
    DONE(cuMemcpyDtoH(numbers, reinterpret_cast<CUdeviceptr>(x), sizeof numbers));
    CHECK(numbers[0] == 7 && numbers[64] == 71 && numbers[127] == 134);
    CUmemAllocationProp found;
    DONE(cuMemGetAllocationPropertiesFromHandle(&found, handles[0]));
    CHECK(found.type == about.type && found.location.id == device);
    DONE(cuMemUnmap(address, 2 * step));
    for (CUmemGenericAllocationHandle handle : handles) DONE(cuMemRelease(handle));
    DONE(cuMemAddressFree(address, 2 * step));
}

static void arrays() {
    CUDA_ARRAY_DESCRIPTOR flat = {6, 4, CU_AD_FORMAT_FLOAT, 1}, flat_found;
    CUarray array;
    DONE(cuArrayCreate(&array, &flat));
    DONE(cuArrayGetDescriptor(&flat_found, array));
    CHECK(flat_found.Width == 6 && flat_found.Height == 4 && flat_found.Format == CU_AD_FORMAT_FLOAT);
    float from[4][8], to[4][6] = {};
    for (int i = 0; i < 32; i++) from[i / 8][i % 8] = static_cast<float>(i);
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = from, copy.srcPitch = sizeof from[0];
    copy.srcXInBytes = 4, copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array;
    copy.WidthInBytes = 24, copy.Height = 4;
    DONE(cuMemcpy2D(&copy));
    CUDA_MEMCPY2D back = {};
    back.srcMemoryType = CU_MEMORYTYPE_ARRAY, back.srcArray = array, back.dstMemoryType = CU_MEMORYTYPE_HOST;
    back.dstHost = to, back.dstPitch = sizeof to[0], back.WidthInBytes = 24, back.Height = 4;
    DONE(cuMemcpy2DUnaligned(&back));
    CHECK(to[0][0] == 1 && to[0][5] == 6 && to[3][0] == 25 && to[3][5] == 30);
    DONE(cuArrayDestroy(array));

    CUDA_ARRAY3D_DESCRIPTOR deep = {4, 3, 2, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_SURFACE_LDST}, deep_found;
    DONE(cuArray3DCreate(&array, &deep));
    DONE(cuArray3DGetDescriptor(&deep_found, array));
    CHECK(deep_found.Depth == 2 && deep_found.NumChannels == 4);
    unsigned char bytes[2][3][16], bytes_back[2][3][16] = {};
    for (int i = 0; i < 96; i++) bytes[i / 48][i / 16 % 3][i % 16] = static_cast<unsigned char>(i);
    CUDA_MEMCPY3D there = {};
    there.srcMemoryType = CU_MEMORYTYPE_HOST, there.srcHost = bytes, there.srcPitch = 16, there.srcHeight = 3;
    there.dstMemoryType = CU_MEMORYTYPE_ARRAY, there.dstArray = array;
    there.WidthInBytes = 16, there.Height = 3, there.Depth = 2;
    DONE(cuMemcpy3D(&there));
    CUDA_MEMCPY3D again = {};
    again.srcMemoryType = CU_MEMORYTYPE_ARRAY, again.srcArray = array, again.dstMemoryType = CU_MEMORYTYPE_HOST;
    again.dstHost = bytes_back, again.dstPitch = 16, again.dstHeight = 3;
    again.WidthInBytes = 16, again.Height = 3, again.Depth = 2;
    DONE(cuMemcpy3D(&again));
    CHECK(memcmp(bytes, bytes_back, sizeof bytes) == 0);
    DONE(cuArrayDestroy(array));
}

static void rows() {
    CUdeviceptr address;
    size_t pitch = 0;
    DONE(cuMemAllocPitch(&address, &pitch, 40, 3, 4));
    CHECK(pitch >= 40);
    DONE(cuMemsetD2D8(address, pitch, 1, 40, 3));
    DONE(cuMemsetD2D16(address, pitch, 0x0203, 5, 2));
    DONE(cuMemsetD2D32(address, pitch, 0x04050607, 1, 1));
    unsigned char host[3][40] = {};
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE, copy.srcDevice = address, copy.srcPitch = pitch;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = host, copy.dstPitch = 40;
    copy.WidthInBytes = 40, copy.Height = 3;
    DONE(cuMemcpy2D(&copy));
    CHECK(host[0][0] == 7 && host[0][4] == 3 && host[0][9] == 2 && host[0][10] == 1 && host[1][0] == 3 && host[2][0] == 1);
    DONE(cuMemFree(address));

    alignas(4096) static int registered[1024];
    DONE(cuMemHostRegister(registered, sizeof registered, CU_MEMHOSTREGISTER_DEVICEMAP));
    DONE(cuMemHostGetDevicePointer(&address, registered, 0));
    fill<<<4, 256>>>(reinterpret_cast<int *>(address), 3);
    DONE(cuCtxSynchronize());
    CHECK(registered[0] == 3 && registered[255] == 258 && registered[1023] == 258);
    DONE(cuMemHostUnregister(registered));
}

static const char PART[] = R"(.version 6.3
.target sm_75
.address_size 64
.visible .func (.param .b32 result) seven() { .reg .b32 %r; mov.b32 %r, 7; st.param.b32 [result], %r; ret; }
)";
static const char WHOLE[] = R"(.version 6.3
.target sm_75
.address_size 64
.extern .func (.param .b32 result) seven();
.visible .entry put(.param .u64 to) {
    .reg .b64 %a; .reg .b32 %r;
    ld.param.u64 %a, [to];
    { .param .b32 got; call (got), seven, (); ld.param.b32 %r, [got]; }
    st.global.b32 [%a], %r;
    ret;
}
)";

static size_t shared_of(int threads) { return 16 * threads; }

static void links() {
    CUlinkState state;
    DONE(cuLinkCreate(0, nullptr, nullptr, &state));
    for (const char *text : {PART, WHOLE})
        DONE(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char *>(text), strlen(text) + 1, "part", 0, nullptr,
                           nullptr));
    void *image;
    size_t bytes;
    DONE(cuLinkComplete(state, &image, &bytes));
    CUmodule module;
    CUfunction function;
    DONE(cuModuleLoadData(&module, image));
    DONE(cuLinkDestroy(state));
    DONE(cuModuleGetFunction(&function, module, "put"));
    CUdeviceptr address;
    int value = 0;
    DONE(cuMemAlloc(&address, sizeof value));
    void *arguments[] = {&address};
    DONE(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    DONE(cuMemcpyDtoH(&value, address, sizeof value));
    CHECK(value == 7);
    int grid = 0, block = 0, blocks = 0;
    DONE(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, 0, 0));
    CHECK(grid > 0 && block >= 32);
    DONE(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, shared_of, 0, 128));
    CHECK(grid > 0 && block > 0 && block <= 128);
    DONE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 64, 0, CU_OCCUPANCY_DEFAULT));
    CHECK(blocks > 0);
    DONE(cuModuleUnload(module));
}

int main() {
    cudaFree(nullptr);
    mapped(), arrays(), rows(), links();
    printf("%d failures\n", failures);
}
