extern "C" __global__ void race_of_writes(int *to) {
    __shared__ int last;
    last = threadIdx.x; // HERE
    __syncthreads();
    to[threadIdx.x] = last;
}
