// The sum is right by luck at most: nobody waits between the steps.
extern "C" __global__ void race_in_reduction(float *values) {
    __shared__ float part[128];
    part[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half]; // HERE
    }
    if (threadIdx.x == 0) values[0] = part[0];
}
