// Each call has an array of its own that the next one reads, so that no call can become a loop.
__device__ __noinline__ int deeper(const int *above, int depth) { // HERE
    if (depth < 0) return 0; // HERE
    int own[4] = {depth, above[1], above[2] ^ depth, above[depth % 4]}; // HERE
    int below = deeper(own, depth + 1); // HERE
    return below + own[depth % 4] + above[(depth + 1) % 4]; // HERE
}

extern "C" __global__ void endless_recursion(int *values) {
    if (threadIdx.x == 6) values[0] = deeper(values, 0);
}
