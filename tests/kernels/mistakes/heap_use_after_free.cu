// One place of the program reads the block before it is freed and after.
extern "C" __global__ void heap_use_after_free(int *out) {
    int i = threadIdx.x;
    volatile int *own = (int *)malloc(64);
    own[i % 16] = i;
#pragma unroll 1
    for (int k = 0; k < 2; ++k) {
        out[i] += own[i % 16]; // HERE
        if (i == 3) free((void *)own);
    }
    if (i != 3) free((void *)own);
}
