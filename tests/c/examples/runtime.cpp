/* A C++ library with memory of its own, from cudaMalloc, that hands it to Python: gpulend says when to free it.
 *
 * c++ -std=c++17 -shared -fPIC runtime.cpp $(python -m gpulend.config --cflags --libs) -lcudart -o runtime.so
 */
#include <gpulend.hpp>

#include <atomic>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <numeric>

namespace {

std::atomic<int> freed{0};

bool failed(cudaError_t error) {
    if (error != cudaSuccess) std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}

}  // namespace

extern "C" int howOftenFreed() { return freed; }

/* 0, 1, 2 and so on, written by a stream of ours; the lease says that whoever reads waits for it. */
extern "C" int makeRamp(int n, gpulend_lease *ramp) {
    static std::vector<float> numbers;
    numbers.resize(std::size_t(n));
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    float *memory;
    cudaStream_t stream;
    if (failed(cudaMalloc(reinterpret_cast<void **>(&memory), numbers.size() * sizeof(float)))) return -1;
    if (failed(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking))) return -1;
    if (failed(cudaMemcpyAsync(memory, numbers.data(), numbers.size() * sizeof(float), cudaMemcpyHostToDevice, stream)))
        return -1;
    auto free = [stream](std::uint64_t address, std::uint64_t) noexcept {
        failed(cudaFree(reinterpret_cast<void *>(address)));
        failed(cudaStreamDestroy(stream));
        freed++;
    };
    try {
        auto ready_on = gpulend::Stream::wrap(0, stream);
        *ramp = gpulend::Lease::wrap(memory, {n}, GPULEND_FLOAT32, free, 0, 0, ready_on.get()).detach();
        return GPULEND_OK;
    } catch (const gpulend::Error &error) {
        return free(reinterpret_cast<std::uintptr_t>(memory), 0), error.code;
    }
}
