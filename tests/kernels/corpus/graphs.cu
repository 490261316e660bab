// Graphs and sparse matrices.

extern "C" __global__ void floyd_warshall_step(const int *from, int *to, int n, int via) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < n) to[y * n + x] = min(from[y * n + x], from[y * n + via] + from[via * n + x]);
}

// Edges in rows: those of node i end at targets[starts[i]] … targets[starts[i + 1] - 1].
extern "C" __global__ void search_step(const int *starts, const int *targets, int *level, int now, int *changed, int n) {
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= n) return;
    // Others may set levels meanwhile, but only to now + 1.
    if (atomicAdd(&level[node], 0) != now) return;
    for (int edge = starts[node]; edge < starts[node + 1]; ++edge)
        if (atomicCAS(&level[targets[edge]], -1, now + 1) == -1) atomicExch(changed, 1);
}

extern "C" __global__ void sparse_row_per_thread(const int *starts, const int *columns, const float *values, const float *x,
                                                 float *y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int k = starts[row]; k < starts[row + 1]; ++k) sum += values[k] * x[columns[k]];
    y[row] = sum;
}

extern "C" __global__ void sparse_row_per_warp(const int *starts, const int *columns, const float *values, const float *x,
                                               float *y, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int k = starts[row] + lane; k < starts[row + 1]; k += 32) sum += values[k] * x[columns[k]];
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0) y[row] = sum;
}
