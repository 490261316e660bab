// All threads write the same number but for one, whose number may come first or last.
extern "C" __global__ void race_of_values(const int *numbers, int *to) {
    __shared__ int agreed;
    agreed = numbers[threadIdx.x]; // HERE
    __syncthreads();
    to[threadIdx.x] = agreed;
}
