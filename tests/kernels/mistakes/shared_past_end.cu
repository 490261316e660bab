extern "C" __global__ void shared_past_end(int *to, int offset) {
    __shared__ int tile[32];
    tile[threadIdx.x] = 0;
    __syncthreads();
    tile[threadIdx.x + offset] = threadIdx.x; // HERE
    __syncthreads();
    to[threadIdx.x] = tile[threadIdx.x];
}
