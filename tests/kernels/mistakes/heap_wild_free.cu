// The memory is the host's to free.
extern "C" __global__ void heap_wild_free(int *out) {
    free(nullptr);
    if (threadIdx.x == 7) free(out); // HERE
}
