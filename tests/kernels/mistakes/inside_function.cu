__device__ __noinline__ void put(int *to, int place, int value) {
    to[place] = value; // HERE
}

extern "C" __global__ void inside_function(int *to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) put(to, i, i);
}
