// Running sums.

// Two buffers, so that no step reads what it writes.
extern "C" __global__ void scan_hillis_steele(const int *values, int *sums) {
    __shared__ int buffer[2][512];
    int i = threadIdx.x, from = 0;
    buffer[0][i] = values[i];
    __syncthreads();
    for (int offset = 1; offset < blockDim.x; offset *= 2) {
        buffer[1 - from][i] = i >= offset ? buffer[from][i] + buffer[from][i - offset] : buffer[from][i];
        from = 1 - from;
        __syncthreads();
    }
    sums[i] = buffer[from][i];
}

// Exclusive; two elements a thread, up the tree and down again.
extern "C" __global__ void scan_blelloch(const unsigned int *values, unsigned int *sums) {
    __shared__ unsigned int tree[512];
    int i = threadIdx.x;
    tree[2 * i] = values[2 * i];
    tree[2 * i + 1] = values[2 * i + 1];
    int offset = 1;
    for (int pairs = 256; pairs > 0; pairs /= 2) {
        __syncthreads();
        if (i < pairs) tree[offset * (2 * i + 2) - 1] += tree[offset * (2 * i + 1) - 1];
        offset *= 2;
    }
    __syncthreads();
    if (i == 0) tree[511] = 0;
    for (int pairs = 1; pairs < 512; pairs *= 2) {
        offset /= 2;
        __syncthreads();
        if (i < pairs) {
            int left = offset * (2 * i + 1) - 1, right = offset * (2 * i + 2) - 1;
            unsigned int was = tree[left];
            tree[left] = tree[right];
            tree[right] += was;
        }
    }
    __syncthreads();
    sums[2 * i] = tree[2 * i];
    sums[2 * i + 1] = tree[2 * i + 1];
}

__device__ int scan_of_warp(int value) {
    int lane = threadIdx.x % 32;
    for (int offset = 1; offset < 32; offset *= 2) {
        int other = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset) value += other;
    }
    return value;
}

extern "C" __global__ void scan_warps(const int *values, int *sums) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[i] = scan_of_warp(values[i]);
}

// The first of three launches: each block by itself, 256 threads, and what it adds up to.
extern "C" __global__ void scan_blocks(const int *values, int *sums, int *totals, int n) {
    __shared__ int warps[8];
    int i = blockIdx.x * blockDim.x + threadIdx.x, warp = threadIdx.x / 32;
    int value = scan_of_warp(i < n ? values[i] : 0);
    if (threadIdx.x % 32 == 31) warps[warp] = value;
    __syncthreads();
    for (int before = 0; before < warp; ++before) value += warps[before];
    if (i < n) sums[i] = value;
    if (threadIdx.x == 255 && totals) totals[blockIdx.x] = value;
}

// The third; the second is `scan_blocks` of the totals.
extern "C" __global__ void add_totals(int *sums, const int *totals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x > 0 && i < n) sums[i] += totals[blockIdx.x - 1];
}
