// Several threads write the same value to the same shared memory without a barrier in between: their order cannot be seen.

// Each thread brings what it and its neighbour need, as compilers of stencils do.
extern "C" __global__ void overlapping_tiles(const float *x, float *out, int n) {
    __shared__ float tile[130];
    int i = blockIdx.x * 128 + threadIdx.x;
    for (int k = 0; k < 3; ++k) tile[threadIdx.x + k] = i + k < n + 2 ? x[i + k] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = tile[threadIdx.x] + tile[threadIdx.x + 1] + tile[threadIdx.x + 2];
}

// All clear a flag, and those that find something set it.
extern "C" __global__ void any_negative(const int *x, int *out, int n) {
    __shared__ int found;
    __shared__ unsigned char narrow;
    found = 0;
    narrow = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < 0) {
        found = 1;
        narrow = 200;
    }
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = found + narrow;
}

// All compute the same, and each reads what it wrote itself.
extern "C" __global__ void same_number(const int *x, int *out) {
    __shared__ volatile int number;
    number = x[0] * 3;
    int mine = number;
    __syncthreads();
    number = x[1] + x[2];
    out[threadIdx.x] = mine * 1000 + number;
}
