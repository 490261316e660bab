extern "C" __global__ void read_past_end(const int *from, int *to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i + 1]; // HERE
}
