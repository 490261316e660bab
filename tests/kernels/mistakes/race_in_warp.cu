extern "C" __global__ void race_in_warp(int *values) {
    __shared__ int tile[32];
    tile[threadIdx.x] = values[threadIdx.x]; // HERE
    values[threadIdx.x] = tile[threadIdx.x ^ 1]; // HERE
}
