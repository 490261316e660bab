extern "C" __global__ void write_past_end(int *to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i + 1] = i; // HERE
}
