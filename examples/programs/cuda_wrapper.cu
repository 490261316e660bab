// A C function that hides the GPU: for ctypes, C and C++.
//
//     gpulend build -shared cuda_wrapper.cu -o cuda_wrapper.so
#include <cuda.h>
#include <stdio.h>

__global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// Device memory that is freed when it goes out of scope.
struct Array {
    float *data = nullptr;
    explicit Array(size_t size) { status = cudaMalloc(&data, size); }
    ~Array() { cudaFree(data); }
    cudaError_t status;
};

// Adds two arrays of n numbers. Returns 0, or CUDA's number of what went wrong.
extern "C" int vectorAddWrapper(float *a, float *b, float *c, int n) {
    size_t size = n * sizeof(float);
    Array on_device[3] = {Array(size), Array(size), Array(size)};
    for (const Array &array : on_device)
        if (array.status != cudaSuccess) return array.status;
    cudaMemcpy(on_device[0].data, a, size, cudaMemcpyHostToDevice);
    cudaMemcpy(on_device[1].data, b, size, cudaMemcpyHostToDevice);
    vectorAdd<<<(n + 255) / 256, 256>>>(on_device[0].data, on_device[1].data, on_device[2].data, n);
    // It waits for the kernel, and returns the kernel's error too.
    return cudaMemcpy(c, on_device[2].data, size, cudaMemcpyDeviceToHost);
}
