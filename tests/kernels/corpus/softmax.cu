// A row becomes parts of one; the exponential is the library's.

__device__ float greatest_of_block(float value, float *part) {
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    float result = part[0];
    __syncthreads();
    return result;
}

__device__ float sum_of_block(float value, float *part) {
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    float result = part[0];
    __syncthreads();
    return result;
}

// A block a row, 128 threads.
extern "C" __global__ void softmax(const float *from, float *to, int columns) {
    __shared__ float part[128];
    const float *row = from + blockIdx.x * columns;
    float most = -3.4e38f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
    most = greatest_of_block(most, part);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - most);
    sum = sum_of_block(sum, part);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) to[blockIdx.x * columns + i] = expf(row[i] - most) / sum;
}
