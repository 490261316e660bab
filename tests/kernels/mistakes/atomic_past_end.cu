extern "C" __global__ void atomic_past_end(const int *values, unsigned int *bins) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&bins[values[i]], 1u); // HERE
}
