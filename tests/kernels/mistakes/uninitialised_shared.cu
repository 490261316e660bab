extern "C" __global__ void uninitialised_shared(int *to) {
    __shared__ int tile[64];
    if (threadIdx.x != 40) tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    to[threadIdx.x] = tile[63 - threadIdx.x]; // HERE
}
