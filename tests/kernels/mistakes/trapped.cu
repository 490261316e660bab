extern "C" __global__ void trapped(const int *values) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (values[i] == 70)
        __trap(); // HERE
}
