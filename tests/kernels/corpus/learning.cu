// What neural networks and clustering are made of.

extern "C" __global__ void nearest_centre(const float2 *points, int n, const float2 *centres, int k, int *nearest, float2 *sums,
                                          int *counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int best = 0;
    float least = 3.4e38f;
    for (int c = 0; c < k; ++c) {
        float dx = points[i].x - centres[c].x, dy = points[i].y - centres[c].y;
        float distance = dx * dx + dy * dy;
        if (distance < least) {
            least = distance;
            best = c;
        }
    }
    nearest[i] = best;
    atomicAdd(&sums[best].x, points[i].x);
    atomicAdd(&sums[best].y, points[i].y);
    atomicAdd(&counts[best], 1);
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
extern "C" __global__ void layer_norm(const float *from, const float *scale, const float *shift, float *to, int columns) {
    __shared__ float part[128];
    const float *row = from + blockIdx.x * columns;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
    float mean = sum_of_block(sum, part) / columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
    float deviation = sqrtf(sum_of_block(squares, part) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        to[blockIdx.x * columns + i] = (row[i] - mean) / deviation * scale[i] + shift[i];
}
