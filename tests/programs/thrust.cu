// Algorithms of Thrust and CUB, of the package nvidia-cuda-cccl, against the same of C++'s library. Prints how many differ.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

#include <cub/block/block_reduce.cuh>
#include <cub/device/device_histogram.cuh>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

static int failures;
#define CHECK(condition)                                                                                               \
    if (!(condition)) printf("line %d: %s\n", __LINE__, #condition), failures++

constexpr int COUNT = 10000;
struct Half {
    __host__ __device__ int operator()(int x) const { return x / 2; }
};
// Of this order no digits are known: a merge sorts by it.
struct LastDigit {
    __host__ __device__ bool operator()(int a, int b) const { return a % 10 < b % 10; }
};

__global__ void sum_of_block(const int *in, int *out) {
    using Reduce = cub::BlockReduce<int, 128>;
    __shared__ Reduce::TempStorage storage;
    int sum = Reduce(storage).Sum(in[threadIdx.x]);
    if (threadIdx.x == 0) *out = sum;
}

static std::vector<int> on_host(const thrust::device_vector<int> &there) {
    std::vector<int> here(there.size());
    thrust::copy(there.begin(), there.end(), here.begin());
    return here;
}

static void thrusts(const std::vector<int> &numbers) {
    thrust::device_vector<int> there(numbers.begin(), numbers.end()), result(COUNT);
    CHECK(thrust::reduce(there.begin(), there.end()) == std::accumulate(numbers.begin(), numbers.end(), 0));
    thrust::transform(there.begin(), there.end(), result.begin(), Half());
    thrust::inclusive_scan(result.begin(), result.end(), result.begin());
    std::vector<int> expected(COUNT);
    std::transform(numbers.begin(), numbers.end(), expected.begin(), Half());
    std::partial_sum(expected.begin(), expected.end(), expected.begin());
    CHECK(on_host(result) == expected);
    expected = numbers;
    std::stable_sort(expected.begin(), expected.end(), LastDigit());
    result = there;
    thrust::stable_sort(result.begin(), result.end(), LastDigit());
    CHECK(on_host(result) == expected);
    std::sort(expected.begin(), expected.end());
    thrust::sort(there.begin(), there.end());
    CHECK(on_host(there) == expected);
}

static void cubs(const std::vector<int> &numbers) {
    thrust::device_vector<int> there(numbers.begin(), numbers.end()), result(4);
    int *in = thrust::raw_pointer_cast(there.data()), *out = thrust::raw_pointer_cast(result.data());
    sum_of_block<<<1, 128>>>(in, out);
    CHECK(result[0] == std::accumulate(numbers.begin(), numbers.begin() + 128, 0));
    size_t bytes = 0;
    CHECK(cub::DeviceHistogram::HistogramEven(nullptr, bytes, in, out, 5, 0, COUNT, COUNT) == cudaSuccess);
    thrust::device_vector<char> storage(bytes);
    void *place = thrust::raw_pointer_cast(storage.data());
    CHECK(cub::DeviceHistogram::HistogramEven(place, bytes, in, out, 5, 0, COUNT, COUNT) == cudaSuccess);
    CHECK(on_host(result) == std::vector<int>(4, COUNT / 4));
}

int main() {
    // Each number below COUNT once: 7919 is a prime.
    std::vector<int> numbers(COUNT);
    for (int i = 0; i < COUNT; i++) numbers[i] = i * 7919 % COUNT;
    thrusts(numbers);
    cubs(numbers);
    printf("%d failures\n", failures);
    return failures != 0;
}
