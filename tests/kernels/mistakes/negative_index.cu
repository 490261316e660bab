extern "C" __global__ void negative_index(const double *from, double *to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i - 1]; // HERE
}
