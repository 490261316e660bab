extern "C" __global__ void lanes_never_come(int *values) {
    int value = values[threadIdx.x];
    if (value < 16) {
        values[threadIdx.x] = __shfl_sync(0xffffffffu, value, 20); // HERE
    } else {
        __syncthreads();
        values[threadIdx.x] = -value;
    }
}
