// What lanes of a warp and threads of a block tell each other.

#define ALL 0xffffffffu

// Eight results a lane, each in a row of `n`.
extern "C" __global__ void shuffles(const int *values, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    int value = values[i];
    out[0 * n + i] = __shfl_sync(ALL, value, 5);
    out[1 * n + i] = __shfl_sync(ALL, value, (lane * 7 + 3) % 32);
    out[2 * n + i] = __shfl_up_sync(ALL, value, 3);
    out[3 * n + i] = __shfl_down_sync(ALL, value, 9);
    out[4 * n + i] = __shfl_xor_sync(ALL, value, 13);
    out[5 * n + i] = __shfl_sync(ALL, value, 2, 8);
    out[6 * n + i] = __shfl_up_sync(ALL, value, 1, 4);
    out[7 * n + i] = __shfl_down_sync(ALL, value, 2, 16);
}

// Wider than a register, and floating.
extern "C" __global__ void shuffles_wide(const double *doubles, const long long *longs, const float *floats, double *d,
                                         long long *l, float *f) {
    int i = threadIdx.x;
    d[i] = __shfl_xor_sync(ALL, doubles[i], 1);
    l[i] = __shfl_down_sync(ALL, longs[i], 1);
    f[i] = __shfl_up_sync(ALL, floats[i], 1);
}

// Half a warp each: both halves name themselves alone.
extern "C" __global__ void shuffle_halves(const int *values, int *out) {
    int lane = threadIdx.x;
    int value = values[lane];
    if (lane < 16)
        out[lane] = __shfl_xor_sync(0x0000ffffu, value, 1) + 1000;
    else
        out[lane] = __shfl_xor_sync(0xffff0000u, value, 2) + 2000;
}

extern "C" __global__ void votes(const int *values, unsigned int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = values[i];
    out[0 * n + i] = __any_sync(ALL, value > 90);
    out[1 * n + i] = __all_sync(ALL, value > 5);
    out[2 * n + i] = __ballot_sync(ALL, value % 3 == 0);
    out[3 * n + i] = __activemask();
    out[4 * n + i] = __match_any_sync(ALL, value);
    int same;
    out[5 * n + i] = __match_all_sync(ALL, value / 1000, &same);
    out[6 * n + i] = same;
}

// 128 threads: count, and, or.
extern "C" __global__ void block_votes(const int *values, int *out) {
    int i = blockIdx.x * 128 + threadIdx.x;
    int count = __syncthreads_count(values[i] % 2);
    int every = __syncthreads_and(values[i] > 3);
    int some = __syncthreads_or(values[i] > 95);
    out[3 * i] = count;
    out[3 * i + 1] = every != 0;
    out[3 * i + 2] = some != 0;
}

// Ranks among the lanes that took the branch.
extern "C" __global__ void ranks(const int *values, int *rank) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool chosen = values[i] % 4 == 1;
    unsigned int others = __ballot_sync(ALL, chosen);
    rank[i] = -1;
    if (chosen) rank[i] = __popc(others & ((1u << threadIdx.x % 32) - 1));
}

// A barrier in a loop whose length is the block's: numbers go round a ring. 64 threads.
extern "C" __global__ void barrier_in_loop(int *values, int turns) {
    __shared__ int ring[64];
    ring[threadIdx.x] = values[blockIdx.x * 64 + threadIdx.x];
    for (int turn = 0; turn < turns + blockIdx.x; ++turn) {
        __syncthreads();
        int taken = ring[(threadIdx.x + 1) % 64];
        __syncthreads();
        ring[threadIdx.x] = taken + 1;
    }
    values[blockIdx.x * 64 + threadIdx.x] = ring[threadIdx.x];
}

// A barrier in a branch that a whole block takes or leaves.
extern "C" __global__ void barrier_in_uniform_branch(const int *values, int *out) {
    __shared__ int tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (blockIdx.x % 2 == 0) {
        tile[threadIdx.x] = values[i];
        __syncthreads();
        out[i] = tile[63 - threadIdx.x];
    } else {
        out[i] = -values[i];
    }
}

// Neighbours within a warp, with no barrier of the block.
extern "C" __global__ void exchange_in_warp(const int *values, int *out) {
    __shared__ int tile[64];
    tile[threadIdx.x] = values[threadIdx.x];
    __syncwarp();
    int other = tile[threadIdx.x ^ 1];
    __syncwarp();
    tile[threadIdx.x] = other * 2;
    __syncwarp();
    out[threadIdx.x] = tile[threadIdx.x ^ 31];
}

// `redux` is an instruction of sm_80; the headers make it of shuffles for less.
extern "C" __global__ void warp_reduce(const unsigned int *values, unsigned int *out) {
    unsigned int value = values[threadIdx.x];
    out[5 * threadIdx.x] = __reduce_add_sync(ALL, value);
    out[5 * threadIdx.x + 1] = __reduce_min_sync(ALL, value);
    out[5 * threadIdx.x + 2] = __reduce_max_sync(ALL, value);
    out[5 * threadIdx.x + 3] = __reduce_and_sync(ALL, value);
    out[5 * threadIdx.x + 4] = __reduce_xor_sync(ALL, value);
}
