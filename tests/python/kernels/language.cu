// Keywords, indices, vectors, types and limits.
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cuda.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <surface_functions.h>
#include <texture_fetch_functions.h>
#include <limits>
#include <type_traits>
#include <utility>

__constant__ float table[4] = {1, 2, 3, 4};
__device__ unsigned long long counter;
static_assert(sizeof(float3) == 12 && alignof(float3) == 4, "");
static_assert(sizeof(float4) == 16 && alignof(float4) == 16, "");
static_assert(sizeof(double4) == 32 && alignof(double4) == 16, "");
static_assert(sizeof(char2) == 2 && alignof(char2) == 2 && alignof(char4) == 4 && alignof(char3) == 1, "");
static_assert(alignof(short2) == 4 && alignof(int2) == 8 && alignof(longlong2) == 16 && alignof(double2) == 16, "");
static_assert(sizeof(size_t) == 8 && sizeof(uintptr_t) == 8 && sizeof(int64_t) == 8, "");
static_assert(std::numeric_limits<int>::max() == INT_MAX && std::numeric_limits<float>::infinity() > FLT_MAX, "");
static_assert(std::is_same_v<std::remove_reference_t<int &&>, int> && !std::is_signed_v<unsigned>, "");
static_assert(std::is_same_v<std::decay_t<const int[3]>, const int *>, "");
static_assert(CUDA_VERSION >= 12000 && __CUDACC_VER_MAJOR__ == 12 && __CUDA_ARCH__ == 750, "");
struct __align__(16) Padded { int value; };
static_assert(sizeof(Padded) == 16 && offsetof(Padded, value) == 0, "");

template <class T> struct Box {
    T value;
    __host__ __device__ Box(T value) : value(value) {}
    __host__ __device__ T get() const { return value; }
};
__host__ __device__ __forceinline__ int both(int x) { return x + 1; }
__device__ __noinline__ int apart(int x) { return x * 3; }
constexpr int constant(int x) { return x * x; }
// No constant is made of it, and then nvcc lets it call what is not constexpr.
__device__ constexpr float late() { return 1 / logf(10); }
int host_only(int x) { return x; }

extern "C" __global__ void __launch_bounds__(256, 2) language(float *__restrict__ out, const int *in, Box<float> box) {
    extern __shared__ float dynamic[];
    __shared__ float4 fixed[32];
    unsigned int at = blockIdx.x * blockDim.x + threadIdx.x + gridDim.y * threadIdx.z;
    dim3 shape = blockDim, one, given(2, 3);
    uint3 place = threadIdx;
    dynamic[threadIdx.x] = table[at & 3] + box.get();
    fixed[threadIdx.x & 31] = make_float4(1, 2, 3, 4);
    __syncthreads();
    int2 pair = make_int2(in[0], in[1]);
    uchar3 bytes = make_uchar3(1, 2, 3);
    longlong1 lone = make_longlong1(at);
    int a = 1, b = 2;
    std::swap(a, b);
    a = std::exchange(b, std::move(a));
    auto two = std::make_pair(a, 2.0f);
    out[at] = dynamic[at & 31] + fixed[at & 31].w + shape.y + place.x + pair.y + bytes.z + lone.x + both(in[2])
              + apart(in[3]) + constant(4) + late() + warpSize + two.second + one.x + given.y + std::min(a, b)
              + std::max(2.0, 3.0) + std::clamp(a, 0, 5);
    auto twice = [=] __device__(float x) { return x * 2; };
    out[at + 1] = twice(out[at]);
    if (at == 0) counter = clock64() + clock() + __globaltimer();
    __nanosleep(10);
}
template <int n, class T> __global__ void generic(T *p) { p[threadIdx.x] *= n; }
template __global__ void generic<3, double>(double *);
