// What kernels of whole programs use of C++, the C library and CUDA, beside the same on the host.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <vector>
#include <cuComplex.h>
#include <cuda_fp16.h>
#include <math_constants.h>

static int failures = 0;
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) printf("line %d: %s\n", __LINE__, #condition), failures++;                                   \
    } while (0)

namespace shapes {
struct Point {
    double x, y;
    __host__ __device__ double length() const { return sqrt(x * x + y * y); }
};
template <class T> __host__ __device__ T square(T value) { return value * value; }
} // namespace shapes

// One function for both sides: what it returns there and here must agree.
__host__ __device__ double mathematics(double x) {
    float f = static_cast<float>(x);
    double sum = sin(x) + cos(x) + tan(x) + exp(x) + log(x) + log2(x) + log10(x) + pow(x, 2.5) + pow(x, 3) + cbrt(x);
    sum += std::sin(x) + std::sqrt(x) + std::exp(f) + std::pow(f, 2.0f) + std::abs(-x) + std::max(x, 2.0) + hypot(x, 2);
    sum += floor(x) + ceil(x) + round(x) + trunc(x) + fabs(-x) + fmod(x, 0.7) + fmin(x, 1.0) + fmax(f, 1.0f) + atan2(x, 2);
    sum += sqrtf(f) + sinf(f) + expf(f) + logf(f) + powf(f, 2) + fabsf(-f) + floorf(f) + fmaf(f, 2, 1) + rsqrtf(f);
    sum += std::min(3, 4) + max(3, 4) + min(2.5f, f) + abs(-3) + std::isnan(x) + isinf(x) + erf(x) + tgamma(x);
    sum += shapes::Point{3, 4}.length() + shapes::square(5) + std::numeric_limits<float>::epsilon() + CUDART_PI;
    int exponent;
    double whole;
    sum += frexp(x, &exponent) + modf(x, &whole) + exponent + whole + ldexp(x, 3) + lround(x) + copysign(x, -1.0);
    return sum;
}
__global__ void mathematics_there(const double *x, double *y) { y[threadIdx.x] = mathematics(x[threadIdx.x]); }

__host__ __device__ int bytes(const char *text) {
    char copy[32];
    memset(copy, 0, sizeof copy);
    memcpy(copy, text, strlen(text) + 1);
    return copy[0] + int(strlen(copy)) + (strcmp(copy, text) == 0) + memcmp(copy, text, 3);
}
__global__ void bytes_there(int *result) { *result = bytes("gpulend"); }

__host__ __device__ cuDoubleComplex complex(cuDoubleComplex z) {
    return cuCdiv(cuCadd(cuCmul(z, z), make_cuDoubleComplex(1, 0)), make_cuDoubleComplex(0.5, cuCabs(z)));
}
__global__ void complex_there(cuDoubleComplex *z) { *z = complex(*z); }

template <class F> __global__ void apply(F function, int *x) { x[threadIdx.x] = function(x[threadIdx.x]); }

__global__ void speak(int n) {
    printf("thread %d of %d: %s %.2f %lld %c%%\n", threadIdx.x, n, "text", 1.5, 1ll << 40, 'x');
    if (threadIdx.x == 0) printf("no values\n");
}

struct __align__(16) Particle {
    float4 position;
    float3 colour;
    short kind;
};
__global__ void move(Particle *all, float3 by) {
    Particle &mine = all[threadIdx.x];
    mine.position = make_float4(mine.position.x + by.x, mine.position.y + by.y, mine.position.z + by.z, 1);
    mine.kind = short(threadIdx.x);
}

__global__ void half_precision(const float *x, float *y) {
    __half value = __float2half(x[threadIdx.x]);
    y[threadIdx.x] = __half2float(__hadd(value, __float2half(1.0f)));
}

__launch_bounds__(128) __global__ void reduce(const int *x, int *sum) {
    __shared__ int parts[4];
    int value = x[threadIdx.x];
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffff, value, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) *sum = parts[0] + parts[1] + parts[2] + parts[3];
}

template <class T> struct Buffer {
    T *data;
    explicit Buffer(const std::vector<T> &values) {
        cudaMalloc(&data, values.size() * sizeof(T));
        cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
    }
    ~Buffer() { cudaFree(data); }
    std::vector<T> read(size_t count) const {
        std::vector<T> values(count);
        CHECK(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
        return values;
    }
};

int main(int argc, char **) {
    if (argc > 1) {
        speak<<<1, 2>>>(2);
        return cudaDeviceSynchronize();
    }
    std::vector<double> x = {0.3, 1.1, 2.7, 5.9};
    Buffer<double> in(x), out(std::vector<double>(4));
    mathematics_there<<<1, 4>>>(in.data, out.data);
    std::vector<double> there = out.read(4);
    for (int i = 0; i < 4; i++) {
        double here = mathematics(x[i]);
        if (!(std::fabs(there[i] - here) < 1e-4 * std::fabs(here)))
            printf("mathematics(%g): %.12g there, %.12g here\n", x[i], there[i], here), failures++;
    }
    Buffer<int> number({0});
    bytes_there<<<1, 1>>>(number.data);
    CHECK(number.read(1)[0] == bytes("gpulend"));
    Buffer<cuDoubleComplex> z({make_cuDoubleComplex(1.5, -2)});
    complex_there<<<1, 1>>>(z.data);
    cuDoubleComplex wanted = complex(make_cuDoubleComplex(1.5, -2)), found = z.read(1)[0];
    CHECK(std::fabs(found.x - wanted.x) < 1e-12 && std::fabs(found.y - wanted.y) < 1e-12);

    Buffer<int> values({1, 2, 3, 4});
    int offset = 10;
    apply<<<1, 4>>>([offset] __device__(int value) { return value + offset; }, values.data);
    CHECK((values.read(4) == std::vector<int>{11, 12, 13, 14}));

    std::vector<Particle> particles(8);
    for (Particle &one : particles) one.position = {1, 2, 3, 0};
    Buffer<Particle> all(particles);
    move<<<1, 8>>>(all.data, make_float3(1, 1, 1));
    particles = all.read(8);
    CHECK(sizeof(Particle) == 32 && particles[7].position.z == 4 && particles[7].kind == 7);

    std::vector<float> small = {0.5f, 2.0f};
    Buffer<float> floats(small), sums(small);
    half_precision<<<1, 2>>>(floats.data, sums.data);
    CHECK((sums.read(2) == std::vector<float>{1.5f, 3.0f}));

    std::vector<int> many(128);
    for (int i = 0; i < 128; i++) many[i] = i;
    Buffer<int> input(many), sum({0});
    reduce<<<1, 128>>>(input.data, sum.data);
    CHECK(sum.read(1)[0] == 127 * 64);

    std::map<std::string, std::function<int(int)>> host = {{"twice", [](int value) { return 2 * value; }}};
    CHECK(host["twice"](21) == 42);
    std::cout << failures << " failures" << std::endl;
    return failures != 0;
}
