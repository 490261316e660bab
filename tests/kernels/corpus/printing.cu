// What a kernel prints.
#include <assert.h>
#include <stdio.h>

extern "C" __global__ void say(int number, double fraction, long long wide) {
    assert(blockDim.x <= 32);
    printf("thread %u of block %u: %d %5.2f %lld %s%c %x%%\n", threadIdx.x, blockIdx.x, number + (int)threadIdx.x, fraction, wide,
           "word", '!', 255u);
}
