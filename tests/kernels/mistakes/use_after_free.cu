extern "C" __global__ void use_after_free(int *to) {
    if (threadIdx.x == 9)
        to[5] += 1; // HERE
}
