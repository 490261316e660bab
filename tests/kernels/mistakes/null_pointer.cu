extern "C" __global__ void null_pointer(int *to) {
    if (threadIdx.x == 3)
        *to = 7; // HERE
}
