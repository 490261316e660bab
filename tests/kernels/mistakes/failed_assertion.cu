#include <assert.h>

extern "C" __global__ void failed_assertion(const int *values) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(values[i] != 70); // HERE
}
