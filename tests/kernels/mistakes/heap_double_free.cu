// Two threads free the same block.
extern "C" __global__ void heap_double_free(int *out) {
    __shared__ int *blocks[33];
    int i = threadIdx.x;
    if (i < 33) blocks[i] = (int *)malloc(4 * i + 4);
    __syncthreads();
    if (i <= 33) free(blocks[i % 33]); // HERE
    out[i] = i;
}
