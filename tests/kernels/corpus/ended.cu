// Threads that have ended are not waited for.
extern "C" __global__ void reverse_some(int *values, int n) {
    __shared__ int tile[64];
    if (threadIdx.x >= n) return;
    tile[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    values[threadIdx.x] = tile[n - 1 - threadIdx.x];
}
