// Launched with one float less than there are threads.
extern "C" __global__ void dynamic_shared_past_end(float *to) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = to[threadIdx.x]; // HERE
    __syncthreads();
    to[threadIdx.x] = tile[0];
}
