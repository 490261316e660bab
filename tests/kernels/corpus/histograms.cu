// How often each value occurs.

extern "C" __global__ void histogram_global(const int *values, unsigned int *bins, int bin_count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[values[i] % bin_count], 1u);
}

extern "C" __global__ void histogram_shared(const unsigned char *bytes, unsigned int *bins, int n) {
    __shared__ unsigned int own[256];
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) own[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[bytes[i]], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        if (own[bin]) atomicAdd(&bins[bin], own[bin]);
}

// Each thread counts for itself in bytes, 64 threads, 16 bins; a thread sees at most 255 values.
extern "C" __global__ void histogram_byte_bins(const unsigned char *nibbles, unsigned int *bins, int each) {
    __shared__ unsigned char own[64][16];
    for (int bin = 0; bin < 16; ++bin) own[threadIdx.x][bin] = 0;
    for (int i = 0; i < each; ++i) ++own[threadIdx.x][nibbles[i * 64 + threadIdx.x] & 15];
    __syncthreads();
    if (threadIdx.x < 16) {
        unsigned int sum = 0;
        for (int thread = 0; thread < 64; ++thread) sum += own[thread][threadIdx.x];
        bins[threadIdx.x] = sum;
    }
}
