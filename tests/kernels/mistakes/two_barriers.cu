extern "C" __global__ void two_barriers(int *values) {
    __shared__ int first[32], second[32];
    if (threadIdx.x < 32) {
        first[threadIdx.x] = values[threadIdx.x] * 3;
        __syncthreads(); // HERE
        values[threadIdx.x] = first[31 - threadIdx.x];
    } else {
        second[threadIdx.x - 32] = values[threadIdx.x] + 1;
        __syncthreads(); // HERE
        values[threadIdx.x] = second[(threadIdx.x + 1) % 32] - 5;
    }
}
