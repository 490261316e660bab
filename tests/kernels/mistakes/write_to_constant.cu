__constant__ int table[32];

// The host gives the address of `table`.
extern "C" __global__ void write_to_constant(int *address, int *to) {
    if (threadIdx.x == 8)
        address[threadIdx.x] = 7; // HERE
    to[threadIdx.x] = table[threadIdx.x];
}
