extern "C" __global__ void race_across_warps(int *values) {
    __shared__ int tile[64];
    tile[threadIdx.x] = values[threadIdx.x]; // HERE
    __syncwarp();
    values[threadIdx.x] = tile[(threadIdx.x + 32) % 64]; // HERE
}
