// Sums, products and the greatest, in the ways in which they are taught.

extern "C" __global__ void sum_by_tree(const float *values, float *sums, int n) {
    __shared__ float part[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    part[threadIdx.x] = i < n ? values[i] : 0.0f;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}

template <typename T> __device__ T sum_of_warp(T value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// The sum is thread 0's. The block is a number of whole warps.
template <typename T> __device__ T sum_of_block(T value) {
    __shared__ T part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    value = sum_of_warp(value);
    if (lane == 0) part[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < blockDim.x / 32 ? part[lane] : T(0);
        value = sum_of_warp(value);
    }
    return value;
}

// Launched twice: the second time one block adds what the blocks of the first have found.
extern "C" __global__ void sum_by_shuffles(const float *values, float *sums, int n) {
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += values[i];
    float sum = sum_of_block(mine);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

extern "C" __global__ void sum_double(const double *values, double *sum, int n) {
    double mine = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) mine += values[i];
    double all = sum_of_block(mine);
    if (threadIdx.x == 0) *sum = all;
}

extern "C" __global__ void sum_by_atomics(const float *values, float *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sum, values[i]);
}

extern "C" __global__ void dot_product(const float *a, const float *b, float *sum, int n) {
    float mine = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += a[i] * b[i];
    float block = sum_of_block(mine);
    if (threadIdx.x == 0) atomicAdd(sum, block);
}

// The greatest and the first place where it stands, a pair for each block.
extern "C" __global__ void greatest(const int *values, int *best, int *place, int n) {
    __shared__ int value[256], index[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    value[threadIdx.x] = i < n ? values[i] : -2147483647 - 1;
    index[threadIdx.x] = i;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            int other = threadIdx.x + half;
            bool better = value[other] > value[threadIdx.x];
            bool earlier = value[other] == value[threadIdx.x] && index[other] < index[threadIdx.x];
            if (better || earlier) {
                value[threadIdx.x] = value[other];
                index[threadIdx.x] = index[other];
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        best[blockIdx.x] = value[0];
        place[blockIdx.x] = index[0];
    }
}
