extern "C" __global__ void misaligned_int(char *bytes) {
    if (threadIdx.x == 4)
        *(int *)(bytes + 1) = 7; // HERE
}
