// The runtime's functions as programs use them. Each check that fails is printed with its line; the last line says how many.
#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

static int failures = 0;
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) printf("line %d: %s\n", __LINE__, #condition), failures++;                                   \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

__constant__ float factors[4];
__device__ int counter;
__device__ int table[8] = {1, 2, 3, 4, 5, 6, 7, 8};

__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] *= factors[i % 4];
        atomicAdd(&counter, 1);
    }
}
__global__ void reverse(int *to, const int *from) {
    extern __shared__ int block[];
    block[threadIdx.x] = from[threadIdx.x];
    __syncthreads();
    to[threadIdx.x] = block[blockDim.x - 1 - threadIdx.x];
}
__global__ void rows(float *base, size_t pitch, int width) {
    float *row = reinterpret_cast<float *>(reinterpret_cast<char *>(base) + blockIdx.x * pitch);
    if (threadIdx.x < width) row[threadIdx.x] += blockIdx.x;
}
template <class T> __global__ void fill(T *x, T value) { x[threadIdx.x] = value; }
__global__ void wild(int *p) { p[1 << 20] = 1; }

static void symbols() {
    float by[4] = {1, 2, 3, 4}, back[4] = {};
    OK(cudaMemcpyToSymbol(factors, by, sizeof by));
    OK(cudaMemcpyFromSymbol(back, factors, sizeof back));
    CHECK(memcmp(by, back, sizeof by) == 0);
    int zero = 0, count = -1, numbers[8];
    OK(cudaMemcpyToSymbol(counter, &zero, sizeof zero));
    OK(cudaMemcpyFromSymbol(numbers, table, sizeof numbers));
    CHECK(std::accumulate(numbers, numbers + 8, 0) == 36);
    void *address = nullptr;
    size_t size = 0;
    OK(cudaGetSymbolAddress(&address, table));
    OK(cudaGetSymbolSize(&size, table));
    CHECK(address != nullptr && size == 32);
    float *x;
    std::vector<float> host(1000, 1.0f);
    OK(cudaMalloc(&x, 4000));
    OK(cudaMemcpy(x, host.data(), 4000, cudaMemcpyHostToDevice));
    scale<<<4, 256>>>(x, 1000);
    OK(cudaGetLastError());
    OK(cudaMemcpy(host.data(), x, 4000, cudaMemcpyDeviceToHost));
    OK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    CHECK(count == 1000 && host[5] == 2 && host[999] == 4);
    OK(cudaFree(x));
}

static void streams() {
    cudaStream_t first, second;
    cudaEvent_t start, end;
    OK(cudaStreamCreate(&first));
    OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    int *a, *b, *pinned;
    OK(cudaMallocHost(&pinned, 256 * sizeof(int)));
    OK(cudaMallocAsync(&a, 256 * sizeof(int), first));
    OK(cudaMalloc(&b, 256 * sizeof(int)));
    std::iota(pinned, pinned + 256, 0);
    OK(cudaEventRecord(start, first));
    OK(cudaMemcpyAsync(a, pinned, 256 * sizeof(int), cudaMemcpyHostToDevice, first));
    reverse<<<1, 256, 256 * sizeof(int), first>>>(b, a);
    OK(cudaEventRecord(end, first));
    OK(cudaStreamWaitEvent(second, end, 0));
    OK(cudaMemcpyAsync(pinned, b, 256 * sizeof(int), cudaMemcpyDeviceToHost, second));
    OK(cudaStreamSynchronize(second));
    CHECK(pinned[0] == 255 && pinned[255] == 0);
    float milliseconds = -1;
    OK(cudaEventElapsedTime(&milliseconds, start, end));
    CHECK(milliseconds >= 0);
    OK(cudaFreeAsync(a, first));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    OK(cudaFree(b));
    OK(cudaFreeHost(pinned));
}

static void pitched() {
    float *base;
    size_t pitch;
    OK(cudaMallocPitch(&base, &pitch, 100 * sizeof(float), 5));
    CHECK(pitch >= 400);
    std::vector<float> host(500, 1.0f);
    OK(cudaMemcpy2D(base, pitch, host.data(), 400, 400, 5, cudaMemcpyHostToDevice));
    rows<<<5, 128>>>(base, pitch, 100);
    OK(cudaMemcpy2D(host.data(), 400, base, pitch, 400, 5, cudaMemcpyDeviceToHost));
    CHECK(host[0] == 1 && host[499] == 5);
    OK(cudaMemset2D(base, pitch, 0, 400, 5));
    OK(cudaMemcpy2D(host.data(), 400, base, pitch, 400, 5, cudaMemcpyDeviceToHost));
    CHECK(host[250] == 0);
    OK(cudaFree(base));
}

static void managed() {
    double *shared;
    OK(cudaMallocManaged(&shared, 32 * sizeof(double)));
    fill<<<1, 32>>>(shared, 2.5);
    OK(cudaDeviceSynchronize());
    CHECK(shared[0] == 2.5 && shared[31] == 2.5);
    OK(cudaFree(shared));
}

static void devices() {
    int count = 0, device = -1, warp = 0, best = 0, blocks = 0, grid = 0, version = 0;
    OK(cudaGetDeviceCount(&count));
    OK(cudaGetDevice(&device));
    cudaDeviceProp about;
    OK(cudaGetDeviceProperties(&about, 0));
    OK(cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0));
    OK(cudaRuntimeGetVersion(&version));
    CHECK(count >= 1 && device == 0 && warp == 32 && about.warpSize == 32 && about.major >= 7 && version == CUDART_VERSION);
    OK(cudaOccupancyMaxPotentialBlockSize(&grid, &best, reverse));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse, best, 0));
    CHECK(best >= 32 && grid >= 1 && blocks >= 1);
    cudaFuncAttributes of_kernel;
    OK(cudaFuncGetAttributes(&of_kernel, reverse));
    CHECK(of_kernel.maxThreadsPerBlock >= 256);
    CHECK(cudaSetDevice(count) == cudaErrorInvalidDevice);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice && cudaGetLastError() == cudaSuccess);
}

static void launches() {
    int *x;
    OK(cudaMalloc(&x, 64 * sizeof(int)));
    int value = 7;
    void *arguments[] = {&x, &value};
    OK(cudaLaunchKernel(fill<int>, dim3(1), dim3(64), arguments, 0, 0));
    // Threads have devices and errors of their own, and share modules.
    std::thread([x] { fill<<<1, 32>>>(x, 8); }).join();
    int host[64];
    OK(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(host[0] == 8 && host[63] == 7);
    fill<<<1, 5000>>>(x, 1);
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidConfiguration || cudaPeekAtLastError() == cudaErrorInvalidValue);
    cudaGetLastError();
    CHECK(cudaLaunchKernel(reinterpret_cast<const void *>(&failures), dim3(1), dim3(1), arguments, 0, 0)
          == cudaErrorInvalidDeviceFunction);
    cudaGetLastError();
    OK(cudaFree(x));
}

static void capture() {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    int *x, host[32];
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc(&x, sizeof host));
    OK(cudaMemset(x, 0, sizeof host));
    // A fill may end later, and the stream does not wait for the legacy one.
    OK(cudaDeviceSynchronize());
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    fill<<<1, 32, 0, stream>>>(x, 3);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&ready, graph, 0));
    OK(cudaGraphLaunch(ready, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(host[0] == 3 && host[31] == 3);
    OK(cudaGraphExecDestroy(ready));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(x));
}

static void errors() {
    CHECK(strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0);
    CHECK(strlen(cudaGetErrorString(cudaErrorMemoryAllocation)) > 5);
    void *p = nullptr;
    CHECK(cudaMalloc(&p, ~size_t(0) / 2) == cudaErrorMemoryAllocation && p == nullptr);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaMemcpy(&p, &p, 8, static_cast<cudaMemcpyKind>(9)) == cudaErrorInvalidMemcpyDirection);
    cudaGetLastError();
    CHECK(cudaMalloc(static_cast<void **>(nullptr), 8) == cudaErrorInvalidValue);
    cudaGetLastError();
    OK(cudaFree(nullptr));
    CHECK(cudaMemcpy(nullptr, &p, 8, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
    CHECK(cudaOccupancyMaxPotentialBlockSize(static_cast<int *>(nullptr), static_cast<int *>(nullptr), reverse)
          == cudaErrorInvalidValue);
    OK(cudaMemset3D(make_cudaPitchedPtr(&p, 0, 0, 0), 0, make_cudaExtent(0, 1, ~size_t(0))));
    cudaGetLastError();
}

// All that a device has goes with it: handles from before name nothing after.
static void resets() {
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    OK(cudaMallocArray(&array, &format, 8, 8));
    std::thread([] { cudaFree(nullptr), cudaDeviceReset(); }).join();
    OK(cudaDeviceReset());
    int *x, value = 0;
    OK(cudaMalloc(&x, sizeof value));
    CHECK(cudaFreeArray(array) == cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    fill<<<1, 1>>>(x, 4);
    OK(cudaMemcpy(&value, x, sizeof value, cudaMemcpyDeviceToHost));
    CHECK(value == 4);
    OK(cudaFree(x));
}

int main(int argc, char **) {
    if (argc > 1) {
        int *x;
        cudaMalloc(&x, 64);
        wild<<<1, 1>>>(x);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
        return 0;
    }
    symbols();
    streams();
    pitched();
    managed();
    devices();
    launches();
    capture();
    errors();
    resets();
    printf("%d failures\n", failures);
    return failures != 0;
}
