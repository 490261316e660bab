extern "C" __global__ void heap_past_end(int *out) {
    int i = threadIdx.x;
    int *own = (int *)malloc(42);
    own[i + 1 > 10 ? 9 : i + 1] = i; // HERE
    out[i] = own[i + 1 > 10 ? 9 : i + 1];
    free(own);
}
